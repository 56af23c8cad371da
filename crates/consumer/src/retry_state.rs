//! The rules of retrying one record, as a state machine without input or output.
//!
//! ```text
//!            +------------------ wait over -----------------+
//!            v                                              |
//! begin -> Execute -- failed, retryable, retries left --> Wait
//!            |  \-- failed, not retryable or retries spent --> Recover -- recovered --> Done
//!            |                                                  |   ^
//!            |<------ recovery failed, Spring's rules ----------+   | wait over
//!            |                                                  v   |
//!            |                recovery failed, bounded rules: Wait -+- tries spent --> Terminal --> Done
//!            \-- succeeded --> Done
//! ```
//!
//! Source of Spring's rules: `FailedRecordTracker` and `FailedRecordProcessor` (facts/client.md D1).

use std::sync::Arc;
use std::time::Duration;

use backfire_model::Execution;
use backfire_model::back_off::{BackOff, BackOffError, Exponential, Series, SpringVersion, UnitRandom};

use crate::bounds::{Bounds, CustomBackOff, Recovery, Spent, SplitMix64, Terminal};
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
    /// Waits of the application's own instead of `back_off`.
    pub custom: Option<CustomBackOff>,
    /// Limits that hold whatever the failures are.
    pub bounds: Bounds,
    /// Whether each failure is classified. If not, only a record's first failure is (batches before 2.9.7, facts D4).
    pub reclassify: bool,
    /// How a record that could not be recovered goes on; `None`: as in Spring, its work is executed again.
    pub recovery: Option<Recovery>,
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
            custom: None,
            bounds: Bounds::default(),
            reclassify: true,
            recovery: None,
        }
    }
}

impl RetrySettings {
    /// Retries that always end: waits of 1 s, doubled up to 30 s, each up to half shorter by jitter; at most 10
    /// executions, none begun later than 5 min after the first; a change of the failure's class changes nothing; a dead
    /// letter that cannot be published blocks its partition with an alarm.
    pub fn bounded() -> Self {
        Self {
            back_off: BackOff::Exponential(Exponential::new(1_000, 2.0)),
            reset_on_exception_change: false,
            bounds: Bounds {
                max_attempts: Some(10),
                max_elapsed_ms: Some(300_000),
                grant_one_retry: true,
                jitter: 0.5,
            },
            recovery: Some(Recovery::default()),
            ..Self::default()
        }
    }

    /// Whether the retries of a record end, whatever its failures are: a limit on attempts or on time, or a back-off
    /// that ends and is not begun anew.
    pub fn is_bounded(&self) -> bool {
        let has_limit = self.bounds.max_attempts.is_some() || self.bounds.max_elapsed_ms.is_some();
        let back_off_ends = self.custom.is_none() && matches!(self.back_off.executions(self.spring), Ok(Some(_)));
        let recovery_ends = self.recovery.is_some();
        recovery_ends && (has_limit || (back_off_ends && !self.reset_on_exception_change))
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
    /// It could not be given up: what the settings say is to be done with it.
    Terminal(TerminalTurn<'s, R>),
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
    given_up: GivenUp,
}

/// The record is in its terminal state: to be parked, skipped, or the reason to stop.
#[derive(Debug)]
pub struct TerminalTurn<'s, R> {
    state: &'s mut RetryState<R>,
    given_up: GivenUp,
    terminal: Terminal,
}

/// What followed from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AfterFailure {
    /// Whether it is one to try again after.
    pub retryable: bool,
    /// Whether the back-off started over.
    pub back_off_restarted: bool,
    /// The wait before the next execution; `None`: the record is to be given up.
    pub wait_ms: Option<u64>,
    /// Why it is to be given up.
    pub spent: Option<Spent>,
}

/// What followed from a recovery that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AfterRecoveryFailure {
    /// How many tries failed so far.
    pub tries: u32,
    /// The wait before the next try. `None`: there is none, the work is executed again or the terminal state is reached.
    pub wait_ms: Option<u64>,
    /// Whether the tries that were allowed are spent.
    pub alarm: bool,
}

/// Where the retries of a record stand.
#[derive(Debug)]
pub struct RetryState<R> {
    settings: Arc<RetrySettings>,
    series: Series<R>,
    jitter: SplitMix64,
    phase: Phase,
    /// When the first execution began.
    began: Duration,
    execution: u32,
    /// The class of the last retryable failure, and how many there were since the back-off began.
    last: Option<(ErrorClass, u64)>,
}

#[derive(Debug, Clone)]
enum Phase {
    Execute,
    /// Until then; after it the record is executed again, or given up again.
    Wait {
        until: Duration,
        given_up: Option<GivenUp>,
    },
    Recover(GivenUp),
    Terminal(GivenUp, Terminal),
    Done,
}

/// A record that is not to be executed any more.
#[derive(Debug, Clone)]
struct GivenUp {
    failure: Failure,
    spent: Spent,
    /// How often it could not be recovered.
    tries: u32,
}

impl<R: UnitRandom> RetryState<R> {
    /// Ready for a first record. `random` is for jitter. States may share their settings.
    ///
    /// # Errors
    /// The back-off cannot be used.
    pub fn new(settings: impl Into<Arc<RetrySettings>>, mut random: R) -> Result<Self, BackOffError> {
        let settings = settings.into();
        let jitter = match settings.bounds.jitter > 0.0 {
            true => SplitMix64::from_random(&mut random),
            false => SplitMix64::new(0),
        };
        let series = settings.back_off.series(settings.spring, random)?;
        let phase = Phase::Execute;
        Ok(Self { settings, series, jitter, phase, began: Duration::ZERO, execution: 1, last: None })
    }

    /// Begins another record at time 0: its first execution is to be done.
    pub fn begin(&mut self) {
        self.begin_at(Duration::ZERO);
    }

    /// Begins another record at this time, which counts for [`Bounds::max_elapsed_ms`].
    pub fn begin_at(&mut self, now: Duration) {
        self.execution = 1;
        self.phase = Phase::Execute;
        self.began = now;
        self.forget();
    }

    /// What is to be done; `None`: nothing, the record is done.
    pub fn turn(&mut self) -> Option<Turn<'_, R>> {
        match self.phase.clone() {
            Phase::Execute => Some(Turn::Execute(ExecuteTurn { state: self })),
            Phase::Wait { until, .. } => Some(Turn::Wait(WaitTurn { state: self, until })),
            Phase::Recover(given_up) => Some(Turn::Recover(RecoverTurn { state: self, given_up })),
            Phase::Terminal(given_up, terminal) => {
                Some(Turn::Terminal(TerminalTurn { state: self, given_up, terminal }))
            }
            Phase::Done => None,
        }
    }

    /// Until when it waits, on the clock of [`ExecuteTurn::failed`]; `None`: it does not wait.
    pub fn waits_until(&self) -> Option<Duration> {
        match self.phase {
            Phase::Wait { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Spring Kafka's delivery attempt of the next execution: as the execution, but counted anew when the back-off
    /// starts over.
    pub fn attempt(&self) -> u64 {
        self.failures().saturating_add(1)
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

    fn give_up(&mut self, failure: &Failure, spent: Spent) {
        self.phase = Phase::Recover(GivenUp { failure: failure.clone(), spent, tries: 0 });
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
        self.state.attempt()
    }

    /// It returned without an error.
    pub fn succeeded(self) {
        self.state.phase = Phase::Done;
    }

    /// It failed at this time. The clock is the caller's, and may begin anywhere.
    pub fn failed(self, failure: &Failure, now: Duration) -> AfterFailure {
        let state = self.state;
        let settings = Arc::clone(&state.settings);
        let is_classified = settings.reclassify || state.execution == 1;
        if is_classified && !settings.classifier.is_retryable(failure) {
            state.give_up(failure, Spent::NotRetryable);
            let spent = Some(Spent::NotRetryable);
            return AfterFailure { retryable: false, back_off_restarted: false, wait_ms: None, spent };
        }
        let class = failure.root().class.clone();
        let is_change = |(last, _): &(ErrorClass, u64)| !last.is_a(class.name());
        let back_off_restarted = settings.reset_on_exception_change && state.last.as_ref().is_some_and(is_change);
        if back_off_restarted {
            state.forget();
        }
        state.last = Some((class, state.failures().saturating_add(1)));
        let wait_ms = match &settings.custom {
            Some(custom) => custom.wait_ms(state.failures()),
            None => state.series.next(),
        };
        let decided = match wait_ms {
            None => Err(Spent::BackOff),
            Some(wait_ms) => {
                let wait_ms = settings.bounds.spread(wait_ms, &mut state.jitter);
                let takes_ms = settings.wait_mode.takes_ms(wait_ms);
                let elapsed_ms = u64::try_from(now.saturating_sub(state.began).as_millis()).unwrap_or(u64::MAX);
                match settings.bounds.spent(state.execution, elapsed_ms, takes_ms) {
                    None => Ok((wait_ms, takes_ms)),
                    Some(spent) => Err(spent),
                }
            }
        };
        match decided {
            Ok((wait_ms, takes_ms)) => {
                let until = now.saturating_add(Duration::from_millis(takes_ms));
                state.phase = Phase::Wait { until, given_up: None };
                AfterFailure { retryable: true, back_off_restarted, wait_ms: Some(wait_ms), spent: None }
            }
            Err(spent) => {
                state.give_up(failure, spent);
                AfterFailure { retryable: true, back_off_restarted, wait_ms: None, spent: Some(spent) }
            }
        }
    }
}

impl<R: UnitRandom> WaitTurn<'_, R> {
    /// When the wait is over, on the clock of [`ExecuteTurn::failed`].
    pub fn until(&self) -> Duration {
        self.until
    }

    /// It is this time now; the wait may be over.
    pub fn time(self, now: Duration) {
        if now < self.until {
            return;
        }
        match std::mem::replace(&mut self.state.phase, Phase::Done) {
            Phase::Wait { given_up: Some(given_up), .. } => self.state.phase = Phase::Recover(given_up),
            _ => self.state.execute_again(),
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
        &self.given_up.failure
    }

    /// What ended its retries.
    pub fn spent(&self) -> Spent {
        self.given_up.spent
    }

    /// It is a dead letter.
    pub fn recovered(self) {
        self.state.phase = Phase::Done;
    }

    /// It could not be made a dead letter at this time. By Spring's rules it is executed again, at once; else it is
    /// tried again after a wait, until the tries are spent.
    pub fn failed(self, now: Duration) -> AfterRecoveryFailure {
        let Self { state, given_up } = self;
        let tries = given_up.tries.saturating_add(1);
        let Some(recovery) = state.settings.recovery else {
            // A failure that is not retryable never touched the back-off, so there is nothing to begin anew.
            if given_up.spent != Spent::NotRetryable && state.settings.reset_on_recovery_failure {
                state.forget();
            }
            state.execute_again();
            return AfterRecoveryFailure { tries, wait_ms: None, alarm: false };
        };
        let alarm = tries >= recovery.max_tries;
        let given_up = GivenUp { tries, ..given_up };
        if alarm && recovery.then != Terminal::Block {
            state.phase = Phase::Terminal(given_up, recovery.then);
            return AfterRecoveryFailure { tries, wait_ms: None, alarm };
        }
        AfterRecoveryFailure { tries, wait_ms: Some(state.wait_to_recover(recovery, given_up, now)), alarm }
    }
}

impl<R: UnitRandom> RetryState<R> {
    fn wait_to_recover(&mut self, recovery: Recovery, given_up: GivenUp, now: Duration) -> u64 {
        let wait_ms = recovery.wait_ms(given_up.tries);
        let until = now.saturating_add(Duration::from_millis(wait_ms));
        self.phase = Phase::Wait { until, given_up: Some(given_up) };
        wait_ms
    }
}

impl<R: UnitRandom> TerminalTurn<'_, R> {
    /// The execution that failed last.
    pub fn execution(&self) -> Execution {
        self.state.execution()
    }

    /// The failure that the record was given up for.
    pub fn failure(&self) -> &Failure {
        &self.given_up.failure
    }

    /// What is to be done: never [`Terminal::Block`].
    pub fn terminal(&self) -> Terminal {
        self.terminal
    }

    /// How often it could not be made a dead letter.
    pub fn tries(&self) -> u32 {
        self.given_up.tries
    }

    /// It is done: parked or skipped.
    pub fn done(self) {
        self.state.phase = Phase::Done;
    }

    /// It could not be done at this time: after a wait it is tried to be made a dead letter again. Gives the wait.
    pub fn failed(self, now: Duration) -> u64 {
        let Self { state, given_up, .. } = self;
        let recovery = state.settings.recovery.unwrap_or_default();
        let given_up = GivenUp { tries: given_up.tries.saturating_add(1), ..given_up };
        state.wait_to_recover(recovery, given_up, now)
    }
}

#[cfg(test)]
pub(crate) mod tests;
