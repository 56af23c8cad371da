//! Multi-document transactions of the lab server: what they see, what they hold, and how they end.

use std::time::Duration;

use backfire_driver::events::Event;
use backfire_driver::{SessionOptions, TransactionOptions};
use backfire_server::profile::{V4_4, V7_0, V8_0};
use backfire_tests::lab::{in_transaction, numbered, with};
use backfire_tests::{Lab, Wire};
use bson::{Bson, Document, doc};
use tokio::time::sleep;

fn first(command: Document) -> Document {
    with(command, in_transaction(1, 1, true))
}

fn next(command: Document) -> Document {
    with(command, in_transaction(1, 1, false))
}

fn insert(id: i32) -> Document {
    doc! { "insert": "c", "documents": [{ "_id": id }] }
}

fn set(id: i32, value: i32) -> Document {
    doc! { "update": "c", "updates": [{ "q": { "_id": id }, "u": { "$set": { "v": value } } }] }
}

fn find() -> Document {
    doc! { "find": "c", "filter": {}, "sort": { "_id": 1 } }
}

/// The `_id`s of a first batch.
fn ids(reply: &Document) -> Vec<i32> {
    let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("no cursor: {reply}"));
    let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch")).expect("a batch");
    batch.iter().map(|found| found.as_document().expect("a document").get_i32("_id").expect("an _id")).collect()
}

fn labels(reply: &Document) -> Vec<&str> {
    reply.get_array("errorLabels").into_iter().flatten().filter_map(Bson::as_str).collect()
}

/// Checks code, label and a part of the text of a failed reply.
fn check_error(reply: &Document, code: i32, label: Option<&str>, text: &str) {
    assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
    assert_eq!(labels(reply), label.into_iter().collect::<Vec<_>>(), "{reply}");
    assert!(reply.get_str("errmsg").is_ok_and(|found| found.contains(text)), "'{text}' is not in {reply}");
}

const TRANSIENT: Option<&str> = Some("TransientTransactionError");

async fn counter(lab: &Lab, name: &str) -> i64 {
    let status = lab.ok("admin", doc! { "serverStatus": 1 }).await;
    status.get_document("transactions").expect("transactions").get_i64(name).expect(name)
}

#[tokio::test(start_paused = true)]
async fn a_transaction_sees_its_own_writes_and_nobody_else_does_before_the_commit() {
    let lab = Lab::new();
    lab.ok("test", insert(1)).await;
    lab.ok("test", first(insert(2))).await;
    lab.ok("test", next(doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] })).await;
    assert_eq!(ids(&lab.ok("test", next(find())).await), [2]);
    assert_eq!(ids(&lab.ok("test", find()).await), [1]);
    // What others commit meanwhile is not seen.
    lab.ok("test", insert(3)).await;
    assert_eq!(ids(&lab.ok("test", next(find())).await), [2]);
    let counted = doc! { "aggregate": "c", "pipeline": [{ "$project": { "_id": 1 } }], "cursor": {} };
    assert_eq!(ids(&lab.ok("test", next(counted)).await), [2]);
    let distinct = lab.ok("test", next(doc! { "distinct": "c", "key": "_id" })).await;
    assert_eq!(distinct.get_array("values").expect("values"), &[Bson::Int32(2)]);
    lab.ok("admin", next(doc! { "commitTransaction": 1, "writeConcern": { "w": "majority" } })).await;
    assert_eq!(ids(&lab.ok("test", find()).await), [2, 3]);
    let record = lab.ok("config", doc! { "find": "transactions" }).await;
    let record = record.get_document("cursor").expect("cursor").get_array("firstBatch").expect("a batch")[0].clone();
    assert_eq!(record.as_document().expect("a document").get_str("state").ok(), Some("committed"));
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn an_abort_undoes_everything_a_created_collection_too() {
    let lab = Lab::new();
    lab.ok("test", first(insert(1))).await;
    assert_eq!(ids(&lab.ok("test", next(find())).await), [1]);
    let names = doc! { "listCollections": 1 };
    let listed =
        |reply: Document| reply.get_document("cursor").expect("cursor").get_array("firstBatch").expect("batch").len();
    assert_eq!(listed(lab.ok("test", names.clone()).await), 0);
    lab.ok("admin", next(doc! { "abortTransaction": 1 })).await;
    assert_eq!(listed(lab.ok("test", names.clone()).await), 0);
    // The same again, and committed.
    lab.ok("test", with(insert(1), in_transaction(1, 2, true))).await;
    lab.ok("admin", with(doc! { "commitTransaction": 1 }, in_transaction(1, 2, false))).await;
    assert_eq!((listed(lab.ok("test", names).await), lab.count(doc! {}).await), (1, 1));
    assert_eq!(counter(&lab, "totalAborted").await, 1);
    assert_eq!(counter(&lab, "totalCommitted").await, 1);
    assert_eq!(counter(&lab, "currentOpen").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_commit_may_be_said_again_and_nothing_else_may() {
    let lab = Lab::new();
    lab.ok("test", first(insert(1))).await;
    let commit = |concern: Document| next(doc! { "commitTransaction": 1, "writeConcern": concern });
    lab.ok("admin", commit(doc! {})).await;
    lab.ok("admin", commit(doc! { "w": "majority", "wtimeout": 10_000 })).await;
    check_error(
        &lab.run("admin", next(doc! { "abortTransaction": 1 })).await,
        256,
        None,
        "Transaction 1 has been committed.",
    );
    check_error(&lab.run("test", next(insert(2))).await, 256, None, "Transaction 1 has been committed.");
    let unmet = lab.ok("admin", commit(doc! { "w": 2 })).await;
    assert_eq!(unmet.get_document("writeConcernError").expect("an error").get_i32("code").ok(), Some(100));
    // After a restart the server would know: the session's document says so.
    lab.server.shared().sessions.invalidate_all();
    lab.ok("admin", commit(doc! {})).await;
    assert_eq!(lab.count(doc! {}).await, 1);
}

#[tokio::test(start_paused = true)]
async fn fields_and_commands_that_do_not_go_together() {
    let lab = Lab::new();
    lab.ok("test", insert(0)).await;
    let ended = |number| with(doc! { "commitTransaction": 1 }, in_transaction(1, number, false));
    for (db, command, code, label, text) in [
        ("admin", doc! { "commitTransaction": 1 }, 125, None, "commitTransaction must be run within a transaction"),
        ("admin", doc! { "abortTransaction": 1 }, 125, None, "abortTransaction must be run within a transaction"),
        (
            "admin",
            with(doc! { "commitTransaction": 1 }, numbered(1, 1)),
            50768,
            None,
            "commitTransaction is not a retryable",
        ),
        ("admin", ended(7), 251, TRANSIENT, "Given transaction number 7 does not match any in-progress transactions."),
        ("test", ended(7), 13, None, "commitTransaction may only be run against the admin database."),
        ("admin", first(doc! { "commitTransaction": 1 }), 263, None, "Cannot start a transaction with a commit"),
        ("admin", first(doc! { "abortTransaction": 1 }), 263, None, "Cannot start a transaction with an abort"),
        (
            "test",
            first(doc! { "count": "c" }),
            263,
            None,
            "Cannot run 'count' in a multi-document transaction. Please see",
        ),
        ("test", first(doc! { "drop": "c" }), 263, None, "Cannot run 'drop' in a multi-document transaction."),
        ("test", first(doc! { "killCursors": "c", "cursors": [1_i64] }), 263, None, "as the first operation"),
        ("config", first(insert(1)), 263, None, "Cannot run command against the 'config' database in a transaction"),
        ("local", first(insert(1)), 263, None, "Cannot run command against the 'local' database in a transaction"),
        ("admin", first(insert(1)), 263, None, "Cannot run command against the 'admin' database in a transaction"),
        (
            "test",
            first(with(insert(1), doc! { "writeConcern": { "w": 1 } })),
            72,
            None,
            "writeConcern is not allowed within",
        ),
        (
            "test",
            first(with(find(), doc! { "readConcern": { "level": "available" } })),
            72,
            None,
            "must be either 'local'",
        ),
        (
            "test",
            with(insert(1), doc! { "autocommit": false }),
            72,
            None,
            "'autocommit' field requires a transaction number",
        ),
        (
            "test",
            with(insert(1), with(numbered(1, 1), doc! { "startTransaction": true })),
            72,
            None,
            "requires 'autocommit'",
        ),
        (
            "test",
            with(insert(1), with(numbered(1, 1), doc! { "autocommit": true })),
            72,
            None,
            "autocommit=true is not",
        ),
    ] {
        check_error(&lab.run(db, command).await, code, label, text);
    }
    assert_eq!((counter(&lab, "totalStarted").await, lab.count(doc! {}).await), (0, 1));
    let stage = doc! { "aggregate": "c", "pipeline": [{ "$out": "d" }], "cursor": {} };
    check_error(
        &lab.run("test", first(stage)).await,
        263,
        None,
        "not supported inside of a multi-document transaction: $out",
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_concern_comes_with_the_first_command_only() {
    let lab = Lab::new();
    lab.ok("test", insert(1)).await;
    let snapshot = doc! { "readConcern": { "level": "snapshot" } };
    lab.ok("test", first(with(find(), snapshot.clone()))).await;
    let late = lab.run("test", next(with(find(), snapshot))).await;
    check_error(&late, 72, None, "Only the first command in a transaction may specify a readConcern");
    check_error(&lab.run("test", next(find())).await, 251, TRANSIENT, "Transaction 1 has been aborted.");
}

#[tokio::test(start_paused = true)]
async fn numbers_go_up_and_texts_follow_the_version() {
    for (profile, old, committed) in [
        (&V4_4, "Cannot start transaction 1 on session", "Transaction 2 has been committed."),
        (
            &V7_0,
            "Cannot start transaction with { txnNumber: 1 }",
            "Transaction with { txnNumber: 2 } has been committed.",
        ),
    ] {
        let lab = Lab::of(profile);
        lab.ok("test", insert(0)).await;
        lab.ok("test", with(set(0, 1), in_transaction(1, 2, true))).await;
        check_error(&lab.run("test", first(find())).await, 225, None, old);
        check_error(
            &lab.run("test", with(insert(9), numbered(1, 1))).await,
            225,
            None,
            "because a newer transaction with",
        );
        check_error(&lab.run("test", with(insert(9), numbered(1, 2))).await, 217, None, "converted into a transaction");
        check_error(
            &lab.run("test", with(find(), in_transaction(1, 2, true))).await,
            117,
            None,
            "Only servers in a sharded",
        );
        // None of these has touched it.
        lab.ok("admin", with(doc! { "commitTransaction": 1 }, in_transaction(1, 2, false))).await;
        check_error(&lab.run("test", with(find(), in_transaction(1, 2, false))).await, 256, None, committed);
        assert_eq!(lab.count(doc! { "v": 1 }).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_number_aborts_what_the_older_one_left_open() {
    for newer in [with(insert(5), numbered(1, 2)), with(find(), in_transaction(1, 2, true))] {
        let lab = Lab::new();
        lab.ok("test", insert(0)).await;
        lab.ok("test", first(set(0, 1))).await;
        lab.ok("test", newer).await;
        check_error(
            &lab.run("admin", next(doc! { "commitTransaction": 1 })).await,
            225,
            None,
            "Cannot start transaction 1",
        );
        // Its write is undone, and keeps nobody out.
        lab.ok("test", set(0, 2)).await;
        assert_eq!(counter(&lab, "totalAborted").await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_aborts_the_transaction() {
    let duplicate = doc! { "insert": "c", "documents": [{ "_id": 0 }], "ordered": false };
    let several = doc! { "insert": "c", "documents": [{ "_id": 7 }, { "_id": 0 }] };
    let unordered = doc! { "update": "c", "ordered": false, "updates": [
        { "q": { "_id": 0 }, "u": { "$set": { "_id": 1 } } }, { "q": { "_id": 0 }, "u": { "$set": { "w": 1 } } },
    ] };
    for (command, top_level, code) in [(duplicate, false, 11000), (several, true, 11000), (unordered, false, 66)] {
        let lab = Lab::new();
        lab.ok("test", insert(0)).await;
        lab.ok("test", first(set(0, 1))).await;
        let reply = lab.run("test", next(command)).await;
        let found = match reply.get_array("writeErrors") {
            Ok(errors) => errors[0].as_document().and_then(|error| error.get_i32("code").ok()),
            Err(_) => reply.get_i32("code").ok(),
        };
        assert_eq!((found, reply.contains_key("code")), (Some(code), top_level), "{reply}");
        assert!(labels(&reply).is_empty(), "{reply}");
        check_error(&lab.run("test", next(find())).await, 251, TRANSIENT, "Transaction 1 has been aborted.");
        assert_eq!(lab.count(doc! { "v": 1 }).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn two_transactions_conflict_and_a_plain_write_waits() {
    let lab = Lab::new();
    lab.ok("test", insert(0)).await;
    lab.ok("test", first(set(0, 1))).await;
    for (session, command) in [
        (2, set(0, 2)),
        (3, doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] }),
        (4, doc! { "findAndModify": "c", "query": {}, "update": { "$inc": { "v": 1 } } }),
        (5, doc! { "findAndModify": "c", "query": {}, "remove": true }),
    ] {
        let refused = lab.run("test", with(command, in_transaction(session, 1, true))).await;
        check_error(&refused, 112, TRANSIENT, "WriteConflict error: this operation conflicted with another operation.");
        let after = lab.run("test", with(find(), in_transaction(session, 1, false))).await;
        check_error(&after, 251, TRANSIENT, "Transaction 1 has been aborted.");
    }
    // A write outside of transactions loops until the document is free.
    let mut plain = lab.connect();
    plain.send("test", set(0, 7), &[]).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(lab.count(doc! { "v": { "$exists": true } }).await, 0);
    lab.ok("admin", next(doc! { "commitTransaction": 1 })).await;
    assert_eq!(plain.reply().await.expect("a reply").get_i32("n").ok(), Some(1));
    assert_eq!(lab.count(doc! { "v": 7 }).await, 1);
    // A document that has changed since the transaction began conflicts as well.
    lab.ok("test", with(find(), in_transaction(6, 1, true))).await;
    lab.ok("test", set(0, 8)).await;
    check_error(&lab.run("test", with(set(0, 9), in_transaction(6, 1, false))).await, 112, TRANSIENT, "WriteConflict");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_statement_that_matches_nothing_leaves_the_transaction_open() {
    let lab = Lab::new();
    lab.ok("test", insert(0)).await;
    lab.ok("test", first(set(99, 1))).await;
    for command in [
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "v": 1 } }, "multi": true }] },
        doc! { "update": "c", "updates": [{ "q": { "_id": 5 }, "u": { "$set": { "v": 2 } }, "upsert": true }] },
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 77 }, "limit": 0 }] },
        doc! { "findAndModify": "c", "query": { "_id": 5 }, "update": { "$inc": { "v": 1 } }, "new": true },
    ] {
        lab.ok("test", next(command)).await;
    }
    lab.ok("admin", next(doc! { "commitTransaction": 1 })).await;
    assert_eq!((lab.count(doc! { "v": 1 }).await, lab.count(doc! { "_id": 5, "v": 3 }).await), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_cursor_belongs_to_its_transaction() {
    let lab = Lab::new();
    let documents: Vec<_> = (0..5).map(|id| doc! { "_id": id }).collect();
    lab.ok("test", doc! { "insert": "c", "documents": documents }).await;
    let opened = lab.ok("test", first(with(find(), doc! { "batchSize": 2 }))).await;
    let id = opened.get_document("cursor").expect("a cursor").get_i64("id").expect("an id");
    let more = || doc! { "getMore": id, "collection": "c", "batchSize": 2 };
    check_error(&lab.run("test", more()).await, 50740, None, "which was created in transaction 1, without a txnNumber");
    assert_eq!(ids(&lab.ok("test", next(more())).await), [2, 3]);
    lab.ok("admin", next(doc! { "abortTransaction": 1 })).await;
    check_error(&lab.run("test", more()).await, 43, None, "not found");
    // One from outside of it.
    let opened = lab.ok("test", with(find(), doc! { "batchSize": 2 })).await;
    let id = opened.get_document("cursor").expect("a cursor").get_i64("id").expect("an id");
    lab.ok("test", with(find(), in_transaction(1, 2, true))).await;
    let foreign = with(doc! { "getMore": id, "collection": "c" }, in_transaction(1, 2, false));
    check_error(
        &lab.run("test", foreign).await,
        50739,
        None,
        "which was not created in a transaction, in transaction 2",
    );
}

/// What ends a transaction from outside.
#[tokio::test(start_paused = true)]
async fn sessions_that_are_killed_or_too_old_lose_their_transaction() {
    let session = || numbered(1, 1).get_document("lsid").expect("a session").clone();
    for command in [
        doc! { "killSessions": [session()] },
        doc! { "killAllSessions": [] },
        doc! { "killAllSessionsByPattern": [] },
        doc! { "replSetStepDown": 1, "force": true },
        doc! { "endSessions": [session()] },
        doc! { "ping": 1 },
    ] {
        let lab = Lab::new();
        lab.ok("test", insert(0)).await;
        lab.ok("test", first(set(0, 1))).await;
        lab.ok("admin", command.clone()).await;
        let expired = ["endSessions", "ping"].iter().any(|name| command.contains_key(name));
        if command.contains_key("endSessions") {
            // It is only noted: the transaction goes on.
            lab.ok("test", next(find())).await;
        }
        sleep(Duration::from_secs(if expired { 61 } else { 2 })).await;
        let reply = lab.run("admin", next(doc! { "commitTransaction": 1 })).await;
        check_error(&reply, 251, TRANSIENT, "Transaction 1 has been aborted.");
        assert_eq!((lab.count(doc! { "v": 1 }).await, counter(&lab, "currentOpen").await), (0, 0), "{command}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_runs_is_ended_with_its_transaction() {
    for (kill, code) in [(Some(doc! { "killAllSessions": [] }), 11601), (None, 290)] {
        let lab = Lab::new();
        lab.ok("test", insert(0)).await;
        lab.ok("admin", doc! { "setParameter": 1, "transactionLifetimeLimitSeconds": 3 }).await;
        lab.fail_point("stallInterruptible", "alwaysOn", doc! {}).await;
        let mut held = lab.connect();
        held.send("test", first(set(0, 1)), &[]).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(counter(&lab, "currentActive").await, 1);
        if let Some(kill) = kill {
            lab.ok("admin", kill).await;
        }
        let reply = held.reply().await.expect("a reply");
        check_error(&reply, code, None, "operation was interrupted");
        check_error(&lab.run("test", next(find())).await, 251, TRANSIENT, "Transaction 1 has been aborted.");
        lab.fail_point("stallInterruptible", "off", doc! {}).await;
        lab.ok("test", set(0, 2)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_keeps_its_locks_and_does_not_wait_long_for_others() {
    let lab = Lab::new();
    lab.ok("test", insert(0)).await;
    lab.ok("test", first(set(0, 1))).await;
    let mut drop_waits = lab.connect();
    drop_waits.send("test", doc! { "drop": "c" }, &[]).await;
    sleep(Duration::from_secs(1)).await;
    // It does not queue behind the drop for what it has already.
    lab.ok("test", next(set(0, 2))).await;
    // Somebody else does, and not for long.
    let late = lab.run("test", with(find(), in_transaction(2, 1, true))).await;
    check_error(&late, 24, TRANSIENT, "within 5ms.");
    lab.ok("admin", next(doc! { "commitTransaction": 1 })).await;
    assert_eq!(drop_waits.reply().await.expect("a reply").get_f64("ok").ok(), Some(1.0));
    assert_eq!(lab.count(doc! {}).await, 0);
    // What came into being after a transaction began is not there for it.
    lab.ok("test", doc! { "insert": "other", "documents": [{}] }).await;
    lab.ok("test", with(doc! { "find": "other" }, in_transaction(3, 1, true))).await;
    lab.ok("test", insert(1)).await;
    check_error(&lab.run("test", with(find(), in_transaction(3, 1, false))).await, 246, TRANSIENT, "Unable to read");
}

#[tokio::test(start_paused = true)]
async fn two_that_create_the_same_collection() {
    let lab = Lab::new();
    lab.ok("test", first(insert(1))).await;
    lab.ok("test", with(insert(2), in_transaction(2, 1, true))).await;
    lab.ok("admin", next(doc! { "commitTransaction": 1 })).await;
    let second = with(doc! { "commitTransaction": 1 }, in_transaction(2, 1, false));
    check_error(&lab.run("admin", second).await, 112, TRANSIENT, "WriteConflict");
    assert_eq!(ids(&lab.ok("test", find()).await), [1]);
}

#[tokio::test(start_paused = true)]
async fn current_op_shows_transactions_at_rest_and_at_work() {
    let lab = Lab::new();
    lab.ok("test", insert(0)).await;
    lab.ok("test", first(with(find(), doc! { "readConcern": { "level": "snapshot" } }))).await;
    lab.ok("test", next(set(0, 1))).await;
    sleep(Duration::from_secs(2)).await;
    let look = |matching: Document| {
        doc! { "aggregate": 1, "pipeline": [{ "$currentOp": {} }, { "$match": matching }], "cursor": {} }
    };
    let found = |reply: Document| {
        let batch = reply.get_document("cursor").expect("a cursor").get_array("firstBatch").expect("a batch").clone();
        assert_eq!(batch.len(), 1, "{batch:?}");
        batch[0].as_document().expect("a document").clone()
    };
    let idle = found(lab.ok("admin", look(doc! { "type": "idleSession" })).await);
    assert_eq!(idle.get_str("desc").ok(), Some("inactive transaction"));
    assert_eq!(idle.get_bool("active").ok(), Some(false));
    assert_eq!(idle.get_document("locks").expect("locks").get_str("Collection").ok(), Some("w"));
    let transaction = idle.get_document("transaction").expect("a transaction");
    let parameters = transaction.get_document("parameters").expect("parameters");
    assert_eq!((parameters.get_i64("txnNumber").ok(), parameters.get_bool("autocommit").ok()), (Some(1), Some(false)));
    assert_eq!(transaction.get_i64("timeInactiveMicros").ok(), Some(2_000_000));
    lab.fail_point("stallInEngine", "alwaysOn", doc! {}).await;
    let mut held = lab.connect();
    held.send("test", next(set(0, 2)), &[]).await;
    sleep(Duration::from_secs(1)).await;
    let active = found(lab.ok("admin", look(doc! { "transaction.parameters.txnNumber": 1 })).await);
    assert_eq!((active.get_str("type").ok(), active.get_str("op").ok()), (Some("op"), Some("update")));
    assert_eq!(
        active.get_document("transaction").expect("a transaction").get_i64("timeActiveMicros").ok(),
        Some(1_000_000)
    );
    assert_eq!((counter(&lab, "currentActive").await, counter(&lab, "currentInactive").await), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn fail_points_reach_the_end_of_a_transaction() {
    let lab = Lab::of(&V8_0);
    lab.ok("test", insert(0)).await;
    lab.ok("test", first(set(0, 1))).await;
    let commit = || next(doc! { "commitTransaction": 1 });
    let fail = |data: Document| with(doc! { "failCommands": ["commitTransaction"] }, data);
    lab.fail_point("failCommand", doc! { "times": 1 }, fail(doc! { "errorCode": 11600 })).await;
    check_error(&lab.run("admin", commit()).await, 11600, Some("RetryableWriteError"), "failpoint");
    lab.fail_point("failCommand", doc! { "times": 1 }, fail(doc! { "errorCode": 251 })).await;
    check_error(&lab.run("admin", commit()).await, 251, TRANSIENT, "failpoint");
    lab.fail_point("failCommand", doc! { "times": 1 }, fail(doc! { "closeConnection": true })).await;
    assert_eq!(reply_to(&lab, commit()).await, None, "the request is lost");
    assert_eq!(lab.count(doc! { "v": 1 }).await, 0);
    lab.fail_point("loseReply", doc! { "times": 1 }, doc! { "commands": ["commitTransaction"] }).await;
    assert_eq!(reply_to(&lab, commit()).await, None, "the reply is lost");
    assert_eq!(lab.count(doc! { "v": 1 }).await, 1);
    lab.ok("admin", commit()).await;
    assert_eq!(counter(&lab, "totalCommitted").await, 1);
}

/// What a driver sends for one transaction: its statements have one number, and are no resends of each other. The commit whose
/// reply is lost is sent twice.
#[tokio::test(start_paused = true)]
async fn statements_of_a_driver_are_counted_once() {
    let lab = Lab::of(&V7_0);
    lab.ok("test", insert(0)).await;
    let client = lab.client("retryWrites=true", |_: &Event| {});
    let collection = client.database("test").collection("c");
    let session = client.start_session(SessionOptions::default()).expect("a session");
    let before = lab.ledger().counts(0, 0);
    session.start_transaction(TransactionOptions::default()).expect("nothing is open");
    for value in 1..=3 {
        let set = doc! { "$set": { "v": value } };
        collection.update_one(doc! { "_id": 0 }, set).session(&session).await.expect("an update");
    }
    lab.fail_point("loseReply", doc! { "times": 1 }, doc! { "commands": ["commitTransaction"] }).await;
    session.commit_transaction().await.expect("the second commit is answered");
    // Outside of transactions the same session resends.
    lab.fail_point("loseReply", doc! { "times": 1 }, doc! { "commands": ["update"] }).await;
    let set = doc! { "$set": { "v": 9 } };
    collection.update_one(doc! { "_id": 0 }, set).session(&session).await.expect("an update");
    let ledger = lab.ledger();
    let counts = ledger.counts(0, 0);
    let more = (counts.sends - before.sends, counts.resends - before.resends, counts.copies - before.copies);
    assert_eq!(more, (3 + 2 + 2, 1 + 1, 2));
    assert_eq!((counts.overlapping_copies_max, ledger.waiting_resends()), (1, 0));
    assert_eq!(ledger.extras().answered_from_history, Some(1));
}

async fn reply_to(lab: &Lab, command: Document) -> Option<Document> {
    let mut wire: Wire = lab.connect();
    wire.send("admin", command, &[]).await;
    wire.reply().await
}

#[tokio::test(start_paused = true)]
async fn a_bulk_over_collections_is_part_of_a_transaction() {
    let lab = Lab::of(&V8_0);
    lab.ok("test", insert(0)).await;
    let bulk = doc! {
        "bulkWrite": 1, "nsInfo": [{ "ns": "test.c" }, { "ns": "other.c" }],
        "ops": [{ "insert": 0, "document": { "_id": 1 } }, { "insert": 1, "document": { "_id": 2 } }],
    };
    lab.ok("admin", first(bulk)).await;
    assert_eq!(lab.count(doc! {}).await, 1);
    lab.ok("admin", next(doc! { "commitTransaction": 1 })).await;
    assert_eq!(lab.count(doc! {}).await, 2);
}
