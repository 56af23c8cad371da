//! A borrowed BSON value, the same for raw bytes and for decoded values.
//!
//! Matching reads raw documents without decoding them; updates and expressions work on decoded ones. Both are read
//! through [`View`], so that an order, a rule or a text exists once.

use bson::oid::ObjectId;
use bson::raw::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf, RawIter};
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Decimal128, Document, RawBson, Regex, Timestamp};

use crate::error::{CommandError, Result};

/// A borrowed BSON value.
#[derive(Clone, Copy, Debug)]
pub enum View<'a> {
    /// 64-bit float.
    Double(f64),
    /// UTF-8 string.
    String(&'a str),
    /// Embedded document.
    Document(DocView<'a>),
    /// Array.
    Array(ArrayView<'a>),
    /// Bytes with a subtype.
    Binary {
        /// The subtype byte.
        subtype: u8,
        /// The bytes; for subtype 2 without the inner length.
        bytes: &'a [u8],
    },
    /// The deprecated undefined.
    Undefined,
    /// Twelve-byte object id.
    ObjectId(ObjectId),
    /// Boolean.
    Bool(bool),
    /// Milliseconds since the epoch.
    DateTime(i64),
    /// Null.
    Null,
    /// Regular expression.
    Regex {
        /// The pattern.
        pattern: &'a str,
        /// The option letters.
        options: &'a str,
    },
    /// The deprecated pointer to a document.
    DbPointer(PointerView<'a>),
    /// JavaScript code.
    Code(&'a str),
    /// The deprecated symbol.
    Symbol(&'a str),
    /// JavaScript code with a scope.
    CodeWithScope {
        /// The code.
        code: &'a str,
        /// The scope.
        scope: DocView<'a>,
    },
    /// 32-bit integer.
    Int32(i32),
    /// Seconds and increment.
    Timestamp {
        /// Seconds since the epoch.
        time: u32,
        /// Ordinal within the second.
        increment: u32,
    },
    /// 64-bit integer.
    Int64(i64),
    /// Decimal floating point.
    Decimal(Decimal128),
    /// Less than all other values.
    MinKey,
    /// Greater than all other values.
    MaxKey,
}

/// A pointer value, whose parts the `bson` library keeps to itself.
#[derive(Clone, Copy, Debug)]
pub enum PointerView<'a> {
    /// From raw bytes.
    Raw(bson::raw::RawDbPointerRef<'a>),
    /// From a decoded value.
    Decoded(&'a bson::DbPointer),
}

impl PointerView<'_> {
    /// The namespace and the id that the pointer holds.
    pub fn parts(&self) -> (String, ObjectId) {
        let mut wrapper = RawDocumentBuf::new();
        match self {
            Self::Raw(pointer) => wrapper.append(bson::raw::cstr!(""), RawBsonRef::DbPointer(*pointer)),
            Self::Decoded(pointer) => wrapper.append(bson::raw::cstr!(""), RawBson::DbPointer((*pointer).clone())),
        }
        // length (4), type (1), empty name (1), string length (4), string with its zero, id (12), end (1)
        let bytes = wrapper.as_bytes();
        let id_at = bytes.len().saturating_sub(13);
        let text = bytes.get(10..id_at.saturating_sub(1)).unwrap_or_default();
        let id = bytes.get(id_at..id_at + 12).and_then(|slice| <[u8; 12]>::try_from(slice).ok()).unwrap_or_default();
        (String::from_utf8_lossy(text).into_owned(), ObjectId::from_bytes(id))
    }
}

/// A borrowed document.
#[derive(Clone, Copy, Debug)]
pub enum DocView<'a> {
    /// Undecoded bytes.
    Raw(&'a RawDocument),
    /// A decoded document.
    Decoded(&'a Document),
    /// A decoded array, read as a document whose names are the positions.
    Positions(&'a [Bson]),
    /// A document of one field that exists only for matching a value on its own.
    Single(&'a SingleField<'a>),
}

/// The one field of a [`DocView::Single`].
#[derive(Clone, Copy, Debug)]
pub struct SingleField<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: View<'a>,
}

/// A borrowed array.
#[derive(Clone, Copy, Debug)]
pub enum ArrayView<'a> {
    /// Undecoded bytes.
    Raw(&'a RawArray),
    /// Decoded values.
    Decoded(&'a [Bson]),
}

/// The fields of a [`DocView`].
pub enum Fields<'a> {
    /// Over raw bytes.
    Raw(RawIter<'a>),
    /// Over a decoded document.
    Decoded(bson::document::Iter<'a>),
    /// Over a decoded array; names are not made up, they read as empty.
    Positions(std::slice::Iter<'a, Bson>),
    /// Over one field.
    Single(std::option::IntoIter<&'a SingleField<'a>>),
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, View<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Raw(iter) => {
                let element = iter.next()?.ok()?;
                Some((element.key().as_str(), element.value().ok()?.into()))
            }
            Self::Decoded(iter) => iter.next().map(|(name, value)| (name.as_str(), value.into())),
            Self::Positions(iter) => iter.next().map(|value| ("", value.into())),
            Self::Single(iter) => iter.next().map(|field| (field.name, field.value)),
        }
    }
}

/// The elements of an [`ArrayView`].
pub enum Elements<'a> {
    /// Over raw bytes.
    Raw(RawIter<'a>),
    /// Over decoded values.
    Decoded(std::slice::Iter<'a, Bson>),
}

impl<'a> Iterator for Elements<'a> {
    type Item = View<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Raw(iter) => Some(iter.next()?.ok()?.value().ok()?.into()),
            Self::Decoded(iter) => iter.next().map(Into::into),
        }
    }
}

impl<'a> DocView<'a> {
    /// The fields in order.
    pub fn iter(self) -> Fields<'a> {
        match self {
            Self::Raw(raw) => Fields::Raw(raw.iter_elements()),
            Self::Decoded(document) => Fields::Decoded(document.iter()),
            Self::Positions(values) => Fields::Positions(values.iter()),
            Self::Single(field) => Fields::Single(Some(field).into_iter()),
        }
    }

    /// The first field called `name`.
    #[inline]
    pub fn get(self, name: &str) -> Option<View<'a>> {
        match self {
            Self::Raw(raw) => {
                let field = backfire_wire::scan::field(raw.as_bytes(), name)?;
                View::of_field(field.kind, field.value).or_else(|| raw.get(name).ok().flatten().map(Into::into))
            }
            Self::Decoded(document) => document.get(name).map(Into::into),
            Self::Positions(values) => values.get(name.parse::<usize>().ok()?).map(Into::into),
            Self::Single(field) => (field.name == name).then_some(field.value),
        }
    }

    /// The value at a dotted path of plain documents; arrays are not entered.
    pub fn get_path(self, path: &str) -> Option<View<'a>> {
        let mut at = self;
        let mut rest = path;
        loop {
            match rest.split_once('.') {
                None => return at.get(rest),
                Some((head, tail)) => match at.get(head)? {
                    View::Document(inner) => {
                        at = inner;
                        rest = tail;
                    }
                    _ => return None,
                },
            }
        }
    }

    /// Whether there is no field.
    pub fn is_empty(self) -> bool {
        match self {
            Self::Raw(raw) => raw.is_empty(),
            Self::Decoded(document) => document.is_empty(),
            Self::Positions(values) => values.is_empty(),
            Self::Single(_) => false,
        }
    }

    /// A decoded copy.
    ///
    /// # Errors
    /// `InvalidBSON` when the bytes cannot be decoded.
    pub fn to_document(self) -> Result<Document> {
        match self {
            Self::Raw(raw) => to_document(raw),
            Self::Decoded(document) => Ok(document.clone()),
            Self::Positions(values) => {
                Ok(values.iter().enumerate().map(|(at, value)| (at.to_string(), value.clone())).collect())
            }
            Self::Single(field) => Ok(Document::from_iter([(field.name.to_owned(), field.value.to_bson()?)])),
        }
    }
}

impl<'a> ArrayView<'a> {
    /// The elements in order.
    pub fn iter(self) -> Elements<'a> {
        match self {
            Self::Raw(raw) => Elements::Raw(raw.iter_elements()),
            Self::Decoded(values) => Elements::Decoded(values.iter()),
        }
    }

    /// The element at `index`.
    pub fn get(self, index: usize) -> Option<View<'a>> {
        match self {
            Self::Raw(_) => self.iter().nth(index),
            Self::Decoded(values) => values.get(index).map(Into::into),
        }
    }

    /// The number of elements; linear for raw arrays.
    pub fn len(self) -> usize {
        match self {
            Self::Raw(raw) => raw.iter_elements().take_while(Result::is_ok).count(),
            Self::Decoded(values) => values.len(),
        }
    }

    /// The array read as a document whose names are the positions.
    pub fn as_positions(self) -> DocView<'a> {
        match self {
            // the bytes of an array are those of such a document
            Self::Raw(raw) => RawDocument::from_bytes(raw.as_bytes()).map_or(DocView::Positions(&[]), DocView::Raw),
            Self::Decoded(values) => DocView::Positions(values),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(self) -> bool {
        match self {
            Self::Raw(raw) => raw.is_empty(),
            Self::Decoded(values) => values.is_empty(),
        }
    }
}

impl<'a> From<&'a RawDocument> for DocView<'a> {
    fn from(raw: &'a RawDocument) -> Self {
        Self::Raw(raw)
    }
}

impl<'a> From<&'a RawDocumentBuf> for DocView<'a> {
    fn from(raw: &'a RawDocumentBuf) -> Self {
        Self::Raw(raw)
    }
}

impl<'a> From<&'a Document> for DocView<'a> {
    fn from(document: &'a Document) -> Self {
        Self::Decoded(document)
    }
}

impl<'a> View<'a> {
    /// The value of a field of valid BSON, from its type byte and its bytes; `None` for types that commands seldom carry,
    /// and for arrays: these are read through the document.
    #[inline]
    pub fn of_field(type_byte: u8, value: &'a [u8]) -> Option<Self> {
        use backfire_wire::scan::{self, kind};

        Some(match type_byte {
            kind::DOUBLE => Self::Double(f64::from_le_bytes(value.try_into().ok()?)),
            kind::STRING => Self::String(scan::text(value)?),
            kind::DOCUMENT => Self::Document(DocView::Raw(RawDocument::from_bytes(value).ok()?)),
            kind::OBJECT_ID => Self::ObjectId(ObjectId::from_bytes(value.try_into().ok()?)),
            kind::BOOL => Self::Bool(*value.first()? != 0),
            kind::DATE => Self::DateTime(i64::from_le_bytes(value.try_into().ok()?)),
            kind::NULL => Self::Null,
            kind::INT => Self::Int32(i32::from_le_bytes(value.try_into().ok()?)),
            kind::LONG => Self::Int64(i64::from_le_bytes(value.try_into().ok()?)),
            // Subtype 2 has another length inside.
            kind::BINARY if value.get(4) != Some(&2) => {
                Self::Binary { subtype: *value.get(4)?, bytes: value.get(5..)? }
            }
            _ => return None,
        })
    }
}

impl<'a> From<RawBsonRef<'a>> for View<'a> {
    #[inline]
    fn from(raw: RawBsonRef<'a>) -> Self {
        match raw {
            RawBsonRef::Double(value) => Self::Double(value),
            RawBsonRef::String(text) => Self::String(text),
            RawBsonRef::Array(array) => Self::Array(ArrayView::Raw(array)),
            RawBsonRef::Document(document) => Self::Document(DocView::Raw(document)),
            RawBsonRef::Boolean(value) => Self::Bool(value),
            RawBsonRef::Null => Self::Null,
            RawBsonRef::RegularExpression(regex) => {
                Self::Regex { pattern: regex.pattern.as_str(), options: regex.options.as_str() }
            }
            RawBsonRef::JavaScriptCode(code) => Self::Code(code),
            RawBsonRef::JavaScriptCodeWithScope(code) => {
                Self::CodeWithScope { code: code.code, scope: DocView::Raw(code.scope) }
            }
            RawBsonRef::Int32(value) => Self::Int32(value),
            RawBsonRef::Int64(value) => Self::Int64(value),
            RawBsonRef::Timestamp(value) => Self::Timestamp { time: value.time, increment: value.increment },
            RawBsonRef::Binary(binary) => Self::Binary { subtype: binary.subtype.into(), bytes: binary.bytes },
            RawBsonRef::ObjectId(id) => Self::ObjectId(id),
            RawBsonRef::DateTime(date) => Self::DateTime(date.timestamp_millis()),
            RawBsonRef::Symbol(text) => Self::Symbol(text),
            RawBsonRef::Decimal128(value) => Self::Decimal(value),
            RawBsonRef::Undefined => Self::Undefined,
            RawBsonRef::MaxKey => Self::MaxKey,
            RawBsonRef::MinKey => Self::MinKey,
            RawBsonRef::DbPointer(pointer) => Self::DbPointer(PointerView::Raw(pointer)),
        }
    }
}

impl<'a> From<&'a Bson> for View<'a> {
    #[inline]
    fn from(value: &'a Bson) -> Self {
        match value {
            Bson::Double(value) => Self::Double(*value),
            Bson::String(text) => Self::String(text),
            Bson::Array(values) => Self::Array(ArrayView::Decoded(values)),
            Bson::Document(document) => Self::Document(DocView::Decoded(document)),
            Bson::Boolean(value) => Self::Bool(*value),
            Bson::Null => Self::Null,
            Bson::RegularExpression(regex) => {
                Self::Regex { pattern: regex.pattern.as_str(), options: regex.options.as_str() }
            }
            Bson::JavaScriptCode(code) => Self::Code(code),
            Bson::JavaScriptCodeWithScope(code) => {
                Self::CodeWithScope { code: &code.code, scope: DocView::Decoded(&code.scope) }
            }
            Bson::Int32(value) => Self::Int32(*value),
            Bson::Int64(value) => Self::Int64(*value),
            Bson::Timestamp(value) => Self::Timestamp { time: value.time, increment: value.increment },
            Bson::Binary(binary) => Self::Binary { subtype: binary.subtype.into(), bytes: &binary.bytes },
            Bson::ObjectId(id) => Self::ObjectId(*id),
            Bson::DateTime(date) => Self::DateTime(date.timestamp_millis()),
            Bson::Symbol(text) => Self::Symbol(text),
            Bson::Decimal128(value) => Self::Decimal(*value),
            Bson::Undefined => Self::Undefined,
            Bson::MaxKey => Self::MaxKey,
            Bson::MinKey => Self::MinKey,
            Bson::DbPointer(pointer) => Self::DbPointer(PointerView::Decoded(pointer)),
        }
    }
}

impl<'a> From<&'a Document> for View<'a> {
    fn from(document: &'a Document) -> Self {
        Self::Document(DocView::Decoded(document))
    }
}

impl<'a> From<&'a RawDocument> for View<'a> {
    fn from(document: &'a RawDocument) -> Self {
        Self::Document(DocView::Raw(document))
    }
}

impl<'a> View<'a> {
    /// Null or undefined.
    pub fn is_nullish(self) -> bool {
        matches!(self, Self::Null | Self::Undefined)
    }

    /// A string's text; symbols are not strings here.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The document, if it is one.
    pub fn as_document(self) -> Option<DocView<'a>> {
        match self {
            Self::Document(document) => Some(document),
            _ => None,
        }
    }

    /// The document, or the array read as one.
    pub fn as_object(self) -> Option<DocView<'a>> {
        match self {
            Self::Document(document) => Some(document),
            Self::Array(array) => Some(array.as_positions()),
            _ => None,
        }
    }

    /// The array, if it is one.
    pub fn as_array(self) -> Option<ArrayView<'a>> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// BSON truth, as a mongod takes an option or a condition: all but `false`, zero, null and undefined.
    pub fn is_true(self) -> bool {
        match self {
            Self::Bool(value) => value,
            Self::Int32(value) => value != 0,
            Self::Int64(value) => value != 0,
            Self::Double(value) => value != 0.0,
            Self::Decimal(value) => !super::decimal::Dec::from_bson(value).is_zero(),
            Self::Null | Self::Undefined => false,
            _ => true,
        }
    }

    /// A decoded copy.
    ///
    /// # Errors
    /// `InvalidBSON` when raw bytes inside cannot be decoded.
    pub fn to_bson(self) -> Result<Bson> {
        Ok(match self {
            Self::Double(value) => Bson::Double(value),
            Self::String(text) => Bson::String(text.to_owned()),
            Self::Document(document) => Bson::Document(document.to_document()?),
            Self::Array(ArrayView::Decoded(values)) => Bson::Array(values.to_vec()),
            Self::Array(ArrayView::Raw(raw)) => Bson::try_from(RawBsonRef::Array(raw)).map_err(|e| invalid_bson(&e))?,
            Self::Binary { subtype, bytes } => {
                Bson::Binary(Binary { subtype: BinarySubtype::from(subtype), bytes: bytes.to_vec() })
            }
            Self::Undefined => Bson::Undefined,
            Self::ObjectId(id) => Bson::ObjectId(id),
            Self::Bool(value) => Bson::Boolean(value),
            Self::DateTime(millis) => Bson::DateTime(DateTime::from_millis(millis)),
            Self::Null => Bson::Null,
            Self::Regex { pattern, options } => Bson::RegularExpression(regex(pattern, options)?),
            Self::DbPointer(PointerView::Raw(pointer)) => {
                Bson::try_from(RawBsonRef::DbPointer(pointer)).map_err(|e| invalid_bson(&e))?
            }
            Self::DbPointer(PointerView::Decoded(pointer)) => Bson::DbPointer(pointer.clone()),
            Self::Code(code) => Bson::JavaScriptCode(code.to_owned()),
            Self::Symbol(text) => Bson::Symbol(text.to_owned()),
            Self::CodeWithScope { code, scope } => Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope {
                code: code.to_owned(),
                scope: scope.to_document()?,
            }),
            Self::Int32(value) => Bson::Int32(value),
            Self::Timestamp { time, increment } => Bson::Timestamp(Timestamp { time, increment }),
            Self::Int64(value) => Bson::Int64(value),
            Self::Decimal(value) => Bson::Decimal128(value),
            Self::MinKey => Bson::MinKey,
            Self::MaxKey => Bson::MaxKey,
        })
    }
}

/// A regular expression value.
///
/// # Errors
/// `InvalidBSON` when a part has a zero byte.
pub fn regex(pattern: &str, options: &str) -> Result<Regex> {
    let part = |text: &str| bson::raw::CString::try_from(text.to_owned()).map_err(|e| invalid_bson(&e));
    Ok(Regex { pattern: part(pattern)?, options: part(options)? })
}

/// Decodes a raw document.
///
/// # Errors
/// `InvalidBSON` when the bytes cannot be decoded.
pub fn to_document(raw: &RawDocument) -> Result<Document> {
    backfire_wire::decode(raw.as_bytes()).map_err(|e| invalid_bson(&e))
}

/// Encodes a document.
///
/// # Errors
/// `InvalidBSON` when a field name or a regular expression has a zero byte.
pub fn to_raw(document: &Document) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(|e| invalid_bson(&e))
}

/// An empty document with room for fields of this size, where growing step by step would copy it several times.
pub fn document_with_room(size_bytes: usize) -> RawDocumentBuf {
    const EMPTY: [u8; 5] = [5, 0, 0, 0, 0];
    let mut bytes = Vec::with_capacity(EMPTY.len() + size_bytes);
    bytes.extend_from_slice(&EMPTY);
    RawDocumentBuf::from_bytes(bytes).unwrap_or_default()
}

/// The error for bytes that are no BSON.
pub fn invalid_bson(error: &bson::error::Error) -> CommandError {
    CommandError::new(22, error.to_string())
}
