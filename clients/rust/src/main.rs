//! `backfire-client-rust URI`: what a user of the Rust driver does in the first five minutes, with the results checked.

use std::fmt::Debug;
use std::future::IntoFuture;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::options::{IndexOptions, ReturnDocument};
use mongodb::{Client, Collection, Cursor, IndexModel};

/// How many results were as they should be.
#[derive(Default)]
struct Checks(u32);

impl Checks {
    fn that<T: PartialEq + Debug>(&mut self, what: &str, got: T, want: T) {
        assert!(got == want, "{what}: expected {want:?}, got {got:?}");
        self.0 += 1;
    }
}

async fn ids(cursor: Cursor<Document>) -> Result<Vec<i32>, Error> {
    let found: Vec<Document> = cursor.try_collect().await?;
    Ok(found.iter().filter_map(|document| document.get_i32("_id").ok()).collect())
}

fn is_duplicate(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Write(WriteFailure::WriteError(error)) if error.code == 11000)
}

async fn smoke(client: &Client, checks: &mut Checks) -> Result<(), Error> {
    let db = client.database("smoke_rust");
    db.drop().await?;
    let parts: Collection<Document> = db.collection("parts");

    let pong = client.database("admin").run_command(doc! { "ping": 1 }).await?;
    checks.that("ping", pong.get_f64("ok").ok(), Some(1.0));

    let options = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "sku": 1 }).options(options).build();
    checks.that("create index", parts.create_index(index).await?.index_name, "sku_1".to_owned());
    checks.that("list indexes", parts.list_index_names().await?, vec!["_id_".to_owned(), "sku_1".to_owned()]);

    let first = doc! { "_id": 1, "sku": "a", "kind": "bolt", "stock": 10, "tags": ["m4", "steel"] };
    checks.that("insert one", parts.insert_one(first).await?.inserted_id, Bson::Int32(1));
    let many = parts
        .insert_many([
            doc! { "_id": 2, "sku": "b", "kind": "bolt", "stock": 5, "tags": ["m5"] },
            doc! { "_id": 3, "sku": "c", "kind": "nut", "stock": 7, "tags": ["m4"] },
            doc! { "_id": 4, "sku": "d", "kind": "nut", "stock": 0, "tags": [] },
        ])
        .await?;
    checks.that("insert many", many.inserted_ids.len(), 3);
    let duplicate = parts.insert_one(doc! { "sku": "a" }).await.map(drop);
    checks.that("duplicate key", duplicate.is_err_and(|error| is_duplicate(&error)), true);

    let typed = doc! {
        "_id": ObjectId::new(), "at": DateTime::from_millis(1_767_312_000_000), "long": 1_i64 << 40, "nothing": Bson::Null,
        "nested": { "list": [1, 2.5, "three", { "four": true }] },
    };
    let made: Collection<Document> = db.collection("made");
    made.insert_one(&typed).await?;
    checks.that("every type comes back", made.find_one(doc! {}).await?, Some(typed));

    let stock = |found: Option<Document>| found.and_then(|document| document.get_i32("stock").ok());
    checks.that("find one", stock(parts.find_one(doc! { "sku": "c" }).await?), Some(7));
    checks.that("find none", parts.find_one(doc! { "sku": "z" }).await?, None);
    let found = parts.find(doc! { "tags": "m4" }).sort(doc! { "_id": 1 }).await?;
    checks.that("find by a list's element", ids(found).await?, vec![1, 3]);
    let found = parts.find(doc! {}).sort(doc! { "_id": -1 }).skip(1).batch_size(2).await?;
    checks.that("find in small batches", ids(found).await?, vec![3, 2, 1]);
    checks.that("count", parts.count_documents(doc! { "kind": "nut" }).await?, 2);
    checks.that("distinct", parts.distinct("kind", doc! {}).await?, vec!["bolt".into(), "nut".into()]);

    let updated = parts.update_one(doc! { "_id": 1 }, doc! { "$inc": { "stock": -3 } }).await?;
    checks.that("update one", (updated.matched_count, updated.modified_count), (1, 1));
    let set = doc! { "$set": { "sku": "e", "kind": "washer", "stock": 1 } };
    let upserted = parts.update_one(doc! { "_id": 5 }, set).upsert(true).await?;
    checks.that("update with upsert", upserted.upserted_id, Some(Bson::Int32(5)));
    let modify = parts.find_one_and_update(doc! { "_id": 5 }, doc! { "$inc": { "stock": 1 } });
    checks.that("find one and update", stock(modify.return_document(ReturnDocument::After).await?), Some(2));
    checks.that("find one and delete", stock(parts.find_one_and_delete(doc! { "_id": 5 }).await?), Some(2));

    let pipeline =
        [doc! { "$group": { "_id": "$kind", "stock": { "$sum": "$stock" } } }, doc! { "$sort": { "_id": 1 } }];
    let groups: Vec<Document> = parts.aggregate(pipeline).await?.try_collect().await?;
    checks.that("aggregate", groups, vec![doc! { "_id": "bolt", "stock": 12 }, doc! { "_id": "nut", "stock": 7 }]);

    let find = doc! { "find": "parts", "filter": { "sku": "a" } };
    let plan = db.run_command(doc! { "explain": find, "verbosity": "queryPlanner" }).await?;
    let stage = plan.get_document("queryPlanner").and_then(|plan| plan.get_document("winningPlan")?.get_str("stage"));
    checks.that("explain", stage.ok(), Some("FETCH"));

    let mut session = client.start_session().await?;
    parts.insert_one(doc! { "_id": 8, "sku": "s" }).session(&mut session).await?;
    let read = parts.find_one(doc! { "_id": 8 }).session(&mut session).await?;
    checks.that("read in a session", read.is_some(), true);

    abandoned(client, &parts, checks).await?;

    checks.that("delete many", parts.delete_many(doc! { "kind": "nut" }).await?.deleted_count, 2);
    db.drop().await?;
    checks.that("databases", client.list_database_names().await?.contains(&"smoke_rust".to_owned()), false);
    Ok(())
}

/// The driver has no socket timeout: an application stops waiting by itself, and the write goes on.
async fn abandoned(client: &Client, parts: &Collection<Document>, checks: &mut Checks) -> Result<(), Error> {
    let data =
        doc! { "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 300, "appName": "smoke-rust" };
    let point = doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data };
    client.database("admin").run_command(point).await?;
    let insert = parts.insert_one(doc! { "_id": 9, "sku": "t" }).into_future();
    let waited = tokio::time::timeout(Duration::from_millis(100), insert).await;
    checks.that("the application stops waiting", waited.is_err(), true);
    let until = Instant::now() + Duration::from_secs(30);
    while parts.count_documents(doc! { "_id": 9 }).await? == 0 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    checks.that("and the write is done all the same", parts.count_documents(doc! { "_id": 9 }).await?, 1);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let uri = std::env::args().nth(1).expect("usage: backfire-client-rust URI");
    let mut options = mongodb::options::ClientOptions::parse(uri).await?;
    options.app_name = Some("smoke-rust".to_owned());
    let mut checks = Checks::default();
    smoke(&Client::with_options(options)?, &mut checks).await?;
    println!("{{\"client\":\"Rust driver 3.9.1\",\"checks\":{}}}", checks.0);
    Ok(())
}
