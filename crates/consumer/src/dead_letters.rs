//! Where records go that are given up: a list in memory, with the headers of a dead-letter topic.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::Failure;
use crate::headers;
use crate::record::Record;
use crate::spring_kafka::SpringKafkaVersion;

/// Where a dead letter is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// What is put behind the topic's name; the partition stays the same.
    pub topic_suffix: String,
    /// The consumer group, for the header.
    pub consumer_group: Option<String>,
}

impl Default for Destination {
    fn default() -> Self {
        Self { topic_suffix: SpringKafkaVersion::default().dead_letter_suffix.to_owned(), consumer_group: None }
    }
}

/// The list is full; the record is not in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the dead-letter list is full: it holds {limit} records")]
pub struct DeadLettersFull {
    /// How many it holds.
    pub limit: usize,
}

/// A list of dead letters with a limit. Clones share one list, so that it can be emptied while a handler uses it.
#[derive(Debug, Clone)]
pub struct DeadLetters {
    destination: Destination,
    limit: usize,
    list: Arc<Mutex<List>>,
}

#[derive(Debug, Default)]
struct List {
    letters: Vec<Record>,
    published: i64,
    refused: u64,
}

impl DeadLetters {
    /// An empty list that holds at most `limit` records.
    pub fn new(destination: Destination, limit: usize) -> Self {
        Self { destination, limit, list: Arc::default() }
    }

    /// Adds a record with the headers that say where it came from and why it is here; gives it as it is stored,
    /// where its offset counts the records of this list.
    ///
    /// # Errors
    /// The list is full.
    pub fn publish(&self, record: &Record, failure: &Failure) -> Result<Record, DeadLettersFull> {
        let mut list = self.lock();
        if list.letters.len() >= self.limit {
            list.refused += 1;
            return Err(DeadLettersFull { limit: self.limit });
        }
        let letter = Record { offset: list.published, ..self.letter(record, failure) };
        list.published += 1;
        list.letters.push(letter.clone());
        Ok(letter)
    }

    /// Takes all records out of the list, oldest first.
    pub fn take(&self) -> Vec<Record> {
        std::mem::take(&mut self.lock().letters)
    }

    /// How many records are in it.
    pub fn len(&self) -> usize {
        self.lock().letters.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often a record was refused because the list was full.
    pub fn refused(&self) -> u64 {
        self.lock().refused
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        // Each change is whole by itself, so a panic elsewhere leaves nothing half done.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As Spring Kafka's `DeadLetterPublishingRecoverer` builds it: headers about the exception replace older ones,
    /// those about the origin are added behind them.
    fn letter(&self, record: &Record, failure: &Failure) -> Record {
        let failure = failure.clone().of_listener();
        let mut letter =
            Record { topic: format!("{}{}", record.topic, self.destination.topic_suffix), ..record.clone() };
        let message = format!("{}; {}", failure.outer().message, failure.root().message);
        let exception = [
            (headers::EXCEPTION_FQCN, failure.outer().class.name().to_owned()),
            (headers::EXCEPTION_CAUSE_FQCN, failure.root().class.name().to_owned()),
            (headers::EXCEPTION_MESSAGE, message),
            (headers::EXCEPTION_STACKTRACE, stack_trace(&failure)),
        ];
        for (name, value) in exception {
            letter.headers.retain(|(key, _)| key != name);
            letter.headers.push((name.to_owned(), value.into_bytes()));
        }
        let mut add = |name: &str, value: &[u8]| letter.headers.push((name.to_owned(), value.to_vec()));
        add(headers::ORIGINAL_TOPIC, record.topic.as_bytes());
        add(headers::ORIGINAL_PARTITION, &record.partition.to_be_bytes());
        add(headers::ORIGINAL_OFFSET, &record.offset.to_be_bytes());
        add(headers::ORIGINAL_TIMESTAMP, &record.timestamp_ms.to_be_bytes());
        add(headers::ORIGINAL_TIMESTAMP_TYPE, record.timestamp_type.to_string().as_bytes());
        if let Some(group) = &self.destination.consumer_group {
            add(headers::ORIGINAL_CONSUMER_GROUP, group.as_bytes());
        }
        letter
    }
}

/// The chain as Java's `printStackTrace` writes it; there are no frames.
fn stack_trace(failure: &Failure) -> String {
    let lines = failure.chain().enumerate();
    lines.map(|(index, link)| format!("{}{link}\n", if index == 0 { "" } else { "Caused by: " })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ErrorClass;

    fn failure() -> Failure {
        let cause = Failure::new(ErrorClass::new("com.mongodb.MongoSocketReadTimeoutException"), "Timeout");
        let dao = ErrorClass::new("org.springframework.dao.DataAccessResourceFailureException");
        Failure::new(dao, "read timed out").caused_by(cause)
    }

    #[test]
    fn a_dead_letter_says_where_it_came_from_and_why() {
        let destination = Destination { consumer_group: Some("group".to_owned()), ..Destination::default() };
        let record = Record {
            topic: "orders".to_owned(),
            partition: 3,
            offset: 258,
            timestamp_ms: 1_000,
            key: Some(b"k".to_vec()),
            value: Some(b"v".to_vec()),
            headers: vec![("own".to_owned(), b"1".to_vec()), (headers::EXCEPTION_FQCN.to_owned(), b"old".to_vec())],
            ..Record::default()
        };
        let letters = DeadLetters::new(destination, 10);
        let letter = letters.publish(&record, &failure()).unwrap();
        assert_eq!((letter.topic.as_str(), letter.partition, letter.offset), ("orders-dlt", 3, 0));
        assert_eq!((&letter.key, &letter.value), (&record.key, &record.value));
        let expected: [(&str, &[u8]); 11] = [
            ("own", b"1"),
            ("kafka_dlt-exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailedException"),
            ("kafka_dlt-exception-cause-fqcn", b"org.springframework.dao.DataAccessResourceFailureException"),
            ("kafka_dlt-exception-message", b"Listener failed; read timed out"),
            (
                "kafka_dlt-exception-stacktrace",
                b"org.springframework.kafka.listener.ListenerExecutionFailedException: Listener failed\n\
                  Caused by: org.springframework.dao.DataAccessResourceFailureException: read timed out\n\
                  Caused by: com.mongodb.MongoSocketReadTimeoutException: Timeout\n",
            ),
            ("kafka_dlt-original-topic", b"orders"),
            ("kafka_dlt-original-partition", &[0, 0, 0, 3]),
            ("kafka_dlt-original-offset", &[0, 0, 0, 0, 0, 0, 1, 2]),
            ("kafka_dlt-original-timestamp", &[0, 0, 0, 0, 0, 0, 3, 232]),
            ("kafka_dlt-original-timestamp-type", b"CreateTime"),
            ("kafka_dlt-original-consumer-group", b"group"),
        ];
        let found: Vec<(&str, &[u8])> = letter.headers.iter().map(|(k, v)| (k.as_str(), v.as_slice())).collect();
        assert_eq!(found, expected);
        assert_eq!(letter.header(headers::EXCEPTION_FQCN), Some(expected[1].1));
        // Dead again: the origin is added behind, the exception is replaced.
        let again = letters.publish(&letter, &failure()).unwrap();
        assert_eq!((again.topic.as_str(), again.offset), ("orders-dlt-dlt", 1));
        assert_eq!(again.header(headers::ORIGINAL_TOPIC), Some(b"orders-dlt".as_slice()));
        let count = |name: &str| again.headers.iter().filter(|(key, _)| key == name).count();
        assert_eq!((count(headers::EXCEPTION_FQCN), count(headers::ORIGINAL_TOPIC)), (1, 2));
    }

    #[test]
    fn the_list_has_a_limit_and_can_be_emptied() {
        let letters = DeadLetters::new(Destination::default(), 1);
        let record = Record::default();
        letters.publish(&record, &failure()).unwrap();
        assert_eq!(letters.publish(&record, &failure()), Err(DeadLettersFull { limit: 1 }));
        assert_eq!((letters.len(), letters.refused(), letters.is_empty()), (1, 1, false));
        assert_eq!(letters.clone().take().len(), 1);
        assert!(letters.is_empty() && letters.publish(&record, &failure()).is_ok());
    }
}
