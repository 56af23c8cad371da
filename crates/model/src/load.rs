//! The parts of a scenario that only a simulation looks at: the Kafka consumers, and how much there is to do.

use serde::{Deserialize, Serialize};

/// More consumers than this are refused.
pub const CONSUMERS_MAX: u64 = 100_000;
/// More records in all than this are refused.
pub const RECORDS_MAX: u64 = 10_000_000;

/// The Kafka consumers of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kafka {
    /// Kafka's `max.poll.records`.
    pub max_poll_records: u64,
    /// Kafka's `max.poll.interval.ms`.
    pub max_poll_interval_ms: u64,
    /// What the listener is handed.
    pub listener: ListenerKind,
    /// What handles failed records.
    pub error_handling: ErrorHandling,
    /// Whether dead letters can be published; where not, Spring Kafka starts the whole back-off over.
    pub dead_letters: DeadLetterTopic,
}

/// What the listener is handed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListenerKind {
    /// One record at a time.
    #[default]
    Single,
    /// All records of a poll at once. It writes them one after the other, and an exception has the whole batch executed again
    /// (facts/client.md D4, F9).
    Batch,
}

/// What handles failed records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorHandling {
    /// Spring Kafka's `DefaultErrorHandler`: sleeps on the consumer's thread between two polls.
    #[default]
    Spring,
    /// The same with a `ContainerPausingBackOffHandler`: polls go on during the wait.
    SpringPausing,
    /// backfire's own consumer: polls go on during executions as well.
    Bounded,
}

/// Whether dead letters can be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadLetterTopic {
    /// Yes.
    #[default]
    Available,
    /// No: every attempt fails.
    Failing,
}

impl Default for Kafka {
    /// Kafka's and Spring Kafka's defaults (facts/client.md D1, D6).
    fn default() -> Self {
        Self {
            max_poll_records: 500,
            max_poll_interval_ms: 300_000,
            listener: ListenerKind::default(),
            error_handling: ErrorHandling::default(),
            dead_letters: DeadLetterTopic::default(),
        }
    }
}

impl Kafka {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self { max_poll_records: 0, .. } => Err("kafka.max_poll_records is 0; it must be 1 or more".to_owned()),
            Self { max_poll_interval_ms: 0, .. } => {
                Err("kafka.max_poll_interval_ms is 0; it must be 1 or more".to_owned())
            }
            Self { listener: ListenerKind::Batch, error_handling, .. } if *error_handling != ErrorHandling::Spring => {
                Err("kafka.listener = \"batch\" goes with kafka.error_handling = \"spring\"".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// How much there is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// Consumers of the one group.
    pub consumers: u64,
    /// Partitions of the topic; without it, one for each consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u64>,
    /// Records per partition.
    pub records: u64,
    /// The time between two records of a partition; 0: all are there at the start.
    pub arrival_interval_ms: u64,
    /// How many consumers share one client and its connection pool.
    pub consumers_per_client: u64,
    /// How long a write takes in the engine, with its ticket, when nothing stalls: with the tickets, the server's capacity.
    pub service_ms: u64,
    /// How these times are spread.
    pub service: crate::predict::Distribution,
    /// When the simulation ends though records are left.
    pub until_ms: u64,
}

impl Default for Load {
    /// One record, and an hour for it.
    fn default() -> Self {
        Self {
            consumers: 1,
            partitions: None,
            records: 1,
            arrival_interval_ms: 0,
            consumers_per_client: 1,
            service_ms: 0,
            service: crate::predict::Distribution::Fixed,
            until_ms: 3_600_000,
        }
    }
}

impl Load {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// All records.
    pub fn records_all(&self) -> u64 {
        self.partitions().saturating_mul(self.records)
    }

    /// Partitions of the topic.
    pub fn partitions(&self) -> u64 {
        self.partitions.unwrap_or(self.consumers)
    }

    /// Whether every number can be simulated.
    ///
    /// # Errors
    /// The number that cannot, and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, most: u64| match value {
            0 => Err(format!("load.{name} is 0; it must be 1 or more")),
            _ if value > most => Err(format!("load.{name} is {value}; it must be {most} or less")),
            _ => Ok(()),
        };
        within("consumers", self.consumers, CONSUMERS_MAX)?;
        within("partitions", self.partitions(), CONSUMERS_MAX)?;
        within("records", self.records, RECORDS_MAX)?;
        within("consumers_per_client", self.consumers_per_client, CONSUMERS_MAX)?;
        within("until_ms", self.until_ms, 30 * 24 * 3_600_000)?;
        if self.records_all() > RECORDS_MAX {
            let all = self.records_all();
            return Err(format!(
                "load.partitions x load.records is {all} records; a simulation has {RECORDS_MAX} at most"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_simulated_is_refused_by_name() {
        let load = |consumers, records| Load { consumers, records, ..Load::default() };
        for (load, expected) in [
            (load(1, 1), None),
            (load(1000, 1000), None),
            (load(0, 1), Some("load.consumers is 0; it must be 1 or more")),
            (load(1, 10_000_001), Some("load.records is 10000001; it must be 10000000 or less")),
            (
                load(100_000, 1000),
                Some("load.partitions x load.records is 100000000 records; a simulation has 10000000 at most"),
            ),
        ] {
            assert_eq!(load.check().err().as_deref(), expected);
        }
    }
}
