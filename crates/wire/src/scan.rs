//! A scanner over raw BSON: fields as borrowed slices, and a validation that makes every later read safe.
//!
//! The rules and texts are a mongod's (`validateBSON`): a document that passes [`validate`] has lengths that add up,
//! terminated names and strings, known types and bounded nesting, all the way down.

use std::fmt;

/// How deep documents may nest (a mongod's `BSONDepth::kDefaultMaxAllowableDepth`).
pub const MAX_DEPTH: usize = 200;

/// BSON element types by their number on the wire.
pub mod kind {
    #![allow(missing_docs)]
    pub const DOUBLE: u8 = 0x01;
    pub const STRING: u8 = 0x02;
    pub const DOCUMENT: u8 = 0x03;
    pub const ARRAY: u8 = 0x04;
    pub const BINARY: u8 = 0x05;
    pub const UNDEFINED: u8 = 0x06;
    pub const OBJECT_ID: u8 = 0x07;
    pub const BOOL: u8 = 0x08;
    pub const DATE: u8 = 0x09;
    pub const NULL: u8 = 0x0a;
    pub const REGEX: u8 = 0x0b;
    pub const DB_POINTER: u8 = 0x0c;
    pub const JAVASCRIPT: u8 = 0x0d;
    pub const SYMBOL: u8 = 0x0e;
    pub const JAVASCRIPT_WITH_SCOPE: u8 = 0x0f;
    pub const INT: u8 = 0x10;
    pub const TIMESTAMP: u8 = 0x11;
    pub const LONG: u8 = 0x12;
    pub const DECIMAL: u8 = 0x13;
    pub const MIN_KEY: u8 = 0xff;
    pub const MAX_KEY: u8 = 0x7f;
}

/// Why bytes are not BSON (code 22 `InvalidBSON`, or 15 `Overflow` for nesting).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanError {
    /// What is wrong, in a mongod's words.
    pub what: &'static str,
    /// The field it was found in, when there was one.
    pub field: Option<String>,
}

impl ScanError {
    /// Whether the document is only nested too deeply (code 15 instead of 22).
    pub fn is_too_deep(&self) -> bool {
        self.what == TOO_DEEP
    }
}

const TOO_DEEP: &str = "BSONObj exceeded maximum nested object depth";

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if let Some(field) = &self.field {
            write!(f, " in element with field name '{field}'")?;
        }
        f.write_str(" in object with unknown _id")
    }
}

impl std::error::Error for ScanError {}

/// One field of a document, as slices of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its type: see [`kind`].
    pub kind: u8,
    /// Its value's bytes, without type and name.
    pub value: &'a [u8],
    /// Where the element (type, name, value) starts in the document.
    pub start: usize,
}

/// The length a document claims in its first four bytes, when it is possible at all within `bytes`.
///
/// # Errors
/// When fewer bytes are there than the document claims, or the claim is below the minimum of 5.
pub fn document_length(bytes: &[u8]) -> Result<usize, ScanError> {
    let claim = bytes.first_chunk::<4>().map(|first| i32::from_le_bytes(*first));
    match claim {
        Some(length) if length >= 5 && length as usize <= bytes.len() => Ok(length as usize),
        _ => Err(ScanError { what: "invalid bson", field: None }),
    }
}

/// The fields of a document, in order. Stops after the first error.
pub fn fields(document: &[u8]) -> Fields<'_> {
    match document_length(document) {
        Ok(length) if document[length - 1] == 0 => Fields { elements: &document[..length - 1], at: 4, failed: None },
        Ok(_) => Fields { elements: &[], at: 0, failed: Some(ScanError { what: "invalid bson", field: None }) },
        Err(error) => Fields { elements: &[], at: 0, failed: Some(error) },
    }
}

/// The field called `name`, if the document has it and is readable up to there.
pub fn field<'a>(document: &'a [u8], name: &str) -> Option<Field<'a>> {
    fields(document).map_while(Result::ok).find(|field| field.name == name.as_bytes())
}

/// The text of a string's value, which is a length, the text, and a zero byte; `None` when it is not UTF-8.
pub fn text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value.get(4..value.len().checked_sub(1)?)?).ok()
}

/// Iterator of [`fields`].
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    /// The document without its closing zero byte.
    elements: &'a [u8],
    at: usize,
    failed: Option<ScanError>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let start = self.at;
        let kind = *self.elements.get(start)?;
        let rest = &self.elements[start + 1..];
        let Some(name_length) = memchr_zero(rest) else {
            self.at = self.elements.len();
            return Some(Err(ScanError { what: "invalid bson", field: None }));
        };
        let name = &rest[..name_length];
        let value = &rest[name_length + 1..];
        match value_length(kind, value) {
            Ok(length) => {
                self.at = start + 1 + name_length + 1 + length;
                Some(Ok(Field { name, kind, value: &value[..length], start }))
            }
            Err(what) => {
                self.at = self.elements.len();
                Some(Err(ScanError { what, field: Some(String::from_utf8_lossy(name).into_owned()) }))
            }
        }
    }
}

fn memchr_zero(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == 0)
}

/// The length of a value of type `kind` at the front of `bytes`.
fn value_length(kind: u8, bytes: &[u8]) -> Result<usize, &'static str> {
    const INVALID: &str = "invalid bson";
    let fixed = |length: usize| if bytes.len() >= length { Ok(length) } else { Err(INVALID) };
    let counted = |at: usize| -> Result<usize, &'static str> {
        let count = bytes.get(at..at + 4).ok_or(INVALID)?;
        usize::try_from(i32::from_le_bytes(count.try_into().expect("four bytes"))).map_err(|_| INVALID)
    };
    let string = |at: usize| -> Result<usize, &'static str> {
        let length = counted(at)?;
        if length < 1 || length > bytes.len() - at - 4 {
            return Err("invalid string length");
        }
        if bytes[at + 4 + length - 1] != 0 {
            return Err("Not null terminated string");
        }
        Ok(at + 4 + length)
    };
    match kind {
        kind::DOUBLE | kind::DATE | kind::TIMESTAMP | kind::LONG => fixed(8),
        kind::STRING | kind::JAVASCRIPT | kind::SYMBOL => string(0),
        kind::DOCUMENT | kind::ARRAY => {
            let length = counted(0)?;
            if length < 5 || length > bytes.len() { Err(INVALID) } else { Ok(length) }
        }
        kind::BINARY => {
            let length = counted(0)?;
            // The length, one byte of subtype, and the bytes.
            if bytes.len() < 5 || length > bytes.len() - 5 { Err(INVALID) } else { Ok(5 + length) }
        }
        kind::UNDEFINED | kind::NULL | kind::MIN_KEY | kind::MAX_KEY => Ok(0),
        kind::OBJECT_ID => fixed(12),
        kind::BOOL => match bytes.first() {
            Some(0 | 1) => Ok(1),
            _ => Err("invalid boolean value"),
        },
        kind::REGEX => {
            let pattern = memchr_zero(bytes).ok_or(INVALID)?;
            let options = memchr_zero(&bytes[pattern + 1..]).ok_or(INVALID)?;
            Ok(pattern + 1 + options + 1)
        }
        kind::DB_POINTER => {
            let end = string(0)?;
            if bytes.len() >= end + 12 { Ok(end + 12) } else { Err(INVALID) }
        }
        kind::JAVASCRIPT_WITH_SCOPE => {
            let length = counted(0)?;
            if length < 4 + 4 + 1 + 5 || length > bytes.len() {
                return Err(INVALID);
            }
            let code_end = string(4)?;
            if code_end > length || document_length(&bytes[code_end..length]) != Ok(length - code_end) {
                return Err(INVALID);
            }
            Ok(length)
        }
        kind::INT => fixed(4),
        kind::DECIMAL => fixed(16),
        _ => Err("Unrecognized BSON type"),
    }
}

/// Checks a whole document and returns its length in bytes. `bytes` may be longer.
///
/// # Errors
/// The first thing wrong with it.
pub fn validate(bytes: &[u8]) -> Result<usize, ScanError> {
    let length = match document_length(bytes) {
        Ok(length) => length,
        Err(error) => {
            // Cut off: a mongod names the field in which the bytes end, so look for it.
            let mut cut_off = Fields { elements: bytes, at: 4, failed: None };
            return Err(cut_off.find_map(Result::err).unwrap_or(error));
        }
    };
    validate_at(&bytes[..length], 1)?;
    Ok(length)
}

/// The bytes of a field that must be UTF-8. (A mongod does not look; here it is checked once, so that no later read can
/// fail: docs/differences.md.)
fn text_of<'a>(field: &Field<'a>) -> &'a [u8] {
    match field.kind {
        kind::STRING | kind::JAVASCRIPT | kind::SYMBOL => &field.value[4..field.value.len() - 1],
        kind::REGEX => field.value,
        kind::DB_POINTER => &field.value[4..field.value.len() - 13],
        kind::JAVASCRIPT_WITH_SCOPE => {
            let code = i32::from_le_bytes(field.value[4..8].try_into().expect("four bytes")) as usize;
            &field.value[8..8 + code - 1]
        }
        _ => &[],
    }
}

/// Whether bytes are UTF-8. Most are ASCII, which is told sooner.
fn is_text(bytes: &[u8]) -> bool {
    bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()
}

fn validate_at(document: &[u8], depth: usize) -> Result<(), ScanError> {
    if depth > MAX_DEPTH {
        return Err(ScanError { what: TOO_DEEP, field: None });
    }
    for field in fields(document) {
        let field = field?;
        let name = || Some(String::from_utf8_lossy(field.name).into_owned());
        if !is_text(field.name) || !is_text(text_of(&field)) {
            return Err(ScanError { what: "invalid UTF-8", field: name() });
        }
        match field.kind {
            kind::DOCUMENT | kind::ARRAY => {
                if document_length(field.value)? != field.value.len() {
                    return Err(ScanError { what: "invalid bson", field: name() });
                }
                validate_at(field.value, depth + 1)?;
            }
            kind::JAVASCRIPT_WITH_SCOPE => {
                let code = i32::from_le_bytes(field.value[4..8].try_into().expect("four bytes")) as usize;
                validate_at(&field.value[8 + code..], depth + 1)?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, Document, doc};

    fn bytes(document: &Document) -> Vec<u8> {
        document.to_vec().unwrap()
    }

    fn everything() -> Document {
        doc! {
            "d": 1.5, "s": "x", "o": {"a": [1, {"b": 2}]}, "bin": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1, 2] },
            "u": Bson::Undefined, "oid": bson::oid::ObjectId::from_bytes([1; 12]), "t": true, "dt": bson::DateTime::from_millis(5), "n": Bson::Null,
            "r": bson::Regex { pattern: "a".try_into().unwrap(), options: "i".try_into().unwrap() }, "js": Bson::JavaScriptCode("f".into()), "sym": Bson::Symbol("s".into()),
            "jss": Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope { code: "f".into(), scope: doc! {"x": 1} }),
            "i": 1, "ts": bson::Timestamp { time: 1, increment: 2 }, "l": 3_i64, "min": Bson::MinKey, "max": Bson::MaxKey,
        }
    }

    #[test]
    fn every_type_is_walked() {
        let raw = bytes(&everything());
        assert_eq!(validate(&raw), Ok(raw.len()));
        let names: Vec<_> =
            fields(&raw).map(|field| String::from_utf8(field.unwrap().name.to_vec()).unwrap()).collect();
        assert_eq!(names, everything().keys().cloned().collect::<Vec<_>>());
        assert_eq!(field(&raw, "l").unwrap().value, 3_i64.to_le_bytes());
        assert_eq!(field(&raw, "nope"), None);
    }

    #[test]
    fn a_truncated_document_is_an_error_at_every_cut() {
        let raw = bytes(&everything());
        for cut in 0..raw.len() {
            let mut short = raw[..cut].to_vec();
            assert!(validate(&short).is_err(), "cut at {cut}");
            if cut >= 5 {
                // The same with a length that agrees with the cut: the inner lengths lie instead.
                short[..4].copy_from_slice(&(cut as i32).to_le_bytes());
                let _ = validate(&short);
                let _ = fields(&short).count();
            }
        }
    }

    /// Found by the fuzz target `wire_frame`: a binary value of four zero bytes, which has no room for its subtype.
    #[test]
    fn a_value_of_any_type_that_ends_anywhere_is_read_or_refused() {
        for kind in 0..=u8::MAX {
            for length in 0..24_usize {
                for filler in [0, 1, 5, 9, 14, 0x7f, 0xff] {
                    for claim in [-1, 0, 1, 4, 5, 8, 13, 14, 18, i32::MAX] {
                        let mut raw = vec![0, 0, 0, 0, kind, b'a', 0];
                        let value = i32::to_le_bytes(claim).into_iter().chain([filler].into_iter().cycle());
                        raw.extend(value.take(length));
                        let cut_off = validate(&raw);
                        raw.push(0);
                        let size_bytes = raw.len();
                        raw[..4].copy_from_slice(&i32::to_le_bytes(size_bytes as i32));
                        assert!(cut_off.is_err(), "{raw:?}");
                        assert!(validate(&raw).is_err() || fields(&raw).all(|field| field.is_ok()), "{raw:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_text_for_a_truncated_field_is_mongods() {
        // Golden frame `truncated_bson`: a document that claims 100 bytes and ends inside field `a`.
        let error = validate(&[100, 0, 0, 0, kind::DOUBLE, b'a', 0]).unwrap_err();
        assert_eq!(error.to_string(), "invalid bson in element with field name 'a' in object with unknown _id");
    }

    #[test]
    fn text_must_be_utf8() {
        let mut raw = bytes(&doc! {"s": "xy"});
        let at = raw.iter().position(|byte| *byte == b'x').unwrap();
        raw[at] = 0xff;
        assert_eq!(validate(&raw), Err(ScanError { what: "invalid UTF-8", field: Some("s".into()) }));
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth: usize| (1..depth).fold(doc! {}, |inner, _| doc! { "a": inner });
        assert!(validate(&bytes(&nested(MAX_DEPTH))).is_ok());
        assert!(validate(&bytes(&nested(MAX_DEPTH + 1))).unwrap_err().is_too_deep());
    }
}
