//! The waits of a back-off, one after the other.

use super::plan::Plan;

/// A source of uniform random numbers of [0, 1), for jitter. Any closure that returns an `f64` is one.
pub trait UnitRandom {
    /// The next number, 0 or more and below 1.
    fn next_unit(&mut self) -> f64;
}

impl<F: FnMut() -> f64> UnitRandom for F {
    fn next_unit(&mut self) -> f64 {
        self()
    }
}

/// The source to pass where the settings have no jitter: it is never asked.
pub fn no_random() -> f64 {
    0.0
}

/// The waits in milliseconds. The iterator ends where Spring's `nextBackOff` says `STOP`; one without a bound
/// never ends.
#[derive(Debug, Clone)]
pub struct Series<R> {
    plan: Plan,
    random: R,
    /// The last interval before jitter.
    interval_ms: Option<i64>,
    elapsed_ms: i64,
    retries: u64,
}

impl<R: UnitRandom> Series<R> {
    pub(super) fn new(plan: Plan, random: R) -> Self {
        Self { plan, random, interval_ms: None, elapsed_ms: 0, retries: 0 }
    }

    /// Begins the series anew, as the error handler does for another record or after a change of the exception's
    /// class. The random source goes on where it is.
    pub fn restart(&mut self) {
        self.interval_ms = None;
        self.elapsed_ms = 0;
        self.retries = 0;
    }

    /// How many waits it has given since it began.
    pub fn retries(&self) -> u64 {
        self.retries
    }
}

impl<R: UnitRandom> Iterator for Series<R> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let wait_ms = match &self.plan {
            Plan::Fixed { interval_ms, max_retries } => {
                if max_retries.is_some_and(|max| self.retries >= max) {
                    return None;
                }
                *interval_ms
            }
            Plan::Growing { growth, max_elapsed_ms, max_attempts } => {
                if self.elapsed_ms >= *max_elapsed_ms || self.retries >= max_attempts.unsigned_abs() {
                    return None;
                }
                let interval_ms = self.interval_ms.map_or(growth.first(), |current| growth.next(current));
                self.interval_ms = Some(interval_ms);
                let random = &mut self.random;
                let wait_ms = growth.wait(interval_ms, || random.next_unit());
                self.elapsed_ms = self.elapsed_ms.saturating_add(wait_ms);
                wait_ms
            }
        };
        self.retries = self.retries.saturating_add(1);
        Some(wait_ms.unsigned_abs())
    }
}
