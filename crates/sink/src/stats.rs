//! What a sink has done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backfire_consumer::{ConsumerEvent, Observer, StopHandle};

/// Counts of a running sink. All of them only grow.
#[derive(Debug, Default)]
pub struct Stats {
    done: AtomicU64,
    dead_letters: AtomicU64,
    bulks: AtomicU64,
    writes: AtomicU64,
    already_there: AtomicU64,
    failures: AtomicU64,
    waits_ms: AtomicU64,
    rebalances: AtomicU64,
    commits_failed: AtomicU64,
    recoveries_failed: AtomicU64,
    source_failures: AtomicU64,
}

/// What a sink has done, at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Records that are done: written, skipped as the settings say, or dead letters.
    pub done: u64,
    /// Those of them that are dead letters.
    pub dead_letters: u64,
    /// Executions: bulks that were begun.
    pub bulks: u64,
    /// Writes in them; a record that is executed again counts again.
    pub writes: u64,
    /// Inserts that found their own document from an earlier execution.
    pub already_there: u64,
    /// Executions that failed.
    pub failures: u64,
    /// The sum of the waits before retries, in milliseconds.
    pub waits_ms: u64,
    /// Assignments of partitions.
    pub rebalances: u64,
    /// Commits that failed; what they were about may be executed again.
    pub commits_failed: u64,
    /// Tries to publish a dead letter that failed.
    pub recoveries_failed: u64,
    /// Polls that failed because no broker was there.
    pub source_failures: u64,
    /// Records that were begun by one consumer of this sink and then, not committed, by another.
    pub handed_to_two: u64,
}

impl Stats {
    /// The counts now.
    pub fn summary(&self) -> Summary {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Summary {
            done: get(&self.done),
            dead_letters: get(&self.dead_letters),
            bulks: get(&self.bulks),
            writes: get(&self.writes),
            already_there: get(&self.already_there),
            failures: get(&self.failures),
            waits_ms: get(&self.waits_ms),
            rebalances: get(&self.rebalances),
            commits_failed: get(&self.commits_failed),
            recoveries_failed: get(&self.recoveries_failed),
            source_failures: get(&self.source_failures),
            handed_to_two: 0,
        }
    }

    pub(crate) fn bulk(&self, writes: usize) {
        add(&self.bulks, 1);
        add(&self.writes, writes as u64);
    }

    pub(crate) fn already_there(&self) {
        add(&self.already_there, 1);
    }

    /// An observer that counts, and asks `stop` to stop when `limit` records are done.
    pub(crate) fn observer(self: &Arc<Self>, limit: Option<u64>, stop: StopHandle) -> impl Observer + use<> {
        let stats = Arc::clone(self);
        move |event: &ConsumerEvent<'_>| {
            match event {
                ConsumerEvent::Succeeded { records, stale: false, .. } => add(&stats.done, records.len() as u64),
                ConsumerEvent::Failed { index, stale, .. } => {
                    add(&stats.failures, 1);
                    if !stale {
                        add(&stats.done, index.unwrap_or(0) as u64);
                    }
                }
                ConsumerEvent::Decided { wait_ms: Some(wait_ms), .. } => add(&stats.waits_ms, *wait_ms),
                ConsumerEvent::Recovered { .. } => {
                    add(&stats.done, 1);
                    add(&stats.dead_letters, 1);
                }
                ConsumerEvent::Assigned { .. } => add(&stats.rebalances, 1),
                ConsumerEvent::CommitFailed { .. } => add(&stats.commits_failed, 1),
                ConsumerEvent::RecoveryFailed { .. } => add(&stats.recoveries_failed, 1),
                ConsumerEvent::SourceFailed { .. } => add(&stats.source_failures, 1),
                _ => return,
            }
            if limit.is_some_and(|limit| stats.done.load(Ordering::Relaxed) >= limit) {
                stop.stop();
            }
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
