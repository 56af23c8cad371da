//! The consumers of a simulation: one group, one partition each.

use std::sync::Arc;
use std::time::Duration;

use backfire_consumer::source::memory::{Broker, ConsumerSettings};
use backfire_consumer::{
    BoundedMode, ConsumerEvent, Container, ContainerSettings, DeadLetterRecoverer, Destination, Failure, Mode,
    ProducerRecord, PublishError, Publisher, Record, RecoverError, Recovered, Recoverer, Spent, SpringKafkaVersion,
    SpringWaits, StopHandle, TopicPartition, WaitMode, Work, WorkError, per_batch, per_record,
};
use backfire_driver::Client;
use backfire_model::connection_string::ConnectionString;
use backfire_model::event::ClientEvent;
use backfire_model::load::{DeadLetterTopic, ErrorHandling, ListenerKind};
use backfire_model::predict::Plan;
use backfire_model::scenario::Scenario;
use backfire_model::{ConsumerId, RecordId};
use bson::doc;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;

use super::TOPIC;
use super::recorder::{Clients, RUNNING, Recorder};
use crate::application::{Write, failure, resets_on_exception_change};
use crate::budget::{Budget, classifier};
use crate::client_events::ClientEvents;
use crate::inner::Layers;
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
    settings.retry.classifier = classifier();
    settings.retry.spring = scenario.retry.spring_framework;
    settings.retry.reset_on_exception_change = resets_on_exception_change(scenario);
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
        let scenario = Arc::new(scenario.clone());
        let (settings, load) = (container_settings(&scenario), &scenario.load);
        let layers = Arc::new(Layers::of(&scenario, 1.0)?);
        let dead_letters =
            DeadLetterTopics { broker: broker.clone(), fails: scenario.kafka.dead_letters == DeadLetterTopic::Failing };
        let max_time = plan.max_time_ms.map(Duration::from_millis);
        let mut all = Self { clients: Vec::new(), tasks: JoinSet::new() };
        let mut budget = Budget::default();
        for number in 0..load.consumers {
            if number % load.consumers_per_client == 0 {
                budget = Budget::new(plan.retry_budget);
                let client = lab.client_by(
                    scenario.client.driver,
                    plan.gateway,
                    uri,
                    ClientEvents::new(Clients { recorder: Arc::clone(recorder), budget: budget.clone() }),
                    seed ^ (number << 8),
                )?;
                client.database("admin").run_command(doc! { "ping": 1 }).await?;
                all.clients.push(client);
            }
            let Some(client) = all.clients.last() else { break };
            let consumer = ConsumerId(u32::try_from(number + 1).unwrap_or(u32::MAX));
            let mut joining = ConsumerSettings::new(GROUP, [TOPIC]);
            joining.max_poll_interval = Duration::from_millis(scenario.kafka.max_poll_interval_ms);
            let call = Call {
                write: Write::new(Arc::clone(&scenario), client, max_time, plan.cancel_after_ms),
                layers: Arc::clone(&layers),
                recorder: Arc::clone(recorder),
                budget: budget.clone(),
                consumer,
            };
            let member = Member {
                broker: broker.clone(),
                joining,
                settings: settings.clone(),
                dead_letters: dead_letters.clone(),
                restart: plan.starts_over.map(|(wait_ms, _)| Duration::from_millis(wait_ms)),
                seed: seed.wrapping_add(number),
                stop: stop.clone(),
                recorder: Arc::clone(recorder),
                consumer,
            };
            match scenario.kafka.listener {
                ListenerKind::Single => {
                    let work = per_record(move |delivery| {
                        let (call, record) = (call.clone(), id(delivery.record()));
                        async move { call.record(record).await }
                    });
                    all.tasks.spawn(member.run(work));
                }
                ListenerKind::Batch => {
                    let work = per_batch(move |delivery| {
                        let (call, records) = (call.clone(), delivery.records().iter().map(|one| id(one)).collect());
                        async move { call.batch(records).await }
                    });
                    all.tasks.spawn(member.run(work));
                }
            }
        }
        Ok(all)
    }

    /// Ends them where they are.
    pub(super) fn end(mut self) {
        self.tasks.abort_all();
    }
}

/// A member of the group, before it runs.
struct Member {
    broker: Broker,
    joining: ConsumerSettings,
    settings: ContainerSettings,
    dead_letters: DeadLetterTopics,
    /// It crashes when a record's retries are used up, and is started again after this long.
    restart: Option<Duration>,
    seed: u64,
    stop: StopHandle,
    recorder: Arc<Recorder>,
    consumer: ConsumerId,
}

impl Member {
    /// Runs until it is told to stop, again and again where it is one that restarts.
    async fn run(self, work: impl Work + Clone) {
        let consumer = self.consumer;
        loop {
            // One that crashes stops itself.
            let stop = if self.restart.is_some() { StopHandle::new() } else { self.stop.clone() };
            let crash = self.restart.map(|_| stop.clone());
            let source = match self.broker.consumer(self.joining.clone()) {
                Ok(source) => source,
                Err(error) => return tracing::error!(%consumer, "the consumer cannot join: {error}"),
            };
            let observer = {
                let (recorder, crashes) = (Arc::clone(&self.recorder), self.restart.is_some());
                move |event: &ConsumerEvent<'_>| {
                    // Who crashes publishes nothing.
                    if !(crashes && matches!(event, ConsumerEvent::RecoveryFailed { .. })) {
                        observe(&recorder, consumer, event);
                    }
                }
            };
            let recoverer = LettersOrCrash {
                letters: DeadLetterRecoverer::new(self.dead_letters.clone(), Destination::default()),
                crash,
            };
            let container = Container::new(source, work.clone(), recoverer, self.settings.clone(), self.seed);
            if let Err(error) = container.observer(observer).stop_by(stop).run().await {
                tracing::error!(%consumer, "the consumer stopped: {error}");
            }
            let Some(restart) = self.restart else { return };
            tokio::time::sleep(restart).await;
        }
    }
}

/// What becomes of a record whose retries are used up: a dead letter, or the consumer's crash.
struct LettersOrCrash {
    letters: DeadLetterRecoverer<DeadLetterTopics>,
    crash: Option<StopHandle>,
}

impl Recoverer for LettersOrCrash {
    async fn recover(&self, record: &Record, failure: &Failure, spent: Spent) -> Result<Recovered, RecoverError> {
        match &self.crash {
            None => self.letters.recover(record, failure, spent).await,
            Some(crash) => {
                crash.stop();
                Err(RecoverError::Publish(PublishError { message: "the consumer crashes".to_owned() }))
            }
        }
    }
}

/// What a listener does when it is called.
#[derive(Clone)]
struct Call {
    write: Write,
    layers: Arc<Layers>,
    recorder: Arc<Recorder>,
    budget: Budget,
    consumer: ConsumerId,
}

impl Call {
    /// With one record: its write, as often as the layers say.
    async fn record(&self, record: RecordId) -> Result<(), Failure> {
        let once = || -> BoxFuture<'static, Result<(), Failure>> {
            let call = self.clone();
            Box::pin(async move { call.execute(record).await })
        };
        let waited = |wait: Duration| {
            let execution = self.recorder.executions_of(record);
            let wait_ms = wait.as_millis() as u64;
            self.recorder.of_record(self.consumer, record, ClientEvent::BackOff { execution, wait_ms });
        };
        self.layers.call(&once, &waited).await
    }

    /// With a batch: the write of each record, up to the first that fails.
    async fn batch(&self, records: Vec<RecordId>) -> Result<(), WorkError> {
        for record in records {
            self.record(record).await?;
        }
        Ok(())
    }

    async fn execute(&self, record: RecordId) -> Result<(), Failure> {
        self.budget.run(self.recorder.executions_of(record).0 == 0)?;
        let running = self.recorder.execution(self.consumer, record);
        let execution = running.execution;
        match RUNNING.scope(running, self.write.execute(record, execution)).await {
            Ok(()) => {
                self.recorder.of_record(self.consumer, record, ClientEvent::ExecutionSucceeded { execution });
                Ok(())
            }
            Err(error) => {
                let failure = failure(&error);
                let error = failure.to_string();
                self.recorder.of_record(self.consumer, record, ClientEvent::ExecutionFailed { execution, error });
                Err(failure)
            }
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
