//! Wildcard indexes, `{"$**": 1}` and `{"a.$**": 1}`: a key for each value of each path below.
//!
//! A key has two parts, the path without array positions and the value. What a mongod leaves out is left out: documents
//! that hold something (their fields are there), and `_id` unless it is asked for.

use std::collections::BTreeSet;

use bson::{Bson, Document};

use super::index_keys::{IndexKey, IndexKeys};
use super::key_string::{Direction, KeyBuilder};
use super::{ArrayView, Collation, DocView, View};
use crate::error::{CommandError, Result};

/// Stored documents do not nest deeper.
const MAX_DEPTH: usize = 200;

/// Which paths a wildcard index has.
#[derive(Debug, Clone)]
pub struct Wildcard {
    /// Only this path and those below it.
    base: Option<String>,
    /// The paths of `wildcardProjection`.
    listed: Vec<String>,
    /// Whether those are the ones to have, or the ones to leave out.
    includes: bool,
    has_id: bool,
}

/// Whether a field of a key pattern is a wildcard.
pub fn is_wildcard(path: &str) -> bool {
    path == "$**" || path.ends_with(".$**")
}

/// Whether `path` is `top` or below it.
fn is_below(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Wildcard {
    /// The wildcard of a key pattern, if it is one, with its `wildcardProjection`.
    pub fn of(key: &Document, projection: Option<&Document>) -> Option<Self> {
        let path = key.keys().next().filter(|path| is_wildcard(path))?;
        let base = path.strip_suffix(".$**").map(str::to_owned);
        let wants = |value: &Bson| View::from(value).is_true();
        let fields = || projection.into_iter().flatten().filter(|(name, _)| *name != "_id");
        let id = projection.and_then(|projection| projection.get("_id"));
        Some(Self {
            includes: fields().next().map_or(id.is_some_and(wants), |(_, value)| wants(value)),
            listed: fields().map(|(name, _)| name.clone()).collect(),
            has_id: id.map_or(base.is_some(), wants),
            base,
        })
    }

    /// Whether values at `path` are in the index. A path with a number in it may mean an array's position, and is not.
    pub fn covers(&self, path: &str) -> bool {
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        !path.split('.').any(is_number) && self.has(path)
    }

    fn has(&self, path: &str) -> bool {
        if self.base.as_ref().is_some_and(|base| !is_below(path, base)) {
            return false;
        }
        if is_below(path, "_id") {
            return self.has_id;
        }
        self.listed.iter().any(|listed| is_below(path, listed)) == self.includes
    }

    /// The keys of a document.
    ///
    /// # Errors
    /// 15 when it nests too deeply; `InvalidBSON` when raw bytes cannot be decoded.
    pub(super) fn keys_of(&self, document: DocView<'_>, collation: Option<&Collation>) -> Result<IndexKeys> {
        let mut walk = Walk {
            wildcard: self,
            collation,
            multikey: false,
            seen: BTreeSet::new(),
            keys: Vec::new(),
            path: String::new(),
        };
        walk.document(document, 0)?;
        let Walk { multikey, mut keys, .. } = walk;
        keys.sort_by(|left, right| left.bytes.cmp(&right.bytes));
        Ok(IndexKeys { keys, multikey })
    }
}

/// The first part of a key, for all values at `path`.
pub fn prefix(path: &str) -> Vec<u8> {
    let mut builder = KeyBuilder::new();
    builder.push(View::String(path), Direction::Ascending, None);
    builder.finish()
}

struct Walk<'w> {
    wildcard: &'w Wildcard,
    collation: Option<&'w Collation>,
    multikey: bool,
    seen: BTreeSet<Vec<u8>>,
    keys: Vec<IndexKey>,
    path: String,
}

impl Walk<'_> {
    fn document(&mut self, document: DocView<'_>, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(CommandError::new(15, "the document nests too deeply for a wildcard index"));
        }
        for (name, value) in document.iter() {
            let length = self.path.len();
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            match value {
                View::Document(inner) if !inner.is_empty() => self.document(inner, depth + 1)?,
                View::Array(array) => self.array(array, depth + 1)?,
                other => self.emit(other)?,
            }
            self.path.truncate(length);
        }
        Ok(())
    }

    /// An array's elements stand at its own path. An array in an array is a value.
    fn array(&mut self, array: ArrayView<'_>, depth: usize) -> Result<()> {
        self.multikey = true;
        if array.is_empty() {
            return self.emit(View::Undefined);
        }
        for element in array.iter() {
            match element {
                View::Document(inner) if !inner.is_empty() => self.document(inner, depth + 1)?,
                other => self.emit(other)?,
            }
        }
        Ok(())
    }

    fn emit(&mut self, value: View<'_>) -> Result<()> {
        if !self.wildcard.has(&self.path) {
            return Ok(());
        }
        let mut builder = KeyBuilder::new();
        builder.push(View::String(&self.path), Direction::Ascending, None);
        builder.push(value, Direction::Ascending, self.collation);
        let bytes = builder.finish();
        if self.seen.insert(bytes.clone()) {
            let values = vec![Bson::String(self.path.clone()), value.to_bson()?];
            self.keys.push(IndexKey { bytes, values });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{bson, doc};

    fn keys(key: &str, projection: Option<Document>, document: &Document) -> String {
        let wildcard = Wildcard::of(&doc! { key: 1 }, projection.as_ref()).expect("a wildcard");
        let keys = wildcard.keys_of(document.into(), None).expect("keys");
        Bson::Array(keys.keys.into_iter().map(|key| Bson::Array(key.values)).collect()).to_string()
    }

    #[test]
    fn keys_are_paths_and_values() {
        let document = doc! {
            "_id": 1, "a": { "b": 2, "c": { "d": "x" }, "e": {} }, "l": [3, { "m": 4 }, [5], 3], "n": null, "z": [],
        };
        let whole = bson!([
            ["a.b", 2],
            ["a.c.d", "x"],
            ["a.e", {}],
            ["l", 3],
            ["l", [5]],
            ["l.m", 4],
            ["n", null],
            ["z", Bson::Undefined]
        ]);
        for (key, projection, want) in [
            ("$**", None, whole),
            ("a.$**", None, bson!([["a.b", 2], ["a.c.d", "x"], ["a.e", {}]])),
            ("a.c.$**", None, bson!([["a.c.d", "x"]])),
            ("$**", Some(doc! { "a.c": 1, "n": 1 }), bson!([["a.c.d", "x"], ["n", null]])),
            ("$**", Some(doc! { "a": 0, "l": 0, "z": 0 }), bson!([["n", null]])),
            ("$**", Some(doc! { "_id": 1, "n": 1 }), bson!([["_id", 1], ["n", null]])),
            ("$**", Some(doc! { "_id": 1 }), bson!([["_id", 1]])),
        ] {
            assert_eq!(keys(key, projection.clone(), &document), want.to_string(), "{key} {projection:?}");
        }
    }

    #[test]
    fn paths_that_are_covered() {
        let covers = |key: &str, path: &str| Wildcard::of(&doc! { key: 1 }, None).expect("a wildcard").covers(path);
        for (key, path, expected) in [
            ("$**", "a", true),
            ("$**", "_id", false),
            ("$**", "a.0", false),
            ("a.$**", "a", true),
            ("a.$**", "a.b", true),
            ("a.$**", "ab", false),
        ] {
            assert_eq!(covers(key, path), expected, "{key} {path}");
        }
        assert!(Wildcard::of(&doc! { "a": 1 }, None).is_none());
    }
}
