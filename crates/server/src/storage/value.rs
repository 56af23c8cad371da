//! A stored value.

use std::ops::Deref;
use std::sync::Arc;

/// Bytes that snapshots share. Eight of them, which an index keeps for each document, need no allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value(Bytes);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Bytes {
    Eight([u8; 8]),
    Shared(Arc<[u8]>),
}

impl Value {
    /// A value without bytes.
    pub fn empty() -> Self {
        Self(Bytes::Shared(Arc::default()))
    }

    /// Whether both are the very same, and not only equal; of eight bytes, whether they are equal.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Bytes::Shared(this), Bytes::Shared(other)) => Arc::ptr_eq(this, other),
            (this, other) => this == other,
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Eight(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self(match bytes.try_into() {
            Ok(eight) => Bytes::Eight(eight),
            Err(_) => Bytes::Shared(bytes.into()),
        })
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        bytes.as_slice().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_as_large_as_a_pointer_to_it_and_its_length() {
        assert_eq!(size_of::<Value>(), 16);
    }

    #[test]
    fn values_are_the_same_or_only_equal() {
        let value = |length: u8| Value::from((0..length).collect::<Vec<_>>());
        for (length, alone_is_same) in [(7, false), (8, true), (9, false)] {
            let one = value(length);
            assert_eq!((&*one, one.is_same(&one.clone())), (&(0..length).collect::<Vec<_>>()[..], true));
            assert_eq!((one == value(length), one.is_same(&value(length))), (true, alone_is_same), "{length}");
        }
        assert!(Value::empty().is_empty());
    }
}
