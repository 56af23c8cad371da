//! Dead letters in a list in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dead_letters::{Destination, dead_letter};
use crate::failure::Failure;
use crate::record::Record;

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
        let letter = Record { offset: list.published, ..dead_letter(record, failure, &self.destination) };
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ErrorClass;
    use crate::headers;

    fn failure() -> Failure {
        let cause = Failure::new(ErrorClass::new("com.mongodb.MongoSocketReadTimeoutException"), "Timeout");
        let dao = ErrorClass::new("org.springframework.dao.DataAccessResourceFailureException");
        Failure::new(dao, "read timed out").caused_by(cause)
    }

    #[test]
    fn a_dead_letter_says_where_it_came_from_and_why() {
        let destination = Destination { consumer_group: Some("group".to_owned()), ..Destination::default() };
        let record = Record {
            topic: "orders".into(),
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
        assert_eq!((&*letter.topic, letter.partition, letter.offset), ("orders-dlt", 3, 0));
        assert_eq!((&letter.key, &letter.value), (&record.key, &record.value));
        let expected: [(&str, &[u8]); 12] = [
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
            ("backfire_dlt-hops", b"1"),
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
        assert_eq!((&*again.topic, again.offset), ("orders-dlt-dlt", 1));
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
