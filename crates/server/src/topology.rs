//! The replica set as this node sees it: one member, with elections and step-downs (facts/server.md 9).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, Timestamp, doc};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::Clock;

/// The replica set's state.
#[derive(Debug)]
pub struct Topology {
    /// The replica set's name; `None` for a standalone.
    set_name: Option<String>,
    /// This node's address, `host:port`.
    address: Mutex<String>,
    process_id: ObjectId,
    state: Mutex<State>,
    changed: Notify,
    /// Timestamp of the newest write: seconds in the upper half, a counter in the lower.
    last_write: AtomicU64,
    /// Wall time of the newest write.
    last_write_date_ms: AtomicU64,
}

#[derive(Debug)]
struct State {
    primary: bool,
    term: i64,
    version: i64,
    /// No election before this.
    frozen_until: Option<Instant>,
}

/// An operation's place in the order of all writes.
pub fn timestamp(packed: u64) -> Timestamp {
    Timestamp { time: (packed >> 32) as u32, increment: packed as u32 }
}

impl Topology {
    /// A primary of term 1.
    pub fn new(set_name: Option<String>, address: String, process_id: ObjectId, clock: &Clock) -> Self {
        let now_ms = clock.now_ms().max(0) as u64;
        Self {
            set_name,
            address: Mutex::new(address),
            process_id,
            state: Mutex::new(State { primary: true, term: 1, version: 6, frozen_until: None }),
            changed: Notify::new(),
            last_write: AtomicU64::new(((now_ms / 1000) << 32) | 1),
            last_write_date_ms: AtomicU64::new(now_ms),
        }
    }

    /// The replica set's name.
    pub fn set_name(&self) -> Option<&str> {
        self.set_name.as_deref()
    }

    /// Whether this node is a replica-set member.
    pub fn is_replica_set(&self) -> bool {
        self.set_name.is_some()
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        self.address.lock().clone()
    }

    /// Sets the address once the port is known.
    pub fn set_address(&self, address: String) {
        *self.address.lock() = address;
    }

    /// Whether this node takes writes.
    pub fn is_primary(&self) -> bool {
        self.state.lock().primary
    }

    /// The term of the newest election.
    pub fn term(&self) -> i64 {
        if self.is_replica_set() { self.state.lock().term } else { -1 }
    }

    /// The id of the newest election: term in the lower half.
    pub fn election_id(&self) -> ObjectId {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
        bytes[4..].copy_from_slice(&self.term().to_be_bytes());
        ObjectId::from_bytes(bytes)
    }

    /// `{processId, counter}`.
    pub fn version_document(&self) -> Document {
        doc! { "processId": self.process_id, "counter": self.version() }
    }

    /// The process id of `topologyVersion`.
    pub fn process_id(&self) -> ObjectId {
        self.process_id
    }

    /// The counter of `topologyVersion`.
    pub fn version(&self) -> i64 {
        self.state.lock().version
    }

    /// Resolves at the next change of the topology version after `seen`, or at once if it is newer already.
    pub async fn changed_since(&self, seen: i64) {
        loop {
            let changed = self.changed.notified();
            if self.version() != seen {
                return;
            }
            changed.await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        {
            let mut state = self.state.lock();
            change(&mut state);
            state.version += 1;
        }
        self.changed.notify_waiters();
    }

    /// Stops being primary for `period`.
    pub fn step_down(&self, period: Duration) {
        self.change(|state| {
            state.primary = false;
            state.frozen_until = Some(Instant::now() + period);
        });
    }

    /// When the next election may be held, while this node is not primary.
    pub fn election_due(&self) -> Option<Instant> {
        let state = self.state.lock();
        if state.primary { None } else { state.frozen_until }
    }

    /// Becomes primary of a new term.
    pub fn elect(&self) {
        self.change(|state| {
            state.primary = true;
            state.term += 1;
            state.frozen_until = None;
        });
    }

    /// Gives the next write its place: later than all before, and not before the wall clock.
    pub fn next_op_time(&self, clock: &Clock) -> Timestamp {
        let now_ms = clock.now_ms().max(0) as u64;
        self.last_write_date_ms.store(now_ms, Ordering::Relaxed);
        let floor = (now_ms / 1000) << 32;
        let before = self
            .last_write
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some((last + 1).max(floor | 1)))
            .unwrap_or_else(|last| last);
        timestamp((before + 1).max(floor | 1))
    }

    /// The place of the newest write.
    pub fn last_op_time(&self) -> Timestamp {
        timestamp(self.last_write.load(Ordering::Acquire))
    }

    /// `{ts, t}` of the newest write.
    pub fn op_time_document(&self) -> Document {
        doc! { "ts": Bson::Timestamp(self.last_op_time()), "t": self.term() }
    }

    /// Wall time of the newest write.
    pub fn last_write_date(&self) -> DateTime {
        DateTime::from_millis(self.last_write_date_ms.load(Ordering::Relaxed) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test(start_paused = true)]
    async fn op_times_only_grow_and_follow_the_clock() {
        let clock = Clock::starting_at(5_000_000);
        let topology = Topology::new(Some("rs0".into()), "h:1".into(), ObjectId::from_bytes([1; 12]), &clock);
        let first = topology.next_op_time(&clock);
        let second = topology.next_op_time(&clock);
        assert_eq!((first.time, first.increment, second.increment), (5000, 2, 3));
        tokio::time::advance(Duration::from_secs(7)).await;
        let third = topology.next_op_time(&clock);
        assert_eq!((third.time, third.increment), (5007, 1));
        assert_eq!(topology.last_op_time(), third);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_wakes_those_who_wait_for_it() {
        let clock = Clock::starting_at(0);
        let topology = Topology::new(Some("rs0".into()), "h:1".into(), ObjectId::from_bytes([1; 12]), &clock);
        assert_eq!(topology.election_id().to_hex(), "7fffffff0000000000000001");
        let seen = topology.version();
        let mut waiting = Box::pin(topology.changed_since(seen));
        assert!((&mut waiting).now_or_never().is_none());
        topology.step_down(Duration::from_secs(60));
        waiting.await;
        assert!(!topology.is_primary() && topology.election_due().is_some());
        topology.elect();
        assert_eq!(topology.election_id().to_hex(), "7fffffff0000000000000002");
    }
}
