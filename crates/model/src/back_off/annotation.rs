//! `@Backoff` of `@RetryableTopic` (spring-retry): the waits between the main topic and its retry topics.

use super::{BackOff, BackOffError, Exponential, Fixed, Series, SpringVersion, no_random};

/// spring-retry's longest wait when `maxDelay` is not larger than `delay`.
const DEFAULT_MAX_DELAY_MS: i64 = 30_000;

/// The values of `@Backoff` and the `attempts` of the `@RetryableTopic` around it (facts/client.md D5).
///
/// `random = true` and the uniform wait that `maxDelay` without a multiplier asks for are not covered.
#[derive(Debug, Clone, PartialEq)]
pub struct BackOffAnnotation {
    /// `delay`; 1000 when not written.
    pub delay_ms: i64,
    /// `maxDelay`; 0 when not written. A value that is not larger than the delay means 30 s.
    pub max_delay_ms: i64,
    /// `multiplier`; 0, the value when not written, means a fixed delay.
    pub multiplier: f64,
    /// `attempts`, the first delivery included; 3 when not written.
    pub attempts: i64,
}

impl Default for BackOffAnnotation {
    fn default() -> Self {
        Self { delay_ms: 1_000, max_delay_ms: 0, multiplier: 0.0, attempts: 3 }
    }
}

impl BackOffAnnotation {
    /// The waits in milliseconds: one per retry delivery. They are the same in every Spring version.
    ///
    /// # Errors
    /// Fewer than one attempt, or what [`BackOff::validate`] refuses.
    pub fn series(&self) -> Result<Series<fn() -> f64>, BackOffError> {
        self.back_off()?.series(SpringVersion::default(), no_random)
    }

    /// The number of deliveries of a record that never succeeds: `attempts`.
    ///
    /// # Errors
    /// As [`BackOffAnnotation::series`].
    pub fn executions(&self) -> Result<Option<u64>, BackOffError> {
        self.back_off()?.executions(SpringVersion::default())
    }

    fn back_off(&self) -> Result<BackOff, BackOffError> {
        if self.attempts < 1 {
            return Err(BackOffError::Attempts { value: self.attempts });
        }
        let retries = Some(self.attempts - 1);
        if self.multiplier == 0.0 {
            return Ok(BackOff::Fixed(Fixed { interval_ms: self.delay_ms, max_retries: retries }));
        }
        let max_interval_ms = if self.max_delay_ms > self.delay_ms { self.max_delay_ms } else { DEFAULT_MAX_DELAY_MS };
        Ok(BackOff::Exponential(Exponential {
            max_interval_ms,
            max_attempts: retries,
            ..Exponential::new(self.delay_ms, self.multiplier)
        }))
    }
}
