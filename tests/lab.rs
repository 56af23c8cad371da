//! A server in memory, and the `check` helper that most tests go through.

use std::sync::Arc;

use backfire_model::event::{Event, Observer, What};
use backfire_server::profile::{Profile, V4_4};
use backfire_server::server::{Server, ServerConfig};
use bson::Document;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::wire::Wire;

/// The wall time at which lab servers start: 2026-11-30 00:00 UTC.
const STARTED_AT_MS: i64 = 1_795_996_800_000;
/// How much a pipe holds: enough for the largest message.
const PIPE_BYTES: usize = 64 * 1024 * 1024;

/// A server that clients reach through pipes.
pub struct Lab {
    /// The server.
    pub server: Server,
    events: Arc<Recorder>,
    connections: Mutex<Vec<JoinHandle<()>>>,
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

    /// The same with other settings.
    pub fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let events = Arc::new(Recorder { started: Instant::now(), events: Mutex::default() });
        let mut config = ServerConfig::new("127.0.0.1:27017", STARTED_AT_MS);
        config.profile = &V4_4;
        config.observer = Some(Arc::clone(&events) as Arc<dyn Observer>);
        change(&mut config);
        let server = Server::new(config);
        server.spawn_housekeeping();
        Self { server, events, connections: Mutex::default() }
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
        for task in self.connections.into_inner() {
            task.await.expect("the server must not panic");
        }
    }

    /// Runs one command on a connection of its own.
    pub async fn run(&self, db: &str, command: Document) -> Document {
        self.connect().run(db, command).await
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

const V4_4_CONFIG: fn(&mut ServerConfig) = |_| {};

struct Recorder {
    started: Instant,
    events: Mutex<Vec<Event>>,
}

impl Observer for Recorder {
    fn record(&self, what: What) {
        let at_ms = self.started.elapsed().as_millis() as u64;
        self.events.lock().push(Event { at_ms, what });
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
