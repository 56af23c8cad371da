//! A rehearsal: arms the stall, runs the application, counts, compares.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use backfire_driver::{Client, DriverError};
use backfire_model::Namespace;
use backfire_model::connection_string::ConnectionString;
use backfire_model::event::{ClientEvent, Observer, What};
use backfire_model::predict::{Plan, Stall, Unpredictable, predict};
use backfire_model::run::Run;
use backfire_model::scenario::{Scenario, ScenarioError};
use backfire_server::ServerConfig;
use backfire_server::profile::{DeadlineOrigin, PROFILES, Profile};
use bson::{Document, doc};

use crate::application::{self, OneWrite, Write};
use crate::budget::Budget;
use crate::client_events::ClientEvents;
use crate::inner::Layers;
use crate::lab::Lab;
use crate::recorder::{Recorder, Watcher};
use crate::stall::Stalling;
use crate::workload;

/// How clients reach the lab server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP on the loopback interface.
    Tcp,
    /// Pipes in memory; goes with a paused clock.
    Memory,
}

/// How a rehearsal is run.
#[derive(Clone)]
pub struct Options {
    /// Every time of the scenario is multiplied by this.
    pub scale: f64,
    /// How clients reach the server.
    pub transport: Transport,
    /// Seed of everything random.
    pub seed: u64,
    /// The wall clock's time at the start, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// Sees every event as it happens, for progress.
    pub watcher: Option<Watcher>,
}

/// Why a rehearsal could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The scenario cannot be used.
    #[error("{0}")]
    Scenario(#[from] ScenarioError),
    /// There is no prediction for it.
    #[error("{0}")]
    Unpredictable(#[from] Unpredictable),
    /// The scenario names a server version that the lab server does not know.
    #[error("profile '{0}' is not known; allowed are {1}")]
    Profile(String, String),
    /// The server could not be started.
    #[error("cannot start the lab server: {0}")]
    Server(#[from] std::io::Error),
    /// The connection string cannot be used.
    #[error("{0}")]
    Uri(#[from] backfire_model::connection_string::Error),
    /// The scenario's write is one that the server refuses, stall or not.
    #[error("the write fails even without a stall: {0}")]
    Write(DriverError),
    /// Setting up or counting failed.
    #[error("the lab server refused a set-up command: {0}")]
    Driver(#[from] DriverError),
    /// The error handler could not be set up.
    #[error("{0}")]
    Application(String),
    /// Operations did not end though nothing held them any more.
    #[error("{0} operations had not ended {1} s after the stall was lifted")]
    Stuck(u64, u64),
    /// The program under test could not be started.
    #[error("cannot run '{0}': {1}")]
    App(String, std::io::Error),
    /// The shell could not run the program under test.
    #[error("cannot run '{0}': the shell ended with status {1} ({2}), and no write arrived")]
    AppNotRun(String, i32, &'static str),
    /// It is about backfire's own client, and a program of somebody else's has another.
    #[error("{0} is about backfire's own client; with --app the program is its own")]
    NotOfApp(&'static str),
    /// It has something that a rehearsal through a topic has not.
    #[error("{0} is not rehearsed through a topic; rehearse without one, or use 'backfire simulate'")]
    NotThroughTopic(&'static str),
    /// It has something that a simulation has not.
    #[error("{0}; use 'backfire rehearse'")]
    NotSimulated(&'static str),
    /// The recording has a limit.
    #[error("{0} events did not fit into the recording; a scenario of this size cannot be rehearsed")]
    TooManyEvents(u64),
}

/// How long operations may take to end after everything that held them is gone.
const END_PATIENCE_S: u64 = 60;

/// The same of a gateway that holds writes.
const GATEWAY_PATIENCE_MS: u64 = 24 * 3_600_000;

/// A connection string for the client that sets up and counts: nothing but the server.
///
/// It asks the server how it is when it has to, and not every ten seconds in between: on a paused clock, heartbeats would
/// be most of what happens.
pub(crate) const CONTROL_URI: &str =
    "mongodb://localhost/?appName=backfire-control&serverMonitoringMode=poll&heartbeatFrequencyMS=3600000";

/// A scenario on its way.
pub(crate) struct Stage {
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) plan: Plan,
    pub(crate) stalling: Arc<Stalling>,
    pub(crate) lab: Lab,
    pub(crate) control: Client,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) uri: ConnectionString,
    pub(crate) namespace: Namespace,
}

impl Stage {
    /// Starts the server. `counted`: the collection whose writes count.
    pub(crate) async fn start(
        scenario: &Scenario,
        options: &Options,
        counted: Option<String>,
        by_name: bool,
    ) -> Result<Self, RehearsalError> {
        let profile = Profile::by_name(&scenario.profile).ok_or_else(|| {
            let allowed = PROFILES.map(|profile| profile.name).join(", ");
            RehearsalError::Profile(scenario.profile.clone(), allowed)
        })?;
        let plan = scenario.plan(options.scale, profile.deadline_origin == DeadlineOrigin::CommandStart)?;
        let recorder = Recorder::new(counted, options.watcher.clone());
        let mut config = ServerConfig::new("", options.started_at_ms);
        config.profile = profile;
        config.seed = options.seed;
        config.observer = Some(Arc::clone(&recorder) as Arc<dyn Observer>);
        config.argv = vec!["backfire".to_owned(), "rehearse".to_owned(), scenario.name.clone()];
        let lab = Lab::start(config, options.transport).await?;
        let uri = lab.uri(&scaled_uri(scenario, &plan)?)?;
        let control = lab.client(&lab.uri(&CONTROL_URI.parse()?)?, (), options.seed ^ 1)?;
        let namespace = scenario.namespace();
        let stalling = Stalling::new(&plan, &namespace, uri.app_name(), by_name, None, &control, &lab);
        Ok(Self { scenario: Arc::new(scenario.clone()), plan, stalling, lab, control, recorder, uri, namespace })
    }

    async fn admin(&self, command: Document) -> Result<Document, DriverError> {
        self.control.database("admin").run_command(command).await
    }

    /// Everything as the scenario wants it, the stall included.
    pub(crate) async fn set_up(&self) -> Result<(), DriverError> {
        workload::seed(&self.scenario, &self.control).await?;
        self.admin(doc! { "setParameter": 1, "wiredTigerConcurrentWriteTransactions": self.plan.write_tickets as i64 })
            .await?;
        self.admin(doc! { "setParameter": 1, "labTicketWaitSliceMillis": self.plan.ticket_slice_ms as i64 }).await?;
        let batch = self.scenario.server.max_write_batch_size as i64;
        self.admin(doc! { "setParameter": 1, "labMaxWriteBatchSize": batch }).await?;
        self.stalling.set_up().await
    }

    /// Lifts the stall, waits until every write has ended, counts the documents and compares.
    pub(crate) async fn finish(self, scale: f64, waiting_resends: u64) -> Result<Run, RehearsalError> {
        self.stalling.lift().await?;
        let held_ms = match self.plan.stall {
            Stall::FailCommand { hold_ms, .. } => hold_ms,
            _ => 0,
        };
        let gateway_ms = self.plan.gateway.map_or(0, |gateway| gateway.hold_ms.min(GATEWAY_PATIENCE_MS));
        let patience = Duration::from_millis(held_ms + gateway_ms) + Duration::from_secs(END_PATIENCE_S);
        let ended = async {
            loop {
                self.lab.held().until_none().await;
                self.recorder.until(|ledger| ledger.live_operations() == 0).await;
                if self.lab.held().is_none() {
                    return;
                }
            }
        };
        if tokio::time::timeout(patience, ended).await.is_err() {
            let left = self.recorder.with_ledger(backfire_model::ledger::Ledger::live_operations);
            return Err(RehearsalError::Stuck(left, patience.as_secs()));
        }
        let collection = self.control.database(&self.namespace.db).collection(&self.namespace.coll);
        let documents = collection.count_documents(doc! {}).await?;
        let prediction = predict(&self.plan)?;
        let (counts, extras, namespace) = self.recorder.with_ledger(|ledger| {
            (ledger.counts(waiting_resends, documents), ledger.extras(), ledger.namespace().map(str::to_owned))
        });
        let (events, dropped) = self.recorder.finish();
        self.control.close().await;
        self.lab.stop().await;
        if dropped > 0 {
            return Err(RehearsalError::TooManyEvents(dropped));
        }
        Ok(Run {
            scenario: self.scenario.name.clone(),
            scale,
            namespace,
            predicted: (prediction.counts, prediction.extras),
            measured: (counts, extras),
            events,
        })
    }
}

/// The scenario's connection string with its times multiplied by the scale.
pub(crate) fn scaled_uri(scenario: &Scenario, plan: &Plan) -> Result<ConnectionString, RehearsalError> {
    let mut uri = scenario.connection_string()?;
    if let Some(ms) = plan.socket_timeout_ms {
        uri = uri.with_option("socketTimeoutMS", &ms.to_string())?;
    }
    if let Some(ms) = plan.timeout_ms {
        uri = uri.with_option("timeoutMS", &ms.to_string())?;
    }
    Ok(uri)
}

/// Runs a scenario with backfire's own client and error handler.
///
/// # Errors
/// When it could not be run; a run that differs from its prediction is no error.
pub async fn rehearse(scenario: &Scenario, options: &Options) -> Result<Run, RehearsalError> {
    predict(&scenario.plan(options.scale, false)?)?;
    let stage = Stage::start(scenario, options, Some(scenario.workload.namespace.clone()), true).await?;
    workload::try_write(&stage.scenario, &stage.control).await?;
    stage.set_up().await?;
    let current = Arc::new(AtomicU32::new(0));
    let budget = Budget::new(stage.plan.retry_budget);
    let sink =
        OneWrite { recorder: Arc::clone(&stage.recorder), current: Arc::clone(&current), budget: budget.clone() };
    let events = ClientEvents::new(sink);
    let (rules, gateway) = (scenario.client.driver, stage.plan.gateway);
    let client = stage.lab.client_by(rules, gateway, &stage.uri, events, options.seed)?;
    // A service has connections before its first write; so has this client.
    client.database("admin").run_command(doc! { "ping": 1 }).await?;

    stage.recorder.begin();
    let playing = tokio::spawn(Arc::clone(&stage.stalling).play());
    let max_time = stage.plan.max_time_ms.map(Duration::from_millis);
    let write = Write::new(Arc::clone(&stage.scenario), &client, max_time, stage.plan.cancel_after_ms);
    let back_off = stage.back_off(options.scale)?;
    let layers = Layers::of(scenario, options.scale)?;
    let restart = stage.plan.starts_over.map(|(wait_ms, _)| Duration::from_millis(wait_ms));
    let application = application::run(write, back_off, layers, restart, budget, Arc::clone(&stage.recorder), current);
    match stage.plan.hang_up_after_ms {
        None => application.await.map_err(RehearsalError::Application)?,
        Some(hang_up_after_ms) => stage.hang_up(&client, application, hang_up_after_ms).await,
    }
    let waiting_resends = stage.recorder.with_ledger(backfire_model::ledger::Ledger::waiting_resends);
    playing.abort();
    client.close().await;
    stage.finish(options.scale, waiting_resends).await
}

impl Stage {
    /// The application's back-off with its waits scaled: a list of waits, whatever made them.
    pub(crate) fn back_off(&self, scale: f64) -> Result<backfire_model::BackOff, RehearsalError> {
        let back_off = self.scenario.retry.back_off.scaled(scale);
        back_off
            .validate(self.scenario.retry.spring_framework)
            .map_err(|error| RehearsalError::Application(error.to_string()))?;
        Ok(back_off)
    }

    /// Runs the application and the reads beside it, and drops them all after a while: their connections are closed.
    pub(crate) async fn hang_up(
        &self,
        client: &Client,
        application: impl Future<Output = Result<(), String>>,
        hang_up_after_ms: u64,
    ) {
        let collection = client.database(&self.namespace.db).collection(&self.namespace.coll);
        let reads = (0..self.plan.held_reads).map(|_| {
            let collection = collection.clone();
            async move { drop(collection.find(doc! {}).await) }
        });
        let everything = futures_util::future::join(application, futures_util::future::join_all(reads));
        let _ = tokio::time::timeout(Duration::from_millis(hang_up_after_ms), everything).await;
        self.recorder.record(What::Client(ClientEvent::HungUp));
    }
}
