//! Where records come from: the trait that both the in-memory topics and Kafka fulfil.

#[cfg(feature = "kafka")]
pub mod kafka;
pub mod memory;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::record::{Record, TopicPartition};

/// A commit that is under way.
pub type Committing = Pin<Box<dyn Future<Output = Result<(), CommitError>> + Send>>;

/// Records of one partition, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionRecords {
    /// The partition.
    pub partition: TopicPartition,
    /// Its records, at least one.
    pub records: Vec<Arc<Record>>,
}

/// What a poll gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Polled {
    /// Records, up to the number that was asked for.
    Records(Vec<PartitionRecords>),
    /// These partitions are the consumer's from now on; none of them is paused.
    Assigned(Vec<TopicPartition>),
    /// The group wants these partitions back. They are still the consumer's, and can be committed, until the next poll.
    Revoking(Vec<TopicPartition>),
    /// These partitions were taken away: others may have them already, and nothing can be committed for them.
    Lost(Vec<TopicPartition>),
    /// Nothing in the time given.
    Nothing,
}

/// A poll, a seek or a pause that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A topic that does not exist.
    #[error("there is no topic {topic:?}")]
    UnknownTopic {
        /// Its name.
        topic: String,
    },
    /// A partition that does not exist.
    #[error("topic {topic:?} has {partitions} partitions, there is no partition {partition}")]
    UnknownPartition {
        /// The topic.
        topic: String,
        /// The partition asked for.
        partition: i32,
        /// How many there are.
        partitions: i32,
    },
    /// A partition that is not this consumer's.
    #[error("partition {0} is not assigned to this consumer")]
    NotAssigned(TopicPartition),
    /// A limit was reached.
    #[error("{what}: the limit is {limit}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// No committed offset, and the settings say that this is an error.
    #[error("the group has no committed offset for {0}, and `auto_offset_reset` is `none`")]
    NoOffset(TopicPartition),
    /// Another consumer took over this static member.
    #[error("another consumer uses the instance id {instance:?} now")]
    Fenced {
        /// The `group.instance.id`.
        instance: String,
    },
    /// What the broker or its client says. A transient one may be gone at the next poll.
    #[error("{message}")]
    Broker {
        /// The text.
        message: String,
        /// Whether the next poll may succeed.
        transient: bool,
    },
}

impl SourceError {
    /// Whether the next poll may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Broker { transient: true, .. })
    }
}

/// A commit that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The consumer is no longer in its group, or the group has rebalanced since: the partitions may be another's
    /// (Kafka's `CommitFailedException`).
    #[error(
        "commit failed: the consumer is not in the group, or of an older generation; its partitions may be another's"
    )]
    CommitFailed,
    /// Any other reason.
    #[error("commit failed: {message}")]
    Other {
        /// The text.
        message: String,
    },
}

/// A consumer of topics, in a group.
///
/// A rebalance is told by [`Source::poll`], in the order in which Kafka's rebalance listener is called. A call of
/// `poll` may be dropped at any time without a record lost. The time between two polls is limited by
/// [`Source::max_poll_interval`] (facts/client.md D6); a poll that waits keeps the consumer in its group.
pub trait Source: Send {
    /// Waits up to `timeout` for something to happen; gives at most `max_records` records (Kafka's
    /// `max.poll.records`), none of partitions that are paused.
    ///
    /// # Errors
    /// What the source says; a transient error may be gone at the next call.
    fn poll(
        &mut self,
        timeout: Duration,
        max_records: usize,
    ) -> impl Future<Output = Result<Polled, SourceError>> + Send;

    /// Commits: for each partition the offset of the record to begin with next time.
    ///
    /// # Errors
    /// The consumer does not own the partitions any more, or what the broker says.
    fn commit(&mut self, offsets: &[(TopicPartition, i64)]) -> impl Future<Output = Result<(), CommitError>> + Send;

    /// Begins a commit that goes on by itself while the source is polled; its future only tells the result. One is under way at
    /// a time. `None`: this source has no such commits, and nothing was done.
    fn begin_commit(&mut self, _offsets: &[(TopicPartition, i64)]) -> Option<Committing> {
        None
    }

    /// The next poll gives the partition's records from this offset on.
    ///
    /// # Errors
    /// The partition is not this consumer's.
    fn seek(&mut self, partition: &TopicPartition, offset: i64)
    -> impl Future<Output = Result<(), SourceError>> + Send;

    /// No records of these partitions until they are resumed. A partition that is assigned anew is not paused.
    ///
    /// # Errors
    /// A partition is not this consumer's.
    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), SourceError>;

    /// Records of these partitions again, from where they were paused.
    ///
    /// # Errors
    /// A partition is not this consumer's.
    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), SourceError>;

    /// The partitions that this consumer has, as far as it knows.
    fn assignment(&self) -> Vec<TopicPartition>;

    /// How many records of the partition this consumer has not been given yet; `None`: not known.
    fn lag(&self, partition: &TopicPartition) -> Option<u64>;

    /// Kafka's `max.poll.interval.ms`.
    fn max_poll_interval(&self) -> Duration;

    /// Leaves the group. A source that is dropped instead is to its group a consumer that crashed.
    ///
    /// # Errors
    /// What the broker says.
    fn close(self) -> impl Future<Output = Result<(), SourceError>> + Send
    where
        Self: Sized;
}
