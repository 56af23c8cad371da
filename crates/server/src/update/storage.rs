//! What may be stored, and when two values are the same to the byte.

use bson::{Bson, Document, Timestamp};

use crate::error::{Result, fail};
use crate::value::View;

/// Documents in a collection are not nested deeper than this.
const MAX_DEPTH: usize = 180;

/// Where names of fields may begin with a dollar sign, outside of document references. In `_id` they never may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DollarFields {
    /// Nowhere.
    Refused,
    /// Below the top level.
    Inside,
    /// Everywhere.
    Anywhere,
}

impl DollarFields {
    fn allowed_at(self, path: &str, depth: usize) -> bool {
        let in_id = path == "_id" || path.starts_with("_id.");
        match self {
            DollarFields::Refused => false,
            DollarFields::Inside => depth > 1 && !in_id,
            DollarFields::Anywhere => !in_id,
        }
    }
}

/// Checks that a document may be stored: no field that starts with a dollar sign where there may be none, and not too
/// deep.
///
/// # Errors
/// `DollarPrefixedFieldName` (52), `InvalidDBRef` (55), `Overflow` (15).
pub fn check_document(document: &Document, dollars: DollarFields) -> Result<()> {
    check_fields(document, "", 1, dollars)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn check_fields(document: &Document, path: &str, depth: usize, dollars: DollarFields) -> Result<()> {
    if depth > MAX_DEPTH {
        return fail(15, "Document exceeds maximum nested object depth");
    }
    let mut before = "";
    for (name, value) in document {
        if name.starts_with('$') && !dollars.allowed_at(path, depth) {
            check_reference(document, name, before, value, path)?;
        }
        before = name;
        check_inside(value, &join(path, name), depth, dollars)?;
    }
    Ok(())
}

fn check_inside(value: &Bson, path: &str, depth: usize, dollars: DollarFields) -> Result<()> {
    match value {
        Bson::Document(document) => check_fields(document, path, depth + 1, dollars),
        Bson::Array(values) => {
            if depth >= MAX_DEPTH {
                return fail(15, "Document exceeds maximum nested object depth");
            }
            let each =
                |(at, value): (usize, &Bson)| check_inside(value, &join(path, &at.to_string()), depth + 1, dollars);
            values.iter().enumerate().try_for_each(each)
        }
        _ => Ok(()),
    }
}

/// A field that starts with a dollar sign: only `$ref`, `$id` and `$db`, in this order.
fn check_reference(document: &Document, name: &str, before: &str, value: &Bson, path: &str) -> Result<()> {
    match name {
        "$ref" => match value {
            Bson::String(_) if document.contains_key("$id") => Ok(()),
            Bson::String(_) => fail(55, "The DBRef $ref field must be following by a $id field"),
            other => {
                let found = View::from(other).type_name();
                fail(55, format!("The DBRef $ref field must be a String, not a {found}"))
            }
        },
        "$id" if before == "$ref" => Ok(()),
        "$id" => fail(55, "Found $id field without a $ref before it, which is invalid."),
        "$db" if before == "$id" => match value {
            Bson::String(_) => Ok(()),
            other => {
                let found = View::from(other).type_name();
                fail(55, format!("The DBRef $db field must be a String, not a {found}"))
            }
        },
        "$db" => fail(55, "Found $db field without a $id before it, which is invalid."),
        _ => {
            let whole = join(path, name);
            fail(52, format!("The dollar ($) prefixed field '{name}' in '{whole}' is not valid for storage."))
        }
    }
}

/// Checks a value that an operator put at `path`.
///
/// # Errors
/// As [`check_document`].
pub(super) fn check_value(value: &Bson, path: &str, dollars: DollarFields) -> Result<()> {
    for (at, name) in path.split('.').enumerate() {
        let above = path.split('.').next().filter(|_| at > 0).unwrap_or_default();
        if name.starts_with('$') && !dollars.allowed_at(above, at + 1) && !matches!(name, "$ref" | "$id" | "$db") {
            let upto: Vec<_> = path.split('.').take(at + 1).collect();
            let whole = upto.join(".");
            return fail(52, format!("The dollar ($) prefixed field '{name}' in '{whole}' is not valid for storage."));
        }
    }
    check_inside(value, path, path.split('.').count(), dollars)
}

/// Whether two values have the same type and bytes.
pub(super) fn identical(left: &Bson, right: &Bson) -> bool {
    match (left, right) {
        (Bson::Double(left), Bson::Double(right)) => left.to_bits() == right.to_bits(),
        (Bson::Document(left), Bson::Document(right)) => identical_documents(left, right),
        (Bson::Array(left), Bson::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| identical(left, right))
        }
        (Bson::JavaScriptCodeWithScope(left), Bson::JavaScriptCodeWithScope(right)) => {
            left.code == right.code && identical_documents(&left.scope, &right.scope)
        }
        (left, right) => left == right,
    }
}

/// Whether two documents have the same fields in the same order with identical values.
pub(super) fn identical_documents(left: &Document, right: &Document) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .all(|((left_name, left), (right_name, right))| left_name == right_name && identical(left, right))
}

/// The document with `_id` first: its own, or else `id`.
pub(super) fn with_id_first(mut document: Document, id: Bson) -> Document {
    if document.keys().next().is_some_and(|name| name == "_id") {
        return document;
    }
    let id = document.remove("_id").unwrap_or(id);
    let mut ordered = Document::new();
    ordered.insert("_id", id);
    ordered.extend(document);
    ordered
}

/// Gives the zero timestamps at the top of a document a value.
pub(super) fn set_zero_timestamps(document: &mut Document, now: Timestamp) {
    let zero = Timestamp { time: 0, increment: 0 };
    for (name, value) in document.iter_mut() {
        if *value == Bson::Timestamp(zero) && name != "_id" {
            *value = Bson::Timestamp(now);
        }
    }
}
