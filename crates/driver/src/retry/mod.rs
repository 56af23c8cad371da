//! When a command is sent again: a state machine without I/O.
//!
//! It is told what happens (a command was built, an attempt failed with an error at a time) and answers: try again now,
//! after a wait, or give up with this error. The rules are the Java driver's (facts/client.md A1, A2, A5, A6, A7) and
//! those of client backpressure (C2). It decides resends of one command only; repeating the application's work is
//! nobody's business here.

mod backoff;
pub mod convenient;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::time::Instant;

use backfire_model::{Lsid, TxnNumber};

use crate::error::{
    DriverError, ErrorKind, NO_WRITES_PERFORMED, RETRYABLE_ERROR, RETRYABLE_WRITE_ERROR, Result,
    SYSTEM_OVERLOADED_ERROR, codes,
};
use crate::settings::{ClientSettings, DriverProfile};

/// From this wire version (4.4) on, the server labels its errors itself.
const WIRE_VERSION_LABELS: i32 = 9;

/// What is executed, as far as retrying goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A read that is retried: `find`, `aggregate` without a write stage, `count`, `distinct`, `listX`.
    Read,
    /// A read that is not: `getMore`.
    PlainRead,
    /// A bulk, or one of the writes that run as one: retried when the command has a `txnNumber`.
    BulkWrite,
    /// `findAndModify`: the same, and a cleared pool is retried even with `retryWrites` off (facts/client.md A1.4).
    FindAndModify,
    /// A write that is not: definitions, `$out`, `$merge`.
    PlainWrite,
    /// `runCommand`, of which nobody knows what it does.
    RunCommand,
    /// `commitTransaction` or `abortTransaction`: retried once, whatever `retryWrites` says.
    EndTransaction,
}

impl Operation {
    fn is_numbered_write(self) -> bool {
        matches!(self, Self::BulkWrite | Self::FindAndModify | Self::EndTransaction)
    }
}

/// The rules of one operation.
#[derive(Debug, Clone, Copy)]
pub struct RetryRules {
    /// What is executed.
    pub operation: Operation,
    /// `retryReads`.
    pub retry_reads: bool,
    /// `retryWrites`.
    pub retry_writes: bool,
    /// Whether the command is part of a transaction: then only its end is retried.
    pub in_transaction: bool,
    /// Whether `timeoutMS` is set: then attempts are not counted (facts/client.md A2).
    pub has_timeout: bool,
    /// `maxAdaptiveRetries`.
    pub max_adaptive_retries: u32,
    /// Whose rules.
    pub profile: DriverProfile,
}

impl RetryRules {
    pub(crate) fn new(
        operation: Operation,
        settings: &ClientSettings,
        in_transaction: bool,
        has_timeout: bool,
    ) -> Self {
        Self {
            operation,
            in_transaction,
            retry_reads: settings.retry_reads,
            retry_writes: settings.retry_writes,
            has_timeout,
            max_adaptive_retries: settings.max_adaptive_retries,
            profile: settings.profile,
        }
    }

    /// How often a command is retried before any overload error; `None` for as long as there is time.
    fn retries(&self) -> Option<u32> {
        if self.in_transaction && self.operation != Operation::EndTransaction {
            return Some(0);
        }
        let counted = match self.operation {
            Operation::Read => u32::from(self.retry_reads),
            Operation::BulkWrite => u32::from(self.retry_writes),
            Operation::FindAndModify | Operation::EndTransaction => 1,
            Operation::PlainRead | Operation::PlainWrite | Operation::RunCommand => 0,
        };
        let unlimited = self.has_timeout && (counted > 0 || self.operation == Operation::BulkWrite)
            || self.profile.unlimited_retries && counted > 0;
        (!unlimited).then_some(counted)
    }

    /// Whether an overload error may be retried.
    fn takes_overload_retries(&self) -> bool {
        self.profile.client_backpressure
            && match self.operation {
                Operation::Read | Operation::PlainRead => self.retry_reads,
                Operation::BulkWrite | Operation::FindAndModify | Operation::PlainWrite | Operation::EndTransaction => {
                    self.retry_writes
                }
                Operation::RunCommand => self.retry_reads && self.retry_writes,
            }
    }
}

/// How far an attempt got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// There was no connection: server selection, check-out or handshake failed. Nothing was sent.
    BeforeSend,
    /// There was a connection.
    OnConnection,
}

/// What to do after a failed attempt.
#[derive(Debug, Clone)]
pub enum Decision {
    /// Select a server again and send the same command, after this wait (mostly zero).
    Retry(Duration),
    /// Raise this error.
    GiveUp(DriverError),
}

/// The identity of a numbered write: the same for all its sends.
pub type Identity = (Lsid, TxnNumber);

/// The state of one command's attempts.
#[derive(Debug)]
pub struct RetryState {
    rules: RetryRules,
    retries: u32,
    sends: u32,
    identity: Option<Identity>,
    wire_version: Option<i32>,
    /// What the application would see if nothing better comes.
    chosen: Option<DriverError>,
    overloaded: bool,
}

impl RetryState {
    /// Before the first attempt.
    pub fn new(rules: RetryRules) -> Self {
        Self { rules, retries: 0, sends: 0, identity: None, wire_version: None, chosen: None, overloaded: false }
    }

    /// The next command of the same operation begins, with an attempt budget of its own (facts/client.md A5).
    pub fn begin_command(&mut self) {
        *self = Self { wire_version: self.wire_version, ..Self::new(self.rules) };
    }

    /// A connection was checked out for an attempt.
    ///
    /// # Errors
    /// When this is a retry and its server cannot tell resends from new writes: the error of the attempt before.
    pub fn connected(&mut self, wire_version: i32, takes_numbers: bool) -> Result<()> {
        self.wire_version = Some(wire_version);
        match &self.chosen {
            Some(error) if self.identity.is_some() && !takes_numbers => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The identity that the command's sends carry. `make` is called once for each command.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn identity(&mut self, make: impl FnOnce() -> Result<Identity>) -> Result<Identity> {
        match self.identity {
            Some(identity) => Ok(identity),
            None => Ok(*self.identity.insert(make()?)),
        }
    }

    /// The command is about to be sent; says which send of it this is, from 1.
    pub fn sending(&mut self) -> u32 {
        self.sends += 1;
        self.sends
    }

    /// How many sends there were.
    pub fn sends(&self) -> u32 {
        self.sends
    }

    /// Whether a failure now could still be followed by another attempt.
    pub fn has_attempts_left(&self) -> bool {
        self.limit().is_none_or(|limit| self.retries < limit)
    }

    /// Whether a write concern error in a good reply asks for another attempt.
    pub fn is_retryable(&self, error: &DriverError) -> bool {
        self.judge(Stage::OnConnection, &mut error.clone())
    }

    /// An attempt failed. `deadline` is when `timeoutMS` runs out, `jitter` gives a number in [0, 1), `allowed` is asked last:
    /// whether there may be another attempt at all.
    pub fn attempt_failed(
        &mut self,
        stage: Stage,
        mut error: DriverError,
        now: Instant,
        deadline: Option<Instant>,
        jitter: impl FnOnce() -> f64,
        allowed: impl FnOnce() -> bool,
    ) -> Decision {
        if error.is_operation_timeout() {
            return Decision::GiveUp(self.timed_out(stage, error));
        }
        let is_retryable = self.judge(stage, &mut error);
        let is_overload = self.rules.takes_overload_retries() && error.has_label(SYSTEM_OVERLOADED_ERROR);
        let may_retry = is_retryable || (is_overload && error.has_label(RETRYABLE_ERROR));
        self.overloaded |= is_overload && may_retry;
        let wait = if is_overload { backoff::wait(&error, self.retries + 1, jitter()) } else { Duration::ZERO };
        // A retry without a wait finds out by itself whether there is time left.
        let in_time = wait.is_zero() || deadline.is_none_or(|deadline| now + wait <= deadline);
        let chosen = self.choose(stage, error);
        if may_retry && in_time && self.has_attempts_left() && allowed() {
            self.retries += 1;
            self.chosen = Some(chosen);
            Decision::Retry(wait)
        } else {
            Decision::GiveUp(chosen)
        }
    }

    /// The number of retries; once the server was overloaded, another limit takes its place for the whole command.
    fn limit(&self) -> Option<u32> {
        if self.overloaded { Some(self.rules.max_adaptive_retries) } else { self.rules.retries() }
    }

    /// `timeoutMS` ran out: that ends it (facts/client.md A2, third row), and mostly it is what the application sees.
    fn timed_out(&mut self, stage: Stage, error: DriverError) -> DriverError {
        let Some(before) = self.chosen.take() else { return error };
        match (self.rules.operation, stage) {
            // The attempt itself timed out.
            (operation, Stage::OnConnection) if operation != Operation::Read => error,
            (operation, Stage::BeforeSend)
                if operation != Operation::Read && !self.rules.profile.reselection_timeout_wins =>
            {
                before
            }
            _ => DriverError::operation_timeout("the retries exceeded the timeout limit").with_cause(before),
        }
    }

    /// Whether the error by itself allows another attempt; adds the label that says so.
    fn judge(&self, stage: Stage, error: &mut DriverError) -> bool {
        if self.rules.operation == Operation::Read {
            return self.is_retryable_by_kind(error);
        }
        if !self.rules.operation.is_numbered_write() {
            return false;
        }
        let is_numbered = self.identity.is_some();
        if self.rules.profile.unlimited_retries && matches!(error.kind(), ErrorKind::ServerSelectionTimeout(_)) {
            return self.rules.retry_writes;
        }
        if matches!(error.kind(), ErrorKind::PoolCleared(_)) {
            if is_numbered {
                error.add_label(RETRYABLE_WRITE_ERROR);
            }
            return true;
        }
        if !is_numbered {
            let in_handshake = stage == Stage::BeforeSend && error.is_network();
            let retries = in_handshake && self.rules.retry_writes && self.rules.profile.retries_first_handshake_error;
            if retries {
                error.add_label(RETRYABLE_WRITE_ERROR);
            }
            return retries;
        }
        let labelled_by_driver = match self.wire_version {
            Some(wire_version) if wire_version < WIRE_VERSION_LABELS => self.is_retryable_by_kind(error),
            Some(_) => error.is_network(),
            None => false,
        };
        if labelled_by_driver {
            error.add_label(RETRYABLE_WRITE_ERROR);
        }
        error.has_label(RETRYABLE_WRITE_ERROR)
    }

    fn is_retryable_by_kind(&self, error: &DriverError) -> bool {
        error.is_network()
            || matches!(error.kind(), ErrorKind::PoolCleared(_))
            || error.state_change().is_some()
            || error.code().is_some_and(|code| self.rules.profile.retryable_codes.contains(&code))
    }

    /// Which of two errors tells the application more (facts/client.md A1.7).
    fn choose(&self, stage: Stage, newest: DriverError) -> DriverError {
        let Some(before) = &self.chosen else { return newest };
        let newest_wins = if self.rules.operation == Operation::Read {
            newest.is_network() || is_server_exception(&newest)
        } else {
            stage == Stage::OnConnection && !newest.has_label(NO_WRITES_PERFORMED)
        };
        if newest_wins { newest } else { before.clone() }
    }
}

/// What Java derives from `MongoServerException`. `MaxTimeMSExpired` has a class of its own that does not.
fn is_server_exception(error: &DriverError) -> bool {
    match error.kind() {
        ErrorKind::Command(failure) => failure.code != Some(codes::MAX_TIME_MS_EXPIRED),
        ErrorKind::Write(_) | ErrorKind::WriteConcern(_) | ErrorKind::BulkWrite(_) => true,
        _ => false,
    }
}
