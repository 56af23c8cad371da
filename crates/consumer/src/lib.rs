//! The application's retries: how often and when the work for one record is run again, and where the record goes
//! when that does not help. Rules and defaults are those of Spring Kafka's `DefaultErrorHandler`
//! (facts/client.md D1 to D3).
//!
//! - [`RetryState`] is the rules: a state machine without input or output, driven by what happened and the time.
//! - [`ErrorHandler`] runs one record at a time by those rules, on tokio's clock, and tells a [`Listener`] about it.
//! - [`DeadLetters`] takes the records that are given up.
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
pub use source::{CommitError, PartitionRecords, Polled, Source, SourceError};
pub use spring_kafka::{BatchRetryPolls, SPRING_KAFKA_VERSIONS, SpringKafkaVersion, UnknownSpringKafkaVersion};
pub use work::{Delivery, PerBatch, PerRecord, Work, WorkError, WorkKind, per_batch, per_record};
