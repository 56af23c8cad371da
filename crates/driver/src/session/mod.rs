//! Sessions: implicit ones, one per operation, and explicit ones that the application holds.

mod server_session;
mod transaction;
mod with_transaction;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, Document, Timestamp, doc};
use parking_lot::Mutex;
use tokio::time::Instant;

use backfire_model::{Lsid, TxnNumber};

use crate::client::ClientInner;
use crate::error::{DriverError, ErrorKind, RETRYABLE_WRITE_ERROR, Result, UNKNOWN_TRANSACTION_COMMIT_RESULT, codes};
use crate::execute::{Call, Plan, Scope};
use crate::random::lsid_document;
use crate::retry::Operation;
use crate::settings::ClientSettings;
use crate::timeout::{MaxTime, OperationClock};
use crate::topology::Criteria;
pub(crate) use server_session::{ServerSession, ServerSessionPool};
pub(crate) use transaction::of_retried_commit;
use transaction::{End, EndPlan, Transaction};
pub use transaction::{TransactionOptions, TransactionState};
pub use with_transaction::WithTransaction;

/// What an explicit session is started with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// `causalConsistency`: reads see what the session did before. Default: true, unless `snapshot`.
    pub causal_consistency: Option<bool>,
    /// `snapshot`: all reads see one point in time (server 5.0).
    pub snapshot: bool,
    /// `snapshotTime`: that point in time; otherwise the first read sets it.
    pub snapshot_time: Option<Timestamp>,
    /// `defaultTimeoutMS`: `timeoutMS` for what the session itself does.
    pub default_timeout: Option<Duration>,
    /// `defaultTransactionOptions`: for transactions that say nothing else.
    pub default_transaction: TransactionOptions,
}

/// A session. Cheap to clone; all clones are the same session.
///
/// Within one session, a later write waits on the server for an earlier one that still runs, because the server takes
/// one numbered command per session at a time.
#[derive(Clone)]
pub struct ClientSession(Arc<Inner>);

struct Inner {
    client: Arc<ClientInner>,
    options: SessionOptions,
    implicit: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Taken from the pool with the first command (or when somebody asks for the id).
    server_session: Option<ServerSession>,
    cluster_time: Option<Document>,
    operation_time: Option<Timestamp>,
    snapshot_time: Option<Timestamp>,
    transaction: Transaction,
    ended: bool,
}

impl ClientSession {
    pub(crate) fn explicit(client: &Arc<ClientInner>, options: SessionOptions) -> Result<Self> {
        if options.snapshot && options.causal_consistency == Some(true) {
            return Err(DriverError::invalid_argument("a session is either causally consistent or a snapshot"));
        }
        if options.snapshot_time.is_some() && !options.snapshot {
            return Err(DriverError::invalid_argument("snapshotTime goes with snapshot sessions only"));
        }
        let state = State { snapshot_time: options.snapshot_time, ..State::default() };
        Ok(Self(Arc::new(Inner { client: client.clone(), options, implicit: false, state: Mutex::new(state) })))
    }

    /// A session for one operation; it goes back to the pool when the last clone is dropped.
    pub(crate) fn implicit(client: &Arc<ClientInner>) -> Self {
        let options = SessionOptions { causal_consistency: Some(false), ..SessionOptions::default() };
        Self(Arc::new(Inner { client: client.clone(), options, implicit: true, state: Mutex::default() }))
    }

    /// What the session was started with.
    pub fn options(&self) -> &SessionOptions {
        &self.0.options
    }

    /// The session's id. Takes one from the pool if no command has done so yet.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn lsid(&self) -> Result<Lsid> {
        self.with_server_session(|session| session.lsid)
    }

    /// The id as it is sent: `{id: UUID}`.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn lsid_document(&self) -> Result<Document> {
        self.lsid().map(lsid_document)
    }

    /// Whether a network error made the session's id unfit for others.
    pub fn is_dirty(&self) -> bool {
        self.0.state.lock().server_session.as_ref().is_some_and(|session| session.dirty)
    }

    /// The newest cluster time that the session has seen.
    pub fn cluster_time(&self) -> Option<Document> {
        self.0.state.lock().cluster_time.clone()
    }

    /// The operation time of the session's last command.
    pub fn operation_time(&self) -> Option<Timestamp> {
        self.0.state.lock().operation_time
    }

    /// The point in time that a snapshot session reads at, once it is known.
    pub fn snapshot_time(&self) -> Option<Timestamp> {
        self.0.state.lock().snapshot_time
    }

    /// Tells the session of a cluster time from elsewhere.
    pub fn advance_cluster_time(&self, cluster_time: &Document) {
        advance(&mut self.0.state.lock().cluster_time, cluster_time);
    }

    /// Tells the session of an operation time from elsewhere.
    pub fn advance_operation_time(&self, operation_time: Timestamp) {
        let mut state = self.0.state.lock();
        state.operation_time = state.operation_time.max(Some(operation_time));
    }

    /// Starts a transaction: the next command in this session begins it. Nothing is sent.
    ///
    /// # Errors
    /// When there is one already; in a snapshot session; when the options do not suit a transaction.
    pub fn start_transaction(&self, options: TransactionOptions) -> Result<()> {
        if self.0.options.snapshot {
            return Err(DriverError::invalid_argument("Transactions are not supported in snapshot sessions"));
        }
        let defaults = &self.0.options.default_transaction;
        self.0.state.lock().transaction.start(options, defaults, &self.0.client.settings)?;
        let number = self.next_txn_number()?;
        self.0.state.lock().transaction.set_number(number);
        Ok(())
    }

    /// Commits the transaction. May be called again when the result is unknown: the server answers the same. Retried once
    /// where a retry may help, then with a majority as write concern.
    ///
    /// # Errors
    /// When there is no transaction to commit; what the server says. With the label `UnknownTransactionCommitResult` it may
    /// be committed.
    pub async fn commit_transaction(&self) -> Result<()> {
        self.commit_within(None).await
    }

    /// The same with a `timeoutMS` of its own.
    ///
    /// # Errors
    /// As [`ClientSession::commit_transaction`].
    pub async fn commit_within(&self, timeout: Option<Duration>) -> Result<()> {
        let result = self.end_transaction(End::Commit, timeout).await;
        result.map_err(|mut error| {
            if is_unknown_commit(&error) {
                error.add_label(UNKNOWN_TRANSACTION_COMMIT_RESULT);
            }
            error
        })
    }

    /// Aborts the transaction. What the server says to that is not asked: it aborts by itself in the end.
    ///
    /// # Errors
    /// When there is no transaction to abort.
    pub async fn abort_transaction(&self) -> Result<()> {
        self.abort_within(None).await
    }

    /// The same with a `timeoutMS` of its own.
    ///
    /// # Errors
    /// As [`ClientSession::abort_transaction`].
    pub async fn abort_within(&self, timeout: Option<Duration>) -> Result<()> {
        let plan = self.0.state.lock().transaction.end(End::Abort)?;
        if let Some(plan) = plan {
            let _ = self.send_end(End::Abort, plan, timeout).await;
        }
        Ok(())
    }

    /// The state of the session's transaction.
    pub fn transaction_state(&self) -> TransactionState {
        self.0.state.lock().transaction.state()
    }

    async fn end_transaction(&self, end: End, timeout: Option<Duration>) -> Result<()> {
        let plan = self.0.state.lock().transaction.end(end)?;
        match plan {
            Some(plan) => self.send_end(end, plan, timeout).await,
            None => Ok(()),
        }
    }

    async fn send_end(&self, end: End, plan: EndPlan, timeout: Option<Duration>) -> Result<()> {
        let mut scope = Scope::of_client(self.0.client.clone());
        let limit = self.transaction_limit();
        let of_session = timeout.or(limit.map(|(timeout, _)| timeout)).or(self.0.options.default_timeout);
        scope.timeout = of_session.or(scope.timeout);
        scope.write_concern = plan.write_concern;
        let max_time = MaxTime::Operation(plan.max_commit_time);
        let clock = match limit {
            // An abort gets its time anew: it is what is done when the time has run out.
            Some((timeout, deadline)) if end == End::Commit => OperationClock::within(timeout, deadline, max_time),
            _ => OperationClock::start(scope.timeout, max_time),
        };
        let mut call = Call::of_transaction(&scope, self, clock)?;
        let name = end.command();
        let build = move |_| Ok(doc! {name: 1});
        let command = Plan::new(Operation::EndTransaction, "admin", Criteria::Writable, build);
        let command = command.with_write_concern(scope.effective_write_concern());
        let command = if end == End::Commit { command.for_commit(plan.again) } else { command };
        command.run(&mut call).await.map(drop)
    }

    /// Ends the session: an open transaction is forgotten, and the server aborts it in its time; the id goes back to the pool,
    /// unless it is dirty. Later operations in it are errors.
    pub fn end(&self) {
        let mut state = self.0.state.lock();
        state.ended = true;
        if let Some(session) = state.server_session.take() {
            self.0.client.release_session(session);
        }
    }

    pub(crate) fn is_implicit(&self) -> bool {
        self.0.implicit
    }

    pub(crate) fn is_snapshot(&self) -> bool {
        self.0.options.snapshot
    }

    /// An operation in this session begins.
    pub(crate) fn begin_operation(&self) {
        self.0.state.lock().transaction.forget_ended();
    }

    /// Whether commands of this session are part of a transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction_state().is_open()
    }

    /// Within `with_transaction` and with `timeoutMS`: that, and when it runs out.
    pub(crate) fn transaction_limit(&self) -> Option<(Duration, Option<Instant>)> {
        self.0.state.lock().transaction.limit
    }

    pub(crate) fn set_transaction_limit(&self, limit: Option<(Duration, Option<Instant>)>) {
        self.0.state.lock().transaction.limit = limit;
    }

    /// The number of the transaction that is open.
    pub(crate) fn transaction_number(&self) -> Option<TxnNumber> {
        let state = self.0.state.lock();
        state.transaction.number().filter(|_| state.transaction.state().is_open())
    }

    /// The identity that the end of the transaction is sent with.
    pub(crate) fn transaction_identity(&self) -> Result<(Lsid, TxnNumber)> {
        let number = self.0.state.lock().transaction.number();
        let number = number.ok_or_else(|| DriverError::client("No transaction started"))?;
        Ok((self.use_lsid()?, number))
    }

    /// Changes a command as the transaction needs it.
    pub(crate) fn dress(&self, body: &mut Document) {
        let is_end = body.keys().next().is_some_and(|name| name == "commitTransaction" || name == "abortTransaction");
        if is_end {
            if body.contains_key("txnNumber") {
                body.insert("autocommit", false);
            }
            return;
        }
        let state = self.0.state.lock();
        if !state.transaction.state().is_open() {
            return;
        }
        let causal = self.0.options.causal_consistency.unwrap_or(true);
        let time = state.operation_time.filter(|_| causal);
        state.transaction.dress(body, |read_concern| {
            if let Some(time) = time {
                read_concern.insert("afterClusterTime", time);
            }
        });
    }

    /// A command of this session is being sent.
    pub(crate) fn command_sent(&self) {
        self.0.state.lock().transaction.sent();
    }

    /// A number in [0, 1), for back-offs.
    pub(crate) fn jitter(&self) -> f64 {
        self.0.client.random.jitter()
    }

    pub(crate) fn settings(&self) -> &ClientSettings {
        &self.0.client.settings
    }

    pub(crate) fn belongs_to(&self, client: &Arc<ClientInner>) -> bool {
        Arc::ptr_eq(&self.0.client, client)
    }

    fn with_server_session<T>(&self, f: impl FnOnce(&mut ServerSession) -> T) -> Result<T> {
        let mut state = self.0.state.lock();
        if state.ended {
            return Err(DriverError::closed("the session has ended"));
        }
        Ok(f(state.server_session.get_or_insert_with(|| self.0.client.acquire_session())))
    }

    /// The id for a command that is sent now.
    pub(crate) fn use_lsid(&self) -> Result<Lsid> {
        self.with_server_session(|session| {
            session.touch();
            session.lsid
        })
    }

    /// The next transaction number.
    pub(crate) fn next_txn_number(&self) -> Result<TxnNumber> {
        self.with_server_session(ServerSession::advance)
    }

    pub(crate) fn mark_dirty(&self) {
        if let Some(session) = &mut self.0.state.lock().server_session {
            session.dirty = true;
        }
    }

    /// Learns from a reply: times, and the snapshot that the first read got.
    pub(crate) fn learn(&self, reply: &Document) {
        let mut state = self.0.state.lock();
        // The client learns it as well: only an application can see that its session did.
        if !self.0.implicit
            && let Ok(cluster_time) = reply.get_document("$clusterTime")
        {
            advance(&mut state.cluster_time, cluster_time);
        }
        if let Ok(operation_time) = reply.get_timestamp("operationTime") {
            state.operation_time = state.operation_time.max(Some(operation_time));
        }
        if self.0.options.snapshot && state.snapshot_time.is_none() {
            let in_cursor =
                reply.get_document("cursor").ok().and_then(|cursor| cursor.get_timestamp("atClusterTime").ok());
            state.snapshot_time = in_cursor.or_else(|| reply.get_timestamp("atClusterTime").ok());
        }
    }

    /// The fields that the session adds to a read concern.
    pub(crate) fn add_read_concern(&self, read_concern: &mut Document) {
        let state = self.0.state.lock();
        if self.0.options.snapshot {
            read_concern.insert("level", "snapshot");
            if let Some(time) = state.snapshot_time {
                read_concern.insert("atClusterTime", time);
            }
        } else if self.0.options.causal_consistency.unwrap_or(true)
            && let Some(time) = state.operation_time
        {
            read_concern.insert("afterClusterTime", time);
        }
    }
}

/// Whether, after this error, nobody knows whether the transaction was committed.
fn is_unknown_commit(error: &DriverError) -> bool {
    let code = error.code();
    error.is_network()
        || error.is_operation_timeout()
        || error.has_label(RETRYABLE_WRITE_ERROR)
        || matches!(error.kind(), ErrorKind::ServerSelectionTimeout(_) | ErrorKind::PoolCleared(_))
        || code == Some(codes::MAX_TIME_MS_EXPIRED)
        || (matches!(error.kind(), ErrorKind::WriteConcern(_))
            && !code.is_some_and(|code| codes::UNMEETABLE_WRITE_CONCERN.contains(&code)))
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lsid = self.0.state.lock().server_session.as_ref().map(|session| session.lsid);
        f.debug_struct("ClientSession").field("lsid", &lsid).field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(session) = self.state.get_mut().server_session.take() {
            self.client.release_session(session);
        }
    }
}

/// The newest `$clusterTime` that a client has seen.
#[derive(Debug, Default)]
pub(crate) struct ClusterClock(Mutex<Option<Document>>);

impl ClusterClock {
    pub(crate) fn learn(&self, reply: &Document) {
        if let Ok(cluster_time) = reply.get_document("$clusterTime") {
            advance(&mut self.0.lock(), cluster_time);
        }
    }

    /// The newer of the client's and the session's.
    pub(crate) fn newest(&self, session: Option<&ClientSession>) -> Option<Document> {
        let mut newest = self.0.lock().clone();
        if let Some(session) = session
            && let Some(other) = &session.0.state.lock().cluster_time
        {
            advance(&mut newest, other);
        }
        newest
    }
}

fn advance(known: &mut Option<Document>, candidate: &Document) {
    let time = |document: &Document| match document.get("clusterTime") {
        Some(Bson::Timestamp(time)) => Some(*time),
        _ => None,
    };
    if let Some(new) = time(candidate)
        && known.as_ref().and_then(time).is_none_or(|known| known < new)
    {
        *known = Some(candidate.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn cluster_time_only_goes_forward() {
        let clock = ClusterClock::default();
        let at = |time| doc! {"$clusterTime": {"clusterTime": Timestamp { time, increment: 1 }}};
        for (reply, newest) in [(at(5), 5), (at(3), 5), (doc! {}, 5), (doc! {"$clusterTime": {}}, 5), (at(9), 9)] {
            clock.learn(&reply);
            let time = clock.newest(None).unwrap().get_timestamp("clusterTime").unwrap().time;
            assert_eq!(time, newest, "{reply}");
        }
    }
}
