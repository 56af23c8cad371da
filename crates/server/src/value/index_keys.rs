//! The keys of a document under an index.
//!
//! A missing field is null (unless the index is sparse and every field is missing), an array gives one key for each of
//! its elements, an empty array gives undefined, and no two fields may both run through different arrays.

use std::collections::BTreeSet;

use bson::{Bson, Document};

use super::key_string::{Direction, KeyBuilder};
use super::wildcard::Wildcard;
use super::{ArrayView, Collation, DocView, View};
use crate::error::{Result, fail};

/// The fields of an index with what decides its keys.
#[derive(Debug, Clone)]
pub struct IndexPattern {
    fields: Vec<(String, Direction)>,
    sparse: bool,
    collation: Option<Collation>,
    wildcard: Option<Wildcard>,
}

/// One key of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexKey {
    /// Order-preserving bytes; equal for equal keys.
    pub bytes: Vec<u8>,
    /// One value per field of the pattern.
    pub values: Vec<Bson>,
}

/// All keys of one document.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IndexKeys {
    /// The keys in order, without duplicates. None for a document that a sparse index leaves out.
    pub keys: Vec<IndexKey>,
    /// Whether an array was expanded.
    pub multikey: bool,
}

impl IndexPattern {
    /// An index on `pattern` (`{ a: 1, "b.c": -1 }`). A negative number descends; every other value ascends.
    pub fn new(pattern: &Document, sparse: bool, collation: Option<Collation>) -> Self {
        let fields = pattern
            .iter()
            .map(|(path, value)| {
                let descending = View::from(value).number().is_some_and(|number| number.to_f64() < 0.0);
                (path.clone(), if descending { Direction::Descending } else { Direction::Ascending })
            })
            .collect();
        Self { fields, sparse, collation, wildcard: None }
    }

    /// The same as a wildcard index, whose keys are a path and a value.
    #[must_use]
    pub fn with_wildcard(mut self, wildcard: Option<Wildcard>) -> Self {
        if wildcard.is_some() {
            let path = self.fields.first().map_or_else(String::new, |(path, _)| path.clone());
            self.fields = vec![("$_path".to_owned(), Direction::Ascending), (path, Direction::Ascending)];
        }
        self.wildcard = wildcard;
        self
    }

    /// What makes it a wildcard index, if it is one.
    pub fn wildcard(&self) -> Option<&Wildcard> {
        self.wildcard.as_ref()
    }

    /// The paths with their directions.
    pub fn fields(&self) -> &[(String, Direction)] {
        &self.fields
    }

    /// The collation of its strings.
    pub fn collation(&self) -> Option<&Collation> {
        self.collation.as_ref()
    }

    /// The bytes of a key made of `values`, one per field or fewer (a prefix).
    pub fn encode(&self, values: &[Bson]) -> Vec<u8> {
        let mut builder = KeyBuilder::new();
        for ((_, direction), value) in self.fields.iter().zip(values) {
            builder.push(value.into(), *direction, self.collation.as_ref());
        }
        builder.finish()
    }

    /// The values of a key under the names of the index's fields: `keyValue` of a duplicate key error.
    pub fn key_value(&self, values: &[Bson]) -> Document {
        self.fields.iter().zip(values).map(|((path, _), value)| (path.clone(), value.clone())).collect()
    }

    /// The keys of `document`.
    ///
    /// # Errors
    /// `CannotIndexParallelArrays` (171), or 16746 for a field name that is also a position.
    pub fn keys_of<'a>(&self, document: impl Into<DocView<'a>>) -> Result<IndexKeys> {
        let document = document.into();
        // Most often one field that has one value: the index on `_id`, if no other.
        if let [(path, direction)] = &self.fields[..]
            && !path.contains('.')
            && let Some(value) = document.get(path).filter(|value| value.as_array().is_none())
        {
            let mut builder = KeyBuilder::new();
            builder.push(value, *direction, self.collation.as_ref());
            let key = IndexKey { bytes: builder.finish(), values: vec![value.to_bson()?] };
            return Ok(IndexKeys { keys: vec![key], multikey: false });
        }
        if let Some(wildcard) = &self.wildcard {
            return wildcard.keys_of(document, self.collation.as_ref());
        }
        let mut expansion = Expansion { pattern: self, multikey: false, seen: BTreeSet::new(), keys: Vec::new() };
        let slots = self.fields.iter().map(|(path, _)| Slot::Path(path)).collect();
        expansion.expand(slots, document, 0)?;
        let Expansion { multikey, mut keys, .. } = expansion;
        keys.sort_by(|left, right| left.bytes.cmp(&right.bytes));
        Ok(IndexKeys { keys, multikey })
    }
}

/// What is known of one field while arrays are expanded.
#[derive(Clone, Copy)]
enum Slot<'d, 'p> {
    /// Found.
    Value(View<'d>),
    /// Not in the document.
    Missing,
    /// Still to be followed from the current document.
    Path(&'p str),
}

struct Expansion<'p> {
    pattern: &'p IndexPattern,
    multikey: bool,
    seen: BTreeSet<Vec<u8>>,
    keys: Vec<IndexKey>,
}

/// Where a path leads.
enum Found<'d, 'p> {
    Missing,
    Value(View<'d>),
    /// An array, its field's name, and the path that remains below its elements (empty: the elements themselves).
    Array(ArrayView<'d>, &'p str, &'p str),
}

fn follow<'d, 'p>(document: DocView<'d>, path: &'p str) -> Result<Found<'d, 'p>> {
    let (head, rest) = path.split_once('.').unwrap_or((path, ""));
    let Some(value) = document.get(head) else { return Ok(Found::Missing) };
    follow_value(value, head, rest)
}

fn follow_value<'d, 'p>(value: View<'d>, name: &'p str, rest: &'p str) -> Result<Found<'d, 'p>> {
    let mut value = value;
    let mut name = name;
    let mut rest = rest;
    loop {
        match value {
            View::Array(array) => {
                let Some(position) = position_of(rest) else { return Ok(Found::Array(array, name, rest)) };
                let (head, tail) = rest.split_once('.').unwrap_or((rest, ""));
                if array.iter().any(|element| element.as_document().is_some_and(|doc| doc.get(head).is_some())) {
                    let text = "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array)";
                    return fail(16746, format!("{text}, field: '{head}' for array: {}", super::text::bson(value)));
                }
                match array.get(position) {
                    None => return Ok(Found::Array(array, name, rest)),
                    Some(element) => (value, name, rest) = (element, head, tail),
                }
                if rest.is_empty() && value.as_array().is_none() {
                    return Ok(Found::Value(value));
                }
            }
            _ if rest.is_empty() => return Ok(Found::Value(value)),
            View::Document(document) => {
                let (head, tail) = rest.split_once('.').unwrap_or((rest, ""));
                match document.get(head) {
                    None => return Ok(Found::Missing),
                    Some(inner) => (value, name, rest) = (inner, head, tail),
                }
            }
            _ => return Ok(Found::Missing),
        }
    }
}

/// The array position that the first part of `path` is.
fn position_of(path: &str) -> Option<usize> {
    let head = path.split('.').next()?;
    let plain = head == "0" || !head.starts_with('0');
    (plain && !head.is_empty() && head.bytes().all(|byte| byte.is_ascii_digit())).then(|| head.parse().ok())?
}

impl<'p> Expansion<'p> {
    fn expand<'d>(&mut self, mut slots: Vec<Slot<'d, 'p>>, document: DocView<'d>, depth: usize) -> Result<()> {
        // all fields that meet an array here must have come to it by the same path
        let mut array: Option<(ArrayView<'d>, &'p str, &'p str)> = None;
        let mut through = Vec::new();
        for (at, slot) in slots.iter_mut().enumerate() {
            let Slot::Path(path) = *slot else { continue };
            match follow(document, path)? {
                Found::Missing => *slot = Slot::Missing,
                Found::Value(value) => *slot = Slot::Value(value),
                Found::Array(found, name, rest) => {
                    let way = path[..path.len() - rest.len()].trim_end_matches('.');
                    match array {
                        Some((_, first_name, first_way)) if first_way != way => {
                            return fail(171, format!("cannot index parallel arrays [{name}] [{first_name}]"));
                        }
                        _ => array = Some((found, name, way)),
                    }
                    through.push((at, rest));
                }
            }
        }
        let Some((array, ..)) = array else {
            return self.emit(&slots);
        };
        self.multikey = true;
        if array.is_empty() {
            for (at, rest) in through {
                slots[at] = if rest.is_empty() { Slot::Value(View::Undefined) } else { Slot::Missing };
            }
            return self.emit(&slots);
        }
        for element in array.iter() {
            let mut inner = slots.clone();
            for (at, rest) in &through {
                inner[*at] = match () {
                    () if rest.is_empty() => Slot::Value(element),
                    () if depth > 200 => Slot::Missing,
                    () => Slot::Path(rest),
                };
            }
            match element.as_document() {
                Some(document) => self.expand(inner, document, depth + 1)?,
                // a path does not lead into a scalar or into an array directly inside an array
                None => self.expand_into_nothing(inner)?,
            }
        }
        Ok(())
    }

    fn expand_into_nothing(&mut self, mut slots: Vec<Slot<'_, 'p>>) -> Result<()> {
        for slot in &mut slots {
            if matches!(slot, Slot::Path(_)) {
                *slot = Slot::Missing;
            }
        }
        self.emit(&slots)
    }

    fn emit(&mut self, slots: &[Slot<'_, 'p>]) -> Result<()> {
        if self.pattern.sparse && slots.iter().all(|slot| matches!(slot, Slot::Missing)) {
            return Ok(());
        }
        let mut builder = KeyBuilder::new();
        let view = |slot: &Slot<'_, 'p>| match slot {
            Slot::Value(value) => value.to_bson(),
            Slot::Missing | Slot::Path(_) => Ok(Bson::Null),
        };
        let values = slots.iter().map(view).collect::<Result<Vec<_>>>()?;
        for ((_, direction), value) in self.pattern.fields.iter().zip(&values) {
            builder.push(value.into(), *direction, self.pattern.collation.as_ref());
        }
        let bytes = builder.finish();
        if self.seen.insert(bytes.clone()) {
            self.keys.push(IndexKey { bytes, values });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::key_string::tests::any_bson;
    use crate::value::view::to_raw;
    use bson::{bson, doc};
    use proptest::prelude::*;

    fn keys(pattern: Document, sparse: bool, document: &Document) -> Result<Vec<Bson>> {
        let pattern = IndexPattern::new(&pattern, sparse, None);
        let found = pattern.keys_of(document)?;
        let raw = pattern.keys_of(&to_raw(document).unwrap()).unwrap();
        assert!(raw.keys.iter().map(|key| &key.bytes).eq(found.keys.iter().map(|key| &key.bytes)));
        Ok(found.keys.into_iter().map(|key| Bson::Array(key.values)).collect())
    }

    #[test]
    fn keys_of_documents() {
        let check = |pattern: Document, document: Document, want: Bson| {
            assert_eq!(Bson::Array(keys(pattern, false, &document).unwrap()), want, "{document}");
        };
        check(doc! { "a": 1 }, doc! { "a": 5 }, bson!([[5]]));
        check(doc! { "a": 1 }, doc! { "b": 5 }, bson!([[null]]));
        check(doc! { "a": 1 }, doc! { "a": [3, 1, 3] }, bson!([[1], [3]]));
        check(doc! { "a": 1 }, doc! { "a": [[1, 2], 3] }, bson!([[3], [[1, 2]]]));
        check(doc! { "a": 1 }, doc! { "a": [] }, Bson::Array(vec![Bson::Array(vec![Bson::Undefined])]));
        check(doc! { "a.b": 1 }, doc! { "a": { "b": 7 } }, bson!([[7]]));
        check(doc! { "a.b": 1 }, doc! { "a": [{ "b": 1 }, { "b": [2, 3] }, 9] }, bson!([[null], [1], [2], [3]]));
        check(doc! { "a.b": 1 }, doc! { "a": [] }, bson!([[null]]));
        check(doc! { "a.0": 1 }, doc! { "a": [5, 6] }, bson!([[5]]));
        check(doc! { "a.1.b": 1 }, doc! { "a": [5, { "b": 6 }] }, bson!([[6]]));
        check(doc! { "a": 1, "b": -1 }, doc! { "a": [1, 2], "b": 3 }, bson!([[1, 3], [2, 3]]));
        check(doc! { "b": -1 }, doc! { "b": [1, 2] }, bson!([[2], [1]]));
        check(doc! { "a.b": 1, "a.c": 1 }, doc! { "a": [{ "b": 1, "c": 2 }, { "b": 3 }] }, bson!([[1, 2], [3, null]]));
    }

    #[test]
    fn a_key_shows_its_fields() {
        let pattern = IndexPattern::new(&doc! { "a": 1, "b.c": -1 }, false, None);
        let found = pattern.keys_of(&doc! { "a": 1, "b": { "c": "x" } }).unwrap();
        let shown = crate::value::text::document(&pattern.key_value(&found.keys[0].values));
        assert_eq!(shown, "{ a: 1, b.c: \"x\" }");
        assert_eq!(pattern.encode(&found.keys[0].values), found.keys[0].bytes);
    }

    #[test]
    fn sparse_leaves_out_documents_without_any_field() {
        assert_eq!(keys(doc! { "a": 1, "b": 1 }, true, &doc! { "c": 1 }).unwrap(), []);
        assert_eq!(keys(doc! { "a": 1, "b": 1 }, true, &doc! { "b": 1 }).unwrap(), [bson!([null, 1])]);
        assert_eq!(keys(doc! { "a": 1 }, true, &doc! { "a": null }).unwrap(), [bson!([null])]);
    }

    #[test]
    fn parallel_arrays_are_refused() {
        let error = keys(doc! { "a": 1, "b": 1 }, false, &doc! { "a": [1], "b": [2] }).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (171, "cannot index parallel arrays [b] [a]"));
    }

    proptest! {
        #[test]
        fn arbitrary_documents_never_panic(a in any_bson(), b in any_bson()) {
            for pattern in [doc! { "a": 1, "b.a": -1 }, doc! { "a.0": 1 }, doc! { "a.a.b": 1, "a.b": 1 }] {
                let _ = keys(pattern, false, &doc! { "a": a.clone(), "b": b.clone() });
            }
        }
    }
}
