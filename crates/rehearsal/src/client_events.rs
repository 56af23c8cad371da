//! Turns what the driver reports into the product's events.

use std::collections::HashMap;

use backfire_driver::events::CommandEvent;
use backfire_driver::{DriverError, ErrorKind, Event as DriverEvent, Listener};
use backfire_model::event::{ClientEvent, SendError, WriteId};
use backfire_model::{Execution, RequestId};
use parking_lot::Mutex;

/// Commands that write documents.
pub(crate) const WRITES: [&str; 4] = ["insert", "update", "delete", "findAndModify"];
/// The label of an error after which the driver may send again.
const RETRYABLE: &str = "RetryableWriteError";

/// Where a client's events go.
pub trait Sink: Send + Sync + 'static {
    /// The execution that runs in the task that asks.
    fn execution(&self) -> Option<Execution>;
    /// Something happened now, in that task.
    fn client(&self, event: ClientEvent);
    /// Whether the driver may try again.
    fn allows_retry(&self) -> bool {
        true
    }
}

/// Listens to a client.
pub struct ClientEvents<S> {
    sink: S,
    /// Sends without an answer yet.
    open: Mutex<HashMap<RequestId, WriteId>>,
}

impl<S: Sink> ClientEvents<S> {
    /// Tells `sink`.
    pub fn new(sink: S) -> Self {
        Self { sink, open: Mutex::default() }
    }

    fn execution(&self) -> Option<Execution> {
        self.sink.execution()
    }

    fn command(&self, event: &CommandEvent) {
        match event {
            CommandEvent::Started(started) if WRITES.contains(&started.command_name.as_str()) => {
                let write = WriteId { lsid: started.lsid, txn_number: started.txn_number };
                self.open.lock().insert(started.request_id, write);
                let collection = started.command.collection().unwrap_or("$cmd");
                self.sink.client(ClientEvent::Send {
                    execution: self.execution(),
                    write,
                    request_id: started.request_id,
                    command: started.command_name.clone(),
                    namespace: format!("{}.{collection}", started.database),
                    attempt: started.attempt,
                });
            }
            CommandEvent::Succeeded(succeeded) => {
                if let Some(write) = self.open.lock().remove(&succeeded.request_id) {
                    self.sink.client(ClientEvent::Reply {
                        execution: self.execution(),
                        write,
                        request_id: succeeded.request_id,
                    });
                }
            }
            CommandEvent::Failed(failed) => {
                if let Some(write) = self.open.lock().remove(&failed.request_id) {
                    let error = send_error(&failed.error);
                    self.sink.client(ClientEvent::SendFailed {
                        execution: self.execution(),
                        write,
                        request_id: failed.request_id,
                        error,
                    });
                }
            }
            CommandEvent::Started(_) => {}
        }
    }
}

impl<S: Sink> Listener for ClientEvents<S> {
    fn event(&self, event: &DriverEvent) {
        if let DriverEvent::Command(event) = event {
            self.command(event);
        }
    }

    fn allows_retry(&self) -> bool {
        self.sink.allows_retry()
    }
}

fn send_error(error: &DriverError) -> SendError {
    match error.kind() {
        ErrorKind::SocketReadTimeout { .. } => SendError::SocketTimeout,
        ErrorKind::OperationTimeout(_) => SendError::OperationTimeout,
        ErrorKind::Command(failure) => SendError::Server {
            code: failure.code.unwrap_or(0),
            code_name: failure.code_name.clone(),
            retryable: error.has_label(RETRYABLE),
        },
        _ => SendError::Network { message: error.to_string() },
    }
}
