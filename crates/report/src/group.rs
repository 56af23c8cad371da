//! Which logical write an event belongs to.

use std::collections::{BTreeMap, BTreeSet};

use backfire_model::event::{ClientEvent, Event, ServerEvent, What, WriteId};
use backfire_model::ledger::Ledger;
use backfire_model::{Execution, OpId, RecordId, RequestId};

/// One logical write: its name and its events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// What it is called.
    pub label: String,
    /// The collection that it is written to, where the group is what was written to one collection.
    pub namespace: Option<String>,
    /// Its events, as indices into the stream, in order.
    pub events: Vec<u32>,
}

/// Divides a stream into logical writes, in the order in which they first appear.
///
/// Where events name their record, a logical write is what is done for one record: its client's events, and the operations that
/// its sends became at the server (they name it too; or have the same `lsid`, `txnNumber` and `requestID`; or the same `lsid` and
/// `txnNumber`).
///
/// Everything else is divided by collection: a logical write is what the one application writes to it. A reply goes with its send,
/// and an event that names only an execution goes with the collections that this execution wrote to. An execution that wrote to
/// several belongs to each of them; one that wrote to none belongs to the write of the execution before it. When the client hangs
/// up, that belongs to every write that has an execution under way.
///
/// Reads belong to the write to their collection, if there is one; what the ledger does not count belongs to none.
///
/// `ledger` has recorded these same events. The work is linear in the events, but for the logarithm of looking things up.
pub fn group(events: &[Event], ledger: &Ledger) -> Vec<Group> {
    let mut grouper = Grouper::default();
    for (event, at) in events.iter().zip(0..) {
        grouper.take(event, at, ledger);
    }
    grouper.finish()
}

/// What makes a logical write one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Record(RecordId),
    Namespace(&'a str),
}

/// The run of an execution that names no record: from its start to the next start of the same number.
#[derive(Debug, Default)]
struct Run {
    /// The events that name only the execution.
    events: Vec<u32>,
    /// The groups that it wrote to.
    groups: BTreeSet<usize>,
}

#[derive(Debug, Default)]
struct Grouper<'a> {
    groups: Vec<Group>,
    by_key: BTreeMap<Key<'a>, usize>,
    runs: Vec<Run>,
    /// The newest run of each execution number.
    newest: BTreeMap<Execution, usize>,
    /// The runs that are under way.
    open: BTreeSet<usize>,
    sends: BTreeMap<(WriteId, RequestId), usize>,
    /// The groups of writes that have a number.
    writes: BTreeMap<WriteId, usize>,
    /// The groups of multi-document transactions, for their commits: those name no collection.
    transactions: BTreeMap<WriteId, usize>,
    ops: BTreeMap<OpId, usize>,
    /// Events of reads: they join a group that exists in the end.
    reads: BTreeMap<OpId, (&'a str, Vec<u32>)>,
}

/// Databases that belong to the server: the ledger counts nothing in them.
const SERVER_DATABASES: [&str; 3] = ["admin.", "config.", "local."];

/// Whether the ledger counts writes to a collection.
fn counts(namespace: &str, ledger: &Ledger) -> bool {
    match ledger.namespace() {
        Some(wanted) => wanted == namespace,
        None => !SERVER_DATABASES.iter().any(|database| namespace.starts_with(database)),
    }
}

impl<'a> Grouper<'a> {
    fn take(&mut self, event: &'a Event, at: u32, ledger: &Ledger) {
        match &event.what {
            What::Client(what) => self.client(what, event.record, at, ledger),
            What::Server(what) => self.server(what, event.record, at, ledger),
        }
    }

    fn group_of(&mut self, key: Key<'a>) -> usize {
        let next = self.groups.len();
        let index = *self.by_key.entry(key).or_insert(next);
        if index == next {
            let (label, namespace) = match key {
                Key::Record(record) => (format!("record {record}"), None),
                Key::Namespace(namespace) => (namespace.to_owned(), Some(namespace.to_owned())),
            };
            self.groups.push(Group { label, namespace, events: Vec::new() });
        }
        index
    }

    fn client(&mut self, event: &'a ClientEvent, record: Option<RecordId>, at: u32, ledger: &Ledger) {
        if let ClientEvent::Send { execution, write, request_id, namespace, .. } = event {
            if !counts(namespace, ledger) {
                return;
            }
            let group = self.group_of(record.map_or(Key::Namespace(namespace), Key::Record));
            self.groups[group].events.push(at);
            self.sends.insert((*write, *request_id), group);
            if write.txn_number.is_some() {
                self.writes.insert(*write, group);
            }
            if record.is_none()
                && let Some(run) = execution.and_then(|execution| self.newest.get(&execution))
            {
                self.runs[*run].groups.insert(group);
            }
            return;
        }
        if let Some(record) = record {
            let group = self.group_of(Key::Record(record));
            self.groups[group].events.push(at);
            return;
        }
        match event {
            // What happens between a consumer and its group is about no write.
            ClientEvent::Send { .. }
            | ClientEvent::Assigned { .. }
            | ClientEvent::Revoked { .. }
            | ClientEvent::Lost { .. }
            | ClientEvent::CommitFailed { .. } => {}
            ClientEvent::ExecutionStarted { execution } => {
                self.newest.insert(*execution, self.runs.len());
                self.open.insert(self.runs.len());
                self.runs.push(Run { events: vec![at], ..Run::default() });
            }
            ClientEvent::Reply { write, request_id, .. } | ClientEvent::SendFailed { write, request_id, .. } => {
                if let Some(group) = self.sends.get(&(*write, *request_id)) {
                    self.groups[*group].events.push(at);
                }
            }
            ClientEvent::ExecutionSucceeded { execution } | ClientEvent::ExecutionFailed { execution, .. } => {
                if let Some(run) = self.newest.get(execution).copied() {
                    self.open.remove(&run);
                    self.runs[run].events.push(at);
                }
            }
            ClientEvent::BackOff { execution, .. }
            | ClientEvent::BackOffRestarted { execution }
            | ClientEvent::RecoveryFailed { execution, .. }
            | ClientEvent::DeadLetter { execution } => {
                if let Some(run) = self.newest.get(execution).copied() {
                    self.runs[run].events.push(at);
                }
            }
            ClientEvent::HungUp => {
                for run in std::mem::take(&mut self.open) {
                    self.runs[run].events.push(at);
                }
            }
        }
    }

    fn server(&mut self, event: &'a ServerEvent, record: Option<RecordId>, at: u32, ledger: &Ledger) {
        let is_of_copy = ledger.copy_of_op(event.op()).is_some();
        if let ServerEvent::Arrived { op, namespace, write, request_id, in_transaction, .. } = event
            && (is_of_copy || counts(namespace, ledger))
        {
            if is_of_copy && !counts(namespace, ledger) {
                if let Some(group) = self.transactions.get(write) {
                    self.ops.insert(*op, *group);
                }
            } else if is_of_copy {
                let sent = self.sends.get(&(*write, *request_id)).or_else(|| self.writes.get(write)).copied();
                let sent = sent.filter(|group| self.groups[*group].namespace.as_ref().is_none_or(|of| of == namespace));
                let group = match (record, sent) {
                    (Some(record), _) => self.group_of(Key::Record(record)),
                    (None, Some(sent)) => sent,
                    (None, None) => self.group_of(Key::Namespace(namespace)),
                };
                if *in_transaction {
                    self.transactions.entry(*write).or_insert(group);
                }
                self.ops.insert(*op, group);
                self.reads.remove(op);
            } else {
                self.ops.remove(op);
                self.reads.insert(*op, (namespace, Vec::new()));
            }
        }
        if let Some(group) = self.ops.get(&event.op()) {
            self.groups[*group].events.push(at);
        } else if let Some((_, events)) = self.reads.get_mut(&event.op()) {
            events.push(at);
        }
    }

    fn finish(mut self) -> Vec<Group> {
        for (key, events) in std::mem::take(&mut self.reads).into_values() {
            if let Some(group) = self.by_key.get(&Key::Namespace(key)) {
                self.groups[*group].events.extend(events);
            }
        }
        if self.groups.is_empty() && !self.runs.is_empty() {
            self.groups.push(Group { label: NOTHING_SENT.to_owned(), ..Group::default() });
        }
        let mut before = 0;
        for run in &self.runs {
            for group in &run.groups {
                self.groups[*group].events.extend(&run.events);
                before = *group;
            }
            if run.groups.is_empty() {
                self.groups[before].events.extend(&run.events);
            }
        }
        for group in &mut self.groups {
            group.events.sort_unstable();
            // Two executions of one write can both be under way when the client hangs up.
            group.events.dedup();
        }
        self.groups
    }
}

/// The label of a write that was executed and never sent.
pub const NOTHING_SENT: &str = "nothing was sent";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn labels_and_events(events: &[Event], namespace: Option<&str>) -> Vec<(String, Vec<u32>)> {
        let mut ledger = Ledger::new(namespace.map(str::to_owned));
        events.iter().for_each(|event| ledger.record(event));
        group(events, &ledger).into_iter().map(|group| (group.label, group.events)).collect()
    }

    #[test]
    fn executions_go_with_what_they_wrote_to() {
        let events = sample::events([
            sample::started(1),
            sample::send(1, 1, "db.a"),
            sample::arrived(1, 1, "insert", "db.a"),
            sample::send(1, 2, "db.b"),
            sample::arrived(2, 2, "insert", "db.b"),
            sample::failed(1),
            sample::started(2),
            sample::send(2, 3, "db.b"),
            sample::failed(2),
            sample::dead_letter(2),
        ]);
        assert_eq!(
            labels_and_events(&events, None),
            [("db.a".into(), vec![0, 1, 2, 5]), ("db.b".into(), vec![0, 3, 4, 5, 6, 7, 8, 9]),]
        );
        assert_eq!(labels_and_events(&events, Some("db.a")), [("db.a".into(), vec![0, 1, 2, 5, 6, 8, 9])]);
    }

    #[test]
    fn records_are_writes_of_their_own() {
        let what = [
            (sample::started(1), 1),
            (sample::started(1), 2),
            (sample::send(1, 1, "db.c"), 1),
            (sample::send(1, 2, "db.c"), 2),
            (sample::arrived(2, 2, "insert", "db.c"), 0),
            (sample::arrived(1, 1, "insert", "db.c"), 0),
            (sample::failed(1), 1),
            (sample::executing(2, 2), 0),
            (sample::arrived(3, 3, "insert", "db.c"), 0),
            (sample::arrived(4, 4, "insert", "db.c"), 2),
        ];
        let offsets = what.each_ref().map(|(_, offset)| *offset);
        let mut events = sample::events(what.map(|(what, _)| what));
        for (event, offset) in events.iter_mut().zip(offsets).filter(|(_, offset)| *offset > 0) {
            event.record = Some(RecordId { partition: 0, offset });
        }
        assert_eq!(
            labels_and_events(&events, None),
            [
                ("record 0-1".into(), vec![0, 2, 5, 6]),
                ("record 0-2".into(), vec![1, 3, 4, 7, 9]),
                ("db.c".into(), vec![8])
            ]
        );
    }

    #[test]
    fn reads_join_a_write_to_their_collection_and_control_commands_none() {
        let events = sample::events([
            sample::arrived(1, 1, "find", "db.a"),
            sample::arrived(2, 2, "find", "db.other"),
            sample::arrived(3, 3, "insert", "db.a"),
            sample::arrived(4, 4, "insert", "config.transactions"),
            sample::arrived(5, 5, "configureFailPoint", "admin.$cmd"),
            sample::executing(1, 1),
        ]);
        assert_eq!(labels_and_events(&events, None), [("db.a".into(), vec![0, 2, 5])]);
    }

    #[test]
    fn an_execution_that_sent_nothing_is_not_lost() {
        let events = sample::events([sample::started(1), sample::failed(1), sample::dead_letter(1)]);
        assert_eq!(labels_and_events(&events, None), [(NOTHING_SENT.into(), vec![0, 1, 2])]);
        let events =
            sample::events([sample::started(1), sample::send(1, 1, "db.a"), sample::started(2), sample::hung_up()]);
        assert_eq!(labels_and_events(&events, None), [("db.a".into(), vec![0, 1, 2, 3])]);
        assert_eq!(labels_and_events(&[], None), []);
    }

    #[test]
    fn what_counts_is_what_the_ledger_counts() {
        for namespace in ["db.c", "admin.x", "config.transactions", "local.oplog.rs", "administration.c", "x"] {
            for wanted in [None, Some("db.c"), Some("admin.x")] {
                let mut ledger = Ledger::new(wanted.map(str::to_owned));
                let events = sample::events([sample::arrived(1, 1, "insert", namespace)]);
                ledger.record(&events[0]);
                assert_eq!(counts(namespace, &ledger), ledger.knows(OpId(1)), "{namespace} of {wanted:?}");
            }
        }
    }
}
