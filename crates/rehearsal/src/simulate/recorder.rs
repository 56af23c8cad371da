//! Takes the events of a simulation in, counts them per record, and keeps them if somebody wants them.

use std::collections::HashMap;
use std::sync::Arc;

use backfire_model::counts::{Counts, Extras};
use backfire_model::event::{ClientEvent, Event, Observer, What};
use backfire_model::tally::{Outcome, Point, Series, Tally};
use backfire_model::{ConsumerId, Execution, RecordId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::budget::Budget;
use crate::client_events::Sink;

/// Is told of every event as it happens.
pub type EventWatcher = Box<dyn FnMut(&Event) + Send>;
/// Is told, now and then, how far the simulation is: the time that passed in it, and the numbers.
pub type ProgressWatcher = Box<dyn FnMut(u64, &Point) + Send>;

/// How many events lie between two calls of a [`ProgressWatcher`].
const PROGRESS_EVERY: u64 = 4096;

tokio::task_local! {
    /// What the task executes.
    pub(super) static RUNNING: Running;
}

/// An execution, and whose it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    pub(super) consumer: ConsumerId,
    pub(super) record: RecordId,
    pub(super) execution: Execution,
}

/// A recording in progress.
pub(super) struct Recorder {
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    /// Set when the recording begins; what happens before is set-up and not recorded.
    began: Option<Instant>,
    tally: Tally,
    events: Vec<Event>,
    events_max: usize,
    dropped: u64,
    seen: u64,
    watcher: Option<EventWatcher>,
    progress: Option<ProgressWatcher>,
    /// Consumers that have partitions.
    assigned: HashMap<ConsumerId, u64>,
    /// For each partition the offset that was committed.
    committed: HashMap<i32, u64>,
    committed_all: u64,
    /// How many offsets somebody waits for.
    committed_wanted: u64,
}

impl Recorder {
    /// Keeps `events_max` events, and counts by this tally.
    pub(super) fn new(
        tally: Tally,
        events_max: usize,
        watcher: Option<EventWatcher>,
        progress: Option<ProgressWatcher>,
    ) -> Arc<Self> {
        let state = State {
            began: None,
            tally,
            events: Vec::new(),
            events_max,
            dropped: 0,
            seen: 0,
            watcher,
            progress,
            assigned: HashMap::new(),
            committed: HashMap::new(),
            committed_all: 0,
            committed_wanted: u64::MAX,
        };
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new() })
    }

    /// Begins: now is 0 ms.
    pub(super) fn begin(&self) {
        self.state.lock().began = Some(Instant::now());
    }

    /// An execution of `record` by `consumer` begins.
    pub(super) fn execution(&self, consumer: ConsumerId, record: RecordId) -> Running {
        let execution = self.state.lock().tally.next_execution(record);
        self.of_record(consumer, record, ClientEvent::ExecutionStarted { execution });
        Running { consumer, record, execution }
    }

    /// How often `record` has been executed.
    pub(super) fn executions_of(&self, record: RecordId) -> Execution {
        self.state.lock().tally.executions_of(record)
    }

    /// Something happened to a record in a consumer.
    pub(super) fn of_record(&self, consumer: ConsumerId, record: RecordId, event: ClientEvent) {
        self.take(Some(record), Some(consumer), What::Client(event));
    }

    /// Something happened to a consumer.
    pub(super) fn of_consumer(&self, consumer: ConsumerId, event: ClientEvent) {
        match &event {
            ClientEvent::Assigned { partitions } => {
                self.state.lock().assigned.insert(consumer, partitions.len() as u64);
                self.changed.notify_waiters();
            }
            ClientEvent::Revoked { .. } | ClientEvent::Lost { .. } => {
                self.state.lock().assigned.remove(&consumer);
            }
            _ => {}
        }
        self.take(None, Some(consumer), What::Client(event));
    }

    /// Offsets were committed: all records before them are done.
    pub(super) fn committed(&self, partition: i32, offset: u64) {
        let mut state = self.state.lock();
        let before = state.committed.insert(partition, offset).unwrap_or(0);
        state.committed_all = state.committed_all + offset - before;
        let is_enough = state.committed_all >= state.committed_wanted;
        drop(state);
        // Not at each of a million records.
        if is_enough {
            self.changed.notify_waiters();
        }
    }

    /// Resolves when so many partitions have an owner.
    pub(super) async fn until_assigned(&self, partitions: u64) {
        self.until(|state| state.assigned.values().sum::<u64>() >= partitions).await;
    }

    /// Resolves when the offsets of so many records are committed.
    pub(super) async fn until_committed(&self, records: u64) {
        self.state.lock().committed_wanted = records;
        self.until(|state| state.committed_all >= records).await;
    }

    /// Resolves when nothing is under way any more, in a consumer or at the server.
    pub(super) async fn until_quiet(&self) {
        self.until(|state| state.tally.is_quiet()).await;
    }

    async fn until(&self, wanted: impl Fn(&State) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if wanted(&self.state.lock()) {
                return;
            }
            changed.await;
        }
    }

    fn take(&self, record: Option<RecordId>, consumer: Option<ConsumerId>, what: What) {
        let mut state = self.state.lock();
        let Some(began) = state.began else { return };
        let mut event = Event { at_ms: began.elapsed().as_millis() as u64, record, consumer, what };
        let state = &mut *state;
        state.tally.record(&mut event);
        if matches!(event.what, What::Server(_)) && event.record.is_none() {
            // Heartbeats, and the client that sets up and counts.
            return;
        }
        state.seen += 1;
        if let Some(watcher) = &mut state.watcher {
            watcher(&event);
        }
        if let Some(progress) = &mut state.progress
            && state.seen.is_multiple_of(PROGRESS_EVERY)
        {
            progress(event.at_ms, state.tally.now());
        }
        let is_change = match &event.what {
            What::Client(_) => false,
            What::Server(event) => matches!(event, backfire_model::event::ServerEvent::Ended { .. }),
        };
        if state.events.len() < state.events_max {
            state.events.push(event);
        } else {
            state.dropped += u64::from(state.events_max > 0);
        }
        if is_change && state.tally.operations() == 0 {
            self.changed.notify_waiters();
        }
    }

    /// Everything: the numbers, what happened over time, the events that were kept and how many did not fit.
    pub(super) fn finish(&self, stall_ended_ms: Option<u64>) -> (Outcome, Series, Vec<Event>, u64) {
        let mut state = self.state.lock();
        let now_ms = state.began.map_or(0, |began| began.elapsed().as_millis() as u64);
        state.began = None;
        let tally = std::mem::replace(&mut state.tally, Tally::new(String::new()));
        let (outcome, series) = tally.finish(now_ms, stall_ended_ms);
        (outcome, series, std::mem::take(&mut state.events), state.dropped)
    }

    /// The numbers of one record so far.
    pub(super) fn numbers_of(&self, record: RecordId) -> (Counts, Extras) {
        self.state.lock().tally.numbers_of(record)
    }

    /// The time now.
    pub(super) fn now_ms(&self) -> u64 {
        self.state.lock().began.map_or(0, |began| began.elapsed().as_millis() as u64)
    }
}

impl Observer for Recorder {
    fn record(&self, what: What) {
        self.take(None, None, what);
    }
}

/// The driver's events of the executions that run in the tasks that call it.
pub(super) struct Clients {
    pub(super) recorder: Arc<Recorder>,
    pub(super) budget: Budget,
}

impl Sink for Clients {
    fn execution(&self) -> Option<Execution> {
        RUNNING.try_with(|running| running.execution).ok()
    }

    fn client(&self, event: ClientEvent) {
        match RUNNING.try_with(|running| *running) {
            Ok(running) => self.recorder.of_record(running.consumer, running.record, event),
            Err(_) => self.recorder.take(None, None, What::Client(event)),
        }
    }

    fn allows_retry(&self) -> bool {
        self.budget.may_retry()
    }
}
