//! The servers as the client sees them: discovery, monitoring, selection, and what errors do to them.

mod description;
mod monitor;
mod rtt;
mod selection;
mod transition;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bson::Document;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::connection::handshake::Opener;
use crate::connection::{ServerType, TopologyVersion};
use crate::error::codes::StateChange;
use crate::error::{DriverError, ErrorKind, Result};
use crate::events::{Event, Listener, TopologyEvent};
use crate::pool::{CheckOutError, CheckOutLimits, Pool, PooledConnection};
use crate::random::Random;
use crate::settings::{ClientSettings, ServerAddress};
use crate::timeout::later;

pub use description::{ServerDescription, TopologyDescription, TopologyType};
use monitor::{Monitor, Signals};
use rtt::RttSampler;
pub(crate) use selection::Criteria;
use selection::{SelectionRules, suitable};

/// Below this wire version (4.2) a state change closes all connections.
const WIRE_VERSION_KEEPS_CONNECTIONS: i32 = 8;
/// Members a replica set can have is 50; a server that names more than this is not believed.
const MAX_SERVERS: usize = 1000;

/// All servers of a client.
pub(crate) struct Topology {
    me: Weak<Topology>,
    settings: Arc<ClientSettings>,
    listener: Arc<dyn Listener>,
    opener: Arc<Opener>,
    random: Arc<Random>,
    state: Mutex<State>,
    current: watch::Sender<Arc<TopologyDescription>>,
}

struct State {
    closed: bool,
    description: Arc<TopologyDescription>,
    servers: BTreeMap<ServerAddress, Arc<Server>>,
    /// Tasks of servers that are gone, to be waited for when the topology closes.
    ended: Vec<JoinHandle<()>>,
}

/// One server: its pool and its monitor.
pub(crate) struct Server {
    address: ServerAddress,
    pool: Arc<Pool>,
    signals: Arc<Signals>,
    rtt: Arc<RttSampler>,
    operations: AtomicUsize,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Server {
    pub(crate) fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// Closes the pool and stops the tasks; they are gone once they have been waited for.
    fn shut_down(&self) -> Vec<JoinHandle<()>> {
        self.pool.close();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.iter().for_each(JoinHandle::abort);
        tasks
    }
}

/// A server that was chosen for one attempt, with what was known of it at that moment.
pub(crate) struct Selected {
    pub(crate) server: Arc<Server>,
    pub(crate) server_type: ServerType,
    pub(crate) topology_type: TopologyType,
    pub(crate) min_round_trip: Duration,
}

impl Selected {
    fn new(server: Arc<Server>, description: &ServerDescription, topology_type: TopologyType) -> Self {
        server.operations.fetch_add(1, Ordering::Relaxed);
        Self { server_type: description.server_type(), topology_type, min_round_trip: server.rtt.minimum(), server }
    }
}

impl Drop for Selected {
    fn drop(&mut self) {
        self.server.operations.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Topology {
    /// Starts monitoring the seeds. Needs a runtime.
    pub(crate) fn start(
        settings: Arc<ClientSettings>,
        listener: Arc<dyn Listener>,
        opener: Arc<Opener>,
        random: Arc<Random>,
    ) -> Arc<Self> {
        let description = Arc::new(transition::initial(&settings));
        let topology = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            settings,
            listener,
            opener,
            random,
            state: Mutex::new(State {
                closed: false,
                description: description.clone(),
                servers: BTreeMap::new(),
                ended: Vec::new(),
            }),
            current: watch::Sender::new(description.clone()),
        });
        topology.emit(TopologyEvent::TopologyOpening);
        let previous = Arc::new(transition::nothing());
        topology.emit(TopologyEvent::TopologyDescriptionChanged { previous, current: description.clone() });
        let mut state = topology.state.lock();
        for address in description.servers.keys() {
            let server = topology.start_server(address);
            state.servers.insert(address.clone(), server);
        }
        drop(state);
        topology
    }

    fn emit(&self, event: TopologyEvent) {
        self.listener.event(&Event::Topology(event));
    }

    fn start_server(&self, address: &ServerAddress) -> Arc<Server> {
        self.emit(TopologyEvent::ServerOpening { address: address.clone() });
        let (me, of_pool) = (self.me.clone(), address.clone());
        let failed = move |error: DriverError, generation| {
            if let Some(topology) = me.upgrade() {
                topology.connection_failed(&of_pool, generation, &error);
            }
        };
        let (pool, maintenance) =
            Pool::start(address.clone(), self.settings.clone(), self.listener.clone(), self.opener.clone(), failed);
        let (signals, rtt) = (Arc::new(Signals::new()), Arc::<RttSampler>::default());
        let monitor = Monitor {
            topology: self.me.clone(),
            settings: self.settings.clone(),
            listener: self.listener.clone(),
            opener: self.opener.clone(),
            address: address.clone(),
            signals: signals.clone(),
            rtt: rtt.clone(),
        };
        let monitoring = tokio::spawn(monitor::run(monitor));
        Arc::new(Server {
            address: address.clone(),
            pool,
            signals,
            rtt,
            operations: AtomicUsize::new(0),
            tasks: Mutex::new(vec![maintenance, monitoring]),
        })
    }

    /// What is known now.
    pub(crate) fn description(&self) -> Arc<TopologyDescription> {
        self.state.lock().description.clone()
    }

    /// A server by its address, for the rest of a cursor.
    ///
    /// # Errors
    /// When the server left the topology.
    pub(crate) fn pinned(&self, address: &ServerAddress) -> Result<Selected> {
        let state = self.state.lock();
        match (state.servers.get(address), state.description.server(address)) {
            (Some(server), Some(description)) => {
                Ok(Selected::new(server.clone(), description, state.description.topology_type))
            }
            _ => Err(DriverError::client(format!("{address} is not part of the topology any more"))),
        }
    }

    /// Waits for a server that suits; asks the monitors to look as long as there is none.
    ///
    /// # Errors
    /// When none appears in time, when driver and servers cannot talk, when the topology is closed.
    pub(crate) async fn select(&self, criteria: &Criteria, until: Instant) -> Result<Selected> {
        let rules = SelectionRules {
            local_threshold: self.settings.local_threshold,
            heartbeat_frequency: self.settings.heartbeat_frequency,
        };
        let mut changes = self.current.subscribe();
        loop {
            let description = changes.borrow_and_update().clone();
            if self.state.lock().closed {
                return Err(DriverError::closed("the client is closed"));
            }
            if let Some(error) = description.incompatibility() {
                return Err(error);
            }
            let found = suitable(&description, criteria, rules)?;
            if let Some(selected) = self.choose(&description, found) {
                return Ok(selected);
            }
            let servers: Vec<_> = self.state.lock().servers.values().cloned().collect();
            servers.iter().for_each(|server| server.signals.request_check());
            if Instant::now() >= until {
                return Err(self.no_server(criteria, &description));
            }
            let ask_again = later(Instant::now(), self.settings.min_heartbeat_frequency);
            // A change, or time to ask again: either way, look.
            let _ = timeout_at(until.min(ask_again), changes.changed()).await;
        }
    }

    /// The less busy one of two random servers.
    fn choose(&self, description: &TopologyDescription, mut found: Vec<&ServerDescription>) -> Option<Selected> {
        let state = self.state.lock();
        found.retain(|server| state.servers.contains_key(server.address()));
        let mut draw = || (!found.is_empty()).then(|| found.swap_remove(self.random_index(found.len())));
        let busy = |server: &ServerDescription| {
            state.servers.get(server.address()).map_or(usize::MAX, |server| server.operations.load(Ordering::Relaxed))
        };
        let chosen = match (draw()?, draw()) {
            (one, Some(other)) if busy(other) < busy(one) => other,
            (one, _) => one,
        };
        let server = state.servers.get(chosen.address())?.clone();
        Some(Selected::new(server, chosen, description.topology_type))
    }

    fn random_index(&self, count: usize) -> usize {
        if count == 1 { 0 } else { self.random.index(count) }
    }

    fn no_server(&self, criteria: &Criteria, description: &TopologyDescription) -> DriverError {
        let what = match criteria {
            Criteria::Writable => "takes writes".to_owned(),
            Criteria::Read(preference) | Criteria::ReadOrPrimaryBelow(preference, _) => {
                format!("suits read preference {}", preference.mode.name())
            }
        };
        let what = format!("timed out while waiting for a server that {what}; known is: {description}");
        DriverError::new(ErrorKind::ServerSelectionTimeout(what))
    }

    /// Takes a connection out of a server's pool; a failure to open one changes what is known of the server.
    pub(crate) async fn check_out(&self, server: &Server, limits: CheckOutLimits) -> Result<PooledConnection> {
        match server.pool.check_out(limits).await {
            Ok(connection) => Ok(connection),
            Err(CheckOutError::Other(error)) => Err(error),
            Err(CheckOutError::Open { error, generation }) => {
                self.connection_failed(&server.address, generation, &error);
                Err(error)
            }
        }
    }

    /// A monitor got an answer.
    fn monitor_succeeded(&self, description: ServerDescription) {
        let mut state = self.state.lock();
        if let Some(server) = state.servers.get(&description.address).cloned() {
            let may_be_used = description.server_type.holds_data()
                || (description.server_type != ServerType::Unknown
                    && state.description.topology_type == TopologyType::Single);
            if may_be_used && !self.is_outdated(&state, &description) {
                // Before the description is seen, so that nobody selects a server whose pool still pauses.
                server.pool.ready();
            }
            self.apply(&mut state, description);
        }
    }

    /// A monitor got none.
    fn monitor_failed(&self, address: &ServerAddress, error: DriverError) {
        let mut state = self.state.lock();
        if let Some(server) = state.servers.get(address).cloned() {
            let failed = ServerDescription::failed(address.clone(), error.clone(), None, Instant::now());
            self.apply(&mut state, failed);
            server.pool.clear(&error);
        }
    }

    /// A connection of the pool could not be opened: any network error counts, a timeout included, and every failure to
    /// log in (facts/client.md A4; the specification's tests auth-error and auth-misc-command-error).
    fn connection_failed(&self, address: &ServerAddress, generation: u64, error: &DriverError) {
        if error.is_network() || error.is_login_failure() {
            self.lose(address, generation, error);
        } else {
            self.command_failed(address, generation, 0, error, error.response());
        }
    }

    /// A command on an established connection failed. A read timeout says nothing about the server; a broken
    /// connection and some errors of the server do (facts/client.md A4). `reply` is what the error was read from.
    pub(crate) fn command_failed(
        &self,
        address: &ServerAddress,
        generation: u64,
        wire_version: i32,
        error: &DriverError,
        reply: Option<&Document>,
    ) {
        if matches!(error.kind(), ErrorKind::Network { .. }) {
            self.lose(address, generation, error);
        } else if let Some(change) = error.state_change() {
            let version = reply
                .and_then(|reply| reply.get_document("topologyVersion").ok())
                .and_then(TopologyVersion::from_document);
            let closes = change == StateChange::Shutdown || wire_version < WIRE_VERSION_KEEPS_CONNECTIONS;
            self.state_changed(address, generation, version, error, closes);
        }
    }

    fn lose(&self, address: &ServerAddress, generation: u64, error: &DriverError) {
        let mut state = self.state.lock();
        let Some(server) = state.servers.get(address).cloned() else { return };
        if generation < server.pool.generation() {
            return;
        }
        let failed = ServerDescription::failed(address.clone(), error.clone(), None, Instant::now());
        self.apply(&mut state, failed);
        server.pool.clear(error);
        server.signals.cancel_check();
    }

    /// The server says that it is not what it was. `closes`: its connections are of no use any more.
    fn state_changed(
        &self,
        address: &ServerAddress,
        generation: u64,
        version: Option<TopologyVersion>,
        error: &DriverError,
        closes: bool,
    ) {
        let mut state = self.state.lock();
        let Some(server) = state.servers.get(address).cloned() else { return };
        let known = state.description.server(address).and_then(|server| server.topology_version);
        let is_old_news = matches!((known, version), (Some(known), Some(version)) if known.is_as_new_as(version));
        if generation < server.pool.generation() || is_old_news {
            return;
        }
        let failed = ServerDescription::failed(address.clone(), error.clone(), version, Instant::now());
        self.apply(&mut state, failed);
        if closes {
            server.pool.clear(error);
        }
        server.signals.request_check();
    }

    fn is_outdated(&self, state: &State, description: &ServerDescription) -> bool {
        let known = state.description.server(&description.address).and_then(|server| server.topology_version);
        matches!((known, description.topology_version), (Some(known), Some(new)) if known.is_newer_than(new))
    }

    /// Puts a server's description into the topology, starts and ends servers, tells everybody.
    fn apply(&self, state: &mut State, description: ServerDescription) {
        if state.closed || self.is_outdated(state, &description) {
            return;
        }
        let previous = state.description.clone();
        let address = description.address.clone();
        let mut next = transition::next(&previous, description, self.settings.seeds.len());
        while next.servers.len() > MAX_SERVERS {
            next.servers.pop_last();
        }
        let current = Arc::new(next);
        let mut changed =
            previous.topology_type != current.topology_type || !previous.servers.keys().eq(current.servers.keys());
        for (address, now) in &current.servers {
            if let Some(before) = previous.servers.get(address)
                && !before.says_the_same(now)
            {
                changed = true;
                self.emit(TopologyEvent::ServerDescriptionChanged { previous: before.clone(), current: now.clone() });
            }
        }
        state.description = current.clone();
        let gone: Vec<_> =
            state.servers.keys().filter(|address| !current.servers.contains_key(*address)).cloned().collect();
        for address in gone {
            if let Some(server) = state.servers.remove(&address) {
                state.ended.retain(|task| !task.is_finished());
                state.ended.extend(server.shut_down());
                self.emit(TopologyEvent::ServerClosed { address });
            }
        }
        for address in current.servers.keys() {
            if !state.servers.contains_key(address) {
                let server = self.start_server(address);
                state.servers.insert(address.clone(), server);
            }
        }
        if changed {
            tracing::debug!(server = %address, topology = %current, "topology changed");
            self.emit(TopologyEvent::TopologyDescriptionChanged { previous, current: current.clone() });
        }
        self.current.send_replace(current);
    }

    /// Stops everything and returns the tasks that were told to end.
    pub(crate) fn shut_down(&self) -> Vec<JoinHandle<()>> {
        let mut state = self.state.lock();
        if state.closed {
            return Vec::new();
        }
        state.closed = true;
        let mut tasks = std::mem::take(&mut state.ended);
        for (address, server) in std::mem::take(&mut state.servers) {
            tasks.extend(server.shut_down());
            self.emit(TopologyEvent::ServerClosed { address });
        }
        self.emit(TopologyEvent::TopologyClosed);
        // Those who wait for a server see that it is over.
        self.current.send_replace(state.description.clone());
        tasks
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        self.shut_down();
    }
}
