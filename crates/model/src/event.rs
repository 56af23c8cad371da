//! What happens to a logical write, as one vocabulary for every source: driver, lab server, simulation, a recording.
//!
//! An event stream is JSON lines, one [`Event`] each, in the order in which things happened.

use serde::{Deserialize, Serialize};

use crate::ids::{ConnectionId, ConsumerId, Execution, Lsid, OpId, RecordId, RequestId, TxnNumber};

/// Something that happened, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since the recording began.
    pub at_ms: u64,
    /// The record whose logical write it is about, where there are several and the recorder knows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub record: Option<RecordId>,
    /// The consumer of the group that did it, where there are several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub consumer: Option<ConsumerId>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// Which side saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "side", rename_all = "snake_case")]
pub enum What {
    /// The application or its driver.
    Client(ClientEvent),
    /// The server.
    Server(ServerEvent),
}

/// The identity of a write command, as far as it has one: the same for every send of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct WriteId {
    /// The session.
    pub lsid: Option<Lsid>,
    /// The number within the session; `None` for a write the driver does not resend.
    #[serde(rename = "txnNumber")]
    pub txn_number: Option<TxnNumber>,
}

/// What the application and its driver see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ClientEvent {
    /// The application runs its write, for the first time or again.
    ExecutionStarted {
        /// Which run.
        execution: Execution,
    },
    /// The driver puts a command on the wire.
    Send {
        /// The run it belongs to, where the recorder knows it.
        execution: Option<Execution>,
        /// The command's identity.
        #[serde(flatten)]
        write: WriteId,
        /// The message's `requestID`.
        request_id: RequestId,
        /// The command's name.
        command: String,
        /// `db.collection`.
        namespace: String,
        /// Which attempt of the driver this is, from 1.
        attempt: u32,
    },
    /// A reply without a top-level error arrived for a send.
    Reply {
        /// The run it belongs to.
        execution: Option<Execution>,
        /// The command's identity.
        #[serde(flatten)]
        write: WriteId,
        /// The send it answers.
        request_id: RequestId,
    },
    /// A send ended without a usable reply.
    SendFailed {
        /// The run it belongs to.
        execution: Option<Execution>,
        /// The command's identity.
        #[serde(flatten)]
        write: WriteId,
        /// The send.
        request_id: RequestId,
        /// Why.
        error: SendError,
    },
    /// The application's write returned.
    ExecutionSucceeded {
        /// Which run.
        execution: Execution,
    },
    /// The application's write threw.
    ExecutionFailed {
        /// Which run.
        execution: Execution,
        /// The driver's exception class and text.
        error: String,
    },
    /// The back-off starts over, because the error is of another class than the one before.
    BackOffRestarted {
        /// The run that failed.
        execution: Execution,
    },
    /// The error handler waits before the next execution.
    BackOff {
        /// The run that failed.
        execution: Execution,
        /// How long it waits.
        wait_ms: u64,
    },
    /// The error handler gives up: the record goes to the dead-letter topic.
    DeadLetter {
        /// How many runs there were.
        execution: Execution,
    },
    /// The record could not be made a dead letter.
    RecoveryFailed {
        /// How many runs there were.
        execution: Execution,
        /// Why.
        error: String,
    },
    /// The client closed its connections in the middle of its work.
    HungUp,
    /// The consumer has these partitions from now on.
    Assigned {
        /// Which.
        partitions: Vec<u32>,
    },
    /// The consumer gave these partitions up, with what it had done committed.
    Revoked {
        /// Which.
        partitions: Vec<u32>,
    },
    /// The consumer lost these partitions: it was out of its group without knowing, because it had not polled for longer
    /// than `max.poll.interval.ms`.
    Lost {
        /// Which.
        partitions: Vec<u32>,
    },
    /// Offsets could not be committed, because the consumer is out of its group: what was done will be done again.
    CommitFailed {
        /// Of which partitions.
        partitions: Vec<u32>,
    },
}

/// Why a send failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SendError {
    /// `socketTimeoutMS` ran out while the driver waited for the reply.
    SocketTimeout,
    /// `timeoutMS` ran out.
    OperationTimeout,
    /// The connection broke.
    Network {
        /// The driver's text.
        message: String,
    },
    /// The server answered with an error.
    Server {
        /// Its code.
        code: i32,
        /// Its name.
        code_name: String,
        /// Whether it carried the label `RetryableWriteError`.
        retryable: bool,
    },
}

/// What the server sees of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ServerEvent {
    /// A command was read from a connection.
    Arrived {
        /// The operation it became.
        op: OpId,
        /// The command's identity.
        #[serde(flatten)]
        write: WriteId,
        /// Where it came from.
        connection: ConnectionId,
        /// The message's `requestID`.
        request_id: RequestId,
        /// The client's application name.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        app_name: Option<String>,
        /// The command's name.
        command: String,
        /// `db.collection`.
        namespace: String,
        /// Whether it is a statement of a multi-document transaction, or the end of one: then the same identity does not make it
        /// a resend.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        in_transaction: bool,
    },
    /// The operation waits.
    Waiting {
        /// The operation.
        op: OpId,
        /// The command's identity.
        #[serde(flatten)]
        write: WriteId,
        /// For what.
        wait: Wait,
    },
    /// A wait ended and the operation goes on.
    Resumed {
        /// The operation.
        op: OpId,
        /// The command's identity.
        #[serde(flatten)]
        write: WriteId,
        /// What it had waited for.
        wait: Wait,
    },
    /// The operation has its session, if it needs one, and begins its statements.
    Executing {
        /// The operation.
        op: OpId,
        /// The command's identity.
        #[serde(flatten)]
        write: WriteId,
    },
    /// A storage transaction of the operation was committed.
    Committed {
        /// The operation.
        op: OpId,
        /// The command's identity.
        #[serde(flatten)]
        write: WriteId,
        /// How many documents it wrote.
        documents: u32,
        /// `_id` of the first of them, as text.
        first_id: String,
    },
    /// Statements were answered from the retry history instead of being executed.
    Replayed {
        /// The operation.
        op: OpId,
        /// The command's identity.
        #[serde(flatten)]
        write: WriteId,
        /// How many statements.
        statements: u32,
    },
    /// The operation is over.
    Ended {
        /// The operation.
        op: OpId,
        /// The command's identity.
        #[serde(flatten)]
        write: WriteId,
        /// How it ended.
        outcome: Outcome,
        /// Whether its client was still there to get the reply.
        client_there: bool,
    },
}

impl ServerEvent {
    /// The operation the event is about.
    pub fn op(&self) -> OpId {
        match self {
            ServerEvent::Arrived { op, .. }
            | ServerEvent::Waiting { op, .. }
            | ServerEvent::Resumed { op, .. }
            | ServerEvent::Executing { op, .. }
            | ServerEvent::Committed { op, .. }
            | ServerEvent::Replayed { op, .. }
            | ServerEvent::Ended { op, .. } => *op,
        }
    }

    /// The identity of the operation's command.
    pub fn write(&self) -> WriteId {
        match self {
            ServerEvent::Arrived { write, .. }
            | ServerEvent::Waiting { write, .. }
            | ServerEvent::Resumed { write, .. }
            | ServerEvent::Executing { write, .. }
            | ServerEvent::Committed { write, .. }
            | ServerEvent::Replayed { write, .. }
            | ServerEvent::Ended { write, .. } => *write,
        }
    }
}

/// What an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// `failCommand` with `blockConnection`: before the session is checked out.
    FailPoint,
    /// The session: another operation holds it.
    Session,
    /// A ticket.
    Ticket,
    /// A lock.
    Lock,
    /// Another operation has written the same document and has not committed.
    WriteConflict,
    /// The engine stands still and does not check for interrupts.
    EngineStall,
    /// The operation stands still at a place that checks for interrupts.
    InterruptibleStall,
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// With `ok: 1`.
    Ok,
    /// With `ok: 0`.
    Error {
        /// The code.
        code: i32,
        /// Its name.
        code_name: String,
    },
    /// Without a reply: the server closed the connection.
    ConnectionClosed,
}

/// Takes events in as they happen. Implementations must be quick and must not block.
pub trait Observer: Send + Sync {
    /// Something happened now.
    fn record(&self, what: What);
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn an_event_is_one_flat_json_object() {
        let write = WriteId { lsid: Some(Lsid(Uuid::from_bytes([1; 16]))), txn_number: Some(TxnNumber(1)) };
        let event = Event {
            at_ms: 30_000,
            record: None,
            consumer: None,
            what: What::Server(ServerEvent::Waiting { op: OpId(7), write, wait: Wait::Session }),
        };
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(
            json,
            r#"{"at_ms":30000,"side":"server","event":"waiting","op":7,"lsid":"01010101-0101-0101-0101-010101010101","txnNumber":1,"wait":"session"}"#
        );
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
    }

    #[test]
    fn a_stream_that_knows_nothing_of_transactions_is_read() {
        let old = r#"{"at_ms":1,"side":"server","event":"arrived","op":7,"lsid":null,"txnNumber":null,"connection":1,"request_id":2,"command":"insert","namespace":"db.c"}"#;
        let mut event: Event = serde_json::from_str(old).unwrap();
        assert_eq!(serde_json::to_string(&event).unwrap(), old);
        let What::Server(ServerEvent::Arrived { in_transaction, .. }) = &mut event.what else { panic!("{event:?}") };
        assert!(!std::mem::replace(in_transaction, true));
        let new = serde_json::to_string(&event).unwrap();
        assert_eq!(new, old.replace("\"db.c\"", "\"db.c\",\"in_transaction\":true"));
        assert_eq!(serde_json::from_str::<Event>(&new).unwrap(), event);
    }

    #[test]
    fn an_ended_event_is_flat_too() {
        let write = WriteId::default();
        let outcome = Outcome::Error { code: 50, code_name: "MaxTimeMSExpired".into() };
        let event = Event {
            at_ms: 1,
            record: None,
            consumer: None,
            what: What::Server(ServerEvent::Ended { op: OpId(7), write, outcome, client_there: false }),
        };
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
    }
}
