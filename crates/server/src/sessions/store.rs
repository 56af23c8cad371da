//! Where sessions are kept: `config.transactions` and the table of the retry history.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use backfire_model::Namespace;
use bson::{Bson, Document};

use super::SessionId;
use super::history::StatementRecord;
use crate::storage::catalog::{Catalog, HISTORY_TABLE};
use crate::storage::collection::{Collection, WriteError};
use crate::storage::record::RecordId;
use crate::storage::{Direction, Engine, Key, Snapshot, WriteConflict, Writer};
use crate::value::View;
use crate::value::view::to_raw;

/// The stored side of all sessions.
#[derive(Debug)]
pub struct SessionStore {
    transactions: Arc<Collection>,
}

/// The key of a statement in the history table: the session's record, the number, the statement.
fn history_key(record: RecordId, number: i64, statement: i32) -> Key {
    let mut key = history_prefix(record, number);
    key.extend_from_slice(&(statement as u32 ^ 0x8000_0000).to_be_bytes());
    key
}

fn history_prefix(record: RecordId, number: i64) -> Key {
    let mut key = Key::from_slice(&record.0.to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn statement_of(key: &[u8]) -> Option<i32> {
    let bytes: [u8; 4] = key.get(16..20)?.try_into().ok()?;
    Some((u32::from_be_bytes(bytes) ^ 0x8000_0000) as i32)
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
    pub fn statements(&self, snapshot: &dyn Snapshot, record: RecordId, number: i64) -> BTreeMap<i32, StatementRecord> {
        let (lower, upper) = (history_prefix(record, number), history_prefix(record, number + 1));
        let mut rows = Vec::new();
        let bounds = (Bound::Included(lower.as_slice()), Bound::Excluded(upper.as_slice()));
        snapshot.scan(HISTORY_TABLE, bounds.0, bounds.1, Direction::Forward, usize::MAX, &mut rows);
        rows.iter()
            .filter_map(|(key, value)| {
                let record = StatementRecord::from_document(&Document::from_reader(&**value).ok()?)?;
                Some((statement_of(key)?, record))
            })
            .collect()
    }

    /// Writes a session's document, at `record` if it is known.
    ///
    /// # Errors
    /// When somebody else writes it.
    pub fn put(
        &self,
        transaction: &mut dyn Writer,
        record: Option<RecordId>,
        document: &Document,
    ) -> Result<RecordId, WriteConflict> {
        // A document of this shape always encodes, and is never too large or unindexable.
        let Ok(raw) = to_raw(document) else { return Err(WriteConflict) };
        if let Some(record) =
            record.filter(|record| transaction.get(self.transactions.records, &record.key()).is_some())
        {
            // The `_id` is the same, so no index entry changes.
            let value = Arc::from(raw.as_bytes());
            transaction.write(self.transactions.records, record.key(), Some(value))?;
            return Ok(record);
        }
        self.transactions.insert(transaction, &raw).map_err(|error| match error {
            WriteError::Conflict | WriteError::Failed(_) => WriteConflict,
        })
    }

    /// Adds a statement to the history.
    ///
    /// # Errors
    /// When somebody else writes it.
    pub fn remember(
        &self,
        transaction: &mut dyn Writer,
        record: RecordId,
        number: i64,
        statement: i32,
        what: &StatementRecord,
    ) -> Result<(), WriteConflict> {
        let bytes = what.to_document().to_vec().unwrap_or_default();
        transaction.write(HISTORY_TABLE, history_key(record, number, statement), Some(bytes.into()))
    }

    /// Removes statements from the history.
    ///
    /// # Errors
    /// When somebody else writes them.
    pub fn forget(
        &self,
        transaction: &mut dyn Writer,
        record: RecordId,
        number: i64,
        statements: impl Iterator<Item = i32>,
    ) -> Result<(), WriteConflict> {
        for statement in statements {
            transaction.write(HISTORY_TABLE, history_key(record, number, statement), None)?;
        }
        Ok(())
    }

    /// Removes a session's document and its statements.
    pub fn remove(&self, engine: &dyn Engine, record: RecordId, number: Option<i64>, statements: Vec<i32>) {
        let mut transaction = engine.begin();
        let removed = (|| {
            if let Some(value) = transaction.get(self.transactions.records, &record.key()) {
                let old = crate::net::request::raw(&value);
                self.transactions.remove(&mut *transaction, record, old).map_err(|_| WriteConflict)?;
            }
            match number {
                Some(number) => self.forget(&mut *transaction, record, number, statements.into_iter()),
                None => Ok(()),
            }
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
