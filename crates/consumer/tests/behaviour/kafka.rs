//! librdkafka's mock cluster, and a real broker.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backfire_consumer::source::kafka::{KafkaConsumer, KafkaPublisher, KafkaSettings};
use backfire_consumer::{Record, TimestampType};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::world::World;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Numbers the tests, so that each has a topic of its own.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A cluster and a topic on it.
pub struct Kafka {
    brokers: String,
    topic: String,
    /// `None`: it is a real broker.
    mock: Option<MockCluster<'static, DefaultProducerContext>>,
}

impl Kafka {
    pub fn mock() -> Self {
        let cluster = MockCluster::new(1).expect("a mock cluster");
        Self { brokers: cluster.bootstrap_servers(), topic: "orders".to_owned(), mock: Some(cluster) }
    }

    /// The broker that the environment names; `None`: none is named.
    pub fn real() -> Option<Self> {
        let Ok(brokers) = std::env::var("BACKFIRE_KAFKA_BROKERS") else {
            println!(
                "SKIPPED: kafka: no real Kafka broker; clients/kafka/run starts one and sets BACKFIRE_KAFKA_BROKERS"
            );
            return None;
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Some(Self { brokers, topic: format!("orders-{}-{number}", std::process::id()), mock: None })
    }

    pub fn settings(&self) -> KafkaSettings {
        KafkaSettings::new(&self.brokers, self.group(), [self.topic()])
    }

    fn reader(&self) -> BaseConsumer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers).set("group.id", self.group()).set("enable.auto.commit", "false");
        config.create().expect("a consumer")
    }
}

impl World for Kafka {
    type Source = KafkaConsumer;
    type Publisher = KafkaPublisher;

    fn topic(&self) -> &str {
        &self.topic
    }

    fn group(&self) -> &str {
        &self.topic
    }

    fn takes_commits_in_rebalance(&self) -> bool {
        self.mock.is_none()
    }

    fn shortest_interval(&self) -> Duration {
        Duration::from_secs(6)
    }

    async fn create_topics(&self, partitions: i32, dead_letter_partitions: i32) {
        let dead_letters = format!("{}-dlt", self.topic);
        if let Some(mock) = &self.mock {
            mock.create_topic(&self.topic, partitions, 1).expect("the topic is made");
            mock.create_topic(&dead_letters, dead_letter_partitions, 1).expect("the topic is made");
            return;
        }
        let publisher = self.publisher();
        publisher.create_topic(&self.topic, partitions).await.expect("the topic is made");
        publisher.create_topic(&dead_letters, dead_letter_partitions).await.expect("the topic is made");
    }

    fn consumer(&self, max_poll_interval: Duration) -> KafkaConsumer {
        let session_timeout = Duration::from_secs(6);
        let mut settings = KafkaSettings { max_poll_interval, session_timeout, ..self.settings() };
        settings.properties.insert("heartbeat.interval.ms".to_owned(), "300".to_owned());
        KafkaConsumer::new(&settings).expect("a consumer")
    }

    fn publisher(&self) -> KafkaPublisher {
        KafkaPublisher::new(&self.settings()).expect("a producer")
    }

    async fn committed(&self, partition: i32) -> Option<i64> {
        let (reader, topic) = (self.reader(), self.topic.clone());
        let ask = move || {
            let mut list = TopicPartitionList::new();
            list.add_partition(&topic, partition);
            let list = reader.committed_offsets(list, TIMEOUT).ok()?;
            match list.find_partition(&topic, partition)?.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            }
        };
        tokio::task::spawn_blocking(ask).await.expect("no panic")
    }

    async fn records(&self, topic: &str) -> Vec<Record> {
        let (reader, topic) = (self.reader(), topic.to_owned());
        tokio::task::spawn_blocking(move || read_all(&reader, &topic)).await.expect("no panic")
    }
}

fn read_all(reader: &BaseConsumer, topic: &str) -> Vec<Record> {
    let metadata = reader.fetch_metadata(Some(topic), TIMEOUT).expect("metadata");
    let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
    let mut list = TopicPartitionList::new();
    let mut expected = 0;
    for partition in 0..i32::try_from(partitions).expect("not many") {
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
        let (low, high) = reader.fetch_watermarks(topic, partition, TIMEOUT).expect("watermarks");
        expected += usize::try_from(high - low).expect("not negative");
    }
    reader.assign(&list).expect("assigned");
    let mut records = Vec::new();
    while records.len() < expected {
        let message = reader.poll(TIMEOUT).expect("a message in time").expect("no error");
        let headers = message.headers().map(|headers| {
            headers.iter().map(|header| (header.key.to_owned(), header.value.unwrap_or_default().to_vec())).collect()
        });
        records.push(Record {
            topic: message.topic().into(),
            partition: message.partition(),
            offset: message.offset(),
            timestamp_ms: message.timestamp().to_millis().unwrap_or(-1),
            timestamp_type: TimestampType::CreateTime,
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.unwrap_or_default(),
        });
    }
    records.sort_by_key(|record| (record.partition, record.offset));
    records
}

mod errors {
    //! What can be wrong with a broker is told, and soon.

    use backfire_consumer::{Container, ContainerError, ContainerSettings, Delivery, Discard, SourceError, per_record};

    use super::*;

    async fn run(settings: &KafkaSettings, patience: Duration) -> ContainerError {
        let source = KafkaConsumer::new(settings).expect("a consumer");
        let work = per_record(|_: Delivery| async { Ok(()) });
        let container_settings = ContainerSettings {
            source_patience: patience,
            poll_timeout: Duration::from_millis(500),
            ..ContainerSettings::default()
        };
        let container = Container::new(source, work, Discard, container_settings, 1);
        let ended = tokio::time::timeout(Duration::from_secs(60), container.run()).await;
        ended.expect("it ends within a minute").expect_err("it cannot run")
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_broker_that_cannot_be_reached() {
        let settings = KafkaSettings::new("127.0.0.1:1", "group", ["orders"]);
        let error = run(&settings, Duration::from_secs(5)).await;
        assert!(matches!(&error, ContainerError::Source(SourceError::Broker { transient: true, .. })), "{error:?}");
        assert!(error.to_string().contains("Broker transport failure"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_topic_that_does_not_exist() {
        let world = Kafka::mock();
        let mut settings = world.settings();
        settings.properties.insert("topic.metadata.propagation.max.ms".to_owned(), "1000".to_owned());
        settings.topics = vec!["nowhere".to_owned()];
        if let Some(mock) = &world.mock {
            // The mock cluster would make it.
            let unknown = rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
            mock.topic_error("nowhere", unknown).expect("an error");
        }
        let error = run(&settings, Duration::from_secs(30)).await;
        assert_eq!(error.to_string(), "the source failed: there is no topic \"nowhere\"");
    }

    #[test]
    fn settings_that_make_no_sense() {
        let mut settings = KafkaSettings::new("127.0.0.1:1", "group", ["orders"]);
        settings.properties.insert("no.such.property".to_owned(), "1".to_owned());
        let error = KafkaConsumer::new(&settings).expect_err("not taken").to_string();
        assert!(error.contains("no.such.property"), "{error}");
        assert!(KafkaConsumer::new(&KafkaSettings::new("b:1", "group", [""; 0])).is_err());
    }
}
