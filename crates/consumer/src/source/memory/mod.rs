//! Topics in memory, with the rules of a Kafka broker: partitions, offsets, groups, rebalances.
//!
//! Times are tokio's: with the clock paused, a session of 45 seconds runs out in no time. The same calls in the same
//! order with the same random numbers give the same result.

mod assignor;
mod consumer;
mod group;
mod partitioner;
mod settings;
mod topic;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backfire_model::back_off::UnitRandom;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

pub use consumer::MemoryConsumer;
pub use partitioner::partition_of;
pub use settings::{BrokerCounters, BrokerSettings, ConsumerSettings, GroupCounters, OffsetReset};

use crate::record::{Position, ProducerRecord, Record, TimestampType, TopicPartition};
use crate::source::SourceError;
use group::{Group, Joining};
use settings::limit;
use topic::Topic;

/// A broker in memory. A clone is the same broker.
#[derive(Debug, Clone)]
pub struct Broker {
    shared: Arc<Shared>,
}

type Topics = RwLock<HashMap<Arc<str>, Arc<Topic>>>;

struct Shared {
    settings: BrokerSettings,
    began: Instant,
    topics: Arc<Topics>,
    groups: Mutex<HashMap<String, Arc<Group>>>,
    /// For records without a key.
    random: Mutex<Box<dyn UnitRandom + Send>>,
    stored: AtomicU64,
    refused: AtomicU64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Broker {
    /// A broker without topics. `random` chooses the partition of records that have no key.
    pub fn new(settings: BrokerSettings, random: impl UnitRandom + Send + 'static) -> Self {
        let shared = Shared {
            settings,
            began: Instant::now(),
            topics: Arc::default(),
            groups: Mutex::default(),
            random: Mutex::new(Box::new(random)),
            stored: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Makes a topic. One of the same name stays as it is.
    ///
    /// # Errors
    /// Too many topics, or partitions that are none or too many.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), SourceError> {
        let settings = &self.shared.settings;
        if partitions < 1 || partitions > settings.max_partitions {
            let most = usize::try_from(settings.max_partitions).unwrap_or(0);
            return Err(limit("partitions of a topic (there must be one at least)", most));
        }
        let mut topics = self.shared.topics.write();
        if topics.len() >= settings.max_topics && !topics.contains_key(name) {
            return Err(limit("topics", settings.max_topics));
        }
        topics.entry(Arc::from(name)).or_insert_with(|| Arc::new(Topic::new(name, partitions)));
        Ok(())
    }

    /// Stores a record.
    ///
    /// # Errors
    /// An unknown topic or partition, or a partition that is full.
    pub fn send(&self, record: ProducerRecord) -> Result<Position, SourceError> {
        let topic = self.topic(&record.topic)?;
        let count = topic.count();
        let number = match (record.partition, &record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_of(key, count),
            (None, None) => (self.shared.random.lock().next_unit() * f64::from(count)) as i32,
        };
        let unknown =
            || SourceError::UnknownPartition { topic: record.topic.to_string(), partition: number, partitions: count };
        let mut log = topic.partition(number).ok_or_else(unknown)?.lock();
        let most = self.shared.settings.max_records_per_partition;
        if log.len() >= most {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return Err(limit("records of a partition", most));
        }
        let since_began = i64::try_from(self.shared.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let now_ms = self.shared.settings.began_at_ms.saturating_add(since_began);
        let offset = log.append(Record {
            topic: Arc::clone(&topic.name),
            partition: number,
            offset: 0,
            timestamp_ms: record.timestamp_ms.unwrap_or(now_ms),
            timestamp_type: TimestampType::CreateTime,
            key: record.key,
            value: record.value,
            headers: record.headers,
        });
        self.shared.stored.fetch_add(1, Ordering::Relaxed);
        Ok(Position { partition: TopicPartition::new(Arc::clone(&topic.name), number), offset })
    }

    /// A consumer. It joins its group at its first poll.
    ///
    /// # Errors
    /// A topic that does not exist, or no topic.
    pub fn consumer(&self, settings: ConsumerSettings) -> Result<MemoryConsumer, SourceError> {
        if settings.topics.is_empty() {
            return Err(SourceError::UnknownTopic { topic: String::new() });
        }
        let topics = settings.topics.iter().map(|name| self.topic(name)).collect::<Result<Vec<_>, _>>()?;
        let joining = Joining {
            instance: settings.group_instance_id.as_deref().map(Arc::from),
            topics: topics.iter().map(|topic| Arc::clone(&topic.name)).collect(),
            max_poll_interval: settings.max_poll_interval,
            session_timeout: settings.session_timeout,
            wake: consumer::wake(),
        };
        Ok(MemoryConsumer::new(self.group(&settings.group), topics, joining, settings.offset_reset))
    }

    /// How many partitions a topic has; `None`: there is no such topic.
    pub fn partitions(&self, topic: &str) -> Option<i32> {
        self.topic(topic).ok().map(|topic| topic.count())
    }

    /// The records of a partition from `offset` on, at most `limit`.
    ///
    /// # Errors
    /// An unknown topic or partition.
    pub fn read(&self, partition: &TopicPartition, offset: i64, limit: usize) -> Result<Vec<Arc<Record>>, SourceError> {
        self.with_log(partition, |log| log.read(offset, limit))
    }

    /// The offset that the partition's next record gets.
    ///
    /// # Errors
    /// An unknown topic or partition.
    pub fn end_offset(&self, partition: &TopicPartition) -> Result<i64, SourceError> {
        self.with_log(partition, |log| log.end())
    }

    /// Forgets the records of a partition before `offset`.
    ///
    /// # Errors
    /// An unknown topic or partition.
    pub fn delete_before(&self, partition: &TopicPartition, offset: i64) -> Result<(), SourceError> {
        self.with_log(partition, |log| log.delete_before(offset))
    }

    /// The offset that a group begins a partition at, where it committed one.
    pub fn committed(&self, group: &str, partition: &TopicPartition) -> Option<i64> {
        self.group(group).committed(partition)
    }

    /// How many records of a partition a group has not committed.
    ///
    /// # Errors
    /// An unknown topic or partition.
    pub fn lag(&self, group: &str, partition: &TopicPartition) -> Result<u64, SourceError> {
        let committed = self.committed(group, partition).unwrap_or(0);
        Ok(self.end_offset(partition)?.saturating_sub(committed).max(0).unsigned_abs())
    }

    /// What happened here so far.
    pub fn counters(&self) -> BrokerCounters {
        let shared = &self.shared;
        BrokerCounters {
            stored: shared.stored.load(Ordering::Relaxed),
            refused: shared.refused.load(Ordering::Relaxed),
        }
    }

    /// What happened to a group so far.
    pub fn group_counters(&self, group: &str) -> GroupCounters {
        self.group(group).counters()
    }

    fn topic(&self, name: &str) -> Result<Arc<Topic>, SourceError> {
        let found = self.shared.topics.read().get(name).cloned();
        found.ok_or_else(|| SourceError::UnknownTopic { topic: name.to_owned() })
    }

    fn with_log<T>(&self, at: &TopicPartition, f: impl FnOnce(&mut topic::Log) -> T) -> Result<T, SourceError> {
        let topic = self.topic(&at.topic)?;
        let (partition, partitions) = (at.partition, topic.count());
        let unknown = || SourceError::UnknownPartition { topic: at.topic.to_string(), partition, partitions };
        let mut log = topic.partition(partition).ok_or_else(unknown)?.lock();
        Ok(f(&mut log))
    }

    fn group(&self, name: &str) -> Arc<Group> {
        let mut groups = self.shared.groups.lock();
        if let Some(group) = groups.get(name) {
            return Arc::clone(group);
        }
        let topics = Arc::clone(&self.shared.topics);
        let partitions = Arc::new(move |name: &str| topics.read().get(name).map_or(0, |topic| topic.count()));
        let settings = &self.shared.settings;
        let group = Arc::new(Group::new(partitions, settings.initial_rebalance_delay, settings.max_members));
        groups.insert(name.to_owned(), Arc::clone(&group));
        group
    }
}

#[cfg(test)]
mod tests;
