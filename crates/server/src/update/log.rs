//! The oplog form of a change.

use bson::{Bson, Document};

use crate::error::Result;

/// The oplog form of a change, which is made into a document only where somebody wants to see it.
#[derive(Debug, Clone, PartialEq)]
pub enum Oplog {
    /// What was set and unset; nothing when nothing changed.
    Changes(Log),
    /// The whole document as it is afterwards.
    Whole,
}

impl Oplog {
    /// Of a change that is not known by its parts.
    pub fn of_whole(changed: bool) -> Self {
        if changed { Oplog::Whole } else { Oplog::Changes(Log::default()) }
    }

    /// `{ $v: 1, $set: {...}, $unset: {...} }`, or the document `after` the change; empty when nothing changed.
    ///
    /// # Errors
    /// Those of `after`.
    pub fn document(self, after: impl FnOnce() -> Result<Document>) -> Result<Document> {
        match self {
            Oplog::Changes(log) => Ok(log.into_document()),
            Oplog::Whole => after(),
        }
    }
}

/// What was set and what was unset, in order.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Log {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq)]
enum Entry {
    Set(String, Bson),
    Unset(String),
}

impl Log {
    /// Records a new value.
    pub(super) fn set(&mut self, path: &str, value: Bson) {
        self.entries.push(Entry::Set(path.to_owned(), value));
    }

    /// Records a removal.
    pub(super) fn unset(&mut self, path: &str) {
        self.entries.push(Entry::Unset(path.to_owned()));
    }

    /// How much was recorded.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets what was recorded after `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.entries.truncate(len);
    }

    /// `{ $v: 1, $set: {...}, $unset: {...} }`, the sections in the order in which they were first needed.
    pub(super) fn into_document(self) -> Document {
        let mut document = Document::new();
        if self.entries.is_empty() {
            return document;
        }
        document.insert("$v", 1);
        for entry in self.entries {
            let (section, path, value) = match entry {
                Entry::Set(path, value) => ("$set", path, value),
                Entry::Unset(path) => ("$unset", path, Bson::Boolean(true)),
            };
            let section = document.entry(section.to_owned()).or_insert_with(|| Bson::Document(Document::new()));
            if let Bson::Document(section) = section {
                section.insert(path, value);
            }
        }
        document
    }
}
