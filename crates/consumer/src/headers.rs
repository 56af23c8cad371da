//! The names of the headers that a dead letter carries (facts/client.md D3; Spring Kafka's `KafkaHeaders`).

/// The topic that the record came from.
pub const ORIGINAL_TOPIC: &str = "kafka_dlt-original-topic";
/// Its partition there: 4 bytes, big-endian.
pub const ORIGINAL_PARTITION: &str = "kafka_dlt-original-partition";
/// Its offset there: 8 bytes, big-endian.
pub const ORIGINAL_OFFSET: &str = "kafka_dlt-original-offset";
/// Its timestamp there: 8 bytes, big-endian.
pub const ORIGINAL_TIMESTAMP: &str = "kafka_dlt-original-timestamp";
/// What that timestamp means, as text.
pub const ORIGINAL_TIMESTAMP_TYPE: &str = "kafka_dlt-original-timestamp-type";
/// The consumer group that gave it up.
pub const ORIGINAL_CONSUMER_GROUP: &str = "kafka_dlt-original-consumer-group";
/// The class of the last exception, Spring Kafka's wrapper.
pub const EXCEPTION_FQCN: &str = "kafka_dlt-exception-fqcn";
/// The class of the application's exception below that wrapper.
pub const EXCEPTION_CAUSE_FQCN: &str = "kafka_dlt-exception-cause-fqcn";
/// The messages of the two.
pub const EXCEPTION_MESSAGE: &str = "kafka_dlt-exception-message";
/// The chain of exceptions as `printStackTrace` begins its lines.
pub const EXCEPTION_STACKTRACE: &str = "kafka_dlt-exception-stacktrace";
/// The class of an exception about the key; set only where the key cannot be deserialized.
pub const KEY_EXCEPTION_FQCN: &str = "kafka_dlt-key-exception-fqcn";
/// Its message.
pub const KEY_EXCEPTION_MESSAGE: &str = "kafka_dlt-key-exception-message";
/// Its stack trace.
pub const KEY_EXCEPTION_STACKTRACE: &str = "kafka_dlt-key-exception-stacktrace";

/// Which delivery of the record this is, from 1 on: 4 bytes, big-endian; where the settings ask for it.
pub const DELIVERY_ATTEMPT: &str = "kafka_deliveryAttempt";
/// How often the record was a dead letter, as text. Ours, not Spring Kafka's.
pub const HOPS: &str = "backfire_dlt-hops";
/// The identity of what the record wants written, `topic-partition-offset`; set by a replay. Ours.
pub const IDEMPOTENCY_KEY: &str = "backfire_idempotency-key";

/// Whether a header is one that makes a record a dead letter.
pub fn is_of_dead_letter(name: &str) -> bool {
    name.starts_with("kafka_dlt-") || [HOPS, IDEMPOTENCY_KEY, DELIVERY_ATTEMPT].contains(&name)
}
