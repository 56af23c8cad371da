//! Records for trying a sink out, on topics in memory.

use std::time::Duration;

use backfire_consumer::source::memory::{Broker, BrokerSettings, ConsumerSettings, MemoryConsumer};
use backfire_consumer::{ProducerRecord, SourceError, SplitMix64};

use crate::settings::Settings;

/// The most that records are made of, in bytes: they are kept in memory.
const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// A broker with the topic, its dead-letter topic and the records that the settings ask for: inventory of stores, keyed
/// by product. `now_ms` is the time in milliseconds since 1970; the same seed gives the same records.
///
/// # Errors
/// More records than memory is for.
pub fn broker(settings: &Settings, topic: &str, now_ms: i64, seed: u64) -> Result<Broker, SourceError> {
    let total = settings.generated_records.saturating_mul(settings.generated_bytes as u64);
    if total > MAX_BYTES {
        return Err(SourceError::Limit {
            what: "bytes of generated records (generated.records x generated.bytes)",
            limit: MAX_BYTES as usize,
        });
    }
    let broker_settings = BrokerSettings { began_at_ms: now_ms, ..BrokerSettings::default() };
    let broker = Broker::new(broker_settings, SplitMix64::new(seed));
    broker.create_topic(topic, settings.generated_partitions)?;
    let dead_letters = settings.destination().topic_for(topic);
    broker.create_topic(&dead_letters, settings.generated_partitions)?;
    let mut random = SplitMix64::new(seed);
    let name = std::sync::Arc::<str>::from(topic);
    for _ in 0..settings.generated_records {
        let (product, store, stock) = (random.next_u64() % 5_000, random.next_u64() % 100, random.next_u64() % 1_000);
        let mut value = format!("{{\"productId\":{product},\"storeId\":{store},\"stock\":{stock},\"note\":\"");
        let end = "\"}";
        while value.len() + end.len() < settings.generated_bytes {
            value.push('x');
        }
        value.push_str(end);
        broker.send(ProducerRecord {
            topic: name.clone(),
            partition: None,
            timestamp_ms: None,
            key: Some(product.to_string().into_bytes()),
            value: Some(value.into_bytes()),
            headers: Vec::new(),
        })?;
    }
    Ok(broker)
}

/// A member of the sink's group on topics in memory.
///
/// # Errors
/// The topic does not exist.
pub fn consumer(broker: &Broker, settings: &Settings, topic: &str) -> Result<MemoryConsumer, SourceError> {
    broker.consumer(ConsumerSettings {
        max_poll_interval: Duration::from_millis(settings.max_poll_interval_ms),
        session_timeout: Duration::from_millis(settings.session_timeout_ms),
        ..ConsumerSettings::new(settings.group(), [topic])
    })
}
