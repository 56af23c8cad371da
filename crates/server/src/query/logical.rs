//! `$and`, `$or`, `$nor`, `$not`, `$alwaysTrue`, `$alwaysFalse`, `$comment`, and the fields of a document reference.

use super::comparison;
use super::node::{Node, Test};
use super::parse::{FieldOperand, FieldParser, Parser, TopParser, integer};
use super::path::Path;
use super::regex;
use crate::error::{Result, fail};
use crate::value::View;

/// The operators of this family below a field.
pub(crate) const FIELD: &[(&str, FieldParser)] = &[("$not", not)];

/// The operators of this family in the place of a field name.
pub(crate) const TOP: &[(&str, TopParser)] = &[
    ("$and", |parser, name, value| Ok(Some(Node::And(tree(parser, name, value)?)))),
    ("$or", |parser, name, value| Ok(Some(Node::Or(tree(parser, name, value)?)))),
    ("$nor", |parser, name, value| Ok(Some(Node::Nor(tree(parser, name, value)?)))),
    ("$alwaysTrue", |_, name, value| always(name, value, true)),
    ("$alwaysFalse", |_, name, value| always(name, value, false)),
    ("$comment", |_, _, _| Ok(None)),
    ("$ref", reference),
    ("$id", reference),
    ("$db", reference),
];

fn tree(parser: &Parser<'_>, name: &str, value: View<'_>) -> Result<Vec<Node>> {
    let View::Array(array) = value else { return fail(2, format!("{name} must be an array")) };
    if array.is_empty() {
        return fail(2, "$and/$or/$nor must be a nonempty array");
    }
    let child = |value: View<'_>| match value {
        View::Document(document) => parser.document(document),
        _ => fail(2, "$or/$and/$nor entries need to be full objects"),
    };
    array.iter().map(child).collect()
}

fn always(name: &str, value: View<'_>, answer: bool) -> Result<Option<Node>> {
    if integer(name, value)? != 1 {
        return fail(9, format!("{name} must be an integer value of 1"));
    }
    Ok(Some(Node::Always(answer)))
}

fn reference(parser: &Parser<'_>, name: &str, value: View<'_>) -> Result<Option<Node>> {
    let none = bson::Document::new();
    comparison::equality(parser, &FieldOperand { path: name, name, value, all: (&none).into() })
}

fn not(parser: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    let child = match operand.value {
        View::Regex { pattern, options } => {
            Node::Leaf { path: Path::new(operand.path), test: Test::Regex(regex::from_parts(pattern, options)?) }
        }
        View::Document(document) if document.is_empty() => return fail(2, "$not cannot be empty"),
        View::Document(document) => Node::And(parser.field(operand.path, document)?),
        _ => return fail(2, "$not needs a regex or a document"),
    };
    Ok(Some(Node::Not(Box::new(child))))
}
