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
use super::history::StatementRecord;
use super::store::SessionStore;
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
    /// Who has it checked out.
    pub(super) holder: Option<OpId>,
    /// The newest number seen, in memory only until a write commits (facts/server.md 1.3).
    pub(super) active_number: Option<i64>,
    /// The statements of the newest number that have been committed.
    pub(super) statements: BTreeMap<i32, StatementRecord>,
    /// The number that `statements` belong to.
    pub(super) statements_number: Option<i64>,
    /// The history was dropped because too much of it was kept: a retry cannot be answered.
    pub(super) incomplete: bool,
    /// Whether the state was read from storage since it was last invalidated.
    pub(super) loaded: bool,
    /// Where its document in `config.transactions` is.
    pub(super) record: Option<RecordId>,
    pub(super) last_use: Instant,
    /// `endSessions` was asked; it takes effect at the next refresh.
    ended: bool,
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
}

/// All sessions of a server.
#[derive(Debug)]
pub struct SessionCatalog {
    engine: Arc<dyn Engine>,
    /// Their stored side.
    pub store: SessionStore,
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
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
                holder: None,
                active_number: None,
                statements: BTreeMap::new(),
                statements_number: None,
                incomplete: false,
                loaded: false,
                record: None,
                last_use: Instant::now(),
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
            let statements = state.statements.keys().copied().collect();
            self.store.remove(&*self.engine, record, statements);
        }
        self.reset(state);
        state.loaded = true;
    }

    /// Forgets what is cached of a session's history.
    fn reset(&self, state: &mut State) {
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
                let evictable = state.holder.is_none() && !state.statements.is_empty();
                evictable.then(|| (state.last_use, Arc::clone(&session)))
            })
            .collect();
        by_age.sort_by_key(|(last_use, _)| *last_use);
        for (_, session) in by_age.iter().take(by_age.len() / 8 + 1) {
            let mut state = session.state.lock();
            let (None, Some(record)) = (state.holder, state.record) else { continue };
            let mut transaction = self.engine.begin();
            if self.store.forget(&mut *transaction, record, state.statements.keys().copied()).is_ok() {
                transaction.commit();
            }
            self.history_size.fetch_sub(state.statements.len() as u64, Ordering::Relaxed);
            self.counters.history_evicted.fetch_add(1, Ordering::Relaxed);
            state.statements.clear();
            state.incomplete = true;
        }
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
