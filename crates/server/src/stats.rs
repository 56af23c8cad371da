//! Sizes of collections and databases: `collStats`, `dbStats`, `$collStats`, `validate`.

use std::ops::Bound::{Excluded, Unbounded};

use backfire_model::Namespace;
use bson::{Bson, Document, doc};

use crate::server::Shared;
use crate::storage::collection::Collection;
use crate::storage::{Direction, Key, Snapshot, TableId};

/// How many keys are read from storage at a time.
const BATCH: usize = 1000;

/// A count as it is shown: an int where it fits.
pub fn number(number: u64) -> Bson {
    i32::try_from(number).map_or_else(|_| Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX)), Bson::Int32)
}

/// The bytes of a table's keys and values.
fn table_bytes(snapshot: &dyn Snapshot, table: TableId) -> u64 {
    let (mut bytes, mut after): (u64, Option<Key>) = (0, None);
    loop {
        let mut batch = Vec::new();
        let lower = after.as_ref().map_or(Unbounded, |key| Excluded(key.as_slice()));
        snapshot.scan(table, lower, Unbounded, Direction::Forward, BATCH, &mut batch);
        let Some((last, _)) = batch.last() else { return bytes };
        after = Some(last.clone());
        bytes += batch.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
    }
}

/// `{ns, size, count, …}` of a collection, in units of `scale` bytes; zeros for one that does not exist.
pub fn of_collection(shared: &Shared, ns: &Namespace, scale: u64) -> Document {
    let Some(collection) = shared.catalog.get(ns) else {
        return doc! {
            "ns": ns.to_string(), "size": 0, "count": 0, "storageSize": 0, "totalSize": 0, "nindexes": 0,
            "totalIndexSize": 0, "indexDetails": {}, "indexSizes": {}, "scaleFactor": number(scale),
        };
    };
    let mut stats = doc! { "ns": ns.to_string() };
    stats.extend(storage(shared, &collection, scale));
    stats
}

/// The same without the name: what `$collStats` gives as `storageStats`.
pub fn storage(shared: &Shared, collection: &Collection, scale: u64) -> Document {
    let snapshot = shared.engine.snapshot();
    let (bytes, count) = (collection.data_size(&*snapshot) as u64, collection.count(&*snapshot) as u64);
    let mut stats = doc! { "size": number(bytes / scale), "count": number(count) };
    if let Some(average) = bytes.checked_div(count) {
        stats.insert("avgObjSize", number(average));
    }
    stats.extend(doc! {
        "storageSize": number(bytes / scale), "freeStorageSize": 0, "capped": collection.capped.is_some(),
    });
    if let Some(capped) = &collection.capped {
        // No limit is shown as the largest number.
        let most = capped.max_documents.map_or(Bson::Int64(i64::from(i32::MAX)), number);
        stats.extend(doc! { "max": most, "maxSize": number(capped.max_bytes / scale) });
    }
    let indexes = collection.indexes();
    let sizes: Document = indexes
        .iter()
        .map(|index| (index.name.clone(), number(table_bytes(&*snapshot, index.table) / scale)))
        .collect();
    let details: Document = indexes.iter().map(|index| (index.name.clone(), Bson::Document(doc! {}))).collect();
    let index_bytes: u64 = indexes.iter().map(|index| table_bytes(&*snapshot, index.table)).sum();
    stats.extend(doc! {
        "nindexes": number(indexes.len() as u64),
        "indexDetails": details,
        "indexBuilds": [],
        "totalIndexSize": number(index_bytes / scale),
        "totalSize": number((bytes + index_bytes) / scale),
        "indexSizes": sizes,
        "scaleFactor": number(scale),
    });
    stats
}

/// What `dbStats` says of a database, in units of `scale` bytes.
pub fn of_database(shared: &Shared, database: &str, scale: u64) -> Document {
    let snapshot = shared.engine.snapshot();
    let collections = shared.catalog.collections_of(database);
    let (mut objects, mut bytes, mut indexes, mut index_bytes) = (0_u64, 0_u64, 0_u64, 0_u64);
    for collection in &collections {
        objects += collection.count(&*snapshot) as u64;
        bytes += collection.data_size(&*snapshot) as u64;
        for index in collection.indexes().iter() {
            indexes += 1;
            index_bytes += table_bytes(&*snapshot, index.table);
        }
    }
    let exists = !collections.is_empty();
    // A database that exists has its sizes as doubles, like a mongod's.
    let size = |bytes: u64| if exists { Bson::Double(bytes as f64 / scale as f64) } else { Bson::Int32(0) };
    let average = match objects {
        0 => Bson::Int32(0),
        objects => Bson::Double(bytes as f64 / objects as f64),
    };
    let mut stats = doc! {
        "db": database,
        "collections": number(collections.len() as u64),
        "views": 0,
        "objects": number(objects),
        "avgObjSize": average,
        "dataSize": size(bytes),
        "storageSize": size(bytes),
        "totalSize": size(bytes + index_bytes),
        "indexes": number(indexes),
        "indexSize": size(index_bytes),
        "scaleFactor": if exists { Bson::Double(scale as f64) } else { number(scale) },
    };
    if !exists {
        stats.insert("fileSize", 0);
    }
    stats.extend(doc! { "fsUsedSize": size(0), "fsTotalSize": size(0) });
    stats
}
