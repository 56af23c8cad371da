//! Limits on the retries of one record that hold whatever its failures are.

use std::fmt;
use std::sync::Arc;

use backfire_model::back_off::UnitRandom;

/// Limits on top of a back-off. They count every execution of the record, also those before the back-off began anew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The largest number of executions.
    pub max_attempts: Option<u32>,
    /// No retry begins later than this after the first execution began, executions and waits counted.
    pub max_elapsed_ms: Option<u64>,
    /// Whether one retry is granted when the first execution alone used up `max_elapsed_ms`.
    pub grant_one_retry: bool,
    /// How much of a wait jitter may take away, from 0 to 1. It never makes a wait longer, so it cannot carry retries
    /// beyond the other limits.
    pub jitter: f64,
}

impl Default for Bounds {
    /// No limits.
    fn default() -> Self {
        Self { max_attempts: None, max_elapsed_ms: None, grant_one_retry: true, jitter: 0.0 }
    }
}

impl Bounds {
    /// A wait with jitter taken off it.
    pub(crate) fn spread(&self, wait_ms: u64, random: &mut SplitMix64) -> u64 {
        if self.jitter <= 0.0 {
            return wait_ms;
        }
        let less = wait_ms as f64 * self.jitter.min(1.0) * random.next_unit();
        wait_ms.saturating_sub(less as u64)
    }

    /// Which limit forbids a retry after this execution, if it were to begin `wait_ms` from now.
    pub(crate) fn spent(&self, executions: u32, elapsed_ms: u64, wait_ms: u64) -> Option<Spent> {
        if self.max_attempts.is_some_and(|most| executions >= most) {
            return Some(Spent::AttemptCap);
        }
        let window_ms = self.max_elapsed_ms?;
        let is_granted = self.grant_one_retry && executions == 1;
        (elapsed_ms.saturating_add(wait_ms) > window_ms && !is_granted).then_some(Spent::RetryWindow)
    }
}

/// What ended the retries of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// Its failure is not one to try again after.
    NotRetryable,
    /// The back-off has no further wait.
    BackOff,
    /// [`Bounds::max_attempts`].
    AttemptCap,
    /// [`Bounds::max_elapsed_ms`].
    RetryWindow,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotRetryable => "not retryable",
            Self::BackOff => "back-off",
            Self::AttemptCap => "attempt cap",
            Self::RetryWindow => "retry window",
        })
    }
}

/// A back-off of the application's own: the wait before the n-th retry, from 1 on; `None`: no further one.
#[derive(Clone)]
pub struct CustomBackOff(Arc<dyn Fn(u64) -> Option<u64> + Send + Sync>);

impl CustomBackOff {
    /// A back-off that asks a function.
    pub fn new(wait_ms: impl Fn(u64) -> Option<u64> + Send + Sync + 'static) -> Self {
        Self(Arc::new(wait_ms))
    }

    pub(crate) fn wait_ms(&self, retry: u64) -> Option<u64> {
        (self.0)(retry)
    }
}

impl fmt::Debug for CustomBackOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomBackOff")
    }
}

/// What happens to a record that cannot be made a dead letter, however often it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Terminal {
    /// It is tried again without end, with the longest wait; its partition stands still and nothing is committed.
    #[default]
    Block,
    /// It is put where the settings say, and committed once it is there.
    Park,
    /// The consumer stops; nothing is committed.
    Stop,
    /// It is given to the observer, and committed. The observer is the only one who has it then.
    Skip,
}

/// How a dead letter that could not be published is tried again. The work is not executed again meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// The wait before the second try; it doubles with each further one.
    pub first_wait_ms: u64,
    /// The longest wait.
    pub max_wait_ms: u64,
    /// After this many failed tries it is an alarm, and the terminal state.
    pub max_tries: u32,
    /// What then.
    pub then: Terminal,
}

impl Default for Recovery {
    /// 1 s, doubled up to 1 min; after 10 tries the partition is blocked with an alarm.
    fn default() -> Self {
        Self { first_wait_ms: 1_000, max_wait_ms: 60_000, max_tries: 10, then: Terminal::Block }
    }
}

impl Recovery {
    /// The wait after this many failed tries.
    pub(crate) fn wait_ms(&self, tries: u32) -> u64 {
        let factor = 1_u64.checked_shl(tries.saturating_sub(1)).unwrap_or(u64::MAX);
        self.first_wait_ms.saturating_mul(factor).min(self.max_wait_ms)
    }
}

/// A small generator of random numbers, for jitter: the same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator with a seed drawn from another.
    pub fn from_random(random: &mut impl UnitRandom) -> Self {
        Self((random.next_unit() * (1_u64 << 53) as f64) as u64)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl UnitRandom for SplitMix64 {
    fn next_unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_limits_name_themselves() {
        let bounds = Bounds { max_attempts: Some(10), max_elapsed_ms: Some(10_000), ..Bounds::default() };
        let cases = [
            // An execution that lasts longer than the window gets one retry all the same, and no second one.
            (1, 15_000, 0, None),
            (2, 15_000, 0, Some(Spent::RetryWindow)),
            (2, 9_000, 1_000, None),
            (2, 9_000, 1_001, Some(Spent::RetryWindow)),
            (9, 0, 0, None),
            (10, 0, 0, Some(Spent::AttemptCap)),
        ];
        for (executions, elapsed_ms, wait_ms, spent) in cases {
            assert_eq!(bounds.spent(executions, elapsed_ms, wait_ms), spent, "{executions} {elapsed_ms} {wait_ms}");
        }
        // Report R81: the error names which bound was spent.
        assert_eq!(
            [Spent::AttemptCap, Spent::RetryWindow].map(|spent| spent.to_string()),
            ["attempt cap", "retry window"]
        );
        let strict = Bounds { grant_one_retry: false, ..bounds };
        assert_eq!(strict.spent(1, 15_000, 0), Some(Spent::RetryWindow));
        assert_eq!(Bounds::default().spent(u32::MAX, u64::MAX, u64::MAX), None);
    }

    #[test]
    fn recovery_waits_double_up_to_the_longest() {
        let recovery = Recovery { first_wait_ms: 100, max_wait_ms: 1_000, ..Recovery::default() };
        let waits: Vec<u64> = [1, 2, 3, 4, 5, 40, 64, 200].map(|tries| recovery.wait_ms(tries)).to_vec();
        assert_eq!(waits, [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000]);
    }

    proptest! {
        /// Jitter only shortens a wait, and by no more than its part.
        #[test]
        fn jitter_never_overshoots(wait_ms in 0_u64..1_000_000, jitter in 0.0..=1.0, seed: u64) {
            let mut random = SplitMix64::new(seed);
            let spread = Bounds { jitter, ..Bounds::default() }.spread(wait_ms, &mut random);
            prop_assert!(spread <= wait_ms);
            prop_assert!(spread as f64 >= wait_ms as f64 * (1.0 - jitter) - 1.0);
        }
    }
}
