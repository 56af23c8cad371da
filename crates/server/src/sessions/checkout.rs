//! Taking a session for a command that has a `txnNumber`, and looking into its history (facts/server.md 1.2, 1.3, 2).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::raw::{RawDocumentBuf, cstr};
use bson::{DateTime, Timestamp, rawdoc};

use super::catalog::{Session, State};
use super::history::{Executed, Remembered, StatementRecord};
use super::phase::{self, Claim, Phase, Step};
use super::transaction::{Ended, OpenTransaction};
use crate::error::{CommandError, Result};
use crate::ops::Op;
use crate::storage::record::RecordId;
use crate::storage::{WriteConflict, Writer};
use crate::value::view::document_with_room;

/// A session that belongs to one operation until this is dropped.
#[derive(Debug)]
pub struct CheckedOut {
    op: Arc<Op>,
    session: Arc<Session>,
    number: i64,
    claim: Claim,
    replayed: bool,
    /// The session has accepted the claim.
    belongs: bool,
    /// The command went well: its transaction stays open.
    keeps_transaction: bool,
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        let open = self.op.leave_transaction();
        let mut state = self.session.state.lock();
        if self.belongs && self.is_in_transaction() && state.phase == Phase::InProgress {
            match open {
                Some(mut open) if self.keeps_transaction && !state.doomed => {
                    open.pause();
                    state.open = Some(open);
                }
                // Whatever goes wrong with a command of a transaction undoes all of it.
                aborted => {
                    state.phase = Phase::Aborted;
                    drop(aborted);
                }
            }
        }
        let is_over = self.belongs && self.is_in_transaction() && state.phase != Phase::InProgress;
        state.doomed = false;
        state.holder = None;
        state.last_use = tokio::time::Instant::now();
        drop(state);
        if is_over {
            self.op.shared.sessions.closed(&self.session.id, Phase::Aborted);
            self.op.shared.cursors.kill_of_transaction(&self.session.id, self.number);
        }
        // All who wait are woken; there is no order among them (facts/server.md 1.2).
        self.session.available.notify_waiters();
    }
}

/// Statements whose storage transaction is about to be committed; see [`CheckedOut::stage`].
#[derive(Debug)]
#[must_use]
pub struct Staged {
    statements: Vec<(i32, Remembered)>,
    record: RecordId,
}

/// Waits for `session` and takes it for `op`, which claims to be `claim` under `number`. A transaction that begins, or goes
/// on, is with the operation afterwards.
///
/// # Errors
/// Those of an interrupt during the wait; what [`phase::decide`] says; 10107 when this node has stopped being primary.
pub async fn check_out(
    op: &Arc<Op>,
    session: Arc<Session>,
    number: i64,
    claim: Claim,
    read_concern: Option<String>,
) -> Result<CheckedOut> {
    use backfire_model::event::Wait;
    if !try_take(op, &session) {
        let note = op.note_wait(Wait::Session);
        op.view().latch = Some(("SessionCatalog::_mutex", tokio::time::Instant::now()));
        let taken = op
            .wait(async {
                loop {
                    let available = session.available.notified();
                    if try_take(op, &session) {
                        return;
                    }
                    available.await;
                }
            })
            .await;
        op.view().latch = None;
        taken?;
        note.over();
    } else if let Err(interrupt) = op.check_interrupt() {
        session.state.lock().holder = None;
        session.available.notify_waiters();
        return Err(interrupt);
    }
    let op = Arc::clone(op);
    let mut checked_out =
        CheckedOut { op, session, number, claim, replayed: false, belongs: false, keeps_transaction: false };
    checked_out.begin(read_concern)?;
    Ok(checked_out)
}

fn try_take(op: &Op, session: &Session) -> bool {
    let mut state = session.state.lock();
    if state.holder.is_some() {
        return false;
    }
    state.holder = Some(op.id);
    true
}

/// The state of a committed transaction in `config.transactions` (facts/server.md 2.1).
const COMMITTED: &str = "committed";

fn not_in_progress() -> CommandError {
    CommandError::new(251, "Transaction isn't in progress")
}

impl CheckedOut {
    /// Compares the number with the newest one seen, which moves up in memory even before a write
    /// (facts/server.md 1.3).
    fn begin(&mut self, read_concern: Option<String>) -> Result<()> {
        let op = &self.op;
        if !op.shared.topology.is_primary() {
            return Err(CommandError::new(10107, "Not primary so we cannot begin or continue a transaction"));
        }
        let mut state = self.session.state.lock();
        if !state.loaded {
            self.load(&mut state);
        }
        let here = (state.active_number, state.phase);
        // What is refused here does not touch the transaction that is open.
        let step = phase::decide(here, (self.number, self.claim), &self.session.id, op.shared.profile)?;
        self.belongs = true;
        if step == Step::Renew {
            let older = state.active_number;
            if op.shared.sessions.abort_idle(&mut state) {
                op.shared.cursors.kill_of_transaction(&self.session.id, older.unwrap_or_default());
            }
            state.active_number = Some(self.number);
            state.incomplete = false;
            state.phase = Phase::Writes;
        }
        if self.claim == Claim::Begins {
            state.phase = Phase::InProgress;
            state.transaction_began = Some(tokio::time::Instant::now());
            op.shared.sessions.opened(&self.session);
            state.open = Some(Box::new(OpenTransaction::begin(op, self.number, read_concern)));
        }
        if self.is_in_transaction() {
            let mut open = state.open.take();
            if let Some(open) = &mut open {
                open.resume(&op.connection);
            }
            op.join_transaction(open);
        }
        Ok(())
    }

    /// Whether the command is part of a multi-document transaction.
    pub fn is_in_transaction(&self) -> bool {
        self.claim != Claim::Write
    }

    /// The command went well: its transaction, if it is still open, waits for the next command.
    pub fn keep_transaction(&mut self) {
        self.keeps_transaction = true;
    }

    /// Takes the open transaction, to commit it: `None` when that was done before.
    ///
    /// # Errors
    /// 251 when it is not open any more.
    pub fn take_transaction(&self) -> Result<Option<Ended>> {
        let state = self.session.state.lock();
        match (state.phase, state.doomed) {
            (Phase::Committed, _) => Ok(None),
            (Phase::InProgress, true) => Err(phase::aborted(self.number, self.op.shared.profile)),
            (Phase::InProgress, false) => match self.op.leave_transaction() {
                Some(open) => Ok(Some(open.end())),
                None => Err(not_in_progress()),
            },
            (Phase::Writes | Phase::Aborted, _) => Err(not_in_progress()),
        }
    }

    /// Undoes the open transaction.
    ///
    /// # Errors
    /// 251 when it is not open any more.
    pub fn abort_transaction(&self) -> Result<()> {
        let mut state = self.session.state.lock();
        if state.phase != Phase::InProgress {
            return Err(not_in_progress());
        }
        state.phase = Phase::Aborted;
        drop(self.op.leave_transaction());
        Ok(())
    }

    /// The session's document in `config.transactions`, as far as a retryable write has one.
    fn document(&self, op_time: Timestamp, now: DateTime) -> RawDocumentBuf {
        let mut document = document_with_room(192);
        document.append(cstr!("_id"), self.session.id.raw_document());
        document.append(cstr!("txnNum"), self.number);
        document.append(cstr!("lastWriteOpTime"), rawdoc! { "ts": op_time, "t": self.op.shared.topology.term() });
        document.append(cstr!("lastWriteDate"), now);
        document
    }

    /// Writes the session's document into a transaction that is about to be committed.
    ///
    /// # Errors
    /// When somebody else writes it.
    pub fn stage_commit(
        &self,
        writer: &mut dyn Writer,
        op_time: Timestamp,
        now: DateTime,
    ) -> Result<RecordId, WriteConflict> {
        let state = self.session.state.lock();
        let store = &self.op.shared.sessions.store;
        let mut document = self.document(op_time, now);
        document.append(cstr!("state"), COMMITTED);
        let record = store.put(writer, state.record, &document)?;
        store.forget(writer, record, state.rows())?;
        Ok(record)
    }

    /// The transaction has been committed. `record`: where the session's document is, if it wrote anything.
    pub fn transaction_committed(&self, record: Option<RecordId>) {
        let catalog = &self.op.shared.sessions;
        let mut state = self.session.state.lock();
        state.phase = Phase::Committed;
        if record.is_some() {
            state.record = record;
            catalog.history_size.fetch_sub(state.statements.len() as u64, Ordering::Relaxed);
            state.statements.clear();
            state.statements_number = None;
            catalog.counters.record_writes.fetch_add(1, Ordering::Relaxed);
        }
        catalog.closed(&self.session.id, Phase::Committed);
    }

    /// Reads the state from `config.transactions` and the history table.
    fn load(&self, state: &mut State) {
        state.loaded = true;
        let (store, snapshot) = (&self.op.shared.sessions.store, self.op.shared.engine.snapshot());
        let Some((record, stored)) = store.find(&*snapshot, &self.session.id) else { return };
        let Ok(number) = stored.get_i64("txnNum") else { return };
        let statements = store.statements(&*snapshot, record, number);
        state.record = Some(record);
        if stored.get_str("state").is_ok_and(|state| state == COMMITTED) {
            state.phase = Phase::Committed;
            state.record = Some(record);
            state.active_number = Some(number);
            return;
        }
        // A session has a document only because a statement was committed: without one, the history was dropped.
        state.incomplete = statements.is_empty();
        state.active_number = Some(number);
        state.statements_number = Some(number);
        self.op.shared.sessions.history_size.fetch_add(statements.len() as u64, Ordering::Relaxed);
        state.statements = statements;
    }

    /// The number this operation runs.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// Whether statement `id` was executed before under this number.
    ///
    /// # Errors
    /// 217 when the history of this number was dropped.
    pub fn executed(&mut self, id: i32) -> Result<Executed> {
        let state = self.session.state.lock();
        if state.statements_number != Some(self.number) {
            return Ok(Executed::No);
        }
        if state.incomplete {
            self.op.shared.sessions.counters.history_missed.fetch_add(1, Ordering::Relaxed);
            return Err(CommandError::new(
                217,
                format!("Incomplete history detected for transaction {} on session {}", self.number, self.session.id),
            ));
        }
        let Some(statement) = state.statements.get(&id) else { return Ok(Executed::No) };
        let counters = &self.op.shared.sessions.counters;
        counters.retried_statements.fetch_add(1, Ordering::Relaxed);
        if !self.replayed {
            self.replayed = true;
            counters.retried_commands.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Executed::Yes(statement.what.clone()))
    }

    /// Adds the statements to the storage transaction that executes them: the history rows and the session's document
    /// in `config.transactions`. After the commit, [`CheckedOut::committed`] makes them known.
    ///
    /// # Errors
    /// When somebody else writes the session's document.
    pub fn stage(
        &self,
        transaction: &mut dyn Writer,
        statements: Vec<(i32, StatementRecord)>,
        op_time: Timestamp,
        now: DateTime,
    ) -> Result<Staged, WriteConflict> {
        let state = self.session.state.lock();
        let store = &self.op.shared.sessions.store;
        let document = self.document(op_time, now);
        let statements = Remembered::in_rows(statements);
        let record = store.put(transaction, state.record, &document)?;
        if state.statements_number != Some(self.number) {
            // Those whose place is taken now need not be removed.
            let rows = statements.iter().filter(|(_, statement)| statement.begins_row);
            let taken: BTreeSet<i32> = rows.map(|(first, _)| *first).collect();
            store.forget(transaction, record, state.rows().filter(|first| !taken.contains(first)))?;
        }
        store.remember(transaction, record, self.number, &statements)?;
        Ok(Staged { statements, record })
    }

    /// The transaction given to [`CheckedOut::stage`] has been committed.
    pub fn committed(&self, staged: Staged) {
        let catalog = &self.op.shared.sessions;
        let mut state = self.session.state.lock();
        state.record = Some(staged.record);
        if state.statements_number != Some(self.number) {
            catalog.history_size.fetch_sub(state.statements.len() as u64, Ordering::Relaxed);
            state.statements.clear();
            state.statements_number = Some(self.number);
        }
        let before = state.statements.len();
        state.statements.extend(staged.statements);
        catalog.history_size.fetch_add((state.statements.len() - before) as u64, Ordering::Relaxed);
        catalog.counters.record_writes.fetch_add(1, Ordering::Relaxed);
        drop(state);
        catalog.limit_history(&self.op.shared.params);
    }
}
