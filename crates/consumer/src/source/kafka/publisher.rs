//! Records to a Kafka broker.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::producer::{FutureProducer, Producer};
use rdkafka::util::Timeout;
use tokio::time::Instant;

use crate::dead_letters::{PublishError, Publisher};
use crate::record::{Position, ProducerRecord, TopicPartition};
use crate::source::SourceError;
use crate::source::kafka::convert::future_record;
use crate::source::kafka::errors::of_call;
use crate::source::kafka::settings::KafkaSettings;

/// How long the number of a topic's partitions is believed.
const KNOWN_FOR: Duration = Duration::from_secs(300);

/// How many topics' numbers are remembered.
const MAX_KNOWN: usize = 1_000;

/// How long a broker is asked for it (Spring Kafka's `verifyPartition`, facts/client.md D3).
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes records to a Kafka broker, idempotently and to all replicas in sync. A clone is the same producer.
#[derive(Clone)]
pub struct KafkaPublisher {
    producer: FutureProducer,
    known: Arc<Mutex<HashMap<String, (i32, Instant)>>>,
}

impl KafkaPublisher {
    /// A producer. It connects when it is used.
    ///
    /// # Errors
    /// Settings that librdkafka does not take.
    pub fn new(settings: &KafkaSettings) -> Result<Self, SourceError> {
        let producer = settings.producer().create().map_err(|error| of_call(&error))?;
        Ok(Self { producer, known: Arc::default() })
    }
}

impl Publisher for KafkaPublisher {
    async fn publish(&self, record: ProducerRecord) -> Result<Position, PublishError> {
        let sent = self.producer.send(future_record(&record), Timeout::Never).await;
        let delivery = sent.map_err(|(error, _)| error)?;
        Ok(Position { partition: TopicPartition::new(record.topic, delivery.partition), offset: delivery.offset })
    }

    async fn partitions(&self, topic: &str) -> Option<i32> {
        let now = Instant::now();
        if let Some((count, until)) = self.known.lock().get(topic).copied()
            && now < until
        {
            return Some(count);
        }
        let (producer, name) = (self.producer.clone(), topic.to_owned());
        let look_up = move || {
            let metadata = producer.client().fetch_metadata(Some(&name), LOOK_UP_TIMEOUT).ok()?;
            let topic = metadata.topics().iter().find(|found| found.name() == name)?;
            // A topic with an error has none.
            i32::try_from(topic.partitions().len()).ok().filter(|count| *count > 0)
        };
        let count = tokio::task::spawn_blocking(look_up).await.ok()??;
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(topic.to_owned(), (count, now + KNOWN_FOR));
        Some(count)
    }
}

impl std::fmt::Debug for KafkaPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaPublisher").finish_non_exhaustive()
    }
}
