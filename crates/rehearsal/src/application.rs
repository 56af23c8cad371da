//! The application: runs the scenario's write by the error handler's rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backfire_consumer::{
    DeadLetters, Destination, ErrorClass, ErrorHandler, Event as HandlerEvent, Failure, Record, RetrySettings,
};
use backfire_driver::{BulkWriteModel, Client, Collection, DriverError};
use backfire_model::back_off::no_random;
use backfire_model::event::{ClientEvent, Observer, What};
use backfire_model::scenario::{Operation, Scenario};
use backfire_model::{BackOff, Execution, RecordId};

use crate::client_events::Sink;
use crate::documents::document;
use crate::recorder::Recorder;

/// The one record of a rehearsal.
pub const THE_RECORD: RecordId = RecordId { partition: 0, offset: 0 };

/// What one execution does, ready to run.
#[derive(Clone)]
pub struct Write {
    scenario: Arc<Scenario>,
    collection: Collection,
    max_time: Option<Duration>,
}

impl Write {
    /// The scenario's write through `client`; `max_time` on every command.
    pub fn new(scenario: Arc<Scenario>, client: &Client, max_time: Option<Duration>) -> Self {
        let namespace = scenario.namespace();
        let collection = client.database(namespace.db).collection(namespace.coll);
        Self { scenario, collection, max_time }
    }

    /// Runs it once, for `record`.
    ///
    /// # Errors
    /// The driver's.
    pub async fn execute(&self, record: RecordId, execution: Execution) -> Result<(), DriverError> {
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

/// Tells a recorder what the one client does.
pub(crate) struct OneWrite {
    pub(crate) recorder: Arc<Recorder>,
    /// The execution that runs, or 0.
    pub(crate) current: Arc<AtomicU32>,
}

impl Sink for OneWrite {
    fn execution(&self) -> Option<Execution> {
        Some(self.current.load(Ordering::Acquire)).filter(|number| *number > 0).map(Execution)
    }

    fn client(&self, event: ClientEvent) {
        self.recorder.record(What::Client(event));
    }
}

/// Runs the write until it succeeds or its record is a dead letter.
pub async fn run(
    write: Write,
    back_off: BackOff,
    recorder: Arc<Recorder>,
    current: Arc<AtomicU32>,
) -> Result<(), String> {
    let reset_on_exception_change = write.scenario.retry.reset_on_exception_change;
    let spring = write.scenario.retry.spring_framework;
    let settings = RetrySettings { back_off, spring, reset_on_exception_change, ..RetrySettings::default() };
    let dead_letters = DeadLetters::new(Destination::default(), 1);
    let random: fn() -> f64 = no_random;
    let mut handler = ErrorHandler::new(settings, dead_letters, random).map_err(|error| error.to_string())?;
    let record = Record { topic: "rehearsal".into(), ..Record::default() };
    let mut listener = {
        let current = Arc::clone(&current);
        let mut running = Execution(0);
        move |_: &Record, event: HandlerEvent<'_>| {
            if let HandlerEvent::ExecutionStarted { execution, .. } = event {
                running = execution;
                current.store(execution.0, Ordering::Release);
            }
            if let Some(event) = client_event(&event, running) {
                recorder.record(What::Client(event));
            }
            if let HandlerEvent::Failed { execution, back_off_restarted: true, .. } = event {
                recorder.record(What::Client(ClientEvent::BackOffRestarted { execution }));
            }
        }
    };
    let work = |execution| {
        let write = write.clone();
        async move { write.execute(THE_RECORD, execution).await.map_err(|error| failure(&error)) }
    };
    handler.run(&record, work, &mut listener).await;
    Ok(())
}

fn client_event(event: &HandlerEvent<'_>, running: Execution) -> Option<ClientEvent> {
    Some(match event {
        HandlerEvent::ExecutionStarted { execution, .. } => ClientEvent::ExecutionStarted { execution: *execution },
        HandlerEvent::Succeeded { execution } => ClientEvent::ExecutionSucceeded { execution: *execution },
        HandlerEvent::Failed { execution, failure, .. } => {
            ClientEvent::ExecutionFailed { execution: *execution, error: failure.to_string() }
        }
        HandlerEvent::Waiting { wait_ms } => ClientEvent::BackOff { execution: running, wait_ms: *wait_ms },
        HandlerEvent::DeadLettered { execution, .. } => ClientEvent::DeadLetter { execution: *execution },
        HandlerEvent::RecoveryFailed { .. } => return None,
    })
}

/// The driver's error as the error handler sees it: by the class that the Java driver would throw.
pub(crate) fn failure(error: &DriverError) -> Failure {
    let outer = Failure::new(ErrorClass::new(error.java_class()), error.to_string());
    match error.cause() {
        Some(cause) => outer.caused_by(Failure::new(ErrorClass::new(cause.java_class()), cause.to_string())),
        None => outer,
    }
}
