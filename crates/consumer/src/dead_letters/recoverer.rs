//! What is done with a record whose retries are spent.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

use crate::bounds::Spent;
use crate::dead_letters::letter::hops;
use crate::dead_letters::{Destination, PublishError, Publisher, dead_letter};
use crate::failure::Failure;
use crate::headers;
use crate::record::{Position, ProducerRecord, Record};

/// What became of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// It is a dead letter, acknowledged at this place.
    Published(Position),
    /// It was dropped, as the settings say.
    Discarded,
}

/// A record that could not be made a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The broker did not take it.
    #[error("the dead letter was not stored: {0}")]
    Publish(#[from] PublishError),
    /// The broker did not acknowledge it in time. It may be stored all the same.
    #[error("the dead letter was not acknowledged within {after_ms} ms")]
    TimedOut {
        /// How long it was waited for.
        after_ms: u64,
    },
    /// It was a dead letter too often.
    #[error("the record was a dead letter {hops} times, the limit is {limit}")]
    HopLimit {
        /// How often.
        hops: u32,
        /// The limit.
        limit: u32,
    },
    /// Its failure is one that a retry cannot cure, and its dead-letter topic is one that it came from.
    #[error(
        "topic {topic:?} is where the record came from, and its failure is not retryable: it would come back for ever"
    )]
    BackToOrigin {
        /// The topic.
        topic: String,
    },
}

/// Takes records whose retries are spent. Nothing is committed before [`Recoverer::recover`] is done.
pub trait Recoverer: Send + Sync {
    /// Takes a record. `spent` is what ended its retries.
    ///
    /// # Errors
    /// The record is not taken, and not committed.
    fn recover(
        &self,
        record: &Record,
        failure: &Failure,
        spent: Spent,
    ) -> impl Future<Output = Result<Recovered, RecoverError>> + Send;
}

/// Drops records, as Spring Kafka does where no recoverer is set: the observer and the log are told, and that is all
/// (facts/client.md D1).
#[derive(Debug, Clone, Copy, Default)]
pub struct Discard;

impl Recoverer for Discard {
    async fn recover(&self, record: &Record, failure: &Failure, spent: Spent) -> Result<Recovered, RecoverError> {
        let (topic, partition, offset) = (&*record.topic, record.partition, record.offset);
        tracing::error!(topic, partition, offset, %spent, "retries spent, the record is dropped: {failure}");
        Ok(Recovered::Discarded)
    }
}

/// Publishes dead letters and waits, with a bound, until they are acknowledged (facts/client.md D3).
#[derive(Debug, Clone)]
pub struct DeadLetterRecoverer<P> {
    publisher: P,
    destination: Destination,
    send_timeout: Duration,
}

impl<P: Publisher> DeadLetterRecoverer<P> {
    /// How long Spring Kafka waits with a producer's defaults: `delivery.timeout.ms` and 5 s.
    pub const SPRING_SEND_TIMEOUT: Duration = Duration::from_secs(125);

    /// Publishes through `publisher`, and waits 30 s for each.
    pub fn new(publisher: P, destination: Destination) -> Self {
        Self { publisher, destination, send_timeout: Duration::from_secs(30) }
    }

    /// Waits this long for an acknowledgement.
    #[must_use]
    pub fn send_timeout(mut self, send_timeout: Duration) -> Self {
        self.send_timeout = send_timeout;
        self
    }

    async fn publish(&self, letter: Record) -> Result<Position, PublishError> {
        let partitions = self.publisher.partitions(&letter.topic).await;
        // Where the number is not known, the partition is tried; the broker says if there is none.
        let exists = partitions.is_none_or(|count| letter.partition < count);
        let record = ProducerRecord {
            topic: letter.topic,
            partition: exists.then_some(letter.partition).filter(|partition| *partition >= 0),
            timestamp_ms: None,
            key: letter.key,
            value: letter.value,
            headers: letter.headers,
        };
        self.publisher.publish(record).await
    }
}

impl<P: Publisher> Recoverer for DeadLetterRecoverer<P> {
    async fn recover(&self, record: &Record, failure: &Failure, spent: Spent) -> Result<Recovered, RecoverError> {
        let letter = dead_letter(record, failure, &self.destination);
        let (hops, limit) = (hops(record), self.destination.max_hops);
        if hops >= limit {
            return Err(RecoverError::HopLimit { hops, limit });
        }
        let is_origin = |name: &str, value: &[u8]| name == headers::ORIGINAL_TOPIC && value == letter.topic.as_bytes();
        let comes_back =
            letter.topic == record.topic || record.headers.iter().any(|(name, value)| is_origin(name, value));
        if comes_back && spent == Spent::NotRetryable {
            return Err(RecoverError::BackToOrigin { topic: letter.topic.to_string() });
        }
        match timeout(self.send_timeout, self.publish(letter)).await {
            Ok(published) => Ok(Recovered::Published(published?)),
            Err(_) => {
                let after_ms = u64::try_from(self.send_timeout.as_millis()).unwrap_or(u64::MAX);
                Err(RecoverError::TimedOut { after_ms })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use backfire_model::back_off::no_random;

    use super::*;
    use crate::failure::ErrorClass;
    use crate::record::TopicPartition;
    use crate::source::memory::{Broker, BrokerSettings};

    fn broker(topics: &[(&str, i32)]) -> Broker {
        let broker = Broker::new(BrokerSettings::default(), no_random);
        topics.iter().for_each(|(name, partitions)| broker.create_topic(name, *partitions).unwrap());
        broker
    }

    fn record(partition: i32) -> Record {
        let (key, value) = (Some(b"k".to_vec()), Some(b"v".to_vec()));
        Record { topic: "orders".into(), partition, offset: 9, key, value, ..Record::default() }
    }

    async fn recover(broker: &Broker, record: &Record, to: Destination, spent: Spent) -> Result<String, RecoverError> {
        let failure = Failure::new(ErrorClass::new("a.B"), "failed");
        match DeadLetterRecoverer::new(broker.clone(), to).recover(record, &failure, spent).await? {
            Recovered::Published(position) => Ok(position.to_string()),
            Recovered::Discarded => Ok("discarded".to_owned()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_partition_stays_the_same_where_the_other_topic_has_it() {
        let broker = broker(&[("orders-dlt", 2), ("old.DLT", 1)]);
        let to = Destination::default;
        assert_eq!(recover(&broker, &record(1), to(), Spent::BackOff).await.unwrap(), "orders-dlt-1@0");
        // Partition 7 does not exist there: chosen by the key.
        let chosen = crate::source::memory::partition_of(b"k", 2);
        let expected = format!("orders-dlt-{chosen}@");
        assert!(recover(&broker, &record(7), to(), Spent::BackOff).await.unwrap().starts_with(&expected));
        let old = Record { topic: "old".into(), ..record(0) };
        let of_2_8 = Destination::of_version("2.8".parse().unwrap());
        assert_eq!(recover(&broker, &old, of_2_8, Spent::BackOff).await.unwrap(), "old.DLT-0@0");
        let letter = &broker.read(&TopicPartition::new("orders-dlt", 1), 0, 1).unwrap()[0];
        assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some(b"k".as_slice()), Some(b"v".as_slice())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_topic_that_does_not_exist_is_an_error() {
        let error = recover(&broker(&[]), &record(0), Destination::default(), Spent::BackOff).await;
        assert_eq!(error.unwrap_err().to_string(), "the dead letter was not stored: there is no topic \"orders-dlt\"");
    }

    #[tokio::test(start_paused = true)]
    async fn a_fatal_failure_never_goes_back_to_where_it_came_from() {
        // Report R74.
        let broker = broker(&[("orders", 1), ("orders-dlt", 1)]);
        let same = || Destination { topic: Some("orders".to_owned()), max_hops: 3, ..Destination::default() };
        let back = Err(RecoverError::BackToOrigin { topic: "orders".to_owned() });
        assert_eq!(recover(&broker, &record(0), same(), Spent::NotRetryable).await, back);
        // A failure that a retry may cure comes back, but not without end.
        let mut record = record(0);
        for hop in 0..3 {
            assert_eq!(recover(&broker, &record, same(), Spent::BackOff).await.unwrap(), format!("orders-0@{hop}"));
            record = (*broker.read(&TopicPartition::new("orders", 0), hop, 1).unwrap()[0]).clone();
        }
        let limit = Err(RecoverError::HopLimit { hops: 3, limit: 3 });
        assert_eq!(recover(&broker, &record, same(), Spent::BackOff).await, limit);
        // Round about: from the dead-letter topic back to the one before.
        let letter = Record {
            topic: "orders-dlt".into(),
            ..dead_letter(&self::record(0), &Failure::new(ErrorClass::new("a.B"), ""), &Destination::default())
        };
        assert_eq!(recover(&broker, &letter, same(), Spent::NotRetryable).await, back);
    }

    struct Silent;

    impl Publisher for Silent {
        async fn publish(&self, _: ProducerRecord) -> Result<Position, PublishError> {
            std::future::pending().await
        }

        async fn partitions(&self, _: &str) -> Option<i32> {
            None
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_acknowledgement_is_waited_for_with_a_bound() {
        let recoverer = DeadLetterRecoverer::new(Silent, Destination::default());
        let recoverer = recoverer.send_timeout(DeadLetterRecoverer::<Silent>::SPRING_SEND_TIMEOUT);
        let began = tokio::time::Instant::now();
        let failure = Failure::new(ErrorClass::new("a.B"), "failed");
        let error = recoverer.recover(&record(0), &failure, Spent::BackOff).await;
        assert_eq!(error, Err(RecoverError::TimedOut { after_ms: 125_000 }));
        assert_eq!(began.elapsed(), Duration::from_secs(125));
        assert_eq!(Discard.recover(&record(0), &failure, Spent::BackOff).await, Ok(Recovered::Discarded));
    }
}
