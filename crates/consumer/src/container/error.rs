//! Why a container did not start, or ended by itself.

use std::sync::Arc;

use backfire_model::back_off::BackOffError;

use crate::failure::Failure;
use crate::record::Record;
use crate::source::SourceError;

/// Why a container did not start, or ended by itself. What was not committed is delivered again.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The back-off cannot be used.
    #[error("the back-off cannot be used: {0}")]
    BackOff(#[from] BackOffError),
    /// Settings that contradict each other.
    #[error("{0}")]
    Settings(String),
    /// The poll budget does not fit, and the settings say that this is an error.
    #[error("the consumer would be thrown out of its group: {0}")]
    PollBudget(String),
    /// The source failed for good, or for too long.
    #[error("the source failed: {0}")]
    Source(#[from] SourceError),
    /// A record could not be given up, and the settings say to stop then.
    #[error("stopped at {}-{}@{}: it could not be made a dead letter; {failure}", record.topic, record.partition, record.offset)]
    Stopped {
        /// The record. It is not committed.
        record: Arc<Record>,
        /// The failure that it was to be given up for.
        failure: Failure,
    },
}
