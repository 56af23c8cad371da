//! Operators that need an index or an engine which this server does not have: text search, geometry, client-side
//! encryption. Each is refused by name.

use super::node::Node;
use super::parse::{FieldOperand, FieldParser, Level, Parser, TopParser};
use crate::error::{Result, fail};
use crate::value::View;

/// The operators of this family below a field.
pub(crate) const FIELD: &[(&str, FieldParser)] = &[
    ("$near", unsupported),
    ("$nearSphere", unsupported),
    ("$geoNear", unsupported),
    ("$geoWithin", unsupported),
    ("$within", unsupported),
    ("$geoIntersects", unsupported),
    ("$maxDistance", unsupported),
    ("$minDistance", unsupported),
];

/// The operators of this family in the place of a field name.
pub(crate) const TOP: &[(&str, TopParser)] = &[("$text", text)];

fn unsupported(_: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    fail(238, format!("this server has no geospatial queries: {}", operand.name))
}

fn text(parser: &Parser<'_>, _: &str, value: View<'_>) -> Result<Option<Node>> {
    if parser.level == Level::Embedded {
        return fail(2, "$text can only be applied to the top-level document");
    }
    if !parser.context.features.text {
        return fail(2, "$text is not allowed in this context");
    }
    if value.as_document().is_none() {
        return fail(2, "$text expects an object");
    }
    fail(27, "text index required for $text query")
}
