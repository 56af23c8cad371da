//! A key of a table.

use std::borrow::Borrow;
use std::ops::Deref;

use smallvec::SmallVec;

/// The bytes of a key; short ones (record ids, most `_id`s) need no allocation. Keys are ordered as their bytes are.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(SmallVec<[u8; 16]>);

impl Key {
    /// A key of these bytes.
    pub fn from_slice(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }

    /// Its bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Adds bytes at its end.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl Clone for Key {
    /// Copies the bytes at once, where a `SmallVec` would clone one after the other.
    fn clone(&self) -> Self {
        Self::from_slice(&self.0)
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}
