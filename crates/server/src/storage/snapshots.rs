//! Snapshots that clients were given, so that they can read the same state again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bson::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Snapshot;

/// How long a snapshot is kept; a mongod's `minSnapshotHistoryWindowInSeconds`.
const WINDOW: Duration = Duration::from_secs(300);
/// How many are kept; beyond that, the oldest goes.
const MAX: usize = 1000;

/// Snapshots by the time of the newest write in them.
#[derive(Debug, Default)]
pub struct Snapshots(Mutex<BTreeMap<Timestamp, Kept>>);

/// A snapshot, and when it was given out first.
type Kept = (Instant, Arc<dyn Snapshot>);

impl Snapshots {
    /// The snapshot of `time`, which is now: the one that was given out for it before, or a new one.
    pub fn at_newest(&self, time: Timestamp, take: impl FnOnce() -> Box<dyn Snapshot>) -> Arc<dyn Snapshot> {
        let mut kept = self.0.lock();
        let now = Instant::now();
        kept.retain(|_, (given, _)| now.saturating_duration_since(*given) < WINDOW);
        let (_, snapshot) = kept.entry(time).or_insert_with(|| (now, Arc::from(take())));
        let snapshot = Arc::clone(snapshot);
        if kept.len() > MAX {
            kept.pop_first();
        }
        snapshot
    }

    /// The snapshot that was given out for `time`, if it is still there.
    pub fn at(&self, time: Timestamp) -> Option<Arc<dyn Snapshot>> {
        let kept = self.0.lock();
        let (given, snapshot) = kept.get(&time)?;
        (given.elapsed() < WINDOW).then(|| Arc::clone(snapshot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Engine;
    use crate::storage::memory::MemoryEngine;

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_is_kept_for_its_window_and_their_number_is_limited() {
        let (snapshots, engine) = (Snapshots::default(), MemoryEngine::default());
        let at = |time| Timestamp { time, increment: 1 };
        let first = snapshots.at_newest(at(1), || engine.snapshot());
        assert!(Arc::ptr_eq(&first, &snapshots.at_newest(at(1), || engine.snapshot())));
        assert!(snapshots.at(at(2)).is_none());
        tokio::time::advance(WINDOW - Duration::from_millis(1)).await;
        assert!(snapshots.at(at(1)).is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(snapshots.at(at(1)).is_none());
        (1..=1001).for_each(|time| drop(snapshots.at_newest(at(time), || engine.snapshot())));
        assert!(snapshots.at(at(1)).is_none() && snapshots.at(at(2)).is_some());
    }
}
