//! A pool's background work: close what is idle for too long, open what `minPoolSize` lacks.

use std::sync::Arc;

use tokio::time::{Instant, timeout};

use crate::error::DriverError;

use super::{Grant, OpeningSlot, Phase, Pool};

/// Runs until the pool is closed. `failed` hears of connections that could not be opened.
pub(super) async fn run(pool: Arc<Pool>, failed: impl Fn(DriverError, u64) + Send + Sync + 'static) {
    while pool.state.lock().phase != Phase::Closed {
        pool.prune();
        pool.fill(&failed).await;
        // Woken early when the pool becomes ready or closes; the result of the wait does not matter.
        let _ = timeout(pool.settings.pool_maintenance_frequency, pool.wake_maintenance.notified()).await;
    }
}

impl Pool {
    fn prune(&self) {
        let mut state = self.state.lock();
        let (generation, now) = (state.generation, Instant::now());
        self.close_idle(&mut state, |idle| self.perished(idle, generation, now));
    }

    async fn fill(self: &Arc<Self>, failed: &(impl Fn(DriverError, u64) + Send + Sync)) {
        loop {
            let slot = {
                let mut state = self.state.lock();
                if state.phase != Phase::Ready || state.total >= self.settings.min_pool_size || !self.may_open(&state) {
                    return;
                }
                let generation = state.generation;
                state.total += 1;
                state.opening += 1;
                OpeningSlot { pool: self.clone(), generation, done: false }
            };
            let generation = slot.generation;
            match self.open(slot, self.background_limits()).await {
                // It never was in use, so it becomes idle without a check-in event.
                Ok(connection) => {
                    let mut state = self.state.lock();
                    self.take_back(&mut state, Grant::Connection(Box::new(connection)));
                    self.serve_waiting(&mut state);
                }
                Err(error) => {
                    failed(error, generation);
                    return;
                }
            }
        }
    }
}
