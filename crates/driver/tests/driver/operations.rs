//! What each operation puts on the wire, and what it makes of the answer.

use bson::{Bson, Document, bson, doc};

use backfire_model::Namespace;

use backfire_driver::{
    BulkWriteModel, Client, ClientSettings, Collection, Database, ErrorKind, IndexModel, Namespaced, ReadConcern,
    ReadMode, ReadPreference, ReturnDocument, WriteConcern, WriteOptions,
};

use crate::fake::*;

fn fixture() -> (Fake, Client, Database, Collection) {
    fixture_of(primary())
}

fn fixture_of(hello: Document) -> (Fake, Client, Database, Collection) {
    let fake = Fake::single(hello);
    let client = fake.client(Fake::settings());
    let database = client.database("db");
    let collection = database.collection("c");
    (fake, client, database, collection)
}

/// Awaits an operation and compares the command that it sent.
macro_rules! sends {
    ($fake:ident, $operation:expr, $command:expr) => {{
        let result = $operation.await.unwrap();
        let sent = $fake.seen().pop().unwrap();
        assert_eq!(sent.own_fields(), $command, "{}", stringify!($operation));
        result
    }};
}

#[tokio::test(start_paused = true)]
async fn writes() {
    let (fake, _, _, c) = fixture();
    let (filter, set) = (|| doc! {"a": 1}, || doc! {"$set": {"b": 2}});
    let hint = || doc! {"a": 1};
    let result = sends!(
        fake,
        c.insert_one(doc! {"_id": 1, "x": 2}).comment("why"),
        doc! {"insert": "c", "ordered": true, "comment": "why", "documents": [{"_id": 1, "x": 2}]}
    );
    assert_eq!((result.inserted_id, result.acknowledged), (Bson::Int32(1), true));
    sends!(
        fake,
        c.insert_many([doc! {"_id": 1}, doc! {"_id": 2}]).ordered(false).bypass_document_validation(true),
        doc! {"insert": "c", "ordered": false, "bypassDocumentValidation": true, "documents": [{"_id": 1}, {"_id": 2}]}
    );
    sends!(
        fake,
        c.update_one(filter(), set()).upsert(true).hint(hint()).sort(doc! {"a": 1}).let_vars(doc! {"v": 1}),
        doc! {"update": "c", "ordered": true, "let": {"v": 1},
        "updates": [{"q": {"a": 1}, "u": {"$set": {"b": 2}}, "upsert": true, "hint": {"a": 1}, "sort": {"a": 1}}]}
    );
    sends!(
        fake,
        c.update_many(filter(), vec![set()]).array_filters([doc! {"i": 1}]),
        doc! {"update": "c", "ordered": true,
        "updates": [{"q": {"a": 1}, "u": [{"$set": {"b": 2}}], "multi": true, "arrayFilters": [{"i": 1}]}]}
    );
    sends!(
        fake,
        c.replace_one(filter(), doc! {"z": 1}).collation(doc! {"locale": "en"}),
        doc! {"update": "c", "ordered": true, "updates": [{"q": {"a": 1}, "u": {"z": 1}, "collation": {"locale": "en"}}]}
    );
    sends!(
        fake,
        c.delete_one(filter()).hint("h"),
        doc! {"delete": "c", "ordered": true, "deletes": [{"q": {"a": 1}, "limit": 1, "hint": "h"}]}
    );
    sends!(
        fake,
        c.delete_many(filter()),
        doc! {"delete": "c", "ordered": true, "deletes": [{"q": {"a": 1}, "limit": 0}]}
    );
}

#[tokio::test(start_paused = true)]
async fn results_of_updates() {
    let (fake, _, _, c) = fixture();
    fake.script([
        Step::Reply(doc! {"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": 9}], "ok": 1.0}),
        Step::Reply(doc! {"n": 3, "nModified": 2, "ok": 1.0}),
    ]);
    let result = c.update_one(doc! {}, doc! {"$set": {"x": 1}}).upsert(true).await.unwrap();
    assert_eq!((result.matched_count, result.modified_count, result.upserted_id), (0, 0, Some(Bson::Int32(9))));
    let result = c.update_many(doc! {}, doc! {"$set": {"x": 1}}).await.unwrap();
    assert_eq!((result.matched_count, result.modified_count, result.upserted_id), (3, 2, None));
}

#[tokio::test(start_paused = true)]
async fn documents_get_an_id_once_for_all_sends() {
    let (fake, _, _, c) = fixture();
    fake.script([Step::Reset]);
    let result = c.insert_one(doc! {"x": 1}).await.unwrap();
    let sent: Vec<_> = fake.seen().iter().map(|seen| seen.command.get_array("documents").unwrap().clone()).collect();
    let expected = bson!([{"_id": result.inserted_id.clone(), "x": 1}]);
    assert!(matches!(result.inserted_id, Bson::ObjectId(_)));
    assert_eq!(sent.into_iter().map(Bson::Array).collect::<Vec<_>>(), [expected.clone(), expected]);
}

#[tokio::test(start_paused = true)]
async fn find_and_modify() {
    let (fake, _, _, c) = fixture();
    let filter = || doc! {"a": 1};
    let found = sends!(
        fake,
        c.find_one_and_update(filter(), doc! {"$set": {"b": 1}})
            .return_document(ReturnDocument::After)
            .projection(doc! {"b": 1})
            .sort(doc! {"a": 1})
            .upsert(true),
        doc! {"findAndModify": "c", "query": {"a": 1}, "fields": {"b": 1}, "sort": {"a": 1}, "new": true, "upsert": true,
        "update": {"$set": {"b": 1}}}
    );
    assert_eq!(found, Some(doc! {"_id": 1}));
    sends!(
        fake,
        c.find_one_and_replace(filter(), doc! {"z": 1}),
        doc! {"findAndModify": "c", "query": {"a": 1}, "new": false, "update": {"z": 1}}
    );
    sends!(
        fake,
        c.find_one_and_delete(filter()).hint("h"),
        doc! {"findAndModify": "c", "query": {"a": 1}, "remove": true, "hint": "h"}
    );
    fake.script([Step::Reply(doc! {"value": null, "ok": 1.0})]);
    assert_eq!(c.find_one_and_delete(filter()).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn reads() {
    let (fake, _, db, c) = fixture();
    sends!(
        fake,
        c.find(doc! {"a": 1})
            .sort(doc! {"a": 1})
            .projection(doc! {"b": 1})
            .skip(2)
            .limit(4)
            .batch_size(2)
            .comment("x")
            .hint("h"),
        doc! {"find": "c", "filter": {"a": 1}, "sort": {"a": 1}, "projection": {"b": 1}, "skip": 2_i64, "limit": 4, "batchSize": 2,
        "comment": "x", "hint": "h"}
    );
    assert_eq!(
        sends!(fake, c.find_one(doc! {}), doc! {"find": "c", "filter": {}, "limit": 1, "singleBatch": true}),
        None
    );
    sends!(
        fake,
        c.aggregate([doc! {"$match": {}}]).batch_size(2).allow_disk_use(true),
        doc! {"aggregate": "c", "pipeline": [{"$match": {}}], "cursor": {"batchSize": 2}, "allowDiskUse": true}
    );
    sends!(
        fake,
        db.aggregate([doc! {"$currentOp": {}}]),
        doc! {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}}
    );
    sends!(
        fake,
        c.aggregate([doc! {"$out": "d"}]).batch_size(2),
        doc! {"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}}
    );
    fake.script([Step::Reply(cursor(0, vec![doc! {"_id": 1, "n": 7}]))]);
    assert_eq!(
        sends!(
            fake,
            c.count_documents(doc! {"a": 1}).skip(1).limit(9),
            doc! {"aggregate": "c",
            "pipeline": [{"$match": {"a": 1}}, {"$skip": 1_i64}, {"$limit": 9_i64}, {"$group": {"_id": 1, "n": {"$sum": 1}}}], "cursor": {}}
        ),
        7
    );
    assert_eq!(c.count_documents(doc! {}).await.unwrap(), 0);
    fake.script([Step::Reply(doc! {"n": 5, "ok": 1.0})]);
    assert_eq!(sends!(fake, c.estimated_document_count(), doc! {"count": "c"}), 5);
    sends!(fake, c.count(doc! {"a": 1}).limit(3), doc! {"count": "c", "query": {"a": 1}, "limit": 3_i64});
    fake.script([Step::Reply(doc! {"values": [1, "x"], "ok": 1.0})]);
    assert_eq!(
        sends!(fake, c.distinct("a", doc! {"b": 1}), doc! {"distinct": "c", "key": "a", "query": {"b": 1}}),
        [Bson::Int32(1), Bson::String("x".into())]
    );
    sends!(
        fake,
        c.watch([doc! {"$match": {}}]).full_document("updateLookup"),
        doc! {"aggregate": "c", "pipeline": [{"$changeStream": {"fullDocument": "updateLookup"}}, {"$match": {}}], "cursor": {}}
    );
}

#[tokio::test(start_paused = true)]
async fn definitions_and_lists() {
    let (fake, client, db, c) = fixture();
    sends!(
        fake,
        db.create_collection("d").capped(true).size(4096).max_documents(3),
        doc! {"create": "d", "capped": true, "size": 4096_i64, "max": 3_i64}
    );
    sends!(fake, db.modify_collection("d").validator(doc! {"x": 1}), doc! {"collMod": "d", "validator": {"x": 1}});
    sends!(
        fake,
        c.rename(Namespace::new("db", "e")).drop_target(true),
        doc! {"renameCollection": "db.c", "to": "db.e", "dropTarget": true}
    );
    sends!(fake, c.drop(), doc! {"drop": "c"});
    sends!(fake, db.drop(), doc! {"dropDatabase": 1});
    let unique = IndexModel { options: doc! {"unique": true}, ..IndexModel::new(doc! {"a": 1}) };
    assert_eq!(
        sends!(
            fake,
            c.create_index(unique),
            doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1", "unique": true}]}
        ),
        "a_1"
    );
    sends!(fake, c.drop_index("a_1"), doc! {"dropIndexes": "c", "index": "a_1"});
    sends!(fake, c.drop_indexes(), doc! {"dropIndexes": "c", "index": "*"});
    sends!(
        fake,
        db.list_collections().filter(doc! {"name": "c"}),
        doc! {"listCollections": 1, "cursor": {}, "filter": {"name": "c"}}
    );
    fake.script([Step::Reply(cursor(0, vec![doc! {"name": "c"}, doc! {"name": "d"}]))]);
    assert_eq!(
        sends!(fake, db.list_collection_names(), doc! {"listCollections": 1, "cursor": {}, "nameOnly": true}),
        ["c", "d"]
    );
    fake.script([Step::Reply(doc! {"databases": [{"name": "db"}], "ok": 1.0})]);
    assert_eq!(sends!(fake, client.list_database_names(), doc! {"listDatabases": 1, "nameOnly": true}), ["db"]);
    sends!(fake, client.list_databases().filter(doc! {}), doc! {"listDatabases": 1, "filter": {}});
    fake.script([Step::Reply(cursor(0, vec![doc! {"name": "_id_"}]))]);
    assert_eq!(sends!(fake, c.list_index_names(), doc! {"listIndexes": "c", "cursor": {}}), ["_id_"]);
    // What does not exist has no indexes, no documents, and is dropped already.
    let missing = || Step::Reply(error(26, "NamespaceNotFound", &[]));
    fake.script([missing(), missing(), missing(), missing()]);
    assert!(c.list_index_names().await.unwrap().is_empty());
    assert_eq!(c.estimated_document_count().await.unwrap(), 0);
    c.drop().await.unwrap();
    c.drop_indexes().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn concerns_and_preferences_are_inherited_and_left_out_where_they_do_not_belong() {
    let (fake, _, db, _) = fixture();
    let db = db.with_read_concern(ReadConcern::level("local")).with_write_concern(WriteConcern::majority());
    let c = db.collection("c").with_read_preference(ReadPreference::mode(ReadMode::Nearest));
    let sent = || fake.seen().pop().unwrap().command;
    let has =
        |command: &Document| ["readConcern", "writeConcern", "$readPreference"].map(|name| command.contains_key(name));
    c.insert_one(doc! {}).await.unwrap();
    assert_eq!(has(&sent()), [false, true, false]);
    c.find(doc! {}).await.unwrap();
    assert_eq!(has(&sent()), [true, false, true]);
    c.find_one_and_delete(doc! {}).await.unwrap();
    assert_eq!(has(&sent()), [false, true, false]);
    c.aggregate([doc! {"$merge": "d"}]).await.unwrap();
    assert_eq!(has(&sent()), [true, true, false], "before 5.0 the primary merges");
    c.create_index(IndexModel::new(doc! {"a": 1})).await.unwrap();
    assert_eq!(has(&sent()), [false, true, false]);
    db.run_command(doc! {"ping": 1}).await.unwrap();
    assert_eq!(has(&sent()), [false, false, false]);
    db.run_command(doc! {"ping": 1}).read_preference(&ReadPreference::mode(ReadMode::Nearest)).await.unwrap();
    assert_eq!(has(&sent()), [false, false, true]);
    let (fake, _, _, c) = fixture_of(with(primary(), doc! {"maxWireVersion": 13}));
    let c = c.with_read_preference(ReadPreference::mode(ReadMode::SecondaryPreferred));
    c.aggregate([doc! {"$merge": "d"}]).await.unwrap();
    assert!(fake.seen()[0].command.contains_key("$readPreference"), "since 5.0 a secondary can");
}

#[tokio::test(start_paused = true)]
async fn raw_data_is_for_servers_that_know_it() {
    for (wire_version, sent) in [(25, false), (27, true)] {
        let (fake, _, _, c) = fixture_of(with(primary(), doc! {"maxWireVersion": wire_version}));
        c.insert_one(doc! {}).raw_data(true).await.unwrap();
        c.find(doc! {}).raw_data(true).await.unwrap();
        c.find_one_and_delete(doc! {}).raw_data(true).await.unwrap();
        assert!(fake.seen().iter().all(|seen| seen.command.contains_key("rawData") == sent), "{wire_version}");
    }
}

#[tokio::test(start_paused = true)]
async fn options_can_be_set_by_name() {
    let (fake, _, _, c) = fixture();
    let options = doc! {"upsert": true, "hint": "h", "comment": {"a": 1}, "timeoutMS": 1000, "maxTimeMS": 5};
    let mut update = c.update_one(doc! {}, doc! {"$set": {"x": 1}});
    for (name, value) in options {
        update = update.option(&name, value).unwrap();
    }
    update.await.unwrap();
    let sent = fake.seen().pop().unwrap().command;
    assert_eq!((sent.get_i64("maxTimeMS").unwrap(), sent.get_document("comment").unwrap()), (1000, &doc! {"a": 1}));
    for (name, value) in [("arrayFilter", bson!([])), ("upsert", bson!("yes")), ("projection", bson!({}))] {
        assert!(c.update_one(doc! {}, doc! {"$set": {"x": 1}}).option(name, value).is_err(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn cursors_ask_for_more_and_are_closed() {
    let (fake, _, _, c) = fixture();
    let one = |n: i32| doc! {"_id": n};
    fake.script([Step::Reply(cursor(7, vec![one(1), one(2), one(3)])), Step::Reply(more(0, vec![one(4)]))]);
    let found = c.find(doc! {}).batch_size(3).limit(4).await.unwrap().collect().await.unwrap();
    assert_eq!(found.len(), 4);
    assert_eq!(fake.seen()[1].own_fields(), doc! {"getMore": 7_i64, "collection": "c", "batchSize": 1});
    // A cursor that is dropped is closed in the background.
    fake.script([Step::Reply(cursor(8, vec![one(1)]))]);
    drop(c.find(doc! {}).await.unwrap());
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert_eq!(fake.seen()[3].own_fields(), doc! {"killCursors": "c", "cursors": [8_i64]});
    // One that fails while it is read as a whole is closed as well; one that the server lost is not.
    fake.script([Step::Reply(cursor(9, vec![])), Step::Reply(error(1, "x", &[]))]);
    assert!(c.find(doc! {}).await.unwrap().collect().await.is_err());
    assert_eq!(fake.seen().pop().unwrap().name, "killCursors");
    fake.script([Step::Reply(cursor(9, vec![])), Step::Reply(error(43, "CursorNotFound", &[]))]);
    let lost = c.find(doc! {}).await.unwrap().collect().await.unwrap_err();
    assert_eq!(lost.java_class(), "MongoCursorNotFoundException");
    assert_eq!(fake.seen().pop().unwrap().name, "getMore");
    // A getMore is not resent, and the cursor can still be closed on another connection.
    fake.script([Step::Reply(cursor(9, vec![])), Step::Stall]);
    let short = ClientSettings { socket_timeout: std::time::Duration::from_millis(50), ..Fake::settings() };
    let mut open = fake.client(short).database("db").collection("c").find(doc! {}).await.unwrap();
    assert!(open.next().await.is_err());
    open.close().await;
    let names: Vec<_> = fake.seen().into_iter().rev().take(2).map(|seen| seen.name).collect();
    assert_eq!(names, ["killCursors", "getMore"]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_no_cursor_is_an_error_of_the_client() {
    let (_, _, db, _) = fixture();
    let error = db.run_cursor_command(doc! {"ping": 1}).await.unwrap_err();
    assert!(error.is_client_side(), "{error}");
    assert!(db.run_command(doc! {}).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_failed_bulk_tells_what_it_did() {
    let (fake, _, _, c) = fixture();
    let failed = doc! {"n": 1, "ok": 1.0, "writeErrors": [{"index": 1, "code": 11000, "errmsg": "E11000", "keyValue": {"_id": 2}}]};
    fake.script([Step::Reply(failed.clone()), Step::Reply(failed.clone())]);
    let error = c.insert_many([1, 2, 3].map(|n| doc! {"_id": n})).await.unwrap_err();
    let ErrorKind::BulkWrite(failure) = error.kind() else { panic!("{error}") };
    assert_eq!((failure.result.inserted_count, failure.write_errors[0].index, error.code()), (1, 1, Some(11000)));
    assert_eq!(error.java_class(), "MongoBulkWriteException");
    let error = c.insert_one(doc! {"_id": 2}).await.unwrap_err();
    assert_eq!((error.java_class(), error.code()), ("MongoWriteException", Some(11000)));
    assert!(error.response().unwrap().contains_key("keyValue"));
}

#[tokio::test(start_paused = true)]
async fn bulks_are_cut_to_what_the_server_takes() {
    let (fake, _, _, c) = fixture_of(with(primary(), doc! {"maxWriteBatchSize": 2, "maxBsonObjectSize": 2000}));
    c.insert_many((0..5).map(|n| doc! {"_id": n})).await.unwrap();
    let sizes: Vec<_> = fake.seen().iter().map(|seen| seen.command.get_array("documents").unwrap().len()).collect();
    assert_eq!(sizes, [2, 2, 1]);
    let large = "x".repeat(1200);
    c.insert_many((0..2).map(|n| doc! {"_id": n, "pad": &large})).await.unwrap();
    assert_eq!(fake.seen().len(), 5, "two together would be over a document's size");
    let too_large = c.insert_one(doc! {"pad": "x".repeat(2000)}).await.unwrap_err();
    assert_eq!(too_large.java_class(), "IllegalArgumentException");
    assert_eq!(fake.seen().len(), 5);
    assert!(c.bulk_write([]).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_unacknowledged_ordered_bulk_waits_between_its_commands() {
    let (fake, _, _, c) = fixture();
    let c = c.with_write_concern(WriteConcern::members(0));
    fake.script([Step::ReplyAfter(50, doc! {"ok": 1.0}), Step::ReplyAfter(50, doc! {"ok": 1.0})]);
    let models = || [BulkWriteModel::insert_one(doc! {"_id": 1}), BulkWriteModel::delete_one(doc! {"_id": 1})];
    let result = c.bulk_write(models()).await.unwrap();
    assert_eq!((result.acknowledged, fake.now_ms()), (false, 50));
    c.bulk_write(models()).ordered(false).await.unwrap();
    assert_eq!(fake.now_ms(), 50);
    let collation = WriteOptions { collation: Some(doc! {"locale": "en"}), ..WriteOptions::default() };
    let refused = BulkWriteModel::delete_one(doc! {}).with_options(collation);
    assert_eq!(c.bulk_write([refused]).await.unwrap_err().java_class(), "MongoClientException");
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_nobody_would_check_is_refused() {
    let unacknowledged = |wire_version| {
        let (fake, _, _, c) = fixture_of(with(primary(), doc! {"maxWireVersion": wire_version}));
        (fake, c.with_write_concern(WriteConcern::members(0)))
    };
    for (wire_version, delete, update, modify) in
        [(7, false, false, false), (8, false, true, false), (9, true, true, true)]
    {
        let (_fake, c) = unacknowledged(wire_version);
        let good = [
            c.delete_one(doc! {}).hint("h").await.is_ok(),
            c.update_one(doc! {}, doc! {"$set": {"x": 1}}).hint("h").await.is_ok(),
            c.find_one_and_delete(doc! {}).hint("h").await.is_ok(),
        ];
        assert_eq!(good, [delete, update, modify], "wire version {wire_version}");
    }
}

#[tokio::test(start_paused = true)]
async fn writes_over_several_collections() {
    let (fake, client, ..) = fixture_of(with(primary(), doc! {"maxWireVersion": 25}));
    let model = |coll: &str, model| Namespaced { namespace: Namespace::new("db", coll), model };
    let models = || {
        [
            model("a", BulkWriteModel::insert_one(doc! {"_id": 1})),
            model("b", BulkWriteModel::update_one(doc! {}, doc! {"$set": {"x": 1}})),
            model("a", BulkWriteModel::delete_one(doc! {})),
        ]
    };
    let entries = vec![
        doc! {"ok": 1, "idx": 0, "n": 1},
        doc! {"ok": 1, "idx": 1, "n": 1, "nModified": 1},
        doc! {"ok": 0, "idx": 2, "code": 8, "errmsg": "no"},
    ];
    let mut reply = cursor(0, entries);
    reply.extend(doc! {"nErrors": 1, "nInserted": 1, "nMatched": 1, "nModified": 1, "nUpserted": 0, "nDeleted": 0});
    fake.script([Step::Reply(reply)]);
    let error = client.bulk_write(models()).verbose_results(true).await.unwrap_err();
    let ErrorKind::ClientBulkWrite(failure) = error.kind() else { panic!("{error}") };
    let partial = failure.partial_result.as_ref().unwrap();
    assert_eq!((partial.inserted_count, partial.matched_count, failure.write_errors[&2].code), (1, 1, 8));
    assert_eq!(partial.insert_results[&0], Bson::Int32(1));
    assert!(partial.update_results.contains_key(&1) && partial.delete_results.is_empty());
    let sent = fake.seen()[0].clone();
    assert_eq!(
        sent.own_fields(),
        doc! {
            "bulkWrite": 1, "errorsOnly": false, "ordered": true,
            "ops": [
                {"insert": 0, "document": {"_id": 1}},
                {"update": 1, "filter": {}, "updateMods": {"$set": {"x": 1}}, "multi": false},
                {"delete": 0, "filter": {}, "multi": false},
            ],
            "nsInfo": [{"ns": "db.a"}, {"ns": "db.b"}],
        }
    );
    assert_eq!((sent.txn(), sent.command.get_str("$db").unwrap()), (Some(1), "admin"));

    // A network error twice: an error of the client, with the label, and nothing done.
    fake.script([Step::Reset, Step::Reset]);
    let error = client.bulk_write(models()).await.unwrap_err();
    assert!(error.has_label("RetryableWriteError") && error.is_client_side());
    assert_eq!((fake.seen()[1].txn(), fake.seen()[2].txn()), (Some(2), Some(2)));

    // A write concern that a resend may mend; if it does not, the write is done all the same.
    let met = || {
        let counts = doc! {"nErrors": 0, "nInserted": 1, "nMatched": 0, "nModified": 0, "nUpserted": 0, "nDeleted": 0};
        with(cursor(0, vec![]), counts)
    };
    let unmet = || {
        let concern = doc! {"code": 91, "errmsg": "x"};
        Step::Reply(with(met(), doc! {"writeConcernError": concern, "errorLabels": ["RetryableWriteError"]}))
    };
    let before = fake.seen().len();
    fake.script([unmet(), Step::Reply(met())]);
    assert_eq!(client.bulk_write(models()).await.unwrap().inserted_count, 1);
    fake.script([unmet(), unmet()]);
    let error = client.bulk_write(models()).await.unwrap_err();
    let ErrorKind::ClientBulkWrite(failure) = error.kind() else { panic!("{error}") };
    assert_eq!(failure.write_concern_errors[0].code, 91);
    assert_eq!(failure.partial_result.as_ref().unwrap().inserted_count, 1);
    assert_eq!(fake.seen().len() - before, 4);

    let unacknowledged = WriteConcern::members(0);
    let refused = client.bulk_write(models()).write_concern(&unacknowledged).await.unwrap_err();
    assert!(refused.to_string().contains("Cannot request unacknowledged write concern and ordered writes"));
    assert!(client.bulk_write([]).await.unwrap_err().is_client_side());
    let result = client.bulk_write(models()).ordered(false).write_concern(&unacknowledged).await.unwrap();
    assert!(!result.acknowledged);

    let (_, old, ..) = fixture();
    assert!(old.bulk_write(models()).await.unwrap_err().to_string().contains("8.0"));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_numbered_writes_is_explained() {
    let (fake, _, _, c) = fixture();
    let refusal = doc! {"ok": 0.0, "code": 20, "errmsg": "Transaction numbers are only allowed on a replica set member or mongos"};
    fake.script([Step::Reply(refusal)]);
    let error = c.insert_one(doc! {}).await.unwrap_err();
    assert_eq!(error.java_class(), "MongoClientException");
    assert!(error.to_string().contains("retryWrites=false"), "{error}");
}
