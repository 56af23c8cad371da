//! Field paths of the aggregation language: no array positions, no dollar signs.

use bson::Bson;

use super::lent::Lent;
use crate::error::{Result, fail};
use crate::value::{ArrayView, DocView, View};

/// The longest path, in parts.
const MAX_PARTS: usize = 200;

/// A checked path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldPath {
    parts: Vec<Box<str>>,
}

/// Checks one field name.
///
/// # Errors
/// 15998, 16410, 16411 or 16412, as a mongod reports them.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return fail(15998, "FieldPath field names may not be empty strings.");
    }
    if name.starts_with('$') {
        return fail(16410, "FieldPath field names may not start with '$'.");
    }
    if name.contains('\0') {
        return fail(16411, "FieldPath field names may not contain '\\0'.");
    }
    if name.contains('.') {
        return fail(16412, "FieldPath field names may not contain '.'.");
    }
    Ok(())
}

impl FieldPath {
    /// Parses `a.b`.
    ///
    /// # Errors
    /// 40352, 40353, or those of [`check_name`].
    pub(crate) fn parse(path: &str) -> Result<Self> {
        if path.is_empty() {
            return fail(40352, "FieldPath cannot be constructed with empty string");
        }
        if path.ends_with('.') {
            return fail(40353, "FieldPath must not end with a '.'.");
        }
        let parts: Vec<Box<str>> = path.split('.').map(Into::into).collect();
        if parts.len() > MAX_PARTS {
            return fail(15, "FieldPath is too long");
        }
        parts.iter().try_for_each(|part| check_name(part))?;
        Ok(Self { parts })
    }

    /// Its parts.
    pub(crate) fn parts(&self) -> &[Box<str>] {
        &self.parts
    }

    /// The path as written.
    pub(crate) fn dotted(&self) -> String {
        self.parts.join(".")
    }

    /// The value at the path. An array on the way gives the array of what the path leads to in its documents.
    pub(crate) fn get<'a>(&self, document: DocView<'a>) -> Lent<'a> {
        follow(document, &self.parts)
    }
}

/// Follows `parts` from a document.
pub(crate) fn follow<'a>(document: DocView<'a>, parts: &[Box<str>]) -> Lent<'a> {
    let mut document = document;
    let Some((last, way)) = parts.split_last() else { return Lent::View(View::Document(document)) };
    for (at, part) in way.iter().enumerate() {
        match document.get(part) {
            Some(View::Document(inner)) => document = inner,
            Some(View::Array(array)) => return through_array(array, &parts[at + 1..]),
            _ => return Lent::Missing,
        }
    }
    document.get(last).map_or(Lent::Missing, Lent::View)
}

/// Follows `parts` from a value.
pub(crate) fn follow_value<'a>(value: View<'a>, parts: &[Box<str>]) -> Lent<'a> {
    if parts.is_empty() {
        return Lent::View(value);
    }
    match value {
        View::Document(document) => follow(document, parts),
        View::Array(array) => through_array(array, parts),
        _ => Lent::Missing,
    }
}

fn through_array<'a>(array: ArrayView<'a>, parts: &[Box<str>]) -> Lent<'a> {
    let mut found = Vec::new();
    for element in array.iter() {
        if let View::Document(document) = element
            && let Ok(Some(value)) = follow(document, parts).into_value()
        {
            found.push(value);
        }
    }
    Lent::Owned(Bson::Array(found))
}
