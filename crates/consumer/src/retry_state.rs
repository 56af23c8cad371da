//! The rules of retrying one record, as a state machine without input or output.
//!
//! ```text
//!            +------------------ wait over -----------------+
//!            v                                              |
//! begin -> Execute -- failed, retryable, back-off left --> Wait
//!            |  \-- failed, not retryable or back-off spent --> Recover -- recovered --> Done
//!            |                                                    |
//!            |<-------------------- recovery failed --------------+
//!            \-- succeeded --> Done
//! ```
//!
//! Source: Spring Kafka's `FailedRecordTracker` and `FailedRecordProcessor` (facts/client.md D1).

use std::time::Duration;

use backfire_model::Execution;
use backfire_model::back_off::{BackOff, BackOffError, Series, SpringVersion, UnitRandom};

use crate::classifier::Classifier;
use crate::failure::{ErrorClass, Failure};
use crate::spring_kafka::SpringKafkaVersion;

/// How long a wait really takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitMode {
    /// As long as the back-off says.
    #[default]
    Exact,
    /// As the consumer thread sleeps: in slices of 100 ms, or of 10 ms up to a wait of 500 ms, and at least one
    /// (`ListenerUtils.conditionalSleep`).
    Slices,
}

impl WaitMode {
    /// How long a wait takes.
    pub fn takes_ms(self, wait_ms: u64) -> u64 {
        match self {
            Self::Exact => wait_ms,
            Self::Slices => {
                let slice_ms = if wait_ms > 500 { 100 } else { 10 };
                wait_ms.div_ceil(slice_ms).max(1).saturating_mul(slice_ms)
            }
        }
    }
}

/// What the rules depend on.
#[derive(Debug, Clone)]
pub struct RetrySettings {
    /// How long to wait, and how often.
    pub back_off: BackOff,
    /// The version of Spring whose back-off it is.
    pub spring: SpringVersion,
    /// Which failures are tried again.
    pub classifier: Classifier,
    /// Whether the back-off starts over when a failure's class is neither that of the failure before nor one that it
    /// extends. Then alternating classes are retried without end.
    pub reset_on_exception_change: bool,
    /// Whether the back-off starts over when the record could not be recovered. If not, each further execution is
    /// followed by the recoverer.
    pub reset_on_recovery_failure: bool,
    /// How long waits take.
    pub wait_mode: WaitMode,
}

impl Default for RetrySettings {
    /// `new DefaultErrorHandler()`: nine retries without a wait.
    fn default() -> Self {
        Self {
            back_off: BackOff::default(),
            spring: SpringVersion::default(),
            classifier: Classifier::default(),
            reset_on_exception_change: SpringKafkaVersion::default().reset_on_exception_change,
            reset_on_recovery_failure: true,
            wait_mode: WaitMode::Exact,
        }
    }
}

/// What is to be done with the record. Each turn is used up by reporting what came of it.
#[derive(Debug)]
pub enum Turn<'s, R> {
    /// Run its work.
    Execute(ExecuteTurn<'s, R>),
    /// Wait.
    Wait(WaitTurn<'s, R>),
    /// Give it up.
    Recover(RecoverTurn<'s, R>),
}

/// An execution is to be run.
#[derive(Debug)]
pub struct ExecuteTurn<'s, R> {
    state: &'s mut RetryState<R>,
}

/// The time has to pass.
#[derive(Debug)]
pub struct WaitTurn<'s, R> {
    state: &'s mut RetryState<R>,
    until: Duration,
}

/// The record is to become a dead letter.
#[derive(Debug)]
pub struct RecoverTurn<'s, R> {
    state: &'s mut RetryState<R>,
    failure: Failure,
    retryable: bool,
}

/// What followed from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AfterFailure {
    /// Whether it is one to try again after.
    pub retryable: bool,
    /// Whether the back-off started over.
    pub back_off_restarted: bool,
    /// The wait by the back-off before the next execution; `None`: the record is to be given up.
    pub wait_ms: Option<u64>,
}

/// Where the retries of a record stand.
#[derive(Debug)]
pub struct RetryState<R> {
    settings: RetrySettings,
    series: Series<R>,
    phase: Phase,
    execution: u32,
    /// The class of the last retryable failure, and how many there were since the back-off began.
    last: Option<(ErrorClass, u64)>,
}

#[derive(Debug, Clone)]
enum Phase {
    Execute,
    Wait { until: Duration },
    Recover { failure: Failure, retryable: bool },
    Done,
}

impl<R: UnitRandom> RetryState<R> {
    /// Ready for a first record. `random` is for jitter.
    ///
    /// # Errors
    /// The back-off cannot be used.
    pub fn new(settings: RetrySettings, random: R) -> Result<Self, BackOffError> {
        let series = settings.back_off.series(settings.spring, random)?;
        Ok(Self { settings, series, phase: Phase::Execute, execution: 1, last: None })
    }

    /// Begins another record: its first execution is to be done.
    pub fn begin(&mut self) {
        self.execution = 1;
        self.phase = Phase::Execute;
        self.forget();
    }

    /// What is to be done; `None`: nothing, the record is done.
    pub fn turn(&mut self) -> Option<Turn<'_, R>> {
        match self.phase.clone() {
            Phase::Execute => Some(Turn::Execute(ExecuteTurn { state: self })),
            Phase::Wait { until } => Some(Turn::Wait(WaitTurn { state: self, until })),
            Phase::Recover { failure, retryable } => {
                Some(Turn::Recover(RecoverTurn { state: self, failure, retryable }))
            }
            Phase::Done => None,
        }
    }

    /// The execution that is to be run, runs, or ran last; from 1 on.
    pub fn execution(&self) -> Execution {
        Execution(self.execution)
    }

    /// Begins the back-off anew.
    fn forget(&mut self) {
        self.last = None;
        self.series.restart();
    }

    fn failures(&self) -> u64 {
        self.last.as_ref().map_or(0, |(_, failures)| *failures)
    }

    fn execute_again(&mut self) {
        self.execution = self.execution.saturating_add(1);
        self.phase = Phase::Execute;
    }
}

impl<R: UnitRandom> ExecuteTurn<'_, R> {
    /// Which execution it is, from 1 on.
    pub fn execution(&self) -> Execution {
        self.state.execution()
    }

    /// Spring Kafka's delivery attempt: as the execution, but counted anew when the back-off starts over.
    pub fn attempt(&self) -> u64 {
        self.state.failures().saturating_add(1)
    }

    /// It returned without an error.
    pub fn succeeded(self) {
        self.state.phase = Phase::Done;
    }

    /// It failed at this time. The clock is the caller's, and may begin anywhere.
    pub fn failed(self, failure: &Failure, now: Duration) -> AfterFailure {
        let state = self.state;
        if !state.settings.classifier.is_retryable(failure) {
            state.phase = Phase::Recover { failure: failure.clone(), retryable: false };
            return AfterFailure { retryable: false, back_off_restarted: false, wait_ms: None };
        }
        let class = failure.root().class.clone();
        let is_change = |(last, _): &(ErrorClass, u64)| !last.is_a(class.name());
        let back_off_restarted = state.settings.reset_on_exception_change && state.last.as_ref().is_some_and(is_change);
        if back_off_restarted {
            state.forget();
        }
        state.last = Some((class, state.failures().saturating_add(1)));
        let wait_ms = state.series.next();
        state.phase = match wait_ms {
            Some(wait_ms) => {
                let takes = Duration::from_millis(state.settings.wait_mode.takes_ms(wait_ms));
                Phase::Wait { until: now.saturating_add(takes) }
            }
            None => Phase::Recover { failure: failure.clone(), retryable: true },
        };
        AfterFailure { retryable: true, back_off_restarted, wait_ms }
    }
}

impl<R: UnitRandom> WaitTurn<'_, R> {
    /// When the wait is over, on the clock of [`ExecuteTurn::failed`].
    pub fn until(&self) -> Duration {
        self.until
    }

    /// It is this time now; the wait may be over.
    pub fn time(self, now: Duration) {
        if now >= self.until {
            self.state.execute_again();
        }
    }
}

impl<R: UnitRandom> RecoverTurn<'_, R> {
    /// The execution that failed last.
    pub fn execution(&self) -> Execution {
        self.state.execution()
    }

    /// The failure that the record is given up for.
    pub fn failure(&self) -> &Failure {
        &self.failure
    }

    /// It is a dead letter.
    pub fn recovered(self) {
        self.state.phase = Phase::Done;
    }

    /// It could not be made a dead letter, so it is executed again, at once.
    pub fn failed(self) {
        // A failure that is not retryable never touched the back-off, so there is nothing to begin anew.
        if self.retryable && self.state.settings.reset_on_recovery_failure {
            self.state.forget();
        }
        self.state.execute_again();
    }
}

#[cfg(test)]
pub(crate) mod tests;
