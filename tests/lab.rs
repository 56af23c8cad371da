//! A server in memory, and the `check` helper that most tests go through.

use std::sync::Arc;
use std::time::Duration;

use backfire_driver::{Client, ClientSettings, Connector, Listener, ServerAddress, Stream};
use backfire_model::connection_string::ConnectionString;
use backfire_model::event::{Event, Observer, What};
use backfire_model::ledger::Ledger;
use backfire_server::profile::{Profile, V4_4};
use backfire_server::server::{Server, ServerConfig};
use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::wire::Wire;

/// The wall time at which lab servers start: 2026-11-30 00:00 UTC.
const STARTED_AT_MS: i64 = 1_795_996_800_000;
/// How much a pipe holds: enough for the largest message.
const PIPE_BYTES: usize = 64 * 1024 * 1024;

/// A session id and a number, as fields of a command.
pub fn numbered(session: u8, txn_number: i64) -> Document {
    let bytes = vec![session; 16];
    let id = bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes };
    bson::doc! { "lsid": { "id": id }, "txnNumber": txn_number }
}

/// The same as fields of a command of a multi-document transaction: its first one, or a later one.
pub fn in_transaction(session: u8, txn_number: i64, starts: bool) -> Document {
    let mut fields = numbered(session, txn_number);
    if starts {
        fields.insert("startTransaction", true);
    }
    fields.insert("autocommit", false);
    fields
}

/// A command with more fields.
pub fn with(mut command: Document, fields: Document) -> Document {
    command.extend(fields);
    command
}

/// A server that clients reach through pipes.
pub struct Lab {
    /// The server.
    pub server: Server,
    auth: bool,
    events: Arc<Recorder>,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Lab {
    /// A replica set of one, profile 4.4, test commands on.
    pub fn new() -> Self {
        Self::with(V4_4_CONFIG)
    }

    /// The same with another profile.
    pub fn of(profile: &'static Profile) -> Self {
        Self::with(|config| config.profile = profile)
    }

    /// The same with a user that must log in: `root` of `admin`, with the password `pencil`.
    ///
    /// # Panics
    /// Never: the user is the first.
    pub fn with_auth(profile: &'static Profile) -> Self {
        let mut lab = Self::with(|config| {
            config.profile = profile;
            config.auth = true;
        });
        lab.server.add_user("admin", "root", "pencil", &["root"]).expect("there is no user yet");
        lab.auth = true;
        lab
    }

    /// What stands before the host in a connection string to it.
    pub fn userinfo(&self) -> &'static str {
        if self.auth { "root:pencil@" } else { "" }
    }

    /// The same with other settings.
    pub fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let events = Arc::new(Recorder { started: Instant::now(), events: Mutex::default() });
        let mut config = ServerConfig::new("127.0.0.1:27017", STARTED_AT_MS);
        config.profile = &V4_4;
        config.observer = Some(Arc::clone(&events) as Arc<dyn Observer>);
        change(&mut config);
        let server = Server::new(config);
        server.spawn_housekeeping();
        Self { server, auth: false, events, connections: Arc::default() }
    }

    /// A new connection.
    pub fn connect(&self) -> Wire {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let server = self.server.clone();
        let task = tokio::spawn(async move { server.serve(far, "127.0.0.1:50000".to_owned()).await });
        self.connections.lock().push(task);
        Wire::new(near)
    }

    /// Stops the server and waits for its connections.
    ///
    /// # Panics
    /// When the server panicked on one of them.
    pub async fn finish(self) {
        self.server.stop().await;
        let connections = std::mem::take(&mut *self.connections.lock());
        for task in connections {
            task.await.expect("the server must not panic");
        }
    }

    /// Runs one command on a connection of its own, as `root` where somebody must log in.
    pub async fn run(&self, db: &str, command: Document) -> Document {
        let mut wire = self.connect();
        if self.auth {
            wire.log_in("admin", "root", "pencil").await;
        }
        wire.run(db, command).await
    }

    /// Runs a command that must succeed.
    ///
    /// # Panics
    /// When it does not.
    pub async fn ok(&self, db: &str, command: Document) -> Document {
        let reply = self.run(db, command.clone()).await;
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command}: {reply}");
        reply
    }

    /// Sets a fail point.
    pub async fn fail_point(&self, name: &str, mode: impl Into<Bson>, data: Document) {
        self.ok("admin", bson::doc! { "configureFailPoint": name, "mode": mode.into(), "data": data }).await;
    }

    /// How many documents of `test.c` match.
    pub async fn count(&self, query: Document) -> i32 {
        let reply = self.ok("test", bson::doc! { "count": "c", "query": query }).await;
        reply.get_i32("n").expect("a number")
    }

    /// The ledger of what happened to `test.c`.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::new(Some("test.c".to_owned()));
        self.events().iter().for_each(|event| ledger.record(event));
        ledger
    }

    /// A client with the Java driver's rules.
    ///
    /// # Panics
    /// When the options are not valid.
    pub fn client(&self, options: &str, listener: impl Listener) -> Client {
        self.distant_client(options, Duration::ZERO, listener)
    }

    /// A client whose messages take `one_way` to the server, and replies as long.
    ///
    /// # Panics
    /// As [`Lab::client`].
    pub fn distant_client(&self, options: &str, one_way: Duration, listener: impl Listener) -> Client {
        let uri = ConnectionString::parse(&format!("mongodb://127.0.0.1:27017/?replicaSet=rs0&{options}"));
        let settings = ClientSettings::from_connection_string(&uri.expect("a valid connection string"));
        Client::connect(settings.expect("settings"), self.connector(one_way), listener, 1).expect("a client")
    }

    /// What opens a client's connections, whatever address it asks for. Messages take `one_way` to the server, and
    /// replies as long.
    pub fn connector(&self, one_way: Duration) -> impl Connector + use<> {
        Pipes { server: self.server.clone(), one_way, connections: Arc::clone(&self.connections) }
    }

    /// What happened after the first `known` events.
    pub fn events_from(&self, known: usize) -> Vec<Event> {
        self.events.events.lock().iter().skip(known).cloned().collect()
    }

    /// What happened so far.
    pub fn events(&self) -> Vec<Event> {
        self.events.events.lock().clone()
    }
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

/// Connects a driver through pipes.
struct Pipes {
    server: Server,
    one_way: Duration,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Connector for Pipes {
    fn connect(&self, _: &ServerAddress) -> BoxFuture<'static, std::io::Result<Box<dyn Stream>>> {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let server = self.server.clone();
        let far = if self.one_way.is_zero() {
            far
        } else {
            let (middle, end) = tokio::io::duplex(PIPE_BYTES);
            let (from_client, to_client) = tokio::io::split(far);
            let (from_server, to_server) = tokio::io::split(middle);
            tokio::spawn(delay(from_client, to_server, self.one_way));
            tokio::spawn(delay(from_server, to_client, self.one_way));
            end
        };
        let task = tokio::spawn(async move { server.serve(far, "127.0.0.1:50000".to_owned()).await });
        self.connections.lock().push(task);
        Box::pin(std::future::ready(Ok(Box::new(near) as Box<dyn Stream>)))
    }
}

/// Passes bytes on, each so much later than it came.
async fn delay(mut from: ReadHalf<DuplexStream>, mut to: WriteHalf<DuplexStream>, by: Duration) {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, bytes)) = receiver.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if sender.send((Instant::now() + by, buffer[..count].to_vec())).is_err() {
            return;
        }
    }
}

const V4_4_CONFIG: fn(&mut ServerConfig) = |_| {};

struct Recorder {
    started: Instant,
    events: Mutex<Vec<Event>>,
}

impl Observer for Recorder {
    fn record(&self, what: What) {
        let at_ms = self.started.elapsed().as_millis() as u64;
        self.events.lock().push(Event { at_ms, record: None, consumer: None, what });
    }
}

/// Runs `command` on a new server and compares the fields named in `expected` with the reply's.
pub async fn check(setup: &[(&str, Document)], db: &str, command: Document, expected: Document) {
    let lab = Lab::new();
    for (db, command) in setup {
        let reply = lab.run(db, command.clone()).await;
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "set-up {command} failed: {reply}");
    }
    let reply = lab.run(db, command.clone()).await;
    for (name, value) in &expected {
        assert_eq!(reply.get(name), Some(value), "field {name} of the reply to {command}: {reply}");
    }
}
