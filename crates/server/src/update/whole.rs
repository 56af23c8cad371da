//! A replacement by its bytes: most have nothing that has to be taken apart.

use backfire_wire::scan::{self, Field, kind};
use backfire_wire::with_id;
use bson::RawDocument;
use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;

/// How deep a replacement may nest to be taken as it is.
const DEPTH_MAX: u32 = 100;

/// The document that `replacement` makes: with the `_id` of `before` (a document with an `_id`, of which only that counts), else
/// its own, else `generated`; and with that first. `None`: there is none of them, or something of it has to be looked at more
/// closely, such as a name that begins with a dollar sign, a zero timestamp, or another `_id` than that of `before`.
pub(super) fn document(
    replacement: &RawDocument,
    before: Option<&RawDocument>,
    generated: Option<ObjectId>,
) -> Option<RawDocumentBuf> {
    let bytes = replacement.as_bytes();
    let mut own: Option<(usize, Field<'_>)> = None;
    for (at, field) in scan::fields(bytes).enumerate() {
        let field = field.ok()?;
        if field.name == b"_id" {
            if own.is_some() {
                return None;
            }
            own = Some((at, field));
        } else if field.kind == kind::TIMESTAMP && field.value == [0; 8] {
            return None;
        }
        is_plain(&field, DEPTH_MAX).then_some(())?;
    }
    let given = match before {
        Some(before) => Some(scan::field(before.as_bytes(), "_id")?),
        None => None,
    };
    for id in [given, own.map(|(_, own)| own)].into_iter().flatten() {
        let is_id = !matches!(id.kind, kind::ARRAY | kind::REGEX | kind::UNDEFINED) && is_plain(&id, DEPTH_MAX);
        is_id.then_some(())?;
    }
    let stored = match (given, own) {
        (Some(given), Some((_, own))) if (given.kind, given.value) != (own.kind, own.value) => return None,
        (_, Some((0, _))) => bytes.to_vec(),
        (_, Some((_, own))) => {
            let end = own.start + element_len(&own);
            let mut stored = Vec::with_capacity(bytes.len());
            stored.extend_from_slice(&bytes[..4]);
            stored.extend_from_slice(&bytes[own.start..end]);
            stored.extend_from_slice(&bytes[4..own.start]);
            stored.extend_from_slice(&bytes[end..]);
            stored
        }
        (Some(given), None) => with_id(bytes, given.kind, given.value)?,
        (None, None) => with_id(bytes, kind::OBJECT_ID, &generated?.bytes())?,
    };
    RawDocumentBuf::from_bytes(stored).ok()
}

/// The length of an element: type, name, zero, value.
fn element_len(field: &Field<'_>) -> usize {
    1 + field.name.len() + 1 + field.value.len()
}

/// Whether no name in a field begins with a dollar sign, and it is not nested too deeply.
fn is_plain(field: &Field<'_>, depth: u32) -> bool {
    if field.name.first() == Some(&b'$') {
        return false;
    }
    match field.kind {
        kind::DOCUMENT | kind::ARRAY => {
            depth > 0 && scan::fields(field.value).all(|inner| inner.is_ok_and(|inner| is_plain(&inner, depth - 1)))
        }
        // Its scope is a document.
        kind::JAVASCRIPT_WITH_SCOPE => false,
        _ => true,
    }
}
