//! Records, from and to librdkafka's.

use std::sync::Arc;

use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders, Timestamp};
use rdkafka::producer::FutureRecord;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::record::{ProducerRecord, Record, TimestampType, TopicPartition};

/// A message as a record; `topic` is its topic's name.
pub(super) fn record(message: &BorrowedMessage<'_>, topic: Arc<str>) -> Record {
    let (timestamp_ms, timestamp_type) = match message.timestamp() {
        Timestamp::CreateTime(ms) => (ms, TimestampType::CreateTime),
        Timestamp::LogAppendTime(ms) => (ms, TimestampType::LogAppendTime),
        // As Kafka's `NO_TIMESTAMP`.
        Timestamp::NotAvailable => (-1, TimestampType::CreateTime),
    };
    let headers = message.headers().map(|headers| {
        headers.iter().map(|header| (header.key.to_owned(), header.value.unwrap_or_default().to_vec())).collect()
    });
    Record {
        topic,
        partition: message.partition(),
        offset: message.offset(),
        timestamp_ms,
        timestamp_type,
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.unwrap_or_default(),
    }
}

/// A record to send.
pub(super) fn future_record(record: &ProducerRecord) -> FutureRecord<'_, [u8], [u8]> {
    let mut sent = FutureRecord::to(&record.topic);
    sent.partition = record.partition;
    sent.timestamp = record.timestamp_ms;
    sent.key = record.key.as_deref();
    sent.payload = record.value.as_deref();
    if !record.headers.is_empty() {
        let empty = OwnedHeaders::new_with_capacity(record.headers.len());
        let headers = record
            .headers
            .iter()
            .fold(empty, |headers, (key, value)| headers.insert(Header { key, value: Some(value.as_slice()) }));
        sent.headers = Some(headers);
    }
    sent
}

/// A list's partitions, without offsets. Topics in `known` share their names.
pub(super) fn partitions(list: &TopicPartitionList, known: &[Arc<str>]) -> Vec<TopicPartition> {
    let name = |topic: &str| known.iter().find(|name| &***name == topic).cloned().unwrap_or_else(|| Arc::from(topic));
    list.elements().iter().map(|part| TopicPartition::new(name(part.topic()), part.partition())).collect()
}

/// Partitions as a list, without offsets.
pub(super) fn list(partitions: &[TopicPartition]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for part in partitions {
        list.add_partition(&part.topic, part.partition);
    }
    list
}

/// Partitions with offsets as a list.
///
/// # Errors
/// An offset that is none.
pub(super) fn offsets(offsets: &[(TopicPartition, i64)]) -> Result<TopicPartitionList, rdkafka::error::KafkaError> {
    let mut list = TopicPartitionList::with_capacity(offsets.len());
    for (part, offset) in offsets {
        list.add_partition_offset(&part.topic, part.partition, Offset::Offset(*offset))?;
    }
    Ok(list)
}
