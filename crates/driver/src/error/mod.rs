//! The one error type of the driver.

pub mod codes;
pub(crate) mod reply;

use std::fmt;
use std::time::Duration;

use bson::Document;

use crate::bulk::{BulkWriteFailure, BulkWriteResult, ClientBulkWriteFailure};
use crate::settings::ServerAddress;
use codes::StateChange;

/// `RetryableWriteError`: the write may be sent once more.
pub const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";
/// `NoWritesPerformed`: this attempt wrote nothing, so an earlier attempt's error says more.
pub const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";
/// `SystemOverloadedError`: the server refused because of its load.
pub const SYSTEM_OVERLOADED_ERROR: &str = "SystemOverloadedError";
/// `RetryableError`: anything may be sent once more.
pub const RETRYABLE_ERROR: &str = "RetryableError";

/// `TransientTransactionError`: the whole transaction may be tried again.
pub const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";
/// `UnknownTransactionCommitResult`: nobody knows whether the transaction was committed; the commit may be said again.
pub const UNKNOWN_TRANSACTION_COMMIT_RESULT: &str = "UnknownTransactionCommitResult";

/// Result with the driver's error.
pub type Result<T, E = DriverError> = std::result::Result<T, E>;

/// Why an operation failed: a kind, labels, and what caused it.
#[derive(Clone)]
pub struct DriverError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    labels: Vec<String>,
    cause: Option<DriverError>,
    server: Option<ServerAddress>,
    bulk_result: Option<BulkWriteResult>,
}

/// What happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server was silent for too long after a request (`socketTimeoutMS`, or what was left of `timeoutMS`).
    SocketReadTimeout {
        /// How long it was silent.
        silence: Duration,
    },
    /// The connection could not be opened, broke or was closed by the peer.
    Network {
        /// In which phase.
        stage: NetworkStage,
        /// The transport's own words.
        reason: String,
    },
    /// The server answered `ok: 0`.
    Command(CommandFailure),
    /// A single write was refused by a `writeErrors` entry.
    Write(WriteFailure),
    /// A write was done, but its write concern was not met.
    WriteConcern(WriteConcernFailure),
    /// A bulk write failed in part.
    BulkWrite(Box<BulkWriteFailure>),
    /// A bulk write over several collections failed in part.
    ClientBulkWrite(Box<ClientBulkWriteFailure>),
    /// No suitable server within `serverSelectionTimeoutMS`.
    ServerSelectionTimeout(String),
    /// No connection within `waitQueueTimeoutMS`.
    WaitQueueTimeout(String),
    /// The server's pool was cleared, so there was no connection. Nothing was sent.
    PoolCleared(String),
    /// `timeoutMS` ran out; [`DriverError::cause`] has the error it ran out with.
    OperationTimeout(String),
    /// The caller asked for something that makes no sense.
    InvalidArgument(String),
    /// The driver refuses, for example because the server is too old for what was asked.
    Client(String),
    /// The server's wire versions and the driver's do not meet.
    IncompatibleServer(String),
    /// The peer does not speak the protocol.
    Protocol(String),
    /// The client or cursor is closed already.
    Closed(String),
}

/// Where a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkStage {
    /// While it was opened.
    Open,
    /// While a request was written.
    Write,
    /// While a reply was read; the end of the stream included.
    Read,
}

/// A reply with `ok: 0`.
#[derive(Debug, Clone)]
pub struct CommandFailure {
    /// `code`; very old servers send none.
    pub code: Option<i32>,
    /// `codeName`.
    pub code_name: String,
    /// `errmsg`.
    pub message: String,
    /// The whole reply.
    pub response: Document,
}

/// An entry of `writeErrors`.
#[derive(Debug, Clone)]
pub struct WriteFailure {
    /// The position of the failed write in what the caller gave.
    pub index: usize,
    /// `code`.
    pub code: i32,
    /// `errmsg`.
    pub message: String,
    /// `errInfo`.
    pub details: Option<Document>,
    /// The whole entry.
    pub response: Document,
}

/// A `writeConcernError`.
#[derive(Debug, Clone)]
pub struct WriteConcernFailure {
    /// `code`.
    pub code: i32,
    /// `codeName`.
    pub code_name: String,
    /// `errmsg`.
    pub message: String,
    /// `errInfo`.
    pub details: Option<Document>,
    /// The whole sub-document.
    pub response: Document,
}

impl DriverError {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, labels: Vec::new(), cause: None, server: None, bulk_result: None }))
    }

    pub(crate) fn invalid_argument(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument(what.into()))
    }

    /// The client cannot go on, for this reason.
    pub fn client(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Client(what.into()))
    }

    pub(crate) fn protocol(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Protocol(what.to_string()))
    }

    pub(crate) fn closed(what: &str) -> Self {
        Self::new(ErrorKind::Closed(what.to_owned()))
    }

    pub(crate) fn network(stage: NetworkStage, reason: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Network { stage, reason: reason.to_string() })
    }

    /// `timeoutMS` ran out where nothing else had failed.
    pub(crate) fn operation_timeout(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::OperationTimeout(what.into()))
    }

    /// Turns an error that `timeoutMS` is to blame for into the timeout error, once.
    pub(crate) fn into_operation_timeout(self) -> Self {
        if matches!(self.kind(), ErrorKind::OperationTimeout(_)) {
            return self;
        }
        let mut timeout = Self::operation_timeout("the operation exceeded the timeout limit");
        timeout.0.server = self.0.server.clone();
        timeout.0.labels = self.0.labels.clone();
        timeout.0.cause = Some(self);
        timeout
    }

    pub(crate) fn with_cause(mut self, cause: DriverError) -> Self {
        self.0.cause = Some(cause);
        self
    }

    pub(crate) fn with_bulk_result(mut self, result: BulkWriteResult) -> Self {
        self.0.bulk_result = Some(result);
        self
    }

    pub(crate) fn at(mut self, server: &ServerAddress) -> Self {
        self.0.server.get_or_insert_with(|| server.clone());
        self
    }

    pub(crate) fn add_label(&mut self, label: &str) {
        if !self.has_label(label) {
            self.0.labels.push(label.to_owned());
        }
    }

    pub(crate) fn with_labels_of(mut self, other: &DriverError) -> Self {
        for label in other.labels() {
            self.add_label(label);
        }
        self
    }

    /// The same error as events may show it after a command that carries secrets: without the server's reply.
    pub(crate) fn redacted(mut self) -> Self {
        if let ErrorKind::Command(failure) = &mut self.0.kind {
            failure.response = Document::new();
            failure.message = String::new();
        }
        self.0.cause = self.0.cause.map(DriverError::redacted);
        self
    }

    /// The error that an application raises itself out of the body of [`crate::ClientSession::with_transaction`].
    pub fn by_application(what: impl Into<String>) -> Self {
        Self::client(what)
    }

    /// What happened.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The labels of the server and those that the driver added.
    pub fn labels(&self) -> &[String] {
        &self.0.labels
    }

    /// Whether `label` is among the labels.
    pub fn has_label(&self, label: &str) -> bool {
        self.0.labels.iter().any(|own| own == label)
    }

    /// The error that led to this one.
    pub fn cause(&self) -> Option<&DriverError> {
        self.0.cause.as_ref()
    }

    /// The server it came from or was meant for, if one had been chosen.
    pub fn server(&self) -> Option<&ServerAddress> {
        self.0.server.as_ref()
    }

    /// The server's error code, if a server answered: of the reply, the write error or the write concern error.
    pub fn code(&self) -> Option<i32> {
        match self.kind() {
            ErrorKind::Command(failure) => failure.code,
            ErrorKind::Write(failure) => Some(failure.code),
            ErrorKind::WriteConcern(failure) => Some(failure.code),
            ErrorKind::BulkWrite(failure) => failure.code(),
            ErrorKind::ClientBulkWrite(failure) => failure.error.as_ref().and_then(DriverError::code),
            _ => None,
        }
    }

    /// `codeName` of the reply, if there was one.
    pub fn code_name(&self) -> Option<&str> {
        match self.kind() {
            ErrorKind::Command(failure) => Some(&failure.code_name),
            ErrorKind::WriteConcern(failure) => Some(&failure.code_name),
            _ => None,
        }
    }

    /// The server's own document: the reply, the `writeErrors` entry or the `writeConcernError`.
    pub fn response(&self) -> Option<&Document> {
        match self.kind() {
            ErrorKind::Command(failure) => Some(&failure.response),
            ErrorKind::Write(failure) => Some(&failure.response),
            ErrorKind::WriteConcern(failure) => Some(&failure.response),
            ErrorKind::BulkWrite(failure) => failure
                .write_errors
                .first()
                .map(|error| &error.response)
                .or_else(|| failure.write_concern_errors.first().map(|error| &error.response)),
            ErrorKind::ClientBulkWrite(failure) => failure.error.as_ref().and_then(DriverError::response),
            _ => None,
        }
    }

    /// What a bulk had done before this error ended it. (Java does not tell when the network failed or time ran out.)
    pub fn bulk_result(&self) -> Option<&BulkWriteResult> {
        match self.kind() {
            ErrorKind::BulkWrite(failure) => Some(&failure.result),
            _ => self.0.bulk_result.as_ref(),
        }
    }

    /// Whether the network failed: what Java calls a `MongoSocketException`, a read timeout included.
    pub fn is_network(&self) -> bool {
        matches!(self.kind(), ErrorKind::SocketReadTimeout { .. } | ErrorKind::Network { .. })
    }

    /// Whether the error is `timeoutMS` running out.
    pub fn is_operation_timeout(&self) -> bool {
        matches!(self.kind(), ErrorKind::OperationTimeout(_))
    }

    /// Whether the client raised it, not the server: network errors, timeouts and refusals of the driver.
    pub fn is_client_side(&self) -> bool {
        match self.kind() {
            ErrorKind::Command(_) | ErrorKind::Write(_) | ErrorKind::WriteConcern(_) | ErrorKind::BulkWrite(_) => false,
            ErrorKind::ClientBulkWrite(failure) => failure.error.as_ref().is_some_and(DriverError::is_client_side),
            ErrorKind::OperationTimeout(_) => self.cause().is_none_or(DriverError::is_client_side),
            _ => true,
        }
    }

    /// What the server says about its state with this error, if it does.
    pub(crate) fn state_change(&self) -> Option<StateChange> {
        match self.kind() {
            ErrorKind::Command(failure) => StateChange::of(failure.code, &failure.message),
            ErrorKind::WriteConcern(failure) => StateChange::of(Some(failure.code), &failure.message),
            _ => None,
        }
    }

    /// Whether the session that the failed command used must not be used again (facts/client.md A4.6).
    pub(crate) fn dirties_session(&self) -> bool {
        self.is_network() || (self.is_operation_timeout() && self.cause().is_some_and(|cause| cause.is_network()))
    }

    /// The Java driver's exception class for it; what a report shows.
    pub fn java_class(&self) -> &'static str {
        match self.kind() {
            ErrorKind::SocketReadTimeout { .. } => "MongoSocketReadTimeoutException",
            ErrorKind::Network { stage: NetworkStage::Open, .. } => "MongoSocketOpenException",
            ErrorKind::Network { stage: NetworkStage::Write, .. } => "MongoSocketWriteException",
            ErrorKind::Network { stage: NetworkStage::Read, .. } => "MongoSocketReadException",
            ErrorKind::Command(failure) => match failure.code {
                Some(codes::MAX_TIME_MS_EXPIRED) => "MongoExecutionTimeoutException",
                Some(codes::CURSOR_NOT_FOUND) => "MongoCursorNotFoundException",
                _ => match self.state_change() {
                    Some(StateChange::NotPrimary) => "MongoNotPrimaryException",
                    Some(StateChange::Recovering | StateChange::Shutdown) => "MongoNodeIsRecoveringException",
                    None => "MongoCommandException",
                },
            },
            ErrorKind::Write(_) => "MongoWriteException",
            ErrorKind::WriteConcern(_) => "MongoWriteConcernException",
            ErrorKind::BulkWrite(_) => "MongoBulkWriteException",
            ErrorKind::ClientBulkWrite(_) => "ClientBulkWriteException",
            ErrorKind::ServerSelectionTimeout(_) | ErrorKind::WaitQueueTimeout(_) => "MongoTimeoutException",
            ErrorKind::PoolCleared(_) => "MongoConnectionPoolClearedException",
            ErrorKind::OperationTimeout(_) => "MongoOperationTimeoutException",
            ErrorKind::InvalidArgument(_) => "IllegalArgumentException",
            ErrorKind::Client(_) => "MongoClientException",
            ErrorKind::IncompatibleServer(_) => "MongoIncompatibleDriverException",
            ErrorKind::Protocol(_) => "MongoInternalException",
            ErrorKind::Closed(_) => "IllegalStateException",
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            ErrorKind::SocketReadTimeout { silence } => {
                write!(f, "no reply within {} ms", silence.as_millis())?;
            }
            ErrorKind::Network { stage, reason } => {
                let what = match stage {
                    NetworkStage::Open => "cannot open a connection",
                    NetworkStage::Write => "cannot send",
                    NetworkStage::Read => "cannot receive",
                };
                write!(f, "{what}: {reason}")?;
            }
            ErrorKind::Command(failure) => {
                write!(f, "command failed: {}", failure.message)?;
                if let Some(code) = failure.code {
                    write!(f, " ({code} {})", failure.code_name)?;
                }
            }
            ErrorKind::Write(failure) => write!(f, "write failed: {} ({})", failure.message, failure.code)?,
            ErrorKind::WriteConcern(failure) => {
                write!(f, "write concern not met: {} ({})", failure.message, failure.code)?;
            }
            ErrorKind::BulkWrite(failure) => failure.fmt(f)?,
            ErrorKind::ClientBulkWrite(failure) => failure.fmt(f)?,
            ErrorKind::ServerSelectionTimeout(what)
            | ErrorKind::WaitQueueTimeout(what)
            | ErrorKind::PoolCleared(what)
            | ErrorKind::OperationTimeout(what)
            | ErrorKind::InvalidArgument(what)
            | ErrorKind::Client(what)
            | ErrorKind::IncompatibleServer(what)
            | ErrorKind::Protocol(what)
            | ErrorKind::Closed(what) => f.write_str(what)?,
        }
        if let Some(server) = self.server() {
            write!(f, " [{server}]")?;
        }
        if let Some(cause) = self.cause() {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverError")
            .field("kind", self.kind())
            .field("labels", &self.0.labels)
            .field("server", &self.0.server)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl std::error::Error for DriverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().map(|cause| cause as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_error_wraps_its_cause_once_and_shows_it() {
        let silent = DriverError::new(ErrorKind::SocketReadTimeout { silence: Duration::from_millis(7) });
        let timeout = silent.into_operation_timeout().into_operation_timeout();
        assert_eq!(timeout.java_class(), "MongoOperationTimeoutException");
        assert_eq!(timeout.cause().map(DriverError::java_class), Some("MongoSocketReadTimeoutException"));
        assert!(timeout.to_string().contains("no reply within 7 ms"), "{timeout}");
        assert!(timeout.dirties_session());
        assert!(!timeout.is_network());
    }
}
