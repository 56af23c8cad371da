//! The parsed form of a filter, and how it is matched.

use std::sync::Arc;

use bson::Bson;

use super::array::ElementMatch;
use super::bits::BitTest;
use super::comparison::{InList, Operator};
use super::path::{AtArray, Path};
use super::regex::Regex;
use super::schema::Schema;
use crate::aggregate::expression::{Expression, Frame, Globals, Val};
use crate::error::Result;
use crate::value::decimal::Dec;
use crate::value::kinds::KindSet;
use crate::value::{Collation, DocView, View};

/// A node of a filter.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// Every child matches.
    And(Vec<Node>),
    /// Some child matches.
    Or(Vec<Node>),
    /// No child matches.
    Nor(Vec<Node>),
    /// The child does not match.
    Not(Box<Node>),
    /// Matches everything or nothing.
    Always(bool),
    /// A test of the values at a path.
    Leaf {
        /// Where the values are.
        path: Path,
        /// What is asked of them.
        test: Test,
    },
    /// `$expr`.
    Expr(Box<ExprNode>),
    /// `$jsonSchema`.
    Schema(Box<Schema>),
}

/// An aggregation expression with what it needs to run.
#[derive(Debug, Clone)]
pub(crate) struct ExprNode {
    pub(crate) expression: Expression,
    pub(crate) globals: Arc<Globals>,
}

/// What a leaf asks of one value.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    /// `$eq`, `$gt` and the like.
    Compare { operator: Operator, operand: Bson, collation: Option<Collation> },
    /// `$in`.
    In(InList),
    /// `$regex`.
    Regex(Regex),
    /// `$exists: true`.
    Exists,
    /// `$type`.
    Type(KindSet),
    /// `$mod`.
    Mod { divisor: i64, remainder: i64 },
    /// `$size`.
    Size(i64),
    /// `$elemMatch`.
    Element(ElementMatch),
    /// `$bitsAllSet` and the like.
    Bits(BitTest),
}

/// Where an array was run through, for the positional operator.
pub(crate) type Position = Option<usize>;

impl Node {
    /// Matches a document. `slots` are the values of variables; `position` receives the array position that decided, if
    /// one did.
    pub(crate) fn matches(&self, document: DocView<'_>, slots: &[Val], position: &mut Position) -> Result<bool> {
        match self {
            Self::And(children) => {
                for child in children {
                    if !child.matches(document, slots, position)? {
                        *position = None;
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Or(children) => any(children, document, slots),
            Self::Nor(children) => Ok(!any(children, document, slots)?),
            Self::Not(child) => {
                *position = None;
                Ok(!child.matches(document, slots, &mut None)?)
            }
            Self::Always(answer) => Ok(*answer),
            Self::Leaf { path, test } => Ok(test.matches_at(path, document, position)),
            Self::Expr(node) => node.matches(document, slots),
            Self::Schema(schema) => Ok(schema.matches(document)),
        }
    }

    /// Matches a lone value, whatever the paths say.
    pub(crate) fn matches_value(&self, value: View<'_>) -> bool {
        match self {
            Self::And(children) => children.iter().all(|child| child.matches_value(value)),
            Self::Or(children) => children.iter().any(|child| child.matches_value(value)),
            Self::Nor(children) => !children.iter().any(|child| child.matches_value(value)),
            Self::Not(child) => !child.matches_value(value),
            Self::Always(answer) => *answer,
            Self::Leaf { test, .. } => test.matches(Some(value)),
            Self::Expr(_) | Self::Schema(_) => false,
        }
    }
}

fn any(children: &[Node], document: DocView<'_>, slots: &[Val]) -> Result<bool> {
    for child in children {
        if child.matches(document, slots, &mut None)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl ExprNode {
    fn matches(&self, document: DocView<'_>, slots: &[Val]) -> Result<bool> {
        let mut frame = Frame::new(document, slots.to_vec(), &self.globals);
        Ok(self.expression.eval_view(&mut frame)?.is_true())
    }
}

impl Test {
    fn matches_at(&self, path: &Path, document: DocView<'_>, position: &mut Position) -> bool {
        let mut decided = None;
        let at = match self {
            Self::Size(_) | Self::Element(_) => AtArray::Whole,
            _ => AtArray::Elements,
        };
        let found = path.any(document, at, |each| {
            let matched = match self {
                Self::Element(element) => match element.find(each.value) {
                    Some(inner) => {
                        decided = each.position.or(Some(inner));
                        return true;
                    }
                    None => false,
                },
                other => other.matches(each.value),
            };
            if matched {
                decided = each.position;
            }
            matched
        });
        if found && decided.is_some() {
            *position = decided;
        }
        found
    }

    /// Whether one value (or a missing one) passes.
    pub(crate) fn matches(&self, value: Option<View<'_>>) -> bool {
        match self {
            Self::Compare { operator, operand, collation } => {
                operator.matches(value, operand.into(), collation.as_ref())
            }
            Self::In(list) => list.matches(value),
            Self::Regex(regex) => value.is_some_and(|value| regex_matches(regex, value)),
            Self::Exists => value.is_some(),
            Self::Type(kinds) => value.is_some_and(|value| kinds.contains(value.kind())),
            Self::Mod { divisor, remainder } => value.is_some_and(|value| modulo(value, *divisor, *remainder)),
            Self::Size(size) => {
                value.and_then(View::as_array).is_some_and(|array| i64::try_from(array.len()) == Ok(*size))
            }
            Self::Element(element) => element.find(value).is_some(),
            Self::Bits(bits) => value.is_some_and(|value| bits.matches(value)),
        }
    }
}

/// A regular expression matches strings, symbols, and a regular expression equal to itself.
pub(crate) fn regex_matches(regex: &Regex, value: View<'_>) -> bool {
    match value {
        View::String(text) | View::Symbol(text) => regex.is_match(text),
        View::Regex { pattern, options } => pattern == regex.pattern() && options == regex.options(),
        _ => false,
    }
}

fn modulo(value: View<'_>, divisor: i64, remainder: i64) -> bool {
    let finite = match value {
        View::Double(value) => value.is_finite(),
        View::Decimal(value) => !Dec::from_bson(value).is_nan() && !Dec::from_bson(value).is_infinite(),
        _ => true,
    };
    let Some(number) = value.number().filter(|_| finite) else { return false };
    number.to_i64_saturating().checked_rem(divisor).unwrap_or(0) == remainder
}
