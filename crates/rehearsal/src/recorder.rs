//! Takes all events of a run in, in order, stamps them, and counts them on the way.

use std::collections::BTreeSet;
use std::sync::Arc;

use backfire_model::OpId;
use backfire_model::event::{Event, Observer, ServerEvent, What};
use backfire_model::ledger::Ledger;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many events a recording may hold; more are counted and dropped.
const EVENTS_MAX: usize = 4_000_000;

/// The name of the client that sets up and counts. What it does is no part of the recording.
const CONTROL: &str = "backfire-control";

/// Is told of every event as it is recorded.
pub type Watcher = Arc<dyn Fn(&Event, &Ledger) + Send + Sync>;

/// A recording in progress.
pub struct Recorder {
    state: Mutex<State>,
    changed: Notify,
    watcher: Option<Watcher>,
}

struct State {
    /// Set when the recording begins; what happens before is set-up and not recorded.
    began: Option<Instant>,
    events: Vec<Event>,
    ledger: Ledger,
    dropped: u64,
    /// Operations of the control client that have not ended.
    control: BTreeSet<OpId>,
}

impl State {
    /// Whether it is about an operation of the control client.
    fn is_control(&mut self, what: &What) -> bool {
        let What::Server(event) = what else { return false };
        match event {
            ServerEvent::Arrived { op, app_name, .. } if app_name.as_deref() == Some(CONTROL) => {
                self.control.insert(*op);
                true
            }
            ServerEvent::Ended { op, .. } => self.control.remove(op),
            _ => self.control.contains(&event.op()),
        }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder whose ledger counts the writes to `namespace`, or to every collection.
    pub fn new(namespace: Option<String>, watcher: Option<Watcher>) -> Arc<Self> {
        let ledger = Ledger::new(namespace);
        let state = State { began: None, events: Vec::new(), ledger, dropped: 0, control: BTreeSet::new() };
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new(), watcher })
    }

    /// Begins: now is 0 ms.
    pub fn begin(&self) {
        self.state.lock().began = Some(Instant::now());
    }

    /// Looks at the ledger.
    pub fn with_ledger<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(&self.state.lock().ledger)
    }

    /// Resolves when the ledger is as `wanted`.
    pub async fn until(&self, wanted: impl Fn(&Ledger) -> bool) {
        loop {
            let changed = self.changed.notified();
            if self.with_ledger(&wanted) {
                return;
            }
            changed.await;
        }
    }

    /// Everything recorded, and how many events did not fit.
    pub fn finish(&self) -> (Vec<Event>, u64) {
        let mut state = self.state.lock();
        (std::mem::take(&mut state.events), state.dropped)
    }
}

impl Observer for Recorder {
    fn record(&self, what: What) {
        let mut state = self.state.lock();
        if state.is_control(&what) {
            return;
        }
        let Some(began) = state.began else { return };
        let event = Event { at_ms: began.elapsed().as_millis() as u64, record: None, consumer: None, what };
        state.ledger.record(&event);
        if let Some(watcher) = &self.watcher {
            watcher(&event, &state.ledger);
        }
        if state.events.len() < EVENTS_MAX {
            state.events.push(event);
        } else {
            state.dropped += 1;
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearse::CONTROL_URI;
    use backfire_model::connection_string::ConnectionString;
    use backfire_model::event::{Outcome, WriteId};
    use backfire_model::{ConnectionId, RequestId};

    fn arrived(op: i32, app_name: &str) -> What {
        What::Server(ServerEvent::Arrived {
            op: OpId(op),
            write: WriteId::default(),
            connection: ConnectionId(1),
            request_id: RequestId(op),
            app_name: Some(app_name.to_owned()),
            command: "insert".into(),
            namespace: "db.c".into(),
            in_transaction: false,
        })
    }

    fn ended(op: i32) -> What {
        let write = WriteId::default();
        What::Server(ServerEvent::Ended { op: OpId(op), write, outcome: Outcome::Ok, client_there: true })
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_control_client_does_is_not_recorded() {
        let recorder = Recorder::new(None, None);
        recorder.record(arrived(1, CONTROL));
        recorder.begin();
        for what in [ended(1), arrived(2, "app"), arrived(3, CONTROL), ended(3), ended(2)] {
            recorder.record(what);
        }
        assert_eq!(recorder.with_ledger(|ledger| ledger.counts(0, 0).sends), 1);
        let ops: Vec<_> = recorder
            .finish()
            .0
            .into_iter()
            .map(|event| match event.what {
                What::Server(event) => event.op(),
                What::Client(_) => OpId(0),
            })
            .collect();
        assert_eq!(ops, [OpId(2), OpId(2)]);
        let uri: ConnectionString = CONTROL_URI.parse().unwrap();
        assert_eq!(uri.app_name(), Some(CONTROL));
    }
}
