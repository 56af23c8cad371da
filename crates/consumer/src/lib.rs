//! The application's retries: how often and when the work for one record is run again, and where the record goes
//! when that does not help. Rules and defaults are those of Spring Kafka's `DefaultErrorHandler`
//! (facts/client.md D1 to D3).
//!
//! - [`RetryState`] is the rules: a state machine without input or output, driven by what happened and the time.
//! - [`Container`] polls a [`Source`], runs the [`Work`], commits, and handles what fails: by the rules and in the order
//!   of a version of Spring Kafka, or in a mode of its own whose retries always end. It tells an [`Observer`].
//! - [`source`] has topics in memory, with groups and their rules, and Kafka's (feature `kafka`).
//! - [`dead_letters`] makes, publishes, parks and replays the records that are given up.
//! - [`poll_budget`] computes from settings whether a consumer stays in its group; [`owners`] names records that were
//!   handed to two consumers all the same; [`meters`] is what is measured.
//! - [`ErrorHandler`] runs one record at a time without a source, and tells a [`Listener`].
//!
//! This room knows nothing of MongoDB: the work is a function that returns a [`Failure`] or not.

mod bounds;
mod classifier;
mod container;
pub mod dead_letters;
mod error_handler;
mod failure;
pub mod headers;
mod listener;
mod logical_write;
pub mod meters;
mod observer;
pub mod owners;
pub mod poll_budget;
mod record;
mod retry_state;
pub mod source;
mod spring_kafka;
mod work;

pub use bounds::{Bounds, CustomBackOff, Recovery, Spent, SplitMix64, Terminal};
pub use classifier::{Classifier, Rule};
pub use container::{
    ATTEMPT_BUDGET_SPENT, AckMode, BoundedMode, Container, ContainerError, ContainerSettings, Mode, NoParking,
    OverBudget, OverPollBudget, STOPPED, SpringMode, SpringWaits, StopHandle, WholeBatch, run_concurrently,
};
pub use dead_letters::{
    DeadLetterRecoverer, DeadLetters, DeadLettersFull, Destination, Discard, PublishError, Publisher, RecoverError,
    Recovered, Recoverer,
};
pub use error_handler::{ErrorHandler, Outcome};
pub use failure::{ErrorClass, Failure, Link, MAX_LINKS};
pub use listener::{Event, Listener, unheard};
pub use logical_write::{InvalidLogicalWriteId, LogicalWriteId};
pub use observer::{ConsumerEvent, Observer, unobserved};
pub use poll_budget::{Expected, PollBudget};
pub use record::{Position, ProducerRecord, Record, TimestampType, TopicPartition};
pub use retry_state::{
    AfterFailure, AfterRecoveryFailure, ExecuteTurn, RecoverTurn, RetrySettings, RetryState, TerminalTurn, Turn,
    WaitMode, WaitTurn,
};
pub use source::{CommitError, Committing, PartitionRecords, Polled, Source, SourceError};
pub use spring_kafka::{BatchRetryPolls, SPRING_KAFKA_VERSIONS, SpringKafkaVersion, UnknownSpringKafkaVersion};
pub use work::{Delivery, PerBatch, PerRecord, Work, WorkError, WorkKind, per_batch, per_record};
