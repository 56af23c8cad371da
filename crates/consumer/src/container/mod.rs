//! A container: polls a source, runs the work, commits, and handles what fails.

mod bounded;
mod core;
mod error;
mod settings;
mod spring;
mod spring_batch;
mod stop;

use std::fmt;
use std::sync::Arc;

use crate::bounds::{Spent, Terminal};
use crate::dead_letters::{PublishError, RecoverError, Recovered, Recoverer};
use crate::failure::Failure;
use crate::observer::{ConsumerEvent, Observer, unobserved};
use crate::poll_budget::PollBudget;
use crate::record::Record;
use crate::source::Source;
use crate::work::Work;

pub use error::ContainerError;
pub use settings::{
    ATTEMPT_BUDGET_SPENT, AckMode, BoundedMode, ContainerSettings, Mode, OverBudget, OverPollBudget, STOPPED,
    SpringMode, SpringWaits, WholeBatch,
};
pub use stop::StopHandle;

use core::Core;

/// One consumer: a source, the work, and what to do with records that fail.
///
/// Nothing is committed before its work is done or its dead letter is acknowledged. The future of [`Container::run`] may
/// be dropped at any point, as a process may be killed at any point: what was not committed is delivered again.
pub struct Container<S, W, D, O = fn(&ConsumerEvent<'_>), P = NoParking> {
    source: S,
    work: W,
    recoverer: D,
    settings: ContainerSettings,
    seed: u64,
    observer: O,
    parking: Option<P>,
    stop: StopHandle,
}

/// No place to park records at. It cannot be made.
#[derive(Debug, Clone, Copy)]
pub enum NoParking {}

impl Recoverer for NoParking {
    async fn recover(&self, _: &Record, _: &Failure, _: Spent) -> Result<Recovered, RecoverError> {
        Err(RecoverError::Publish(PublishError { message: "there is no place to park records at".to_owned() }))
    }
}

impl<S: Source, W: Work, D: Recoverer> Container<S, W, D> {
    /// A container that is not started yet. `seed` is for jitter: give each consumer another one.
    pub fn new(source: S, work: W, recoverer: D, settings: ContainerSettings, seed: u64) -> Self {
        Self { source, work, recoverer, settings, seed, observer: unobserved, parking: None, stop: StopHandle::new() }
    }
}

impl<S: Source, W: Work, D: Recoverer, O: Observer, P: Recoverer> Container<S, W, D, O, P> {
    /// Tells this observer what happens.
    #[must_use]
    pub fn observer<O2: Observer>(self, observer: O2) -> Container<S, W, D, O2, P> {
        let Self { source, work, recoverer, settings, seed, parking, stop, .. } = self;
        Container { source, work, recoverer, settings, seed, observer, parking, stop }
    }

    /// Parks records here that reach [`Terminal::Park`].
    #[must_use]
    pub fn parking<P2: Recoverer>(self, parking: P2) -> Container<S, W, D, O, P2> {
        let Self { source, work, recoverer, settings, seed, observer, stop, .. } = self;
        Container { source, work, recoverer, settings, seed, observer, parking: Some(parking), stop }
    }

    /// Ends when this handle asks for it.
    #[must_use]
    pub fn stop_by(mut self, stop: StopHandle) -> Self {
        self.stop = stop;
        self
    }

    /// The poll budget of these settings; `None`: they do not say how long executions take.
    pub fn poll_budget(&self) -> Option<PollBudget> {
        let interval = self.source.max_poll_interval();
        self.settings.expected.map(|expected| PollBudget::new(&self.settings, self.work.kind(), expected, interval))
    }

    /// Runs until it is asked to stop, then commits what is done and leaves the group.
    ///
    /// # Errors
    /// Settings that cannot be used, a poll budget that does not fit, a source that fails for good, a record that makes
    /// it stop.
    pub async fn run(self) -> Result<(), ContainerError> {
        self.check()?;
        let Self { source, work, recoverer, settings, seed, observer, parking, stop } = self;
        let core = Core::new(source, settings.clone(), seed, observer, stop);
        match settings.mode {
            Mode::Bounded(mode) => bounded::run(core, &work, &recoverer, parking.as_ref(), mode).await,
            Mode::Spring(mode) => spring::run(core, &work, &recoverer, mode).await,
        }
    }

    fn check(&self) -> Result<(), ContainerError> {
        let settings = &self.settings;
        settings.retry.back_off.validate(settings.retry.spring)?;
        let wrong = |text: &str| Err(ContainerError::Settings(text.to_owned()));
        let jitter = settings.retry.bounds.jitter;
        if !(0.0..=1.0).contains(&jitter) {
            return wrong(&format!("jitter is {jitter}; it must be from 0 to 1"));
        }
        if settings.max_poll_records == 0 {
            return wrong("max_poll_records is 0; it must be 1 or more");
        }
        let interval = self.source.max_poll_interval();
        match &settings.mode {
            Mode::Bounded(mode) => {
                let parks = settings.retry.recovery.is_some_and(|recovery| recovery.then == Terminal::Park);
                if parks && self.parking.is_none() {
                    return wrong("records are to be parked, but there is no place to park them at");
                }
                if mode.attempt_budget.is_some_and(|budget| budget.is_zero()) {
                    return wrong("attempt_budget is 0; it must be 1 ms or more, or none");
                }
                if mode.keep_alive.is_zero() {
                    return wrong("keep_alive is 0; it must be 1 ms or more");
                }
                if mode.drain_timeout >= interval || mode.keep_alive >= interval {
                    return wrong(&format!(
                        "drain_timeout ({} ms) and keep_alive ({} ms) must be below max.poll.interval.ms ({} ms)",
                        mode.drain_timeout.as_millis(),
                        mode.keep_alive.as_millis(),
                        interval.as_millis()
                    ));
                }
            }
            Mode::Spring(mode) => {
                let is_new = mode.keep_records || mode.waits == SpringWaits::PauseContainer;
                if is_new && !mode.version.can_keep_records {
                    return wrong(&format!(
                        "keeping records and pausing came with Spring Kafka 2.9, not {}",
                        mode.version
                    ));
                }
                if settings.retry.recovery.is_some() {
                    return wrong("Spring Kafka has no terminal state: `recovery` must be `None`");
                }
            }
        }
        match self.poll_budget() {
            Some(budget) if !budget.fits() => {
                let broken: Vec<String> =
                    budget.exact.iter().filter(|rule| !rule.fits()).map(ToString::to_string).collect();
                let broken = broken.join("; ");
                if settings.over_poll_budget == OverPollBudget::Refuse {
                    return Err(ContainerError::PollBudget(broken));
                }
                tracing::warn!("the consumer may be thrown out of its group: {broken}");
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl<S, W, D, O, P> fmt::Debug for Container<S, W, D, O, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Runs `concurrency` containers, each made by `container` from its number, until all have ended (facts/client.md D6:
/// one partition's records never run in two of them). If one ends with an error, the others are asked to stop.
///
/// # Errors
/// The first container's that ended with one.
pub async fn run_concurrently<S, W, D, O, P>(
    concurrency: usize,
    stop: &StopHandle,
    mut container: impl FnMut(usize) -> Container<S, W, D, O, P>,
) -> Result<(), ContainerError>
where
    S: Source + 'static,
    W: Work + 'static,
    D: Recoverer + 'static,
    O: Observer + 'static,
    P: Recoverer + 'static,
{
    let mut running = tokio::task::JoinSet::new();
    for number in 0..concurrency {
        running.spawn(container(number).stop_by(stop.clone()).run());
    }
    let mut result = Ok(());
    while let Some(ended) = running.join_next().await {
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => Err(ContainerError::Settings(error.to_string())),
        };
        if ended.is_err() && result.is_ok() {
            stop.stop();
            result = ended;
        }
    }
    result
}

/// Records as the observer sees them.
type Records = [Arc<Record>];

#[cfg(test)]
mod tests;
