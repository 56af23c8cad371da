//! Back-off: how long an application waits between two executions of the same record, and how often it tries again.
//!
//! The settings are those of Spring's `FixedBackOff`, `ExponentialBackOff` and Spring Kafka's
//! `ExponentialBackOffWithMaxRetries`; the series of waits is theirs to the millisecond (facts/client.md D2).
//! Where Spring versions differ, the difference is a row of [`SPRING_VERSIONS`].
//!
//! A back-off counts *retries*; an error handler makes one execution more: `executions = retries + 1` (D1).

mod annotation;
mod error;
mod exponential;
mod plan;
mod series;
mod spring_version;

use serde::{Deserialize, Deserializer, Serialize};

pub use annotation::BackOffAnnotation;
pub use error::BackOffError;
pub use exponential::{Exponential, ExponentialMaxRetries};
pub use series::{Series, UnitRandom, no_random};
pub use spring_version::{JitterRule, SPRING_VERSIONS, SpringVersion, SpringVersionRow, UnknownSpringVersion};

use plan::Plan;

/// `FixedBackOff.DEFAULT_INTERVAL` (D1).
pub const DEFAULT_FIXED_INTERVAL_MS: i64 = 5_000;

/// The settings of a back-off, as an application gives them.
///
/// The numbers are signed, as in Java, so that a negative one can be named in an error and is not lost before.
/// In a limit `i64::MAX` (Java's `Long.MAX_VALUE`, `UNLIMITED_ATTEMPTS`) means the same as leaving it out: no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum BackOff {
    /// No retry: one execution, then the recoverer.
    #[serde(deserialize_with = "no_other_field")]
    None,
    /// `FixedBackOff`: always the same wait.
    Fixed(Fixed),
    /// `ExponentialBackOff`: waits that grow up to a maximum; without a limit unless one is set.
    Exponential(Exponential),
    /// `ExponentialBackOffWithMaxRetries`: growing waits, a number of retries.
    ExponentialMaxRetries(ExponentialMaxRetries),
}

/// A unit variant would accept any further key; this refuses it.
fn no_other_field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Empty {}
    Empty::deserialize(deserializer).map(|Empty {}| ())
}

/// `FixedBackOff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fixed {
    /// The wait before each retry.
    pub interval_ms: i64,
    /// The number of retries (Spring calls it `maxAttempts`); `None`: no limit.
    pub max_retries: Option<i64>,
}

impl Default for Fixed {
    /// `new FixedBackOff()`: 5 s, no limit.
    fn default() -> Self {
        Self { interval_ms: DEFAULT_FIXED_INTERVAL_MS, max_retries: None }
    }
}

impl Default for BackOff {
    /// What Spring Kafka's `DefaultErrorHandler` uses when nothing is set: `FixedBackOff(0, 9)`, ten executions (D1).
    fn default() -> Self {
        Self::fixed(0, 9)
    }
}

impl BackOff {
    /// `new FixedBackOff(interval, maxAttempts)`.
    pub fn fixed(interval_ms: i64, max_retries: i64) -> Self {
        Self::Fixed(Fixed { interval_ms, max_retries: Some(max_retries) })
    }

    /// A fixed wait and retries without end: `new FixedBackOff(interval, UNLIMITED_ATTEMPTS)`.
    pub fn fixed_unlimited(interval_ms: i64) -> Self {
        Self::Fixed(Fixed { interval_ms, max_retries: None })
    }

    /// The same back-off with every time multiplied by `scale`; numbers of retries stay. A time of 0 stays 0, and "no limit"
    /// stays so.
    #[must_use]
    pub fn scaled(&self, scale: f64) -> Self {
        let time = |time_ms: i64| match time_ms {
            0 | i64::MAX => time_ms,
            _ => ((time_ms as f64 * scale).round() as i64).max(1),
        };
        match self {
            Self::None => Self::None,
            Self::Fixed(fixed) => Self::Fixed(Fixed { interval_ms: time(fixed.interval_ms), ..fixed.clone() }),
            Self::Exponential(growing) => Self::Exponential(Exponential {
                initial_interval_ms: time(growing.initial_interval_ms),
                max_interval_ms: time(growing.max_interval_ms),
                jitter_ms: time(growing.jitter_ms),
                max_elapsed_ms: growing.max_elapsed_ms.map(time),
                ..growing.clone()
            }),
            Self::ExponentialMaxRetries(growing) => Self::ExponentialMaxRetries(ExponentialMaxRetries {
                initial_interval_ms: time(growing.initial_interval_ms),
                max_interval_ms: time(growing.max_interval_ms),
                jitter_ms: time(growing.jitter_ms),
                ..growing.clone()
            }),
        }
    }

    /// Whether its waits are random.
    pub fn has_jitter(&self) -> bool {
        match self {
            Self::None | Self::Fixed(_) => false,
            Self::Exponential(growing) => growing.jitter_ms != 0,
            Self::ExponentialMaxRetries(growing) => growing.jitter_ms != 0,
        }
    }

    /// Checks the settings for one Spring version.
    ///
    /// # Errors
    /// A negative number, a multiplier below 1, a sum that overflows, or a setting that this version does not have.
    pub fn validate(&self, version: SpringVersion) -> Result<(), BackOffError> {
        Plan::new(self, version).map(drop)
    }

    /// The waits in milliseconds, in order; the end of the series is the end of the retries.
    ///
    /// `random` is asked only when the settings have jitter; pass [`no_random`] when they cannot.
    ///
    /// # Errors
    /// As [`BackOff::validate`].
    pub fn series<R: UnitRandom>(&self, version: SpringVersion, random: R) -> Result<Series<R>, BackOffError> {
        Ok(Series::new(Plan::new(self, version)?, random))
    }

    /// The number of executions of a record that never succeeds: retries + 1; `None`: no bound.
    ///
    /// With jitter this is the largest number possible, see also [`BackOff::fewest_executions`].
    ///
    /// # Errors
    /// As [`BackOff::validate`].
    pub fn executions(&self, version: SpringVersion) -> Result<Option<u64>, BackOffError> {
        Ok(Plan::new(self, version)?.most_retries()?.map(|retries| retries.saturating_add(1)))
    }

    /// The smallest possible number of executions of a record that never succeeds: the same as
    /// [`BackOff::executions`] unless jitter makes a limit on time inexact (D2, last rows).
    ///
    /// # Errors
    /// As [`BackOff::validate`].
    pub fn fewest_executions(&self, version: SpringVersion) -> Result<Option<u64>, BackOffError> {
        Ok(Plan::new(self, version)?.fewest_retries()?.map(|retries| retries.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests;
