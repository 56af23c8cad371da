//! Runs records one at a time by the rules of [`RetryState`].

use std::future::Future;

use backfire_model::Execution;
use backfire_model::back_off::{BackOffError, UnitRandom};
use tokio::time::{Instant, sleep};

use crate::bounds::Terminal;
use crate::dead_letters::DeadLetters;
use crate::failure::Failure;
use crate::listener::{Event, Listener};
use crate::record::Record;
use crate::retry_state::{RetrySettings, RetryState, Turn};

/// How a record ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    /// An execution succeeded.
    Succeeded {
        /// What it returned.
        value: T,
        /// Which one.
        execution: Execution,
    },
    /// It was given up and is a dead letter.
    DeadLettered {
        /// The last execution.
        execution: Execution,
    },
    /// It was given up, could not be stored, and is in the terminal state of [`Recovery::then`](crate::Recovery).
    Terminal {
        /// The last execution.
        execution: Execution,
        /// What is to be done with it.
        terminal: Terminal,
    },
}

/// One consumer thread's error handler: executions, waits, and at last the dead-letter list.
///
/// It waits on tokio's clock, so a paused clock makes it run in no time. A record without end (an unlimited back-off,
/// alternating classes, a dead-letter list that stays full) runs until the future of [`ErrorHandler::run`] is
/// dropped; the next call then begins with its own record.
#[derive(Debug)]
pub struct ErrorHandler<R> {
    state: RetryState<R>,
    dead_letters: DeadLetters,
}

impl<R: UnitRandom> ErrorHandler<R> {
    /// A handler with these settings. `random` is for jitter.
    ///
    /// # Errors
    /// The back-off cannot be used.
    pub fn new(settings: RetrySettings, dead_letters: DeadLetters, random: R) -> Result<Self, BackOffError> {
        Ok(Self { state: RetryState::new(settings, random)?, dead_letters })
    }

    /// The list that records go to which are given up.
    pub fn dead_letters(&self) -> &DeadLetters {
        &self.dead_letters
    }

    /// Runs the work for one record until it succeeds or the record is a dead letter.
    pub async fn run<T, F, Fut>(&mut self, record: &Record, mut work: F, listener: &mut impl Listener) -> Outcome<T>
    where
        F: FnMut(Execution) -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let began = Instant::now();
        self.state.begin();
        while let Some(turn) = self.state.turn() {
            match turn {
                Turn::Execute(turn) => {
                    let (execution, attempt) = (turn.execution(), turn.attempt());
                    listener.on_event(record, Event::ExecutionStarted { execution, attempt });
                    let failure = match work(execution).await {
                        Ok(value) => {
                            turn.succeeded();
                            listener.on_event(record, Event::Succeeded { execution });
                            return Outcome::Succeeded { value, execution };
                        }
                        Err(failure) => failure,
                    };
                    let after = turn.failed(&failure, began.elapsed());
                    let (retryable, back_off_restarted) = (after.retryable, after.back_off_restarted);
                    let event = Event::Failed { execution, failure: &failure, retryable, back_off_restarted };
                    listener.on_event(record, event);
                    if let Some(wait_ms) = after.wait_ms {
                        listener.on_event(record, Event::Waiting { wait_ms });
                    }
                }
                Turn::Wait(turn) => {
                    sleep(turn.until().saturating_sub(began.elapsed())).await;
                    turn.time(began.elapsed());
                }
                Turn::Recover(turn) => {
                    let execution = turn.execution();
                    match self.dead_letters.publish(record, turn.failure()) {
                        Ok(letter) => {
                            turn.recovered();
                            listener.on_event(record, Event::DeadLettered { execution, letter: &letter });
                        }
                        Err(reason) => {
                            turn.failed(began.elapsed());
                            listener.on_event(record, Event::RecoveryFailed { execution, reason: &reason });
                            // The next execution follows at once; what could empty the list gets its turn first.
                            tokio::task::yield_now().await;
                        }
                    }
                }
                Turn::Terminal(turn) => {
                    return Outcome::Terminal { execution: turn.execution(), terminal: turn.terminal() };
                }
            }
        }
        Outcome::DeadLettered { execution: self.state.execution() }
    }
}

#[cfg(test)]
mod tests;
