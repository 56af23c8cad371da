//! The transaction of an explicit session: what state it is in, and what its commands carry.
//!
//! Source: <https://github.com/mongodb/specifications/blob/master/source/transactions/transactions.md>.

use std::time::Duration;

use bson::Document;
use tokio::time::Instant;

use backfire_model::TxnNumber;

use crate::error::{DriverError, Result};
use crate::settings::{ClientSettings, ReadConcern, ReadMode, ReadPreference, WriteConcern};

/// What a transaction is started with. What is not set is taken from the session's defaults, then from the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionOptions {
    /// `readConcern`, sent with the first command.
    pub read_concern: Option<ReadConcern>,
    /// `writeConcern`, sent with the commit or the abort.
    pub write_concern: Option<WriteConcern>,
    /// `readPreference`; only `primary` can be used.
    pub read_preference: Option<ReadPreference>,
    /// `maxCommitTimeMS`: `maxTimeMS` of the commit, without `timeoutMS`.
    pub max_commit_time: Option<Duration>,
}

impl TransactionOptions {
    fn or(self, defaults: &Self) -> Self {
        Self {
            read_concern: self.read_concern.or_else(|| defaults.read_concern.clone()),
            write_concern: self.write_concern.or_else(|| defaults.write_concern.clone()),
            read_preference: self.read_preference.or_else(|| defaults.read_preference.clone()),
            max_commit_time: self.max_commit_time.or(defaults.max_commit_time),
        }
    }
}

/// The state of a session's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransactionState {
    /// There is none.
    #[default]
    None,
    /// It was started, and no command of it has been sent.
    Starting,
    /// Commands of it have been sent.
    InProgress,
    /// It was committed, or the commit's result is unknown.
    Committed,
    /// It was aborted.
    Aborted,
}

impl TransactionState {
    /// Its name in the unified test format.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Starting => "starting",
            Self::InProgress => "in_progress",
            Self::Committed => "committed",
            Self::Aborted => "aborted",
        }
    }

    /// Whether commands belong to it.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Starting | Self::InProgress)
    }
}

/// How a transaction is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Abort,
}

impl End {
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Commit => "commitTransaction",
            Self::Abort => "abortTransaction",
        }
    }
}

/// What is to be sent at the end of a transaction.
#[derive(Debug, Clone)]
pub(crate) struct EndPlan {
    pub(crate) write_concern: WriteConcern,
    pub(crate) max_commit_time: Option<Duration>,
    /// The commit was sent before: it is a retry from its first send on.
    pub(crate) again: bool,
}

/// The transaction of a session.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    state: TransactionState,
    number: Option<TxnNumber>,
    read_concern: ReadConcern,
    write_concern: WriteConcern,
    max_commit_time: Option<Duration>,
    /// Whether a command of it was sent, so that there is something to end.
    is_on_server: bool,
    /// Within `with_transaction`: `timeoutMS`, and when it runs out.
    pub(crate) limit: Option<(Duration, Option<Instant>)>,
}

impl Transaction {
    pub(crate) fn state(&self) -> TransactionState {
        self.state
    }

    pub(crate) fn number(&self) -> Option<TxnNumber> {
        self.number
    }

    /// Starts one; its number is asked for once it is known that it starts.
    ///
    /// # Errors
    /// When there is one, or the options do not suit a transaction.
    pub(crate) fn start(
        &mut self,
        options: TransactionOptions,
        defaults: &TransactionOptions,
        client: &ClientSettings,
    ) -> Result<()> {
        if self.state.is_open() {
            return Err(DriverError::client("Transaction already in progress"));
        }
        let options = options.or(defaults);
        let write_concern = options.write_concern.unwrap_or_else(|| client.write_concern.clone());
        if !write_concern.is_acknowledged() {
            return Err(DriverError::client("transactions do not support unacknowledged write concern"));
        }
        let read_preference = options.read_preference.unwrap_or_else(|| client.read_preference.clone());
        if read_preference.mode != ReadMode::Primary {
            return Err(DriverError::client("read preference in a transaction must be primary"));
        }
        *self = Self {
            state: TransactionState::Starting,
            number: None,
            read_concern: options.read_concern.unwrap_or_else(|| client.read_concern.clone()),
            write_concern,
            max_commit_time: options.max_commit_time,
            is_on_server: false,
            limit: self.limit,
        };
        Ok(())
    }

    pub(crate) fn set_number(&mut self, number: TxnNumber) {
        self.number = Some(number);
    }

    /// A command that belongs to no transaction is about to be sent: what was ended is over for good.
    pub(crate) fn forget_ended(&mut self) {
        if !self.state.is_open() {
            self.state = TransactionState::None;
        }
    }

    /// Changes a command of the open transaction as it has to be sent. `read_concern_of_session` adds what the session knows.
    pub(crate) fn dress(&self, body: &mut Document, read_concern_of_session: impl FnOnce(&mut Document)) {
        body.remove("readConcern");
        body.remove("writeConcern");
        self.number_fields(body);
        if self.state == TransactionState::Starting {
            body.insert("startTransaction", true);
            let mut read_concern = self.read_concern.to_document();
            read_concern_of_session(&mut read_concern);
            if !read_concern.is_empty() {
                body.insert("readConcern", read_concern);
            }
        }
    }

    /// The number of the transaction, and that it is one.
    pub(crate) fn number_fields(&self, body: &mut Document) {
        if let Some(number) = self.number {
            body.insert("txnNumber", number.0);
            body.insert("autocommit", false);
        }
    }

    /// A command of it is being sent.
    pub(crate) fn sent(&mut self) {
        if self.state == TransactionState::Starting {
            self.state = TransactionState::InProgress;
            self.is_on_server = true;
        }
    }

    /// The application ends it. `None`: nothing was sent, so there is nothing to send.
    ///
    /// # Errors
    /// When there is none that can be ended so.
    pub(crate) fn end(&mut self, end: End) -> Result<Option<EndPlan>> {
        use TransactionState::{Aborted, Committed, InProgress, None, Starting};
        let refused = match (end, self.state) {
            (_, None) => Some("No transaction started"),
            (End::Commit, Aborted) => Some("Cannot call commitTransaction after calling abortTransaction"),
            (End::Abort, Aborted) => Some("Cannot call abortTransaction twice"),
            (End::Abort, Committed) => Some("Cannot call abortTransaction after calling commitTransaction"),
            (_, Starting | InProgress) | (End::Commit, Committed) => Option::None,
        };
        if let Some(text) = refused {
            return Err(DriverError::client(text));
        }
        let again = self.state == Committed;
        self.state = match end {
            End::Commit => Committed,
            End::Abort => Aborted,
        };
        let plan = EndPlan {
            write_concern: self.write_concern.clone(),
            max_commit_time: self.max_commit_time.filter(|_| end == End::Commit),
            again,
        };
        Ok(self.is_on_server.then_some(plan))
    }
}

/// The write concern of a commit that is sent again: a majority, so that a commit that was rolled back is noticed. Without
/// `timeoutMS` it waits for a limited time.
pub(crate) fn of_retried_commit(write_concern: &WriteConcern, has_timeout: bool) -> WriteConcern {
    const WTIMEOUT: Duration = Duration::from_secs(10);
    let wtimeout = (!has_timeout).then(|| write_concern.wtimeout.unwrap_or(WTIMEOUT));
    WriteConcern { journal: write_concern.journal, wtimeout, ..WriteConcern::majority() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ServerAddress;
    use bson::doc;

    fn settings() -> ClientSettings {
        ClientSettings::new([ServerAddress::new("a", 1)])
    }

    fn started(options: TransactionOptions) -> Transaction {
        let mut transaction = Transaction::default();
        transaction.start(options, &TransactionOptions::default(), &settings()).expect("starts");
        transaction.set_number(TxnNumber(7));
        transaction
    }

    #[test]
    fn the_first_command_starts_it_and_the_later_ones_continue() {
        let mut transaction = started(TransactionOptions {
            read_concern: Some(ReadConcern::level("snapshot")),
            ..TransactionOptions::default()
        });
        let dressed = |transaction: &Transaction| {
            let mut body = doc! {"insert": "c", "writeConcern": {"w": 1}};
            transaction.dress(&mut body, |_| {});
            body
        };
        let first = doc! {"insert": "c", "txnNumber": 7_i64, "autocommit": false, "startTransaction": true,
        "readConcern": {"level": "snapshot"}};
        assert_eq!(dressed(&transaction), first);
        transaction.sent();
        assert_eq!(dressed(&transaction), doc! {"insert": "c", "txnNumber": 7_i64, "autocommit": false});
    }

    #[test]
    fn every_end_in_every_state() {
        let reach = |steps: &str| {
            let mut transaction = Transaction::default();
            for step in steps.chars() {
                match step {
                    's' => {
                        transaction.start(TransactionOptions::default(), &TransactionOptions::default(), &settings())
                    }
                    'x' => {
                        transaction.sent();
                        Ok(())
                    }
                    'c' => transaction.end(End::Commit).map(drop),
                    _ => transaction.end(End::Abort).map(drop),
                }
                .expect(steps);
            }
            transaction
        };
        for (steps, end, sends) in [
            ("", End::Commit, Err("No transaction started")),
            ("", End::Abort, Err("No transaction started")),
            ("s", End::Commit, Ok(None)),
            ("s", End::Abort, Ok(None)),
            ("sc", End::Commit, Ok(None)),
            ("sx", End::Commit, Ok(Some(false))),
            ("sx", End::Abort, Ok(Some(false))),
            ("sxc", End::Commit, Ok(Some(true))),
            ("sxc", End::Abort, Err("Cannot call abortTransaction after calling commitTransaction")),
            ("sxa", End::Abort, Err("Cannot call abortTransaction twice")),
            ("sxa", End::Commit, Err("Cannot call commitTransaction after calling abortTransaction")),
        ] {
            let found = reach(steps).end(end).map(|plan| plan.map(|plan| plan.again));
            assert_eq!(found.map_err(|error| error.to_string()), sends.map_err(str::to_owned), "{steps} {end:?}");
        }
        assert!(reach("sx").start(TransactionOptions::default(), &TransactionOptions::default(), &settings()).is_err());
        let mut ended = reach("sxc");
        ended.forget_ended();
        assert_eq!(ended.state(), TransactionState::None);
    }

    #[test]
    fn a_commit_that_is_sent_again_asks_for_a_majority() {
        for (concern, has_timeout, expected) in [
            (doc! {}, false, doc! {"w": "majority", "wtimeout": 10_000}),
            (doc! {"w": 1, "wtimeout": 5, "j": true}, false, doc! {"w": "majority", "wtimeout": 5, "j": true}),
            (doc! {"w": 1, "wtimeout": 5}, true, doc! {"w": "majority"}),
        ] {
            let concern = WriteConcern::from_document(&concern).expect("valid");
            assert_eq!(of_retried_commit(&concern, has_timeout).to_document(), expected);
        }
    }
}
