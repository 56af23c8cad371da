//! The tally: counts an event stream of many records, one ledger per record, and what happens over time.
//!
//! A record's ledger is kept while something of it is under way; afterwards a line of numbers is left of it, so that a run of
//! a million records fits into memory.

mod outcome;
mod series;

use foldhash::{HashMap, HashMapExt};

use crate::counts::{Counts, Extras};
use crate::event::{ClientEvent, Event, ServerEvent, Wait, What, WriteId};
use crate::ids::{ConsumerId, Execution, Lsid, OpId, RecordId, RequestId};
use crate::ledger::Ledger;

pub use outcome::{Outcome, RecordLine, Spread};
pub use series::{Point, Series};

/// Most ledgers that are kept to be used again.
const SPARE_MAX: usize = 64;

/// How a record ended, as far as it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// It has not been executed to an end.
    #[default]
    Open,
    /// An execution succeeded.
    Written,
    /// It went to the dead-letter topic.
    DeadLetter,
}

/// A record of which something is under way.
#[derive(Debug)]
struct Open {
    ledger: Ledger,
    /// Who executes it now. Two after a hand-over.
    executing: Vec<ConsumerId>,
    /// What was in the ledger before the last event: to keep sums by their differences.
    before: Gauges,
}

impl Open {
    /// Whether nothing of it is under way.
    fn is_idle(&self) -> bool {
        self.executing.is_empty() && self.before.live == 0
    }
}

/// Numbers of one record that go up and down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Gauges {
    running: u64,
    waiting: u64,
    live: u64,
}

impl Gauges {
    fn of(ledger: &Ledger) -> Self {
        Self { running: ledger.running_copies(), waiting: ledger.waiting_resends(), live: ledger.live_operations() }
    }

    /// Whether more than one operation of the record is at work at the server.
    fn is_multiplied(self) -> bool {
        self.running > 1 || self.waiting > 0
    }
}

/// An operation of the server that has not ended.
#[derive(Debug, Clone, Copy)]
struct Op {
    record: RecordId,
    waits_for_ticket: bool,
}

/// Counts events of many records.
#[derive(Debug)]
pub struct Tally {
    /// The collection whose writes count.
    namespace: String,
    /// A gateway may send anything again at any time: nothing that was sent is forgotten.
    remembers: bool,
    open: HashMap<RecordId, Open>,
    /// Ledgers of records that are over, to be used again.
    spare: Vec<Open>,
    lines: HashMap<RecordId, RecordLine>,
    /// Which record a send belongs to, until it has arrived.
    sent: HashMap<(Option<Lsid>, RequestId), RecordId>,
    ops: HashMap<OpId, Op>,
    now: Point,
    ended: u64,
    /// Records of which more than one operation is at work.
    multiplied: u64,
    multiplied_until_ms: u64,
    series: Series,
    outcome: Outcome,
}

impl Tally {
    /// Counts writes to `namespace` (`db.collection`).
    pub fn new(namespace: String) -> Self {
        Self {
            namespace,
            remembers: false,
            open: HashMap::new(),
            spare: Vec::new(),
            lines: HashMap::new(),
            sent: HashMap::new(),
            ops: HashMap::new(),
            now: Point::default(),
            ended: 0,
            multiplied: 0,
            multiplied_until_ms: 0,
            series: Series::default(),
            outcome: Outcome::default(),
        }
    }

    /// The same where a gateway may send again what a client sent once, at any time: it forgets nothing, and takes memory for
    /// each record.
    pub fn behind_gateway(namespace: String) -> Self {
        Self { remembers: true, ..Self::new(namespace) }
    }

    /// An execution of `record` by `consumer` is about to begin: its number, over all consumers.
    pub fn next_execution(&self, record: RecordId) -> Execution {
        Execution(self.executions_of(record).0.saturating_add(1))
    }

    /// Counts one event, and fills in which record it is about. Events come in the order in which they happened.
    pub fn record(&mut self, event: &mut Event) {
        match &event.what {
            What::Client(client) => {
                self.now.client(client);
                if let (ClientEvent::Send { write, request_id, .. }, Some(record)) = (client, event.record) {
                    self.sent.insert((write.lsid, *request_id), record);
                }
                self.group(client);
            }
            What::Server(server) => event.record = self.record_of(server),
        }
        if let Some(record) = event.record {
            self.count(record, event);
        }
        self.series.at(event.at_ms, &self.now);
    }

    /// Which record an event of the server is about.
    fn record_of(&mut self, event: &ServerEvent) -> Option<RecordId> {
        let id = event.op();
        if let ServerEvent::Arrived { write: WriteId { lsid, .. }, request_id, namespace, .. } = event {
            let sent = (*lsid, *request_id);
            let record = if self.remembers { self.sent.get(&sent).copied() } else { self.sent.remove(&sent) }?;
            if *namespace == self.namespace {
                self.ops.insert(id, Op { record, waits_for_ticket: false });
                return Some(record);
            }
            return None;
        }
        let op = self.ops.get_mut(&id)?;
        let waits = match event {
            ServerEvent::Waiting { wait: Wait::Ticket, .. } => true,
            ServerEvent::Resumed { wait: Wait::Ticket, .. } | ServerEvent::Ended { .. } => false,
            _ => op.waits_for_ticket,
        };
        let was = std::mem::replace(&mut op.waits_for_ticket, waits);
        self.now.ticket_queue = self.now.ticket_queue + u64::from(waits) - u64::from(was);
        let record = op.record;
        if let ServerEvent::Ended { .. } = event {
            self.ops.remove(&id);
        }
        Some(record)
    }

    /// What happens to the consumer group.
    fn group(&mut self, event: &ClientEvent) {
        match event {
            ClientEvent::Assigned { .. } => self.outcome.assignments += 1,
            ClientEvent::Lost { .. } => self.outcome.poll_interval_exceeded += 1,
            ClientEvent::CommitFailed { .. } => self.outcome.commits_failed += 1,
            ClientEvent::RecoveryFailed { .. } => self.outcome.dead_letters_failed += 1,
            _ => {}
        }
    }

    fn count(&mut self, record: RecordId, event: &Event) {
        let open = self.open.entry(record).or_insert_with(|| {
            self.spare.pop().unwrap_or_else(|| Open {
                ledger: Ledger::new(None),
                executing: Vec::new(),
                before: Gauges::default(),
            })
        });
        open.ledger.record(event);
        let line = self.lines.entry(record).or_default();
        let was_open = line.fate == Fate::Open;
        if let What::Client(client) = &event.what {
            match client {
                ClientEvent::ExecutionStarted { .. } => {
                    line.executions += 1;
                    line.first_ms.get_or_insert(event.at_ms);
                    if let Some(consumer) = event.consumer {
                        if !open.executing.is_empty() && !open.executing.contains(&consumer) {
                            line.had_two_owners = true;
                        }
                        open.executing.push(consumer);
                    }
                }
                ClientEvent::ExecutionSucceeded { .. } | ClientEvent::ExecutionFailed { .. } => {
                    if let Some(at) = open.executing.iter().position(|executing| Some(*executing) == event.consumer) {
                        open.executing.swap_remove(at);
                    }
                    if let ClientEvent::ExecutionSucceeded { .. } = client {
                        line.end(Fate::Written, event.at_ms, &open.ledger);
                    }
                }
                ClientEvent::DeadLetter { .. } => {
                    line.dead_letters += 1;
                    line.end(Fate::DeadLetter, event.at_ms, &open.ledger);
                }
                _ => {}
            }
        }
        self.ended += u64::from(was_open && line.fate != Fate::Open);
        let (before, after) = (open.before, Gauges::of(&open.ledger));
        open.before = after;
        self.now.running_copies = self.now.running_copies + after.running - before.running;
        self.now.waiting_resends = self.now.waiting_resends + after.waiting - before.waiting;
        self.now.operations = self.now.operations + after.live - before.live;
        self.multiplied = self.multiplied + u64::from(after.is_multiplied()) - u64::from(before.is_multiplied());
        if after.is_multiplied() || before.is_multiplied() {
            self.multiplied_until_ms = event.at_ms;
        }
        if open.is_idle() && line.fate != Fate::Open && !self.remembers {
            let counts = open.ledger.counts(0, 0);
            line.close(&counts, &open.ledger.extras());
            if let Some(mut over) = self.open.remove(&record)
                && self.spare.len() < SPARE_MAX
            {
                over.ledger.clear();
                over.before = Gauges::default();
                self.spare.push(over);
            }
        }
    }

    /// How many records have been written or given up.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// How often `record` has been executed.
    pub fn executions_of(&self, record: RecordId) -> Execution {
        Execution(self.lines.get(&record).map_or(0, |line| line.executions))
    }

    /// Whether nothing is under way: every record that was begun has ended, and so have all its operations.
    pub fn is_quiet(&self) -> bool {
        let has_ended = |record| self.lines.get(record).is_some_and(|line| line.fate != Fate::Open);
        self.open.iter().all(|(record, open)| open.is_idle() && has_ended(record))
    }

    /// Operations at the server that have not ended.
    pub fn operations(&self) -> u64 {
        self.now.operations
    }

    /// The numbers now.
    pub fn now(&self) -> &Point {
        &self.now
    }

    /// The numbers of one record so far.
    pub fn numbers_of(&self, record: RecordId) -> (Counts, Extras) {
        let mut line = self.lines.get(&record).copied().unwrap_or_default();
        if let Some(open) = self.open.get(&record) {
            line.close(&open.ledger.counts(0, 0), &open.ledger.extras());
        }
        (line.counts(), line.extras())
    }

    /// Everything, when nothing more will come. `stall_ended_ms`: when the stall was over, for the time to recover.
    pub fn finish(mut self, now_ms: u64, stall_ended_ms: Option<u64>) -> (Outcome, Series) {
        for (record, open) in self.open.drain() {
            let line = self.lines.entry(record).or_default();
            line.close(&open.ledger.counts(0, 0), &open.ledger.extras());
        }
        let mut outcome = self.outcome;
        for line in self.lines.values() {
            outcome.add(line);
        }
        outcome.running_copies_max = self.series.most(|point| point.running_copies);
        outcome.ticket_queue_max = self.series.most(|point| point.ticket_queue);
        outcome.operations_max = self.series.most(|point| point.operations);
        outcome.ended_ms = now_ms;
        outcome.left_multiplied = self.multiplied;
        outcome.recovered_after_ms = stall_ended_ms
            .filter(|_| self.multiplied == 0)
            .map(|ended_ms| self.multiplied_until_ms.saturating_sub(ended_ms));
        self.series.at(now_ms, &self.now);
        (outcome, self.series)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::event;
    use crate::ids::{ConnectionId, TxnNumber};

    /// A tally that is told events of two records and two consumers.
    struct Played {
        tally: Tally,
        at_ms: u64,
    }

    const RECORD: RecordId = RecordId { partition: 0, offset: 7 };

    fn write(session: u8) -> WriteId {
        WriteId { lsid: Some(Lsid(Uuid::from_bytes([session; 16]))), txn_number: Some(TxnNumber(1)) }
    }

    impl Played {
        fn new() -> Self {
            Self { tally: Tally::new("db.c".to_owned()), at_ms: 0 }
        }

        fn client(&mut self, consumer: u32, event: ClientEvent) {
            let what = What::Client(event);
            let mut event =
                Event { at_ms: self.at_ms, record: Some(RECORD), consumer: Some(ConsumerId(consumer)), what };
            self.tally.record(&mut event);
        }

        fn server(&mut self, event: ServerEvent) -> Option<RecordId> {
            let mut event = Event { at_ms: self.at_ms, record: None, consumer: None, what: What::Server(event) };
            self.tally.record(&mut event);
            event.record
        }

        /// An execution of `consumer` sends once and is executed by the server as operation `op`.
        fn execute(&mut self, consumer: u32, op: i32) {
            let execution = self.tally.next_execution(RECORD);
            self.client(consumer, ClientEvent::ExecutionStarted { execution });
            let (write, request_id) = (write(op as u8), RequestId(op));
            self.client(
                consumer,
                ClientEvent::Send {
                    execution: Some(execution),
                    write,
                    request_id,
                    command: "insert".into(),
                    namespace: "db.c".into(),
                    attempt: 1,
                },
            );
            let arrived = ServerEvent::Arrived {
                op: OpId(op),
                write,
                connection: ConnectionId(1),
                request_id,
                app_name: None,
                command: "insert".into(),
                namespace: "db.c".into(),
                in_transaction: false,
            };
            assert_eq!(self.server(arrived), Some(RECORD));
            self.server(ServerEvent::Executing { op: OpId(op), write });
        }

        fn end(&mut self, op: i32) {
            let outcome = event::Outcome::Ok;
            self.server(ServerEvent::Ended { op: OpId(op), write: write(op as u8), outcome, client_there: true });
        }

        fn succeed(&mut self, consumer: u32, execution: u32) {
            self.client(consumer, ClientEvent::ExecutionSucceeded { execution: Execution(execution) });
        }
    }

    #[test]
    fn a_record_in_two_consumers_is_named_and_its_ledger_goes_when_it_is_over() {
        let mut played = Played::new();
        played.execute(1, 1);
        played.at_ms = 10;
        played.execute(2, 2);
        played.at_ms = 20;
        played.end(1);
        played.succeed(1, 1);
        assert!(!played.tally.is_quiet(), "the other consumer still executes it");
        played.at_ms = 30;
        played.end(2);
        played.succeed(2, 2);
        assert!(played.tally.is_quiet());
        assert_eq!(played.tally.numbers_of(RECORD).0.overlapping_copies_max, 2);
        let (outcome, series) = played.tally.finish(40, Some(15));
        assert_eq!((outcome.records, outcome.written, outcome.records_with_two_owners), (1, 1, 1));
        assert_eq!((outcome.executions, outcome.copies, outcome.running_copies_max), (2, 2, 2));
        assert_eq!(outcome.recovered_after_ms, Some(5), "one copy was left at 20 ms, the stall ended at 15 ms");
        assert_eq!(series.most(|point| point.operations), 2);
    }

    #[test]
    fn a_record_that_comes_back_after_its_end_is_counted_on() {
        let mut played = Played::new();
        for op in [1, 2] {
            played.execute(1, op);
            played.end(op);
            played.client(1, ClientEvent::DeadLetter { execution: Execution(op as u32) });
            played.client(1, ClientEvent::ExecutionFailed { execution: Execution(op as u32), error: String::new() });
        }
        let (outcome, _) = played.tally.finish(5, None);
        assert_eq!((outcome.records, outcome.executions, outcome.copies, outcome.dead_letters), (1, 2, 2, 2));
        assert_eq!((outcome.dead_lettered, outcome.recovered_after_ms), (1, None));
    }

    #[test]
    fn what_nobody_sent_for_a_record_does_not_count() {
        let mut played = Played::new();
        let arrived = ServerEvent::Arrived {
            op: OpId(9),
            write: write(9),
            connection: ConnectionId(1),
            request_id: RequestId(9),
            app_name: None,
            command: "insert".into(),
            namespace: "db.c".into(),
            in_transaction: false,
        };
        assert_eq!(played.server(arrived), None);
        assert_eq!(played.tally.finish(1, None).0, Outcome { ended_ms: 1, ..Outcome::default() });
    }
}
