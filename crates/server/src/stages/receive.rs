//! Stage *receive*: the command becomes an operation that others can see.

use std::sync::Arc;

use backfire_model::event::{ServerEvent, WriteId};
use backfire_model::{Lsid, TxnNumber};

use crate::auth::redact;
use crate::commands::CommandSpec;
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::net::connection::Connection;
use crate::net::request::raw;
use crate::ops::Op;
use crate::ops::registry::Registered;
use crate::server::Shared;
use crate::value::View;

/// Registers the operation; it is in `$currentOp` from here until the result is dropped.
pub fn register(shared: &Arc<Shared>, connection: &Arc<Connection>, request: &Request) -> Registered {
    let ns = [request.database().unwrap_or_default(), ".$cmd"].concat();
    shared
        .ops
        .register(|id| Op::new(id, Arc::clone(shared), Arc::clone(connection), request.id, redact::shown(request), ns))
}

/// The largest command document: a stored document's size and room for the rest of the command.
const COMMAND_MAX_BYTES: usize = 16 * 1024 * 1024 + 16 * 1024;

/// Refuses a command document that is too large.
///
/// # Errors
/// 10334.
pub fn command_size(request: &Request) -> Result<()> {
    let size = request.body().len();
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
    op.observe(|id, write| ServerEvent::Arrived {
        op: id,
        write,
        connection: op.connection.id,
        request_id: op.request_id,
        app_name: op.connection.app_name(),
        command: spec.name().to_owned(),
        namespace: namespace(request),
        in_transaction: matches!(request.get("autocommit"), Some(View::Bool(false))),
    });
}

/// The collection that the command names; of a `bulkWrite` over several, the first.
fn namespace(request: &Request) -> String {
    let database = request.database().unwrap_or_default();
    if let Some(View::String(collection)) = request.first() {
        return format!("{database}.{collection}");
    }
    let in_sequence = request.sequence("nsInfo").and_then(|sequence| sequence.iter().next());
    let first = match &in_sequence {
        Some(first) => raw(first).get_str("ns").ok().map(str::to_owned),
        None => match request.get("nsInfo") {
            Some(View::Array(infos)) => {
                let first = infos.iter().next().and_then(View::as_document);
                first.and_then(|info| info.get("ns")?.as_str().map(str::to_owned))
            }
            _ => None,
        },
    };
    first.unwrap_or_else(|| format!("{database}.$cmd"))
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
