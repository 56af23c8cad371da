//! Records to a Kafka broker.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{FutureProducer, Producer};
use rdkafka::util::Timeout;
use tokio::time::Instant;

use crate::dead_letters::{PublishError, Publisher};
use crate::record::{Position, ProducerRecord, TopicPartition};
use crate::source::SourceError;
use crate::source::kafka::convert::future_record;
use crate::source::kafka::errors::of_call;
use crate::source::kafka::settings::{ANSWER_TIMEOUT, KafkaSettings};

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
    admin: ClientConfig,
    known: Arc<Mutex<HashMap<String, (i32, Instant)>>>,
}

impl KafkaPublisher {
    /// A producer. It connects when it is used.
    ///
    /// # Errors
    /// Settings that librdkafka does not take.
    pub fn new(settings: &KafkaSettings) -> Result<Self, SourceError> {
        let config = settings.producer();
        let producer = config.create().map_err(|error| of_call(&error))?;
        Ok(Self { producer, admin: settings.base_with_properties(), known: Arc::default() })
    }

    /// Makes a topic, with one replica of each partition where the broker has no more.
    ///
    /// # Errors
    /// The broker refuses, or there is one of that name.
    pub async fn create_topic(&self, topic: &str, partitions: i32) -> Result<(), PublishError> {
        let admin: AdminClient<DefaultClientContext> = self.admin.create()?;
        // -1: the broker's own default.
        let wanted = [NewTopic::new(topic, partitions, TopicReplication::Fixed(-1))];
        let options = AdminOptions::new().operation_timeout(Some(ANSWER_TIMEOUT));
        let made = admin.create_topics(&wanted, &options).await?;
        let refused = |(name, code)| PublishError { message: format!("topic {name:?} was not made: {code}") };
        made.into_iter().try_for_each(|one| one.map(drop).map_err(refused))
    }

    /// Deletes topics, with all that is in them.
    ///
    /// # Errors
    /// The broker refuses one.
    pub async fn delete_topics(&self, topics: &[String]) -> Result<(), PublishError> {
        let admin: AdminClient<DefaultClientContext> = self.admin.create()?;
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        let options = AdminOptions::new().operation_timeout(Some(ANSWER_TIMEOUT));
        let deleted = admin.delete_topics(&names, &options).await?;
        let refused = |(name, code)| PublishError { message: format!("topic {name:?} was not deleted: {code}") };
        deleted.into_iter().try_for_each(|one| one.map(drop).map_err(refused))
    }

    /// Waits until a broker answers, for this long at most.
    ///
    /// # Errors
    /// None did.
    pub async fn reach(&self, patience: Duration) -> Result<(), SourceError> {
        let producer = self.producer.clone();
        // Any topic will do; that it does not exist is an answer too.
        let ask = move || producer.client().fetch_metadata(Some("backfire"), patience);
        let failed = |message: String| SourceError::Broker { message, transient: true };
        match tokio::task::spawn_blocking(ask).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(failed(format!("no broker answers within {} ms: {error}", patience.as_millis()))),
            Err(error) => Err(failed(error.to_string())),
        }
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
