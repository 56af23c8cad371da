//! A rehearsal whose application consumes a topic: the record is produced, consumed, tried again, and made a dead letter by
//! a consumer in its group. The topics may be in memory or a real broker's.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backfire_consumer::{
    ConsumerEvent, Container, DeadLetterRecoverer, Destination, Failure, ProducerRecord, Publisher, Source, StopHandle,
    per_record,
};
use backfire_model::Execution;
use backfire_model::event::{ClientEvent, Observer, What};
use backfire_model::load::ListenerKind;
use backfire_model::predict::{Unpredictable, predict};
use backfire_model::run::Run;
use backfire_model::scenario::Scenario;
use bson::doc;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::application::{OneWrite, THE_RECORD, Write, failure};
use crate::budget::Budget;
use crate::client_events::ClientEvents;
use crate::recorder::Recorder;
use crate::rehearse::{Options, RehearsalError, Stage};
use crate::simulate::{container_settings, outlives_poll_interval};
use crate::workload;

/// How long the group may take to give the consumer its partition. A broker waits 3 s for other members by default.
const ASSIGNED_WITHIN: Duration = Duration::from_secs(60);

/// The consumer of a rehearsal, and the topic that it reads.
pub struct Through<S, P> {
    /// A member of a group that reads `topic`. Its poll interval is the scenario's, scaled.
    pub source: S,
    /// Writes the record, and its dead letter.
    pub publisher: P,
    /// A topic of one partition, in which there is nothing yet. That of its dead letters, with `-dlt`, exists too.
    pub topic: String,
}

/// The consumer's poll interval at this scale.
pub fn max_poll_interval(scenario: &Scenario, scale: f64) -> Duration {
    Duration::from_millis((scenario.kafka.max_poll_interval_ms as f64 * scale).ceil() as u64)
}

/// Whether such a rehearsal has a prediction.
///
/// # Errors
/// It has not; why.
pub fn predictable(scenario: &Scenario, scale: f64) -> Result<(), RehearsalError> {
    let not_here = [
        ("retry.inner", !scenario.retry.inner.is_empty()),
        ("retry.restart_after_ms", scenario.retry.restart_after_ms.is_some()),
        ("retry.budget", scenario.retry.budget.is_some()),
        ("kafka.listener = \"batch\"", scenario.kafka.listener == ListenerKind::Batch),
    ];
    if let Some((what, _)) = not_here.into_iter().find(|(_, is_set)| *is_set) {
        return Err(RehearsalError::NotThroughTopic(what));
    }
    predict(&scenario.plan(scale, false)?)?;
    if outlives_poll_interval(scenario, &scenario.plan(1.0, false)?) {
        let why = "an execution and its wait may take longer than max.poll.interval.ms";
        return Err(RehearsalError::Unpredictable(Unpredictable::Chance(why)));
    }
    Ok(())
}

/// Runs a scenario with a consumer of a topic as the application.
///
/// # Errors
/// When it could not be run; a run that differs from its prediction is no error.
pub async fn rehearse_through<S, P>(
    scenario: &Scenario,
    options: &Options,
    through: Through<S, P>,
) -> Result<Run, RehearsalError>
where
    S: Source + 'static,
    P: Publisher + Clone + 'static,
{
    predictable(scenario, options.scale)?;
    let stage = Stage::start(scenario, options, Some(scenario.workload.namespace.clone()), true).await?;
    workload::try_write(&stage.scenario, &stage.control).await?;
    let current = Arc::new(AtomicU32::new(0));
    let events =
        OneWrite { recorder: Arc::clone(&stage.recorder), current: Arc::clone(&current), budget: Budget::default() };
    let (rules, gateway) = (scenario.client.driver, stage.plan.gateway);
    let client = stage.lab.client_by(rules, gateway, &stage.uri, ClientEvents::new(events), options.seed)?;
    client.database("admin").run_command(doc! { "ping": 1 }).await?;

    let Through { source, publisher, topic } = through;
    let mut settings = container_settings(scenario);
    settings.retry.back_off = stage.back_off(options.scale)?;
    // A broker that is gone ends the rehearsal.
    settings.source_patience = ASSIGNED_WITHIN;
    let max_time = stage.plan.max_time_ms.map(Duration::from_millis);
    let write = Write::new(Arc::clone(&stage.scenario), &client, max_time, stage.plan.cancel_after_ms);
    let work = {
        let (recorder, current) = (Arc::clone(&stage.recorder), Arc::clone(&current));
        per_record(move |_| execute(write.clone(), Arc::clone(&recorder), Arc::clone(&current)))
    };
    let (stop, assigned) = (StopHandle::new(), Arc::new(Notify::new()));
    let observer = observer(Arc::clone(&stage.recorder), current, stop.clone(), Arc::clone(&assigned));
    let recoverer = DeadLetterRecoverer::new(publisher.clone(), Destination::default());
    let container = Container::new(source, work, recoverer, settings, options.seed).observer(observer).stop_by(stop);
    let mut running = Box::pin(container.run());
    let joining = async {
        tokio::select! {
            ended = &mut running => Err(ended.err().map_or_else(String::new, |error| error.to_string())),
            () = assigned.notified() => Ok(()),
        }
    };
    match timeout(ASSIGNED_WITHIN, joining).await {
        Ok(joined) => joined.map_err(RehearsalError::Application)?,
        Err(_) => {
            let within_s = ASSIGNED_WITHIN.as_secs();
            let why = format!("the consumer was not given its partition of {topic:?} within {within_s} s");
            return Err(RehearsalError::Application(why));
        }
    }
    stage.set_up().await?;

    stage.recorder.begin();
    let playing = tokio::spawn(Arc::clone(&stage.stalling).play());
    let application = async move {
        let record = ProducerRecord {
            topic: topic.as_str().into(),
            partition: Some(0),
            value: Some(scenario.name.clone().into_bytes()),
            ..ProducerRecord::default()
        };
        publisher.publish(record).await.map_err(|error| error.to_string())?;
        running.await.map_err(|error| error.to_string())
    };
    match stage.plan.hang_up_after_ms {
        None => pin!(application).await.map_err(RehearsalError::Application)?,
        Some(hang_up_after_ms) => stage.hang_up(&client, application, hang_up_after_ms).await,
    }
    let waiting_resends = stage.recorder.with_ledger(backfire_model::ledger::Ledger::waiting_resends);
    playing.abort();
    client.close().await;
    stage.finish(options.scale, waiting_resends).await
}

/// One execution, told to the recorder.
async fn execute(write: Write, recorder: Arc<Recorder>, current: Arc<AtomicU32>) -> Result<(), Failure> {
    let execution = Execution(current.fetch_add(1, Ordering::AcqRel) + 1);
    recorder.record(What::Client(ClientEvent::ExecutionStarted { execution }));
    match write.execute(THE_RECORD, execution).await {
        Ok(()) => {
            recorder.record(What::Client(ClientEvent::ExecutionSucceeded { execution }));
            Ok(())
        }
        Err(error) => {
            let failure = failure(&error);
            let error = failure.to_string();
            recorder.record(What::Client(ClientEvent::ExecutionFailed { execution, error }));
            Err(failure)
        }
    }
}

/// Tells the recorder what the consumer decides, and ends it when the record is committed.
fn observer(
    recorder: Arc<Recorder>,
    current: Arc<AtomicU32>,
    stop: StopHandle,
    assigned: Arc<Notify>,
) -> impl FnMut(&ConsumerEvent<'_>) + Send {
    move |event| {
        let execution = Execution(current.load(Ordering::Acquire));
        let client = |event| recorder.record(What::Client(event));
        match event {
            ConsumerEvent::Assigned { partitions } if !partitions.is_empty() => assigned.notify_one(),
            ConsumerEvent::Decided { wait_ms: Some(wait_ms), back_off_restarted, .. } => {
                if *back_off_restarted {
                    client(ClientEvent::BackOffRestarted { execution });
                }
                client(ClientEvent::BackOff { execution, wait_ms: *wait_ms });
            }
            ConsumerEvent::Recovered { .. } => client(ClientEvent::DeadLetter { execution }),
            ConsumerEvent::RecoveryFailed { error, .. } => {
                client(ClientEvent::RecoveryFailed { execution, error: error.to_string() });
            }
            // There is one record.
            ConsumerEvent::Committed { .. } => stop.stop(),
            _ => {}
        }
    }
}
