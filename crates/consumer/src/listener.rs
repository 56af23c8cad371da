//! Who is told what happens to a record.

use backfire_model::Execution;

use crate::dead_letters::DeadLettersFull;
use crate::failure::Failure;
use crate::record::Record;

/// What happened to a record.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// An execution begins.
    ExecutionStarted {
        /// Which, from 1 on.
        execution: Execution,
        /// Spring Kafka's delivery attempt: the same number, but counted anew when the back-off starts over.
        attempt: u64,
    },
    /// It returned without an error: the record is done.
    Succeeded {
        /// Which.
        execution: Execution,
    },
    /// It failed.
    Failed {
        /// Which.
        execution: Execution,
        /// The error's text and class, and its causes.
        failure: &'a Failure,
        /// Whether the error is one to try again after.
        retryable: bool,
        /// Whether the back-off started over, because the error's class is another than before.
        back_off_restarted: bool,
    },
    /// The wait before the next execution begins.
    Waiting {
        /// The wait by the back-off.
        wait_ms: u64,
    },
    /// The record was given up and is a dead letter: the record is done.
    DeadLettered {
        /// The last execution.
        execution: Execution,
        /// The dead letter.
        letter: &'a Record,
    },
    /// It was given up and could not be stored: it is executed again.
    RecoveryFailed {
        /// The last execution.
        execution: Execution,
        /// Why.
        reason: &'a DeadLettersFull,
    },
}

/// Something to tell events to. A closure is one. It is called between steps, so it should not take long.
pub trait Listener {
    /// Something happened to the record.
    fn on_event(&mut self, record: &Record, event: Event<'_>);
}

impl<F: FnMut(&Record, Event<'_>)> Listener for F {
    fn on_event(&mut self, record: &Record, event: Event<'_>) {
        self(record, event);
    }
}

/// A listener that does nothing.
pub fn unheard(_: &Record, _: Event<'_>) {}
