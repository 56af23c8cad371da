//! The cache of sessions, and their life (facts/server.md 2.9).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backfire_model::OpId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::SessionId;
use super::history::Remembered;
use super::phase::Phase;
use super::store::SessionStore;
use super::transaction::OpenTransaction;
use crate::error::{CommandError, Result};
use crate::params::{Param, Params};
use crate::storage::Engine;
use crate::storage::catalog::Catalog;
use crate::storage::record::RecordId;

/// A session in the cache.
#[derive(Debug)]
pub struct Session {
    /// Its identity.
    pub id: SessionId,
    pub(super) state: Mutex<State>,
    pub(super) available: Notify,
}

#[derive(Debug)]
pub(super) struct State {
    /// The session's identity.
    pub(super) id: SessionId,
    /// Who has it checked out.
    pub(super) holder: Option<OpId>,
    /// The newest number seen, in memory only until a write commits (facts/server.md 1.3).
    pub(super) active_number: Option<i64>,
    /// The statements of the newest number that have been committed.
    pub(super) statements: BTreeMap<i32, Remembered>,
    /// The number that `statements` belong to.
    pub(super) statements_number: Option<i64>,
    /// The history was dropped because too much of it was kept: a retry cannot be answered.
    pub(super) incomplete: bool,
    /// Whether the state was read from storage since it was last invalidated.
    pub(super) loaded: bool,
    /// Where its document in `config.transactions` is.
    pub(super) record: Option<RecordId>,
    pub(super) last_use: Instant,
    /// What the newest number is.
    pub(super) phase: Phase,
    /// The open transaction while no command of it runs.
    pub(super) open: Option<Box<OpenTransaction>>,
    /// When the open transaction began.
    pub(super) transaction_began: Option<Instant>,
    /// The transaction is to be aborted when the operation that has the session ends.
    pub(super) doomed: bool,
    /// `endSessions` was asked; it takes effect at the next refresh.
    ended: bool,
}

impl State {
    /// The rows of the history table that hold its statements, by the first statement of each.
    pub(super) fn rows(&self) -> impl Iterator<Item = i32> + '_ {
        self.statements.iter().filter(|(_, statement)| statement.begins_row).map(|(id, _)| *id)
    }
}

/// What happened to sessions since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    /// New sessions refused because the cache was full (261).
    pub refused: AtomicU64,
    /// Sessions whose retry history was dropped because of its limit.
    pub history_evicted: AtomicU64,
    /// Retries refused because their history had been dropped (217).
    pub history_missed: AtomicU64,
    /// Sessions that expired.
    pub expired: AtomicU64,
    /// Commands with at least one statement answered from history.
    pub retried_commands: AtomicU64,
    /// Statements answered from history.
    pub retried_statements: AtomicU64,
    /// Writes to `config.transactions`.
    pub record_writes: AtomicU64,
    /// Transactions that were begun.
    pub transactions_started: AtomicU64,
    /// Transactions that were committed.
    pub transactions_committed: AtomicU64,
    /// Transactions that were aborted, whoever did it.
    pub transactions_aborted: AtomicU64,
}

/// All sessions of a server.
#[derive(Debug)]
pub struct SessionCatalog {
    engine: Arc<dyn Engine>,
    /// Their stored side.
    pub store: SessionStore,
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// The sessions that have an open transaction.
    open: Mutex<BTreeMap<SessionId, Arc<Session>>>,
    /// How many statements the histories hold together.
    pub(super) history_size: AtomicU64,
    /// What happened so far.
    pub counters: Counters,
}

/// The session timeout in force.
pub fn timeout(params: &Params) -> Duration {
    match params.get(Param::LabSessionTimeoutMillis) {
        0 => Duration::from_secs(60 * params.get(Param::SessionTimeoutMinutes) as u64),
        millis => Duration::from_millis(millis as u64),
    }
}

impl SessionCatalog {
    /// The sessions that `engine` holds; they are read when they are used.
    pub fn new(engine: Arc<dyn Engine>, catalog: &Catalog) -> Self {
        Self {
            engine,
            store: SessionStore::new(catalog),
            sessions: Mutex::default(),
            open: Mutex::default(),
            history_size: AtomicU64::new(0),
            counters: Counters::default(),
        }
    }

    /// Notes that a command uses the session, making it known if it is new.
    ///
    /// # Errors
    /// 261 when the cache is full.
    pub fn vivify(&self, id: SessionId, params: &Params) -> Result<Arc<Session>> {
        let mut sessions = self.sessions.lock();
        if let Some(session) = sessions.get(&id) {
            let mut state = session.state.lock();
            if state.holder.is_none() && state.last_use.elapsed() >= timeout(params) {
                self.expire(&mut state);
            }
            state.last_use = Instant::now();
            state.ended = false;
            drop(state);
            return Ok(Arc::clone(session));
        }
        if sessions.len() as i64 >= params.get(Param::MaxSessions) {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            return Err(CommandError::new(
                261,
                format!(
                    "Unable to add session ID {id} into the cache because the number of active sessions is too high"
                ),
            ));
        }
        let session = Arc::new(Session {
            id,
            state: Mutex::new(State {
                id,
                holder: None,
                active_number: None,
                statements: BTreeMap::new(),
                statements_number: None,
                incomplete: false,
                loaded: false,
                record: None,
                last_use: Instant::now(),
                phase: Phase::Writes,
                open: None,
                transaction_began: None,
                doomed: false,
                ended: false,
            }),
            available: Notify::new(),
        });
        sessions.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// The session has not been used for its whole timeout: what it did is forgotten, so a retry executes again.
    fn expire(&self, state: &mut State) {
        self.counters.expired.fetch_add(1, Ordering::Relaxed);
        if let Some(record) = state.record.take() {
            self.store.remove(&*self.engine, record, state.rows().collect());
        }
        self.reset(state);
        state.loaded = true;
    }

    /// Forgets what is cached of a session's history. An open transaction is aborted.
    fn reset(&self, state: &mut State) {
        self.abort_idle(state);
        state.phase = Phase::Writes;
        state.doomed = state.holder.is_some();
        self.history_size.fetch_sub(state.statements.len() as u64, Ordering::Relaxed);
        state.statements.clear();
        state.statements_number = None;
        state.active_number = None;
        state.record = None;
        state.incomplete = false;
    }

    /// Takes note of `endSessions`.
    pub fn end(&self, ids: &[SessionId]) {
        let sessions = self.sessions.lock();
        for session in ids.iter().filter_map(|id| sessions.get(id)) {
            session.state.lock().ended = true;
        }
    }

    /// Forgets sessions that have expired or were ended, unless an operation has them. Returns which expired.
    pub fn refresh(&self, params: &Params, in_use: &HashSet<SessionId>) -> Vec<SessionId> {
        let timeout = timeout(params);
        let mut gone = Vec::new();
        self.sessions.lock().retain(|id, session| {
            let mut state = session.state.lock();
            if state.holder.is_some() || in_use.contains(id) {
                return true;
            }
            if state.last_use.elapsed() >= timeout {
                self.expire(&mut state);
                gone.push(*id);
                return false;
            }
            // An ended session leaves the cache; its retry history stays in storage for its own lifetime.
            if state.ended {
                self.abort_idle(&mut state);
                self.history_size.fetch_sub(state.statements.len() as u64, Ordering::Relaxed);
                return false;
            }
            true
        });
        gone
    }

    /// Somebody wrote to `config.transactions` by hand: what is cached may be wrong.
    pub fn invalidate_all(&self) {
        for session in self.sessions.lock().values() {
            let mut state = session.state.lock();
            self.reset(&mut state);
            state.loaded = false;
        }
        self.store.prune(&*self.engine);
    }

    /// Drops the histories of the sessions that were used longest ago, an eighth of all, when there are too many
    /// statements. A retry of theirs is then refused, never executed again.
    pub(super) fn limit_history(&self, params: &Params) {
        if self.history_size.load(Ordering::Relaxed) <= params.get(Param::LabRetryHistoryMax) as u64 {
            return;
        }
        let sessions: Vec<_> = self.sessions.lock().values().cloned().collect();
        let mut by_age: Vec<_> = sessions
            .into_iter()
            .filter_map(|session| {
                let state = session.state.lock();
                let evictable = state.holder.is_none() && state.open.is_none() && !state.statements.is_empty();
                evictable.then(|| (state.last_use, Arc::clone(&session)))
            })
            .collect();
        by_age.sort_by_key(|(last_use, _)| *last_use);
        for (_, session) in by_age.iter().take(by_age.len() / 8 + 1) {
            let mut state = session.state.lock();
            let (None, None, Some(record)) = (state.holder, &state.open, state.record) else { continue };
            let mut transaction = self.engine.begin();
            if self.store.forget(&mut *transaction, record, state.rows()).is_ok() {
                transaction.commit();
            }
            self.history_size.fetch_sub(state.statements.len() as u64, Ordering::Relaxed);
            self.counters.history_evicted.fetch_add(1, Ordering::Relaxed);
            state.statements.clear();
            state.incomplete = true;
        }
    }

    /// A transaction begins in this session.
    pub(super) fn opened(&self, session: &Arc<Session>) {
        self.counters.transactions_started.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(session.id, Arc::clone(session));
    }

    /// The transaction of this session is over. Says it once, however often it is called.
    pub(super) fn closed(&self, session: &SessionId, phase: Phase) {
        if self.open.lock().remove(session).is_none() {
            return;
        }
        let counter = match phase {
            Phase::Committed => &self.counters.transactions_committed,
            Phase::Writes | Phase::InProgress | Phase::Aborted => &self.counters.transactions_aborted,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Aborts the transaction that a session keeps between two commands, if it keeps one; says whether it did.
    pub(super) fn abort_idle(&self, state: &mut State) -> bool {
        let Some(open) = state.open.take() else { return false };
        state.phase = Phase::Aborted;
        self.closed(&state.id, Phase::Aborted);
        drop(open);
        true
    }

    /// Aborts the open transactions that `chosen` picks by session and age. One whose session an operation has is aborted
    /// when that operation ends. Returns the sessions, each with the operation that has it.
    pub fn abort_open(&self, chosen: impl Fn(&SessionId, Duration) -> bool) -> Vec<(SessionId, Option<OpId>)> {
        let open: Vec<_> = self.open.lock().values().cloned().collect();
        let mut aborted = Vec::new();
        for session in open {
            let mut state = session.state.lock();
            let age = state.transaction_began.map_or(Duration::ZERO, |began| began.elapsed());
            if !chosen(&session.id, age) {
                continue;
            }
            let holder = state.holder;
            state.doomed = holder.is_some();
            if holder.is_some() || self.abort_idle(&mut state) {
                aborted.push((session.id, holder));
            }
        }
        aborted
    }

    /// What `look` says of the transactions that no command runs in, by session.
    pub fn idle_transactions<T>(&self, look: impl Fn(&SessionId, &OpenTransaction) -> T) -> Vec<T> {
        let open: Vec<_> = self.open.lock().values().cloned().collect();
        open.iter()
            .filter_map(|session| session.state.lock().open.as_deref().map(|open| look(&session.id, open)))
            .collect()
    }

    /// How many transactions are open, and in how many of them a command runs.
    pub fn open_transactions(&self) -> (usize, usize) {
        let open: Vec<_> = self.open.lock().values().cloned().collect();
        (open.len(), open.iter().filter(|session| session.state.lock().holder.is_some()).count())
    }

    /// All sessions in the cache, and for how long each has not been used.
    pub fn all(&self) -> Vec<(SessionId, Duration)> {
        let sessions = self.sessions.lock();
        sessions.iter().map(|(id, session)| (*id, session.state.lock().last_use.elapsed())).collect()
    }

    /// How many sessions are in the cache.
    pub fn len(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many statements the retry history holds.
    pub fn history_len(&self) -> u64 {
        self.history_size.load(Ordering::Relaxed)
    }

    /// The ids of all sessions.
    pub fn ids(&self) -> Vec<SessionId> {
        let mut ids: Vec<_> = self.sessions.lock().keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}
