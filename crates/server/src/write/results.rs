//! The result of a write command and its reply (facts/server.md 11.1, 11.2).

use std::sync::Arc;

use backfire_model::event::ServerEvent;
use bson::raw::{CString, RawArrayBuf, RawDocumentBuf, cstr};
use bson::{Bson, Document, doc, rawdoc};

use crate::commands::{Reply, Run};
use crate::error::{Categories, CommandError};
use crate::ops::Op;
use crate::pipeline::Failed;
use crate::server::Shared;
use crate::stages::labels;
use crate::value::view::{document_with_room, to_raw};

/// Which write command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// `insert`.
    Insert,
    /// `update`: its reply has `nModified` and `upserted`.
    Update,
    /// `delete`.
    Delete,
}

/// What the statements did so far.
#[derive(Debug)]
pub struct WriteResults {
    kind: WriteKind,
    /// `n`.
    pub n: i64,
    /// `nModified`.
    pub modified: i64,
    upserted: Vec<(i32, Bson)>,
    errors: Vec<(i32, CommandError)>,
    retried: Vec<i32>,
    /// The operation, if it is part of a multi-document transaction.
    transaction: Option<Arc<Op>>,
}

/// What one statement did.
#[derive(Debug)]
pub struct Single {
    /// `n`.
    pub n: i64,
    /// `nModified`.
    pub modified: i64,
    /// `_id` of a document that was inserted by upsert.
    pub upserted: Option<Bson>,
    /// Why it failed.
    pub error: Option<CommandError>,
    /// It was answered from history.
    pub retried: bool,
}

/// A reply to a write that went well, with the fields that every reply has.
const REPLY_BYTES: usize = 256;

/// Texts of `writeErrors` become empty beyond this much text and this many errors.
const ERROR_TEXT_MAX_BYTES: usize = 1024 * 1024;
const ERROR_TEXT_MIN_ERRORS: usize = 2;

impl WriteResults {
    /// Nothing done yet.
    pub fn new(kind: WriteKind, op: &Arc<Op>) -> Self {
        let transaction = op.is_in_transaction().then(|| Arc::clone(op));
        Self { kind, n: 0, modified: 0, upserted: Vec::new(), errors: Vec::new(), retried: Vec::new(), transaction }
    }

    /// Statement `index` inserted a document by upsert.
    pub fn upserted(&mut self, index: usize, id: Bson) {
        self.n += 1;
        self.upserted.push((index as i32, id));
    }

    /// Statement `index` was answered from history.
    pub fn retried(&mut self, statement: i32) {
        self.retried.push(statement);
    }

    /// Statement `index` failed. Goes on (`Ok`) or ends the whole command (`Err`): an interruption is never a
    /// `writeErrors` entry, whatever was committed before it (facts/server.md 3.3), and an error that asks for another try of
    /// the whole transaction is none either. In a transaction any other error is, and aborts it.
    ///
    /// # Errors
    /// The same error, when it ends the command.
    pub fn failed(&mut self, index: usize, error: CommandError) -> Result<(), CommandError> {
        if error.categories().has(Categories::INTERRUPTION) {
            return Err(error);
        }
        if let Some(op) = &self.transaction {
            if labels::is_transient(error.code) {
                return Err(error);
            }
            drop(op.leave_transaction());
        }
        self.errors.push((index as i32, error));
        Ok(())
    }

    /// Ends the command: tells of the statements that were answered from history, also when an interruption ends it
    /// after them, and makes the reply.
    ///
    /// # Errors
    /// What `ended` holds.
    pub fn finish(self, run: &Run<'_>, ended: Result<(), Failed>) -> Result<Reply, Failed> {
        let statements = self.retried.len() as u32;
        if statements > 0 {
            run.op.observe(|op, write| ServerEvent::Replayed { op, write, statements });
        }
        ended?;
        Ok(self.reply(run.shared(), run.unacknowledged))
    }

    /// What a command of a single statement did.
    pub fn into_single(mut self) -> Single {
        Single {
            n: self.n,
            modified: self.modified,
            upserted: self.upserted.pop().map(|(_, id)| id),
            error: self.errors.pop().map(|(_, error)| error),
            retried: !self.retried.is_empty(),
        }
    }

    /// Whether the statements that are left are not tried: one has failed, and they are ordered or part of a transaction.
    pub fn stops(&self, ordered: bool) -> bool {
        !self.errors.is_empty() && (ordered || self.transaction.is_some())
    }

    /// The reply.
    pub fn reply(self, shared: &Shared, unacknowledged: bool) -> Reply {
        if unacknowledged {
            return Reply::empty();
        }
        let mut fields = document_with_room(REPLY_BYTES);
        append_number(&mut fields, cstr!("n"), self.n);
        if self.kind == WriteKind::Update {
            append_number(&mut fields, cstr!("nModified"), self.modified);
            if !self.upserted.is_empty() {
                let entries = self
                    .upserted
                    .iter()
                    .filter_map(|(index, id)| to_raw(&doc! { "index": *index, "_id": id.clone() }).ok());
                fields.append(cstr!("upserted"), entries.collect::<RawArrayBuf>());
            }
        }
        if !self.errors.is_empty() {
            let mut text = 0;
            let mut entries = RawArrayBuf::new();
            for (at, (index, error)) in self.errors.iter().enumerate() {
                text += error.message.len();
                let silent = text > ERROR_TEXT_MAX_BYTES && at >= ERROR_TEXT_MIN_ERRORS;
                entries.push(error_entry(*index, error, silent));
            }
            fields.append(cstr!("writeErrors"), entries);
        }
        if shared.topology.is_replica_set() {
            let (time, term) = (shared.topology.last_op_time(), shared.topology.term());
            fields.append(cstr!("opTime"), rawdoc! { "ts": time, "t": term });
            fields.append(cstr!("electionId"), shared.topology.election_id());
        }
        if shared.profile.retried_stmt_ids && !self.retried.is_empty() {
            fields.append(cstr!("retriedStmtIds"), self.retried.iter().copied().collect::<RawArrayBuf>());
        }
        Reply::new(fields)
    }
}

/// `{index, code, [extra], errmsg}`; there is no `codeName`.
fn error_entry(index: i32, error: &CommandError, silent: bool) -> RawDocumentBuf {
    let mut entry = RawDocumentBuf::new();
    entry.append(cstr!("index"), index);
    entry.append(cstr!("code"), error.code);
    if let Some(extra) = &error.extra {
        append_fields(&mut entry, extra);
    }
    entry.append(cstr!("errmsg"), if silent { "" } else { error.message.as_str() });
    entry
}

fn append_fields(entry: &mut RawDocumentBuf, fields: &Document) {
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (CString::try_from(name.as_str()), bson::RawBson::try_from(value.clone())) {
            entry.append(name, value);
        }
    }
}

/// Appends a count: an int where it fits.
pub fn append_number(fields: &mut RawDocumentBuf, name: &bson::raw::CStr, number: i64) {
    match i32::try_from(number) {
        Ok(number) => fields.append(name, number),
        Err(_) => fields.append(name, number),
    }
}
