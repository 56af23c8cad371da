//! The identity of the one thing that a record wants written, however often it is executed.

use std::fmt;
use std::str::FromStr;

use crate::headers;
use crate::record::Record;

/// Where a record stood when it was delivered first. Its text, `orders-3-258`, is meant for two places: the `comment`
/// of the write command, where `$currentOp` and the server's log show it, and the `_id` of an upsert, which makes every
/// further execution the same write.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogicalWriteId {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

impl LogicalWriteId {
    /// The identity of the record at this place.
    pub fn new(topic: impl Into<String>, partition: i32, offset: i64) -> Self {
        Self { topic: topic.into(), partition, offset }
    }

    /// A record's identity: the key that a replay gave it, else where it failed first if it is a dead letter, else where
    /// it stands.
    pub fn of(record: &Record) -> Self {
        Self::of_dead_letter(record).unwrap_or_else(|| Self::new(&*record.topic, record.partition, record.offset))
    }

    /// The identity that a record's headers give it; `None`: there are none.
    pub(crate) fn of_dead_letter(record: &Record) -> Option<Self> {
        let key = record.header(headers::IDEMPOTENCY_KEY).and_then(|key| std::str::from_utf8(key).ok()?.parse().ok());
        key.or_else(|| Self::origin_of(record))
    }

    /// Where a dead letter failed first.
    pub(crate) fn origin_of(record: &Record) -> Option<Self> {
        let topic = std::str::from_utf8(record.first_header(headers::ORIGINAL_TOPIC)?).ok()?;
        let partition = record.first_header(headers::ORIGINAL_PARTITION)?.try_into().ok()?;
        let offset = record.first_header(headers::ORIGINAL_OFFSET)?.try_into().ok()?;
        Some(Self::new(topic, i32::from_be_bytes(partition), i64::from_be_bytes(offset)))
    }
}

impl fmt::Display for LogicalWriteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.topic, self.partition, self.offset)
    }
}

/// Text that is no [`LogicalWriteId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no id of a logical write; it is written topic-partition-offset, like orders-3-258")]
pub struct InvalidLogicalWriteId {
    text: String,
}

impl FromStr for LogicalWriteId {
    type Err = InvalidLogicalWriteId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut parts = text.rsplitn(3, '-');
            let offset = parts.next()?.parse().ok()?;
            let partition = parts.next()?.parse().ok()?;
            let topic = parts.next().filter(|topic| !topic.is_empty())?;
            Some(Self::new(topic, partition, offset))
        };
        parse().ok_or_else(|| InvalidLogicalWriteId { text: text.chars().take(100).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_read_as_it_is_written() {
        for (topic, partition, offset) in [("orders", 3, 258), ("a-b-c", 0, 0), ("-", 1, i64::MAX)] {
            let id = LogicalWriteId::new(topic, partition, offset);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in ["", "orders", "orders-3", "-3-258", "orders-x-258", "orders-3-", "orders-3-99999999999999999999"] {
            assert!(text.parse::<LogicalWriteId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_record_without_headers_is_where_it_stands() {
        let mut record = Record { topic: "orders".into(), partition: 3, offset: 258, ..Record::default() };
        assert_eq!(LogicalWriteId::of(&record).to_string(), "orders-3-258");
        // Headers that cannot be read count as none.
        record.headers.push((headers::IDEMPOTENCY_KEY.to_owned(), b"nonsense".to_vec()));
        record.headers.push((headers::ORIGINAL_TOPIC.to_owned(), b"t".to_vec()));
        record.headers.push((headers::ORIGINAL_PARTITION.to_owned(), b"1".to_vec()));
        assert_eq!(LogicalWriteId::of(&record).to_string(), "orders-3-258");
    }
}
