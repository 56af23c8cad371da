//! Asking a container to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Asks containers to end. Clones ask the same ones; one handle may be shared by many.
#[derive(Debug, Clone, Default)]
pub struct StopHandle {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    requested: AtomicBool,
    changed: Notify,
}

impl StopHandle {
    /// Nobody has asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks: the execution that runs is ended, what is done is committed, and the group is left.
    pub fn stop(&self) {
        self.shared.requested.store(true, Ordering::Release);
        self.shared.changed.notify_waiters();
    }

    /// Whether somebody has asked.
    pub fn is_requested(&self) -> bool {
        self.shared.requested.load(Ordering::Acquire)
    }

    /// Waits until somebody asks.
    pub async fn requested(&self) {
        let changed = self.shared.changed.notified();
        if !self.is_requested() {
            changed.await;
        }
    }
}
