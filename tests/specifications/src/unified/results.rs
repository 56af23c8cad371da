//! What operations return, as documents with the names of the CRUD specification.

use std::collections::BTreeMap;

use backfire_driver::operation::{DeleteResult, InsertManyResult, InsertOneResult, UpdateResult};
use backfire_driver::{BulkWriteResult, ClientBulkWriteResult};
use bson::{Bson, Document, doc};

/// Nobody answered, so nothing else is known.
fn unacknowledged() -> Bson {
    Bson::Document(doc! {"acknowledged": false})
}

fn number(count: u64) -> Bson {
    Bson::Int64(i64::try_from(count).unwrap_or(i64::MAX))
}

fn by_index<T>(values: &BTreeMap<usize, T>, as_bson: impl Fn(&T) -> Bson) -> Bson {
    Bson::Document(values.iter().map(|(index, value)| (index.to_string(), as_bson(value))).collect())
}

/// Of `insertOne`.
pub fn insert_one(result: &InsertOneResult) -> Bson {
    if !result.acknowledged {
        return unacknowledged();
    }
    Bson::Document(doc! {"acknowledged": true, "insertedId": &result.inserted_id})
}

/// Of `insertMany`.
pub fn insert_many(result: &InsertManyResult) -> Bson {
    if !result.acknowledged {
        return unacknowledged();
    }
    let ids = by_index(&result.inserted_ids, Bson::clone);
    Bson::Document(
        doc! {"acknowledged": true, "insertedCount": number(result.inserted_ids.len() as u64), "insertedIds": ids},
    )
}

/// Of `updateOne`, `updateMany` and `replaceOne`.
pub fn update(result: &UpdateResult) -> Bson {
    if !result.acknowledged {
        return unacknowledged();
    }
    let mut document = doc! {
        "acknowledged": true,
        "matchedCount": number(result.matched_count),
        "modifiedCount": number(result.modified_count),
        "upsertedCount": i32::from(result.upserted_id.is_some()),
    };
    if let Some(id) = &result.upserted_id {
        document.insert("upsertedId", id);
    }
    Bson::Document(document)
}

/// Of `deleteOne` and `deleteMany`.
pub fn delete(result: &DeleteResult) -> Bson {
    if !result.acknowledged {
        return unacknowledged();
    }
    Bson::Document(doc! {"acknowledged": true, "deletedCount": number(result.deleted_count)})
}

/// Of a collection's `bulkWrite`.
pub fn bulk_write(result: &BulkWriteResult) -> Bson {
    if !result.acknowledged {
        return unacknowledged();
    }
    Bson::Document(doc! {
        "acknowledged": true,
        "insertedCount": number(result.inserted_count),
        "matchedCount": number(result.matched_count),
        "modifiedCount": number(result.modified_count),
        "deletedCount": number(result.deleted_count),
        "upsertedCount": number(result.upserted_ids.len() as u64),
        "insertedIds": by_index(&result.inserted_ids, Bson::clone),
        "upsertedIds": by_index(&result.upserted_ids, Bson::clone),
    })
}

/// Of a client's `bulkWrite`.
pub fn client_bulk_write(result: &ClientBulkWriteResult) -> Bson {
    if !result.acknowledged {
        return unacknowledged();
    }
    let mut document: Document = doc! {
        "acknowledged": true,
        "insertedCount": number(result.inserted_count),
        "upsertedCount": number(result.upserted_count),
        "matchedCount": number(result.matched_count),
        "modifiedCount": number(result.modified_count),
        "deletedCount": number(result.deleted_count),
    };
    if result.verbose {
        let inserts = by_index(&result.insert_results, |id| Bson::Document(doc! {"insertedId": id}));
        let updates = by_index(&result.update_results, |update| {
            let mut one = doc! {
                "matchedCount": number(update.matched_count),
                "modifiedCount": number(update.modified_count),
            };
            if let Some(id) = &update.upserted_id {
                one.insert("upsertedId", id);
            }
            Bson::Document(one)
        });
        let deletes = by_index(&result.delete_results, |delete| {
            Bson::Document(doc! {"deletedCount": number(delete.deleted_count)})
        });
        document.extend(doc! {"insertResults": inserts, "updateResults": updates, "deleteResults": deletes});
    }
    Bson::Document(document)
}
