//! Topics of a real Kafka broker, through librdkafka (feature `kafka`).
//!
//! librdkafka asks for an answer to each rebalance. Here the answer is given by the next poll, not in the callback: so
//! partitions that the group wants back stay this consumer's while it ends and commits what it has begun, as the
//! contract of [`Source`](crate::Source) says.

mod consumer;
mod context;
mod convert;
mod errors;
mod publisher;
mod settings;

pub use consumer::KafkaConsumer;
pub use publisher::KafkaPublisher;
pub use settings::KafkaSettings;
