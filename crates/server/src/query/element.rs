//! `$exists` and `$type`.

use super::node::{Node, Test};
use super::parse::{FieldOperand, FieldParser, Parser};
use crate::error::{Result, fail};
use crate::value::View;
use crate::value::kinds::KindSet;

/// The operators of this family.
pub(crate) const FIELD: &[(&str, FieldParser)] = &[("$exists", exists), ("$type", kind)];

fn exists(_: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    let node = operand.leaf(Test::Exists);
    Ok(Some(if operand.value.is_true() { node } else { Node::Not(Box::new(node)) }))
}

fn kind(_: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    let mut kinds = KindSet::default();
    match operand.value {
        View::Array(array) => array.iter().try_for_each(|each| kinds.insert_operand(each))?,
        other => kinds.insert_operand(other)?,
    }
    if kinds.is_empty() {
        return fail(9, format!("{} must match at least one type", operand.path));
    }
    Ok(Some(operand.leaf(Test::Type(kinds))))
}
