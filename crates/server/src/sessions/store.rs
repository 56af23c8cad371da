//! Where sessions are kept: `config.transactions` and the table of the retry history.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use backfire_model::Namespace;
use bson::{Bson, Document, RawDocument};

use super::SessionId;
use super::history::{Remembered, StatementRecord};
use crate::storage::catalog::{Catalog, HISTORY_TABLE};
use crate::storage::collection::{Collection, WriteError};
use crate::storage::record::RecordId;
use crate::storage::{Direction, Engine, Key, Snapshot, Value, WriteConflict, Writer};
use crate::value::View;

/// The stored side of all sessions.
#[derive(Debug)]
pub struct SessionStore {
    transactions: Arc<Collection>,
}

/// The key of a row of the history table: the session's record, the first statement. The number stands in the value: only
/// the newest one's statements are kept, so that a row most often takes the place of an older number's.
fn history_key(record: RecordId, statement: i32) -> Key {
    let mut key = record.key();
    key.extend_from_slice(&(statement as u32 ^ 0x8000_0000).to_be_bytes());
    key
}

fn statement_of(key: &[u8]) -> Option<i32> {
    let bytes: [u8; 4] = key.get(8..12)?.try_into().ok()?;
    Some((u32::from_be_bytes(bytes) ^ 0x8000_0000) as i32)
}

/// The number, how many statements there are in the row, and what each of them did.
fn history_value(number: i64, count: i32, what: &StatementRecord) -> Value {
    let stored = what.stored();
    let mut value = Vec::with_capacity(12 + stored.len());
    value.extend_from_slice(&number.to_be_bytes());
    value.extend_from_slice(&count.to_be_bytes());
    value.extend_from_slice(&stored);
    value.into()
}

fn read_history_value(value: &[u8]) -> Option<(i64, i32, StatementRecord)> {
    let (number, rest) = value.split_first_chunk::<8>()?;
    let (count, record) = rest.split_first_chunk::<4>()?;
    let record = StatementRecord::from_document(&Document::from_reader(record).ok()?)?;
    Some((i64::from_be_bytes(*number), i32::from_be_bytes(*count), record))
}

impl SessionStore {
    /// The store within the server's catalog.
    ///
    /// # Panics
    /// When the catalog lacks `config.transactions`, which it creates itself.
    pub fn new(catalog: &Catalog) -> Self {
        let ns = Namespace::new("config", "transactions");
        Self { transactions: catalog.get(&ns).expect("the catalog has config.transactions from the start") }
    }

    /// A session's document, and where it is.
    pub fn find(&self, snapshot: &dyn Snapshot, id: &SessionId) -> Option<(RecordId, Document)> {
        let id = Bson::Document(id.document());
        let (record, value) = self.transactions.find_by_id(snapshot, View::from(&id))?;
        Some((record, Document::from_reader(&*value).ok()?))
    }

    /// The statements of a number.
    pub fn statements(&self, snapshot: &dyn Snapshot, record: RecordId, number: i64) -> BTreeMap<i32, Remembered> {
        let (lower, upper) = (record.key(), RecordId(record.0.saturating_add(1)).key());
        let mut rows = Vec::new();
        let bounds = (Bound::Included(lower.as_slice()), Bound::Excluded(upper.as_slice()));
        snapshot.scan(HISTORY_TABLE, bounds.0, bounds.1, Direction::Forward, usize::MAX, &mut rows);
        let mut statements = BTreeMap::new();
        for (key, value) in rows {
            let (Some(first), Some((of, count, what))) = (statement_of(&key), read_history_value(&value)) else {
                continue;
            };
            if of == number {
                let one = |id| (id, Remembered { what: what.clone(), begins_row: id == first });
                statements.extend((first..=first.saturating_add(count - 1)).map(one));
            }
        }
        statements
    }

    /// Writes a session's document, at `record` if it is known.
    ///
    /// # Errors
    /// When somebody else writes it.
    pub fn put(
        &self,
        transaction: &mut dyn Writer,
        record: Option<RecordId>,
        document: &RawDocument,
    ) -> Result<RecordId, WriteConflict> {
        if let Some(record) =
            record.filter(|record| transaction.get(self.transactions.records, &record.key()).is_some())
        {
            // The `_id` is the same, so no index entry changes.
            let value = Value::from(document.as_bytes());
            transaction.write(self.transactions.records, record.key(), Some(value))?;
            return Ok(record);
        }
        // A document of this shape is never too large or unindexable.
        self.transactions.insert(transaction, document).map_err(|error| match error {
            WriteError::Conflict | WriteError::Failed(_) => WriteConflict,
        })
    }

    /// Adds statements to the history.
    ///
    /// # Errors
    /// When somebody else writes it.
    pub fn remember(
        &self,
        transaction: &mut dyn Writer,
        record: RecordId,
        number: i64,
        statements: &[(i32, Remembered)],
    ) -> Result<(), WriteConflict> {
        for row in statements.chunk_by(|_, (_, next)| !next.begins_row) {
            let (first, Remembered { what, .. }) = &row[0];
            let value = history_value(number, row.len() as i32, what);
            transaction.write(HISTORY_TABLE, history_key(record, *first), Some(value))?;
        }
        Ok(())
    }

    /// Removes rows, named by their first statements, from the history.
    ///
    /// # Errors
    /// When somebody else writes them.
    pub fn forget(
        &self,
        transaction: &mut dyn Writer,
        record: RecordId,
        rows: impl Iterator<Item = i32>,
    ) -> Result<(), WriteConflict> {
        for first in rows {
            transaction.write(HISTORY_TABLE, history_key(record, first), None)?;
        }
        Ok(())
    }

    /// Removes a session's document and the rows of its history.
    pub fn remove(&self, engine: &dyn Engine, record: RecordId, rows: Vec<i32>) {
        let mut transaction = engine.begin();
        let removed = (|| {
            if let Some(value) = transaction.get(self.transactions.records, &record.key()) {
                let old = crate::net::request::raw(&value);
                self.transactions.remove(&mut *transaction, record, old).map_err(|_| WriteConflict)?;
            }
            self.forget(&mut *transaction, record, rows.into_iter())
        })();
        // Nobody else writes an expired session; if somebody did, it would not be expired any more.
        if removed.is_ok() {
            transaction.commit();
        }
    }

    /// Removes statements whose session has no document any more: somebody removed it by hand.
    pub fn prune(&self, engine: &dyn Engine) {
        let snapshot = engine.snapshot();
        let mut rows = Vec::new();
        snapshot.scan(HISTORY_TABLE, Bound::Unbounded, Bound::Unbounded, Direction::Forward, usize::MAX, &mut rows);
        let mut transaction = engine.begin();
        for (key, _) in rows {
            let known = key.get(..8).is_some_and(|record| snapshot.get(self.transactions.records, record).is_some());
            if !known && transaction.write(HISTORY_TABLE, key, None).is_err() {
                return;
            }
        }
        transaction.commit();
    }
}
