//! The ledger: counts an event stream into executions, sends, resends, copies and overlap.
//!
//! It believes the server about what arrived and what ran, and the client about executions. Control commands, reads and
//! other collections are not writes and never count.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use crate::counts::{Counts, Extras};
use crate::event::{ClientEvent, Event, Outcome, ServerEvent, Wait, What, WriteId};
use crate::ids::{Execution, OpId, RequestId};

/// Commands that write documents.
const WRITE_COMMANDS: [&str; 5] = ["insert", "update", "delete", "findAndModify", "bulkWrite"];
/// The command that makes a transaction's writes last.
const COMMIT: &str = "commitTransaction";
/// `MaxTimeMSExpired`.
const MAX_TIME_MS_EXPIRED: i32 = 50;
/// `ClientDisconnect`.
const CLIENT_DISCONNECT: i32 = 279;

/// What makes a copy a copy of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CopyKey {
    /// All sends with this identity are one copy.
    Numbered(WriteId),
    /// A send without a `txnNumber` is a copy by itself.
    Unnumbered(OpId),
}

/// Databases that belong to the server; nothing an application wants written is there.
const SERVER_DATABASES: [&str; 3] = ["admin.", "config.", "local."];

/// Counts the events of one collection, or of all that belong to applications.
#[derive(Debug, Clone)]
pub struct Ledger {
    namespace: Option<String>,
    executions_started: u64,
    has_client: bool,
    ops: HashMap<OpId, Op>,
    copies: HashMap<CopyKey, Copies>,
    sends: u64,
    /// Those that the client told of.
    sends_by_driver: u64,
    resends: u64,
    /// Copies that are worked on at the moment.
    running: u64,
    /// Resends that wait at the moment for the session that their original holds.
    waiting: u64,
    /// Write operations that have not ended.
    live: u64,
    overlapping_max: u64,
    /// Which execution a send belongs to, as the client said.
    executions: HashMap<(WriteId, RequestId), Execution>,
    /// Per document: the newest execution that has written it.
    writers: HashMap<String, Execution>,
    answered_from_history: u64,
    ended_at_deadline: u64,
    reads_ended_with_client: u64,
    late: HashSet<CopyKey>,
}

#[derive(Debug, Clone, Copy)]
struct Op {
    key: Option<CopyKey>,
    execution: Option<Execution>,
    waits_for_session: bool,
    /// It repeats what was sent before.
    is_resend: bool,
    /// A statement of a multi-document transaction: sent once, whatever its identity says.
    is_statement: bool,
    /// A fail point holds it, before its session.
    held: bool,
    holds_session: bool,
    ended: bool,
}

/// What a command is to the ledger.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sent {
    /// A write of its own.
    Write,
    /// A write that is a statement of a transaction.
    Statement,
    /// The commit of a transaction that has such a statement.
    Commit,
    Read,
}

impl Op {
    /// Not ended, and not waiting for a session.
    fn is_active(&self) -> bool {
        !self.ended && !self.waits_for_session
    }
}

/// A copy: what it consists of at the moment.
#[derive(Debug, Clone, Default)]
struct Copies {
    /// Operations that have not ended and do not wait for a session.
    active: u64,
    /// Operations that wait for a session.
    waiting: u64,
    /// Those of them that are statements of a transaction, and no resends.
    waiting_statements: u64,
    /// Operations that have the session and have not ended.
    holding: u64,
    /// Operations that a fail point holds.
    held: u64,
    /// Whether one of its operations ever began its statements.
    executed: bool,
    /// Whether it is a multi-document transaction.
    is_transaction: bool,
    /// Whether the transaction's commit has arrived.
    commits: bool,
    execution: Option<Execution>,
}

impl Copies {
    fn is_running(&self) -> bool {
        self.active > 0 && self.counts()
    }

    /// Whether it is a copy: it was executed, or will be when the fail point lets go of it.
    fn counts(&self) -> bool {
        self.executed || self.held > 0
    }

    /// Its operations that wait for the session that another of them holds.
    fn waiting_resends(&self) -> u64 {
        if self.holding > 0 { self.waiting - self.waiting_statements } else { 0 }
    }

    /// Its operations that have not ended.
    fn live(&self) -> u64 {
        self.active + self.waiting
    }

    /// Takes the part of one operation out (`add` false) or in (`add` true).
    fn count(&mut self, op: &Op, add: bool) {
        let parts = [
            (&mut self.active, op.is_active()),
            (&mut self.waiting, op.waits_for_session && !op.ended),
            (&mut self.waiting_statements, op.waits_for_session && op.is_statement && !op.ended),
            (&mut self.holding, op.holds_session && !op.ended),
            (&mut self.held, op.held && !op.ended),
        ];
        for (number, is_part) in parts {
            *number = if add { *number + u64::from(is_part) } else { *number - u64::from(is_part) };
        }
    }
}

impl Ledger {
    /// A ledger for the collection `namespace` (`db.collection`), or for every collection.
    pub fn new(namespace: Option<String>) -> Self {
        Self {
            namespace,
            executions_started: 0,
            has_client: false,
            ops: HashMap::new(),
            copies: HashMap::new(),
            sends: 0,
            sends_by_driver: 0,
            resends: 0,
            running: 0,
            waiting: 0,
            live: 0,
            overlapping_max: 0,
            executions: HashMap::new(),
            writers: HashMap::new(),
            answered_from_history: 0,
            ended_at_deadline: 0,
            reads_ended_with_client: 0,
            late: HashSet::new(),
        }
    }

    /// As new, for the same collections; the memory that it has is kept.
    pub(crate) fn clear(&mut self) {
        let Self { namespace, mut ops, mut copies, mut executions, mut writers, mut late, .. } =
            std::mem::replace(self, Self::new(None));
        ops.clear();
        copies.clear();
        executions.clear();
        writers.clear();
        late.clear();
        *self = Self { namespace, ops, copies, executions, writers, late, ..Self::new(None) };
    }

    /// The collection whose writes count; `None`: every collection.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Counts one event. Events must come in the order in which they happened.
    pub fn record(&mut self, event: &Event) {
        match &event.what {
            What::Client(event) => self.client(event),
            What::Server(event) => self.server(event),
        }
        self.overlapping_max = self.overlapping_max.max(self.running);
    }

    fn client(&mut self, event: &ClientEvent) {
        match event {
            ClientEvent::ExecutionStarted { .. } => {
                self.has_client = true;
                self.executions_started += 1;
            }
            ClientEvent::Send { execution: Some(execution), write, request_id, .. } => {
                self.sends_by_driver += 1;
                self.executions.insert((*write, *request_id), *execution);
            }
            _ => {}
        }
    }

    fn server(&mut self, event: &ServerEvent) {
        if let ServerEvent::Arrived { op, write, request_id, command, namespace, in_transaction, .. } = event {
            let counts = match &self.namespace {
                Some(wanted) => wanted == namespace,
                None => !SERVER_DATABASES.iter().any(|database| namespace.starts_with(database)),
            };
            let sent = match command.as_str() {
                COMMIT if self.is_transaction(write) => Sent::Commit,
                _ if !counts => return,
                command if !WRITE_COMMANDS.contains(&command) => Sent::Read,
                _ if *in_transaction => Sent::Statement,
                _ => Sent::Write,
            };
            self.arrived(*op, *write, *request_id, sent);
            return;
        }
        let Some(before) = self.ops.get(&event.op()).copied() else { return };
        let mut op = before;
        match event {
            ServerEvent::Waiting { wait: Wait::Session, .. } => op.waits_for_session = true,
            ServerEvent::Waiting { wait: Wait::FailPoint, .. } => op.held = true,
            ServerEvent::Resumed { wait: Wait::Session, .. } => op.waits_for_session = false,
            ServerEvent::Resumed { wait: Wait::FailPoint, .. } => op.held = false,
            ServerEvent::Executing { .. } => op.holds_session = true,
            ServerEvent::Committed { first_id, .. } => self.committed(&op, first_id),
            ServerEvent::Replayed { .. } => self.answered_from_history += u64::from(op.key.is_some()),
            ServerEvent::Ended { outcome, .. } => {
                op.ended = true;
                self.ended(&op, outcome);
            }
            ServerEvent::Arrived { .. } | ServerEvent::Waiting { .. } | ServerEvent::Resumed { .. } => {}
        }
        if let Some(key) = op.key {
            self.change(key, |copy| {
                copy.count(&before, false);
                copy.count(&op, true);
                copy.executed |= op.holds_session;
            });
        }
        self.ops.insert(event.op(), op);
    }

    /// Changes a copy and keeps the sums over all copies right.
    fn change(&mut self, key: CopyKey, change: impl FnOnce(&mut Copies)) {
        let copy = self.copies.entry(key).or_default();
        let before = (u64::from(copy.is_running()), copy.waiting_resends(), copy.live());
        change(copy);
        self.running = self.running + u64::from(copy.is_running()) - before.0;
        self.waiting = self.waiting + copy.waiting_resends() - before.1;
        self.live = self.live + copy.live() - before.2;
    }

    fn is_transaction(&self, write: &WriteId) -> bool {
        self.copies.get(&CopyKey::Numbered(*write)).is_some_and(|copy| copy.is_transaction)
    }

    fn arrived(&mut self, id: OpId, write: WriteId, request_id: RequestId, sent: Sent) {
        let execution = self.executions.get(&(write, request_id)).copied();
        let key = (sent != Sent::Read).then_some(match write {
            WriteId { txn_number: Some(_), .. } => CopyKey::Numbered(write),
            _ => CopyKey::Unnumbered(id),
        });
        let known = key.and_then(|key| self.copies.get(&key));
        let is_resend = match sent {
            Sent::Write => known.is_some(),
            Sent::Commit => known.is_some_and(|copy| copy.commits),
            Sent::Statement | Sent::Read => false,
        };
        let op = Op {
            key,
            execution,
            waits_for_session: false,
            is_resend,
            is_statement: sent == Sent::Statement,
            held: false,
            holds_session: false,
            ended: false,
        };
        if let Some(key) = key {
            self.sends += 1;
            self.resends += u64::from(is_resend);
            self.change(key, |copy| {
                copy.count(&op, true);
                copy.is_transaction |= sent == Sent::Statement;
                copy.commits |= sent == Sent::Commit;
                copy.execution = copy.execution.or(execution);
            });
        }
        self.ops.insert(id, op);
    }

    fn committed(&mut self, op: &Op, first_id: &str) {
        let Some((key, execution)) = op.key.zip(self.execution_of(op)) else { return };
        let newest = self.writers.entry(first_id.to_owned()).or_insert(execution);
        if *newest > execution {
            self.late.insert(key);
        }
        *newest = (*newest).max(execution);
    }

    fn execution_of(&self, op: &Op) -> Option<Execution> {
        op.execution.or_else(|| op.key.and_then(|key| self.copies.get(&key)).and_then(|copy| copy.execution))
    }

    fn ended(&mut self, op: &Op, outcome: &Outcome) {
        match outcome {
            Outcome::Error { code: MAX_TIME_MS_EXPIRED, .. } => self.ended_at_deadline += u64::from(op.key.is_some()),
            Outcome::Error { code: CLIENT_DISCONNECT, .. } => {
                self.reads_ended_with_client += u64::from(op.key.is_none())
            }
            _ => {}
        }
    }

    /// Resends that wait, at this moment, for the session that their original holds.
    pub fn waiting_resends(&self) -> u64 {
        self.waiting
    }

    /// Copies that the server works on at this moment.
    pub fn running_copies(&self) -> u64 {
        self.running
    }

    /// Write operations that have not ended.
    pub fn live_operations(&self) -> u64 {
        self.live
    }

    /// The counts so far. `waiting_resends` is what it was when the application had finished, `documents` what was found
    /// in the collection in the end. Without a client's events, executions are the distinct writes that were sent.
    pub fn counts(&self, waiting_resends: u64, documents: u64) -> Counts {
        Counts {
            executions: if self.has_client { self.executions_started } else { self.copies.len() as u64 },
            sends: self.sends,
            resends: self.resends,
            copies: self.copies.values().filter(|copy| copy.counts()).count() as u64,
            overlapping_copies_max: self.overlapping_max,
            waiting_resends,
            documents,
        }
    }

    /// The other numbers so far.
    pub fn extras(&self) -> Extras {
        Extras {
            answered_from_history: Some(self.answered_from_history),
            ended_at_deadline: Some(self.ended_at_deadline),
            reads_ended_with_client: Some(self.reads_ended_with_client),
            late_copies: Some(self.late.len() as u64),
            sends_by_driver: Some(self.sends_by_driver).filter(|by_driver| self.has_client && *by_driver != self.sends),
        }
    }

    /// The execution that an operation belongs to, if the client said so.
    pub fn execution_of_op(&self, op: OpId) -> Option<Execution> {
        self.ops.get(&op).and_then(|op| self.execution_of(op))
    }

    /// Whether the operation belongs to this ledger: a write that counts, or a read of the same collections.
    pub fn knows(&self, op: OpId) -> bool {
        self.ops.contains_key(&op)
    }

    /// Whether an operation repeats what was sent before. A statement of a multi-document transaction does not, though all of them
    /// have one identity; the second commit of a transaction does.
    pub fn is_resend(&self, op: OpId) -> bool {
        self.ops.get(&op).is_some_and(|op| op.is_resend)
    }

    /// The copy that an operation belongs to; `None` for one that does not count.
    pub fn copy_of_op(&self, op: OpId) -> Option<CopyKey> {
        self.ops.get(&op).and_then(|op| op.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ConnectionId, Lsid, TxnNumber};
    use uuid::Uuid;

    fn write(session: u8) -> WriteId {
        WriteId { lsid: Some(Lsid(Uuid::from_bytes([session; 16]))), txn_number: Some(TxnNumber(1)) }
    }

    /// Plays `what` at one event per millisecond.
    fn play(events: impl IntoIterator<Item = What>) -> Ledger {
        let mut ledger = Ledger::new(Some("db.c".into()));
        for (at, what) in events.into_iter().enumerate() {
            ledger.record(&Event { at_ms: at as u64, record: None, consumer: None, what });
        }
        ledger
    }

    fn arrived(op: i32, write: WriteId, command: &str, namespace: &str) -> What {
        What::Server(ServerEvent::Arrived {
            op: OpId(op),
            write,
            connection: ConnectionId(1),
            request_id: RequestId(op),
            app_name: None,
            command: command.into(),
            namespace: namespace.into(),
            in_transaction: false,
        })
    }

    fn in_transaction(op: i32, write: WriteId, command: &str, namespace: &str) -> What {
        let mut what = arrived(op, write, command, namespace);
        if let What::Server(ServerEvent::Arrived { in_transaction, .. }) = &mut what {
            *in_transaction = true;
        }
        what
    }

    fn executing(op: i32, write: WriteId) -> What {
        What::Server(ServerEvent::Executing { op: OpId(op), write })
    }

    fn waiting(op: i32, write: WriteId, wait: Wait) -> What {
        What::Server(ServerEvent::Waiting { op: OpId(op), write, wait })
    }

    fn ended(op: i32, write: WriteId, outcome: Outcome) -> What {
        What::Server(ServerEvent::Ended { op: OpId(op), write, outcome, client_there: true })
    }

    fn committed(op: i32, write: WriteId) -> What {
        What::Server(ServerEvent::Committed { op: OpId(op), write, documents: 1, first_id: "1".into() })
    }

    fn sent(op: i32, write: WriteId, execution: u32) -> What {
        What::Client(ClientEvent::Send {
            execution: Some(Execution(execution)),
            write,
            request_id: RequestId(op),
            command: "update".into(),
            namespace: "db.c".into(),
            attempt: 1,
        })
    }

    /// Each with `admin.$cmd`, where the end of a transaction goes.
    fn commit(op: i32, write: WriteId) -> What {
        in_transaction(op, write, "commitTransaction", "admin.$cmd")
    }

    #[test]
    fn statements_of_a_transaction_are_no_resends() {
        let (a, b) = (write(1), write(2));
        let statements = [
            in_transaction(1, a, "insert", "db.c"),
            executing(1, a),
            ended(1, a, Outcome::Ok),
            in_transaction(2, a, "find", "db.c"),
            in_transaction(3, a, "update", "db.c"),
            executing(3, a),
        ];
        let ends = [ended(3, a, Outcome::Ok), commit(4, a), executing(4, a)];
        let again = [commit(5, a), waiting(5, a, Wait::Session), commit(6, b)];
        let numbers = |events: &[&[What]]| {
            let ledger = play(events.concat());
            let counts = ledger.counts(ledger.waiting_resends(), 0);
            (counts.sends, counts.resends, counts.copies, counts.overlapping_copies_max, counts.waiting_resends)
        };
        assert_eq!(numbers(&[&statements]), (2, 0, 1, 1, 0));
        assert_eq!(numbers(&[&statements, &ends]), (3, 0, 1, 1, 0));
        // The commit of b counts nowhere: b has written nothing that counts.
        assert_eq!(numbers(&[&statements, &ends, &again]), (4, 1, 1, 1, 1));
        // Two statements side by side: the later one waits for the session and is no resend that does.
        let overtaking = [in_transaction(4, a, "delete", "db.c"), waiting(4, a, Wait::Session)];
        assert_eq!(numbers(&[&statements, &overtaking]), (3, 0, 1, 1, 0));
        let ledger = play([&statements[..], &ends, &again].concat());
        assert_eq!([1, 2, 3, 4, 5, 6].map(|op| ledger.is_resend(OpId(op))), [false, false, false, false, true, false]);
        assert_eq!(ledger.copy_of_op(OpId(6)), None);
    }

    #[test]
    fn a_commit_is_a_copy_that_runs() {
        let a = write(1);
        let other = write(2);
        let ledger = play([
            sent(1, a, 1),
            in_transaction(1, a, "update", "db.c"),
            executing(1, a),
            ended(1, a, Outcome::Ok),
            sent(2, other, 2),
            in_transaction(2, other, "update", "db.c"),
            executing(2, other),
            ended(2, other, Outcome::Ok),
            commit(3, a),
            executing(3, a),
            commit(4, other),
            executing(4, other),
            committed(4, other),
            committed(3, a),
        ]);
        let counts = ledger.counts(0, 0);
        assert_eq!((counts.sends, counts.copies, counts.overlapping_copies_max), (4, 2, 2));
        assert_eq!(ledger.extras().late_copies, Some(1), "the older execution's transaction was committed last");
    }

    #[test]
    fn a_resend_that_waits_adds_a_send_and_no_copy() {
        let (a, b) = (write(1), write(2));
        let ledger = play([
            arrived(1, a, "insert", "db.c"),
            executing(1, a),
            arrived(2, a, "insert", "db.c"),
            waiting(2, a, Wait::Session),
            arrived(3, b, "insert", "db.c"),
            executing(3, b),
        ]);
        let counts = ledger.counts(ledger.waiting_resends(), 0);
        let expected = Counts {
            executions: 2,
            sends: 3,
            resends: 1,
            copies: 2,
            overlapping_copies_max: 2,
            waiting_resends: 1,
            documents: 0,
        };
        assert_eq!(counts, expected);
        assert_eq!((ledger.running_copies(), ledger.live_operations()), (2, 3));
    }

    #[test]
    fn what_is_held_by_a_fail_point_is_a_copy_and_what_is_refused_is_none() {
        let (a, b) = (write(1), write(2));
        let refused = Outcome::Error { code: 10107, code_name: "NotMaster".into() };
        let ledger = play([
            arrived(1, a, "insert", "db.c"),
            waiting(1, a, Wait::FailPoint),
            arrived(2, a, "insert", "db.c"),
            waiting(2, a, Wait::FailPoint),
            arrived(3, b, "insert", "db.c"),
            ended(3, b, refused),
        ]);
        let counts = ledger.counts(ledger.waiting_resends(), 0);
        assert_eq!((counts.sends, counts.copies, counts.overlapping_copies_max, counts.waiting_resends), (3, 1, 1, 0));
    }

    #[test]
    fn control_commands_reads_and_other_collections_never_count() {
        let none = WriteId::default();
        let ledger = play([
            arrived(1, none, "find", "db.c"),
            arrived(2, none, "insert", "db.other"),
            ended(1, none, Outcome::Error { code: 279, code_name: "ClientDisconnect".into() }),
        ]);
        assert_eq!(ledger.counts(0, 0), Counts::default());
        assert_eq!(ledger.extras().reads_ended_with_client, Some(1));
    }

    #[test]
    fn without_a_number_every_send_is_a_copy() {
        let none = WriteId { txn_number: None, ..write(1) };
        let ledger = play([
            arrived(1, none, "update", "db.c"),
            executing(1, none),
            arrived(2, none, "update", "db.c"),
            executing(2, none),
        ]);
        let counts = ledger.counts(0, 0);
        assert_eq!((counts.sends, counts.resends, counts.copies, counts.overlapping_copies_max), (2, 0, 2, 2));
    }

    #[test]
    fn an_older_copy_that_commits_last_is_late() {
        let (a, b) = (write(1), write(2));
        let events = |first: i32, second: i32| {
            [
                sent(1, a, 1),
                arrived(1, a, "update", "db.c"),
                executing(1, a),
                sent(2, b, 2),
                arrived(2, b, "update", "db.c"),
                executing(2, b),
                committed(first, if first == 1 { a } else { b }),
                committed(second, if second == 1 { a } else { b }),
            ]
        };
        assert_eq!(play(events(2, 1)).extras().late_copies, Some(1));
        assert_eq!(play(events(1, 2)).extras().late_copies, Some(0));
    }
}
