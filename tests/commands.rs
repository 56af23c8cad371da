//! What commands answer, command by command, where no recording of a real server says it.

use std::time::Duration;

use backfire_model::dial::PROFILE_NAMES;
use backfire_server::profile::{PROFILES, V4_2, V4_4, V6_0, V7_0, V8_0, V8_2};
use backfire_tests::Lab;
use backfire_tests::lab::{check, in_transaction, numbered, with};
use bson::{Bson, Document, bson, doc};
use proptest::prelude::*;

/// An int field.
fn int(document: &Document, name: &str) -> Option<i32> {
    document.get_i32(name).ok()
}

fn insert(documents: Vec<Document>) -> (&'static str, Document) {
    ("test", doc! { "insert": "c", "documents": documents })
}

fn first_batch(reply: &Document) -> Vec<Document> {
    let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("no cursor: {reply}"));
    let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch")).expect("a batch");
    batch.iter().filter_map(Bson::as_document).cloned().collect()
}

/// Sets up `test.c`, runs a command that gives a cursor, and compares its first batch.
async fn check_batch(setup: &[(&str, Document)], command: Document, expected: Vec<Document>) {
    let lab = Lab::of(&V7_0);
    for (db, command) in setup {
        lab.ok(db, command.clone()).await;
    }
    let reply = lab.ok("test", command.clone()).await;
    assert_eq!(first_batch(&reply), expected, "{command}");
}

async fn refused(lab: &Lab, db: &str, command: Document, code: i32) {
    let reply = lab.run(db, command.clone()).await;
    let found = reply.get_i32("code").or_else(|_| {
        let errors = reply.get_array("writeErrors").map(|errors| errors[0].as_document().cloned());
        errors.ok().flatten().unwrap_or_default().get_i32("code")
    });
    assert_eq!(found.ok(), Some(code), "{command}: {reply}");
}

#[tokio::test(start_paused = true)]
async fn a_capped_collection_keeps_its_newest_documents() {
    let capped = ("test", doc! { "create": "c", "capped": true, "size": 4096, "max": 3 });
    let documents = (1..=5).map(|id| doc! { "_id": id }).collect();
    let newest = vec![doc! { "_id": 3 }, doc! { "_id": 4 }, doc! { "_id": 5 }];
    check_batch(&[capped, insert(documents)], doc! { "find": "c" }, newest).await;
    let large = doc! { "create": "c", "capped": true, "size": 4096 };
    let documents = (1..=4).map(|id| doc! { "_id": id, "x": "x".repeat(1500) }).collect();
    let reply = vec![doc! { "_id": 3 }, doc! { "_id": 4 }];
    check_batch(&[("test", large), insert(documents)], doc! { "find": "c", "projection": { "_id": 1 } }, reply).await;
}

#[tokio::test(start_paused = true)]
async fn old_versions_do_not_let_capped_documents_go_or_grow() {
    for (profile, allowed) in [(&V4_4, false), (&V7_0, true)] {
        let lab = Lab::of(profile);
        lab.ok("test", doc! { "create": "c", "capped": true, "size": 4096 }).await;
        lab.ok("test", doc! { "insert": "c", "documents": [{ "_id": 1 }] }).await;
        let grow = doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "x": 1 } } }] };
        let delete = doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 1 }] };
        if allowed {
            assert_eq!(int(&lab.ok("test", grow).await, "nModified"), Some(1));
            assert_eq!(int(&lab.ok("test", delete).await, "n"), Some(1));
        } else {
            refused(&lab, "test", grow, 10003).await;
            refused(&lab, "test", delete, 20).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tailable_cursor_waits_for_what_comes() {
    let lab = Lab::of(&V7_0);
    refused(&lab, "test", doc! { "find": "c", "awaitData": true }, 9).await;
    lab.ok("test", doc! { "create": "c", "capped": true, "size": 4096 }).await;
    lab.ok("test", insert(vec![doc! { "_id": 1 }]).1).await;
    let opened = lab.ok("test", doc! { "find": "c", "tailable": true, "awaitData": true }).await;
    assert_eq!(first_batch(&opened), [doc! { "_id": 1 }]);
    let id = opened.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("an id");
    assert_ne!(id, 0);
    let more = |max_time_ms: i32| doc! { "getMore": id, "collection": "c", "maxTimeMS": max_time_ms };
    let started = tokio::time::Instant::now();
    let mut wire = lab.connect();
    wire.send("test", more(60_000), &[]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    lab.ok("test", insert(vec![doc! { "_id": 2 }]).1).await;
    assert_eq!(first_batch(&wire.reply().await.expect("a reply")), [doc! { "_id": 2 }]);
    assert!(started.elapsed() < Duration::from_secs(1), "it did not wait until the end");
    let started = tokio::time::Instant::now();
    let nothing = lab.ok("test", more(5_000)).await;
    assert_eq!(first_batch(&nothing), Vec::<Document>::new());
    assert!(started.elapsed() >= Duration::from_secs(5));
    assert_eq!(nothing.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).ok(), Some(id));
}

#[tokio::test(start_paused = true)]
async fn a_tailable_cursor_that_was_left_behind_says_so() {
    let lab = Lab::of(&V7_0);
    lab.ok("test", doc! { "create": "c", "capped": true, "size": 4096, "max": 2 }).await;
    lab.ok("test", insert(vec![doc! { "_id": 1 }]).1).await;
    let opened = lab.ok("test", doc! { "find": "c", "tailable": true }).await;
    let id = opened.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("an id");
    lab.ok("test", insert((2..=4).map(|id| doc! { "_id": id }).collect()).1).await;
    refused(&lab, "test", doc! { "getMore": id, "collection": "c" }, 136).await;
    lab.ok("test", doc! { "insert": "plain", "documents": [{}] }).await;
    refused(&lab, "test", doc! { "find": "plain", "tailable": true }, 2).await;
}

#[tokio::test(start_paused = true)]
async fn documents_are_validated_unless_that_is_bypassed() {
    for (profile, told) in [(&V4_4, false), (&V7_0, true)] {
        let lab = Lab::of(profile);
        lab.ok("test", doc! { "create": "c", "validator": { "x": { "$type": "int" } } }).await;
        let bad = || insert(vec![doc! { "_id": 7, "x": "a" }]).1;
        let reply = lab.ok("test", bad()).await;
        let error = reply.get_array("writeErrors").expect("an error")[0].as_document().cloned().expect("a document");
        assert_eq!((int(&error, "code"), error.contains_key("errInfo")), (Some(121), told), "{reply}");
        let forced = lab.ok("test", with(bad(), doc! { "bypassDocumentValidation": true })).await;
        assert_eq!(int(&forced, "n"), Some(1));
        refused(&lab, "test", doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "y": 1 } } }] }, 121).await;
        lab.ok("test", doc! { "collMod": "c", "validationLevel": "moderate" }).await;
        lab.ok("test", doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "y": 1 } } }] }).await;
        assert_eq!(lab.count(doc! { "y": 1 }).await, 1);
        refused(&lab, "test", doc! { "collMod": "nothing" }, 26).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_bulk_goes_over_collections() {
    let lab = Lab::of(&V8_0);
    let ops = bson!([
        { "insert": 0, "document": { "_id": 1 } },
        { "update": 1, "filter": { "_id": 1 }, "updateMods": { "$set": { "x": 1 } }, "upsert": true },
        { "insert": 0, "document": { "_id": 1 } },
        { "delete": 0, "filter": {}, "multi": true },
    ]);
    let infos = bson!([{ "ns": "test.c" }, { "ns": "other.d" }]);
    let bulk = |ordered: bool| doc! { "bulkWrite": 1, "ops": ops.clone(), "nsInfo": infos.clone(), "ordered": ordered };
    let reply = lab.ok("admin", bulk(true)).await;
    let counts =
        |reply: &Document| ["nErrors", "nInserted", "nUpserted", "nDeleted"].map(|name| reply.get_i32(name).ok());
    assert_eq!(counts(&reply), [Some(1), Some(1), Some(1), Some(0)]);
    let codes: Vec<_> = first_batch(&reply).iter().map(|entry| entry.get_i32("code").ok()).collect();
    assert_eq!(codes, [None, None, Some(11000)]);
    assert_eq!(counts(&lab.ok("admin", bulk(false)).await), [Some(2), Some(0), Some(0), Some(1)]);
    refused(&lab, "test", bulk(true), 13).await;
    refused(&Lab::of(&V7_0), "admin", bulk(true), 59).await;
}

#[tokio::test(start_paused = true)]
async fn a_resent_bulk_is_answered_from_history() {
    let lab = Lab::of(&V8_0);
    let ops = bson!([
        { "insert": 0, "document": { "x": 1 } },
        { "update": 0, "filter": { "x": 1 }, "updateMods": { "$inc": { "y": 1 } } },
    ]);
    let bulk = doc! { "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": "test.c" }] };
    for retried in [false, true] {
        let reply = lab.ok("admin", with(bulk.clone(), numbered(1, 1))).await;
        assert_eq!((int(&reply, "nInserted"), int(&reply, "nModified")), (Some(1), Some(1)));
        assert_eq!(reply.contains_key("retriedStmtIds"), retried, "{reply}");
    }
    assert_eq!(lab.count(doc! { "y": 1 }).await, 1);
    assert_eq!(lab.ledger().counts(0, 1).copies, 1);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_read_again() {
    let lab = Lab::of(&V7_0);
    lab.ok("test", insert(vec![doc! { "_id": 1 }]).1).await;
    let read = |concern: Document| doc! { "find": "c", "readConcern": concern };
    let first = lab.ok("test", read(doc! { "level": "snapshot" })).await;
    let time = first.get_document("cursor").and_then(|cursor| cursor.get_timestamp("atClusterTime")).expect("a time");
    lab.ok("test", insert(vec![doc! { "_id": 2 }]).1).await;
    let again = lab.ok("test", read(doc! { "level": "snapshot", "atClusterTime": time })).await;
    assert_eq!(first_batch(&again), [doc! { "_id": 1 }]);
    assert_eq!(first_batch(&lab.ok("test", read(doc! { "level": "majority" })).await).len(), 2);
    let unknown = bson::Timestamp { time: 1, increment: 1 };
    refused(&lab, "test", read(doc! { "level": "snapshot", "atClusterTime": unknown }), 239).await;
    refused(&lab, "test", read(doc! { "level": "exact" }), 9).await;
    let count = doc! { "count": "c", "readConcern": { "level": "snapshot" } };
    refused(&lab, "test", count, 72).await;
    refused(&Lab::of(&V4_4), "test", read(doc! { "level": "snapshot" }), 72).await;
}

#[tokio::test(start_paused = true)]
async fn a_view_is_a_pipeline_over_its_collection() {
    let lab = Lab::of(&V7_0);
    let documents = (1..=4).map(|id| doc! { "_id": id, "a": id % 2, "tags": ["x", id.to_string()] }).collect();
    lab.ok("test", insert(documents).1).await;
    lab.ok("test", doc! { "create": "odd", "viewOn": "c", "pipeline": [{ "$match": { "a": 1 } }] }).await;
    lab.ok("test", doc! { "create": "ids", "viewOn": "odd", "pipeline": [{ "$project": { "_id": 1 } }] }).await;
    let ids = [doc! { "_id": 1 }, doc! { "_id": 3 }];
    assert_eq!(first_batch(&lab.ok("test", doc! { "find": "ids" }).await), ids);
    assert_eq!(first_batch(&lab.ok("test", doc! { "find": "ids", "sort": { "_id": -1 }, "limit": 1 }).await), ids[1..]);
    let sum =
        doc! { "aggregate": "odd", "pipeline": [{ "$group": { "_id": null, "n": { "$sum": "$_id" } } }], "cursor": {} };
    assert_eq!(first_batch(&lab.ok("test", sum).await), [doc! { "_id": null, "n": 4 }]);
    let count = lab.ok("test", doc! { "count": "odd", "query": { "_id": { "$gt": 1 } } }).await;
    assert_eq!(int(&count, "n"), Some(1));
    let mut tags =
        lab.ok("test", doc! { "distinct": "odd", "key": "tags" }).await.get_array("values").cloned().expect("values");
    tags.sort_by_key(Bson::to_string);
    assert_eq!(tags, ["1", "3", "x"].map(Bson::from));
    let lookup = bson!([{ "$lookup": { "from": "ids", "localField": "_id", "foreignField": "_id", "as": "in" } }, { "$match": { "in": [] } }]);
    let missing = lab.ok("test", doc! { "aggregate": "c", "pipeline": lookup, "cursor": {} }).await;
    assert_eq!(first_batch(&missing).len(), 2);
    for write in [
        doc! { "insert": "odd", "documents": [{}] },
        doc! { "update": "odd", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
        doc! { "delete": "odd", "deletes": [{ "q": {}, "limit": 0 }] },
        doc! { "findAndModify": "odd", "remove": true },
        doc! { "createIndexes": "odd", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
    ] {
        refused(&lab, "test", write, 166).await;
    }
    refused(&lab, "test", doc! { "create": "odd" }, 166).await;
    refused(&lab, "test", doc! { "create": "bad", "viewOn": "c", "pipeline": [{ "$nothing": 1 }] }, 40324).await;
    let listed = lab.ok("test", doc! { "listCollections": 1, "filter": { "type": "view" }, "nameOnly": true }).await;
    assert_eq!(first_batch(&listed).len(), 2);
    lab.ok("test", doc! { "drop": "odd" }).await;
    assert_eq!(first_batch(&lab.ok("test", doc! { "find": "ids" }).await), Vec::<Document>::new());
}

#[tokio::test(start_paused = true)]
async fn pipelines_write_to_plain_collections_only() {
    let lab = Lab::new();
    lab.ok("test", doc! { "create": "capped", "capped": true, "size": 4096 }).await;
    lab.ok("test", doc! { "create": "view", "viewOn": "c" }).await;
    for (stage, code) in [
        (doc! { "$out": "capped" }, 17152),
        (doc! { "$out": "view" }, 166),
        (doc! { "$merge": "view" }, 166),
        (doc! { "$out": "system.x" }, 17385),
    ] {
        refused(&lab, "test", doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} }, code).await;
    }
}

#[tokio::test(start_paused = true)]
async fn views_in_a_circle_are_refused() {
    let lab = Lab::new();
    lab.ok("test", doc! { "create": "a", "viewOn": "b", "pipeline": [] }).await;
    lab.ok("test", doc! { "create": "b", "viewOn": "a", "pipeline": [] }).await;
    refused(&lab, "test", doc! { "find": "a" }, 165).await;
}

#[tokio::test(start_paused = true)]
async fn a_collection_gets_another_name() {
    let lab = Lab::new();
    let rename = |to: &str, more: Document| with(doc! { "renameCollection": "test.c", "to": to }, more);
    refused(&lab, "admin", rename("test.d", doc! {}), 26).await;
    lab.ok("test", insert(vec![doc! { "_id": 1 }]).1).await;
    lab.ok("test", doc! { "createIndexes": "c", "indexes": [{ "key": { "x": 1 }, "name": "x", "unique": true }] })
        .await;
    lab.ok("other", doc! { "insert": "d", "documents": [{ "_id": 2 }] }).await;
    refused(&lab, "admin", rename("other.d", doc! {}), 48).await;
    refused(&lab, "admin", rename("test.c", doc! {}), 20).await;
    refused(&lab, "test", rename("test.d", doc! {}), 13).await;
    lab.ok("admin", rename("other.d", doc! { "dropTarget": true })).await;
    assert_eq!(first_batch(&lab.ok("other", doc! { "find": "d" }).await), [doc! { "_id": 1 }]);
    assert_eq!(first_batch(&lab.ok("other", doc! { "listIndexes": "d" }).await).len(), 2);
    let twice = doc! { "insert": "d", "documents": [{ "_id": 3, "x": 1 }, { "_id": 4, "x": 1 }] };
    refused(&lab, "other", twice, 11000).await;
    assert_eq!(first_batch(&lab.ok("test", doc! { "find": "c" }).await), Vec::<Document>::new());
}

#[tokio::test(start_paused = true)]
async fn documents_expire() {
    let lab = Lab::new();
    let index = doc! { "key": { "at": 1 }, "name": "at", "expireAfterSeconds": 3600 };
    lab.ok("test", doc! { "createIndexes": "c", "indexes": [index] }).await;
    let now = lab.ok("admin", doc! { "isMaster": 1 }).await.get_datetime("localTime").copied().expect("a time");
    let ago = |seconds: i64| bson::DateTime::from_millis(now.timestamp_millis() - seconds * 1000);
    let documents = vec![
        doc! { "_id": 1, "at": ago(4000) },
        doc! { "_id": 2, "at": ago(3300) },
        doc! { "_id": 3, "at": "never" },
        doc! { "_id": 4, "at": [ago(0), ago(9999)] },
    ];
    lab.ok("test", insert(documents).1).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(lab.count(doc! {}).await, 2);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(lab.count(doc! {}).await, 1);
    let status = lab.ok("admin", doc! { "serverStatus": 1 }).await;
    let deleted = status.get_document("metrics").and_then(|metrics| metrics.get_document("ttl"));
    assert_eq!(deleted.and_then(|ttl| ttl.get_i64("deletedDocuments")).ok(), Some(3));
}

/// The stages of a plan, outermost first.
fn stages(reply: &Document) -> String {
    let planner = reply.get_document("queryPlanner").unwrap_or_else(|_| panic!("no plan: {reply}"));
    let (mut plan, mut names) = (planner.get_document("winningPlan").cloned().expect("a plan"), Vec::new());
    loop {
        let name = plan.get_str("indexName").map(|index| format!("({index})")).unwrap_or_default();
        names.push(format!("{}{name}", plan.get_str("stage").unwrap_or("?")));
        match plan.remove("inputStage") {
            Some(Bson::Document(inner)) => plan = inner,
            _ => return names.join(" "),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn explain_names_the_plan() {
    let lab = Lab::new();
    let documents = (1..=10).map(|id| doc! { "_id": id, "a": id % 3, "b": id }).collect();
    lab.ok("test", insert(documents).1).await;
    let indexes =
        bson!([{ "key": { "a": 1, "b": 1 }, "name": "ab" }, { "key": { "h": 1 }, "name": "h", "hidden": true }]);
    lab.ok("test", doc! { "createIndexes": "c", "indexes": indexes }).await;
    for (command, expected) in [
        (doc! { "find": "c", "filter": { "_id": 1 } }, "IDHACK"),
        (doc! { "find": "c", "filter": { "_id": { "$gt": 5 } } }, "FETCH IXSCAN(_id_)"),
        (doc! { "find": "c", "filter": { "a": 1 } }, "FETCH IXSCAN(ab)"),
        (doc! { "find": "c", "filter": { "b": 1 } }, "COLLSCAN"),
        (doc! { "find": "c", "filter": { "h": 1 } }, "COLLSCAN"),
        (doc! { "find": "c", "sort": { "a": -1, "b": -1 } }, "FETCH IXSCAN(ab)"),
        (doc! { "find": "c", "sort": { "b": 1 }, "limit": 3 }, "SORT COLLSCAN"),
        (doc! { "find": "c", "sort": { "_id": 1 }, "limit": 3, "skip": 1 }, "LIMIT SKIP FETCH IXSCAN(_id_)"),
        (doc! { "find": "c", "filter": { "a": 1 }, "sort": { "b": -1 } }, "FETCH IXSCAN(ab)"),
        (doc! { "find": "c", "filter": { "a": { "$gt": 1 } }, "sort": { "b": -1 } }, "SORT FETCH IXSCAN(ab)"),
        (doc! { "find": "c", "filter": { "b": 1 }, "hint": "ab" }, "FETCH IXSCAN(ab)"),
        (doc! { "count": "c", "query": { "a": 1 } }, "COUNT FETCH IXSCAN(ab)"),
        (doc! { "delete": "c", "deletes": [{ "q": { "a": 1 }, "limit": 0 }] }, "DELETE FETCH IXSCAN(ab)"),
        (doc! { "findAndModify": "c", "query": { "b": 1 }, "update": { "$set": { "x": 1 } } }, "UPDATE COLLSCAN"),
        (doc! { "find": "nothing" }, "EOF"),
    ] {
        let reply = lab.ok("test", doc! { "explain": command.clone(), "verbosity": "queryPlanner" }).await;
        assert_eq!(stages(&reply), expected, "{command}");
    }
    let reply = lab.ok("test", doc! { "explain": { "find": "c", "filter": { "a": 1, "b": { "$gt": 4 } } } }).await;
    let stats = reply.get_document("executionStats").expect("statistics");
    let counts = ["nReturned", "totalKeysExamined", "totalDocsExamined"].map(|name| stats.get_i32(name).ok());
    assert_eq!(counts, [Some(2), Some(2), Some(2)]);
    refused(&lab, "test", doc! { "explain": { "ping": 1 } }, 20).await;
    refused(&lab, "test", doc! { "explain": { "nothing": 1 } }, 59).await;
    let explained =
        doc! { "aggregate": "c", "pipeline": [{ "$match": { "a": 1 } }, { "$group": { "_id": 1 } }], "explain": true };
    assert_eq!(lab.ok("test", explained).await.get_array("stages").map(Vec::len).ok(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn find_reads_a_part_of_an_index() {
    let setup = || [insert((1..=5).map(|id| doc! { "_id": id, "a": 6 - id }).collect())];
    let bounds =
        doc! { "find": "c", "min": { "_id": 2 }, "max": { "_id": 4 }, "hint": "_id_", "projection": { "_id": 1 } };
    check_batch(&setup(), bounds, vec![doc! { "_id": 2 }, doc! { "_id": 3 }]).await;
    let keys = doc! { "find": "c", "sort": { "_id": 1 }, "limit": 2, "returnKey": true };
    check_batch(&setup(), keys, vec![doc! { "_id": 1 }, doc! { "_id": 2 }]).await;
    let records = doc! { "find": "c", "filter": { "_id": 2 }, "showRecordId": true };
    check_batch(&setup(), records, vec![doc! { "_id": 2, "a": 4, "$recordId": 2_i64 }]).await;
    let lab = Lab::new();
    lab.ok("test", setup()[0].1.clone()).await;
    refused(&lab, "test", doc! { "find": "c", "min": { "_id": 2 } }, 51173).await;
    refused(&lab, "test", doc! { "find": "c", "min": { "x": 2 }, "hint": "_id_" }, 51174).await;
}

#[tokio::test(start_paused = true)]
async fn sizes_are_told() {
    let setup = [insert(vec![doc! { "_id": 1 }, doc! { "_id": 2 }])];
    check(&setup, "test", doc! { "collStats": "c" }, doc! { "ns": "test.c", "count": 2, "size": 28, "nindexes": 1 })
        .await;
    check(&setup, "test", doc! { "dbStats": 1 }, doc! { "db": "test", "collections": 1, "objects": 2 }).await;
    check(&setup, "test", doc! { "validate": "c" }, doc! { "valid": true, "nrecords": 2, "nIndexes": 1 }).await;
}

#[tokio::test(start_paused = true)]
async fn a_collections_collation_holds_where_a_command_names_none() {
    let lab = Lab::of(&V7_0);
    lab.ok("test", doc! { "create": "c", "collation": { "locale": "en", "strength": 2 } }).await;
    lab.ok("test", insert(vec![doc! { "_id": "a", "x": "A" }, doc! { "_id": "b", "x": "b" }]).1).await;
    refused(&lab, "test", insert(vec![doc! { "_id": "B" }]).1, 11000).await;
    let find = || doc! { "find": "c", "filter": { "x": "a" } };
    assert_eq!(first_batch(&lab.ok("test", find()).await).len(), 1);
    let simple = doc! { "collation": { "locale": "simple" } };
    assert_eq!(first_batch(&lab.ok("test", with(find(), simple.clone())).await).len(), 0);
    let pipeline = bson!([{ "$match": { "x": "B" } }]);
    let aggregate = doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} };
    assert_eq!(first_batch(&lab.ok("test", aggregate).await).len(), 1);
    assert_eq!(lab.count(doc! { "x": "a" }).await, 1);
    let update = doc! { "update": "c", "updates": [{ "q": { "x": "a" }, "u": { "$set": { "y": 1 } } }] };
    assert_eq!(int(&lab.ok("test", update).await, "n"), Some(1));
    let modify = doc! { "findAndModify": "c", "query": { "x": "a" }, "update": { "$set": { "y": 2 } } };
    assert!(lab.ok("test", modify).await.get_document("value").is_ok());
    let indexes = bson!([
        { "key": { "x": 1 }, "name": "own" },
        { "key": { "y": 1 }, "name": "simple", "collation": { "locale": "simple" } },
    ]);
    lab.ok("test", doc! { "createIndexes": "c", "indexes": indexes }).await;
    let listed = first_batch(&lab.ok("test", doc! { "listIndexes": "c" }).await);
    let strengths: Vec<_> =
        listed.iter().map(|index| index.get_document("collation").ok().and_then(|it| int(it, "strength"))).collect();
    assert_eq!(strengths, [Some(2), Some(2), None]);
    let explained = lab.ok("test", doc! { "explain": find(), "verbosity": "queryPlanner" }).await;
    assert_eq!(stages(&explained), "FETCH IXSCAN(own)");
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "x": "B" }, "limit": 0 }] };
    assert_eq!(int(&lab.ok("test", delete).await, "n"), Some(1));
}

#[tokio::test(start_paused = true)]
async fn groups_choose_some_of_their_values() {
    let documents = [(1, 5, "a"), (2, 3, "b"), (3, 9, "c"), (4, 3, "d")];
    let documents = documents.map(|(id, x, name)| doc! { "_id": id, "x": x, "name": name }).to_vec();
    for (accumulator, expected) in [
        (doc! { "$firstN": { "n": 2, "input": "$x" } }, bson!([5, 3])),
        (doc! { "$lastN": { "n": 2, "input": "$x" } }, bson!([9, 3])),
        (doc! { "$maxN": { "n": 2, "input": "$x" } }, bson!([9, 5])),
        (doc! { "$minN": { "n": 3, "input": "$x" } }, bson!([3, 3, 5])),
        (doc! { "$topN": { "n": 2, "sortBy": { "x": 1 }, "output": "$name" } }, bson!(["b", "d"])),
        (doc! { "$bottomN": { "n": 2, "sortBy": { "x": 1 }, "output": "$name" } }, bson!(["a", "c"])),
        (doc! { "$top": { "sortBy": { "x": -1, "_id": 1 }, "output": ["$name", "$x"] } }, bson!(["c", 9])),
        (doc! { "$bottom": { "sortBy": { "_id": 1 }, "output": "$nothing" } }, Bson::Null),
    ] {
        let group = bson!([{ "$group": { "_id": 1, "v": accumulator } }]);
        let aggregate = doc! { "aggregate": "c", "pipeline": group, "cursor": {} };
        check_batch(&[insert(documents.clone())], aggregate, vec![doc! { "_id": 1, "v": expected }]).await;
    }
    let lab = Lab::of(&V7_0);
    for (accumulator, code) in [
        (doc! { "$topN": { "n": 0, "sortBy": { "x": 1 }, "output": 1 } }, 5787908),
        (doc! { "$firstN": { "n": 1 } }, 5787907),
        (doc! { "$firstN": 3 }, 5787900),
        (doc! { "$top": { "output": 1 } }, 5788005),
    ] {
        let group = bson!([{ "$group": { "_id": 1, "v": accumulator } }]);
        refused(&lab, "test", doc! { "aggregate": "c", "pipeline": group, "cursor": {} }, code).await;
    }
}

#[tokio::test(start_paused = true)]
async fn old_versions_do_not_know_what_came_later() {
    for (stage, code) in [
        (doc! { "$setWindowFields": { "output": {} } }, 40324),
        (doc! { "$densify": { "field": "a", "range": { "step": 1, "bounds": "full" } } }, 40324),
        (doc! { "$fill": { "output": { "a": { "value": 1 } } } }, 40324),
        (doc! { "$project": { "x": { "$dateAdd": { "startDate": "$d", "unit": "day", "amount": 1 } } } }, 168),
        (doc! { "$group": { "_id": 1, "x": { "$topN": { "n": 1, "sortBy": { "x": 1 }, "output": 1 } } } }, 15952),
    ] {
        let command = doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} };
        refused(&Lab::of(&V4_4), "test", command.clone(), code).await;
        Lab::of(&V7_0).ok("test", command).await;
    }
}

/// A value that indexes have their troubles with, now and then.
fn value() -> impl Strategy<Value = Bson> {
    prop_oneof![
        5 => (0..4_i32).prop_map(Bson::from),
        1 => Just(Bson::Null),
        1 => Just(Bson::from("x")),
        1 => proptest::collection::vec((0..4_i32).prop_map(Bson::from), 0..3).prop_map(Bson::Array),
    ]
}

fn condition() -> impl Strategy<Value = Option<Bson>> {
    let limits = (0..4_i32, 0..4_i32).prop_map(|(low, high)| bson!({ "$gte": low, "$lt": high }));
    let one_of = proptest::collection::vec(value(), 0..3).prop_map(|values| bson!({ "$in": values }));
    prop_oneof![
        2 => Just(None),
        3 => value().prop_map(Some),
        2 => limits.prop_map(Some),
        1 => one_of.prop_map(Some),
        1 => (0..4_i32).prop_map(|limit| Some(bson!({ "$gt": limit }))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever index is there, a filter finds the same documents, in the same order where it is asked for.
    #[test]
    fn an_index_changes_nothing_but_the_time(
        documents in proptest::collection::vec((value(), value(), value()), 0..30),
        (a, b, c) in (condition(), condition(), condition()),
        directions in proptest::collection::vec(prop_oneof![Just(1_i32), Just(-1)], 3),
        sort in 0..5_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("one");
        let (with_index, without) = runtime.block_on(async {
            let lab = Lab::new();
            let documents = documents.into_iter().enumerate();
            // Two arrays in one document can neither be indexed nor sorted by together.
            let alone = |value: Bson, other: &Bson| {
                if matches!((&value, other), (Bson::Array(_), Bson::Array(_))) { Bson::Null } else { value }
            };
            let documents: Vec<_> = documents
                .map(|(id, (a, b, c))| (id as i32, alone(b, &a), alone(c, &a), a))
                .map(|(id, b, c, a)| doc! { "_id": id, "c": alone(c, &b), "b": b, "a": a })
                .collect();
            if !documents.is_empty() {
                lab.ok("test", doc! { "insert": "c", "documents": documents }).await;
            }
            let conditions = [("a", a), ("b", b), ("c", c)];
            let filter: Document = conditions.into_iter().filter_map(|(name, it)| Some((name.to_owned(), it?))).collect();
            let (one, two, three) = (directions[0], directions[1], directions[2]);
            let order = [
                doc! { "_id": 1 },
                doc! { "a": one, "b": two, "_id": three },
                doc! { "a": -one, "b": -two, "_id": -three },
                doc! { "b": two, "_id": three },
                doc! { "b": -1, "_id": 1 },
            ];
            let find = doc! { "find": "c", "filter": filter, "sort": order[sort].clone(), "batchSize": 100 };
            let without = first_batch(&lab.ok("test", with(find.clone(), doc! { "hint": { "$natural": 1 } })).await);
            let key = doc! { "a": one, "b": two, "_id": three, "c": 1 };
            lab.ok("test", doc! { "createIndexes": "c", "indexes": [{ "key": key, "name": "abc" }] }).await;
            (first_batch(&lab.ok("test", find).await), without)
        });
        prop_assert_eq!(with_index, without);
    }
}

/// A value with others below it.
fn nested() -> impl Strategy<Value = Bson> {
    prop_oneof![
        2 => value(),
        3 => value().prop_map(|value| bson!({ "b": value })),
        1 => Just(bson!({})),
        2 => proptest::collection::vec(prop_oneof![value(), value().prop_map(|value| bson!({ "b": value }))], 0..3)
            .prop_map(Bson::Array),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A wildcard index finds what is found without it, and a hint of it what it can be used for.
    #[test]
    fn a_wildcard_index_changes_nothing_but_the_time(
        documents in proptest::collection::vec((nested(), value()), 0..20),
        conditions in (condition(), condition(), condition()),
        key in prop::sample::select(&["$**", "a.$**", "b.$**"]),
        projection in prop::sample::select(&["", "a", "-a", "a.b"]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("one");
        let (with_index, hinted, without) = runtime.block_on(async {
            let lab = Lab::new();
            let documents: Vec<_> =
                (0_i32..).zip(documents).map(|(id, (a, b))| doc! { "_id": id, "a": a, "b": b }).collect();
            if !documents.is_empty() {
                lab.ok("test", doc! { "insert": "c", "documents": documents }).await;
            }
            let (a, below, b) = conditions;
            let conditions = [("a", a), ("a.b", below), ("b", b)];
            let filter: Document = conditions.into_iter().filter_map(|(name, it)| Some((name.to_owned(), it?))).collect();
            let find = doc! { "find": "c", "filter": filter, "sort": { "_id": 1 }, "batchSize": 100 };
            let without = first_batch(&lab.ok("test", with(find.clone(), doc! { "hint": { "$natural": 1 } })).await);
            let mut index = doc! { "key": { key: 1 }, "name": "wild" };
            if key == "$**" && !projection.is_empty() {
                let path = projection.trim_start_matches('-');
                index.insert("wildcardProjection", doc! { path: i32::from(path == projection) });
            }
            lab.ok("test", doc! { "createIndexes": "c", "indexes": [index] }).await;
            let with_index = first_batch(&lab.ok("test", find.clone()).await);
            let hinted = lab.run("test", with(find, doc! { "hint": "wild" })).await;
            (with_index, if int(&hinted, "code") == Some(291) { None } else { Some(first_batch(&hinted)) }, without)
        });
        prop_assert_eq!(hinted.unwrap_or_else(|| without.clone()), without.clone());
        prop_assert_eq!(with_index, without);
    }
}

#[tokio::test(start_paused = true)]
async fn wildcard_indexes() {
    let lab = Lab::new();
    let documents =
        [doc! { "_id": 1, "a": { "b": [1, 2] } }, doc! { "_id": 2, "a": { "b": 3 }, "c": "x" }, doc! { "_id": 3 }];
    lab.ok("test", doc! { "insert": "c", "documents": documents.to_vec() }).await;
    let index = doc! { "key": { "$**": 1 }, "name": "$**_1", "wildcardProjection": { "c": 0 } };
    lab.ok("test", doc! { "createIndexes": "c", "indexes": [index.clone()] }).await;
    let listed = first_batch(&lab.ok("test", doc! { "listIndexes": "c" }).await);
    assert_eq!(listed[1], with(doc! { "v": 2 }, index));
    let plan = async |filter: Document| {
        let explained = lab.ok("test", doc! { "explain": { "find": "c", "filter": filter } }).await;
        let planner = explained.get_document("queryPlanner").expect("a plan").clone();
        let winning = planner.get_document("winningPlan").expect("one").clone();
        winning.get_document("inputStage").cloned().unwrap_or(winning)
    };
    let scan = plan(doc! { "a.b": { "$gte": 2 } }).await;
    assert_eq!(scan.get_str("stage").ok(), Some("IXSCAN"), "{scan}");
    assert_eq!(scan.get_document("keyPattern").ok(), Some(&doc! { "$_path": 1, "a.b": 1 }));
    let bounds = doc! { "$_path": ["[\"a.b\", \"a.b\"]"], "a.b": ["[2, inf.0]"] };
    assert_eq!((scan.get_document("indexBounds").ok(), scan.get_bool("isMultiKey").ok()), (Some(&bounds), Some(true)));
    // What it cannot be used for is looked for everywhere, and says so.
    for filter in [
        doc! { "c": "x" },
        doc! { "a.b": null },
        doc! { "a": { "b": 3 } },
        doc! { "a.b.0": 1 },
        doc! { "_id": { "$gt": 1 }, "c": 1 },
    ] {
        assert_ne!(plan(filter.clone()).await.get_str("indexName").ok(), Some("$**_1"), "{filter}");
    }
    // It follows what is written.
    let set = doc! { "update": "c", "updates": [{ "q": { "a.b": 3 }, "u": { "$set": { "a.b": 7 } } }] };
    assert_eq!(int(&lab.ok("test", set).await, "nModified"), Some(1));
    assert_eq!((lab.count(doc! { "a.b": 3 }).await, lab.count(doc! { "a.b": 7 }).await), (0, 1));
    let refused = [
        (doc! { "key": { "$**": 1, "a": 1 } }, 67),
        (doc! { "key": { "$**": -1 } }, 67),
        (doc! { "key": { "$**": 1 }, "unique": true }, 67),
        (doc! { "key": { "a.$**": 1 }, "sparse": true }, 67),
        (doc! { "key": { "$**": 1 }, "expireAfterSeconds": 1 }, 67),
        (doc! { "key": { "$a": 1 } }, 67),
        (doc! { "key": { "a": 1 }, "wildcardProjection": { "a": 1 } }, 2),
        (doc! { "key": { "a.$**": 1 }, "wildcardProjection": { "a": 1 } }, 2),
        (doc! { "key": { "$**": 1 }, "wildcardProjection": {} }, 9),
        (doc! { "key": { "$**": 1 }, "wildcardProjection": { "a": 1, "b": 0 } }, 9),
    ];
    for (index, code) in refused {
        let index = with(index, doc! { "name": "refused" });
        let reply = lab.run("test", doc! { "createIndexes": "c", "indexes": [index.clone()] }).await;
        assert_eq!(int(&reply, "code"), Some(code), "{index}: {reply}");
    }
}

#[test]
fn each_profile_can_be_asked_for() {
    assert_eq!(PROFILES.map(|profile| profile.name), PROFILE_NAMES);
}

/// Fields that came with later versions are unknown to the ones before, each in the words of its command.
#[tokio::test(start_paused = true)]
async fn fields_of_later_versions() {
    let insert = doc! { "insert": "c", "documents": [{}] };
    let delete = |hint: bool| {
        let mut statement = doc! { "q": {}, "limit": 1 };
        if hint {
            statement.insert("hint", "_id_");
        }
        doc! { "delete": "c", "deletes": [statement] }
    };
    let modify = doc! { "findAndModify": "c", "query": {}, "remove": true };
    let cases = [
        (&V4_2, with(insert.clone(), doc! { "comment": 1 }), Some((40415, "'insert.comment'"))),
        (&V4_2, with(delete(false), doc! { "comment": 1 }), Some((40415, "'delete.comment'"))),
        (&V4_2, delete(true), Some((40415, "'delete.deletes.hint'"))),
        (&V4_2, with(modify.clone(), doc! { "hint": "_id_" }), Some((51177, "'hint'"))),
        (&V4_2, doc! { "find": "c", "allowDiskUse": true }, Some((9, "Unrecognized field 'allowDiskUse'"))),
        (&V4_4, delete(true), None),
        (&V4_4, with(insert.clone(), doc! { "comment": 1 }), None),
        (&V4_4, with(insert.clone(), doc! { "rawData": true }), Some((40415, "'insert.rawData'"))),
        (&V8_0, doc! { "find": "c", "rawData": true }, Some((9, "Unrecognized field 'rawData'"))),
        (&V8_2, doc! { "find": "c", "rawData": true }, None),
        (&V8_2, with(insert, doc! { "rawData": true }), None),
        (&V6_0, doc! { "drop": "none" }, Some((26, "ns not found"))),
        (&V6_0, doc! { "getnonce": 1 }, None),
    ];
    for (profile, command, expected) in cases {
        let reply = Lab::of(profile).run("test", command.clone()).await;
        let (code, text) = (reply.get_i32("code").ok(), reply.get_str("errmsg").unwrap_or_default());
        assert_eq!(code, expected.map(|(code, _)| code), "{} {command}: {reply}", profile.name);
        assert!(expected.is_none_or(|(_, part)| text.contains(part)), "{} {command}: {reply}", profile.name);
    }
}

/// What a server of 4.2 does not say, and a driver adds or does without.
#[tokio::test(start_paused = true)]
async fn what_came_with_the_handshake_of_4_4() {
    for (profile, is_new) in [(&V4_2, false), (&V4_4, true)] {
        let lab = Lab::of(profile);
        let hello = lab.ok("admin", doc! { "isMaster": 1 }).await;
        assert_eq!(hello.contains_key("topologyVersion"), is_new);
        lab.fail_point("failCommand", doc! { "times": 1 }, doc! { "failCommands": ["insert"], "errorCode": 91 }).await;
        let insert = || with(doc! { "insert": "c", "documents": [{}] }, numbered(1, 1));
        assert_eq!(lab.run("test", insert()).await.contains_key("errorLabels"), is_new);
        let inside = with(doc! { "insert": "new", "documents": [{}] }, in_transaction(2, 1, true));
        let reply = lab.run("test", inside).await;
        let error = reply.get_array("writeErrors").ok().and_then(|errors| errors[0].as_document());
        assert_eq!(error.and_then(|error| int(error, "code")), (!is_new).then_some(263), "{reply}");
    }
}
