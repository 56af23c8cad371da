//! A simulation: many consumers and many records, the real server, driver and error handler, on a paused clock.
//!
//! It has to run on a current-thread runtime whose clock is paused. The same seed gives the same events.

mod consumers;
mod recorder;
pub mod sweep;

use std::sync::Arc;
use std::time::Duration;

use backfire_consumer::source::memory::{Broker, BrokerSettings};
use backfire_consumer::{ProducerRecord, SplitMix64, StopHandle};
use backfire_driver::Client;
use backfire_model::event::Observer;
use backfire_model::load::{ErrorHandling, ListenerKind};
use backfire_model::predict::{Plan, Stall, Unpredictable, predict};
use backfire_model::scenario::Scenario;
use backfire_model::simulated::Simulated;
use backfire_model::tally::Tally;
use backfire_server::ServerConfig;
use backfire_server::profile::{DeadlineOrigin, PROFILES, Profile};
use bson::doc;

use crate::application::THE_RECORD;
use crate::lab::Lab;
use crate::rehearse::{CONTROL_URI, RehearsalError, Transport, scaled_uri};
use crate::stall::Stalling;
use crate::workload;
use consumers::Consumers;
pub(crate) use consumers::container_settings;
use recorder::Recorder;

pub use recorder::{EventWatcher, ProgressWatcher};

/// The topic of the records.
const TOPIC: &str = "records";
/// Where dead letters go.
const DEAD_LETTER_TOPIC: &str = "records-dlt";
/// When everything has been read that was sent to a server that stood still.
const AFTER_FREEZE: Duration = Duration::from_secs(1);
/// How long operations may take to end after everything that held them is gone.
const END_PATIENCE: Duration = Duration::from_secs(3600);

/// How a simulation is run.
#[derive(Default)]
pub struct SimulateOptions {
    /// Seed of everything random.
    pub seed: u64,
    /// How many events to keep.
    pub events_max: usize,
    /// Sees every event as it happens.
    pub watcher: Option<EventWatcher>,
    /// Sees how far it is.
    pub progress: Option<ProgressWatcher>,
}

/// Runs a scenario with all its consumers and records, on a clock of its own that stands still while there is work to do.
///
/// # Errors
/// When it could not be run. A run that is not over at the scenario's `load.until_ms` is no error.
pub fn simulate(scenario: &Scenario, options: SimulateOptions) -> Result<Simulated, RehearsalError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?
        .block_on(simulate_on_paused_clock(scenario, options))
}

/// The same, on the clock of the runtime that is there; it has to be a current-thread runtime with a paused clock.
///
/// # Errors
/// As those of [`simulate`].
pub async fn simulate_on_paused_clock(
    scenario: &Scenario,
    options: SimulateOptions,
) -> Result<Simulated, RehearsalError> {
    let profile = Profile::by_name(&scenario.profile).ok_or_else(|| {
        let allowed = PROFILES.map(|profile| profile.name).join(", ");
        RehearsalError::Profile(scenario.profile.clone(), allowed)
    })?;
    if scenario.workload.hang_up_after_ms.is_some() {
        return Err(RehearsalError::NotSimulated("workload.hang_up_after_ms is about one client"));
    }
    let plan = scenario.plan(1.0, profile.deadline_origin == DeadlineOrigin::CommandStart)?;
    let predicted = match outlives_poll_interval(scenario, &plan) {
        true => Err(Unpredictable::Chance("an execution and its wait may take longer than max.poll.interval.ms")),
        false => predict(&plan),
    };
    let predicted = match predicted {
        Ok(_) if plan.starts_over.is_some() => {
            Err(Unpredictable::Chance("a consumer that is started again joins its group in its own time"))
        }
        predicted => predicted,
    };
    let (load, namespace) = (&scenario.load, scenario.namespace());
    let tally = match plan.gateway {
        None => Tally::new(namespace.to_string()),
        Some(_) => Tally::behind_gateway(namespace.to_string()),
    };
    let recorder = Recorder::new(tally, options.events_max, options.watcher, options.progress);
    let mut config = ServerConfig::new("", 0);
    config.profile = profile;
    config.seed = options.seed;
    config.observer = Some(Arc::clone(&recorder) as Arc<dyn Observer>);
    config.argv = vec!["backfire".to_owned(), "simulate".to_owned(), scenario.name.clone()];
    let lab = match plan.stall {
        Stall::Freeze => Lab::start_freezable(config).await?,
        _ => Lab::start(config, Transport::Memory).await?,
    };
    let uri = lab.uri(&scaled_uri(scenario, &plan)?)?;
    let control = lab.client(&lab.uri(&CONTROL_URI.parse()?)?, (), options.seed ^ 1)?;
    let service = (load.service_ms > 0).then_some((load.service_ms, load.service));
    let stalling = Stalling::new(&plan, &namespace, uri.app_name(), true, service, &control, &lab);
    set_up(scenario, &control, &plan).await?;

    // Kafka's default for the delay.
    let settings = BrokerSettings { initial_rebalance_delay: Duration::from_secs(3), ..BrokerSettings::default() };
    let broker = Broker::new(settings, SplitMix64::new(options.seed));
    let partitions = i32::try_from(load.partitions()).unwrap_or(i32::MAX);
    let topics = [TOPIC, DEAD_LETTER_TOPIC].map(|topic| broker.create_topic(topic, partitions));
    topics.into_iter().collect::<Result<(), _>>().map_err(|error| RehearsalError::Application(error.to_string()))?;
    let stop = StopHandle::new();
    let consumers = Consumers::start(scenario, &plan, &lab, &uri, &broker, &recorder, &stop, options.seed).await?;
    recorder.until_assigned(load.partitions()).await;
    // The clients are connected by now: without a primary they could not be.
    stalling.set_up().await?;

    recorder.begin();
    let began = tokio::time::Instant::now();
    let playing = tokio::spawn(Arc::clone(&stalling).play());
    let producing = tokio::spawn(produce(broker.clone(), partitions, load.records, load.arrival_interval_ms));
    let all = load.records_all();
    let until = began + Duration::from_millis(load.until_ms);
    let is_complete = tokio::time::timeout_at(until, recorder.until_committed(all)).await.is_ok();
    let application_ended_ms = recorder.now_ms();
    playing.abort();
    let stall_ended_ms = plan
        .stall
        .is_lifted()
        .then(|| plan.stall_for_ms.map_or(application_ended_ms, |for_ms| plan.stall_from_ms + for_ms))
        .map(|ended_ms| ended_ms.min(application_ended_ms));
    if is_complete {
        stalling.lift().await?;
        let ended = async {
            if plan.stall == Stall::Freeze {
                // What lay unread is read now.
                tokio::time::sleep(AFTER_FREEZE).await;
            }
            loop {
                lab.held().until_none().await;
                recorder.until_quiet().await;
                if lab.held().is_none() {
                    return;
                }
            }
        };
        if tokio::time::timeout(END_PATIENCE, ended).await.is_err() {
            return Err(RehearsalError::Stuck(0, END_PATIENCE.as_secs()));
        }
    }
    let documents = control.database(&namespace.db).collection(&namespace.coll).count_documents(doc! {}).await?;
    let first = recorder.numbers_of(THE_RECORD);
    let (mut outcome, series, events, events_dropped) = recorder.finish(stall_ended_ms);
    outcome.documents = documents;
    producing.abort();
    stop.stop();
    consumers.end();
    control.close().await;
    lab.stop().await;
    Ok(Simulated {
        scenario: scenario.clone(),
        seed: options.seed,
        first,
        outcome,
        series,
        predicted,
        stall_ms: stall_ended_ms.map(|ended_ms| (plan.stall_from_ms, ended_ms)),
        is_complete,
        events,
        events_dropped,
    })
}

/// Whether a consumer that meets the stall does not poll for so long that it is out of its group (facts/client.md D6, Y2).
pub(crate) fn outlives_poll_interval(scenario: &Scenario, plan: &Plan) -> bool {
    // `timeoutMS` is for a bulk as a whole, and there is no resend after it.
    let sends = match plan.timeout_ms {
        Some(_) => 1,
        None => plan.commands.iter().map(|command| if command.resends { 2 } else { 1 }).sum(),
    };
    let patience_ms = plan.timeout_ms.or(plan.socket_timeout_ms).unwrap_or(u64::MAX);
    let records = match scenario.kafka.listener {
        ListenerKind::Single => 1,
        ListenerKind::Batch => scenario.load.records_all().min(scenario.kafka.max_poll_records),
    };
    let wait_ms = match scenario.kafka.error_handling {
        ErrorHandling::Spring => plan.waits_ms.iter().copied().max().unwrap_or(0),
        ErrorHandling::SpringPausing => 0,
        // It polls while it executes.
        ErrorHandling::Bounded => return false,
    };
    let run_ms = patience_ms.saturating_mul(sends);
    let call_ms = run_ms.saturating_mul(plan.runs_per_call()).saturating_add(plan.waits_per_call_ms());
    let longest_ms = call_ms.saturating_mul(records).saturating_add(wait_ms);
    plan.stall != Stall::None && longest_ms >= scenario.kafka.max_poll_interval_ms
}

async fn set_up(scenario: &Scenario, control: &Client, plan: &Plan) -> Result<(), RehearsalError> {
    workload::try_write(&Arc::new(scenario.clone()), control).await?;
    workload::seed(scenario, control).await?;
    let tickets = plan.write_tickets as i64;
    let tickets = doc! { "setParameter": 1, "wiredTigerConcurrentWriteTransactions": tickets };
    control.database("admin").run_command(tickets).await?;
    let batch = scenario.server.max_write_batch_size as i64;
    control.database("admin").run_command(doc! { "setParameter": 1, "labMaxWriteBatchSize": batch }).await?;
    Ok(())
}

/// Kafka's default for `max.poll.records`.
const POLL_RECORDS: u64 = 500;

/// Puts the records into the topic: all at once, or one per partition at every interval.
async fn produce(broker: Broker, partitions: i32, records: u64, interval_ms: u64) {
    for number in 0..records {
        if number > 0 && interval_ms > 0 {
            tokio::time::sleep(Duration::from_millis(interval_ms)).await;
        }
        for partition in 0..partitions {
            let record =
                ProducerRecord { topic: TOPIC.into(), partition: Some(partition), ..ProducerRecord::default() };
            if let Err(error) = broker.send(record) {
                tracing::error!("a record was not stored: {error}");
                return;
            }
        }
        // A million records are not stored before the first is read; those of a poll are.
        if number % POLL_RECORDS == POLL_RECORDS - 1 {
            tokio::task::yield_now().await;
        }
    }
}
