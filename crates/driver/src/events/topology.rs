//! Events of server discovery and monitoring.

use std::sync::Arc;
use std::time::Duration;

use bson::Document;

use crate::error::DriverError;
use crate::settings::ServerAddress;
use crate::topology::{ServerDescription, TopologyDescription};

/// Something about the servers.
#[derive(Debug, Clone)]
pub enum TopologyEvent {
    /// Monitoring begins.
    TopologyOpening,
    /// What is known of the whole changed.
    TopologyDescriptionChanged {
        /// Before.
        previous: Arc<TopologyDescription>,
        /// Now.
        current: Arc<TopologyDescription>,
    },
    /// Monitoring ended.
    TopologyClosed,
    /// A server is looked at from now on.
    ServerOpening {
        /// Which.
        address: ServerAddress,
    },
    /// What is known of a server changed.
    ServerDescriptionChanged {
        /// Before.
        previous: Arc<ServerDescription>,
        /// Now.
        current: Arc<ServerDescription>,
    },
    /// A server is not looked at any more.
    ServerClosed {
        /// Which.
        address: ServerAddress,
    },
    /// A check begins.
    HeartbeatStarted {
        /// The server.
        address: ServerAddress,
        /// Whether the server may wait with its answer.
        awaited: bool,
    },
    /// A check was answered.
    HeartbeatSucceeded {
        /// The server.
        address: ServerAddress,
        /// Whether the server was allowed to wait.
        awaited: bool,
        /// The `hello` reply.
        reply: Document,
        /// How long it took.
        duration: Duration,
    },
    /// A check failed.
    HeartbeatFailed {
        /// The server.
        address: ServerAddress,
        /// Whether the server was allowed to wait.
        awaited: bool,
        /// Why.
        error: DriverError,
        /// How long it took.
        duration: Duration,
    },
}
