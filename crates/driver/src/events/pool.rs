//! Events of connection pools, with the names and reasons of the CMAP specification
//! (<https://github.com/mongodb/specifications/blob/master/source/connection-monitoring-and-pooling/connection-monitoring-and-pooling.md>).

use std::time::Duration;

use crate::connection::ConnectionInfo;
use crate::error::DriverError;
use crate::settings::ServerAddress;

/// Why a connection was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The pool was cleared after it was opened.
    Stale,
    /// It was unused for `maxIdleTimeMS`, or older than `maxLifeTimeMS`.
    Idle,
    /// It failed.
    Error,
    /// The pool was closed.
    PoolClosed,
}

/// Why there was no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOutFailure {
    /// The pool is closed.
    PoolClosed,
    /// The time for waiting ran out.
    Timeout,
    /// The connection could not be opened, or the pool was cleared.
    ConnectionError,
}

/// Something about a pool.
#[derive(Debug, Clone)]
pub enum PoolEvent {
    /// A pool exists, paused.
    PoolCreated {
        /// Its server.
        address: ServerAddress,
    },
    /// Connections may be opened.
    PoolReady {
        /// Its server.
        address: ServerAddress,
    },
    /// All connections that exist became stale, and the pool pauses.
    PoolCleared {
        /// Its server.
        address: ServerAddress,
    },
    /// The pool ended.
    PoolClosed {
        /// Its server.
        address: ServerAddress,
    },
    /// A connection is about to be opened.
    ConnectionCreated {
        /// Which.
        connection: ConnectionInfo,
    },
    /// A connection is open.
    ConnectionReady {
        /// Which.
        connection: ConnectionInfo,
        /// How long opening took.
        duration: Duration,
    },
    /// A connection was closed.
    ConnectionClosed {
        /// Which.
        connection: ConnectionInfo,
        /// Why.
        reason: CloseReason,
    },
    /// An operation wants a connection.
    CheckOutStarted {
        /// The server.
        address: ServerAddress,
    },
    /// It got none.
    CheckOutFailed {
        /// The server.
        address: ServerAddress,
        /// Why.
        reason: CheckOutFailure,
        /// The error the operation sees.
        error: DriverError,
        /// How long it waited.
        duration: Duration,
    },
    /// It got one.
    CheckedOut {
        /// Which.
        connection: ConnectionInfo,
        /// How long it waited, opening included.
        duration: Duration,
    },
    /// A connection came back.
    CheckedIn {
        /// Which.
        connection: ConnectionInfo,
    },
}
