//! Update operators, one file per family; [`find`] looks them up in the families' tables.

mod arithmetic;
mod array;
mod compare;
mod field;
mod pull;
mod push;

use std::sync::Arc;

use bson::Bson;

use super::ApplyContext;
use crate::error::Result;
use crate::query::QueryContext;
use crate::value::text;

/// Where an operator is applied.
pub(crate) struct At<'a> {
    /// The whole path.
    pub(crate) path: &'a str,
    /// Its last part.
    pub(crate) name: &'a str,
    /// `_id`, for error texts.
    pub(crate) id: Option<&'a Bson>,
    /// Time.
    pub(crate) context: &'a ApplyContext,
    /// Whether the document is about to be inserted.
    pub(crate) insert: bool,
}

/// What an operator did to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// The value is another.
    Set,
    /// The value is to be removed.
    Removed,
    /// The array has new elements from this position on.
    Appended(usize),
}

/// One operator with its operand.
pub(crate) trait Operator: std::fmt::Debug + Send + Sync {
    /// Changes a value that exists.
    fn update(&self, value: &mut Bson, at: &At<'_>) -> Result<Change>;

    /// Makes a value where none is, or leaves it so.
    fn create(&self, at: &At<'_>) -> Result<Option<Bson>>;
}

/// Parses the operand of an operator for one path.
pub(crate) type Parse = fn(&str, &Bson, &QueryContext) -> Result<Arc<dyn Operator>>;

/// The families.
const FAMILIES: [&[(&str, Parse)]; 6] =
    [arithmetic::OPERATORS, array::OPERATORS, compare::OPERATORS, field::OPERATORS, pull::OPERATORS, push::OPERATORS];

/// The parser of the operator called `name`.
pub(crate) fn find(name: &str) -> Option<Parse> {
    FAMILIES.iter().flat_map(|family| family.iter()).find(|(known, _)| *known == name).map(|(_, parse)| *parse)
}

/// The document in braces, as error texts name it.
pub(crate) fn document_shown(at: &At<'_>) -> String {
    format!("{{{}}}", id_shown(at.id))
}

/// `_id: 1`; empty without one.
pub(crate) fn id_shown(id: Option<&Bson>) -> String {
    id.map_or_else(String::new, |id| text::element("_id", id.into()))
}
