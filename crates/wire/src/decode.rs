//! Decoding of documents whose bytes have been validated.
//!
//! It gives what the `bson` library gives, and is quicker for what replies and commands are made of: the library makes an
//! undecoded copy of each nested document first. Rarer types are left to it.

use bson::oid::ObjectId;
use bson::raw::RawDocument;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, Timestamp};

use crate::scan::{self, Field, MAX_DEPTH, kind};

/// The subtype of binary data that was replaced by the generic one.
const BINARY_OLD: u8 = 2;

/// Decodes a document.
///
/// # Errors
/// When the bytes are no BSON, or nested deeper than [`MAX_DEPTH`].
pub fn decode(bytes: &[u8]) -> bson::error::Result<Document> {
    match document(bytes, 0) {
        Some(document) => Ok(document),
        // It says what is wrong.
        None => Document::try_from(RawDocument::from_bytes(bytes)?),
    }
}

/// `None`: the library has to look at it.
fn document(bytes: &[u8], depth: usize) -> Option<Document> {
    let mut document = Document::new();
    for field in scan::fields(bytes) {
        let field = field.ok()?;
        document.insert(std::str::from_utf8(field.name).ok()?, value(&field, depth)?);
    }
    Some(document)
}

fn array(bytes: &[u8], depth: usize) -> Option<Vec<Bson>> {
    scan::fields(bytes).map(|field| value(&field.ok()?, depth)).collect()
}

fn value(field: &Field<'_>, depth: usize) -> Option<Bson> {
    let value = field.value;
    if depth >= MAX_DEPTH {
        return None;
    }
    Some(match field.kind {
        kind::DOUBLE => Bson::Double(f64::from_le_bytes(value.try_into().ok()?)),
        kind::STRING => Bson::String(scan::text(value)?.to_owned()),
        kind::DOCUMENT => Bson::Document(document(value, depth + 1)?),
        kind::ARRAY => Bson::Array(array(value, depth + 1)?),
        kind::OBJECT_ID => Bson::ObjectId(ObjectId::from_bytes(value.try_into().ok()?)),
        // The old subtype has a length of its own within: rare.
        kind::BINARY if value.get(4) != Some(&BINARY_OLD) => {
            let (subtype, bytes) = value.get(4..)?.split_first()?;
            Bson::Binary(Binary { subtype: BinarySubtype::from(*subtype), bytes: bytes.to_vec() })
        }
        kind::BOOL => Bson::Boolean(*value.first()? != 0),
        kind::DATE => Bson::DateTime(DateTime::from_millis(i64::from_le_bytes(value.try_into().ok()?))),
        kind::NULL => Bson::Null,
        kind::INT => Bson::Int32(i32::from_le_bytes(value.try_into().ok()?)),
        kind::TIMESTAMP => {
            let (increment, time) = value.split_first_chunk::<4>()?;
            let time = u32::from_le_bytes(time.try_into().ok()?);
            Bson::Timestamp(Timestamp { time, increment: u32::from_le_bytes(*increment) })
        }
        kind::LONG => Bson::Int64(i64::from_le_bytes(value.try_into().ok()?)),
        _ => rare(field)?,
    })
}

/// A value of another type, through a document of its own.
fn rare(field: &Field<'_>) -> Option<Bson> {
    let size = 4 + 1 + 1 + field.value.len() + 1;
    let mut alone = Vec::with_capacity(size);
    alone.extend(i32::try_from(size).ok()?.to_le_bytes());
    alone.extend([field.kind, 0]);
    alone.extend(field.value);
    alone.push(0);
    let mut decoded = Document::try_from(RawDocument::from_bytes(&alone).ok()?).ok()?;
    decoded.remove("")
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};
    use proptest::prelude::*;

    use super::*;

    /// The library's decoding is right by definition.
    fn check(bytes: &[u8]) {
        let expected = RawDocument::from_bytes(bytes).and_then(Document::try_from);
        match (decode(bytes), expected) {
            (Ok(decoded), Ok(expected)) => {
                assert_eq!(decoded.to_vec().unwrap(), expected.to_vec().unwrap());
            }
            (decoded, expected) => assert_eq!(decoded.is_ok(), expected.is_ok(), "{decoded:?} {expected:?}"),
        }
    }

    #[test]
    fn all_types_decode_as_by_the_library() {
        let inner = doc! { "a": [1, 2_i64, 0.5, { "b": Bson::Null }], "": true, "é": "ü" };
        let document = doc! {
            "inner": inner.clone(), "id": ObjectId::from_bytes([7; 12]), "date": DateTime::from_millis(-5),
            "stamp": Timestamp { time: 7, increment: 9 },
            "regex": bson::Regex { pattern: bson::cstr!("a.b").into(), options: bson::cstr!("i").into() },
            "binary": bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![1; 16] },
            "code": Bson::JavaScriptCode("x".to_owned()),
            "scoped": bson::JavaScriptCodeWithScope { code: "x".to_owned(), scope: inner },
            "decimal": "12.5".parse::<bson::Decimal128>().unwrap(), "min": Bson::MinKey, "max": Bson::MaxKey,
            "undefined": Bson::Undefined, "symbol": Bson::Symbol("s".to_owned()),
        };
        assert_eq!(decode(&document.to_vec().unwrap()).unwrap(), document);
        check(&document.to_vec().unwrap());
    }

    #[test]
    fn a_field_that_stands_twice_is_the_last_one() {
        let twice = rawdoc! { "a": 1, "b": 2, "a": 3 };
        check(twice.as_bytes());
    }

    #[test]
    fn deep_nesting_is_no_deep_recursion() {
        let mut deep = doc! {};
        for _ in 0..(MAX_DEPTH - 1) {
            deep = doc! { "a": deep };
        }
        check(&deep.to_vec().unwrap());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_decode_as_by_the_library(kind in any::<u8>(), value in prop::collection::vec(any::<u8>(), 0..40)) {
            let size = (4 + 1 + 2 + value.len() + 1) as i32;
            let mut bytes = size.to_le_bytes().to_vec();
            bytes.extend([kind % 20, b'k', 0]);
            bytes.extend(&value);
            bytes.push(0);
            check(&bytes);
        }
    }
}
