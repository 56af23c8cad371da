//! Stage *engine*: stalls, write conflicts, and the one commit of data and retry history (facts/server.md 2, 7.2).

use std::sync::Arc;
use std::time::Duration;

use backfire_model::Namespace;
use backfire_model::event::{ServerEvent, Wait};
use bson::{Bson, Document};
use rand::RngExt;

use crate::counters::bump;
use crate::error::{CommandError, Result, fail};
use crate::failpoints::Entered;
use crate::failpoints::table::{
    FORGET_RETRY_HISTORY, ON_PRIMARY_TRANSACTIONAL_WRITE, SLOW_ENGINE, STALL_IN_ENGINE, STALL_INTERRUPTIBLE,
};
use crate::ops::Op;
use crate::sessions::transaction::Ended;
use crate::sessions::{CheckedOut, StatementRecord};
use crate::storage::collection::{Collection, WriteError};
use crate::storage::{Key, TableId, Transaction, Value, WriteConflict, Writer};
use crate::value::number::Number;
use crate::value::{View, text};

/// The longest time that `slowEngine` lets a write take.
const SLOW_MAX_MS: f64 = 3_600_000.0;

/// How long the `attempt`-th conflict in a row is slept off: not at all at first, then longer and longer.
pub fn conflict_back_off(attempt: u32) -> Option<Duration> {
    match attempt {
        0..4 => None,
        4..10 => Some(Duration::from_millis(1)),
        10..100 => Some(Duration::from_millis(5)),
        100..200 => Some(Duration::from_millis(10)),
        _ => Some(Duration::from_millis(100)),
    }
}

/// The error of a write that met a conflict and cannot wait for its end (facts/server.md 7.2).
pub fn write_conflict() -> CommandError {
    let text = "WriteConflict error: this operation conflicted with another operation. Please retry your operation or \
                multi-document transaction.";
    CommandError::new(112, text)
}

/// What one statement writes into.
#[derive(Debug)]
pub enum Unit {
    /// A storage transaction of its own.
    Own(Box<dyn Transaction>),
    /// The multi-document transaction that the operation is part of. Nothing is undone for one statement alone: when one
    /// fails, the whole transaction is aborted.
    Part(Arc<Op>),
}

/// Begins to write.
pub fn begin(op: &Arc<Op>) -> Unit {
    if op.is_in_transaction() { Unit::Part(Arc::clone(op)) } else { Unit::Own(op.shared.engine.begin()) }
}

impl Writer for Unit {
    fn get(&self, table: TableId, key: &[u8]) -> Option<Value> {
        match self {
            Unit::Own(transaction) => transaction.get(table, key),
            Unit::Part(op) => op.with_transaction(|open| open.get(table, key)).flatten(),
        }
    }

    fn first_with_prefix(&self, table: TableId, prefix: &[u8]) -> Option<(Key, Value)> {
        match self {
            Unit::Own(transaction) => transaction.first_with_prefix(table, prefix),
            Unit::Part(op) => op.with_transaction(|open| open.first_with_prefix(table, prefix)).flatten(),
        }
    }

    fn write(&mut self, table: TableId, key: Key, value: Option<Value>) -> std::result::Result<(), WriteConflict> {
        match self {
            Unit::Own(transaction) => transaction.write(table, key, value),
            Unit::Part(op) => op.with_transaction(|open| open.write(table, key, value)).unwrap_or(Err(WriteConflict)),
        }
    }
}

/// Checks that the operation may write to a collection.
///
/// # Errors
/// 20 for a retryable write where nothing is replicated; 263 for a capped collection in a transaction.
pub fn check_collection(op: &Op, session: Option<&CheckedOut>, collection: &Collection) -> Result<()> {
    let ns = &collection.ns;
    if session.is_some() && !collection.is_replicated() {
        return fail(20, format!("retryable writes is not supported for unreplicated ns: {ns}"));
    }
    if op.is_in_transaction() && collection.capped.is_some() {
        let text = "is a capped collection. Writes in transactions are not allowed on capped collections.";
        return fail(263, format!("Collection '{ns}' {text}"));
    }
    Ok(())
}

/// A write that meets conflicts until it goes through.
#[derive(Debug, Default)]
pub struct ConflictLoop {
    attempts: u32,
    noted: bool,
}

impl ConflictLoop {
    /// The write met a conflict: counts it and sleeps. The sleep does not look for interrupts; whether the caller does
    /// depends on the locks it takes anew.
    ///
    /// # Errors
    /// 112 in a multi-document transaction, which cannot go on: what it sees will not change.
    pub async fn met(&mut self, op: &Op) -> Result<()> {
        bump(&op.shared.counters.write_conflicts);
        op.view().write_conflicts += 1;
        if op.is_in_transaction() {
            return Err(write_conflict());
        }
        if !self.noted {
            self.noted = true;
            // The wait is over when the write goes through; see `passed`.
            let _ = op.note_wait(Wait::WriteConflict);
        }
        match conflict_back_off(self.attempts) {
            Some(time) => op.wait_uninterruptibly(tokio::time::sleep(time)).await,
            None => tokio::task::yield_now().await,
        }
        self.attempts = self.attempts.saturating_add(1);
        Ok(())
    }

    /// The write went through, or failed for another reason.
    pub fn passed(&mut self, op: &Op) {
        if std::mem::take(&mut self.noted) {
            op.observe(|id, write| ServerEvent::Resumed { op: id, write, wait: Wait::WriteConflict });
        }
        self.attempts = 0;
    }
}

/// Whether a stall's data, `{namespace, appName}`, is about this operation.
fn concerns(data: &Document, op: &Op, ns: &Namespace) -> bool {
    let namespace = data.get_str("namespace").map_or(true, |wanted| wanted == ns.to_string());
    namespace && data.get_str("appName").map_or(true, |wanted| Some(wanted) == op.connection.app_name().as_deref())
}

async fn over(entered: &Entered) {
    let time = match entered.data.get("blockTimeMS") {
        Some(Bson::Int32(millis)) => Some(i64::from(*millis)),
        Some(Bson::Int64(millis)) => Some(*millis),
        Some(Bson::Double(millis)) => Some(*millis as i64),
        _ => None,
    };
    match time.and_then(|millis| u64::try_from(millis).ok()) {
        Some(millis) => {
            let _ = tokio::time::timeout(Duration::from_millis(millis), entered.until_changed()).await;
        }
        None => entered.until_changed().await,
    }
}

/// `stallInterruptible`: with ticket and locks, before the engine work.
///
/// # Errors
/// Those of an interrupt.
pub async fn stall_interruptibly(op: &Op, ns: &Namespace) -> Result<()> {
    if let Some(entered) = op.shared.passes_if(STALL_INTERRUPTIBLE, |data| concerns(data, op, ns)) {
        let note = op.note_wait(Wait::InterruptibleStall);
        op.view().msg = Some(STALL_INTERRUPTIBLE);
        let waited = op.wait(over(&entered)).await;
        op.view().msg = None;
        waited?;
        note.over();
    }
    Ok(())
}

/// `stallInEngine`: the transaction has written and not committed, and nothing is looked at until the stall is over.
/// What is stalled here commits afterwards: a write that has its locks is not asked again (facts/server.md 7.2).
async fn stall(op: &Op, ns: &Namespace) {
    if let Some(entered) = op.shared.passes_if(STALL_IN_ENGINE, |data| concerns(data, op, ns)) {
        let note = op.note_wait(Wait::EngineStall);
        op.view().msg = Some(STALL_IN_ENGINE);
        op.wait_uninterruptibly(over(&entered)).await;
        op.view().msg = None;
        note.over();
    }
}

/// Whether a collection is `config.transactions`, whose documents the server itself writes and reads.
fn is_retry_history(ns: &Namespace) -> bool {
    ns.db == "config" && ns.coll == "transactions"
}

/// `slowEngine`: the work of a write takes time.
async fn take_time(op: &Op, ns: &Namespace) {
    let Some(entered) = op.shared.passes_if(SLOW_ENGINE, |data| concerns(data, op, ns)) else {
        return;
    };
    let mean_ms = entered.data.get("meanMS").and_then(|mean| View::from(mean).number()).map_or(0.0, Number::to_f64);
    let takes_ms = match entered.data.get_str("distribution") {
        // The inverse of the distribution function, at a random place.
        Ok("exponential") => -mean_ms * (1.0 - op.shared.rng().lock().random::<f64>()).ln(),
        _ => mean_ms,
    };
    if takes_ms > 0.0 {
        op.wait_uninterruptibly(tokio::time::sleep(Duration::from_secs_f64(takes_ms.min(SLOW_MAX_MS) / 1000.0))).await;
    }
}

/// What a transaction has done, for the history and for events.
#[derive(Debug)]
pub struct Done {
    /// The statements that must not be executed again, if the write is retryable.
    pub statements: Vec<(i32, StatementRecord)>,
    /// How many documents were written.
    pub documents: u32,
    /// `_id` of the first.
    pub first_id: Bson,
}

/// Commits a unit that has written `done` to `ns`, with the retry history in the same commit. What is part of a multi-document
/// transaction stays with that.
///
/// # Errors
/// A conflict, what a fail point wants instead of the commit, or 40528 for a write to `config.transactions` by hand
/// under a session (facts/server.md 2.1); the transaction is undone then.
pub async fn commit(
    op: &Arc<Op>,
    ns: &Namespace,
    unit: Unit,
    session: Option<&CheckedOut>,
    done: Done,
) -> std::result::Result<(), WriteError> {
    let Unit::Own(mut transaction) = unit else {
        op.with_transaction(|open| open.wrote(done.documents, done.first_id));
        take_time(op, ns).await;
        stall(op, ns).await;
        return Ok(());
    };
    let by_hand = is_retry_history(ns);
    if by_hand && op.view().lsid.is_some() {
        return Err(CommandError::new(
            40528,
            format!("Direct writes against {ns} cannot be performed using a transaction or on a session."),
        )
        .into());
    }
    let op_time = op.shared.topology.next_op_time(&op.shared.clock);
    let remembers = |_: &&CheckedOut| !done.statements.is_empty() && op.shared.passes(FORGET_RETRY_HISTORY).is_none();
    let staged = match session.filter(remembers) {
        Some(session) => {
            Some((session, session.stage(&mut *transaction, done.statements, op_time, op.shared.clock.now())?))
        }
        None => None,
    };
    take_time(op, ns).await;
    stall(op, ns).await;
    if staged.is_some() {
        before_retryable_commit(op, ns)?;
    }
    op.note_commit(transaction.commit());
    op.shared.arrivals.announce();
    if let Some((session, staged)) = staged {
        session.committed(staged);
    }
    if by_hand {
        op.shared.sessions.invalidate_all();
    }
    op.observe(|id, write| ServerEvent::Committed {
        op: id,
        write,
        documents: done.documents,
        first_id: text::value((&done.first_id).into()),
    });
    Ok(())
}

/// Commits the multi-document transaction of a session: collections it created, its writes, and the session's document in
/// `config.transactions`. One that was committed before is committed.
///
/// # Errors
/// 251 when it is not open; 112 when somebody else has created one of its collections. It is undone then.
pub async fn commit_transaction(op: &Arc<Op>, session: &CheckedOut) -> Result<()> {
    let ns = Namespace::new("admin", "$cmd");
    let Some(ended) = session.take_transaction()? else { return Ok(()) };
    let Ended { mut storage, created, documents, first_id, locks } = ended;
    let has_written = documents > 0 || !created.is_empty();
    let mut record = None;
    if has_written {
        let op_time = op.shared.topology.next_op_time(&op.shared.clock);
        let staged = session.stage_commit(&mut *storage, op_time, op.shared.clock.now());
        record = Some(staged.map_err(|WriteConflict| write_conflict())?);
    }
    take_time(op, &ns).await;
    stall(op, &ns).await;
    let taken = created.iter().any(|collection| op.shared.catalog.get(&collection.ns).is_some());
    if taken || !created.iter().all(|collection| op.shared.catalog.adopt(collection).is_ok()) {
        return Err(write_conflict());
    }
    op.note_commit(storage.commit());
    session.transaction_committed(record);
    drop(locks);
    if has_written {
        op.shared.arrivals.announce();
        let first_id = text::value((&first_id).into());
        op.observe(|id, write| ServerEvent::Committed { op: id, write, documents, first_id });
    }
    Ok(())
}

/// `onPrimaryTransactionalWrite` (facts/server.md 2.10): the write commits and the client never hears of it; or, with
/// `failBeforeCommitExceptionCode`, it does not commit.
fn before_retryable_commit(op: &Op, ns: &Namespace) -> Result<()> {
    let Some(entered) = op.shared.passes(ON_PRIMARY_TRANSACTIONAL_WRITE) else { return Ok(()) };
    if entered.data.get("closeConnection").is_none_or(|value| crate::value::View::from(value).is_true()) {
        op.drop_reply();
    }
    let code = match entered.data.get("failBeforeCommitExceptionCode") {
        Some(Bson::Int32(code)) => *code,
        Some(Bson::Int64(code)) => *code as i32,
        Some(Bson::Double(code)) => *code as i32,
        _ => return Ok(()),
    };
    let write = op.write_identity();
    Err(CommandError::new(
        code,
        format!("Failing write for {write} due to failpoint. The write to {ns} must not be reflected."),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_is_that_of_the_facts() {
        let millis = |attempt| conflict_back_off(attempt).map(|time| time.as_millis());
        for (attempt, expected) in [
            (0, None),
            (3, None),
            (4, Some(1)),
            (9, Some(1)),
            (10, Some(5)),
            (99, Some(5)),
            (100, Some(10)),
            (199, Some(10)),
            (200, Some(100)),
            (9999, Some(100)),
        ] {
            assert_eq!(millis(attempt), expected, "attempt {attempt}");
        }
    }
}
