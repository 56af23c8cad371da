//! Takes all events of a run in, in order, stamps them, and counts them on the way.

use std::sync::Arc;

use backfire_model::event::{Event, Observer, What};
use backfire_model::ledger::Ledger;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many events a recording may hold; more are counted and dropped.
const EVENTS_MAX: usize = 4_000_000;

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
        let state = State { began: None, events: Vec::new(), ledger, dropped: 0 };
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
