//! The server as a whole: what its parts share, how it starts and how it stops.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backfire_model::event::Observer;
use bson::Document;
use bson::oid::ObjectId;
use parking_lot::Mutex;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::aggregate::expression::Globals;
use crate::auth::credentials::{Credentials, Password};
use crate::auth::roles::{Assigned, Role};
use crate::auth::{Mechanism, User, UserName, Users};
use crate::clock::Clock;
use crate::commands::CommandTable;
use crate::counters::Counters;
use crate::cursors::Cursors;
use crate::error::CommandError;
use crate::failpoints::{Entered, FailPoints};
use crate::locks::{LockManager, TicketPool};
use crate::net::connection::Connections;
use crate::net::{self, Limits, Tls};
use crate::ops::OpRegistry;
use crate::params::{Param, Params};
use crate::profile::{Profile, V7_0};
use crate::query::QueryContext;
use crate::sessions::SessionCatalog;
use crate::storage::Engine;
use crate::storage::capped::Arrivals;
use crate::storage::catalog::Catalog;
use crate::storage::memory::MemoryEngine;
use crate::storage::snapshots::Snapshots;
use crate::topology::Topology;

/// How a server is set up.
#[derive(Clone)]
pub struct ServerConfig {
    /// The version it behaves like.
    pub profile: &'static Profile,
    /// Its address as clients reach it, `host:port`; part of the replica-set configuration.
    pub address: String,
    /// The replica set's name; `None` makes it a standalone.
    pub set_name: Option<String>,
    /// Whether `configureFailPoint` exists.
    pub test_commands: bool,
    /// Whether the storage engine locks documents, as WiredTiger does. One that does not (MMAPv1) has no retryable writes.
    pub document_locking: bool,
    /// How many connections it takes.
    pub max_connections: usize,
    /// How long a client may keep its connection waiting.
    pub limits: Limits,
    /// Seed of everything random: ids of cursors and sessions, probabilities.
    pub seed: u64,
    /// The wall clock's time at the start, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// Sees everything that happens to operations.
    pub observer: Option<Arc<dyn Observer>>,
    /// The command line, for `getCmdLineOpts`.
    pub argv: Vec<String>,
    /// Whether clients must log in before they may do anything. Nonces and salts come from `seed`, which must be one that
    /// nobody can guess then.
    pub auth: bool,
    /// How connections are encrypted; `None`: not at all.
    pub tls: Option<Tls>,
}

impl ServerConfig {
    /// A replica set of one with test commands, profile 7.0.
    pub fn new(address: impl Into<String>, started_at_ms: i64) -> Self {
        Self {
            profile: &V7_0,
            address: address.into(),
            set_name: Some("rs0".into()),
            test_commands: true,
            document_locking: true,
            max_connections: 100_000,
            limits: Limits::DEFAULT,
            seed: 1,
            started_at_ms,
            observer: None,
            argv: vec!["backfire".into(), "serve".into()],
            auth: false,
            tls: None,
        }
    }
}

/// What all parts of a server share.
pub struct Shared {
    /// The version it behaves like.
    pub profile: &'static Profile,
    /// Whether the storage engine locks documents; without that there are no retryable writes.
    pub document_locking: bool,
    /// Wall time.
    pub clock: Clock,
    /// Parameters.
    pub params: Params,
    /// Fail points.
    pub fail_points: FailPoints,
    /// Running operations.
    pub ops: OpRegistry,
    /// Sessions.
    pub sessions: SessionCatalog,
    /// Locks.
    pub locks: Arc<LockManager>,
    /// Tickets for writes.
    pub write_tickets: Arc<TicketPool>,
    /// Tickets for reads.
    pub read_tickets: Arc<TicketPool>,
    /// Where data is kept.
    pub engine: Arc<dyn Engine>,
    /// Snapshots that clients were given.
    pub snapshots: Snapshots,
    /// Wakes tailable cursors that wait.
    pub arrivals: Arc<Arrivals>,
    /// Which collections there are.
    pub catalog: Catalog,
    /// Open cursors.
    pub cursors: Cursors,
    /// The replica set.
    pub topology: Topology,
    /// What was counted.
    pub counters: Counters,
    /// Open connections.
    pub connections: Connections,
    /// All commands, by name.
    pub commands: CommandTable,
    /// Sees everything that happens to operations.
    pub observer: Option<Arc<dyn Observer>>,
    /// The command line.
    pub argv: Vec<String>,
    /// Whether clients must log in.
    pub auth: bool,
    /// How connections are encrypted.
    pub tls: Option<Tls>,
    /// The users.
    pub users: Users,
    rng: Mutex<ChaCha8Rng>,
    shutting_down: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("profile", &self.profile.name)
            .field("address", &self.topology.address())
            .finish()
    }
}

impl Shared {
    /// The random generator.
    pub fn rng(&self) -> &Mutex<ChaCha8Rng> {
        &self.rng
    }

    /// A new object id: time, then random bytes.
    pub fn new_object_id(&self) -> ObjectId {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&((self.clock.now_ms() / 1000) as u32).to_be_bytes());
        self.rng.lock().fill_bytes(&mut bytes[4..]);
        ObjectId::from_bytes(bytes)
    }

    /// A new random UUID (version 4).
    pub fn new_uuid(&self) -> uuid::Uuid {
        uuid::Builder::from_random_bytes(self.rng.lock().random()).into_uuid()
    }

    /// What is kept of a password, for each of `mechanisms`.
    ///
    /// # Errors
    /// 2 when it is empty or has characters that SASLprep does not allow.
    pub fn credentials(
        &self,
        user: &str,
        password: Password<'_>,
        mechanisms: &[Mechanism],
    ) -> Result<Vec<Credentials>, CommandError> {
        let derive = |mechanism: &Mechanism| {
            let mut salt = vec![0; mechanism.salt_bytes()];
            self.rng.lock().fill_bytes(&mut salt);
            Credentials::derive(*mechanism, user, password, salt)
        };
        let (Password::Plain(text) | Password::Digested(text)) = password;
        if text.is_empty() {
            return Err(CommandError::bad_value("User passwords must not be empty"));
        }
        mechanisms
            .iter()
            .map(derive)
            .collect::<Result<_, _>>()
            .map_err(|error| CommandError::bad_value(error.to_string()))
    }

    /// What filters and expressions of a command that runs now are parsed with.
    pub fn query_context(&self, collation: Option<crate::value::Collation>) -> QueryContext {
        let cluster_time = self.topology.is_replica_set().then(|| self.topology.last_op_time());
        let seed = self.rng.lock().random();
        let globals = Globals::new(self.clock.now(), cluster_time, collation, seed);
        QueryContext::with_globals(globals).without(self.profile.missing_in_pipelines)
    }

    /// Evaluates a fail point that has no data to look at.
    pub fn passes(&self, name: &'static str) -> Option<Entered> {
        self.passes_if(name, |_| true)
    }

    /// Evaluates a fail point whose data must match.
    pub fn passes_if(&self, name: &'static str, matches: impl FnOnce(&Document) -> bool) -> Option<Entered> {
        self.fail_points.enter(name, &self.rng, matches)
    }

    /// Whether the server stops.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Acquire)
    }
}

/// A running server. Clones are handles of the same server.
#[derive(Debug, Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// A server on a new memory engine. Must be called within a tokio runtime, whose clock it uses.
    pub fn new(config: ServerConfig) -> Self {
        Self::on_engine(config, Arc::new(MemoryEngine::default()))
    }

    /// A server on `engine`.
    pub fn on_engine(config: ServerConfig, engine: Arc<dyn Engine>) -> Self {
        let clock = Clock::starting_at(config.started_at_ms);
        let params = Params::default();
        params.force(Param::EnableTestCommands, i64::from(config.test_commands));
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
        let process_id = ObjectId::from_bytes(rng.random());
        let catalog = Catalog::new(Arc::clone(&engine), &mut rng);
        let sessions = SessionCatalog::new(Arc::clone(&engine), &catalog);
        let shared = Arc::new(Shared {
            profile: config.profile,
            document_locking: config.document_locking,
            topology: Topology::new(config.set_name, config.address, process_id, &clock),
            clock,
            write_tickets: TicketPool::new(params.get(Param::WriteTickets)),
            read_tickets: TicketPool::new(params.get(Param::ReadTickets)),
            params,
            fail_points: FailPoints::default(),
            ops: OpRegistry::default(),
            sessions,
            locks: Arc::default(),
            engine,
            snapshots: Snapshots::default(),
            arrivals: Arc::default(),
            catalog,
            cursors: Cursors::default(),
            counters: Counters::default(),
            connections: Connections::new(config.max_connections, config.limits),
            commands: CommandTable::new(config.profile, config.test_commands),
            observer: config.observer,
            argv: config.argv,
            auth: config.auth,
            tls: config.tls,
            users: Users::default(),
            rng: Mutex::new(rng),
            shutting_down: AtomicBool::new(false),
        });
        Self { shared }
    }

    /// Adds a user with credentials for all mechanisms, as `createUser` on `db` does. `roles` are those of `db`.
    ///
    /// # Errors
    /// When there is one of that name, a role is not known, or the password cannot be used.
    pub fn add_user(&self, db: &str, user: &str, password: &str, roles: &[&str]) -> Result<(), CommandError> {
        let find = |name: &&str| match Role::find(name, db) {
            Some(role) => Ok(Assigned { role, db: db.to_owned() }),
            None => Err(CommandError::new(31, format!("Could not find role: {name}@{db}"))),
        };
        let roles = roles.iter().map(find).collect::<Result<_, _>>()?;
        let name = UserName::new(db, user);
        let credentials = self.shared.credentials(user, Password::Plain(password), &Mechanism::ALL)?;
        self.shared.users.add(User { name, id: self.shared.new_uuid(), roles, custom_data: None, credentials })
    }

    /// What the server's parts share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Serves connections from `listener` until `shutdown` resolves; then stops as [`Server::stop`] does.
    ///
    /// # Errors
    /// When the listener fails for good.
    pub async fn run(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> std::io::Result<()> {
        let housekeeping = tokio::spawn(housekeeping(Arc::clone(&self.shared)));
        let result = tokio::select! {
            result = net::accept(&self.shared, listener) => result,
            () = shutdown => Ok(()),
        };
        self.stop().await;
        housekeeping.abort();
        result
    }

    /// Starts the periodic work of a server that is used without [`Server::run`].
    pub fn spawn_housekeeping(&self) -> tokio::task::JoinHandle<()> {
        tokio::spawn(housekeeping(Arc::clone(&self.shared)))
    }

    /// Serves one connection, whatever carries it. `peer` is what the server calls the other side.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, peer: String) {
        net::connection::serve(Arc::clone(&self.shared), stream, peer).await;
    }

    /// Begins to stop: operations end with 11600 at their next interrupt point, connections are closed. Waits, for a
    /// bounded time, until they are.
    pub async fn stop(&self) {
        const PATIENCE: Duration = Duration::from_secs(5);
        self.shared.shutting_down.store(true, Ordering::Release);
        self.shared.connections.all().iter().for_each(|connection| connection.close());
        self.shared.ops.all().iter().for_each(|op| op.wake());
        let _ = tokio::time::timeout(PATIENCE, self.shared.connections.all_closed()).await;
    }
}

/// Aborts transactions that have been open for too long; a command of one is ended with 290.
fn abort_expired_transactions(shared: &Shared) {
    let lifetime = crate::sessions::transaction::lifetime(&shared.params);
    for (_, holder) in shared.sessions.abort_open(|_, age| age >= lifetime) {
        if let Some(op) = holder.and_then(|holder| shared.ops.find(holder)) {
            op.kill(290);
        }
    }
}

/// Elections, expiry of sessions, transactions, cursors and TTL documents.
async fn housekeeping(shared: Arc<Shared>) {
    const TICK: Duration = Duration::from_millis(500);
    let ttl_every = Duration::from_secs(shared.params.get(Param::TtlMonitorSleepSecs) as u64);
    let mut next_refresh = tokio::time::Instant::now();
    let mut next_ttl = next_refresh + ttl_every;
    loop {
        tokio::time::sleep(TICK).await;
        let now = tokio::time::Instant::now();
        if shared.topology.election_due().is_some_and(|due| due <= now) {
            shared.topology.elect();
        }
        let idle = Duration::from_millis(shared.params.get(Param::CursorTimeoutMillis) as u64);
        shared.cursors.expire(idle);
        abort_expired_transactions(&shared);
        if now >= next_ttl {
            next_ttl = now + ttl_every;
            crate::ttl::pass(&shared).await;
        }
        if now >= next_refresh {
            let every = shared.params.get(Param::SessionRefreshMillis) as u64;
            next_refresh = now + Duration::from_millis(every);
            let in_use: HashSet<_> = shared.ops.all().iter().filter_map(|op| op.view().lsid).collect();
            let gone = shared.sessions.refresh(&shared.params, &in_use);
            shared.cursors.kill_of_sessions(&gone.into_iter().collect());
        }
    }
}
