//! Turns what the driver reports into the product's events.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backfire_driver::events::CommandEvent;
use backfire_driver::{DriverError, ErrorKind, Event as DriverEvent, Listener};
use backfire_model::event::{ClientEvent, Observer, SendError, What, WriteId};
use backfire_model::{Execution, RequestId};
use parking_lot::Mutex;

use crate::recorder::Recorder;

/// Commands that write documents.
const WRITES: [&str; 4] = ["insert", "update", "delete", "findAndModify"];
/// The label of an error after which the driver may send again.
const RETRYABLE: &str = "RetryableWriteError";

/// Listens to a client.
pub struct ClientEvents {
    recorder: Arc<Recorder>,
    /// The execution that runs, or 0.
    execution: Arc<AtomicU32>,
    /// Sends without an answer yet.
    open: Mutex<HashMap<RequestId, WriteId>>,
}

impl ClientEvents {
    /// Records into `recorder`; `execution` is the number of the execution that runs.
    pub fn new(recorder: Arc<Recorder>, execution: Arc<AtomicU32>) -> Self {
        Self { recorder, execution, open: Mutex::default() }
    }

    fn execution(&self) -> Option<Execution> {
        Some(self.execution.load(Ordering::Acquire)).filter(|number| *number > 0).map(Execution)
    }

    fn command(&self, event: &CommandEvent) {
        match event {
            CommandEvent::Started(started) if WRITES.contains(&started.command_name.as_str()) => {
                let write = WriteId { lsid: started.lsid, txn_number: started.txn_number };
                self.open.lock().insert(started.request_id, write);
                let collection = started.command.collection().unwrap_or("$cmd");
                self.record(ClientEvent::Send {
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
                    self.record(ClientEvent::Reply {
                        execution: self.execution(),
                        write,
                        request_id: succeeded.request_id,
                    });
                }
            }
            CommandEvent::Failed(failed) => {
                if let Some(write) = self.open.lock().remove(&failed.request_id) {
                    let error = send_error(&failed.error);
                    self.record(ClientEvent::SendFailed {
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

    fn record(&self, event: ClientEvent) {
        self.recorder.record(What::Client(event));
    }
}

impl Listener for ClientEvents {
    fn event(&self, event: &DriverEvent) {
        if let DriverEvent::Command(event) = event {
            self.command(event);
        }
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
