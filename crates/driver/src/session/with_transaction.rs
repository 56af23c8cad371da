//! `with_transaction`: a body of operations that is run, and committed, until it goes through or nothing helps.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::{DriverError, Result};
use crate::retry::convenient::{Convenient, Next};
use crate::settings::limit;
use crate::timeout::later;

use super::{ClientSession, TransactionOptions};

/// What [`ClientSession::with_transaction`] is called with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WithTransaction {
    /// The transaction's options.
    pub transaction: TransactionOptions,
    /// `timeoutMS` for all of it; zero is no limit. Otherwise the session's, then the client's.
    pub timeout: Option<Duration>,
}

/// Takes the limit of a session's transaction away when it is over, however it ends.
struct Limited<'a>(&'a ClientSession);

impl Drop for Limited<'_> {
    fn drop(&mut self) {
        self.0.set_transaction_limit(None);
    }
}

impl ClientSession {
    /// Runs `body` in a transaction and commits it. The body is run again when its transaction can be tried again as a whole,
    /// the commit is said again when its result is unknown: for 120 seconds, or as long as `timeoutMS` allows. The newer
    /// rules wait between two runs (see [`crate::DriverProfile::transaction_back_off`]).
    ///
    /// The body must use this session, and must hand on the errors it gets.
    ///
    /// # Errors
    /// The body's, or the commit's; with `timeoutMS` a timeout, whose cause is the last of them.
    pub async fn with_transaction<T, B: Future<Output = Result<T>>>(
        &self,
        options: WithTransaction,
        mut body: impl FnMut() -> B,
    ) -> Result<T> {
        let began = Instant::now();
        let (of_client, backs_off) = (self.settings().timeout, self.settings().profile.transaction_back_off);
        let timeout = options.timeout.or(self.options().default_timeout).or(of_client);
        let deadline = timeout.and_then(limit).map(|timeout| later(began, timeout));
        self.set_transaction_limit(timeout.map(|timeout| (timeout, deadline)));
        let _limited = Limited(self);
        let mut state = Convenient::new(began, deadline, backs_off);
        loop {
            self.start_transaction(options.transaction.clone())?;
            let output = match body().await {
                Ok(output) => output,
                Err(error) => {
                    if self.transaction_state().is_open() {
                        self.abort_transaction().await?;
                    }
                    match state.body_failed(&error, Instant::now(), || self.jitter()) {
                        Next::RunBody(wait) => {
                            sleep(wait).await;
                            continue;
                        }
                        Next::TimedOut => return Err(timed_out(error)),
                        Next::Raise | Next::CommitAgain => return Err(error),
                    }
                }
            };
            // The body may have ended it itself.
            if !self.transaction_state().is_open() {
                return Ok(output);
            }
            match self.commit_until_known(&mut state).await? {
                Some(wait) => sleep(wait).await,
                None => return Ok(output),
            }
        }
    }

    /// Says commit until the answer is known. `Some`: all of it is to be tried again, after this wait.
    async fn commit_until_known(&self, state: &mut Convenient) -> Result<Option<Duration>> {
        loop {
            let Err(error) = self.commit_transaction().await else { return Ok(None) };
            match state.commit_failed(&error, Instant::now(), || self.jitter()) {
                Next::CommitAgain => {}
                Next::RunBody(wait) => return Ok(Some(wait)),
                Next::TimedOut => return Err(timed_out(error)),
                Next::Raise => return Err(error),
            }
        }
    }
}

fn timed_out(error: DriverError) -> DriverError {
    if error.is_operation_timeout() {
        return error;
    }
    DriverError::operation_timeout("the transaction exceeded the timeout limit")
        .with_labels_of(&error)
        .with_cause(error)
}
