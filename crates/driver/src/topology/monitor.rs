//! The monitor of one server: one task that checks it over its own connection, and one that measures round trips
//! while the first one waits for the server to speak.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bson::{Document, doc};
use futures_util::FutureExt;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use backfire_wire::MessageFlags;

use crate::connection::command::encode_message;
use crate::connection::handshake::{OpenLimits, Opened, Opener, Purpose, add_server_api};
use crate::connection::{Connection, HelloReply, ReadLimit, ServerType};
use crate::error::reply::{command_error, is_ok};
use crate::error::{DriverError, Result};
use crate::events::{Event, Listener, TopologyEvent};
use crate::settings::{ClientSettings, MonitoringMode, ServerAddress};

use super::Topology;
use super::description::ServerDescription;
use super::rtt::RttSampler;

/// How others talk to a monitor.
pub(super) struct Signals {
    check: Notify,
    cancel: watch::Sender<u64>,
}

impl Signals {
    pub(super) fn new() -> Self {
        Self { check: Notify::new(), cancel: watch::Sender::new(0) }
    }

    /// Asks for a check without waiting for the heartbeat.
    pub(super) fn request_check(&self) {
        self.check.notify_one();
    }

    /// Ends a running check and its connection: the server was found broken by an operation.
    pub(super) fn cancel_check(&self) {
        self.cancel.send_modify(|count| *count += 1);
    }
}

/// What a monitor works with.
pub(super) struct Monitor {
    pub(super) topology: Weak<Topology>,
    pub(super) settings: Arc<ClientSettings>,
    pub(super) listener: Arc<dyn Listener>,
    pub(super) opener: Arc<Opener>,
    pub(super) address: ServerAddress,
    pub(super) signals: Arc<Signals>,
    pub(super) rtt: Arc<RttSampler>,
}

impl Monitor {
    /// Waits for the heartbeat or a request, but at least the shortest time between two checks.
    async fn wait_for_next(&self) {
        let started = Instant::now();
        // Either way the wait is over.
        let _ = timeout(self.settings.heartbeat_frequency, self.signals.check.notified()).await;
        if let Some(rest) = self.settings.min_heartbeat_frequency.checked_sub(started.elapsed()) {
            sleep(rest).await;
        }
    }
}

/// Ends a task with its owner.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The monitor's state between checks.
struct Checker {
    monitor: Monitor,
    connection: Option<Connection>,
    /// The last good answer on this connection's server.
    hello: Option<HelloReply>,
    /// The server was asked to wait until there is news, and answered at once without any. Asking such a server again
    /// at once would never end.
    told_nothing: bool,
}

/// Checks the server until the task is aborted or the topology is gone.
pub(super) async fn run(monitor: Monitor) {
    let mut cancel = monitor.signals.cancel.subscribe();
    let mut checker = Checker { monitor, connection: None, hello: None, told_nothing: false };
    let mut rtt_task: Option<AbortOnDrop> = None;
    let mut was_known = false;
    loop {
        let result = tokio::select! {
            biased;
            _ = cancel.changed() => {
                // The description is the canceller's business; this monitor waits before it looks again.
                checker.connection = None;
                checker.hello = None;
                was_known = false;
                checker.monitor.wait_for_next().await;
                continue;
            }
            result = checker.check() => result,
        };
        let Some(topology) = checker.monitor.topology.upgrade() else { return };
        let lost_by_network = was_known && result.as_ref().is_err_and(DriverError::is_network);
        match result {
            Ok(description) => {
                was_known = description.server_type() != ServerType::Unknown;
                // This check answers the requests that came until now; who still waits asks again.
                let _ = checker.monitor.signals.check.notified().now_or_never();
                topology.monitor_succeeded(description);
            }
            Err(error) => {
                was_known = false;
                topology.monitor_failed(&checker.monitor.address, error);
            }
        }
        drop(topology);
        let streams = checker.streams();
        if streams && rtt_task.is_none() {
            rtt_task = Some(AbortOnDrop(tokio::spawn(checker.measure_round_trips())));
        }
        let more_to_come = checker.connection.as_ref().is_some_and(Connection::more_to_come);
        let goes_on = (streams || more_to_come) && !checker.told_nothing;
        if !(goes_on || lost_by_network) {
            checker.monitor.wait_for_next().await;
            if cancel.has_changed().unwrap_or(false) {
                cancel.mark_unchanged();
                checker.connection = None;
            }
        }
    }
}

impl Checker {
    fn emit(&self, event: TopologyEvent) {
        self.monitor.listener.event(&Event::Topology(event));
    }

    /// Whether the next check lets the server wait with its answer.
    fn streams(&self) -> bool {
        self.monitor.settings.monitoring_mode != MonitoringMode::Poll
            && self.connection.is_some()
            && self.hello.as_ref().is_some_and(|hello| hello.topology_version.is_some())
    }

    async fn check(&mut self) -> Result<ServerDescription> {
        let awaited = self.streams();
        let address = self.monitor.address.clone();
        self.emit(TopologyEvent::HeartbeatStarted { address: address.clone(), awaited });
        let started = Instant::now();
        match self.ask(awaited).await {
            Ok((reply, sample)) => {
                let duration = started.elapsed();
                if let Some(sample) = sample {
                    self.monitor.rtt.add(sample);
                }
                let hello = HelloReply::from_document(&reply);
                let known = self.hello.as_ref().and_then(|hello| hello.topology_version);
                self.told_nothing = awaited && duration.is_zero() && known == hello.topology_version;
                self.emit(TopologyEvent::HeartbeatSucceeded { address: address.clone(), awaited, reply, duration });
                self.hello = Some(hello.clone());
                let (average, minimum) = (self.monitor.rtt.average(), self.monitor.rtt.minimum());
                Ok(ServerDescription::answered(address, hello, average, minimum, Instant::now()))
            }
            Err(error) => {
                self.connection = None;
                self.hello = None;
                self.told_nothing = false;
                self.monitor.rtt.reset();
                let duration = started.elapsed();
                self.emit(TopologyEvent::HeartbeatFailed { address, awaited, error: error.clone(), duration });
                Err(error)
            }
        }
    }

    /// Gets a `hello` reply, and the round trip that it was, unless the server waited with it.
    async fn ask(&mut self, awaited: bool) -> Result<(Document, Option<Duration>)> {
        let Some(connection) = &mut self.connection else {
            let opened = open(&self.monitor.opener, &self.monitor.settings, &self.monitor.address).await?;
            self.connection = Some(opened.connection);
            return Ok((opened.reply, Some(opened.round_trip)));
        };
        let settings = &self.monitor.settings;
        let mut limit = settings.connect_timeout;
        if awaited && !limit.is_zero() {
            limit = limit.saturating_add(settings.heartbeat_frequency);
        }
        let limit = ReadLimit::silence(limit);
        let started = Instant::now();
        if !connection.more_to_come() {
            let mut body = hello_command(self.hello.as_ref());
            let mut flags = 0;
            if let (true, Some(version)) = (awaited, self.hello.as_ref().and_then(|hello| hello.topology_version)) {
                body.insert("topologyVersion", version.to_document());
                body.insert(
                    "maxAwaitTimeMS",
                    i64::try_from(settings.heartbeat_frequency.as_millis()).unwrap_or(i64::MAX),
                );
                flags = MessageFlags::EXHAUST_ALLOWED;
            }
            send_hello(connection, &self.monitor.opener, settings, body, flags, limit).await?;
        }
        let reply = connection.receive(limit).await?;
        if !is_ok(&reply) {
            return Err(command_error(reply).at(&self.monitor.address));
        }
        Ok((reply, (!awaited).then(|| started.elapsed())))
    }

    /// The task that measures round trips on its own connection while answers are awaited. It never touches the
    /// topology.
    fn measure_round_trips(&self) -> impl Future<Output = ()> + Send + 'static {
        let (rtt, settings) = (self.monitor.rtt.clone(), self.monitor.settings.clone());
        let (opener, address) = (self.monitor.opener.clone(), self.monitor.address.clone());
        async move {
            let mut connection: Option<Connection> = None;
            loop {
                let sample = match &mut connection {
                    None => open(&opener, &settings, &address).await.map(|opened| {
                        connection = Some(opened.connection);
                        settings.profile.handshake_is_rtt_sample.then_some(opened.round_trip)
                    }),
                    Some(open) => ping(open, &opener, &settings).await.map(Some),
                };
                match sample {
                    Ok(Some(sample)) => rtt.add(sample),
                    Ok(None) => {}
                    // The monitor finds out by itself; here only the connection is given up.
                    Err(_) => connection = None,
                }
                sleep(settings.heartbeat_frequency).await;
            }
        }
    }
}

async fn open(opener: &Opener, settings: &ClientSettings, address: &ServerAddress) -> Result<Opened> {
    let read = ReadLimit::silence(settings.connect_timeout);
    let limits = OpenLimits { connect: settings.connect_timeout, read, deadline: None };
    opener.open(address, opener.next_id(), limits, Purpose::Monitoring).await
}

async fn ping(connection: &mut Connection, opener: &Opener, settings: &ClientSettings) -> Result<Duration> {
    let limit = ReadLimit::silence(settings.connect_timeout);
    let started = Instant::now();
    let body = hello_command(Some(connection.hello()));
    send_hello(connection, opener, settings, body, 0, limit).await?;
    connection.receive_unread(limit).await?;
    Ok(started.elapsed())
}

fn hello_command(last: Option<&HelloReply>) -> Document {
    let name = if last.is_some_and(|hello| hello.hello_ok) { "hello" } else { "isMaster" };
    doc! {name: 1, "helloOk": true}
}

async fn send_hello(
    connection: &mut Connection,
    opener: &Opener,
    settings: &ClientSettings,
    mut body: Document,
    flags: u32,
    limit: ReadLimit,
) -> Result<()> {
    if settings.server_api.is_some() {
        if let Some(old) = body.remove("isMaster") {
            body = std::iter::once(("hello".to_owned(), old)).chain(body).collect();
        }
        add_server_api(settings, &mut body);
    }
    body.insert("$db", "admin");
    let request_id = opener.request_ids().next();
    let message = encode_message(&body, &[], flags, request_id.0)?;
    connection.send(message, request_id, false, limit).await
}
