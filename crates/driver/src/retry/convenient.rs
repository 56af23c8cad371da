//! What `with_transaction` does after a failure: a state machine without I/O.
//!
//! Source: <https://github.com/mongodb/specifications/blob/master/source/transactions-convenient-api/transactions-convenient-api.md>,
//! in its older form without a back-off and in its newer one.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::{DriverError, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT, codes};

/// For how long attempts are begun, without `timeoutMS`.
pub const LIMIT: Duration = Duration::from_secs(120);
const BACK_OFF_BASE_MS: f64 = 5.0;
const BACK_OFF_GROWTH: f64 = 1.5;
const BACK_OFF_MOST_MS: f64 = 500.0;

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Start a new transaction and run the body again, after this wait.
    RunBody(Duration),
    /// Say commit again.
    CommitAgain,
    /// Raise the error.
    Raise,
    /// `timeoutMS` has run out: raise the timeout with the error as its cause.
    TimedOut,
}

/// The state of one `with_transaction`.
#[derive(Debug, Clone, Copy)]
pub struct Convenient {
    began: Instant,
    /// When `timeoutMS` runs out, if it is set.
    deadline: Option<Instant>,
    backs_off: bool,
    retries: u32,
}

impl Convenient {
    /// Begins. `backs_off`: the newer rules.
    pub fn new(began: Instant, deadline: Option<Instant>, backs_off: bool) -> Self {
        Self { began, deadline, backs_off, retries: 0 }
    }

    /// How often the body was run again.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// The body failed, and its transaction was aborted. `jitter` gives a number in [0, 1).
    pub fn body_failed(&mut self, error: &DriverError, now: Instant, jitter: impl FnOnce() -> f64) -> Next {
        if error.has_label(TRANSIENT_TRANSACTION_ERROR) { self.again(now, jitter) } else { Next::Raise }
    }

    /// The commit failed.
    pub fn commit_failed(&mut self, error: &DriverError, now: Instant, jitter: impl FnOnce() -> f64) -> Next {
        let expired = error.code() == Some(codes::MAX_TIME_MS_EXPIRED);
        if error.has_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) && !expired && !error.is_operation_timeout() {
            return if now < self.until() { Next::CommitAgain } else { self.over() };
        }
        if error.has_label(TRANSIENT_TRANSACTION_ERROR) { self.again(now, jitter) } else { Next::Raise }
    }

    fn until(&self) -> Instant {
        self.deadline.unwrap_or(self.began + LIMIT)
    }

    fn over(&self) -> Next {
        if self.deadline.is_some() { Next::TimedOut } else { Next::Raise }
    }

    fn again(&mut self, now: Instant, jitter: impl FnOnce() -> f64) -> Next {
        let wait = if self.backs_off { back_off(self.retries + 1, jitter()) } else { Duration::ZERO };
        if now + wait >= self.until() {
            return self.over();
        }
        self.retries += 1;
        Next::RunBody(wait)
    }
}

/// How long to wait before retry number `retry`, from 1: `jitter` in [0, 1) times what grows up to half a second.
pub fn back_off(retry: u32, jitter: f64) -> Duration {
    let exponent = i32::try_from(retry).unwrap_or(i32::MAX);
    let whole_ms = (BACK_OFF_BASE_MS * BACK_OFF_GROWTH.powi(exponent)).min(BACK_OFF_MOST_MS);
    Duration::from_secs_f64(whole_ms * jitter.clamp(0.0, 1.0) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::reply::command_error;
    use bson::doc;

    fn error(label: &str, code: i32) -> DriverError {
        command_error(doc! {"ok": 0, "code": code, "errorLabels": [label]})
    }

    #[test]
    fn thirteen_back_offs_without_jitter_are_two_seconds_and_a_bit() {
        let sum: Duration = (1..=13).map(|retry| back_off(retry, 1.0)).sum();
        assert_eq!(sum.as_millis(), 2282);
        assert_eq!(back_off(1, 1.0), Duration::from_micros(7500));
        assert_eq!(back_off(u32::MAX, 1.0), Duration::from_millis(500));
        assert_eq!(back_off(5, 0.0), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn labels_decide_and_time_ends_it() {
        let (transient, unknown) = (TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT);
        let began = Instant::now();
        let later = |seconds| began + Duration::from_secs(seconds);
        let again = Next::RunBody(Duration::ZERO);
        for (deadline, label, code, at, body, commit) in [
            (None, transient, 112, 119, again, again),
            (None, transient, 112, 120, Next::Raise, Next::Raise),
            (None, unknown, 91, 119, Next::Raise, Next::CommitAgain),
            (None, unknown, 91, 120, Next::Raise, Next::Raise),
            (None, unknown, 50, 1, Next::Raise, Next::Raise),
            (None, "Other", 11000, 1, Next::Raise, Next::Raise),
            (Some(later(5)), transient, 112, 4, again, again),
            (Some(later(5)), transient, 112, 5, Next::TimedOut, Next::TimedOut),
            (Some(later(5)), unknown, 91, 5, Next::Raise, Next::TimedOut),
            (Some(later(500)), transient, 112, 400, again, again),
        ] {
            let (mut one, mut other) =
                (Convenient::new(began, deadline, false), Convenient::new(began, deadline, false));
            let error = error(label, code);
            assert_eq!(one.body_failed(&error, later(at), || 1.0), body, "{label} {code} at {at}");
            assert_eq!(other.commit_failed(&error, later(at), || 1.0), commit, "{label} {code} at {at}");
        }
        let mut newer = Convenient::new(began, None, true);
        let error = error(transient, 112);
        assert_eq!(newer.body_failed(&error, began, || 1.0), Next::RunBody(Duration::from_micros(7500)));
        assert_eq!(newer.body_failed(&error, began, || 0.5), Next::RunBody(Duration::from_micros(5625)));
        assert_eq!(newer.body_failed(&error, later(120) - Duration::from_millis(1), || 1.0), Next::Raise);
        assert_eq!(newer.retries(), 2);
    }
}
