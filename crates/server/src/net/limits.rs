//! How long a connection waits for its client.
//!
//! A client that has stopped reading, or has gone without a word, must not keep what belongs to it for good. Nobody else is
//! disturbed by it meanwhile: each connection is a task of its own.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What a client may make its connection wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the first byte of a message to its last.
    pub message: Duration,
    /// Until a reply has been taken.
    pub reply: Duration,
    /// A connection at rest for so long is probed (TCP keep-alive), and closed when the other side does not answer. A mongod
    /// has the same 300 s at most.
    pub keep_alive: Duration,
}

impl Limits {
    /// Far beyond what a working client needs: five minutes each.
    pub const DEFAULT: Self = Self {
        message: Duration::from_secs(300),
        reply: Duration::from_secs(300),
        keep_alive: Duration::from_secs(300),
    };
}

/// Connections that were closed because their client kept them waiting.
#[derive(Debug, Default)]
pub struct Dropped {
    /// A message was begun and not finished.
    pub unfinished_messages: AtomicU64,
    /// A reply was not taken.
    pub slow_readers: AtomicU64,
}
