//! What can be wrong with back-off settings.

use super::SpringVersion;

/// A back-off that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BackOffError {
    /// A number below 0.
    #[error("{field} is {value}; it must be 0 or more{}", if *.limit { ". Leave it out for no limit" } else { "" })]
    Negative {
        /// The setting's name.
        field: &'static str,
        /// Its value.
        value: i64,
        /// Whether the setting is a limit, so that leaving it out means "no limit".
        limit: bool,
    },
    /// A multiplier below 1, or not a number.
    #[error("multiplier is {value}; it must be 1 or more (1: every wait is the same)")]
    Multiplier {
        /// The value.
        value: f64,
    },
    /// `@RetryableTopic(attempts)` counts the first delivery.
    #[error("attempts is {value}; it must be 1 or more, as it counts the first delivery")]
    Attempts {
        /// The value.
        value: i64,
    },
    /// `maxRetries` is an `int` in Spring Kafka.
    #[error("max_retries is {value}; the largest possible number is {}", i32::MAX)]
    TooManyRetries {
        /// The value.
        value: i64,
    },
    /// The sum of the waits does not fit 64 bits; in Spring it would turn negative and end the retries at once.
    #[error("the waits add up to more than {} ms; lower max_retries or max_interval_ms", i64::MAX)]
    Overflow,
    /// The multiplier is so close to 1 that the series takes very many steps to reach its maximum.
    #[error("the waits grow too slowly to be counted (more than {steps} different ones); raise multiplier")]
    TooManySteps {
        /// The limit on steps.
        steps: u64,
    },
    /// A setting that this version of Spring does not have.
    #[error("{field} does not exist in Spring Framework {version}; it came with {since}")]
    NotInVersion {
        /// The setting's name.
        field: &'static str,
        /// The version asked for.
        version: SpringVersion,
        /// The first version that has it.
        since: &'static str,
    },
    /// Spring 7.0.0 divides by the initial interval when there is jitter.
    #[error(
        "initial_interval_ms is 0 and jitter_ms is {jitter_ms}; Spring Framework {version} divides by zero here \
         (repaired by 7.0.10)"
    )]
    JitterDividesByZero {
        /// The jitter.
        jitter_ms: i64,
        /// The version asked for.
        version: SpringVersion,
    },
}
