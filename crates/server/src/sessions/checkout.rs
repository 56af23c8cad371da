//! Taking a session for a write that has a `txnNumber`, and looking into its history (facts/server.md 1.2, 1.3, 2).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::{DateTime, Timestamp, rawdoc};

use super::catalog::{Session, State};
use super::history::{Executed, StatementRecord};
use crate::error::{CommandError, Result};
use crate::ops::Op;
use crate::server::Shared;
use crate::storage::record::RecordId;
use crate::storage::{Transaction, WriteConflict};

/// A session that belongs to one operation until this is dropped.
#[derive(Debug)]
pub struct CheckedOut {
    shared: Arc<Shared>,
    session: Arc<Session>,
    number: i64,
    replayed: bool,
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        let mut state = self.session.state.lock();
        state.holder = None;
        state.last_use = tokio::time::Instant::now();
        drop(state);
        // All who wait are woken; there is no order among them (facts/server.md 1.2).
        self.session.available.notify_waiters();
    }
}

/// Statements whose storage transaction is about to be committed; see [`CheckedOut::stage`].
#[derive(Debug)]
#[must_use]
pub struct Staged {
    statements: Vec<(i32, StatementRecord)>,
    record: RecordId,
}

/// Waits for `session` and takes it for `op`, which runs `number` on it.
///
/// # Errors
/// Those of an interrupt during the wait; 225 when a newer number was seen.
pub async fn check_out(op: &Op, session: Arc<Session>, number: i64) -> Result<CheckedOut> {
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
    let checked_out = CheckedOut { shared: Arc::clone(&op.shared), session, number, replayed: false };
    checked_out.begin()?;
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

impl CheckedOut {
    /// Compares the number with the newest one seen, which moves up in memory even before a write
    /// (facts/server.md 1.3).
    fn begin(&self) -> Result<()> {
        let mut state = self.session.state.lock();
        if !state.loaded {
            self.load(&mut state);
        }
        match state.active_number {
            Some(newest) if newest > self.number => Err(CommandError::new(
                225,
                format!(
                    "Retryable write with txnNumber {} is prohibited on session {} because a newer retryable write with \
                     txnNumber {newest} has already started on this session.",
                    self.number, self.session.id
                ),
            )),
            _ => {
                if state.active_number != Some(self.number) {
                    state.active_number = Some(self.number);
                    state.incomplete = false;
                }
                Ok(())
            }
        }
    }

    /// Reads the state from `config.transactions` and the history table.
    fn load(&self, state: &mut State) {
        state.loaded = true;
        let (store, snapshot) = (&self.shared.sessions.store, self.shared.engine.snapshot());
        let Some((record, stored)) = store.find(&*snapshot, &self.session.id) else { return };
        let Ok(number) = stored.get_i64("txnNum") else { return };
        let statements = store.statements(&*snapshot, record, number);
        state.record = Some(record);
        // A session has a document only because a statement was committed: without one, the history was dropped.
        state.incomplete = statements.is_empty();
        state.active_number = Some(number);
        state.statements_number = Some(number);
        self.shared.sessions.history_size.fetch_add(statements.len() as u64, Ordering::Relaxed);
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
            self.shared.sessions.counters.history_missed.fetch_add(1, Ordering::Relaxed);
            return Err(CommandError::new(
                217,
                format!("Incomplete history detected for transaction {} on session {}", self.number, self.session.id),
            ));
        }
        let Some(record) = state.statements.get(&id) else { return Ok(Executed::No) };
        let counters = &self.shared.sessions.counters;
        counters.retried_statements.fetch_add(1, Ordering::Relaxed);
        if !self.replayed {
            self.replayed = true;
            counters.retried_commands.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Executed::Yes(record.clone()))
    }

    /// Adds the statements to the storage transaction that executes them: the history rows and the session's document
    /// in `config.transactions`. After the commit, [`CheckedOut::committed`] makes them known.
    ///
    /// # Errors
    /// When somebody else writes the session's document.
    pub fn stage(
        &self,
        transaction: &mut dyn Transaction,
        statements: Vec<(i32, StatementRecord)>,
        op_time: Timestamp,
        now: DateTime,
    ) -> Result<Staged, WriteConflict> {
        let state = self.session.state.lock();
        let store = &self.shared.sessions.store;
        let document = rawdoc! {
            "_id": self.session.id.raw_document(),
            "txnNum": self.number,
            "lastWriteOpTime": { "ts": op_time, "t": self.shared.topology.term() },
            "lastWriteDate": now,
        };
        let record = store.put(transaction, state.record, &document)?;
        if state.statements_number != Some(self.number) {
            // Those whose place is taken now need not be removed.
            let taken: BTreeSet<i32> = statements.iter().map(|(id, _)| *id).collect();
            let left = state.statements.keys().copied().filter(|id| !taken.contains(id));
            store.forget(transaction, record, left)?;
        }
        for (id, statement) in &statements {
            store.remember(transaction, record, self.number, *id, statement)?;
        }
        Ok(Staged { statements, record })
    }

    /// The transaction given to [`CheckedOut::stage`] has been committed.
    pub fn committed(&self, staged: Staged) {
        let catalog = &self.shared.sessions;
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
        catalog.limit_history(&self.shared.params);
    }
}
