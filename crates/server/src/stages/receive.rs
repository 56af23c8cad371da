//! Stage *receive*: the command becomes an operation that others can see.

use std::sync::Arc;

use backfire_model::event::{ServerEvent, WriteId};
use backfire_model::{Lsid, TxnNumber};

use crate::commands::CommandSpec;
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::net::connection::Connection;
use crate::ops::Op;
use crate::ops::registry::Registered;
use crate::server::Shared;
use crate::value::View;

/// Registers the operation; it is in `$currentOp` from here until the result is dropped.
pub fn register(shared: &Arc<Shared>, connection: &Arc<Connection>, request: &Request) -> Registered {
    let ns = format!("{}.$cmd", request.database().unwrap_or_default());
    shared
        .ops
        .register(|id| Op::new(id, Arc::clone(shared), Arc::clone(connection), request.id, request.body.clone(), ns))
}

/// The largest command document: a stored document's size and room for the rest of the command.
const COMMAND_MAX_BYTES: usize = 16 * 1024 * 1024 + 16 * 1024;

/// Refuses a command document that is too large.
///
/// # Errors
/// 10334.
pub fn command_size(request: &Request) -> Result<()> {
    let size = request.body.len();
    if size > COMMAND_MAX_BYTES {
        let first = request.command_name();
        return Err(CommandError::new(
            10334,
            format!(
                "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and {COMMAND_MAX_BYTES}(16MB) First element: {first}"
            ),
        ));
    }
    Ok(())
}

/// Tells the observer that a command arrived. The identity is read as far as it can be read: whether it is valid is the
/// business of a later stage.
pub fn observe_arrival(op: &Op, spec: &CommandSpec, request: &Request) {
    if op.shared.observer.is_none() || !spec.observed {
        return;
    }
    op.set_write_id(WriteId { lsid: lsid(request), txn_number: txn_number(request) });
    op.begin_observing();
    let collection = match request.get(request.command_name()) {
        Some(View::String(collection)) => collection,
        _ => "$cmd",
    };
    op.observe(|id, write| ServerEvent::Arrived {
        op: id,
        write,
        connection: op.connection.id,
        request_id: op.request_id,
        app_name: op.connection.app_name(),
        command: spec.name().to_owned(),
        namespace: format!("{}.{collection}", request.database().unwrap_or_default()),
    });
}

fn lsid(request: &Request) -> Option<Lsid> {
    let lsid = request.get("lsid")?.as_document()?;
    match lsid.get("id")? {
        View::Binary { bytes, .. } => uuid::Uuid::from_slice(bytes).ok().map(Lsid),
        _ => None,
    }
}

fn txn_number(request: &Request) -> Option<TxnNumber> {
    match request.get("txnNumber")? {
        View::Int64(number) => Some(TxnNumber(number)),
        _ => None,
    }
}
