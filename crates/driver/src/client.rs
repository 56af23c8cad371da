//! The client: settings, servers, sessions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bson::{Bson, Document, doc};
use tokio::time::Instant;

use backfire_model::{Lsid, TxnNumber};

use crate::connection::RequestIds;
use crate::connection::handshake::Opener;
use crate::database::Database;
use crate::error::Result;
use crate::events::Listener;
use crate::execute::{Call, Plan, Scope};
use crate::operation::{Action, BulkWriteModel, ClientBulkWrite, ListDatabaseNames, ListDatabases, Namespaced, Watch};
use crate::random::{Random, lsid_document};
use crate::retry::Operation;
use crate::session::{ClientSession, ClusterClock, ServerSession, ServerSessionPool, SessionOptions};
use crate::settings::{ClientSettings, ReadMode, ReadPreference};
use crate::tls::TlsConnector;
use crate::topology::{Criteria, Topology, TopologyDescription};
use crate::transport::Connector;

/// How many session ids one `endSessions` takes.
const END_SESSIONS_BATCH: usize = 10_000;
/// How long closing waits for a server to take `endSessions`.
const END_SESSIONS_TIMEOUT: Duration = Duration::from_secs(10);

/// A MongoDB client. Cheap to clone; all clones are the same client.
///
/// It lives as long as anything made from it: databases, collections, cursors, sessions. When the last of these is
/// dropped, its background tasks end; [`Client::close`] ends them before.
#[derive(Clone)]
pub struct Client {
    scope: Scope,
}

/// What everything made from a client shares.
pub(crate) struct ClientInner {
    pub(crate) settings: Arc<ClientSettings>,
    pub(crate) listener: Arc<dyn Listener>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) random: Arc<Random>,
    pub(crate) cluster_clock: ClusterClock,
    sessions: ServerSessionPool,
    operation_ids: AtomicU64,
    closed: AtomicBool,
}

impl ClientInner {
    pub(crate) fn next_operation_id(&self) -> u64 {
        self.operation_ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn acquire_session(&self) -> ServerSession {
        self.sessions.acquire(self.topology.description().session_timeout_minutes(), &self.random)
    }

    pub(crate) fn release_session(&self, session: ServerSession) {
        self.sessions.release(session, self.topology.description().session_timeout_minutes());
    }
}

impl Drop for ClientInner {
    fn drop(&mut self) {
        self.topology.shut_down();
    }
}

impl Client {
    /// Starts a client: monitors begin at once, connections are opened when they are needed. All its randomness comes
    /// from `seed`, all its time from tokio.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the settings make no sense, or a file that they name cannot be used.
    pub fn connect(
        settings: ClientSettings,
        connector: impl Connector,
        listener: impl Listener,
        seed: u64,
    ) -> Result<Self> {
        settings.validate()?;
        let settings = Arc::new(settings);
        let listener: Arc<dyn Listener> = Arc::new(listener);
        let random = Arc::new(Random::new(seed, settings.object_id_epoch_s, Instant::now()));
        let connector: Arc<dyn Connector> = match &settings.tls {
            Some(tls) => Arc::new(TlsConnector::new(Arc::new(connector), tls)?),
            None => Arc::new(connector),
        };
        let opener =
            Arc::new(Opener::new(settings.clone(), connector, Arc::new(RequestIds::default()), random.clone()));
        let topology = Topology::start(settings.clone(), listener.clone(), opener.clone(), random.clone());
        let inner = Arc::new(ClientInner {
            settings: settings.clone(),
            listener,
            topology,
            opener,
            random,
            cluster_clock: ClusterClock::default(),
            sessions: ServerSessionPool::default(),
            operation_ids: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        Ok(Self { scope: Scope::of_client(inner) })
    }

    /// The settings it was started with.
    pub fn settings(&self) -> &ClientSettings {
        &self.scope.client.settings
    }

    /// What is known of the servers now.
    pub fn topology(&self) -> Arc<TopologyDescription> {
        self.scope.client.topology.description()
    }

    /// A database. Nothing is sent.
    pub fn database(&self, name: impl Into<String>) -> Database {
        Database::new(self.scope.clone(), name.into())
    }

    /// Starts an explicit session. Nothing is sent.
    ///
    /// # Errors
    /// When the options contradict each other.
    pub fn start_session(&self, options: SessionOptions) -> Result<ClientSession> {
        ClientSession::explicit(&self.scope.client, options)
    }

    /// The same client with another `timeoutMS` for what is made from it (Java's `withTimeout`). Zero is no limit.
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { scope: self.scope.with_timeout(timeout) }
    }

    /// `listDatabases`.
    pub fn list_databases(&self) -> Action<ListDatabases> {
        Action::new(self.scope.clone(), ListDatabases)
    }

    /// `listDatabases` with `nameOnly`; gives the names.
    pub fn list_database_names(&self) -> Action<ListDatabaseNames> {
        Action::new(self.scope.clone(), ListDatabaseNames)
    }

    /// Writes over several collections with the `bulkWrite` command (server 8.0).
    pub fn bulk_write(&self, models: impl IntoIterator<Item = Namespaced<BulkWriteModel>>) -> Action<ClientBulkWrite> {
        Action::new(self.scope.clone(), ClientBulkWrite::new(models.into_iter().collect()))
    }

    /// A change stream over the whole cluster, without resuming: an `aggregate` on `admin` with `$changeStream`.
    pub fn watch(&self, pipeline: impl IntoIterator<Item = Document>) -> Action<Watch> {
        Action::new(self.scope.clone(), Watch::cluster(pipeline.into_iter().collect()))
    }

    /// Ends the client: tells the server which sessions are over, closes all connections, ends all background tasks and
    /// waits for them. Operations that still run fail.
    pub async fn close(&self) {
        if self.scope.client.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        // The server would find out by itself after half an hour; no answer is no reason not to close.
        let _ = tokio::time::timeout(END_SESSIONS_TIMEOUT, self.end_sessions()).await;
        for task in self.scope.client.topology.shut_down() {
            // Aborted tasks report that they were aborted.
            let _ = task.await;
        }
    }

    async fn end_sessions(&self) {
        let ids: Vec<Lsid> = self.scope.client.sessions.close();
        // As in Java: only if a server is known now.
        if self.topology().session_timeout_minutes().is_none() {
            return;
        }
        for batch in ids.chunks(END_SESSIONS_BATCH) {
            let ids: Vec<Bson> = batch.iter().map(|lsid| Bson::Document(lsid_document(*lsid))).collect();
            let body = doc! {"endSessions": ids};
            let preference = ReadPreference::mode(ReadMode::PrimaryPreferred);
            let plan = Plan::new(Operation::PlainWrite, "admin", Criteria::Read(preference), move |_| Ok(body.clone()));
            if plan.run(&mut Call::without_session(&self.scope)).await.is_err() {
                return;
            }
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("seeds", &self.settings().seeds).finish_non_exhaustive()
    }
}

/// The identity of the next numbered write in a session.
pub(crate) fn next_identity(session: &ClientSession) -> Result<(Lsid, TxnNumber)> {
    Ok((session.use_lsid()?, session.next_txn_number()?))
}
