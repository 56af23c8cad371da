//! Where a consumer's records come from and its dead letters go to.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backfire_consumer::source::memory::{Broker, BrokerSettings, ConsumerSettings, MemoryConsumer};
use backfire_consumer::{ProducerRecord, Publisher, Record, Source, TopicPartition};
use backfire_model::back_off::no_random;
use tokio::time::{Instant, sleep};

/// A broker of some kind, with a topic and a group that no other test uses.
pub trait World {
    /// Its consumers.
    type Source: Source + 'static;
    /// Its producers.
    type Publisher: Publisher + Clone + 'static;

    /// The topic of this test; its dead letters go to this and `-dlt`.
    fn topic(&self) -> &str;

    /// The group of this test.
    fn group(&self) -> &str;

    /// Whether a member can still commit when the group has begun to rebalance. Brokers can; the mock cluster cannot.
    fn takes_commits_in_rebalance(&self) -> bool;

    /// The shortest poll interval that can be used.
    fn shortest_interval(&self) -> Duration;

    /// Makes the topic, and that of its dead letters.
    fn create_topics(&self, partitions: i32, dead_letter_partitions: i32) -> impl Future<Output = ()>;

    /// Another member of the group.
    fn consumer(&self, max_poll_interval: Duration) -> Self::Source;

    /// A producer.
    fn publisher(&self) -> Self::Publisher;

    /// The group's offset of a partition of the topic.
    fn committed(&self, partition: i32) -> impl Future<Output = Option<i64>>;

    /// All records of a topic, partition by partition.
    fn records(&self, topic: &str) -> impl Future<Output = Vec<Record>>;

    /// Writes records to a partition of the topic: `0`, `1`, ...
    fn fill(&self, partition: i32, records: usize) -> impl Future<Output = ()> {
        async move {
            let publisher = self.publisher();
            for number in 0..records {
                let record = ProducerRecord {
                    topic: self.topic().into(),
                    partition: Some(partition),
                    key: Some(b"key".to_vec()),
                    value: Some(number.to_string().into_bytes()),
                    headers: vec![("own".to_owned(), b"1".to_vec())],
                    timestamp_ms: Some(1_000),
                };
                publisher.publish(record).await.expect("the record is written");
            }
        }
    }

    /// Waits until all records of these partitions are committed.
    fn until_committed(&self, offsets: &[(i32, i64)]) -> impl Future<Output = ()> {
        async move {
            for (partition, offset) in offsets {
                until(async || self.committed(*partition).await == Some(*offset)).await;
            }
        }
    }
}

/// Waits until something is so.
///
/// # Panics
/// When it is not so after a minute.
pub async fn until(is_so: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < Duration::from_secs(60), "it did not come about within a minute");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Topics in memory, on the paused clock.
pub struct Memory {
    broker: Broker,
}

impl Memory {
    pub fn new() -> Self {
        Self { broker: Broker::new(BrokerSettings::default(), no_random) }
    }
}

impl World for Memory {
    type Source = MemoryConsumer;
    type Publisher = Broker;

    fn topic(&self) -> &str {
        "orders"
    }

    fn group(&self) -> &str {
        "group"
    }

    fn takes_commits_in_rebalance(&self) -> bool {
        true
    }

    fn shortest_interval(&self) -> Duration {
        Duration::from_secs(6)
    }

    async fn create_topics(&self, partitions: i32, dead_letter_partitions: i32) {
        self.broker.create_topic("orders", partitions).expect("the topic is made");
        self.broker.create_topic("orders-dlt", dead_letter_partitions).expect("the topic is made");
    }

    fn consumer(&self, max_poll_interval: Duration) -> MemoryConsumer {
        let settings = ConsumerSettings { max_poll_interval, ..ConsumerSettings::new("group", ["orders"]) };
        self.broker.consumer(settings).expect("the topic exists")
    }

    fn publisher(&self) -> Broker {
        self.broker.clone()
    }

    async fn committed(&self, partition: i32) -> Option<i64> {
        self.broker.committed("group", &TopicPartition::new("orders", partition))
    }

    async fn records(&self, topic: &str) -> Vec<Record> {
        let partitions =
            (0..self.broker.partitions(topic).unwrap_or(0)).map(|number| TopicPartition::new(topic, number));
        partitions
            .flat_map(|partition| self.broker.read(&partition, 0, usize::MAX).expect("the partition exists"))
            .map(Arc::unwrap_or_clone)
            .collect()
    }
}
