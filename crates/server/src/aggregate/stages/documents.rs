//! `$documents` (of release 5.1): documents that the pipeline itself lists.

use bson::{Bson, Document};

use super::{Documents, Parsed, Parsing, listed};
use crate::aggregate::expression::{Expression, Frame};
use crate::aggregate::pipeline::{Run, Source};
use crate::error::{Result, fail};
use crate::value::View;
use crate::value::view::to_raw;

/// Parses the stage.
pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Parsed> {
    Ok(Parsed::Source(Source::Listed(Expression::parse(operand, &parsing.query().scope)?)))
}

/// The documents listed.
pub(crate) fn list(expression: &Expression, run: &Run) -> Result<Documents> {
    let empty = Document::new();
    let mut frame = Frame::new((&empty).into(), run.slots.clone(), &run.globals);
    let value = expression.eval(&mut frame)?;
    let Some(Bson::Array(values)) = value else { return fail(5858203, "an array is expected") };
    let document = |value: Bson| match value {
        Bson::Document(document) => to_raw(&document),
        _ => fail(40228, "every element of $documents must be an object"),
    };
    Ok(listed(values.into_iter().map(document).collect::<Result<_>>()?))
}
