//! `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, `$in`, `$nin`.
//!
//! A comparison only sees values of the operand's type ("type bracketing"); null also equals a missing field and
//! undefined; `MinKey` and `MaxKey` stand below and above everything.

use std::cmp::Ordering;

use bson::Bson;

use super::node::{Node, Test, regex_matches};
use super::parse::{FieldOperand, FieldParser, Parser, is_operators};
use super::regex::{self, Regex};
use crate::error::{Result, fail};
use crate::value::{Collation, Kind, View, compare};

/// The operators of this family.
pub(crate) const FIELD: &[(&str, FieldParser)] = &[
    ("$eq", equality),
    ("$ne", not_equal),
    ("$gt", |parser, operand| ordered(parser, operand, Operator::Greater)),
    ("$gte", |parser, operand| ordered(parser, operand, Operator::GreaterOrEqual)),
    ("$lt", |parser, operand| ordered(parser, operand, Operator::Less)),
    ("$lte", |parser, operand| ordered(parser, operand, Operator::LessOrEqual)),
    ("$in", |parser, operand| Ok(Some(operand.leaf(Test::In(list(parser, operand)?))))),
    ("$nin", |parser, operand| Ok(Some(Node::Not(Box::new(operand.leaf(Test::In(list(parser, operand)?))))))),
];

/// How a value is compared with the operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

fn is_nan(value: View<'_>) -> bool {
    value.number().is_some_and(|number| number.is_nan())
}

impl Operator {
    fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        }
    }

    /// Whether `value` stands in this relation to `operand`.
    pub(crate) fn matches(self, value: Option<View<'_>>, operand: View<'_>, collation: Option<&Collation>) -> bool {
        let missing = matches!(value, None | Some(View::Undefined));
        if missing && operand.kind() == Kind::Null {
            return self.accepts(Ordering::Equal);
        }
        let below = matches!(self, Self::Less | Self::LessOrEqual);
        let above = matches!(self, Self::Greater | Self::GreaterOrEqual);
        let extreme =
            |operand: View<'_>| (below && operand.kind() == Kind::MaxKey) || (above && operand.kind() == Kind::MinKey);
        let Some(value) = value else { return extreme(operand) };
        if value.kind().rank() != operand.kind().rank() {
            return extreme(operand);
        }
        if value.kind().is_numeric() && (is_nan(value) || is_nan(operand)) {
            return is_nan(value) && is_nan(operand) && self.accepts(Ordering::Equal);
        }
        self.accepts(compare(value, operand, collation))
    }
}

/// `$eq`, or a value in the place of operators.
pub(crate) fn equality(parser: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    // below $eq, a regular expression is a value: it is compared, not matched
    comparison(parser, operand, Operator::Equal).map(Some)
}

fn comparison(parser: &Parser<'_>, operand: &FieldOperand<'_>, operator: Operator) -> Result<Node> {
    if operand.value.kind() == Kind::Undefined {
        return fail(2, "cannot compare to undefined");
    }
    Ok(operand.leaf(Test::Compare {
        operator,
        operand: operand.value.to_bson()?,
        collation: parser.context.collation().cloned(),
    }))
}

fn ordered(parser: &Parser<'_>, operand: &FieldOperand<'_>, operator: Operator) -> Result<Option<Node>> {
    if operand.value.kind() == Kind::Regex {
        return fail(2, format!("Can't have RegEx as arg to predicate over field '{}'.", operand.path));
    }
    comparison(parser, operand, operator).map(Some)
}

fn not_equal(parser: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<Node>> {
    if operand.value.kind() == Kind::Regex {
        return fail(2, "Can't have regex as arg to $ne.");
    }
    Ok(Some(Node::Not(Box::new(comparison(parser, operand, Operator::Equal)?))))
}

/// The operand of `$in`.
#[derive(Debug, Clone)]
pub(crate) struct InList {
    /// In order, without duplicates.
    values: Vec<Bson>,
    regexes: Vec<Regex>,
    has_null: bool,
    collation: Option<Collation>,
}

/// Up to this many values are compared one by one.
const LINEAR: usize = 8;

impl InList {
    /// The values other than regular expressions.
    pub(crate) fn values(&self) -> &[Bson] {
        &self.values
    }

    /// The regular expressions.
    pub(crate) fn regexes(&self) -> &[Regex] {
        &self.regexes
    }

    /// Whether `value` is in the list or matches one of its regular expressions.
    pub(crate) fn matches(&self, value: Option<View<'_>>) -> bool {
        let Some(value) = value else { return self.has_null };
        let collation = self.collation.as_ref();
        let listed = if self.values.len() <= LINEAR {
            self.values.iter().any(|each| compare(each.into(), value, collation) == Ordering::Equal)
        } else {
            self.values.binary_search_by(|each| compare(each.into(), value, collation)).is_ok()
        };
        listed || self.regexes.iter().any(|regex| regex_matches(regex, value))
    }
}

fn list(parser: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<InList> {
    let View::Array(array) = operand.value else {
        return fail(2, format!("{} needs an array", operand.name));
    };
    let collation = parser.context.collation().cloned();
    let mut values = Vec::new();
    let mut regexes = Vec::new();
    for value in array.iter() {
        if is_operators(value, false) {
            return fail(2, "cannot nest $ under $in");
        }
        match value {
            View::Regex { pattern, options } => regexes.push(regex::from_parts(pattern, options)?),
            View::Undefined => return fail(2, "InMatchExpression equality cannot be undefined"),
            value => values.push(value.to_bson()?),
        }
    }
    values.sort_by(|left, right| compare(left.into(), right.into(), collation.as_ref()));
    values.dedup_by(|left, right| compare((&*left).into(), (&*right).into(), collation.as_ref()) == Ordering::Equal);
    let has_null = values.contains(&Bson::Null);
    Ok(InList { values, regexes, has_null, collation })
}
