//! The consumers of a simulation: one group, one partition each.

use std::sync::Arc;
use std::time::Duration;

use backfire_consumer::source::memory::{Broker, ConsumerSettings};
use backfire_consumer::{
    BoundedMode, ConsumerEvent, Container, ContainerSettings, DeadLetterRecoverer, Destination, Failure, Mode,
    ProducerRecord, PublishError, Publisher, Record, SpringKafkaVersion, SpringWaits, StopHandle, TopicPartition,
    WaitMode, per_record,
};
use backfire_driver::Client;
use backfire_model::connection_string::ConnectionString;
use backfire_model::event::ClientEvent;
use backfire_model::load::{DeadLetterTopic, ErrorHandling};
use backfire_model::predict::Plan;
use backfire_model::scenario::Scenario;
use backfire_model::{ConsumerId, RecordId};
use bson::doc;
use tokio::task::JoinSet;

use super::TOPIC;
use super::recorder::{Clients, RUNNING, Recorder};
use crate::application::{Write, failure};
use crate::client_events::ClientEvents;
use crate::lab::Lab;
use crate::rehearse::RehearsalError;

/// The group's name.
const GROUP: &str = "backfire";

/// Running consumers.
pub(super) struct Consumers {
    clients: Vec<Client>,
    tasks: JoinSet<()>,
}

/// Where dead letters go; it may fail.
#[derive(Clone)]
struct DeadLetterTopics {
    broker: Broker,
    fails: bool,
}

impl Publisher for DeadLetterTopics {
    async fn publish(&self, record: ProducerRecord) -> Result<backfire_consumer::Position, PublishError> {
        if self.fails {
            return Err(PublishError { message: "the dead-letter topic is not available".to_owned() });
        }
        self.broker.publish(record).await
    }

    async fn partitions(&self, topic: &str) -> Option<i32> {
        Publisher::partitions(&self.broker, topic).await
    }
}

/// A record's id; topics in memory count from 0.
fn id(record: &Record) -> RecordId {
    RecordId { partition: record.partition.unsigned_abs(), offset: record.offset.unsigned_abs() }
}

fn numbers(partitions: &[TopicPartition]) -> Vec<u32> {
    partitions.iter().map(|partition| partition.partition.unsigned_abs()).collect()
}

/// A consumer's settings: the scenario's, its times as they are.
pub(crate) fn container_settings(scenario: &Scenario) -> ContainerSettings {
    let kafka = &scenario.kafka;
    let mut settings = ContainerSettings::spring(SpringKafkaVersion::default());
    settings.retry.back_off = scenario.retry.back_off.clone();
    settings.retry.spring = scenario.retry.spring_framework;
    settings.retry.reset_on_exception_change = scenario.retry.reset_on_exception_change;
    settings.retry.wait_mode = WaitMode::Exact;
    settings.max_poll_records = usize::try_from(kafka.max_poll_records).unwrap_or(usize::MAX);
    match (kafka.error_handling, &mut settings.mode) {
        (ErrorHandling::Bounded, mode) => {
            let interval = Duration::from_millis(kafka.max_poll_interval_ms);
            let bounded = BoundedMode::default();
            let short = |time: Duration| time.min(interval / 2);
            *mode = Mode::Bounded(BoundedMode {
                keep_alive: short(bounded.keep_alive),
                drain_timeout: short(bounded.drain_timeout),
                ..bounded
            });
        }
        (ErrorHandling::SpringPausing, Mode::Spring(spring)) => spring.waits = SpringWaits::PauseContainer,
        _ => {}
    }
    settings
}

impl Consumers {
    /// Starts them all. They join the group and wait for records.
    #[expect(clippy::too_many_arguments, reason = "what a consumer needs; called once")]
    pub(super) async fn start(
        scenario: &Scenario,
        plan: &Plan,
        lab: &Lab,
        uri: &ConnectionString,
        broker: &Broker,
        recorder: &Arc<Recorder>,
        stop: &StopHandle,
        seed: u64,
    ) -> Result<Self, RehearsalError> {
        let application = |error: String| RehearsalError::Application(error);
        let scenario = Arc::new(scenario.clone());
        let (settings, load) = (container_settings(&scenario), &scenario.load);
        let dead_letters =
            DeadLetterTopics { broker: broker.clone(), fails: scenario.kafka.dead_letters == DeadLetterTopic::Failing };
        let max_time = plan.max_time_ms.map(Duration::from_millis);
        let mut all = Self { clients: Vec::new(), tasks: JoinSet::new() };
        for number in 0..load.consumers {
            if number % load.consumers_per_client == 0 {
                let client = lab.client(uri, ClientEvents::new(Clients(Arc::clone(recorder))), seed ^ (number << 8))?;
                client.database("admin").run_command(doc! { "ping": 1 }).await?;
                all.clients.push(client);
            }
            let Some(client) = all.clients.last() else { break };
            let consumer = ConsumerId(u32::try_from(number + 1).unwrap_or(u32::MAX));
            let mut joining = ConsumerSettings::new(GROUP, [TOPIC]);
            joining.max_poll_interval = Duration::from_millis(scenario.kafka.max_poll_interval_ms);
            let source = broker.consumer(joining).map_err(|error| application(error.to_string()))?;
            let write = Write::new(Arc::clone(&scenario), client, max_time);
            let work = {
                let recorder = Arc::clone(recorder);
                per_record(move |delivery| {
                    let (write, recorder, record) = (write.clone(), Arc::clone(&recorder), id(delivery.record()));
                    async move { execute(&write, &recorder, consumer, record).await }
                })
            };
            let recoverer = DeadLetterRecoverer::new(dead_letters.clone(), Destination::default());
            let observer = {
                let recorder = Arc::clone(recorder);
                move |event: &ConsumerEvent<'_>| observe(&recorder, consumer, event)
            };
            let container = Container::new(source, work, recoverer, settings.clone(), seed.wrapping_add(number))
                .observer(observer)
                .stop_by(stop.clone());
            all.tasks.spawn(async move {
                if let Err(error) = container.run().await {
                    tracing::error!(%consumer, "the consumer stopped: {error}");
                }
            });
        }
        Ok(all)
    }

    /// Ends them where they are.
    pub(super) fn end(mut self) {
        self.tasks.abort_all();
    }
}

async fn execute(write: &Write, recorder: &Recorder, consumer: ConsumerId, record: RecordId) -> Result<(), Failure> {
    let running = recorder.execution(consumer, record);
    let execution = running.execution;
    match RUNNING.scope(running, write.execute(record, execution)).await {
        Ok(()) => {
            recorder.of_record(consumer, record, ClientEvent::ExecutionSucceeded { execution });
            Ok(())
        }
        Err(error) => {
            let failure = failure(&error);
            let error = failure.to_string();
            recorder.of_record(consumer, record, ClientEvent::ExecutionFailed { execution, error });
            Err(failure)
        }
    }
}

fn observe(recorder: &Recorder, consumer: ConsumerId, event: &ConsumerEvent<'_>) {
    match event {
        ConsumerEvent::Assigned { partitions } => {
            recorder.of_consumer(consumer, ClientEvent::Assigned { partitions: numbers(partitions) });
        }
        ConsumerEvent::Revoked { partitions } => {
            recorder.of_consumer(consumer, ClientEvent::Revoked { partitions: numbers(partitions) });
        }
        ConsumerEvent::Lost { partitions } => {
            recorder.of_consumer(consumer, ClientEvent::Lost { partitions: numbers(partitions) });
        }
        ConsumerEvent::CommitFailed { offsets, .. } => {
            let partitions = offsets.iter().map(|(partition, _)| partition.partition.unsigned_abs()).collect();
            recorder.of_consumer(consumer, ClientEvent::CommitFailed { partitions });
        }
        ConsumerEvent::Committed { offsets } => {
            for (partition, offset) in *offsets {
                recorder.committed(partition.partition, offset.unsigned_abs());
            }
        }
        ConsumerEvent::Decided { record, wait_ms: Some(wait_ms), back_off_restarted, .. } => {
            let execution = recorder.executions_of(id(record));
            if *back_off_restarted {
                recorder.of_record(consumer, id(record), ClientEvent::BackOffRestarted { execution });
            }
            recorder.of_record(consumer, id(record), ClientEvent::BackOff { execution, wait_ms: *wait_ms });
        }
        ConsumerEvent::Recovered { record, .. } => {
            let execution = recorder.executions_of(id(record));
            recorder.of_record(consumer, id(record), ClientEvent::DeadLetter { execution });
        }
        ConsumerEvent::RecoveryFailed { record, error, .. } => {
            let execution = recorder.executions_of(id(record));
            let event = ClientEvent::RecoveryFailed { execution, error: error.to_string() };
            recorder.of_record(consumer, id(record), event);
        }
        _ => {}
    }
}
