//! The result of an expression: missing, borrowed from the document, or made.

use bson::Bson;

use crate::error::Result;
use crate::value::View;

/// A value, or `None` for a missing one.
pub type Val = Option<Bson>;

/// A value that may be borrowed from the document at hand.
#[derive(Debug, Clone)]
pub enum Lent<'a> {
    /// No value.
    Missing,
    /// A part of the document.
    View(View<'a>),
    /// A new value.
    Owned(Bson),
}

impl Lent<'_> {
    /// The value, if there is one.
    pub fn view(&self) -> Option<View<'_>> {
        match self {
            Self::Missing => None,
            Self::View(view) => Some(*view),
            Self::Owned(value) => Some(value.into()),
        }
    }

    /// BSON truth; a missing value is false.
    pub fn is_true(&self) -> bool {
        self.view().is_some_and(View::is_true)
    }

    /// A value of one's own.
    ///
    /// # Errors
    /// `InvalidBSON` when raw bytes cannot be decoded.
    pub fn into_value(self) -> Result<Val> {
        match self {
            Self::Missing => Ok(None),
            Self::View(view) => view.to_bson().map(Some),
            Self::Owned(value) => Ok(Some(value)),
        }
    }
}

/// Missing, null or undefined.
pub(crate) fn nullish(value: &Val) -> bool {
    matches!(value, None | Some(Bson::Null | Bson::Undefined))
}

/// The value as a view.
pub(crate) fn view(value: &Val) -> Option<View<'_>> {
    value.as_ref().map(Into::into)
}

/// The name of its type; `missing` without a value.
pub(crate) fn type_name(value: &Val) -> &'static str {
    view(value).map_or("missing", View::type_name)
}

/// The value as error texts of this room show it.
pub(crate) fn shown(value: &Val) -> String {
    view(value).map_or_else(|| "MISSING".to_owned(), crate::value::text::value)
}
