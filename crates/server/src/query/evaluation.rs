//! `$mod`, `$regex` with `$options`, `$expr`, `$where`.

use super::node::{ExprNode, Node, Test};
use super::parse::{FieldOperand, FieldParser, Level, Parser, TopParser};
use super::regex;
use crate::aggregate::expression::Expression;
use crate::error::{Result, fail};
use crate::value::{Kind, View};

/// The operators of this family below a field.
pub(crate) const FIELD: &[(&str, FieldParser)] = &[("$mod", modulo), ("$regex", regex_operator), ("$options", options)];

/// The operators of this family in the place of a field name.
pub(crate) const TOP: &[(&str, TopParser)] = &[("$expr", expr), ("$where", javascript)];

fn modulo(_: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    let View::Array(array) = operand.value else { return fail(2, "malformed mod, needs to be an array") };
    let mut elements = array.iter();
    let (Some(divisor), remainder) = (elements.next(), elements.next()) else {
        return fail(2, "malformed mod, not enough elements");
    };
    let Some(divisor) = divisor.number() else { return fail(2, "malformed mod, divisor not a number") };
    let Some(remainder) = remainder else { return fail(2, "malformed mod, not enough elements") };
    if elements.next().is_some() {
        return fail(2, "malformed mod, too many elements");
    }
    let divisor = divisor.to_i64_saturating();
    if divisor == 0 {
        return fail(2, "divisor cannot be 0");
    }
    let remainder = remainder.number().map_or(0, |number| number.to_i64_saturating());
    Ok(Some(operand.leaf(Test::Mod { divisor, remainder })))
}

fn options(_: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    match operand.all.get("$regex") {
        Some(_) => Ok(None),
        None => fail(2, "$options needs a $regex"),
    }
}

fn regex_operator(_: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    let mut pattern = "";
    let mut letters = "";
    for (name, value) in operand.all.iter() {
        match (name, value) {
            ("$regex", View::String(text)) => pattern = text,
            ("$regex", View::Regex { pattern: text, options }) => {
                pattern = text;
                if !options.is_empty() {
                    if !letters.is_empty() {
                        return fail(51074, "options set in both $regex and $options");
                    }
                    letters = options;
                }
            }
            ("$regex", _) => return fail(2, "$regex has to be a string"),
            ("$options", View::String(text)) => {
                if !letters.is_empty() {
                    return fail(51075, "options set in both $regex and $options");
                }
                letters = text;
            }
            ("$options", _) => return fail(2, "$options has to be a string"),
            _ => {}
        }
    }
    Ok(Some(operand.leaf(Test::Regex(regex::from_parts(pattern, letters)?))))
}

/// What the error of an `$expr` that fails for every document is introduced by.
pub(crate) const EXPR_CONTEXT: &str = "Failed to optimize expression";

fn expr(parser: &Parser<'_>, _: &str, value: View<'_>) -> Result<Option<Node>> {
    if parser.level == Level::Embedded {
        return fail(2, "$expr can only be applied to the top-level document");
    }
    if !parser.context.features.expr {
        return fail(224, "$expr is not allowed in this context");
    }
    let expression =
        Expression::parse(value, &parser.context.scope)?.optimize().map_err(|error| error.caused_by(EXPR_CONTEXT))?;
    Ok(Some(Node::Expr(Box::new(ExprNode { expression, globals: parser.context.globals() }))))
}

fn javascript(parser: &Parser<'_>, _: &str, value: View<'_>) -> Result<Option<Node>> {
    if !parser.context.features.javascript {
        return fail(2, "$where is not allowed in this context");
    }
    match value.kind() {
        Kind::String | Kind::Code | Kind::CodeWithScope => fail(2, "no globalScriptEngine in $where parsing"),
        _ => fail(2, "$where got bad type"),
    }
}
