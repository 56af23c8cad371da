//! The oplog form of a change.

use bson::{Bson, Document};

/// What was set and what was unset, in order.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: Vec<Entry>,
}

#[derive(Debug)]
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
