//! What a client of a Kafka broker can be told.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;

/// How long a client waits for an answer that its next step depends on.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// A consumer's or producer's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaSettings {
    /// `bootstrap.servers`: `host:port`, separated by commas.
    pub brokers: String,
    /// `group.id`; a producer has none.
    pub group: String,
    /// The topics to subscribe to.
    pub topics: Vec<String>,
    /// `max.poll.interval.ms`.
    pub max_poll_interval: Duration,
    /// `session.timeout.ms`.
    pub session_timeout: Duration,
    /// Anything else, by librdkafka's names; these come last, so they win.
    pub properties: BTreeMap<String, String>,
}

impl KafkaSettings {
    /// Kafka's defaults (facts/client.md D6), but a group without an offset begins at the oldest record.
    pub fn new(
        brokers: impl Into<String>,
        group: impl Into<String>,
        topics: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            brokers: brokers.into(),
            group: group.into(),
            topics: topics.into_iter().map(Into::into).collect(),
            max_poll_interval: Duration::from_secs(300),
            session_timeout: Duration::from_secs(45),
            properties: BTreeMap::new(),
        }
    }

    fn base(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers).set("client.id", "backfire");
        config
    }

    fn with_properties(&self, mut config: ClientConfig) -> ClientConfig {
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config
    }

    pub(super) fn consumer(&self) -> ClientConfig {
        let mut config = self.base();
        config
            .set("group.id", &self.group)
            .set("max.poll.interval.ms", self.max_poll_interval.as_millis().to_string())
            .set("session.timeout.ms", self.session_timeout.as_millis().to_string())
            .set("auto.offset.reset", "earliest")
            // The first of Kafka's own defaults. librdkafka does not mix it with the cooperative one.
            .set("partition.assignment.strategy", "range")
            // The lag is read from them.
            .set("statistics.interval.ms", "5000")
            // librdkafka's own default keeps 64 MiB for each consumer.
            .set("queued.max.messages.kbytes", "16384");
        let mut config = self.with_properties(config);
        // Offsets are committed when the work is done, and by nobody else.
        config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
        config
    }

    pub(super) fn producer(&self) -> ClientConfig {
        let mut config = self.base();
        config.set("linger.ms", "0");
        let mut config = self.with_properties(config);
        // A dead letter is written once, and by all replicas in sync.
        config.set("enable.idempotence", "true").set("acks", "all");
        config
    }
}
