//! The values of one path over many documents: what `distinct` answers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bson::Bson;

use crate::aggregate::expression::FieldPath;
use crate::error::Result;
use crate::value::key_string::encode;
use crate::value::{ArrayView, Collation, DocView, View};

/// Collects distinct values. An array counts by its elements, one level deep.
#[derive(Debug)]
pub struct Distinct {
    parts: Vec<Box<str>>,
    collation: Option<Collation>,
    values: BTreeMap<Vec<u8>, Bson>,
}

impl Distinct {
    /// A collection of the values at `path`.
    ///
    /// # Errors
    /// Those of field paths.
    pub fn new(path: &str, collation: Option<Collation>) -> Result<Self> {
        let parts = FieldPath::parse(path)?.parts().to_vec();
        Ok(Self { parts, collation, values: BTreeMap::new() })
    }

    /// Adds the values of one document.
    ///
    /// # Errors
    /// `InvalidBSON` when raw bytes cannot be decoded.
    pub fn add<'a>(&mut self, document: impl Into<DocView<'a>>) -> Result<()> {
        let mut found = Vec::new();
        follow(document.into(), &self.parts, &mut found);
        for value in found {
            if let Entry::Vacant(entry) = self.values.entry(encode(value, self.collation.as_ref())) {
                entry.insert(value.to_bson()?);
            }
        }
        Ok(())
    }

    /// The values, in their order.
    pub fn finish(self) -> Vec<Bson> {
        self.values.into_values().collect()
    }
}

fn follow<'a>(document: DocView<'a>, parts: &[Box<str>], found: &mut Vec<View<'a>>) {
    let Some((first, rest)) = parts.split_first() else { return };
    match document.get(first) {
        None => {}
        Some(View::Array(array)) if rest.is_empty() => found.extend(array.iter()),
        Some(value) if rest.is_empty() => found.push(value),
        Some(View::Document(inner)) => follow(inner, rest, found),
        Some(View::Array(array)) => through(array, rest, found),
        Some(_) => {}
    }
}

fn through<'a>(array: ArrayView<'a>, rest: &[Box<str>], found: &mut Vec<View<'a>>) {
    let position = rest[0].bytes().all(|byte| byte.is_ascii_digit());
    if position {
        follow(array.as_positions(), rest, found);
        return;
    }
    for element in array.iter() {
        if let View::Document(inner) = element {
            follow(inner, rest, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, bson, doc};

    #[test]
    fn values() {
        let check = |path: &str, documents: &[Document], want: Bson| {
            let mut distinct = Distinct::new(path, None).unwrap();
            documents.iter().for_each(|document| distinct.add(document).unwrap());
            assert_eq!(Bson::Array(distinct.finish()), want);
        };
        let documents = [
            doc! { "a": "4" },
            doc! { "a": [1, 5] },
            doc! { "a": 1.0 },
            doc! { "a": null },
            doc! { "a": [[1, 2]] },
            doc! {},
        ];
        check("a", &documents, bson!([null, 1, 5, "4", [1, 2]]));
        let nested = [doc! { "a": [{ "b": 1 }, { "b": [2, 3] }, 4] }, doc! { "a": { "b": 0 } }];
        check("a.b", &nested, bson!([0, 1, 2, 3]));
        check("a.1.b", &nested, bson!([2, 3]));
    }
}
