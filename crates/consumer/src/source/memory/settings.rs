//! What the in-memory broker and its consumers can be told.

use std::time::Duration;

use crate::source::SourceError;

/// Limits and times of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerSettings {
    /// How many topics there may be.
    pub max_topics: usize,
    /// How many partitions a topic may have.
    pub max_partitions: i32,
    /// How many records a partition keeps; a further one is refused.
    pub max_records_per_partition: usize,
    /// How many members a group may have.
    pub max_members: usize,
    /// How long an empty group waits for more members after its first (`group.initial.rebalance.delay.ms`).
    pub initial_rebalance_delay: Duration,
    /// What the clock showed when the broker began, in milliseconds since 1970; records get their timestamps by it.
    pub began_at_ms: i64,
}

impl Default for BrokerSettings {
    /// Generous limits, no delay.
    fn default() -> Self {
        Self {
            max_topics: 10_000,
            max_partitions: 100_000,
            max_records_per_partition: 10_000_000,
            max_members: 100_000,
            initial_rebalance_delay: Duration::ZERO,
            began_at_ms: 0,
        }
    }
}

/// Where a group without a committed offset begins (`auto.offset.reset`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OffsetReset {
    /// At the oldest record.
    Earliest,
    /// Behind the newest record.
    #[default]
    Latest,
    /// Nowhere: it is an error.
    None,
}

/// A consumer's settings, by the names of Kafka's consumer properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerSettings {
    /// `group.id`.
    pub group: String,
    /// The topics to subscribe to.
    pub topics: Vec<String>,
    /// `group.instance.id`: makes it a static member.
    pub group_instance_id: Option<String>,
    /// `max.poll.interval.ms`.
    pub max_poll_interval: Duration,
    /// `session.timeout.ms`.
    pub session_timeout: Duration,
    /// `auto.offset.reset`.
    pub offset_reset: OffsetReset,
}

impl ConsumerSettings {
    /// Kafka's defaults (facts/client.md D6), but from the oldest record on.
    pub fn new(group: impl Into<String>, topics: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            group: group.into(),
            topics: topics.into_iter().map(Into::into).collect(),
            group_instance_id: None,
            max_poll_interval: Duration::from_secs(300),
            session_timeout: Duration::from_secs(45),
            offset_reset: OffsetReset::Earliest,
        }
    }
}

/// What happened at a broker since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BrokerCounters {
    /// Records stored.
    pub stored: u64,
    /// Records refused because their partition was full.
    pub refused: u64,
}

/// What happened to a group since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupCounters {
    /// The present generation, which is the number of completed rebalances.
    pub generation: i32,
    /// Members now.
    pub members: usize,
    /// Members that let `max.poll.interval.ms` pass.
    pub poll_intervals_exceeded: u64,
    /// Members whose session ran out.
    pub sessions_expired: u64,
    /// Commits that were refused.
    pub commits_failed: u64,
    /// Consumers refused because the group was full.
    pub members_refused: u64,
}

pub(super) fn limit(what: &'static str, limit: usize) -> SourceError {
    SourceError::Limit { what, limit }
}
