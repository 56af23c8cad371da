//! What the write commands read in the same way: batches, statement ids, documents to store.

use backfire_wire::scan;
use bson::oid::ObjectId;
use bson::{Bson, RawDocument};
use bytes::Bytes;

use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::value::View;

/// The largest document a client may store.
pub const DOCUMENT_MAX_BYTES: usize = 16 * 1024 * 1024;
/// How many statements one command may have.
const BATCH_MAX: usize = 100_000;
/// How deep a stored document may nest.
const STORED_MAX_DEPTH: usize = 180;
/// What a level of nesting takes at least: the type, an empty name and its end, the length and the end of the document.
const LEVEL_MIN_BYTES: usize = 7;

/// The statements of a write command, from an array in the body or from a document sequence.
///
/// # Errors
/// 40414 without the field, 10065 for another type, 14 for an element that is no document, 16 for a bad number of
/// statements.
pub fn batch(request: &Request, command: &str, field: &str) -> Result<Vec<Bytes>> {
    let statements = match request.sequence(field) {
        Some(sequence) => sequence.iter().collect::<Vec<_>>(),
        None => match request.get(field) {
            None => return Err(crate::commands::idl::missing(command, field)),
            Some(View::Array(_)) => array_elements(request, command, field)?,
            Some(_) => {
                return Err(CommandError::new(10065, format!("invalid parameter: expected an object ({field})")));
            }
        },
    };
    if statements.is_empty() || statements.len() > BATCH_MAX {
        return Err(CommandError::new(
            16,
            format!("Write batch sizes must be between 1 and {BATCH_MAX}. Got {} operations.", statements.len()),
        ));
    }
    Ok(statements)
}

fn array_elements(request: &Request, command: &str, field: &str) -> Result<Vec<Bytes>> {
    let Some(array) = scan::field(request.body(), field) else { return Ok(Vec::new()) };
    scan::fields(array.value)
        .map(|element| match element {
            Ok(element) if element.kind == scan::kind::DOCUMENT => Ok(request.body().slice_ref(element.value)),
            Ok(element) => Err(CommandError::type_mismatch(format!(
                "BSON field '{command}.{field}.{}' is the wrong type '{}', expected type 'object'",
                String::from_utf8_lossy(element.name),
                crate::value::Kind::by_code(i64::from(element.kind as i8)).map_or("unknown", crate::value::Kind::name)
            ))),
            Err(error) => Err(CommandError::new(22, error.to_string())),
        })
        .collect()
}

/// The statement ids of a write command of `count` statements (facts/server.md 2.3).
///
/// # Errors
/// 16 when their number is another, 72 when both spellings are used.
pub fn statement_ids(request: &Request, count: usize) -> Result<Vec<i32>> {
    let list = request.get("stmtIds").and_then(View::as_array);
    let base = request.get("stmtId").and_then(crate::commands::idl::whole_number);
    match (list, base) {
        (Some(_), Some(_)) => Err(CommandError::new(72, "May not specify both stmtId and stmtIds in write command")),
        (Some(list), None) => {
            let ids: Vec<i32> = list
                .iter()
                .filter_map(crate::commands::idl::whole_number)
                .filter_map(|id| i32::try_from(id).ok())
                .collect();
            if ids.len() == count {
                Ok(ids)
            } else {
                Err(CommandError::new(16, "Number of statement ids must match the number of batch entries"))
            }
        }
        (None, base) => {
            let base = base.and_then(|base| i32::try_from(base).ok()).unwrap_or(0);
            Ok((0..count as i32).map(|index| base.saturating_add(index)).collect())
        }
    }
}

/// A document as it is stored: with an `_id`, and that first. `None` when it can stay as it is. `dollar_fields`: whether
/// the names of its fields may begin with `$`.
///
/// # Errors
/// 2 when it is too large, has a bad `_id` or a field name that may not be stored; 15 when it nests too deeply.
pub fn document_to_store(
    document: &[u8],
    dollar_fields: bool,
    new_id: impl FnOnce() -> ObjectId,
) -> Result<Option<Vec<u8>>> {
    if document.len() > DOCUMENT_MAX_BYTES {
        return Err(CommandError::bad_value(format!(
            "object to insert too large. size in bytes: {}, max size: {DOCUMENT_MAX_BYTES}",
            document.len()
        )));
    }
    let may_be_deep = document.len() > STORED_MAX_DEPTH * LEVEL_MIN_BYTES;
    if may_be_deep && depth(document, 1) > STORED_MAX_DEPTH {
        return Err(CommandError::new(
            15,
            format!("cannot insert document because it exceeds {STORED_MAX_DEPTH} levels of nesting"),
        ));
    }
    let mut id: Option<(usize, scan::Field<'_>)> = None;
    for (at, field) in scan::fields(document).enumerate() {
        let field = field.map_err(|error| CommandError::new(22, error.to_string()))?;
        if field.name.first() == Some(&b'$') && !dollar_fields {
            let name = String::from_utf8_lossy(field.name);
            return Err(CommandError::bad_value(format!("Document can't have $ prefixed field names: {name}")));
        }
        if field.name == b"_id" {
            if id.is_some() {
                return Err(CommandError::bad_value("can't have multiple _id fields in one document"));
            }
            check_id(field.kind, field.value)?;
            id = Some((at, field));
        }
    }
    match id {
        Some((0, _)) => Ok(None),
        Some((_, field)) => {
            let element = &document[field.start..field.start + 1 + field.name.len() + 1 + field.value.len()];
            let mut stored = Vec::with_capacity(document.len());
            stored.extend_from_slice(&document[..4]);
            stored.extend_from_slice(element);
            stored.extend_from_slice(&document[4..field.start]);
            stored.extend_from_slice(&document[field.start + element.len()..]);
            Ok(Some(stored))
        }
        None => {
            let mut stored = Vec::with_capacity(document.len() + 17);
            stored.extend_from_slice(&(document.len() as i32 + 17).to_le_bytes());
            stored.push(scan::kind::OBJECT_ID);
            stored.extend_from_slice(b"_id\0");
            stored.extend_from_slice(&new_id().bytes());
            stored.extend_from_slice(&document[4..]);
            Ok(Some(stored))
        }
    }
}

/// `_id` of a document; null without one.
pub fn id_of(document: &RawDocument) -> Bson {
    let id = document.get("_id").ok().flatten().map(View::from);
    id.and_then(|id| id.to_bson().ok()).unwrap_or(Bson::Null)
}

/// Whether a value may be an `_id`.
///
/// # Errors
/// 2 for a regex, an array or undefined; 52 for a document with `$` fields.
fn check_id(kind: u8, value: &[u8]) -> Result<()> {
    let named = match kind {
        scan::kind::REGEX => "a regex",
        scan::kind::ARRAY => "an array",
        scan::kind::UNDEFINED => "a undefined",
        scan::kind::DOCUMENT => {
            let dollar =
                scan::fields(value).filter_map(std::result::Result::ok).find(|field| field.name.first() == Some(&b'$'));
            return match dollar {
                Some(field) => {
                    let name = String::from_utf8_lossy(field.name);
                    Err(CommandError::new(
                        52,
                        format!("_id fields may not contain '$'-prefixed fields: {name} is not valid for storage."),
                    ))
                }
                None => Ok(()),
            };
        }
        _ => return Ok(()),
    };
    Err(CommandError::bad_value(format!("can't use {named} for _id")))
}

fn depth(document: &[u8], at: usize) -> usize {
    if at > STORED_MAX_DEPTH {
        return at;
    }
    scan::fields(document)
        .filter_map(std::result::Result::ok)
        .filter(|field| matches!(field.kind, scan::kind::DOCUMENT | scan::kind::ARRAY))
        .map(|field| depth(field.value, at + 1))
        .max()
        .unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, doc};

    fn stored(document: Document) -> std::result::Result<Document, (i32, String)> {
        let raw = document.to_vec().unwrap();
        match document_to_store(&raw, false, || ObjectId::from_bytes([7; 12])) {
            Ok(Some(bytes)) => Ok(Document::from_reader(&bytes[..]).unwrap()),
            Ok(None) => Ok(document),
            Err(error) => Err((error.code, error.message)),
        }
    }

    fn fields(document: &Document) -> Vec<(String, Bson)> {
        document.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    #[test]
    fn id_is_first_in_what_is_stored() {
        let id = Bson::ObjectId(ObjectId::from_bytes([7; 12]));
        for (document, expected) in [
            (doc! {"_id": 1, "a": 2}, doc! {"_id": 1, "a": 2}),
            (doc! {"a": 2, "_id": "x", "b": [1]}, doc! {"_id": "x", "a": 2, "b": [1]}),
            (doc! {"a": 2}, doc! {"_id": id.clone(), "a": 2}),
            (doc! {}, doc! {"_id": id.clone()}),
        ] {
            assert_eq!(fields(&stored(document).unwrap()), fields(&expected));
        }
    }

    #[test]
    fn what_cannot_be_stored_is_refused() {
        let nested = |levels: usize, name: &str| (1..levels).fold(doc! {}, |inner, _| doc! { name: inner });
        let (deep, deep_and_short) = (nested(182, "a"), nested(181, ""));
        for (document, code) in [
            (doc! {"$a": 1}, 2),
            (doc! {"_id": [1]}, 2),
            (doc! {"_id": {"$x": 1}}, 52),
            (doc! {"a": "x".repeat(DOCUMENT_MAX_BYTES)}, 2),
            (deep, 15),
            (deep_and_short, 15),
        ] {
            assert_eq!(stored(document).unwrap_err().0, code);
        }
    }
}
