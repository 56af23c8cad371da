//! Where a dead letter is sent.

use crate::spring_kafka::SpringKafkaVersion;

/// Where a dead letter is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// What is put behind the topic's name; the partition stays the same, where the other topic has it.
    pub topic_suffix: String,
    /// This topic instead, whatever the record's own is.
    pub topic: Option<String>,
    /// The consumer group, for the header.
    pub consumer_group: Option<String>,
    /// How often a record may become a dead letter, replays included.
    pub max_hops: u32,
}

impl Default for Destination {
    fn default() -> Self {
        Self {
            topic_suffix: SpringKafkaVersion::default().dead_letter_suffix.to_owned(),
            topic: None,
            consumer_group: None,
            max_hops: 10,
        }
    }
}

impl Destination {
    /// As a version of Spring Kafka names it: `orders.DLT` up to 3.2, `orders-dlt` from 3.3 on (facts/client.md D3).
    pub fn of_version(version: SpringKafkaVersion) -> Self {
        Self { topic_suffix: version.dead_letter_suffix.to_owned(), ..Self::default() }
    }

    /// The topic for the dead letters of another.
    pub fn topic_for(&self, topic: &str) -> String {
        self.topic.clone().unwrap_or_else(|| format!("{topic}{}", self.topic_suffix))
    }
}
