//! A collection: documents by record id, and the index entries that belong to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use backfire_model::Namespace;
use bson::{Document, RawDocument};
use parking_lot::RwLock;
use uuid::Uuid;

use super::capped::{Capped, Size};
use super::record::RecordId;
use super::{Direction, Key, Snapshot, TableId, Value, WriteConflict, Writer};
use crate::error::{CommandError, Result};
use crate::net::request::raw;
use crate::query::Matcher;
use crate::value::index_keys::{IndexKey, IndexKeys, IndexPattern};
use crate::value::text;
use crate::value::{Collation, View};
use crate::write::validation::Validator;

/// A collection.
#[derive(Debug)]
pub struct Collection {
    /// Its name.
    pub ns: Namespace,
    /// Its identity, which a rename keeps and a drop ends.
    pub uuid: Uuid,
    /// The options it was created with.
    pub options: RwLock<Document>,
    /// The table of its documents.
    pub records: TableId,
    /// How its strings compare where a command does not say.
    pub collation: Option<Collation>,
    /// What limits it, if it is capped.
    pub capped: Option<Capped>,
    /// What its documents must be like.
    validator: RwLock<Option<Arc<Validator>>>,
    next_record: AtomicU64,
    indexes: RwLock<Arc<Vec<Arc<Index>>>>,
}

/// An index of a collection.
#[derive(Debug)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its specification as `listIndexes` shows it.
    pub spec: Document,
    /// What its keys are made of.
    pub pattern: IndexPattern,
    /// Whether a key may be there only once.
    pub unique: bool,
    /// Only documents that match are in it.
    pub partial: Option<Matcher>,
    /// Whether a document has had several keys in it, because of an array.
    pub multikey: AtomicBool,
    /// Its table: for a unique index key → record id, else key and record id → nothing.
    pub table: TableId,
}

/// Why a document could not be written.
#[derive(Debug)]
pub enum WriteError {
    /// Try again from the start.
    Conflict,
    /// It cannot be written.
    Failed(CommandError),
}

impl From<WriteConflict> for WriteError {
    fn from(_: WriteConflict) -> Self {
        WriteError::Conflict
    }
}

impl From<CommandError> for WriteError {
    fn from(error: CommandError) -> Self {
        WriteError::Failed(error)
    }
}

impl Index {
    /// Its key pattern.
    pub fn key_pattern(&self) -> Document {
        self.spec.get_document("key").cloned().unwrap_or_default()
    }

    /// The keys under which `document` stands in the index.
    ///
    /// # Errors
    /// When the document cannot be indexed (171).
    pub fn keys_of(&self, document: &RawDocument) -> Result<IndexKeys> {
        if let Some(filter) = &self.partial
            && !filter.matches(document)?
        {
            return Ok(IndexKeys::default());
        }
        let keys = self.pattern.keys_of(document)?;
        if keys.multikey && !self.multikey.load(Ordering::Relaxed) {
            self.multikey.store(true, Ordering::Relaxed);
        }
        Ok(keys)
    }

    fn entry_key(&self, key: &IndexKey, record: RecordId) -> Key {
        let mut entry = Key::from_slice(&key.bytes);
        if !self.unique {
            entry.extend_from_slice(&record.0.to_be_bytes());
        }
        entry
    }

    /// The record id that an entry points to.
    pub fn record_of(&self, key: &[u8], value: &[u8]) -> Option<RecordId> {
        if self.unique {
            RecordId::from_bytes(value)
        } else {
            RecordId::from_bytes(key.get(key.len().checked_sub(8)?..)?)
        }
    }

    fn add(
        &self,
        ns: &Namespace,
        transaction: &mut dyn Writer,
        key: &IndexKey,
        record: RecordId,
    ) -> Result<(), WriteError> {
        let entry = self.entry_key(key, record);
        if self.unique && transaction.get(self.table, &entry).is_some() {
            return Err(WriteError::Failed(self.duplicate(ns, key)));
        }
        let value = if self.unique { Value::from(&record.0.to_be_bytes()[..]) } else { Value::empty() };
        transaction.write(self.table, entry, Some(value))?;
        Ok(())
    }

    /// 11000 with the real text (facts/server.md 11.3).
    fn duplicate(&self, ns: &Namespace, key: &IndexKey) -> CommandError {
        let pattern = self.key_pattern();
        let values: Document = pattern.keys().cloned().zip(key.values.iter().cloned()).collect();
        let collation = match self.pattern.collation() {
            Some(collation) => format!(" collation: {}", text::document(collation.spec())),
            None => String::new(),
        };
        let message = format!(
            "E11000 duplicate key error collection: {ns} index: {}{collation} dup key: {}",
            self.name,
            text::document(&values)
        );
        CommandError::new(11000, message).with_extra(bson::doc! { "keyPattern": pattern, "keyValue": values })
    }

    /// Whether every field that the index or its filter looks at is the same in both documents.
    fn sees_no_difference(&self, old: &RawDocument, new: &RawDocument) -> bool {
        self.partial.is_none()
            && self.pattern.wildcard().is_none()
            && self.pattern.fields().iter().all(|(path, _)| {
                let field = path.split('.').next().unwrap_or(path);
                backfire_wire::scan::field(old.as_bytes(), field).map(|field| (field.kind, field.value))
                    == backfire_wire::scan::field(new.as_bytes(), field).map(|field| (field.kind, field.value))
            })
    }
}

impl Collection {
    /// A collection with the indexes given.
    pub fn new(
        ns: Namespace,
        uuid: Uuid,
        options: Document,
        records: TableId,
        indexes: Vec<Arc<Index>>,
        last_record: u64,
    ) -> Self {
        Self {
            ns,
            uuid,
            options: RwLock::new(options),
            records,
            collation: None,
            capped: None,
            validator: RwLock::default(),
            next_record: AtomicU64::new(last_record + 1),
            indexes: RwLock::new(Arc::new(indexes)),
        }
    }

    /// The same as a capped collection.
    pub fn with_capped(self, capped: Option<Capped>) -> Self {
        Self { capped, ..self }
    }

    /// The same with a collation.
    pub fn with_collation(self, collation: Option<Collation>) -> Self {
        Self { collation, ..self }
    }

    /// The same with a validator.
    pub fn with_validator(self, validator: Option<Validator>) -> Self {
        self.set_validator(validator);
        self
    }

    /// What its documents must be like.
    pub fn validator(&self) -> Option<Arc<Validator>> {
        self.validator.read().clone()
    }

    /// From now on its documents must be like this.
    pub fn set_validator(&self, validator: Option<Validator>) {
        *self.validator.write() = validator.map(Arc::new);
    }

    /// The same collection under another name.
    pub fn renamed(&self, ns: Namespace) -> Self {
        Self {
            ns,
            uuid: self.uuid,
            options: RwLock::new(self.options.read().clone()),
            records: self.records,
            collation: self.collation.clone(),
            capped: self.capped,
            validator: RwLock::new(self.validator()),
            next_record: AtomicU64::new(self.next_record.load(Ordering::Relaxed)),
            indexes: RwLock::new(self.indexes()),
        }
    }

    /// Its indexes, `_id` first.
    pub fn indexes(&self) -> Arc<Vec<Arc<Index>>> {
        Arc::clone(&self.indexes.read())
    }

    /// Replaces the list of indexes.
    pub fn set_indexes(&self, indexes: Vec<Arc<Index>>) {
        *self.indexes.write() = Arc::new(indexes);
    }

    /// The index on `_id`.
    pub fn id_index(&self) -> Option<Arc<Index>> {
        self.indexes().iter().find(|index| index.name == "_id_").cloned()
    }

    /// Whether writes here have a place in the oplog.
    pub fn is_replicated(&self) -> bool {
        self.ns.db != "local"
    }

    /// A record id that was never used.
    pub fn next_record(&self) -> RecordId {
        RecordId(self.next_record.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes a new document.
    ///
    /// # Errors
    /// 11000 when a unique index has its key already; a conflict with another transaction.
    pub fn insert(&self, transaction: &mut dyn Writer, document: &RawDocument) -> Result<RecordId, WriteError> {
        if let Some(capped) = &self.capped {
            self.make_room(capped, transaction, document.as_bytes().len() as u64)?;
        }
        let record = self.next_record();
        self.add_entries(transaction, record, document)?;
        transaction.write(self.records, record.key(), Some(document.as_bytes().into()))?;
        Ok(record)
    }

    /// Removes the oldest documents until one of `bytes` fits.
    fn make_room(&self, capped: &Capped, transaction: &mut dyn Writer, bytes: u64) -> Result<(), WriteError> {
        if bytes > capped.max_bytes {
            return Err(CommandError::bad_value("object to insert exceeds cappedMaxSize").into());
        }
        let mut size = capped.size(transaction);
        size = Size { bytes: size.bytes + bytes, documents: size.documents + 1 };
        capped.set_size(transaction, size)?;
        while capped.is_exceeded_by(size) {
            let Some((key, oldest)) = transaction.first_with_prefix(self.records, &[]) else { break };
            let Some(record) = RecordId::from_bytes(&key) else { break };
            self.take_out(transaction, record, raw(&oldest))?;
            size.bytes = size.bytes.saturating_sub(oldest.len() as u64);
            size.documents -= 1;
        }
        capped.set_size(transaction, size)?;
        Ok(())
    }

    /// Writes the index entries of a document.
    ///
    /// # Errors
    /// As [`Collection::insert`].
    pub fn add_entries(
        &self,
        transaction: &mut dyn Writer,
        record: RecordId,
        document: &RawDocument,
    ) -> Result<(), WriteError> {
        for index in self.indexes().iter() {
            for key in &index.keys_of(document)?.keys {
                index.add(&self.ns, transaction, key, record)?;
            }
        }
        Ok(())
    }

    /// Writes `new` in place of `old`.
    ///
    /// # Errors
    /// As [`Collection::insert`].
    pub fn replace(
        &self,
        transaction: &mut dyn Writer,
        record: RecordId,
        old: &RawDocument,
        new: &RawDocument,
    ) -> Result<(), WriteError> {
        if let Some(capped) = &self.capped
            && old.as_bytes().len() != new.as_bytes().len()
        {
            let mut size = capped.size(transaction);
            size.bytes = size.bytes.saturating_sub(old.as_bytes().len() as u64) + new.as_bytes().len() as u64;
            capped.set_size(transaction, size)?;
        }
        // The document first: it is what two writers conflict about.
        transaction.write(self.records, record.key(), Some(new.as_bytes().into()))?;
        for index in self.indexes().iter() {
            if index.sees_no_difference(old, new) {
                continue;
            }
            let (before, after) = (index.keys_of(old)?, index.keys_of(new)?);
            for key in before.keys.iter().filter(|key| !after.keys.contains(key)) {
                transaction.write(index.table, index.entry_key(key, record), None)?;
            }
            for key in after.keys.iter().filter(|key| !before.keys.contains(key)) {
                index.add(&self.ns, transaction, key, record)?;
            }
        }
        Ok(())
    }

    /// Removes a document.
    ///
    /// # Errors
    /// A conflict with another transaction.
    pub fn remove(&self, transaction: &mut dyn Writer, record: RecordId, old: &RawDocument) -> Result<(), WriteError> {
        if let Some(capped) = &self.capped {
            let mut size = capped.size(transaction);
            size.bytes = size.bytes.saturating_sub(old.as_bytes().len() as u64);
            size.documents = size.documents.saturating_sub(1);
            capped.set_size(transaction, size)?;
        }
        self.take_out(transaction, record, old)
    }

    fn take_out(&self, transaction: &mut dyn Writer, record: RecordId, old: &RawDocument) -> Result<(), WriteError> {
        transaction.write(self.records, record.key(), None)?;
        for index in self.indexes().iter() {
            for key in &index.keys_of(old)?.keys {
                transaction.write(index.table, index.entry_key(key, record), None)?;
            }
        }
        Ok(())
    }

    /// The document whose `_id` is `id`.
    pub fn find_by_id(&self, snapshot: &dyn Snapshot, id: View<'_>) -> Option<(RecordId, Value)> {
        let index = self.id_index()?;
        let key = crate::value::key_string::encode(id, index.pattern.collation());
        let record = RecordId::from_bytes(&snapshot.get(index.table, &key)?)?;
        Some((record, snapshot.get(self.records, &record.key())?))
    }

    /// How many documents it has.
    pub fn count(&self, snapshot: &dyn Snapshot) -> usize {
        snapshot.len(self.records)
    }

    /// The size of its documents in bytes.
    pub fn data_size(&self, snapshot: &dyn Snapshot) -> usize {
        use std::ops::Bound::{Excluded, Unbounded};
        const BATCH: usize = 1000;
        let (mut size, mut after): (usize, Option<Key>) = (0, None);
        loop {
            let mut batch = Vec::new();
            let lower = after.as_ref().map_or(Unbounded, |key| Excluded(key.as_slice()));
            snapshot.scan(self.records, lower, Unbounded, Direction::Forward, BATCH, &mut batch);
            let Some((last, _)) = batch.last() else { return size };
            after = Some(last.clone());
            size += batch.iter().map(|(_, value)| value.len()).sum::<usize>();
        }
    }

    /// The number of the newest record.
    pub fn last_record(snapshot: &dyn Snapshot, records: TableId) -> u64 {
        use std::ops::Bound::Unbounded;
        let last = snapshot.first(records, Unbounded, Unbounded, Direction::Backward);
        last.and_then(|(key, _)| RecordId::from_bytes(&key)).map_or(0, |record| record.0)
    }
}
