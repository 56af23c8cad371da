//! The differences between Spring Kafka versions that this room knows, as one table.

/// A version of Spring Kafka and what it does unless told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpringKafkaVersion {
    /// The first release it holds for.
    pub since: &'static str,
    /// Whether another class of exception starts the back-off over (facts/client.md D1).
    pub reset_on_exception_change: bool,
    /// What is put behind a topic's name to give that of its dead letters (D3).
    pub dead_letter_suffix: &'static str,
}

/// The versions that differ, oldest first.
pub const SPRING_KAFKA_VERSIONS: &[SpringKafkaVersion] = &[
    SpringKafkaVersion { since: "2.7", reset_on_exception_change: false, dead_letter_suffix: ".DLT" },
    SpringKafkaVersion { since: "2.9", reset_on_exception_change: true, dead_letter_suffix: ".DLT" },
    SpringKafkaVersion { since: "3.3", reset_on_exception_change: true, dead_letter_suffix: "-dlt" },
];

impl Default for SpringKafkaVersion {
    /// 3.3, the version that the measurements were made with.
    fn default() -> Self {
        SPRING_KAFKA_VERSIONS[SPRING_KAFKA_VERSIONS.len() - 1]
    }
}
