//! A record of a topic, and where it stands.

use std::fmt;
use std::sync::Arc;

/// What a record's timestamp means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimestampType {
    /// When the producer made it.
    #[default]
    CreateTime,
    /// When the broker stored it.
    LogAppendTime,
}

impl fmt::Display for TimestampType {
    /// As Kafka's `TimestampType.toString`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        })
    }
}

/// A record: where it is, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// The topic; the records of a topic may share its name.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// The timestamp, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// What that timestamp means.
    pub timestamp_type: TimestampType,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// The headers; a name may occur more than once.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Record {
    /// The last header of this name, the one that counts.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_slice())
    }

    /// The first header of this name: for headers that are added again at each hop, the oldest.
    pub fn first_header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_slice())
    }
}

/// A partition of a topic. A clone shares the topic's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition, from 0 on.
    pub partition: i32,
}

impl TopicPartition {
    /// A partition of a topic.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    /// As Kafka writes it: `orders-3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A record that is to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProducerRecord {
    /// The topic; the records of a topic may share its name.
    pub topic: Arc<str>,
    /// The partition; `None`: by the key, or any where there is no key.
    pub partition: Option<i32>,
    /// The timestamp, in milliseconds since 1970; `None`: now.
    pub timestamp_ms: Option<i64>,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// The headers.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// Where a written record stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset.
    pub offset: i64,
}

impl fmt::Display for Position {
    /// As Spring Kafka writes it: `orders-3@258`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.partition, self.offset)
    }
}
