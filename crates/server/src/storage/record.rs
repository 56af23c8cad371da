//! Record ids: where a document is kept in its collection. They grow, so their order is the order of insertion.

use super::Key;

/// The place of a document in its collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub u64);

impl RecordId {
    /// Its key in the table of records.
    pub fn key(self) -> Key {
        Key::from_slice(&self.0.to_be_bytes())
    }

    /// Reads a key, or the value of an index entry.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(u64::from_be_bytes(bytes)))
    }
}
