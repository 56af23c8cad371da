//! `$all`, `$elemMatch`, `$size`.

use super::comparison::equality;
use super::node::{Node, Test};
use super::parse::{FieldOperand, FieldParser, Level, Parser, is_field_operator, is_operators, is_top_operator};
use super::regex;
use crate::error::{Result, fail};
use crate::value::{DocView, View};

/// The operators of this family.
pub(crate) const FIELD: &[(&str, FieldParser)] = &[("$all", all), ("$elemMatch", elem_match), ("$size", size)];

/// What `$elemMatch` asks of the elements of an array.
#[derive(Debug, Clone)]
pub(crate) enum ElementMatch {
    /// A document (or an array read as one) that matches a filter.
    Object(Box<Node>),
    /// A value that passes every test.
    Value(Vec<Node>),
}

impl ElementMatch {
    /// The position of the first element of `value` that matches.
    pub(crate) fn find(&self, value: Option<View<'_>>) -> Option<usize> {
        let View::Array(array) = value? else { return None };
        array.iter().position(|element| match self {
            Self::Object(filter) => {
                element.as_object().is_some_and(|object| filter.matches(object, &[], &mut None).unwrap_or(false))
            }
            Self::Value(tests) => tests.iter().all(|test| test.matches_value(element)),
        })
    }
}

fn elem_match(parser: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    let View::Document(document) = operand.value else { return fail(2, "$elemMatch needs an Object") };
    element(parser, document).map(|found| Some(operand.leaf(Test::Element(found))))
}

/// Parses the operand of `$elemMatch`.
pub(crate) fn element(parser: &Parser<'_>, document: DocView<'_>) -> Result<ElementMatch> {
    let inner = Parser { level: Level::Embedded, ..parser.deeper()? };
    let first = document.iter().next().map_or("", |(name, _)| name);
    if is_operators(View::Document(document), true) && !is_top_operator(first) {
        return Ok(ElementMatch::Value(inner.field("", document)?));
    }
    if document.iter().any(|(name, _)| name == "$where") {
        return fail(2, "$elemMatch cannot contain $where expression");
    }
    Ok(ElementMatch::Object(Box::new(inner.document(document)?)))
}

fn first_name<'a>(value: Option<View<'a>>) -> Option<&'a str> {
    value?.as_document()?.iter().next().map(|(name, _)| name)
}

fn all(parser: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    let View::Array(array) = operand.value else { return fail(2, "$all needs an array") };
    let mut children = Vec::new();
    let elements = first_name(array.iter().next()) == Some("$elemMatch");
    for value in array.iter() {
        let each = FieldOperand { name: "$eq", value, ..*operand };
        if elements {
            let inner = value.as_document().and_then(|document| document.get("$elemMatch"));
            match (first_name(Some(value)), inner) {
                (Some("$elemMatch"), Some(inner)) => {
                    children.extend(elem_match(parser, &FieldOperand { name: "$elemMatch", value: inner, ..each })?);
                }
                _ => return fail(2, "$all/$elemMatch has to be consistent"),
            }
        } else if let View::Regex { pattern, options } = value {
            children.push(operand.leaf(Test::Regex(regex::from_parts(pattern, options)?)));
        } else if first_name(Some(value)).is_some_and(|name| name != "$not" && is_field_operator(name)) {
            return fail(2, "no $ expressions in $all");
        } else {
            children.extend(equality(parser, &each)?);
        }
    }
    Ok(Some(if children.is_empty() { Node::Always(false) } else { Node::And(children) }))
}

fn size(_: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    let size = match operand.value {
        View::Int32(size) => i64::from(size),
        View::Int64(size) if i32::try_from(size).is_ok() => size,
        View::Int64(_) => return fail(2, "$size must be representable as a 32-bit integer"),
        View::Double(size) if size.trunc() == size && size.abs() < 2_147_483_648.0 => size as i64,
        View::Double(_) => return fail(2, "$size must be a whole number"),
        _ => return fail(2, "$size needs a number"),
    };
    if size < 0 {
        return fail(2, "$size may not be negative");
    }
    Ok(Some(operand.leaf(Test::Size(size))))
}
