//! Sort patterns.
//!
//! A document's sort key is its smallest key under an index on the pattern (with the pattern's directions), so an array
//! sorts by its smallest element ascending and by its largest descending. Keys are compared as bytes.

use bson::Document;
use bson::raw::RawDocument;

use crate::aggregate::expression::FieldPath;
use crate::error::{CommandError, Result, fail};
use crate::value::index_keys::IndexPattern;
use crate::value::key_string::{Direction, KeyBuilder};
use crate::value::{Collation, DocView, View, text};

/// A parsed sort pattern.
#[derive(Debug, Clone)]
pub struct Sort {
    pattern: IndexPattern,
    document: Document,
    paths: Vec<FieldPath>,
    natural: Option<Direction>,
}

impl Sort {
    /// Parses the sort pattern of a command: `{ a: 1, "b.c": -1 }`, or `{ $natural: 1 }`.
    ///
    /// # Errors
    /// 15974, 15975 or those of field paths; `$meta` is refused.
    pub fn parse(pattern: &RawDocument, collation: Option<Collation>) -> Result<Self> {
        let view = DocView::from(pattern);
        let Some(natural) = view.get("$natural") else { return Self::parse_view(view, collation) };
        if view.iter().count() > 1 {
            return fail(2, format!("Cannot include '$natural' in compound sort: {}", text::document(view)));
        }
        match natural.number().map(|number| number.to_i64_saturating()) {
            Some(direction @ (1 | -1)) => {
                let natural = Some(if direction > 0 { Direction::Ascending } else { Direction::Descending });
                Ok(Self { natural, ..Self::parse_view((&Document::new()).into(), collation)? })
            }
            _ => {
                fail(2, format!("$natural sort cannot be set to a value other than -1 or 1: {}", text::document(view)))
            }
        }
    }

    /// The direction of a `$natural` sort, which is the order in which documents are stored.
    pub fn natural(&self) -> Option<Direction> {
        self.natural
    }

    /// Parses a raw or decoded pattern.
    ///
    /// # Errors
    /// As [`Sort::parse`].
    pub fn parse_view(pattern: DocView<'_>, collation: Option<Collation>) -> Result<Self> {
        let mut document = Document::new();
        let mut paths = Vec::new();
        for (name, value) in pattern.iter() {
            if let View::Document(meta) = value {
                return refuse_meta(meta);
            }
            let Some(number) = value.number() else {
                return fail(15974, format!("Illegal key in $sort specification: {}", text::element(name, value)));
            };
            let direction = number.to_i64_saturating();
            if direction != 1 && direction != -1 {
                return fail(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)");
            }
            paths.push(FieldPath::parse(name)?);
            document.insert(name, direction as i32);
        }
        Ok(Self { pattern: IndexPattern::new(&document, false, collation), document, paths, natural: None })
    }

    /// Whether nothing is sorted by.
    pub fn is_empty(&self) -> bool {
        self.document.is_empty()
    }

    /// The paths with their directions.
    pub fn fields(&self) -> &[(String, Direction)] {
        self.pattern.fields()
    }

    /// The collation of its strings.
    pub fn collation(&self) -> Option<&Collation> {
        self.pattern.collation()
    }

    /// The pattern with directions 1 and -1.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Bytes that sort as the document does.
    ///
    /// # Errors
    /// `BadValue` when two fields run through different arrays.
    pub fn key(&self, document: &RawDocument) -> Result<Vec<u8>> {
        self.key_of(document.into())
    }

    /// Bytes that sort as the raw or decoded document does.
    ///
    /// # Errors
    /// As [`Sort::key`].
    pub fn key_of(&self, document: DocView<'_>) -> Result<Vec<u8>> {
        if let Some(key) = self.plain_key(document) {
            return Ok(key);
        }
        let keys = self.pattern.keys_of(document).map_err(|error| match error.code {
            171 => CommandError::bad_value("cannot sort with keys that are parallel arrays"),
            _ => error,
        })?;
        Ok(keys.keys.into_iter().next().map(|key| key.bytes).unwrap_or_default())
    }

    /// The key of a document without arrays on the paths.
    fn plain_key(&self, document: DocView<'_>) -> Option<Vec<u8>> {
        let mut builder = KeyBuilder::new();
        for (path, (_, direction)) in self.paths.iter().zip(self.pattern.fields()) {
            let mut value = View::Document(document);
            for part in path.parts() {
                value = match value {
                    View::Document(inner) => inner.get(part).unwrap_or(View::Null),
                    View::Array(_) => return None,
                    _ => View::Null,
                };
            }
            if value.as_array().is_some() {
                return None;
            }
            builder.push(value, *direction, self.pattern.collation());
        }
        Some(builder.finish())
    }
}

fn refuse_meta<T>(meta: DocView<'_>) -> Result<T> {
    let mut fields = meta.iter();
    let Some(("$meta", kind)) = fields.next() else {
        return fail(17312, "$meta is the only expression supported by $sort right now");
    };
    if fields.next().is_some() {
        return fail(9, "Cannot have additional keys in a $meta sort specification");
    }
    match kind {
        View::String("textScore") => fail(40218, "query requires text score metadata, but it is not available"),
        View::String("randVal") => fail(238, "this server does not sort by $meta: \"randVal\""),
        _ => fail(31138, format!("Illegal $meta sort: {}", text::document(meta))),
    }
}
