//! Settings that have been checked for one Spring version, and the arithmetic of their waits.
//!
//! All of it is Java's: 64-bit signed numbers, a conversion from floating point that cuts off the fraction.

use super::{BackOff, BackOffError, Exponential, ExponentialMaxRetries, JitterRule, SpringVersion};

/// A series may have this many different waits before it reaches its maximum.
const MAX_STEPS: u64 = 1_000_000;

/// What a series needs to know.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Plan {
    /// Always the same wait.
    Fixed { interval_ms: i64, max_retries: Option<u64> },
    /// Growing waits; no limit is `i64::MAX`.
    Growing { growth: Growth, max_elapsed_ms: i64, max_attempts: i64 },
}

/// How waits grow and spread.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Growth {
    initial_interval_ms: i64,
    multiplier: f64,
    max_interval_ms: i64,
    jitter_ms: i64,
    rule: JitterRule,
}

impl Plan {
    pub(super) fn new(settings: &BackOff, version: SpringVersion) -> Result<Self, BackOffError> {
        match settings {
            BackOff::None => Ok(Self::Fixed { interval_ms: 0, max_retries: Some(0) }),
            BackOff::Fixed(fixed) => {
                not_negative("interval_ms", fixed.interval_ms)?;
                let max_retries = limit("max_retries", fixed.max_retries)?;
                let max_retries = (max_retries != i64::MAX).then_some(max_retries.unsigned_abs());
                Ok(Self::Fixed { interval_ms: fixed.interval_ms, max_retries })
            }
            BackOff::Exponential(settings) => Self::exponential(settings, version),
            BackOff::ExponentialMaxRetries(settings) => Self::exponential_max_retries(settings, version),
        }
    }

    fn exponential(settings: &Exponential, version: SpringVersion) -> Result<Self, BackOffError> {
        let growth = Growth::new(
            settings.initial_interval_ms,
            settings.multiplier,
            settings.max_interval_ms,
            settings.jitter_ms,
            version,
        )?;
        let max_elapsed_ms = limit("max_elapsed_ms", settings.max_elapsed_ms)?;
        let max_attempts = limit("max_attempts", settings.max_attempts)?;
        if settings.max_attempts.is_some() && !version.row().has_max_attempts {
            return Err(BackOffError::NotInVersion { field: "max_attempts", version, since: "6.1" });
        }
        Ok(Self::Growing { growth, max_elapsed_ms, max_attempts })
    }

    /// The limit on time is the sum of the first `max_retries` waits without jitter, and of at least one.
    fn exponential_max_retries(settings: &ExponentialMaxRetries, version: SpringVersion) -> Result<Self, BackOffError> {
        let growth = Growth::new(
            settings.initial_interval_ms,
            settings.multiplier,
            settings.max_interval_ms,
            settings.jitter_ms,
            version,
        )?;
        not_negative("max_retries", settings.max_retries)?;
        if settings.max_retries > i64::from(i32::MAX) {
            return Err(BackOffError::TooManyRetries { value: settings.max_retries });
        }
        let mut current = growth.initial_interval_ms.min(growth.max_interval_ms);
        let mut sum = current;
        for done in 1..settings.max_retries {
            let next = growth.next(current);
            if next == current {
                let rest = (settings.max_retries - done).checked_mul(current).ok_or(BackOffError::Overflow)?;
                sum = sum.checked_add(rest).ok_or(BackOffError::Overflow)?;
                break;
            }
            if done.unsigned_abs() > MAX_STEPS {
                return Err(BackOffError::TooManySteps { steps: MAX_STEPS });
            }
            sum = sum.checked_add(next).ok_or(BackOffError::Overflow)?;
            current = next;
        }
        Ok(Self::Growing { growth, max_elapsed_ms: sum, max_attempts: i64::MAX })
    }

    /// The largest number of retries; `None`: no bound.
    pub(super) fn most_retries(&self) -> Result<Option<u64>, BackOffError> {
        self.retries(Growth::shortest)
    }

    /// The smallest number of retries of a record that always fails; `None`: no bound.
    pub(super) fn fewest_retries(&self) -> Result<Option<u64>, BackOffError> {
        self.retries(Growth::longest)
    }

    /// Counts retries when each wait is what `pick` makes of it.
    fn retries(&self, pick: fn(&Growth, i64) -> i64) -> Result<Option<u64>, BackOffError> {
        let (growth, max_elapsed_ms, max_attempts) = match self {
            Self::Fixed { max_retries, .. } => return Ok(*max_retries),
            Self::Growing { growth, max_elapsed_ms, max_attempts } => (growth, *max_elapsed_ms, *max_attempts),
        };
        let attempts_limit = (max_attempts != i64::MAX).then_some(max_attempts.unsigned_abs());
        if max_elapsed_ms == i64::MAX {
            return Ok(attempts_limit);
        }
        let mut interval = growth.initial_interval_ms;
        let mut elapsed = 0_i64;
        let mut attempts = 0_u64;
        while elapsed < max_elapsed_ms {
            if attempts_limit.is_some_and(|limit| attempts >= limit) {
                return Ok(attempts_limit);
            }
            let wait = pick(growth, interval);
            elapsed = elapsed.saturating_add(wait);
            attempts += 1;
            let next = growth.next(interval);
            if next == interval {
                // From here on every wait is the same, so the rest is a division.
                let rest = match (max_elapsed_ms.saturating_sub(elapsed).max(0), wait) {
                    (0, _) => Some(0),
                    (_, 0) => None,
                    (left, wait) => Some(left.unsigned_abs().div_ceil(wait.unsigned_abs())),
                };
                let by_time = rest.map(|rest| attempts.saturating_add(rest));
                return Ok([by_time, attempts_limit].into_iter().flatten().min());
            }
            if attempts > MAX_STEPS {
                return Err(BackOffError::TooManySteps { steps: MAX_STEPS });
            }
            interval = next;
        }
        Ok(Some(attempts))
    }
}

impl Growth {
    fn new(
        initial_interval_ms: i64,
        multiplier: f64,
        max_interval_ms: i64,
        jitter_ms: i64,
        version: SpringVersion,
    ) -> Result<Self, BackOffError> {
        not_negative("initial_interval_ms", initial_interval_ms)?;
        not_negative("max_interval_ms", max_interval_ms)?;
        not_negative("jitter_ms", jitter_ms)?;
        if multiplier.is_nan() || multiplier < 1.0 {
            return Err(BackOffError::Multiplier { value: multiplier });
        }
        let rule = version.row().jitter;
        match rule {
            JitterRule::None if jitter_ms > 0 => {
                return Err(BackOffError::NotInVersion { field: "jitter_ms", version, since: "7.0" });
            }
            JitterRule::WholeFactorUnchecked if jitter_ms > 0 && initial_interval_ms == 0 => {
                return Err(BackOffError::JitterDividesByZero { jitter_ms, version });
            }
            _ => {}
        }
        Ok(Self { initial_interval_ms, multiplier, max_interval_ms, jitter_ms, rule })
    }

    /// The interval before jitter that comes first.
    pub(super) fn first(&self) -> i64 {
        self.initial_interval_ms
    }

    /// The interval before jitter that follows `current`.
    pub(super) fn next(&self, current: i64) -> i64 {
        if current >= self.max_interval_ms {
            return self.max_interval_ms;
        }
        // `as` cuts off the fraction, saturates, and makes NaN 0, as Java's conversion does.
        ((current as f64 * self.multiplier) as i64).min(self.max_interval_ms)
    }

    /// The wait for an interval, given a random number of [0, 1).
    pub(super) fn wait(&self, interval: i64, random: impl FnOnce() -> f64) -> i64 {
        let Some((least, most)) = self.spread(interval) else {
            return interval.min(self.max_interval_ms);
        };
        let span = most.saturating_sub(least) as f64;
        least.saturating_add((random() * span) as i64).min(self.max_interval_ms)
    }

    /// The shortest wait that jitter can make of an interval.
    fn shortest(&self, interval: i64) -> i64 {
        self.wait(interval, || 0.0)
    }

    /// The longest wait that jitter can make of an interval: the random number stays below 1.
    fn longest(&self, interval: i64) -> i64 {
        self.wait(interval, || 1.0_f64.next_down())
    }

    /// The bounds that jitter spreads an interval between; `None`: no jitter.
    fn spread(&self, interval: i64) -> Option<(i64, i64)> {
        if self.jitter_ms == 0 {
            return None;
        }
        let initial = self.initial_interval_ms;
        let reach = match self.rule {
            JitterRule::None => return None,
            JitterRule::WholeFactorUnchecked | JitterRule::WholeFactor => {
                self.jitter_ms.saturating_mul(interval.checked_div(initial).unwrap_or(1))
            }
            JitterRule::FractionFactor if initial == 0 => self.jitter_ms,
            JitterRule::FractionFactor => (self.jitter_ms as f64 * (interval as f64 / initial as f64)) as i64,
        };
        Some((interval.saturating_sub(reach).max(initial), interval.saturating_add(reach).min(self.max_interval_ms)))
    }
}

fn not_negative(field: &'static str, value: i64) -> Result<(), BackOffError> {
    if value < 0 { Err(BackOffError::Negative { field, value, limit: false }) } else { Ok(()) }
}

/// A limit as a number, `i64::MAX` for none.
fn limit(field: &'static str, value: Option<i64>) -> Result<i64, BackOffError> {
    match value {
        Some(value) if value < 0 => Err(BackOffError::Negative { field, value, limit: true }),
        Some(value) => Ok(value),
        None => Ok(i64::MAX),
    }
}
