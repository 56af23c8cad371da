//! `$cond`, `$ifNull`, `$switch`.

use bson::Bson;

use super::lent::{Val, nullish};
use super::table::{Operator, custom, lazy};
use super::variables::{Frame, Scope};
use super::{Expression, Node};
use crate::error::{Result, fail};
use crate::value::View;

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] =
    &[custom("$cond", parse_cond), lazy("$ifNull", 2, 2, if_null), custom("$switch", parse_switch)];

/// What both forms of `$cond` become.
static COND: Operator = lazy("$cond", 3, 3, cond);

fn parse_cond(operand: View<'_>, scope: &Scope) -> Result<Expression> {
    let arguments = match operand {
        View::Document(document) => {
            let mut parts = [None, None, None];
            for (name, value) in document.iter() {
                let at = match name {
                    "if" => 0,
                    "then" => 1,
                    "else" => 2,
                    _ => return fail(17083, format!("Unrecognized parameter to $cond: {name}")),
                };
                parts[at] = Some(Expression::operand(value, scope)?);
            }
            match parts {
                [Some(case), Some(then), Some(other)] => vec![case, then, other],
                [None, ..] => return fail(17080, "Missing 'if' parameter to $cond"),
                [_, None, _] => return fail(17081, "Missing 'then' parameter to $cond"),
                [_, _, None] => return fail(17082, "Missing 'else' parameter to $cond"),
            }
        }
        View::Array(array) => {
            array.iter().map(|value| Expression::operand(value, scope)).collect::<Result<Vec<_>>>()?
        }
        one => vec![Expression::operand(one, scope)?],
    };
    if arguments.len() != 3 {
        let count = arguments.len();
        return fail(16020, format!("Expression $cond takes exactly 3 arguments. {count} were passed in."));
    }
    Ok(Node::Call { operator: &COND, arguments }.into())
}

fn cond(arguments: &[Expression], frame: &mut Frame<'_>) -> Result<Val> {
    let [case, then, other] = arguments else { return Ok(None) };
    if case.eval_view(frame)?.is_true() { then.eval(frame) } else { other.eval(frame) }
}

fn if_null(arguments: &[Expression], frame: &mut Frame<'_>) -> Result<Val> {
    let Some((last, first)) = arguments.split_last() else { return Ok(None) };
    for argument in first {
        let value = argument.eval(frame)?;
        if !nullish(&value) {
            return Ok(value);
        }
    }
    last.eval(frame)
}

fn parse_switch(operand: View<'_>, scope: &Scope) -> Result<Expression> {
    let View::Document(document) = operand else {
        return fail(40060, format!("$switch requires an object as an argument, found: {}", operand.type_name()));
    };
    let mut branches = Vec::new();
    let mut default = None;
    for (name, value) in document.iter() {
        match (name, value) {
            ("branches", View::Array(array)) => {
                for branch in array.iter() {
                    branches.push(parse_branch(branch, scope)?);
                }
            }
            ("branches", other) => {
                let text = "$switch expected an array for 'branches', found";
                return fail(40061, format!("{text}: {}", other.type_name()));
            }
            ("default", value) => default = Some(Box::new(Expression::operand(value, scope)?)),
            (other, _) => return fail(40067, format!("$switch found an unknown argument: {other}")),
        }
    }
    if branches.is_empty() {
        return fail(40068, "$switch requires at least one branch.");
    }
    Ok(Node::Switch { branches, default }.into())
}

fn parse_branch(branch: View<'_>, scope: &Scope) -> Result<(Expression, Expression)> {
    let View::Document(document) = branch else {
        return fail(40062, format!("$switch expected each branch to be an object, found: {}", branch.type_name()));
    };
    let (mut case, mut then) = (None, None);
    for (name, value) in document.iter() {
        match name {
            "case" => case = Some(Expression::operand(value, scope)?),
            "then" => then = Some(Expression::operand(value, scope)?),
            _ => {
                let text = "$switch found an unknown argument to a branch";
                return fail(40063, format!("{text}: {name}"));
            }
        }
    }
    match (case, then) {
        (Some(case), Some(then)) => Ok((case, then)),
        (None, _) => fail(40064, "$switch requires each branch have a 'case' expression"),
        (_, None) => fail(40065, "$switch requires each branch have a 'then' expression."),
    }
}

/// Computes a `$switch`.
pub(crate) fn switch(
    branches: &[(Expression, Expression)],
    default: Option<&Expression>,
    frame: &mut Frame<'_>,
) -> Result<Val> {
    for (case, then) in branches {
        if case.eval_view(frame)?.is_true() {
            return then.eval(frame);
        }
    }
    match default {
        Some(default) => default.eval(frame),
        None => fail(40066, "$switch could not find a matching branch for an input, and no default was specified."),
    }
}

/// Computes the key of a `$bucket`.
pub(crate) fn bucket(
    key: &Expression,
    boundaries: &[Bson],
    default: Option<&Bson>,
    frame: &mut Frame<'_>,
) -> Result<Val> {
    let value = key.eval(frame)?;
    let collation = frame.collation();
    let at_most = |boundary: &Bson| {
        super::comparison::compare_optional(Some(boundary.into()), super::lent::view(&value), collation).is_le()
    };
    let above = boundaries.iter().take_while(|boundary| at_most(boundary)).count();
    if above > 0 && above < boundaries.len() {
        return Ok(Some(boundaries[above - 1].clone()));
    }
    match default {
        Some(default) => Ok(Some(default.clone())),
        None => fail(40066, "$switch could not find a matching branch for an input, and no default was specified."),
    }
}

/// What an operator that stops early becomes when a constant already decides it.
pub(crate) fn short_circuit(operator: &Operator, arguments: &[Expression]) -> Option<Expression> {
    let truth = |expression: &Expression| {
        expression.as_constant().map(|value| super::lent::view(value).is_some_and(View::is_true))
    };
    match operator.name {
        "$cond" => {
            let [case, then, other] = arguments else { return None };
            truth(case).map(|yes| if yes { then.clone() } else { other.clone() })
        }
        "$and" | "$or" => {
            let decides = operator.name == "$or";
            let first_decides = arguments.first().and_then(truth) == Some(decides);
            first_decides.then(|| Expression::constant(Some(Bson::Boolean(decides))))
        }
        _ => None,
    }
}
