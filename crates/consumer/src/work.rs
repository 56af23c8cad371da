//! What the application does with records.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use crate::failure::Failure;
use crate::logical_write::LogicalWriteId;
use crate::record::Record;

/// Whether the work takes one record or a batch at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// One record.
    Record,
    /// The records of a poll.
    Batch,
}

/// What is handed to one execution of the work.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub(crate) records: SmallVec<[Arc<Record>; 1]>,
    pub(crate) attempt: u64,
    /// `None`: the ack mode does not ask for it.
    pub(crate) acknowledged: Option<Arc<AtomicBool>>,
}

impl Delivery {
    /// The record; of a batch, the first one.
    ///
    /// # Panics
    /// Never: a delivery has a record at least.
    pub fn record(&self) -> &Arc<Record> {
        &self.records[0]
    }

    /// All records, in order; at least one.
    pub fn records(&self) -> &[Arc<Record>] {
        &self.records
    }

    /// Which delivery of this record it is to this consumer, from 1 on (Spring Kafka's delivery attempt).
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// What the first record wants written, by an id that stays the same over executions.
    pub fn id(&self) -> LogicalWriteId {
        LogicalWriteId::of(self.record())
    }

    /// Says that the records are done; counts with [`AckMode::Manual`](crate::AckMode) and `ManualImmediate` only.
    pub fn acknowledge(&self) {
        if let Some(acknowledged) = &self.acknowledged {
            acknowledged.store(true, Ordering::Release);
        }
    }
}

/// Why the work failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkError {
    /// The exception.
    pub failure: Failure,
    /// Which record of the batch failed, from 0 on; all before it are done (Spring Kafka's
    /// `BatchListenerFailedException`). `None`: nobody knows how far the batch got.
    pub index: Option<usize>,
}

impl WorkError {
    /// The record at `index` of the batch failed; those before it are done.
    pub fn at(index: usize, failure: Failure) -> Self {
        Self { failure, index: Some(index) }
    }
}

impl From<Failure> for WorkError {
    fn from(failure: Failure) -> Self {
        Self { failure, index: None }
    }
}

/// The application's work. Made from a function by [`per_record`] or [`per_batch`].
pub trait Work: Send + Sync {
    /// What it takes.
    fn kind(&self) -> WorkKind;

    /// One execution. Dropped where it is when the consumer is dropped, so what it began may or may not have happened.
    fn execute(&self, delivery: Delivery) -> impl Future<Output = Result<(), WorkError>> + Send;
}

/// Work on one record at a time. Made by [`per_record`].
#[derive(Clone)]
pub struct PerRecord<F>(F);

/// Work on a batch at a time. Made by [`per_batch`].
#[derive(Clone)]
pub struct PerBatch<F>(F);

/// Work that takes one record at a time.
pub fn per_record<F, Fut>(work: F) -> PerRecord<F>
where
    F: Fn(Delivery) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    PerRecord(work)
}

/// Work that takes the records of a poll at once.
pub fn per_batch<F, Fut>(work: F) -> PerBatch<F>
where
    F: Fn(Delivery) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), WorkError>> + Send,
{
    PerBatch(work)
}

impl<F, Fut> Work for PerRecord<F>
where
    F: Fn(Delivery) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    fn kind(&self) -> WorkKind {
        WorkKind::Record
    }

    async fn execute(&self, delivery: Delivery) -> Result<(), WorkError> {
        (self.0)(delivery).await.map_err(WorkError::from)
    }
}

impl<F, Fut> Work for PerBatch<F>
where
    F: Fn(Delivery) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), WorkError>> + Send,
{
    fn kind(&self) -> WorkKind {
        WorkKind::Batch
    }

    fn execute(&self, delivery: Delivery) -> impl Future<Output = Result<(), WorkError>> + Send {
        (self.0)(delivery)
    }
}

impl<F> fmt::Debug for PerRecord<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerRecord")
    }
}

impl<F> fmt::Debug for PerBatch<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerBatch")
    }
}
