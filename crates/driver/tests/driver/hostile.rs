//! Servers that answer nonsense: an error, never a panic, never an endless loop.

use std::time::Duration;

use bson::{Bson, Document, doc};
use proptest::prelude::*;

use backfire_driver::{BulkWriteModel, ClientSettings, IndexModel, Namespaced, ServerAddress};
use backfire_model::Namespace;
use backfire_wire::{MessageFlags, OpMsgEncoder};

use crate::fake::*;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn settings() -> ClientSettings {
    ClientSettings {
        socket_timeout: Duration::from_millis(100),
        server_selection_timeout: Duration::from_secs(2),
        ..Fake::settings()
    }
}

/// A reply to request `response_to`.
fn message(response_to: i32, document: &Document) -> Vec<u8> {
    OpMsgEncoder::new(MessageFlags(0), 0).body(&document.to_vec().unwrap()).finish(1, response_to, false)
}

#[tokio::test(start_paused = true)]
async fn broken_frames_end_the_connection_with_an_error() {
    let good = message(3, &doc! {"ok": 1});
    let mut huge = good.clone();
    huge[..4].copy_from_slice(&i32::MAX.to_le_bytes());
    let mut unknown_code = good.clone();
    unknown_code[12..16].copy_from_slice(&77_i32.to_le_bytes());
    let mut broken_document = good.clone();
    broken_document[21] = 200;
    let mut compressed = good.clone();
    compressed[12..16].copy_from_slice(&2012_i32.to_le_bytes());
    for bytes in [vec![0; 16], huge, unknown_code, broken_document, compressed, message(999, &doc! {"ok": 1})] {
        let fake = Fake::single(primary());
        let client = fake.client(settings());
        fake.script([Step::Raw(bytes.clone())]);
        let error = client.database("db").run_command(doc! {"ping": 1}).await.unwrap_err();
        assert_eq!(error.java_class(), "MongoInternalException", "{bytes:?}");
        // The next command has a connection of its own.
        client.database("db").run_command(doc! {"ping": 1}).await.unwrap();
        let seen = fake.seen();
        assert_ne!(seen[0].connection, seen[1].connection);
    }
}

/// A value of any kind that replies hold.
fn any_value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        any::<f64>().prop_map(Bson::Double),
        any::<bool>().prop_map(Bson::Boolean),
        "[a-z.:]{0,8}".prop_map(Bson::String),
        Just(Bson::Null),
        any::<(u32, u32)>().prop_map(|(time, increment)| Bson::Timestamp(bson::Timestamp { time, increment })),
        any::<i64>().prop_map(|ms| Bson::DateTime(bson::DateTime::from_millis(ms))),
        Just(Bson::ObjectId(bson::oid::ObjectId::from_bytes([1; 12]))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
            prop::collection::vec((any_name(), inner), 0..4)
                .prop_map(|fields| Bson::Document(fields.into_iter().collect())),
        ]
    })
}

/// A field that some reply has.
fn any_name() -> impl Strategy<Value = String> {
    const NAMES: &[&str] = &[
        "ok",
        "n",
        "nModified",
        "upserted",
        "index",
        "_id",
        "writeErrors",
        "writeConcernError",
        "code",
        "errmsg",
        "errInfo",
        "errorLabels",
        "cursor",
        "id",
        "ns",
        "firstBatch",
        "nextBatch",
        "value",
        "values",
        "databases",
        "name",
        "topologyVersion",
        "processId",
        "counter",
        "$clusterTime",
        "clusterTime",
        "operationTime",
        "atClusterTime",
        "idx",
        "nErrors",
        "nInserted",
        "baseBackoffMS",
        "ismaster",
        "setName",
        "hosts",
        "me",
        "primary",
        "electionId",
        "setVersion",
        "maxWireVersion",
        "minWireVersion",
        "maxBsonObjectSize",
        "maxWriteBatchSize",
        "maxMessageSizeBytes",
        "lastWrite",
        "lastWriteDate",
        "logicalSessionTimeoutMinutes",
        "connectionId",
        "compression",
        "helloOk",
        "tags",
        "msg",
        "secondary",
    ];
    prop::sample::select(NAMES).prop_map(str::to_owned)
}

fn any_reply() -> impl Strategy<Value = Document> {
    let ok = prop_oneof![3 => Just(Bson::Double(1.0)), 1 => Just(Bson::Double(0.0)), 1 => any_value()];
    (prop::collection::vec((any_name(), any_value()), 0..8), ok).prop_map(|(fields, ok)| {
        let mut reply: Document = fields.into_iter().collect();
        reply.insert("ok", ok);
        reply
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_reply_to_any_operation_is_a_result_or_an_error(replies in prop::collection::vec(any_reply(), 40)) {
        runtime().block_on(async {
            let fake = Fake::single(with(primary(), doc! {"maxWireVersion": 25}));
            let client = fake.client(settings());
            let (db, c) = (client.database("db"), client.database("db").collection("c"));
            fake.script(replies.into_iter().map(Step::Reply));
            let set = || doc! {"$set": {"x": 1}};
            let _ = c.insert_one(doc! {}).await;
            let _ = c.update_many(doc! {}, set()).await;
            let _ = c.bulk_write([BulkWriteModel::insert_one(doc! {}), BulkWriteModel::delete_one(doc! {})]).ordered(false).await;
            let _ = c.find_one_and_update(doc! {}, set()).await;
            let _ = c.count_documents(doc! {}).await;
            let _ = c.estimated_document_count().await;
            let _ = c.distinct("x", doc! {}).await;
            let _ = c.create_index(IndexModel::new(doc! {"x": 1})).await;
            let _ = c.list_index_names().await;
            let _ = db.list_collection_names().await;
            let _ = client.list_database_names().await;
            let _ = db.run_command(doc! {"ping": 1}).await;
            let model = Namespaced { namespace: Namespace::new("db", "c"), model: BulkWriteModel::insert_one(doc! {}) };
            let _ = client.bulk_write([model]).verbose_results(true).await;
            if let Ok(mut open) = c.find(doc! {}).await {
                for _ in 0..4 {
                    let _ = open.next().await;
                }
            }
            client.close().await;
        });
    }

    #[test]
    fn any_hello_is_survived(hellos in prop::collection::vec(any_reply(), 6), direct: bool) {
        runtime().block_on(async {
            let fake = Fake::single(primary());
            let base = ClientSettings { heartbeat_frequency: Duration::from_millis(500), ..settings() };
            let client = if direct {
                fake.client(ClientSettings { seeds: vec![ServerAddress::new("a", 27017)], replica_set: None, ..base })
            } else {
                fake.client(base)
            };
            for hello in hellos {
                fake.hello("a", hello);
                tokio::time::sleep(Duration::from_millis(700)).await;
                let _ = client.database("db").collection("c").insert_one(doc! {}).await;
            }
            fake.hello("a", primary());
            client.close().await;
        });
    }
}
