//! Documents that expire: indexes with `expireAfterSeconds`.

use std::sync::Arc;

use bson::{DateTime, RawDocument};

use crate::counters::bump;
use crate::net::request::raw;
use crate::params::Param;
use crate::server::Shared;
use crate::storage::collection::{Collection, Index};
use crate::storage::record::RecordId;
use crate::storage::{Direction, Key};
use crate::value::View;

/// How many documents are looked at before others may run.
const BATCH: usize = 256;

/// Removes everything that has expired, once.
pub async fn pass(shared: &Arc<Shared>) {
    if !shared.topology.is_primary() || shared.params.get(Param::TtlMonitorEnabled) == 0 {
        return;
    }
    bump(&shared.counters.ttl_passes);
    for database in shared.catalog.databases() {
        for collection in shared.catalog.collections_of(&database) {
            for index in collection.indexes().iter() {
                if let Some(before) = limit(shared, &collection, index) {
                    remove_older(shared, &collection, index, before).await;
                }
            }
        }
    }
}

/// What is older than this has expired. Indexes of several fields and capped collections have no expiry.
fn limit(shared: &Shared, collection: &Collection, index: &Index) -> Option<DateTime> {
    let seconds = View::from(index.spec.get("expireAfterSeconds")?).number()?.to_i64_saturating();
    if index.pattern.fields().len() != 1 || collection.capped.is_some() || seconds < 0 {
        return None;
    }
    Some(DateTime::from_millis(shared.clock.now_ms().saturating_sub(seconds.saturating_mul(1000))))
}

async fn remove_older(shared: &Arc<Shared>, collection: &Collection, index: &Index, before: DateTime) {
    use std::ops::Bound::{Excluded, Unbounded};
    let mut after: Option<Key> = None;
    loop {
        let mut batch = Vec::new();
        let lower = after.as_ref().map_or(Unbounded, |key| Excluded(key.as_slice()));
        shared.engine.snapshot().scan(collection.records, lower, Unbounded, Direction::Forward, BATCH, &mut batch);
        let Some((last, _)) = batch.last() else { return };
        after = Some(last.clone());
        for (key, value) in &batch {
            if let Some(record) = RecordId::from_bytes(key)
                && has_expired(index, raw(value), before)
            {
                remove(shared, collection, index, record, before);
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Whether the earliest date in the field is old enough.
fn has_expired(index: &Index, document: &RawDocument, before: DateTime) -> bool {
    let Ok(keys) = index.keys_of(document) else { return false };
    keys.keys.iter().any(|key| matches!(key.values.first(), Some(bson::Bson::DateTime(date)) if *date <= before))
}

/// Removes one document, if it is still there and has still expired. Somebody else who writes it comes first; the next
/// pass looks at it again.
fn remove(shared: &Shared, collection: &Collection, index: &Index, record: RecordId, before: DateTime) {
    let mut transaction = shared.engine.begin();
    let Some(value) = transaction.get(collection.records, &record.key()) else { return };
    if !has_expired(index, raw(&value), before) {
        return;
    }
    if collection.remove(&mut *transaction, record, raw(&value)).is_ok() {
        shared.topology.next_op_time(&shared.clock);
        transaction.commit();
        bump(&shared.counters.ttl_deleted);
    }
}
