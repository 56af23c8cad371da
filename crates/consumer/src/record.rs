//! A record of a topic.

use std::fmt;

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
    /// The topic.
    pub topic: String,
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
}
