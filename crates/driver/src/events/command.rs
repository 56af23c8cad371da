//! Command events: one `Started` for each send, before its bytes leave, and one `Succeeded` or `Failed` after it.

use std::time::Duration;

use bson::Document;

use backfire_model::{Lsid, RequestId, TxnNumber};

use crate::connection::ConnectionInfo;
use crate::connection::command::SentCommand;
use crate::error::DriverError;

/// Something about a command.
#[derive(Debug, Clone)]
pub enum CommandEvent {
    /// It is about to be sent.
    Started(CommandStarted),
    /// Its reply came and says `ok: 1`, or it wants no reply.
    Succeeded(CommandSucceeded),
    /// Its reply says `ok: 0`, or none came.
    Failed(CommandFailed),
}

/// A send. A resend is another send with the same `lsid` and `txn_number`.
#[derive(Debug, Clone)]
pub struct CommandStarted {
    /// The message's number.
    pub request_id: RequestId,
    /// The number of the operation, from 1; the same for all commands of a bulk and all their sends.
    pub operation_id: u64,
    /// The connection it goes out on.
    pub connection: ConnectionInfo,
    /// The database.
    pub database: String,
    /// The command's name.
    pub command_name: String,
    /// The whole command; empty for one that carries secrets.
    pub command: SentCommand,
    /// The session, if one is sent.
    pub lsid: Option<Lsid>,
    /// The transaction number, if one is sent.
    pub txn_number: Option<TxnNumber>,
    /// Which send of this command it is, from 1.
    pub attempt: u32,
}

/// A good end.
#[derive(Debug, Clone)]
pub struct CommandSucceeded {
    /// The message's number.
    pub request_id: RequestId,
    /// The operation's number.
    pub operation_id: u64,
    /// The connection.
    pub connection: ConnectionInfo,
    /// The database.
    pub database: String,
    /// The command's name.
    pub command_name: String,
    /// The reply; empty for a command that carries secrets.
    pub reply: Document,
    /// From the send to the reply.
    pub duration: Duration,
}

/// A bad end.
#[derive(Debug, Clone)]
pub struct CommandFailed {
    /// The message's number.
    pub request_id: RequestId,
    /// The operation's number.
    pub operation_id: u64,
    /// The connection.
    pub connection: ConnectionInfo,
    /// The database.
    pub database: String,
    /// The command's name.
    pub command_name: String,
    /// What went wrong, as it came: labels that the retry logic adds are not there yet.
    pub error: DriverError,
    /// From the send to the failure.
    pub duration: Duration,
}
