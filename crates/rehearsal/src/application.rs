//! The application: runs the scenario's write by the error handler's rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backfire_consumer::{
    DeadLetters, Destination, ErrorClass, ErrorHandler, Event as HandlerEvent, Failure, Outcome, Record, RetrySettings,
};
use backfire_driver::{
    BulkWriteModel, Client, Collection, DriverError, ReplaceModel, Update, UpdateModel, WriteFilter, WriteOptions,
};
use backfire_model::back_off::no_random;
use backfire_model::event::{ClientEvent, Observer, What};
use backfire_model::load::ListenerKind;
use backfire_model::scenario::{Model, ModelKind, Operation, Scenario};
use backfire_model::{BackOff, Execution, RecordId};
use futures_util::future::BoxFuture;

use crate::budget::{Budget, classifier};
use crate::client_events::Sink;
use crate::documents::document;
use crate::inner::Layers;
use crate::recorder::Recorder;

/// The one record of a rehearsal.
pub const THE_RECORD: RecordId = RecordId { partition: 0, offset: 0 };

/// What one execution does, ready to run.
#[derive(Clone)]
pub struct Write {
    scenario: Arc<Scenario>,
    collection: Collection,
    max_time: Option<Duration>,
    /// When an execution is given up.
    cancel_after: Option<Duration>,
}

impl Write {
    /// The scenario's write through `client`; `max_time` on every command, each execution given up after `cancel_after_ms`.
    pub fn new(
        scenario: Arc<Scenario>,
        client: &Client,
        max_time: Option<Duration>,
        cancel_after_ms: Option<u64>,
    ) -> Self {
        let namespace = scenario.namespace();
        let collection = client.database(namespace.db).collection(namespace.coll);
        Self { scenario, collection, max_time, cancel_after: cancel_after_ms.map(Duration::from_millis) }
    }

    /// Runs it once, for `record`.
    ///
    /// # Errors
    /// The driver's.
    pub async fn execute(&self, record: RecordId, execution: Execution) -> Result<(), DriverError> {
        let Some(cancel_after) = self.cancel_after else { return self.run(record, execution).await };
        match tokio::time::timeout(cancel_after, self.run(record, execution)).await {
            Ok(result) => result,
            Err(_) => Err(DriverError::client("the application gave the execution up")),
        }
    }

    async fn run(&self, record: RecordId, execution: Execution) -> Result<(), DriverError> {
        let workload = &self.scenario.workload;
        let one = |table: &Option<toml::Table>| {
            table.as_ref().map(|table| document(table, record, execution)).unwrap_or_default()
        };
        let all = || workload.documents.iter().map(|table| document(table, record, execution)).collect::<Vec<_>>();
        macro_rules! run {
            ($action:expr) => {{
                let mut action = $action;
                if let Some(max_time) = self.max_time {
                    action = action.max_time(max_time);
                }
                action.await.map(drop)
            }};
        }
        match workload.operation {
            Operation::InsertOne => run!(self.collection.insert_one(one(&workload.document))),
            Operation::InsertMany => run!(self.collection.insert_many(all())),
            Operation::BulkInsert => run!(
                self.collection.bulk_write(all().into_iter().map(|document| BulkWriteModel::InsertOne { document }))
            ),
            Operation::BulkWrite => {
                let models = workload.models.iter().map(|model| bulk_model(model, record, execution));
                run!(self.collection.bulk_write(models.collect::<Vec<_>>()).ordered(workload.ordered))
            }
            Operation::UpdateOne => {
                run!(self.collection.update_one(one(&workload.filter), one(&workload.update)).upsert(workload.upsert))
            }
            Operation::UpdateMany => run!(self.collection.update_many(one(&workload.filter), one(&workload.update))),
            Operation::FindOneAndUpdate => {
                run!(
                    self.collection
                        .find_one_and_update(one(&workload.filter), one(&workload.update))
                        .upsert(workload.upsert)
                )
            }
        }
    }
}

/// A write of a bulk, with the record and the number of the execution filled in.
fn bulk_model(model: &Model, record: RecordId, execution: Execution) -> BulkWriteModel {
    let one = |table: &Option<toml::Table>| {
        table.as_ref().map(|table| document(table, record, execution)).unwrap_or_default()
    };
    let options = WriteOptions { upsert: model.upsert.then_some(true), ..WriteOptions::default() };
    let filter = one(&model.filter);
    match model.kind {
        ModelKind::InsertOne => BulkWriteModel::InsertOne { document: one(&model.document) },
        ModelKind::ReplaceOne => {
            BulkWriteModel::ReplaceOne(ReplaceModel { filter, replacement: one(&model.document), options })
        }
        ModelKind::UpdateOne | ModelKind::UpdateMany => {
            let update = UpdateModel { filter, update: Update::Operators(one(&model.update)), options };
            match model.kind {
                ModelKind::UpdateOne => BulkWriteModel::UpdateOne(update),
                _ => BulkWriteModel::UpdateMany(update),
            }
        }
        ModelKind::DeleteOne => BulkWriteModel::DeleteOne(WriteFilter { filter, options }),
        ModelKind::DeleteMany => BulkWriteModel::DeleteMany(WriteFilter { filter, options }),
    }
}

/// Tells a recorder what the one client does.
pub(crate) struct OneWrite {
    pub(crate) recorder: Arc<Recorder>,
    /// The execution that runs, or 0.
    pub(crate) current: Arc<AtomicU32>,
    pub(crate) budget: Budget,
}

impl Sink for OneWrite {
    fn execution(&self) -> Option<Execution> {
        Some(self.current.load(Ordering::Acquire)).filter(|number| *number > 0).map(Execution)
    }

    fn client(&self, event: ClientEvent) {
        self.recorder.record(What::Client(event));
    }

    fn allows_retry(&self) -> bool {
        self.budget.may_retry()
    }
}

/// Runs the write until it succeeds or its record is a dead letter. `layers` repeat it within a call; each run counts as an
/// execution. `restart`: the
/// consumer crashes when its retries are used up, and everything begins anew after this long.
pub(crate) async fn run(
    write: Write,
    back_off: BackOff,
    layers: Layers,
    restart: Option<Duration>,
    budget: Budget,
    recorder: Arc<Recorder>,
    current: Arc<AtomicU32>,
) -> Result<(), String> {
    let scenario = &write.scenario;
    let reset_on_exception_change = resets_on_exception_change(scenario);
    let spring = scenario.retry.spring_framework;
    let settings = RetrySettings {
        back_off,
        spring,
        reset_on_exception_change,
        classifier: classifier(),
        ..RetrySettings::default()
    };
    let record = Record { topic: "rehearsal".into(), ..Record::default() };
    let tell = {
        let recorder = Arc::clone(&recorder);
        move |event| recorder.record(What::Client(event))
    };
    let mut listener = {
        let (current, tell) = (Arc::clone(&current), tell.clone());
        move |_: &Record, event: HandlerEvent<'_>| {
            let event = client_event(&event, Execution(current.load(Ordering::Acquire)));
            // Who crashes publishes nothing.
            if let Some(event) = event.filter(|event| restart.is_none() || !is_dead_letter(event)) {
                tell(event);
            }
        }
    };
    let once = {
        let (write, current, tell) = (write.clone(), Arc::clone(&current), tell.clone());
        move || -> BoxFuture<'static, Result<(), Failure>> {
            let (write, tell) = (write.clone(), tell.clone());
            if let Err(spent) = budget.run(current.load(Ordering::Acquire) == 0) {
                return Box::pin(std::future::ready(Err(spent)));
            }
            let execution = Execution(current.fetch_add(1, Ordering::AcqRel) + 1);
            tell(ClientEvent::ExecutionStarted { execution });
            Box::pin(async move {
                let result = write.execute(THE_RECORD, execution).await.map_err(|error| failure(&error));
                tell(match &result {
                    Ok(()) => ClientEvent::ExecutionSucceeded { execution },
                    Err(failure) => ClientEvent::ExecutionFailed { execution, error: failure.to_string() },
                });
                result
            })
        }
    };
    let work = |_| {
        let (layers, once, tell, current) = (&layers, &once, &tell, &current);
        async move {
            let waited = |wait: Duration| {
                let execution = Execution(current.load(Ordering::Acquire));
                tell(ClientEvent::BackOff { execution, wait_ms: wait.as_millis() as u64 });
            };
            layers.call(once, &waited).await
        }
    };
    loop {
        let dead_letters = DeadLetters::new(Destination::default(), 1);
        let random: fn() -> f64 = no_random;
        let handler = ErrorHandler::new(settings.clone(), dead_letters, random);
        let mut handler = handler.map_err(|error| error.to_string())?;
        let outcome = handler.run(&record, &work, &mut listener).await;
        let Some(restart) = restart.filter(|_| !matches!(outcome, Outcome::Succeeded { .. })) else { return Ok(()) };
        let execution = Execution(current.load(Ordering::Acquire));
        tell(ClientEvent::BackOff { execution, wait_ms: restart.as_millis() as u64 });
        tokio::time::sleep(restart).await;
    }
}

fn is_dead_letter(event: &ClientEvent) -> bool {
    matches!(event, ClientEvent::DeadLetter { .. })
}

/// Whether another class of error starts the back-off over. For a batch that is executed again it does not (facts/client.md
/// D4).
pub(crate) fn resets_on_exception_change(scenario: &Scenario) -> bool {
    scenario.retry.reset_on_exception_change && scenario.kafka.listener == ListenerKind::Single
}

/// What the handler does between two calls; what happens within one is told by the call itself.
fn client_event(event: &HandlerEvent<'_>, execution: Execution) -> Option<ClientEvent> {
    match event {
        HandlerEvent::Waiting { wait_ms } => Some(ClientEvent::BackOff { execution, wait_ms: *wait_ms }),
        HandlerEvent::DeadLettered { .. } => Some(ClientEvent::DeadLetter { execution }),
        HandlerEvent::Failed { back_off_restarted: true, .. } => Some(ClientEvent::BackOffRestarted { execution }),
        HandlerEvent::ExecutionStarted { .. }
        | HandlerEvent::Succeeded { .. }
        | HandlerEvent::Failed { .. }
        | HandlerEvent::RecoveryFailed { .. } => None,
    }
}

/// The driver's error as the error handler sees it: by the class that the Java driver would throw.
pub(crate) fn failure(error: &DriverError) -> Failure {
    let outer = Failure::new(ErrorClass::new(error.java_class()), error.to_string());
    match error.cause() {
        Some(cause) => outer.caused_by(Failure::new(ErrorClass::new(cause.java_class()), cause.to_string())),
        None => outer,
    }
}
