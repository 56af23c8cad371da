//! Who is told what happens in a consumer.

use std::sync::Arc;

use crate::bounds::{Spent, Terminal};
use crate::dead_letters::{RecoverError, Recovered};
use crate::failure::Failure;
use crate::record::{Record, TopicPartition};
use crate::source::{CommitError, SourceError};

/// What happened. Records are named by their topic, partition and offset, so that a ledger outside can tell which record
/// ran where, how often, and in two consumers at once.
#[derive(Debug, Clone, Copy)]
pub enum ConsumerEvent<'a> {
    /// Partitions are this consumer's.
    Assigned {
        /// Which.
        partitions: &'a [TopicPartition],
    },
    /// Partitions were given up; what was done is committed.
    Revoked {
        /// Which.
        partitions: &'a [TopicPartition],
    },
    /// Partitions were taken away, because the consumer left its group without knowing.
    Lost {
        /// Which.
        partitions: &'a [TopicPartition],
    },
    /// An execution begins.
    ExecutionStarted {
        /// Its records: one, or a batch.
        records: &'a [Arc<Record>],
        /// Which delivery of the first record it is, from 1 on; counted anew when the back-off starts over.
        attempt: u64,
    },
    /// It returned without an error.
    Succeeded {
        /// Its records.
        records: &'a [Arc<Record>],
        /// As when it started.
        attempt: u64,
        /// Whether the partition had been handed over meanwhile: nothing is committed, and it ran or will run elsewhere.
        stale: bool,
    },
    /// It failed.
    Failed {
        /// Its records.
        records: &'a [Arc<Record>],
        /// As when it started.
        attempt: u64,
        /// Why.
        failure: &'a Failure,
        /// Which record of the batch failed, where that is known.
        index: Option<usize>,
        /// As with `Succeeded`.
        stale: bool,
    },
    /// What followed from a failure for a record.
    Decided {
        /// The record; of a batch without an index, its first.
        record: &'a Arc<Record>,
        /// Whether the failure is one to try again after.
        retryable: bool,
        /// Whether the back-off started over, because the error's class is another than before.
        back_off_restarted: bool,
        /// The wait before the next execution, in milliseconds; `None`: it is given up.
        wait_ms: Option<u64>,
        /// Why it is given up.
        spent: Option<Spent>,
    },
    /// An execution runs longer than its budget; in Spring's mode: it has outlived the poll interval. Told once per
    /// budget, not once per look.
    OverBudget {
        /// Its records.
        records: &'a [Arc<Record>],
        /// How long it has run, in milliseconds.
        ran_ms: u64,
        /// The budget, in milliseconds.
        budget_ms: u64,
    },
    /// A partition was handed over while its record is still being executed here: it may run in two places.
    HandedOverWhileRunning {
        /// The partition.
        partition: &'a TopicPartition,
        /// The records.
        records: &'a [Arc<Record>],
    },
    /// A record is a dead letter, or was dropped as the settings say.
    Recovered {
        /// The record.
        record: &'a Arc<Record>,
        /// Where it is.
        recovered: &'a Recovered,
        /// The failure it was given up for.
        failure: &'a Failure,
    },
    /// A record could not be made a dead letter.
    RecoveryFailed {
        /// The record.
        record: &'a Arc<Record>,
        /// Why.
        error: &'a RecoverError,
        /// How often it was tried.
        tries: u32,
        /// Whether it was tried as often as the settings allow: somebody should look.
        alarm: bool,
    },
    /// A record reached its terminal state.
    Terminal {
        /// The record. With [`Terminal::Skip`] nobody else has it.
        record: &'a Arc<Record>,
        /// Which state.
        terminal: Terminal,
        /// The failure it was given up for.
        failure: &'a Failure,
    },
    /// Offsets are committed.
    Committed {
        /// For each partition the offset to begin with next time.
        offsets: &'a [(TopicPartition, i64)],
    },
    /// They are not.
    CommitFailed {
        /// What was to be committed.
        offsets: &'a [(TopicPartition, i64)],
        /// Why.
        error: &'a CommitError,
    },
    /// The source failed; it is asked again.
    SourceFailed {
        /// How.
        error: &'a SourceError,
    },
}

/// Something to tell events to. A closure is one. It is called between steps, so it should not take long.
pub trait Observer: Send {
    /// Something happened now.
    fn on_event(&mut self, event: &ConsumerEvent<'_>);
}

impl<F: FnMut(&ConsumerEvent<'_>) + Send> Observer for F {
    fn on_event(&mut self, event: &ConsumerEvent<'_>) {
        self(event);
    }
}

/// An observer that does nothing.
pub fn unobserved(_: &ConsumerEvent<'_>) {}
