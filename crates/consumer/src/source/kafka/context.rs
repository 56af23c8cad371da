//! What librdkafka tells a consumer, kept until its next poll.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;

/// A rebalance that waits for its answer.
pub(super) enum Rebalanced {
    /// These partitions are given.
    Assign(TopicPartitionList),
    /// These are wanted back, or gone already.
    Revoke { partitions: TopicPartitionList, lost: bool },
}

/// What librdkafka calls.
#[derive(Default)]
pub(super) struct Context {
    /// At most a few: the group does not go on without an answer.
    rebalances: Mutex<VecDeque<Rebalanced>>,
    /// The client is being closed: nobody polls any more.
    closing: AtomicBool,
    /// For each topic and partition of this consumer the offset behind its last record.
    ends: Mutex<HashMap<String, HashMap<i32, i64>>>,
}

impl Context {
    /// The oldest rebalance without an answer.
    pub(super) fn next_rebalance(&self) -> Option<Rebalanced> {
        self.rebalances.lock().pop_front()
    }

    pub(super) fn has_rebalance(&self) -> bool {
        !self.rebalances.lock().is_empty()
    }

    /// From now on rebalances are answered at once.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// The offset behind the partition's last record, as of the last statistics.
    pub(super) fn end(&self, topic: &str, partition: i32) -> Option<i64> {
        self.ends.lock().get(topic)?.get(&partition).copied().filter(|end| *end >= 0)
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::warn!("librdkafka {facility}: {message}");
            }
            RDKafkaLogLevel::Warning => tracing::info!("librdkafka {facility}: {message}"),
            _ => tracing::debug!("librdkafka {facility}: {message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::info!("librdkafka: {error}: {reason}");
    }

    fn stats(&self, statistics: Statistics) {
        let ends = statistics.topics.into_iter().map(|(name, topic)| {
            let own = topic.partitions.into_iter().filter(|(number, partition)| *number >= 0 && partition.desired);
            (name, own.map(|(number, partition)| (number, partition.hi_offset)).collect())
        });
        *self.ends.lock() = ends.collect();
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, error: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        let is_assigned = error == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.closing.load(Ordering::Acquire) {
            if let Err(error) = consumer.unassign() {
                tracing::warn!("partitions not given up: {error}");
            }
            return;
        }
        let partitions = partitions.clone();
        self.rebalances.lock().push_back(match is_assigned {
            true => Rebalanced::Assign(partitions),
            false => Rebalanced::Revoke { partitions, lost: consumer.assignment_lost() },
        });
    }
}
