//! Stage *labels*: which `errorLabels` a reply carries (facts/server.md 3.5).

use bson::Document;

use crate::error::{Categories, CommandError, categories};
use crate::ops::Op;
use crate::pipeline::Facts;

/// The driver may send the command again.
const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";
/// The transaction can be tried again as a whole.
const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";
/// The error came before anything was written, so it says nothing about an earlier attempt.
const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";

/// The labels of a reply with `ok: 1`: only a `writeConcernError` can bring one. Codes in `writeErrors` are never
/// looked at.
pub fn of_success(op: &Op, facts: &Facts) -> Vec<String> {
    if let Some(labels) = &facts.label_override {
        return labels.clone();
    }
    computed(op, facts, write_concern_code(facts))
}

/// The labels of a reply with `ok: 0`.
pub fn of_error(op: &Op, facts: &Facts, error: &CommandError) -> Vec<String> {
    if let Some(labels) = &facts.label_override {
        return labels.clone();
    }
    let is_transient = if facts.ends_transaction {
        // Whether it was committed may be unknown where the write concern failed.
        is_transient(error.code) || (error.code == NO_SUCH_TRANSACTION && facts.write_concern_error.is_none())
    } else {
        is_transient(error.code)
            || error.code == NO_SUCH_TRANSACTION
            || categories(error.code).has(Categories::RETRIABLE)
    };
    if facts.session.is_in_transaction() && is_transient {
        return vec![TRANSIENT_TRANSACTION_ERROR.to_owned()];
    }
    let retriable = |code: &i32| categories(*code).has(Categories::RETRIABLE);
    computed(op, facts, Some(error.code).filter(retriable).or(write_concern_code(facts)))
}

/// `NoSuchTransaction`.
const NO_SUCH_TRANSACTION: i32 = 251;

/// Whether an error that any command of a transaction may meet leaves nothing behind, so that the whole transaction can be
/// tried again.
///
/// Source: `isTransientTransactionError` in `error_labels.cpp` of server 4.4.
pub fn is_transient(code: i32) -> bool {
    // LockTimeout, WriteConflict, SnapshotTooOld, SnapshotUnavailable, PreparedTransactionInProgress.
    matches!(code, 24 | 112 | 239 | 246 | 267)
}

fn computed(op: &Op, facts: &Facts, code: Option<i32>) -> Vec<String> {
    // The session options must have been read: an error before that has no label.
    let is_retryable_write =
        facts.session.txn_number.is_some() && (facts.session.autocommit.is_none() || facts.ends_transaction);
    let labels = op.shared.profile.labels_retryable_writes;
    if !labels || !is_retryable_write || !code.is_some_and(|code| categories(code).has(Categories::RETRIABLE)) {
        return Vec::new();
    }
    let mut labels = vec![RETRYABLE_WRITE_ERROR.to_owned()];
    let single = !facts.session.is_in_transaction();
    if single && op.shared.profile.no_writes_performed && facts.op_time_before.is_some() && !op.has_written() {
        labels.push(NO_WRITES_PERFORMED.to_owned());
    }
    labels
}

fn write_concern_code(facts: &Facts) -> Option<i32> {
    facts.write_concern_error.as_ref().and_then(code_of)
}

/// The `code` of an error document, whatever number type it has.
pub fn code_of(error: &Document) -> Option<i32> {
    match error.get("code")? {
        bson::Bson::Int32(code) => Some(*code),
        bson::Bson::Int64(code) => i32::try_from(*code).ok(),
        bson::Bson::Double(code) => Some(*code as i32),
        _ => None,
    }
}
