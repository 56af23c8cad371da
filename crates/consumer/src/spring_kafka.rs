//! The differences between Spring Kafka versions that this room knows, as one table.

use std::fmt;
use std::str::FromStr;

/// When a batch that is tried again as a whole polls the consumer, which is what keeps it in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchRetryPolls {
    /// Before each wait only: the wait and the next execution add up.
    BeforeWait,
    /// Before and after each wait (spring-kafka pull 2543).
    AroundWait,
    /// Also while it waits, once a slice of 100 ms (pull 3885).
    WhileWaiting,
}

/// A version of Spring Kafka and what it does unless told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpringKafkaVersion {
    /// The first release it holds for.
    pub since: &'static str,
    /// That release as numbers: major, minor, patch.
    pub first_release: (u16, u16, u16),
    /// Whether another class of exception starts the back-off over (facts/client.md D1).
    pub reset_on_exception_change: bool,
    /// What is put behind a topic's name to give that of its dead letters (D3).
    pub dead_letter_suffix: &'static str,
    /// Whether records can be kept in memory instead of being fetched again (`setSeekAfterError(false)`), and the
    /// container be paused for a wait (`ContainerPausingBackOffHandler`) (D1).
    pub can_keep_records: bool,
    /// How a batch that is tried again as a whole polls (D4).
    pub batch_retry_polls: BatchRetryPolls,
    /// Whether such a batch ends at once when a later failure is one that is not retried (D4).
    pub batch_reclassifies: bool,
}

const fn row(
    since: &'static str,
    first_release: (u16, u16, u16),
    suffix: &'static str,
    batch_retry_polls: BatchRetryPolls,
    batch_reclassifies: bool,
) -> SpringKafkaVersion {
    // Everything that came with 2.9 is in all later versions.
    let is_2_9 = first_release.0 > 2 || first_release.1 >= 9;
    SpringKafkaVersion {
        since,
        first_release,
        reset_on_exception_change: is_2_9,
        dead_letter_suffix: suffix,
        can_keep_records: is_2_9,
        batch_retry_polls,
        batch_reclassifies,
    }
}

/// The versions that differ, oldest first. Where the facts name no patch release, it was read in the published sources:
/// polls while waiting are in 3.3.6 and not in 3.3.5.
pub const SPRING_KAFKA_VERSIONS: &[SpringKafkaVersion] = &[
    row("2.7", (2, 7, 0), ".DLT", BatchRetryPolls::BeforeWait, false),
    row("2.9", (2, 9, 0), ".DLT", BatchRetryPolls::BeforeWait, false),
    row("2.9.5", (2, 9, 5), ".DLT", BatchRetryPolls::AroundWait, false),
    row("2.9.7", (2, 9, 7), ".DLT", BatchRetryPolls::AroundWait, true),
    row("3.0", (3, 0, 0), ".DLT", BatchRetryPolls::BeforeWait, false),
    row("3.0.2", (3, 0, 2), ".DLT", BatchRetryPolls::AroundWait, false),
    row("3.0.5", (3, 0, 5), ".DLT", BatchRetryPolls::AroundWait, true),
    row("3.3", (3, 3, 0), "-dlt", BatchRetryPolls::AroundWait, true),
    row("3.3.6", (3, 3, 6), "-dlt", BatchRetryPolls::WhileWaiting, true),
    row("4.0", (4, 0, 0), "-dlt", BatchRetryPolls::WhileWaiting, true),
];

impl Default for SpringKafkaVersion {
    /// 3.3.10, the version that the measurements were made with.
    fn default() -> Self {
        Self::of_release((3, 3, 10)).unwrap_or(SPRING_KAFKA_VERSIONS[SPRING_KAFKA_VERSIONS.len() - 1])
    }
}

impl SpringKafkaVersion {
    /// The row of a release; `None`: older than 2.7.
    pub fn of_release(release: (u16, u16, u16)) -> Option<Self> {
        SPRING_KAFKA_VERSIONS.iter().rev().find(|row| row.first_release <= release).copied()
    }
}

impl fmt::Display for SpringKafkaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.since)
    }
}

/// Text that is no version of Spring Kafka from 2.7 on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no Spring Kafka version from 2.7 on; write it like 3.3 or 3.3.10")]
pub struct UnknownSpringKafkaVersion {
    text: String,
}

impl FromStr for SpringKafkaVersion {
    type Err = UnknownSpringKafkaVersion;

    /// Reads `3.3`, `3.3.10` or `4.2.0-M1` and finds the row it belongs to.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || UnknownSpringKafkaVersion { text: text.chars().take(40).collect() };
        let numbers = text.split_once('-').map_or(text, |(numbers, _)| numbers);
        let mut parts = numbers.split('.').map(|part| part.parse::<u16>().map_err(|_| error()));
        let major = parts.next().ok_or_else(error)??;
        let minor = parts.next().ok_or_else(error)??;
        let patch = parts.next().transpose()?.unwrap_or(0);
        if parts.next().is_some() {
            return Err(error());
        }
        Self::of_release((major, minor, patch)).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_belongs_to_the_row_it_came_after() {
        assert!(SPRING_KAFKA_VERSIONS.is_sorted_by_key(|row| row.first_release));
        let cases = [
            ("2.8.11", "2.7"),
            ("2.9.13", "2.9.7"),
            ("3.0.0", "3.0"),
            ("3.2.0", "3.0.5"),
            ("3.3.0", "3.3"),
            ("3.3.16", "3.3.6"),
            ("4.2.0-M1", "4.0"),
        ];
        for (text, since) in cases {
            assert_eq!(text.parse::<SpringKafkaVersion>().unwrap().since, since, "{text}");
        }
        for text in ["", "2.6.9", "3", "three.one", "3.1.2.3", "3.1.x"] {
            assert!(text.parse::<SpringKafkaVersion>().is_err(), "{text}");
        }
        assert_eq!(SpringKafkaVersion::default().dead_letter_suffix, "-dlt");
    }
}
