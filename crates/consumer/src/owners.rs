//! The ledger of owners: which consumer of a group executes which record, and which record was handed to two.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::observer::{ConsumerEvent, Observer};
use crate::record::{Record, TopicPartition};

/// A record that two consumers executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwoOwners {
    /// Its partition.
    pub partition: TopicPartition,
    /// Its offset.
    pub offset: i64,
    /// Who had it first, and who got it.
    pub owners: (Arc<str>, Arc<str>),
    /// Whether the first still executed it when the second began.
    pub at_once: bool,
}

impl fmt::Display for TwoOwners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, offset, owners: (one, two), at_once } = self;
        let how = if *at_once { "while" } else { "after" };
        write!(f, "{partition}@{offset}: {two} began {how} {one} executed it")
    }
}

/// Told what the consumers of a group do, it knows which records ran in two of them. A clone is the same ledger.
///
/// What it remembers is what is not committed; it has a limit, and counts the executions that went unseen for it.
#[derive(Debug, Clone)]
pub struct Owners {
    ledger: Arc<Mutex<Ledger>>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Ledger {
    /// For each partition the records that were begun and are not committed.
    begun: HashMap<TopicPartition, BTreeMap<i64, Begun>>,
    count: usize,
    found: Vec<TwoOwners>,
    handed_to_two: u64,
    at_once: u64,
    unseen: u64,
}

#[derive(Debug)]
struct Begun {
    last_owner: Arc<str>,
    running: SmallVec<[Arc<str>; 1]>,
}

impl Owners {
    /// An empty ledger that remembers at most `limit` uncommitted records, and names as many that had two owners.
    pub fn new(limit: usize) -> Self {
        Self { ledger: Arc::default(), limit }
    }

    /// An observer for the consumer of this name, which tells `inner` too.
    pub fn observer<O: Observer>(&self, name: &str, mut inner: O) -> impl Observer + use<O> {
        let (owners, name) = (self.clone(), Arc::<str>::from(name));
        move |event: &ConsumerEvent<'_>| {
            owners.see(&name, event);
            inner.on_event(event);
        }
    }

    /// The records that had two owners, in the order in which it was seen, up to the limit.
    pub fn two_owners(&self) -> Vec<TwoOwners> {
        self.ledger.lock().found.clone()
    }

    /// How often a record that was not committed was begun by another consumer than before.
    pub fn handed_to_two(&self) -> u64 {
        self.ledger.lock().handed_to_two
    }

    /// How often that was while the one before still executed it.
    pub fn at_once(&self) -> u64 {
        self.ledger.lock().at_once
    }

    /// Executions that were not followed, because too much was uncommitted.
    pub fn unseen(&self) -> u64 {
        self.ledger.lock().unseen
    }

    fn see(&self, owner: &Arc<str>, event: &ConsumerEvent<'_>) {
        match event {
            ConsumerEvent::ExecutionStarted { records, .. } => self.started(owner, records),
            ConsumerEvent::Succeeded { records, .. } | ConsumerEvent::Failed { records, .. } => {
                self.ended(owner, records);
            }
            ConsumerEvent::Committed { offsets } => {
                let mut ledger = self.ledger.lock();
                let Ledger { begun, count, .. } = &mut *ledger;
                for (partition, offset) in *offsets {
                    let Some(records) = begun.get_mut(partition) else { continue };
                    // What still runs elsewhere is not forgotten.
                    let before = records.len();
                    records.retain(|at, record| at >= offset || !record.running.is_empty());
                    *count -= before - records.len();
                }
            }
            _ => {}
        }
    }

    fn started(&self, owner: &Arc<str>, records: &[Arc<Record>]) {
        let Some(first) = records.first() else { return };
        let partition = TopicPartition::new(Arc::clone(&first.topic), first.partition);
        let mut ledger = self.ledger.lock();
        let Ledger { begun, count, found, handed_to_two, at_once, unseen } = &mut *ledger;
        let mut own = begun.entry(partition.clone()).or_default();
        let mut now_at = partition;
        for record in records {
            // A batch may hold more than one partition's records.
            if record.partition != now_at.partition || record.topic != now_at.topic {
                now_at = TopicPartition::new(Arc::clone(&record.topic), record.partition);
                own = begun.entry(now_at.clone()).or_default();
            }
            if !own.contains_key(&record.offset) {
                if *count >= self.limit {
                    *unseen += 1;
                    continue;
                }
                *count += 1;
            }
            let entry = own
                .entry(record.offset)
                .or_insert_with(|| Begun { last_owner: Arc::clone(owner), running: SmallVec::new() });
            if entry.last_owner != *owner {
                let is_running = entry.running.iter().any(|running| running != owner);
                *handed_to_two += 1;
                *at_once += u64::from(is_running);
                if found.len() < self.limit {
                    let owners = (Arc::clone(&entry.last_owner), Arc::clone(owner));
                    let partition = now_at.clone();
                    found.push(TwoOwners { partition, offset: record.offset, owners, at_once: is_running });
                }
                entry.last_owner = Arc::clone(owner);
            }
            entry.running.push(Arc::clone(owner));
        }
    }

    fn ended(&self, owner: &Arc<str>, records: &[Arc<Record>]) {
        let mut ledger = self.ledger.lock();
        for record in records {
            let at = TopicPartition::new(Arc::clone(&record.topic), record.partition);
            let entry = ledger.begun.get_mut(&at).and_then(|records| records.get_mut(&record.offset));
            if let Some(entry) = entry
                && let Some(index) = entry.running.iter().position(|running| running == owner)
            {
                entry.running.swap_remove(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::unobserved;

    fn records(offsets: std::ops::Range<i64>) -> Vec<Arc<Record>> {
        offsets.map(|offset| Arc::new(Record { topic: "t".into(), offset, ..Record::default() })).collect()
    }

    #[test]
    fn a_record_handed_to_two_is_named() {
        let owners = Owners::new(10);
        let (mut one, mut two) = (owners.observer("one", unobserved), owners.observer("two", unobserved));
        let batch = records(0..2);
        let starts = ConsumerEvent::ExecutionStarted { records: &batch, attempt: 1 };
        let done = ConsumerEvent::Succeeded { records: &batch, attempt: 1, stale: false };
        one.on_event(&starts);
        two.on_event(&starts);
        one.on_event(&done);
        // Again in the same consumer: the record has not changed hands.
        two.on_event(&done);
        two.on_event(&starts);
        two.on_event(&done);
        one.on_event(&starts);
        one.on_event(&done);
        let texts: Vec<_> = owners.two_owners().iter().map(ToString::to_string).collect();
        let expected = [
            "t-0@0: two began while one executed it",
            "t-0@1: two began while one executed it",
            "t-0@0: one began after two executed it",
            "t-0@1: one began after two executed it",
        ];
        assert_eq!(texts, expected);
        assert_eq!((owners.handed_to_two(), owners.at_once()), (4, 2));
    }

    #[test]
    fn what_is_committed_is_forgotten_and_the_rest_has_a_limit() {
        let owners = Owners::new(3);
        let mut one = owners.observer("one", unobserved);
        let partition = TopicPartition::new("t", 0);
        for start in 0..4 {
            let batch = records(start * 3..start * 3 + 3);
            one.on_event(&ConsumerEvent::ExecutionStarted { records: &batch, attempt: 1 });
            one.on_event(&ConsumerEvent::Succeeded { records: &batch, attempt: 1, stale: false });
            one.on_event(&ConsumerEvent::Committed { offsets: &[(partition.clone(), start * 3 + 3)] });
        }
        assert_eq!(owners.unseen(), 0);
        one.on_event(&ConsumerEvent::ExecutionStarted { records: &records(12..20), attempt: 1 });
        assert_eq!((owners.unseen(), owners.handed_to_two()), (5, 0));
    }
}
