//! The documents of `$currentOp` (facts/server.md 5.2, 5.3).

use std::time::Duration;

use bson::raw::{RawDocumentBuf, cstr};
use bson::{DateTime, Document, RawDocument, doc, rawdoc};
use tokio::time::Instant;

use super::Op;
use crate::net::request::raw;
use crate::params::Param;
use crate::server::Shared;
use crate::sessions::SessionId;
use crate::sessions::transaction::OpenTransaction;
use crate::stages::reply::append_document;
use crate::value::text;

/// What is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Also connections at rest.
    pub idle_connections: bool,
    /// Also cursors at rest.
    pub idle_cursors: bool,
    /// Also sessions at rest with an open transaction.
    pub idle_sessions: bool,
    /// Shorten long commands (the `currentOp` command does).
    pub truncate: bool,
}

/// How long an operation must wait for a latch before it is shown.
const LATCH_SHOWN_AFTER: Duration = Duration::from_millis(100);
/// Commands longer than this are shortened where that is asked for (facts/server.md 5.4).
const TRUNCATE_OVER_BYTES: usize = 1000;

/// One document per operation, per session whose open transaction no command runs in, and per idle connection or cursor where
/// asked for.
pub fn documents(shared: &Shared, wanted: Wanted) -> Vec<RawDocumentBuf> {
    let host = shared.topology.address();
    let now = text::iso_date(shared.clock.now_ms()).replace('Z', "+00:00");
    let mut documents: Vec<_> = shared.ops.all().iter().map(|op| active(op, &host, &now, wanted.truncate)).collect();
    if wanted.idle_sessions {
        documents.extend(shared.sessions.idle_transactions(|session, open| idle_session(shared, &host, session, open)));
    }
    if wanted.idle_connections {
        for connection in shared.connections.all() {
            if !connection.is_active() {
                let mut document = head("op", &host);
                append_connection(&mut document, &connection);
                document.append(cstr!("active"), false);
                document.append(cstr!("currentOpTime"), now.as_str());
                documents.push(document);
            }
        }
    }
    if wanted.idle_cursors {
        for (id, ns, lsid, command) in shared.cursors.idle() {
            let mut document = head("idleCursor", &host);
            document.append(cstr!("ns"), ns.as_str());
            if let Some(lsid) = lsid {
                append_document(&mut document, cstr!("lsid"), Some(&lsid.document()));
            }
            let mut cursor = rawdoc! { "cursorId": id };
            if !command.is_empty() {
                cursor.append(cstr!("originatingCommand"), raw(&command));
            }
            document.append(cstr!("cursor"), cursor);
            documents.push(document);
        }
    }
    documents
}

fn head(kind: &str, host: &str) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("type"), kind);
    document.append(cstr!("host"), host);
    document
}

/// A transaction between two of its commands.
fn idle_session(shared: &Shared, host: &str, session: &SessionId, open: &OpenTransaction) -> RawDocumentBuf {
    let mut document = head("idleSession", host);
    document.append(cstr!("desc"), "inactive transaction");
    document.append(cstr!("client"), open.client.peer.as_str());
    document.append(cstr!("connectionId"), open.client.id.0);
    let client = open.client.client();
    document.append(cstr!("appName"), client.app_name.as_deref().unwrap_or_default());
    append_document(&mut document, cstr!("clientMetadata"), client.metadata.as_ref());
    append_document(&mut document, cstr!("lsid"), Some(&session.document()));
    let limit_s = shared.params.get(Param::TransactionLifetimeSecs);
    append_document(&mut document, cstr!("transaction"), Some(&open.report(limit_s)));
    let locks = open.lock_view();
    document.append(cstr!("waitingForLock"), false);
    document.append(cstr!("active"), false);
    append_document(&mut document, cstr!("locks"), Some(&locks.held_document()));
    append_document(&mut document, cstr!("lockStats"), Some(&locks.stats_document()));
    document.append(cstr!("waitingForFlowControl"), false);
    document.append(cstr!("flowControlStats"), rawdoc! {});
    document
}

fn append_connection(document: &mut RawDocumentBuf, connection: &crate::net::connection::Connection) {
    document.append(cstr!("desc"), connection.description.as_str());
    document.append(cstr!("connectionId"), connection.id.0 as i32);
    document.append(cstr!("client"), connection.peer.as_str());
    let client = connection.client();
    if let Some(app_name) = &client.app_name {
        document.append(cstr!("appName"), app_name.as_str());
    }
    append_document(document, cstr!("clientMetadata"), client.metadata.as_ref());
}

fn active(op: &Op, host: &str, now: &str, truncate: bool) -> RawDocumentBuf {
    let view = op.view().clone();
    let mut document = head("op", host);
    append_connection(&mut document, &op.connection);
    document.append(cstr!("active"), true);
    document.append(cstr!("currentOpTime"), now);
    document.append(cstr!("opid"), op.id.0);
    if op.is_killed() {
        document.append(cstr!("killPending"), true);
    }
    if let Some(lsid) = view.lsid {
        append_document(&mut document, cstr!("lsid"), Some(&lsid.document()));
    }
    if let Some(started) = view.started {
        let running = started.elapsed();
        document.append(cstr!("secs_running"), running.as_secs() as i64);
        document.append(cstr!("microsecs_running"), running.as_micros() as i64);
    }
    document.append(cstr!("op"), view.kind.name());
    document.append(cstr!("ns"), view.ns.as_str());
    append_command(&mut document, raw(view.statement.as_ref().unwrap_or(&op.command)), truncate);
    if let Some(summary) = view.plan_summary {
        document.append(cstr!("planSummary"), summary);
    }
    if let Some(cursor) = view.cursor {
        document.append(cstr!("cursor"), rawdoc! { "cursorId": cursor });
    }
    if let Some(message) = view.msg {
        document.append(cstr!("msg"), message);
    }
    if view.write_conflicts > 0 {
        document.append(cstr!("writeConflicts"), view.write_conflicts);
    }
    document.append(cstr!("numYields"), view.yields);
    append_latch(&mut document, op, view.latch);
    let limit_s = op.shared.params.get(Param::TransactionLifetimeSecs);
    if let Some(report) = op.with_transaction(|open| open.report(limit_s)) {
        append_document(&mut document, cstr!("transaction"), Some(&report));
    } else if let Some(number) = view.txn_number {
        document.append(cstr!("transaction"), rawdoc! { "parameters": { "txnNumber": number } });
    }
    append_document(&mut document, cstr!("locks"), Some(&view.locks.held_document()));
    document.append(cstr!("waitingForLock"), view.locks.waiting);
    append_document(&mut document, cstr!("lockStats"), Some(&view.locks.stats_document()));
    document.append(cstr!("waitingForFlowControl"), false);
    document.append(cstr!("flowControlStats"), rawdoc! {});
    document
}

fn append_latch(document: &mut RawDocumentBuf, op: &Op, latch: Option<(&'static str, Instant)>) {
    let Some((name, since)) = latch.filter(|(_, since)| since.elapsed() >= LATCH_SHOWN_AFTER) else { return };
    let at = op.shared.clock.now_ms() - since.elapsed().as_millis() as i64;
    document.append(cstr!("waitingForLatch"), rawdoc! { "timestamp": DateTime::from_millis(at), "captureName": name });
}

fn append_command(document: &mut RawDocumentBuf, command: &RawDocument, truncate: bool) {
    if truncate && command.as_bytes().len() > TRUNCATE_OVER_BYTES {
        let mut short: String = text::document(command);
        let mut end = TRUNCATE_OVER_BYTES.min(short.len());
        while !short.is_char_boundary(end) {
            end -= 1;
        }
        short.truncate(end);
        let mut truncated = rawdoc! { "$truncated": short };
        if let Ok(Some(comment)) = command.get("comment") {
            truncated.append(cstr!("comment"), comment);
        }
        document.append(cstr!("command"), truncated);
    } else {
        document.append(cstr!("command"), command);
    }
}

/// The numbers that `serverStatus.globalLock` is made of.
pub fn global_lock(shared: &Shared) -> Document {
    use crate::counters::read;
    let (lock_readers, lock_writers) = shared.locks.waiting();
    let readers = (lock_readers + shared.read_tickets.queue_length()) as i32;
    let writers = (lock_writers + shared.write_tickets.queue_length()) as i32;
    let (active_readers, active_writers) =
        (read(&shared.counters.active_readers) as i32, read(&shared.counters.active_writers) as i32);
    doc! {
        "totalTime": shared.clock.uptime().as_micros() as i64,
        "currentQueue": { "total": readers + writers, "readers": readers, "writers": writers },
        "activeClients": { "total": active_readers + active_writers, "readers": active_readers, "writers": active_writers },
    }
}
