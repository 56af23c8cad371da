//! Public reports as tests: each names where it came from. The letter and number are those of the collection the cases
//! were taken from; what is asserted is the right behaviour, not the reported one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backfire_driver::error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use backfire_driver::events::{CommandEvent, Event, PoolEvent};
use backfire_driver::{
    Client, ClientSession, ClientSettings, Collection, DriverError, DriverProfile, SessionOptions, TransactionOptions,
    WithTransaction,
};
use backfire_model::BackOff;
use backfire_model::budget::RetryBudget;
use backfire_model::connection_string::ConnectionString;
use backfire_model::dial::Dial;
use backfire_model::event::{ServerEvent, What, WriteId};
use backfire_model::predict::{Stall, Unpredictable, predict};
use backfire_model::run::Run;
use backfire_model::scenario::{DriverRules, Gateway, Inner, Scenario, Window};
use backfire_rehearsal::simulate::sweep::sweep;
use backfire_rehearsal::{Options, RehearsalError, SimulateOptions, Transport, rehearse, simulate};
use backfire_report::explain::explanations;
use backfire_report::timeline;
use backfire_server::failpoints::Mode;
use backfire_server::failpoints::table::FAIL_COMMAND;

use backfire_server::profile::{PROFILES, V4_4, V7_0, V8_0};
use backfire_tests::lab::{in_transaction, numbered, with};
use backfire_tests::{Lab, Wire};
use backfire_wire::{FrameDecoder, MessageFlags, OpCode, OpMsgEncoder};
use bson::{Bson, Document, doc};
use futures_util::FutureExt;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

fn insert(id: impl Into<Bson>) -> Document {
    doc! { "insert": "c", "documents": [{ "_id": id.into() }] }
}

fn code(reply: &Document) -> Option<i32> {
    reply.get_i32("code").ok()
}

/// `n`, or -1 without one.
fn n(reply: &Document) -> i32 {
    reply.get_i32("n").unwrap_or(-1)
}

fn labels(reply: &Document) -> Vec<&str> {
    reply.get_array("errorLabels").into_iter().flatten().filter_map(Bson::as_str).collect()
}

fn text(reply: &Document) -> &str {
    reply.get_str("errmsg").unwrap_or("no errmsg")
}

/// Sends a command and lets the server take it up.
async fn start(lab: &Lab, db: &str, command: Document) -> Wire {
    let mut wire = lab.connect();
    wire.send(db, command, &[]).await;
    sleep(Duration::from_millis(1)).await;
    wire
}

/// R1, https://github.com/mongodb-js/mongodb-mcp-server/issues/1432: a layer above issues an insert again after its own
/// timeout, each time as a new write. Twelve documents, and up to seven copies at once.
#[tokio::test(start_paused = true)]
async fn r1_a_call_that_is_issued_again_is_another_write() {
    let lab = Lab::new();
    lab.fail_point("stallInterruptible", "alwaysOn", doc! { "blockTimeMS": 2000, "namespace": "test.c" }).await;
    for call in 0..12 {
        let body = doc! { "insert": "c", "documents": [{ "body": "the same" }] };
        let wire = start(&lab, "test", with(body, numbered(call, 1))).await;
        sleep(Duration::from_millis(249)).await;
        drop(wire);
        sleep(Duration::from_millis(50)).await;
    }
    sleep(Duration::from_secs(10)).await;
    let counts = lab.ledger().counts(0, 0);
    assert_eq!((counts.sends, counts.resends, counts.copies, counts.overlapping_copies_max), (12, 0, 12, 7));
    assert_eq!(lab.count(doc! { "body": "the same" }).await, 12);
}

/// R2, https://github.com/spring-projects/spring-data-examples/issues/560: a bulk that was half applied is sent again
/// under a new number. An ordered one stops at its own earlier document and the rest never arrives.
#[tokio::test(start_paused = true)]
async fn r2_a_half_applied_bulk_sent_anew() {
    for (ordered, inserted, errors, total) in [(true, 0, 1, 2), (false, 1, 2, 3)] {
        let lab = Lab::new();
        lab.ok("test", doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }] }).await;
        let again = doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }], "ordered": ordered };
        let reply = lab.ok("test", with(again, numbered(1, 2))).await;
        assert_eq!(n(&reply), inserted);
        let found = reply.get_array("writeErrors").expect("writeErrors");
        assert!(found.iter().all(|error| error.as_document().and_then(code) == Some(11000)), "{reply}");
        assert_eq!((found.len(), lab.count(doc! {}).await), (errors, total), "ordered: {ordered}");
    }
}

/// Two upserts of `test.c` at once, each with its filter and its change, while a unique index is there: both are under way
/// before the first one commits. What each is answered, and what is stored.
async fn upserts_meet(key: Document, options: Document, statements: [(Document, Document); 2]) -> ([Document; 2], Lab) {
    let lab = Lab::new();
    let index = with(doc! { "key": key, "name": "index", "unique": true }, options);
    lab.ok("test", doc! { "createIndexes": "c", "indexes": [index] }).await;
    lab.fail_point("stallInEngine", "alwaysOn", doc! {}).await;
    let mut wires = Vec::new();
    for (number, (filter, change)) in (1..).zip(statements) {
        let command = doc! { "update": "c", "updates": [{ "q": filter, "u": change, "upsert": true }] };
        wires.push(start(&lab, "test", with(command, numbered(number, 1))).await);
    }
    lab.fail_point("stallInEngine", "off", doc! {}).await;
    let mut replies = Vec::new();
    for wire in &mut wires {
        replies.push(wire.reply().await.expect("a reply"));
    }
    let [first, second] = <[Document; 2]>::try_from(replies).expect("two replies");
    ([first, second], lab)
}

/// The error of the first statement of a reply.
fn write_error(reply: &Document) -> Option<&Document> {
    reply.get_array("writeErrors").ok()?.first()?.as_document()
}

/// R2, R3, https://jira.mongodb.org/browse/SERVER-14322: two upserts that both find nothing and both insert. The server tries the
/// later one again where its filter has an equality for each field of the unique index and nothing else.
#[tokio::test(start_paused = true)]
async fn r2_an_upsert_that_meets_another_is_tried_again_by_the_server() {
    let change = || doc! { "$inc": { "n": 1 } };
    for (key, filter) in [
        (doc! { "a": 1 }, doc! { "a": 5 }),
        (doc! { "a": 1 }, doc! { "a": { "$in": [5] } }),
        (doc! { "a": 1 }, doc! { "a": { "$eq": 5.0 } }),
        (doc! { "a": 1, "b": -1 }, doc! { "b": "x", "a": 5 }),
        (doc! { "a.b": 1 }, doc! { "$and": [{ "a.b": 5 }] }),
    ] {
        let statements = [(filter.clone(), change()), (filter.clone(), change())];
        let ([first, second], lab) = upserts_meet(key, doc! {}, statements).await;
        assert!(first.contains_key("upserted") && !second.contains_key("upserted"), "{filter}: {first} {second}");
        assert_eq!((n(&second), second.get_i32("nModified").ok()), (1, Some(1)), "{filter}: {second}");
        assert_eq!((lab.count(doc! {}).await, lab.count(doc! { "n": 2 }).await), (1, 1), "{filter}");
        assert_eq!(lab.ledger().counts(0, 0).sends, 2, "the server has no need of a second send");
    }
}

/// R2, R3: the same where the filter asks for more or less than the key, or for another value: the client gets 11000, and must try
/// again itself.
#[tokio::test(start_paused = true)]
async fn r2_an_upsert_that_asks_for_more_than_the_key_fails() {
    let change = || doc! { "$set": { "n": 1 } };
    let by = |filter: Document| (filter, change());
    let cases = [
        (doc! { "a": 1 }, doc! {}, [by(doc! { "a": 5, "b": 1 }), by(doc! { "a": 5, "b": 2 })]),
        (doc! { "a": 1 }, doc! {}, [by(doc! { "a": 5 }), by(doc! { "a": 5, "b": { "$gt": 2 } })]),
        (doc! { "a": 1 }, doc! {}, [by(doc! { "a": 5 }), by(doc! { "a": { "$gte": 5, "$eq": 5 } })]),
        (doc! { "a": 1, "b": 1 }, doc! {}, [by(doc! { "a": 5 }), by(doc! { "a": 5 })]),
        (doc! { "a": 1 }, doc! {}, [by(doc! { "a": 5 }), (doc! { "a": 6 }, doc! { "$set": { "a": 5 } })]),
        (
            doc! { "a": 1 },
            doc! { "collation": { "locale": "en", "strength": 2 } },
            [by(doc! { "a": "x" }), by(doc! { "a": "X" })],
        ),
    ];
    for (key, options, statements) in cases {
        let told = format!("{key} {statements:?}");
        let ([first, second], lab) = upserts_meet(key, options, statements).await;
        assert!(first.contains_key("upserted"), "{told}: {first}");
        assert_eq!(write_error(&second).and_then(code), Some(11000), "{told}: {second}");
        assert_eq!(lab.count(doc! {}).await, 1, "{told}");
    }
}

/// R2, R3: `findAndModify` is held to the same rule, an update of many documents is never tried again, and a driver does not send
/// again what was answered with 11000.
#[tokio::test(start_paused = true)]
async fn r2_who_tries_an_upsert_again() {
    let lab = Lab::new();
    let index = doc! { "key": { "a": 1 }, "name": "a", "unique": true };
    lab.ok("test", doc! { "createIndexes": "c", "indexes": [index] }).await;
    for (key, filter, multi, expected) in [
        (1, doc! { "a": 1 }, false, None),
        (2, doc! { "a": 2, "b": 1 }, false, Some(11000)),
        (3, doc! { "a": 3 }, true, Some(11000)),
    ] {
        lab.fail_point("stallInEngine", "alwaysOn", doc! {}).await;
        let mut insert = start(&lab, "test", doc! { "insert": "c", "documents": [{ "a": key }] }).await;
        let modify = doc! {
            "findAndModify": "c", "query": filter.clone(), "update": { "$set": { "n": 1 } }, "upsert": true, "new": true
        };
        let update = doc! {
            "update": "c", "updates": [{ "q": filter, "u": { "$set": { "n": 1 } }, "upsert": true, "multi": multi }]
        };
        let mut upsert = start(&lab, "test", if multi { update } else { modify }).await;
        lab.fail_point("stallInEngine", "off", doc! {}).await;
        assert_eq!(n(&insert.reply().await.expect("a reply")), 1);
        let reply = upsert.reply().await.expect("a reply");
        assert_eq!(code(&reply).or_else(|| write_error(&reply).and_then(code)), expected, "{reply}");
        assert_eq!(lab.count(doc! { "a": key }).await, 1);
    }
    let sends = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&sends);
    let client = lab.client("retryWrites=true", move |event: &Event| {
        if let Event::Command(CommandEvent::Started(command)) = event {
            *counted.lock() += i32::from(command.command_name == "update");
        }
    });
    let collection = client.database("test").collection("c");
    let failed = collection.update_one(doc! { "a": 1, "b": 9 }, doc! { "$set": { "n": 2 } });
    let error = failed.option("upsert", true).expect("an option").await.expect_err("the key is there");
    assert!(format!("{error:?}").contains("11000"), "{error:?}");
    assert_eq!(*sends.lock(), 1);
}

/// R3, https://github.com/sboesebeck/morphium/issues/359: the reply is lost after the write was applied. The resend finds
/// it in the history: no E11000, and `$inc` counts once.
#[tokio::test(start_paused = true)]
async fn r3_a_lost_reply_is_no_failure() {
    let lab = Lab::of(&V7_0);
    lab.ok("test", insert(0)).await;
    let update = doc! { "update": "c", "updates": [{ "q": { "_id": 0 }, "u": { "$inc": { "n": 1 } } }] };
    for (number, command) in [(1, insert(1)), (2, update)] {
        let command = with(command, numbered(1, number));
        lab.fail_point("onPrimaryTransactionalWrite", doc! { "times": 1 }, doc! {}).await;
        let mut wire = start(&lab, "test", command.clone()).await;
        assert_eq!(wire.reply().await, None, "the reply is lost");
        let reply = lab.ok("test", command).await;
        assert_eq!(n(&reply), 1, "{reply}");
        assert_eq!(reply.get_array("retriedStmtIds").expect("says so"), &[Bson::Int32(0)]);
    }
    assert_eq!(lab.count(doc! { "n": 1 }).await, 1);
}

/// R4, https://github.com/sboesebeck/morphium/issues/293: a history that has grown beyond its limit. A retry of what was
/// forgotten is refused while the session lives, and executed once it has expired. Both are counted.
#[tokio::test(start_paused = true)]
async fn r4_what_the_history_had_to_forget_is_refused_not_repeated() {
    let lab = Lab::new();
    lab.ok("admin", doc! { "setParameter": 1, "labRetryHistoryMax": 8 }).await;
    let write =
        |session: u8| with(doc! { "insert": "c", "documents": [{ "s": i32::from(session) }] }, numbered(session, 1));
    for session in 1..=20 {
        lab.ok("test", write(session)).await;
        sleep(Duration::from_millis(1)).await;
    }
    let refused = lab.run("test", write(1)).await;
    assert_eq!(code(&refused), Some(217), "{refused}");
    assert_eq!(lab.count(doc! { "s": 1 }).await, 1);
    sleep(Duration::from_secs(31 * 60)).await;
    lab.ok("test", write(1)).await;
    assert_eq!(lab.count(doc! { "s": 1 }).await, 2);
    let counters = &lab.server.shared().sessions.counters;
    let [evicted, missed, expired] =
        [&counters.history_evicted, &counters.history_missed, &counters.expired].map(|counter| counter.load(Relaxed));
    assert!(evicted > 0 && missed == 1 && expired > 0, "{counters:?}");
}

/// What an application does when nobody knows whether its transaction was committed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unknown {
    /// It says commit again.
    CommitAgain,
    /// It runs the body again.
    BodyAgain,
}

/// The commands of the increments of R5, as the client sent them.
#[derive(Debug, Default)]
struct Increments {
    /// The transactions that each increment was tried in.
    tried: BTreeMap<String, BTreeSet<WriteId>>,
    /// The write concerns of the commits of each transaction, in order.
    commits: BTreeMap<WriteId, Vec<Document>>,
}

impl Increments {
    fn note(&mut self, event: &Event) {
        let Event::Command(CommandEvent::Started(command)) = event else { return };
        let (write, body) = (WriteId { lsid: command.lsid, txn_number: command.txn_number }, command.command.body());
        if let Ok(name) = body.get_str("comment") {
            self.tried.entry(name.to_owned()).or_default().insert(write);
        }
        if command.command_name == "commitTransaction" {
            let concern = body.get_document("writeConcern").cloned().unwrap_or_default();
            self.commits.entry(write).or_default().push(concern);
        }
    }
}

/// Adds one to the counter, in a transaction.
async fn increment(collection: Collection, session: &ClientSession, name: &str, unknown: Unknown) {
    let is_unknown = |error: &DriverError| error.has_label(UNKNOWN_TRANSACTION_COMMIT_RESULT);
    let is_transient = |error: &DriverError| error.has_label(TRANSIENT_TRANSACTION_ERROR);
    loop {
        session.start_transaction(TransactionOptions::default()).expect("nothing is open");
        let update = collection.update_one(doc! { "_id": 0 }, doc! { "$inc": { "n": 1 } }).session(session);
        if let Err(error) = update.option("comment", name).expect("an option").await {
            assert!(is_transient(&error), "{error:?}");
            session.abort_transaction().await.expect("something is open");
            sleep(Duration::from_millis(3)).await;
            continue;
        }
        let mut committed = session.commit_transaction().await;
        while unknown == Unknown::CommitAgain && committed.as_ref().is_err_and(is_unknown) {
            committed = session.commit_transaction().await;
        }
        match committed {
            Ok(()) => return,
            Err(error) => assert!(is_unknown(&error) || is_transient(&error), "{error:?}"),
        }
    }
}

/// R5, https://github.com/ExtendDB/extenddb/issues/342: commits are applied and their answers lost. Who says commit again adds
/// each increment once; who runs the body again adds some of them twice, and which ones can be told from what the server saw.
#[tokio::test(start_paused = true)]
async fn r5_a_commit_whose_answer_is_lost() {
    const WORKERS: i32 = 5;
    const EACH: i32 = 10;
    for unknown in [Unknown::CommitAgain, Unknown::BodyAgain] {
        let lab = Lab::of(&V7_0);
        lab.ok("test", doc! { "insert": "c", "documents": [{ "_id": 0, "n": 0 }] }).await;
        let lost = doc! { "commands": ["commitTransaction"] };
        lab.fail_point("loseReply", doc! { "activationProbability": 0.5 }, lost).await;
        let sent = Arc::new(Mutex::new(Increments::default()));
        let noted = Arc::clone(&sent);
        let client = lab.client("retryWrites=true", move |event: &Event| noted.lock().note(event));
        let workers = (0..WORKERS).map(|worker| {
            let (client, collection) = (client.clone(), client.database("test").collection("c"));
            async move {
                let session = client.start_session(SessionOptions::default()).expect("a session");
                for at in 0..EACH {
                    increment(collection.clone(), &session, &format!("{worker}-{at}"), unknown).await;
                }
            }
        });
        join_all(workers).await;
        lab.fail_point("loseReply", "off", doc! {}).await;

        let committed: Vec<WriteId> = lab
            .events()
            .into_iter()
            .filter_map(|event| match event.what {
                What::Server(ServerEvent::Committed { write, .. }) => Some(write),
                _ => None,
            })
            .collect();
        let sent = std::mem::take(&mut *sent.lock());
        let times = |name: &str| committed.iter().filter(|write| sent.tried[name].contains(write)).count() as i32;
        let added_twice: Vec<&String> = sent.tried.keys().filter(|name| times(name) > 1).collect();
        let total: i32 = sent.tried.keys().map(|name| times(name)).sum();
        assert_eq!(lab.count(doc! { "n": total }).await, 1, "the server's events say how much was added");
        match unknown {
            Unknown::CommitAgain => assert_eq!((total, added_twice.len()), (WORKERS * EACH, 0)),
            Unknown::BodyAgain => assert!(total > WORKERS * EACH && !added_twice.is_empty(), "{total} {added_twice:?}"),
        }
        // A commit that is sent again asks for a majority, so that it is not answered by a commit that is rolled back later.
        let again = doc! { "w": "majority", "wtimeout": 10_000 };
        let retried: Vec<_> = sent.commits.values().filter(|sends| sends.len() > 1).collect();
        assert!(!retried.is_empty());
        for sends in retried {
            assert!(sends[0].is_empty() && sends[1..].iter().all(|concern| *concern == again), "{sends:?}");
        }
    }
}

/// R8, https://github.com/mongodb/laravel-mongodb/issues/2181: an error that speaks of a transaction to somebody who never
/// began one. What is meant is said, and both sends are shown with where they came from.
#[tokio::test(start_paused = true)]
async fn r8_an_old_number_is_explained_without_a_transaction() {
    let lab = Lab::new();
    let [mut one, mut other] = [lab.connect(), lab.connect()];
    one.run("test", with(insert(1), numbered(1, 8))).await;
    let refused = other.run("test", with(insert(2), numbered(1, 7))).await;
    assert_eq!(code(&refused), Some(225), "{refused}");
    let explained = explanations(&lab.events()).concat();
    for part in [
        "retryable write number",
        "had gone on to number 8 when number 7 arrived",
        "on connection 1",
        "on connection 2",
    ] {
        assert!(explained.contains(part), "'{part}' is missing in:\n{explained}");
    }
}

/// R9, https://github.com/mongodb/specifications/pull/402: `endSessions` for a session that another socket uses. The write
/// is not touched, and the session can be used afterwards.
#[tokio::test(start_paused = true)]
async fn r9_ending_a_session_that_is_in_use() {
    let lab = Lab::new();
    lab.fail_point("stallInterruptible", "alwaysOn", doc! {}).await;
    let mut writing = start(&lab, "test", with(insert(1), numbered(1, 1))).await;
    let id = numbered(1, 1).get_document("lsid").expect("a session").clone();
    lab.ok("admin", doc! { "endSessions": [id] }).await;
    lab.fail_point("stallInterruptible", "off", doc! {}).await;
    let reply = writing.reply().await.expect("a reply");
    assert_eq!(n(&reply), 1);
    lab.ok("test", with(insert(2), numbered(1, 2))).await;
}

/// R11, https://github.com/Automattic/mongoose/issues/7073 and others: a standalone has no retryable writes, and its
/// hello says nothing of a set, so that a driver does not send a number.
#[tokio::test(start_paused = true)]
async fn r11_a_standalone_has_no_transaction_numbers() {
    let lab = Lab::with(|config| config.set_name = None);
    let reply = lab.run("test", with(insert(1), numbered(1, 1))).await;
    assert_eq!(code(&reply), Some(20));
    assert_eq!(text(&reply), "Transaction numbers are only allowed on a replica set member or mongos");
    let hello = lab.ok("admin", doc! { "isMaster": 1 }).await;
    assert!(!hello.contains_key("setName") && !hello.contains_key("msg"), "{hello}");
}

/// R12, https://github.com/parse-community/parse-server/issues/5983: the other wording, after the check for a replica set.
#[tokio::test(start_paused = true)]
async fn r12_a_storage_engine_that_does_not_lock_documents() {
    let refusal = "Transaction numbers are only allowed on storage engines that support document-level locking";
    for (set, expected) in
        [(true, refusal), (false, "Transaction numbers are only allowed on a replica set member or mongos")]
    {
        let lab = Lab::with(|config| {
            config.document_locking = false;
            config.set_name = set.then(|| "rs0".to_owned());
        });
        let reply = lab.run("test", with(insert(1), numbered(1, 1))).await;
        assert_eq!((code(&reply), text(&reply)), (Some(20), expected));
    }
}

/// R15, https://github.com/mendersoftware/inventory/pull/146: writes to `config.transactions` under a session.
#[tokio::test(start_paused = true)]
async fn r15_the_retry_history_is_not_written_under_a_session() {
    let lab = Lab::new();
    let write = with(doc! { "insert": "c", "documents": [{ "a": 1 }] }, numbered(1, 1));
    lab.ok("test", write.clone()).await;
    let delete = doc! { "delete": "transactions", "deletes": [{ "q": {}, "limit": 0 }] };
    let session = doc! { "lsid": numbered(9, 1).get("lsid").cloned() };
    let refused = lab.ok("config", with(delete.clone(), session)).await;
    let error = refused.get_array("writeErrors").expect("refused")[0].as_document().expect("an object").clone();
    assert_eq!(code(&error), Some(40528), "{refused}");
    lab.ok("test", write.clone()).await;
    assert_eq!(lab.count(doc! {}).await, 1, "the history is still there");
    let deleted = lab.ok("config", delete).await;
    assert_eq!(n(&deleted), 1, "{deleted}");
    lab.ok("test", write).await;
    assert_eq!(lab.count(doc! {}).await, 2, "who takes the history away has the write executed again");
}

/// R16, https://github.com/SoftInstigate/restheart/issues/449: a client read numbers out of an error text. The code is what
/// counts, and it is the same everywhere.
#[tokio::test(start_paused = true)]
async fn r16_an_old_number_has_one_code_in_every_version() {
    for profile in PROFILES {
        let lab = Lab::of(profile);
        lab.ok("test", with(insert(1), numbered(1, 2))).await;
        let reply = lab.run("test", with(insert(2), numbered(1, 1))).await;
        assert_eq!(
            (code(&reply), reply.get_str("codeName").ok()),
            (Some(225), Some("TransactionTooOld")),
            "{}",
            profile.name
        );
    }
}

/// R17, https://github.com/spring-projects/spring-data-mongodb/issues/4804: a statement of a transaction that was never begun,
/// after an older one was committed. The text has both numbers, and the label says that all of it may be tried again.
#[tokio::test(start_paused = true)]
async fn r17_a_statement_of_a_transaction_that_was_not_begun() {
    for profile in PROFILES {
        let lab = Lab::of(profile);
        lab.ok("test", insert(0)).await;
        lab.ok("test", with(insert(1), in_transaction(1, 4, true))).await;
        lab.ok("admin", with(doc! { "commitTransaction": 1 }, in_transaction(1, 4, false))).await;
        let reply = lab.run("test", with(insert(2), in_transaction(1, 5, false))).await;
        assert_eq!((code(&reply), reply.get_str("codeName").ok()), (Some(251), Some("NoSuchTransaction")), "{reply}");
        let expected = "Given transaction number 5 does not match any in-progress transactions. The active transaction \
                        number is 4";
        assert_eq!(text(&reply), expected);
        assert_eq!(labels(&reply), ["TransientTransactionError"]);
        assert_eq!(lab.count(doc! {}).await, 2);
    }
}

/// R18, https://github.com/Automattic/mongoose/issues/7502: two statements of one transaction side by side on two sockets. The
/// one that begins it is overtaken, and the other finds no transaction.
#[tokio::test(start_paused = true)]
async fn r18_the_statement_that_begins_a_transaction_is_overtaken() {
    let lab = Lab::new();
    lab.ok("test", insert(0)).await;
    // The barrier: the first statement stands still before it gets its session.
    let held = doc! { "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 1000 };
    lab.fail_point("failCommand", doc! { "times": 1 }, held).await;
    let mut begins = start(&lab, "test", with(insert(1), in_transaction(1, 1, true))).await;
    let overtakes = lab.run("test", with(insert(2), in_transaction(1, 1, false))).await;
    assert_eq!(code(&overtakes), Some(251), "{overtakes}");
    assert!(text(&overtakes).ends_with("The active transaction number is -1"), "{overtakes}");
    assert_eq!(labels(&overtakes), ["TransientTransactionError"]);
    let reply = begins.reply().await.expect("a reply");
    assert_eq!(n(&reply), 1, "{reply}");
    lab.ok("admin", with(doc! { "commitTransaction": 1 }, in_transaction(1, 1, false))).await;
    assert_eq!((lab.count(doc! { "_id": 1 }).await, lab.count(doc! { "_id": 2 }).await), (1, 0));
}

/// R20, https://github.com/mongodb/specifications/pull/545: whether `failCommand` lets the command run.
#[tokio::test(start_paused = true)]
async fn r20_fail_command_and_whether_the_command_runs() {
    let cases = [
        (doc! { "closeConnection": true }, 0),
        (doc! { "errorCode": 10107 }, 0),
        (doc! { "writeConcernError": { "code": 91, "errmsg": "no" } }, 1),
    ];
    for (data, documents) in cases {
        let lab = Lab::new();
        lab.fail_point("failCommand", doc! { "times": 1 }, with(doc! { "failCommands": ["insert"] }, data.clone()))
            .await;
        start(&lab, "test", insert(1)).await.reply().await;
        assert_eq!(lab.count(doc! {}).await, documents, "{data}");
    }
}

/// R21, https://github.com/mongodb/specifications/pull/252 and others: `onPrimaryTransactionalWrite` is counted per commit
/// and is about numbered writes only.
#[tokio::test(start_paused = true)]
async fn r21_on_primary_transactional_write() {
    let point = "onPrimaryTransactionalWrite";
    let fails = doc! { "closeConnection": false, "failBeforeCommitExceptionCode": 10107 };
    let three = || doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }] };

    let lab = Lab::new();
    lab.fail_point(point, doc! { "times": 2 }, fails.clone()).await;
    lab.ok("test", doc! { "insert": "c", "documents": [{ "_id": 0 }] }).await;
    let first = lab.run("test", with(three(), numbered(1, 1))).await;
    assert!(first.contains_key("writeErrors") || code(&first).is_some(), "{first}");
    let again = lab.ok("test", with(three(), numbered(1, 1))).await;
    assert_eq!(n(&again), 3, "{again}");

    let lab = Lab::new();
    lab.fail_point(point, "alwaysOn", fails).await;
    for _ in 0..2 {
        let reply = lab.run("test", with(three(), numbered(1, 1))).await;
        assert_ne!(n(&reply), 3, "{reply}");
    }
    lab.ok("test", three()).await;
}

/// R23, https://github.com/mongodb/specifications/pull/1297: the second attempt wrote nothing and says so; the first may
/// have. The driver reports the first.
#[tokio::test(start_paused = true)]
async fn r23_the_error_of_the_attempt_that_may_have_written() {
    let lab = Lab::of(&V7_0);
    let concern = doc! { "failCommands": ["insert"], "writeConcernError": { "code": 91, "errmsg": "no" } };
    lab.fail_point("failCommand", doc! { "times": 1 }, with(concern, doc! { "errorLabels": ["RetryableWriteError"] }))
        .await;
    let server = lab.server.clone();
    // Between the two attempts the server becomes one that refuses.
    let client = lab.client("retryWrites=true", move |event: &Event| {
        if let Event::Command(CommandEvent::Succeeded(command)) = event
            && command.command_name == "insert"
        {
            let labels = ["RetryableWriteError", "NoWritesPerformed"].map(Bson::from).to_vec();
            let data = doc! { "failCommands": ["insert"], "errorCode": 10107, "errorLabels": labels };
            let point = server.shared().fail_points.find(FAIL_COMMAND).expect("a fail point");
            point.set(Mode::Times(1), data).now_or_never().expect("nobody is held");
        }
    });
    let collection = client.database("test").collection("c");
    let error = collection.insert_one(doc! { "_id": 1 }).await.expect_err("the write is reported as failed");
    assert_eq!(error.code(), Some(91), "{error}");
    assert_eq!(lab.ledger().counts(0, 0).sends, 2);
    assert_eq!(lab.count(doc! { "_id": 1 }).await, 1, "and it is there");
}

/// R25, https://github.com/mongodb/specifications/pull/1681: `failCommand` for one namespace; others are not counted.
#[tokio::test(start_paused = true)]
async fn r25_fail_command_for_one_namespace() {
    let lab = Lab::of(&V8_0);
    let data = doc! { "failCommands": ["insert"], "errorCode": 10107, "namespace": "test.c" };
    lab.fail_point("failCommand", doc! { "times": 1 }, data).await;
    lab.ok("test", doc! { "insert": "other", "documents": [{ "_id": 1 }] }).await;
    assert_eq!(code(&lab.run("test", insert(1)).await), Some(10107));
    lab.ok("test", insert(1)).await;
}

/// R26, https://github.com/mongodb/specifications/pull/644: commands that steer a test are no writes.
#[tokio::test(start_paused = true)]
async fn r26_control_commands_are_not_counted() {
    let lab = Lab::new();
    lab.fail_point("failCommand", "off", doc! {}).await;
    let id = numbered(1, 1).get_document("lsid").expect("a session").clone();
    for command in
        [doc! { "ping": 1 }, doc! { "isMaster": 1 }, doc! { "killAllSessions": [] }, doc! { "endSessions": [id] }]
    {
        lab.ok("admin", command).await;
    }
    lab.ok("test", insert(1)).await;
    assert_eq!(lab.ledger().counts(0, 0).sends, 1);
}

/// R27, https://github.com/mongodb/mongo-c-driver/pull/846 and others: without `enableTestCommands` there are no fail
/// points, and that cannot be changed later.
#[tokio::test(start_paused = true)]
async fn r27_fail_points_need_test_commands() {
    let lab = Lab::with(|config| config.test_commands = false);
    let reply = lab.run("admin", doc! { "configureFailPoint": "failCommand", "mode": "off" }).await;
    assert_eq!((code(&reply), text(&reply)), (Some(59), "no such command: 'configureFailPoint'"));
    let reply = lab.run("admin", doc! { "setParameter": 1, "enableTestCommands": 1 }).await;
    assert_eq!(reply.get_f64("ok").ok(), Some(0.0), "{reply}");
    let counted = Lab::new().ok("admin", doc! { "configureFailPoint": "failCommand", "mode": "off" }).await;
    assert_eq!(counted.get_i32("count").ok(), Some(0));
}

/// R30, SERVER-55305 and others (https://jira.mongodb.org): bugs that lose the history and keep the data. A fail point
/// shows what follows; without it, it never happens.
#[tokio::test(start_paused = true)]
async fn r30_a_lost_history_executes_twice() {
    for (forget, documents) in [(false, 1), (true, 2)] {
        let lab = Lab::new();
        if forget {
            lab.fail_point("forgetRetryHistory", "alwaysOn", doc! {}).await;
        }
        for _ in 0..2 {
            lab.ok("test", with(doc! { "insert": "c", "documents": [{ "a": 1 }] }, numbered(1, 1))).await;
        }
        assert_eq!(lab.count(doc! {}).await, documents, "forget: {forget}");
    }
}

/// R31, the manual on retryable writes: an application that was frozen for longer than the session timeout.
#[tokio::test(start_paused = true)]
async fn r31_a_resend_after_the_session_has_expired_is_executed() {
    for (after_ms, documents, retried) in [(900, 1, 1), (1100, 2, 0)] {
        let lab = Lab::new();
        lab.ok("admin", doc! { "setParameter": 1, "labSessionTimeoutMillis": 1000 }).await;
        let write = with(doc! { "insert": "c", "documents": [{ "a": 1 }] }, numbered(1, 1));
        lab.ok("test", write.clone()).await;
        sleep(Duration::from_millis(after_ms)).await;
        lab.ok("test", write).await;
        assert_eq!(lab.count(doc! {}).await, documents, "after {after_ms} ms");
        let status = lab.ok("admin", doc! { "serverStatus": 1 }).await;
        let transactions = status.get_document("transactions").expect("transactions");
        assert_eq!(transactions.get_i64("retriedCommandsCount").ok(), Some(retried));
    }
}

/// R35, https://github.com/mongodb/docs-node/pull/643: what a closed connection ends.
#[tokio::test(start_paused = true)]
async fn r35_reads_end_with_their_client_and_writes_do_not() {
    let update = doc! { "$set": { "w": 1 } };
    let commands = [
        (doc! { "find": "c" }, true),
        (doc! { "aggregate": "c", "pipeline": [], "cursor": {} }, true),
        (doc! { "distinct": "c", "key": "_id" }, true),
        (doc! { "count": "c" }, true),
        (doc! { "insert": "c", "documents": [{ "_id": 2, "w": 1 }] }, false),
        (doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": update.clone() }] }, false),
        (doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": update }, false),
        (doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] }, false),
    ];
    for (command, ends) in commands {
        let lab = Lab::new();
        lab.ok("test", insert(1)).await;
        let name = command.keys().next().expect("a name").clone();
        let held = doc! { "millis": 5000, "commands": [name.clone()] };
        lab.fail_point("sleepMillisAfterCommandExecutionBegins", "alwaysOn", held).await;
        let wire = start(&lab, "test", command).await;
        drop(wire);
        sleep(Duration::from_millis(1500)).await;
        let running = lab.ok("admin", doc! { "currentOp": 1, "ns": { "$regex": "^test" } }).await;
        assert_eq!(running.get_array("inprog").expect("a list").is_empty(), ends, "{name}");
        sleep(Duration::from_secs(10)).await;
        if !ends {
            let written = lab.count(doc! { "w": 1 }).await + 1 - lab.count(doc! { "_id": 1 }).await;
            assert_eq!(written, 1, "{name} is applied");
        }
    }
}

/// R37, https://github.com/MorphiaOrg/morphia/issues/849 and others: `maxTimeMS` on writes. What an ordered batch had
/// applied before its deadline stays.
#[tokio::test(start_paused = true)]
async fn r37_a_deadline_keeps_the_prefix_of_a_batch() {
    let lab = Lab::new();
    lab.ok("test", insert(0)).await;
    let updates: Vec<_> =
        (1..=3).map(|id| doc! { "q": { "_id": id }, "u": { "$set": { "a": 1 } }, "upsert": true }).collect();
    lab.fail_point("stallInterruptible", doc! { "skip": 1 }, doc! {}).await;
    let reply = lab.run("test", doc! { "update": "c", "updates": updates, "maxTimeMS": 100 }).await;
    assert_eq!((code(&reply), text(&reply)), (Some(50), "operation exceeded time limit"), "{reply}");
    lab.fail_point("stallInterruptible", "off", doc! {}).await;
    assert_eq!(lab.count(doc! { "a": 1 }).await, 1);
}

/// R39, https://github.com/mongodb/mongo-java-driver/pull/1215 and 1289: `timeoutMS` and the way to the server. What cannot
/// be answered in time is not sent; what is sent has a `maxTimeMS` that leaves time for the way back.
#[tokio::test(start_paused = true)]
async fn r39_a_timeout_counts_the_way_to_the_server() {
    for (round_trip_ms, sends) in [(120, 0), (20, 1)] {
        let lab = Lab::new();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sent);
        let one_way = Duration::from_millis(round_trip_ms / 2);
        let client = lab.distant_client("retryWrites=true", one_way, move |event: &Event| {
            if let Event::Command(CommandEvent::Started(command)) = event
                && command.command_name == "insert"
            {
                seen.lock().push(command.command.to_document().get_i64("maxTimeMS").ok());
            }
        });
        let collection = client.database("test").collection("c");
        // The connection is there, and the driver knows how far it is.
        collection.insert_one(doc! { "_id": 0 }).await.expect("inserted");
        sleep(Duration::from_secs(30)).await;
        let result = collection.insert_one(doc! { "_id": 1 }).timeout(Duration::from_millis(100)).await;
        let sent = sent.lock().split_off(1);
        assert_eq!((sent.len(), result.is_ok()), (sends, sends == 1), "round trip {round_trip_ms} ms: {result:?}");
        assert!(sent.iter().all(|max_time_ms| (1..=80).contains(&max_time_ms.unwrap_or(0))), "{sent:?}");
        if let Err(error) = result {
            assert!(error.is_operation_timeout(), "{error}");
        }
    }
}

/// R44, https://github.com/sboesebeck/morphium/pull/184: two transactions on one hot document. The later one is told so at once,
/// with the label that lets it try all of it again, and it is aborted: none of its writes is left.
#[tokio::test(start_paused = true)]
async fn r44_a_write_conflict_aborts_the_transaction() {
    let lab = Lab::new();
    lab.ok("test", insert("hot")).await;
    let change = || doc! { "update": "c", "updates": [{ "q": { "_id": "hot" }, "u": { "$inc": { "n": 1 } } }] };
    lab.ok("test", with(change(), in_transaction(1, 1, true))).await;
    lab.ok("test", with(insert("cold"), in_transaction(2, 1, true))).await;
    let reply = lab.run("test", with(change(), in_transaction(2, 1, false))).await;
    assert_eq!((code(&reply), labels(&reply)), (Some(112), vec!["TransientTransactionError"]), "{reply}");
    let commit = |session| with(doc! { "commitTransaction": 1 }, in_transaction(session, 1, false));
    let reply = lab.run("admin", commit(2)).await;
    assert_eq!((code(&reply), text(&reply)), (Some(251), "Transaction 1 has been aborted."));
    lab.ok("admin", commit(1)).await;
    assert_eq!((lab.count(doc! { "n": 1 }).await, lab.count(doc! { "_id": "cold" }).await), (1, 0));
}

/// The same report: what `with_transaction` makes of a document that somebody else keeps. Without a back-off it runs its body as
/// often as fits into 120 seconds; the newer rules wait longer and longer, and load the server less.
#[tokio::test(start_paused = true)]
async fn r44_with_transaction_on_a_document_that_is_never_free() {
    const ONE_WAY: Duration = Duration::from_millis(50);
    let mut attempts = Vec::new();
    for profile in [DriverProfile::JAVA_5_4, DriverProfile::SPECIFICATION] {
        let lab = Lab::of(&V7_0);
        lab.ok("admin", doc! { "setParameter": 1, "transactionLifetimeLimitSeconds": 100_000 }).await;
        lab.ok("test", insert("hot")).await;
        let change = doc! { "$inc": { "n": 1 } };
        let holds = doc! { "update": "c", "updates": [{ "q": { "_id": "hot" }, "u": change.clone() }] };
        lab.ok("test", with(holds, in_transaction(1, 1, true))).await;
        let uri = ConnectionString::parse("mongodb://127.0.0.1:27017/?replicaSet=rs0").expect("a connection string");
        let mut settings = ClientSettings::from_connection_string(&uri).expect("settings");
        settings.profile = profile;
        let client = Client::connect(settings, lab.connector(ONE_WAY), |_: &Event| {}, 1).expect("a client");
        client.database("test").run_command(doc! { "ping": 1 }).await.expect("connects");
        let collection = client.database("test").collection("c");
        let session = client.start_session(SessionOptions::default()).expect("a session");
        let (began, mut runs) = (Instant::now(), 0_u32);
        let body = || {
            runs += 1;
            let update = collection.update_one(doc! { "_id": "hot" }, change.clone()).session(&session);
            async move { update.await.map(drop) }
        };
        let error = session.with_transaction(WithTransaction::default(), body).await.expect_err("it is never free");
        assert_eq!((error.code(), error.has_label(TRANSIENT_TRANSACTION_ERROR)), (Some(112), true), "{error:?}");
        let took = began.elapsed();
        assert!(took > Duration::from_secs(119) && took <= Duration::from_millis(120_200), "{took:?}");
        attempts.push(runs);
    }
    // An attempt is two round trips: the update that is refused, and the abort.
    assert_eq!(attempts[0], 600);
    assert!((200..400).contains(&attempts[1]), "{attempts:?}");
}

/// R59, https://github.com/FerretDB/FerretDB/issues/4475 and others: partial inserts stay, endSessions and killOp exist.
#[tokio::test(start_paused = true)]
async fn r59_a_failed_document_takes_nothing_back() {
    for (ordered, inserted) in [(true, 1), (false, 2)] {
        let lab = Lab::new();
        let documents = [doc! { "_id": 1 }, doc! { "_id": 1 }, doc! { "_id": 2 }].map(Bson::from).to_vec();
        let reply = lab.ok("test", doc! { "insert": "c", "documents": documents, "ordered": ordered }).await;
        let errors = reply.get_array("writeErrors").expect("writeErrors");
        assert_eq!((n(&reply), errors.len()), (inserted, 1), "{reply}");
        assert_eq!(errors[0].as_document().and_then(|error| error.get_i32("index").ok()), Some(1));
        assert_eq!(lab.count(doc! {}).await, inserted);
        lab.ok("admin", doc! { "killOp": 1, "op": 1 }).await;
    }
}

/// An `OP_QUERY` frame on a namespace.
/// R60, https://github.com/documentdb/documentdb/issues/379: the end of a transaction that is not there. Whatever fields are
/// missing, the answer is an error, and never `ok: 1`.
#[tokio::test(start_paused = true)]
async fn r60_there_is_no_commit_without_a_transaction() {
    for profile in PROFILES {
        let lab = Lab::of(profile);
        lab.ok("test", with(insert(1), numbered(3, 1))).await;
        let without_number =
            doc! { "lsid": numbered(1, 1).get_document("lsid").expect("a session"), "autocommit": false };
        for command in ["commitTransaction", "abortTransaction"] {
            for (fields, expected) in [
                (doc! {}, 125),
                (doc! { "autocommit": false }, 72),
                (without_number.clone(), 72),
                (doc! { "txnNumber": 1_i64, "autocommit": false }, 72),
                (numbered(1, 1), 50768),
                (with(numbered(1, 1), doc! { "autocommit": true }), 72),
                (with(numbered(1, 1), doc! { "autocommit": false, "startTransaction": false }), 72),
                (in_transaction(1, 1, true), 263),
                (in_transaction(1, 1, false), 251),
                // The number is that of a retryable write.
                (in_transaction(3, 1, false), 251),
            ] {
                let reply = lab.run("admin", with(doc! { command: 1 }, fields.clone())).await;
                assert_eq!((reply.get_f64("ok").ok(), code(&reply)), (Some(0.0), Some(expected)), "{fields}: {reply}");
            }
        }
    }
}

fn op_query(namespace: &str, query: &Document) -> Vec<u8> {
    let query = query.to_vec().expect("encodes");
    let mut frame = Vec::new();
    let length = 16 + 4 + namespace.len() + 1 + 8 + query.len();
    for field in [length as i32, 1, 0, 2004, 0] {
        frame.extend(field.to_le_bytes());
    }
    frame.extend(namespace.as_bytes());
    frame.push(0);
    for field in [0_i32, -1] {
        frame.extend(field.to_le_bytes());
    }
    frame.extend(query);
    frame
}

/// Sends an `OP_QUERY`; the document of the `OP_REPLY` and whether it says that the query failed.
async fn query(lab: &Lab, namespace: &str, query: &Document) -> Option<(Document, bool)> {
    let mut wire = lab.connect();
    wire.write(&op_query(namespace, query)).await;
    let frame = wire.frame().await?;
    assert_eq!(frame.header.op_code, OpCode::Reply);
    assert!(FrameDecoder::default().decode(&mut bytes::BytesMut::new()).expect("empty").is_none());
    let body = &frame.whole[16..];
    let flags = i32::from_le_bytes(body[..4].try_into().expect("four bytes"));
    Some((Document::from_reader(&body[20..]).expect("BSON"), flags & 2 != 0))
}

/// R61, https://github.com/emqx/mongodb-erlang/issues/52 and others: legacy opcodes are answered, never with a panic.
#[tokio::test(start_paused = true)]
async fn r61_legacy_opcodes_are_answered() {
    let lab = Lab::of(&V7_0);
    let (reply, failed) = query(&lab, "test.c", &doc! {}).await.expect("a reply");
    let refusal = "Unsupported OP_QUERY command: find. The client driver may require an upgrade. For more details see \
                   https://dochub.mongodb.org/core/legacy-opcode-removal";
    assert_eq!((reply.get_str("$err").ok(), code(&reply), failed), (Some(refusal), Some(352), true));
    let (reply, failed) = query(&lab, "test.$cmd", &doc! { "count": "c" }).await.expect("a reply");
    assert_eq!((code(&reply), failed), (Some(352), true), "{reply}");
    let (reply, failed) = query(&lab, "admin.$cmd", &doc! { "isMaster": 1 }).await.expect("a reply");
    assert_eq!((reply.get_f64("ok").ok(), failed), (Some(1.0), false), "{reply}");
    let (reply, _) = query(&Lab::of(&V4_4), "test.$cmd", &doc! { "count": "c" }).await.expect("a reply");
    assert_eq!(n(&reply), 0, "an old server serves commands in OP_QUERY");
    // OP_INSERT
    let mut wire = lab.connect();
    let mut frame = op_query("test.c", &doc! { "_id": 1 });
    frame[12..16].copy_from_slice(&2002_i32.to_le_bytes());
    wire.write(&frame).await;
    assert!(wire.frame().await.is_none(), "the connection is closed");
    lab.finish().await;
}

/// A built-in scenario, changed.
fn changed(name: &str, change: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut scenario = Scenario::built_in(name).expect("built in");
    change(&mut scenario);
    scenario
}

async fn rehearsed(scenario: &Scenario, scale: f64) -> Result<Run, RehearsalError> {
    let options = Options { scale, transport: Transport::Memory, seed: 1, started_at_ms: 0, watcher: None };
    rehearse(scenario, &options).await
}

/// From the first user's notes: a connection string of production is rehearsed without what the lab server does not have.
#[tokio::test(start_paused = true)]
async fn a_connection_string_of_production_is_rehearsed() {
    for uri in [
        "mongodb://user:secret@a,b/test?authSource=admin&socketTimeoutMS=30000",
        "mongodb://a/?tls=true&tlsAllowInvalidHostnames=true&socketTimeoutMS=30000",
        "mongodb+srv://user:secret@db.example.com/test?socketTimeoutMS=30000&w=3",
        "mongodb://a,b/?replicaSet=rsX&readPreference=secondary&socketTimeoutMS=30000",
    ] {
        let scenario = changed("store-inventory", |scenario| scenario.client.uri = uri.to_owned());
        let run = rehearsed(&scenario, 1.0).await.unwrap_or_else(|error| panic!("{uri}: {error}"));
        assert_eq!((run.differences(), run.measured.0.sends), (Vec::new(), 8), "{uri}");
    }
}

/// From the first user's notes: where two things that decide are due at the same instant, there is no prediction, and no
/// rehearsal that would differ from it each time.
#[tokio::test(start_paused = true)]
async fn a_tie_is_refused_with_its_instant() {
    let tied = changed("store-inventory", |scenario| scenario.client.max_time_ms = Some(30_000));
    for (scale, at) in [(1.0, "60000 ms"), (0.1, "6000 ms")] {
        let error = rehearsed(&tied, scale).await.expect_err("a tie").to_string();
        for part in [at, "socketTimeoutMS", "maxTimeMS", "set the times further apart"] {
            assert!(error.contains(part), "{error}");
        }
    }
    let apart = changed("store-inventory", |scenario| scenario.client.max_time_ms = Some(29_000));
    assert_eq!(rehearsed(&apart, 1.0).await.expect("runs").differences(), []);
}

/// From the first user's notes: more executions than retries allow are explained where they come from.
#[tokio::test(start_paused = true)]
async fn a_back_off_that_starts_over_is_in_the_timeline() {
    // The first copy is deaf; those after it meet its document and are interrupted: another class of error.
    let scenario = |resets: bool| {
        changed("update-many", |scenario| {
            scenario.client.max_time_ms = Some(20_000);
            scenario.retry.reset_on_exception_change = resets;
        })
    };
    let over = "another error than before: the back-off starts over";
    for (resets, executions) in [(true, 5), (false, 4)] {
        let run = rehearsed(&scenario(resets), 1.0).await.expect("runs");
        assert_eq!((run.differences(), run.measured.0.executions), (Vec::new(), executions));
        let text = timeline::render(&run, None);
        assert_eq!(text.matches(over).count(), usize::from(resets), "{text}");
    }
}

/// From the first user's notes: a write that the server refuses anyway is no rehearsal, and the error is named.
#[tokio::test(start_paused = true)]
async fn a_write_that_fails_without_a_stall_is_refused() {
    let bad: toml::Table = toml::from_str("'$bad' = 1").expect("TOML");
    let insert = changed("retry-lab", |scenario| scenario.workload.document = Some(bad.clone()));
    let update = changed("upsert-by-id", |scenario| {
        scenario.workload.update = Some([("$sett".to_owned(), bad.into())].into_iter().collect())
    });
    for (scenario, part) in [(insert, "$bad"), (update, "$sett")] {
        let error = rehearsed(&scenario, 1.0).await.expect_err("refused").to_string();
        assert!(error.starts_with("the write fails even without a stall: ") && error.contains(part), "{error}");
    }
}

/// From the first user's notes: the largest scale that the command line allows can be run, tickets included.
#[tokio::test(start_paused = true)]
async fn the_largest_scale_is_as_predicted() {
    let scenario = changed("ticket-queue", |scenario| {
        scenario.client.uri = scenario.client.uri.replace("30000", "3000");
        scenario.client.max_time_ms = Some(2000);
    });
    let run = rehearsed(&scenario, 1000.0).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((run.differences(), run.measured.1.ended_at_deadline), (Vec::new(), Some(8)));
}

/// From the first user's notes: what the rehearsal itself does at the server is no part of what it shows.
#[tokio::test(start_paused = true)]
async fn the_control_client_is_not_recorded() {
    let run = rehearsed(&changed("store-inventory", |_| ()), 1.0).await.expect("runs");
    let mut names: Vec<_> = run
        .events
        .iter()
        .filter_map(|event| match &event.what {
            What::Server(ServerEvent::Arrived { app_name, command, .. }) => {
                Some((app_name.as_deref(), command.as_str()))
            }
            _ => None,
        })
        .collect();
    names.dedup();
    assert!(names.iter().all(|(name, _)| *name == Some("store-inventory")), "{names:?}");
    assert!(names.iter().all(|(_, command)| *command != "aggregate"), "{names:?}");
}

/// R28, https://github.com/mongodb/specifications/issues/842: a resend is not immediate. It waits for server selection, and is
/// sent as soon as there is a primary again, at the latest after `serverSelectionTimeoutMS`.
#[test]
fn r28_a_resend_waits_until_there_is_a_primary() {
    let mut scenario = Scenario::built_in("store-inventory").expect("built in");
    // Without the set's name a driver talks to the one server, whatever it is, and does not wait for a primary.
    scenario.client.uri.push_str("&replicaSet=rs0");
    scenario.stall = Stall::StepDown;
    scenario.window = Window { from_ms: 0, for_ms: Some(25_000), command: None };
    let simulated = simulate(&scenario, SimulateOptions::default()).expect("it runs");
    let outcome = &simulated.outcome;
    assert_eq!((outcome.executions, outcome.written, outcome.documents), (1, 1, 2), "{outcome:#?}");
    assert!((25_000..=30_000).contains(&outcome.slowest_record_ms), "{outcome:#?}");
    // A primary that comes back too late: the first execution fails, and a later one writes.
    scenario.window.for_ms = Some(45_000);
    let simulated = simulate(&scenario, SimulateOptions::default()).expect("it runs");
    let outcome = &simulated.outcome;
    assert_eq!((outcome.executions, outcome.written, outcome.documents), (2, 1, 2), "{outcome:#?}");
}

/// R38, mongo-go-driver pulls 1589, 1605, 1045: a context that ends an execution ends it with one send; `timeoutMS` repeats as
/// often as there is time for; without either the driver sends once more.
#[tokio::test(start_paused = true)]
async fn r38_what_ends_an_execution_decides_about_its_sends() {
    let check = async |change: fn(&mut Scenario), expected: [u64; 2]| {
        let scenario = changed("store-inventory", |scenario| {
            scenario.retry.back_off = BackOff::None;
            change(scenario);
        });
        let run = rehearsed(&scenario, 1.0).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(run.differences(), [], "{:?}", scenario.client);
        assert_eq!([run.measured.0.executions, run.measured.0.sends], expected, "{:?}", scenario.client);
    };
    check(|_| {}, [1, 2]).await;
    check(|scenario| scenario.client.cancel_after_ms = Some(10_000), [1, 1]).await;
    let timeout = |scenario: &mut Scenario| scenario.client.uri.push_str("&timeoutMS=10000");
    check(timeout, [1, 1]).await;
    check(
        |scenario| {
            scenario.client.uri.push_str("&timeoutMS=10000");
            scenario.stall = Stall::Reset { times: 12 };
        },
        [1, 13],
    )
    .await;
}

/// R60, documentdb/documentdb issues 379, 428, 717, 698: a gateway holds writes for two minutes and retries them, beneath a driver
/// that resends once and a listener with ten executions. What arrives at the server is a multiple of what the driver sent.
#[tokio::test(start_paused = true)]
async fn r60_a_gateway_that_retries_is_a_layer_of_its_own() {
    let gateway =
        Gateway { hold_ms: 120_000, first_wait_ms: 50, longest_wait_ms: 5_000, retries: None, numbered_only: false };
    let scenario = changed("store-inventory", |scenario| {
        scenario.gateway = Some(gateway);
        scenario.retry.back_off = BackOff::default();
        scenario.stall = Stall::Reset { times: 100_000 };
    });
    let run = rehearsed(&scenario, 1.0).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(run.differences(), []);
    let (upstream, downstream) = (run.measured.0.sends, run.measured.1.sends_by_driver);
    // Each send is held for 116.35 s: seven waits up to 3.2 s, then one every 5 s.
    assert_eq!((run.measured.0.executions, downstream, upstream), (10, Some(20), 20 * (1 + 7 + 22)));
    // The table has both, so that the hidden layer is seen.
    let shown = backfire_report::table::render(&run);
    assert!(shown.contains("sends by the driver itself"), "{shown}");
    // A mongos does so with numbered writes, up to four times: 2 x 4 (facts/server.md 10).
    let scenario = changed("store-inventory", |scenario| {
        scenario.gateway = Some(Gateway::MONGOS);
        scenario.retry.back_off = BackOff::None;
        scenario.stall = Stall::Reset { times: 100_000 };
    });
    let run = rehearsed(&scenario, 1.0).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((run.differences(), run.measured.0.sends, run.measured.1.sends_by_driver), (vec![], 8, Some(2)));
}

/// R78, https://github.com/icanbwell/fhir-server/pull/2458 and 2507: three retries around a call that retries twice itself. Twelve
/// sends, as predicted. (That a dead letter which cannot be published leaves the offset where it was:
/// `a_failed_write_is_never_passed_over` of the consumer's tests.)
#[test]
fn r78_nested_retries_multiply() {
    let scenario = changed("store-inventory", |scenario| {
        scenario.client.uri.push_str("&retryWrites=false");
        scenario.retry.back_off = BackOff::fixed(100, 3);
        scenario.retry.inner = vec![Inner { name: "@Retryable".to_owned(), back_off: BackOff::fixed(10, 2) }];
        scenario.stall = Stall::Reset { times: 100_000 };
    });
    let simulated = simulate(&scenario, SimulateOptions::default()).expect("it runs");
    let promised = simulated.predicted.as_ref().expect("a prediction");
    assert_eq!((promised.counts.executions, promised.counts.sends), (12, 12));
    let outcome = &simulated.outcome;
    assert_eq!((outcome.executions, outcome.sends, outcome.dead_lettered), (12, 12, 1), "{outcome:#?}");
}

/// R85, https://github.com/rob3000/nestjs-kafka/issues/26: a consumer that crashes after its retries and is started again has no
/// last execution.
#[test]
fn r85_a_restart_above_the_retries_has_no_bound() {
    let scenario = changed("store-inventory", |scenario| {
        scenario.retry.back_off = BackOff::fixed(0, 2);
        scenario.retry.restart_after_ms = Some(5_000);
        scenario.load.until_ms = 20 * 60_000;
    });
    let plan = scenario.plan(1.0, false).expect("a plan");
    assert!(matches!(predict(&plan), Err(Unpredictable::Unbounded(_))), "{:?}", predict(&plan));
    let simulated = simulate(&scenario, SimulateOptions::default()).expect("it runs");
    assert!(matches!(simulated.predicted, Err(Unpredictable::Unbounded(_))), "{:?}", simulated.predicted);
    // Cut off after twenty minutes: three executions of a minute each, again and again, and never a dead letter.
    let outcome = &simulated.outcome;
    assert!(!simulated.is_complete && outcome.executions > 3 * 4, "{outcome:#?}");
    assert_eq!((outcome.dead_lettered, outcome.unfinished), (0, 1), "{outcome:#?}");
}

/// R86, https://github.com/zookzook/elixir-mongodb-driver/issues/293: a driver that retries without a limit while there is no
/// primary. The official ones do so once, and raise an error.
#[test]
fn r86_a_driver_without_a_limit_is_not_an_official_one() {
    let run = |driver| {
        let scenario = changed("store-inventory", |scenario| {
            scenario.client.uri.push_str("&replicaSet=rs0");
            scenario.client.driver = driver;
            scenario.stall = Stall::StepDown;
            scenario.window = Window { from_ms: 0, for_ms: Some(60_000), command: None };
        });
        let outcome = simulate(&scenario, SimulateOptions::default()).expect("it runs").outcome;
        assert_eq!((outcome.written, outcome.documents), (1, 2), "{driver:?}: {outcome:#?}");
        outcome.executions
    };
    assert!(run(DriverRules::Java54) > 1);
    assert_eq!(run(DriverRules::Unbounded), 1);
    // A stall of an hour: one send for each socket timeout, and one copy.
    let scenario = changed("store-inventory", |scenario| {
        scenario.client.driver = DriverRules::Unbounded;
        scenario.window = Window { from_ms: 0, for_ms: Some(3_601_000), command: None };
    });
    let promised = predict(&scenario.plan(1.0, false).expect("a plan")).expect("a prediction").counts;
    assert_eq!((promised.executions, promised.sends, promised.copies), (1, 121, 1));
}

/// R42, mongodb-core issue 112 and others: after a stall all connections of all pools are opened at once. Drivers answer with
/// `maxConnecting` (2); without it every waiting operation opens one.
#[tokio::test(start_paused = true)]
async fn r42_two_connections_of_a_client_are_opened_at_once() {
    const CLIENTS: usize = 50;
    const OPERATIONS: usize = 100;
    let opening_at_most = async |options: &str| {
        let lab = Lab::new();
        let opening = Arc::new(Mutex::new((0_usize, 0_usize)));
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let opening = Arc::clone(&opening);
            let listener = move |event: &Event| {
                let (now, most) = &mut *opening.lock();
                match event {
                    Event::Pool(PoolEvent::ConnectionCreated { .. }) => *now += 1,
                    Event::Pool(PoolEvent::ConnectionReady { .. }) => *now -= 1,
                    _ => {}
                }
                *most = (*most).max(*now);
            };
            let client = lab.client(options, listener);
            client.database("admin").run_command(doc! { "ping": 1 }).await.expect("connected");
            clients.push(client);
        }
        // Handshakes take five seconds now.
        let handshakes = doc! { "failCommands": ["hello", "isMaster"], "blockConnection": true, "blockTimeMS": 5000 };
        lab.fail_point(FAIL_COMMAND, "alwaysOn", handshakes).await;
        let reads = clients.iter().flat_map(|client| {
            let collection = client.database("test").collection("c");
            (0..OPERATIONS).map(move |_| {
                let collection = collection.clone();
                async move { drop(collection.find(doc! {}).await.expect("read")) }
            })
        });
        // The few connections that there are do all the work, unless each operation opens one at once.
        futures_util::future::join_all(reads).await;
        opening.lock().1
    };
    let limited = opening_at_most("maxPoolSize=100").await;
    assert!((CLIENTS..=2 * CLIENTS).contains(&limited), "{limited}");
    let unlimited = opening_at_most("maxPoolSize=100&maxConnecting=100").await;
    assert!(unlimited > 2 * CLIENTS && unlimited <= CLIENTS * OPERATIONS, "{unlimited}");
}

/// R87, https://github.com/resilience4j/resilience4j/issues/172, tower-rs/tower#705: a retry budget bounds what retries add to the
/// load, whatever the stall; the sweep shows it with and without.
#[test]
fn r87_a_retry_budget_bounds_the_amplification() {
    let dial = |name: &str| Dial::find(name).expect("a dial");
    let mut scenario = changed("store-inventory", |scenario| {
        (scenario.load.consumers, scenario.load.records, scenario.load.consumers_per_client) = (50, 20, 50);
        scenario.load.arrival_interval_ms = 10_000;
        scenario.window = Window { from_ms: 30_000, for_ms: Some(240_000), command: None };
    });
    let amplification = |scenario: &Scenario| {
        let outcome = simulate(scenario, SimulateOptions::default()).expect("it runs").outcome;
        (outcome.sends, outcome.records, outcome.ended_ms)
    };
    let (sends, records, _) = amplification(&scenario);
    assert!(sends * 10 > records * 13, "{sends} sends for {records} records");
    scenario.retry.budget = Some(RetryBudget { percent: 20, per_second: 0 });
    let (sends, records, _) = amplification(&scenario);
    assert!(sends * 10 <= records * 12, "{sends} sends for {records} records");
    scenario.retry.budget = Some(RetryBudget { percent: 20, per_second: 1 });
    let (sends, records, ended_ms) = amplification(&scenario);
    assert!(sends * 10 <= records * 12 + 10 * ended_ms / 1000, "{sends} sends for {records} records in {ended_ms} ms");
    scenario.retry.budget = Some(RetryBudget { percent: 20, per_second: 0 });
    let values = dial("budget-percent").values("20,1000").expect("values");
    let rows = sweep(&scenario, &vec![(dial("budget-percent"), values)], 0, |_, _| {}).expect("it runs");
    let sends: Vec<u64> = rows.iter().map(|row| row.result.as_ref().expect("numbers").outcome.sends).collect();
    assert!(sends[0] < sends[1], "{sends:?}");
}

/// Found by the fuzz target `wire_frame`: a binary value that ends before its subtype made the server panic. A body whose last
/// value is too short for its type is refused as what it is, and the connection goes on.
#[tokio::test(start_paused = true)]
async fn a_value_too_short_for_its_type_is_invalid_bson() {
    /// Type and size of a value of zeros: some are too short, some end too early, some are not possible at all.
    const VALUES: [(u8, usize); 12] = [
        (0x01, 7),
        (0x02, 4),
        (0x03, 4),
        (0x04, 4),
        (0x05, 4),
        (0x07, 11),
        (0x08, 0),
        (0x0b, 0),
        (0x0c, 12),
        (0x0f, 13),
        (0x10, 3),
        (0x13, 15),
    ];
    let lab = Lab::new();
    let mut connection = lab.connect();
    for (kind, size_bytes) in VALUES {
        let mut body = doc! { "ping": 1, "$db": "admin" }.to_vec().expect("encodes");
        body.pop();
        body.extend([kind, b'v', 0]);
        body.resize(body.len() + size_bytes + 1, 0);
        let length_bytes = body.len() as i32;
        body[..4].copy_from_slice(&length_bytes.to_le_bytes());
        connection.write(&OpMsgEncoder::new(MessageFlags(0), 0).body(&body).finish(1, 0, false)).await;
        let reply = connection.reply().await;
        assert_eq!(reply.as_ref().and_then(code), Some(22), "type {kind:#04x} of {size_bytes} bytes: {reply:?}");
    }
    lab.finish().await;
}
