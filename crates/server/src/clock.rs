//! Wall time, derived from tokio's clock so that a paused clock stops it too.

use tokio::time::Instant;

/// A clock that starts at a given wall time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    started_at_ms: i64,
}

impl Clock {
    /// A clock that shows `started_at_ms` (milliseconds since 1970) now.
    pub fn starting_at(started_at_ms: i64) -> Self {
        Self { started: Instant::now(), started_at_ms }
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.started_at_ms + self.uptime().as_millis() as i64
    }

    /// The same as a BSON date.
    pub fn now(&self) -> bson::DateTime {
        bson::DateTime::from_millis(self.now_ms())
    }

    /// The wall time at which it was made.
    pub fn started_at(&self) -> bson::DateTime {
        bson::DateTime::from_millis(self.started_at_ms)
    }

    /// Time since the clock was made.
    pub fn uptime(&self) -> std::time::Duration {
        self.started.elapsed()
    }
}
