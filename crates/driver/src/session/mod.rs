//! Sessions: implicit ones, one per operation, and explicit ones that the application holds.

mod server_session;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, Document, Timestamp};
use parking_lot::Mutex;

use backfire_model::{Lsid, TxnNumber};

use crate::client::ClientInner;
use crate::error::{DriverError, Result};
use crate::random::lsid_document;
pub(crate) use server_session::{ServerSession, ServerSessionPool};

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

    /// Multi-document transactions are not part of this driver.
    ///
    /// # Errors
    /// Always; a snapshot session says so in the words of the specification.
    pub fn start_transaction(&self) -> Result<()> {
        if self.0.options.snapshot {
            return Err(DriverError::invalid_argument("Transactions are not supported in snapshot sessions"));
        }
        Err(DriverError::client("this driver has no multi-document transactions"))
    }

    /// Ends the session: its id goes back to the pool, unless it is dirty. Later operations in it are errors.
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
        if let Ok(cluster_time) = reply.get_document("$clusterTime") {
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
        if let Some(other) = session.and_then(ClientSession::cluster_time) {
            advance(&mut newest, &other);
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
