//! Random interleavings of originals, resends, kills, disconnects, deadlines and stalls, held against three laws:
//!
//! 1. every (`lsid`, `txnNumber`, `stmtId`) executes at most once;
//! 2. what was acknowledged is there;
//! 3. the ledger counts what an oracle counts that knows nothing of events: it looks at `currentOp` again and again.
//!
//! The third needs instants at which the oracle can look. Writes and changes of fail points happen at multiples of
//! ten milliseconds, and every time in the server ends between them, so that nothing begins and ends unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use backfire_model::ledger::Ledger;
use backfire_server::profile::PROFILES;
use backfire_tests::{Lab, Wire};
use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::task::JoinHandle;

/// Sessions that the writes share.
const SESSIONS: u8 = 8;
/// How many equal documents a delete finds.
const DELETABLE: usize = 4;

/// What a write does. Each has keys of its own, so that its effect can be counted.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Documents without `_id`: executed twice, they are there twice.
    Insert {
        documents: i32,
        ordered: bool,
    },
    /// `$inc` of a document of its own per statement.
    Update {
        statements: i32,
    },
    /// An upsert by a field without a unique index.
    Upsert,
    /// One of several equal documents.
    Delete,
    FindAndModify,
}

#[derive(Debug, Clone, Copy)]
enum FailPoint {
    Off,
    Block { millis: i32 },
    Close { times: i32 },
    Error { times: i32 },
    WriteConcernError { times: i32 },
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Original {
        session: u8,
        kind: Kind,
        deadline_ms: Option<i32>,
    },
    /// The same command again, on another connection.
    Resend {
        write: prop::sample::Index,
    },
    KillOp {
        write: prop::sample::Index,
    },
    KillSession {
        session: u8,
    },
    Disconnect {
        send: prop::sample::Index,
    },
    FailCommand(FailPoint),
    StallInEngine(bool),
    StallInterruptible(bool),
    LoseReplies(bool),
    Tickets {
        writes: i32,
    },
    Pass {
        tens: u64,
    },
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        3 => (1..4_i32, any::<bool>()).prop_map(|(documents, ordered)| Kind::Insert { documents, ordered }),
        3 => (1..4_i32).prop_map(|statements| Kind::Update { statements }),
        1 => Just(Kind::Upsert),
        1 => Just(Kind::Delete),
        1 => Just(Kind::FindAndModify),
    ]
}

fn fail_point() -> impl Strategy<Value = FailPoint> {
    prop_oneof![
        1 => Just(FailPoint::Off),
        4 => (0..12).prop_map(|tens| FailPoint::Block { millis: 10 * tens + 3 }),
        1 => (1..3).prop_map(|times| FailPoint::Close { times }),
        1 => (1..3).prop_map(|times| FailPoint::Error { times }),
        1 => (1..3).prop_map(|times| FailPoint::WriteConcernError { times }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..SESSIONS, kind(), prop::option::weighted(0.5, 0..15_i32))
            .prop_map(|(session, kind, tens)| Step::Original { session, kind, deadline_ms: tens.map(|tens| 10 * tens + 4) }),
        6 => any::<prop::sample::Index>().prop_map(|write| Step::Resend { write }),
        1 => any::<prop::sample::Index>().prop_map(|write| Step::KillOp { write }),
        1 => (0..SESSIONS).prop_map(|session| Step::KillSession { session }),
        2 => any::<prop::sample::Index>().prop_map(|send| Step::Disconnect { send }),
        2 => fail_point().prop_map(Step::FailCommand),
        1 => any::<bool>().prop_map(Step::StallInEngine),
        1 => any::<bool>().prop_map(Step::StallInterruptible),
        1 => any::<bool>().prop_map(Step::LoseReplies),
        1 => (5..8).prop_map(|writes| Step::Tickets { writes }),
        3 => (1..8_u64).prop_map(|tens| Step::Pass { tens }),
    ]
}

fn lsid(session: u8) -> Bson {
    let bytes = vec![session + 1; 16];
    Bson::Document(doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes } })
}

/// A write: its command, and what shows that it was executed.
struct Write {
    session: u8,
    command: Document,
    /// One per statement.
    keys: Vec<String>,
    kind: Kind,
    sends: u64,
}

/// One send of a write, and what came back.
struct Send {
    write: usize,
    reply: Arc<Mutex<Option<Document>>>,
    task: JoinHandle<()>,
}

/// The keys of a write's statements.
fn keys(kind: Kind, write: usize) -> Vec<String> {
    let statements = match kind {
        Kind::Insert { documents, .. } => documents,
        Kind::Update { statements } => statements,
        _ => 1,
    };
    (0..statements).map(|statement| format!("{write}.{statement}")).collect()
}

/// The documents that must be there before a write.
fn prepared(kind: Kind, write: usize) -> Vec<Document> {
    let copies = match kind {
        Kind::Insert { .. } | Kind::Upsert => 0,
        Kind::Update { .. } | Kind::FindAndModify => 1,
        Kind::Delete => DELETABLE,
    };
    keys(kind, write).iter().flat_map(|key| vec![doc! { "key": key, "n": 0 }; copies]).collect()
}

impl Write {
    fn new(number: usize, session: u8, txn_number: i64, kind: Kind, deadline_ms: Option<i32>) -> Self {
        let keys = keys(kind, number);
        let key = keys[0].as_str();
        let mut command = match kind {
            Kind::Insert { ordered, .. } => {
                let documents: Vec<_> = keys.iter().map(|key| doc! { "key": key, "n": 1 }).collect();
                doc! { "insert": "c", "documents": documents, "ordered": ordered }
            }
            Kind::Update { .. } => {
                let update = |key: &String| doc! { "q": { "key": key }, "u": { "$inc": { "n": 1 } } };
                doc! { "update": "c", "updates": keys.iter().map(update).collect::<Vec<_>>() }
            }
            Kind::Upsert => {
                // The filter never matches what an earlier execution inserted: each inserts anew.
                let upsert =
                    doc! { "q": { "key": key, "no": 1 }, "u": { "$set": { "n": 1, "no": 0 } }, "upsert": true };
                doc! { "update": "c", "updates": [upsert] }
            }
            Kind::Delete => doc! { "delete": "c", "deletes": [{ "q": { "key": key }, "limit": 1 }] },
            Kind::FindAndModify => {
                doc! { "findAndModify": "c", "query": { "key": key }, "update": { "$inc": { "n": 1 } } }
            }
        };
        command.insert("lsid", lsid(session));
        command.insert("txnNumber", txn_number);
        command.extend(deadline_ms.map(|millis| ("maxTimeMS".to_owned(), Bson::Int32(millis))));
        Self { session, command, keys, kind, sends: 0 }
    }

    /// How often the statement with this key was executed, from what is in the collection.
    fn executed(&self, found: &[Document]) -> i64 {
        let sum: i64 = found.iter().map(|document| i64::from(document.get_i32("n").expect("a number"))).sum();
        match self.kind {
            Kind::Delete => DELETABLE as i64 - found.len() as i64,
            _ => sum,
        }
    }

    /// How many statements a reply says were executed, now or earlier.
    fn acknowledged(&self, reply: &Document) -> i64 {
        if reply.get_f64("ok").ok() != Some(1.0) {
            return 0;
        }
        match self.kind {
            Kind::FindAndModify => {
                let last = reply.get_document("lastErrorObject").expect("findAndModify says what it did");
                i64::from(last.get_i32("n").expect("n"))
            }
            _ => i64::from(reply.get_i32("n").expect("n")),
        }
    }
}

/// What `currentOp` shows of the writes at one instant.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    /// (`lsid`, `txnNumber`) of which an operation does not wait for its session.
    running: BTreeSet<(String, i64)>,
    /// Operations that wait for the session that another operation of the same write holds.
    waiting_resends: u64,
    /// Those of which an operation has the session.
    executing: BTreeSet<(String, i64)>,
}

async fn look(control: &mut Wire) -> Seen {
    let reply = control.run("admin", doc! { "currentOp": 1, "$all": true }).await;
    let mut seen = Seen::default();
    let mut waiting: BTreeMap<(String, i64), u64> = BTreeMap::new();
    for op in reply.get_array("inprog").expect("inprog").iter().filter_map(Bson::as_document) {
        let Ok(command) = op.get_document("command") else { continue };
        // The statements of a batch are shown one by one; only the transaction's number is always there.
        let in_transaction =
            op.get_document("transaction").and_then(|transaction| transaction.get_document("parameters"));
        let number = in_transaction.and_then(|parameters| parameters.get_i64("txnNumber"));
        let Some(number) = number.or_else(|_| command.get_i64("txnNumber")).ok() else { continue };
        let key = (op.get_document("lsid").expect("a session").get("id").expect("id").to_string(), number);
        if op.contains_key("transaction") {
            seen.executing.insert(key.clone());
        }
        // It has begun, and has no session: it waits for one.
        if op.contains_key("secs_running") && !op.contains_key("transaction") {
            *waiting.entry(key).or_default() += 1;
        } else {
            seen.running.insert(key);
        }
    }
    let resends = waiting.iter().filter(|(key, _)| seen.executing.contains(*key));
    seen.waiting_resends = resends.map(|(_, number)| number).sum();
    seen
}

/// A server, the writes sent to it, and both counters.
struct World {
    lab: Lab,
    control: Wire,
    writes: Vec<Write>,
    sends: Vec<Send>,
    numbers: [i64; SESSIONS as usize],
    ledger: Ledger,
    events: usize,
    /// Whether every write so far was held, so that the oracle has seen each.
    all_seen: bool,
    blocking: bool,
    /// Writes that were seen running or held.
    copies: BTreeSet<(String, i64)>,
    /// Those of them that were seen with their session.
    run: BTreeSet<(String, i64)>,
    /// Whether a kill or a deadline may have ended a write before its session.
    interrupted: bool,
    overlap_max: u64,
}

impl World {
    fn new(profile: usize) -> Self {
        let lab = Lab::of(PROFILES[profile]);
        let control = lab.connect();
        Self {
            lab,
            control,
            writes: Vec::new(),
            sends: Vec::new(),
            numbers: [0; SESSIONS as usize],
            ledger: Ledger::new(Some("test.c".to_owned())),
            events: 0,
            all_seen: true,
            blocking: false,
            copies: BTreeSet::new(),
            run: BTreeSet::new(),
            interrupted: false,
            overlap_max: 0,
        }
    }

    async fn admin(&mut self, command: Document) {
        let reply = self.control.run("admin", command.clone()).await;
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command}: {reply}");
    }

    async fn fail_point(&mut self, name: &str, mode: impl Into<Bson>, data: Document) {
        self.admin(doc! { "configureFailPoint": name, "mode": mode.into(), "data": data }).await;
    }

    async fn toggle(&mut self, name: &str, on: bool) {
        let mode = if on { "alwaysOn" } else { "off" };
        self.fail_point(name, mode, doc! {}).await;
    }

    async fn fail_command(&mut self, how: FailPoint) {
        self.blocking = matches!(how, FailPoint::Block { .. });
        let (mode, mut data) = match how {
            FailPoint::Off => (Bson::from("off"), doc! {}),
            FailPoint::Block { millis } => {
                (Bson::from("alwaysOn"), doc! { "blockConnection": true, "blockTimeMS": millis })
            }
            FailPoint::Close { times } => (doc! { "times": times }.into(), doc! { "closeConnection": true }),
            FailPoint::Error { times } => (doc! { "times": times }.into(), doc! { "errorCode": 10107 }),
            FailPoint::WriteConcernError { times } => {
                (doc! { "times": times }.into(), doc! { "writeConcernError": { "code": 91, "errmsg": "no" } })
            }
        };
        data.insert("failCommands", ["insert", "update", "delete", "findAndModify"].map(Bson::from).to_vec());
        self.fail_point("failCommand", mode, data).await;
    }

    /// Sends a write on a connection of its own.
    async fn send(&mut self, write: usize) {
        self.all_seen &= self.blocking;
        self.writes[write].sends += 1;
        let mut wire = self.lab.connect();
        wire.send("test", self.writes[write].command.clone(), &[]).await;
        let reply = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&reply);
        let task = tokio::spawn(async move { *slot.lock() = wire.reply().await });
        self.sends.push(Send { write, reply, task });
    }

    async fn step(&mut self, step: Step) {
        let interrupts = |step| match step {
            Step::Original { deadline_ms, .. } => deadline_ms.is_some(),
            step => matches!(step, Step::KillOp { .. } | Step::KillSession { .. }),
        };
        self.interrupted |= interrupts(step);
        match step {
            Step::Original { session, kind, deadline_ms } => {
                self.numbers[session as usize] += 1;
                let number = self.numbers[session as usize];
                self.writes.push(Write::new(self.writes.len(), session, number, kind, deadline_ms));
                self.send(self.writes.len() - 1).await;
            }
            Step::Resend { write } if !self.writes.is_empty() => self.send(write.index(self.writes.len())).await,
            Step::KillOp { write } if !self.writes.is_empty() => self.kill(write.index(self.writes.len())).await,
            Step::KillSession { session } => {
                let id = lsid(session);
                self.admin(doc! { "killSessions": [id] }).await;
            }
            Step::Disconnect { send } if !self.sends.is_empty() => {
                self.sends[send.index(self.sends.len())].task.abort();
            }
            Step::FailCommand(how) => self.fail_command(how).await,
            Step::StallInEngine(on) => self.toggle("stallInEngine", on).await,
            Step::StallInterruptible(on) => self.toggle("stallInterruptible", on).await,
            Step::LoseReplies(on) => self.toggle("onPrimaryTransactionalWrite", on).await,
            Step::Tickets { writes } => {
                // Taking tickets away waits until nobody has them: nobody waits for that here.
                let mut wire = self.lab.connect();
                wire.send("admin", doc! { "setParameter": 1, "wiredTigerConcurrentWriteTransactions": writes }, &[])
                    .await;
                tokio::spawn(async move { wire.reply().await });
            }
            Step::Pass { tens } => {
                for _ in 0..tens {
                    self.pass().await;
                }
            }
            Step::Resend { .. } | Step::KillOp { .. } | Step::Disconnect { .. } => {}
        }
        self.pass().await;
    }

    /// Inserts what the writes of these steps will change.
    async fn prepare(&mut self, steps: &[Step]) {
        let originals = steps.iter().filter_map(|step| match step {
            Step::Original { kind, .. } => Some(*kind),
            _ => None,
        });
        let documents: Vec<_> = originals.enumerate().flat_map(|(number, kind)| prepared(kind, number)).collect();
        if !documents.is_empty() {
            let reply = self.control.run("test", doc! { "insert": "c", "documents": documents.clone() }).await;
            assert_eq!(reply.get_i32("n").ok(), Some(documents.len() as i32), "{reply}");
        }
        // Neither counter knows of these.
        self.events = self.lab.events().len();
    }

    async fn kill(&mut self, write: usize) {
        let number = self.writes[write].command.get_i64("txnNumber").expect("has one");
        let session = lsid(self.writes[write].session);
        let id = session.as_document().and_then(|lsid| lsid.get("id")).cloned();
        let reply = self.control.run("admin", doc! { "currentOp": 1, "$all": true }).await;
        for op in reply.get_array("inprog").expect("inprog").iter().filter_map(Bson::as_document) {
            let of_session = op.get_document("lsid").ok().and_then(|lsid| lsid.get("id")) == id.as_ref();
            let command = op.get_document("command").ok().and_then(|command| command.get_i64("txnNumber").ok());
            if of_session && command == Some(number) {
                let opid = op.get_i32("opid").expect("opid");
                self.admin(doc! { "killOp": 1, "op": opid }).await;
            }
        }
    }

    /// Ten milliseconds, with a look between any two instants at which something can happen by itself.
    async fn pass(&mut self) {
        for millis in [1, 4, 1, 3] {
            self.look().await;
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Compares what the ledger says of this instant with what the oracle sees.
    async fn look(&mut self) {
        // Everything that can go on at this instant has gone on.
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
        let seen = look(&mut self.control).await;
        let events = self.lab.events_from(self.events);
        self.events += events.len();
        events.iter().for_each(|event| self.ledger.record(event));
        assert_eq!(self.ledger.running_copies(), seen.running.len() as u64, "{:?}", seen.running);
        assert_eq!(self.ledger.waiting_resends(), seen.waiting_resends);
        self.overlap_max = self.overlap_max.max(seen.running.len() as u64);
        self.copies.extend(seen.running);
        self.run.extend(seen.executing);
    }

    /// Lets everything end.
    async fn release(&mut self) {
        self.fail_command(FailPoint::Off).await;
        for name in ["stallInEngine", "stallInterruptible", "onPrimaryTransactionalWrite"] {
            self.toggle(name, false).await;
        }
        for _ in 0..200 {
            self.pass().await;
        }
        assert_eq!(self.ledger.live_operations(), 0, "something never ended");
    }

    async fn check(mut self) {
        let mut reader = self.lab.connect();
        for (number, write) in self.writes.iter().enumerate() {
            let replies = self.sends.iter().filter(|send| send.write == number);
            let acknowledged =
                replies.filter_map(|send| send.reply.lock().as_ref().map(|reply| write.acknowledged(reply)));
            let acknowledged = acknowledged.max().unwrap_or(0);
            let mut executed = 0;
            for key in &write.keys {
                let reply = reader.run("test", doc! { "find": "c", "filter": { "key": key } }).await;
                let batch =
                    reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
                let found: Vec<_> = batch.iter().filter_map(Bson::as_document).cloned().collect();
                let times = write.executed(&found);
                assert!((0..=1).contains(&times), "statement {key} was executed {times} times: {}", write.command);
                executed += times;
            }
            assert!(acknowledged <= executed, "{acknowledged} acknowledged, {executed} there: {}", write.command);
        }

        let counts = self.ledger.counts(0, 0);
        let sends: u64 = self.writes.iter().map(|write| write.sends).sum();
        assert_eq!(counts.sends, sends);
        assert_eq!(counts.resends, sends - self.writes.len() as u64);
        let held_or_run = self.copies.len() as u64;
        if self.all_seen {
            assert_eq!(counts.overlapping_copies_max, self.overlap_max);
        } else {
            assert!(counts.overlapping_copies_max >= self.overlap_max);
        }
        // What was killed while a fail point held it was never executed, so it is no copy.
        match (self.all_seen, self.interrupted) {
            (true, false) => assert_eq!(counts.copies, held_or_run),
            (true, true) => assert!((self.run.len() as u64..=held_or_run).contains(&counts.copies)),
            (false, _) => assert!(counts.copies >= self.run.len() as u64),
        }
        let status = self.control.run("admin", doc! { "serverStatus": 1 }).await;
        let transactions = status.get_document("transactions").expect("transactions");
        let retried = transactions.get_i64("retriedCommandsCount").expect("a counter") as u64;
        assert_eq!(self.ledger.extras().answered_from_history, Some(retried));
        drop((reader, self.control, self.sends));
        self.lab.finish().await;
    }
}

async fn play(profile: usize, block_ms: Option<i32>, steps: &[Step]) {
    let mut world = World::new(profile);
    world.prepare(steps).await;
    if let Some(millis) = block_ms {
        world.fail_command(FailPoint::Block { millis }).await;
    }
    world.pass().await;
    for step in steps {
        world.step(*step).await;
    }
    world.release().await;
    world.check().await;
}

/// As many cases as `PROPTEST_CASES` says, or as fit into a test run.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(96)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_keeps_the_laws(
        profile in 0..3_usize,
        block in prop::option::weighted(0.8, 0..9_i32),
        steps in prop::collection::vec(step(), 5..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        runtime.block_on(play(profile, block.map(|tens| 10 * tens + 3), &steps));
    }
}
