//! What a filter says about one path, for an index to use.
//!
//! Every [`Predicate`] is necessary for a match, none is sufficient: the documents found still go through the matcher.
//! On a path that runs through an array (a multikey index) each predicate may hold for another element, so only one of
//! them may be turned into an interval of keys; on other paths they may be intersected.

use std::ops::Bound;

use bson::Bson;

use super::comparison::Operator;
use super::node::{Node, Test};
use crate::value::key_string::{self, Direction};
use crate::value::{Collation, Kind, View};

/// A necessary condition on the values of one path.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// One of these values, in order. A missing field counts as null.
    Points(Vec<Bson>),
    /// A value of the operand's type within limits.
    Range(Box<Interval>),
}

/// A range of values of one type.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Lower limit; unbounded means the smallest value of the type.
    pub lower: Bound<Bson>,
    /// Upper limit; unbounded means the largest value of the type.
    pub upper: Bound<Bson>,
}

/// The bytes of keys: from, and up to but without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key, inclusive.
    pub start: Vec<u8>,
    /// The end, exclusive.
    pub end: Vec<u8>,
}

/// Greater than the first byte of any value in either direction.
const AFTER: u8 = 0xff;

impl Predicate {
    /// The ranges of keys to read in an index whose first field has `direction`, in the order of the index.
    ///
    /// Strings in it are only usable if the index has the same collation.
    pub fn key_ranges(&self, direction: Direction, collation: Option<&Collation>) -> Vec<KeyRange> {
        let mut ranges: Vec<_> = match self {
            Self::Points(values) => values.iter().map(|value| point(value, direction, collation)).collect(),
            Self::Range(interval) => interval.key_range(direction, collation).into_iter().collect(),
        };
        ranges.sort_by(|left, right| left.start.cmp(&right.start));
        ranges.dedup();
        ranges
    }
}

fn encoded(value: View<'_>, direction: Direction, collation: Option<&Collation>) -> Vec<u8> {
    let mut builder = key_string::KeyBuilder::new();
    builder.push(value, direction, collation);
    builder.finish()
}

fn after(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.push(AFTER);
    bytes
}

fn point(value: &Bson, direction: Direction, collation: Option<&Collation>) -> KeyRange {
    let start = encoded(value.into(), direction, collation);
    KeyRange { end: after(start.clone()), start }
}

impl Interval {
    /// The range of keys, or `None` when both ends are open.
    pub fn key_range(&self, direction: Direction, collation: Option<&Collation>) -> Option<KeyRange> {
        let sample = match (&self.lower, &self.upper) {
            (Bound::Included(value) | Bound::Excluded(value), _) => value,
            (_, Bound::Included(value) | Bound::Excluded(value)) => value,
            _ => return None,
        };
        let kind = encoded(sample.into(), Direction::Ascending, collation)[0];
        // where all values of the type begin and end, ascending
        let (first, last) = match direction {
            Direction::Ascending => (vec![kind], vec![kind + 1]),
            Direction::Descending => (vec![!kind], vec![!kind + 1]),
        };
        let bytes = |value: &Bson| encoded(value.into(), direction, collation);
        let (near, far) = match direction {
            Direction::Ascending => (&self.lower, &self.upper),
            Direction::Descending => (&self.upper, &self.lower),
        };
        let start = match near {
            Bound::Included(value) => bytes(value),
            Bound::Excluded(value) => after(bytes(value)),
            Bound::Unbounded => first,
        };
        let end = match far {
            Bound::Included(value) => after(bytes(value)),
            Bound::Excluded(value) => bytes(value),
            Bound::Unbounded => last,
        };
        Some(KeyRange { start, end })
    }
}

/// The conditions on `path` at the top of the filter or below `$and`.
pub(crate) fn predicates(root: &Node, path: &str) -> Vec<Predicate> {
    let mut found = Vec::new();
    visit(root, path, &mut found);
    found
}

/// The paths that have conditions there, in order.
pub(crate) fn paths(root: &Node) -> Vec<&str> {
    match root {
        Node::And(children) => children.iter().flat_map(paths).collect(),
        Node::Or(children) if children.len() == 1 => paths(&children[0]),
        Node::Leaf { path, .. } => vec![path.dotted()],
        _ => Vec::new(),
    }
}

fn visit(node: &Node, wanted: &str, found: &mut Vec<Predicate>) {
    match node {
        Node::And(children) => children.iter().for_each(|child| visit(child, wanted, found)),
        Node::Or(children) if children.len() == 1 => visit(&children[0], wanted, found),
        Node::Leaf { path, test } if path.dotted() == wanted => found.extend(predicate(test)),
        _ => {}
    }
}

fn predicate(test: &Test) -> Option<Predicate> {
    match test {
        Test::Compare { operator: Operator::Equal, operand, .. } => {
            let mut points = Vec::new();
            push_points(operand, &mut points);
            Some(Predicate::Points(points))
        }
        Test::Compare { operator, operand, .. } => {
            let plain = !matches!(
                View::from(operand).kind(),
                Kind::Array | Kind::Object | Kind::Null | Kind::MinKey | Kind::MaxKey | Kind::CodeWithScope
            );
            let (lower, upper) = match operator {
                Operator::Greater => (Bound::Excluded(operand.clone()), Bound::Unbounded),
                Operator::GreaterOrEqual => (Bound::Included(operand.clone()), Bound::Unbounded),
                Operator::Less => (Bound::Unbounded, Bound::Excluded(operand.clone())),
                Operator::LessOrEqual => (Bound::Unbounded, Bound::Included(operand.clone())),
                Operator::Equal => return None,
            };
            plain.then(|| Predicate::Range(Box::new(Interval { lower, upper })))
        }
        Test::In(list) if list.regexes().is_empty() => {
            let mut points = Vec::new();
            list.values().iter().for_each(|value| push_points(value, &mut points));
            Some(Predicate::Points(points))
        }
        _ => None,
    }
}

/// An equality with an array is met by the whole array, or by its first element where the index holds elements.
fn push_points(value: &Bson, points: &mut Vec<Bson>) {
    if let Bson::Array(values) = value {
        points.push(values.first().cloned().unwrap_or(Bson::Undefined));
    }
    points.push(value.clone());
    if *value == Bson::Null {
        points.push(Bson::Undefined);
    }
}

/// The operand of a filter that is one equality on `_id`.
pub(crate) fn id_equality(root: &Node) -> Option<&Bson> {
    match root {
        Node::Leaf { path, test: Test::Compare { operator: Operator::Equal, operand, .. } }
            if path.dotted() == "_id" && !matches!(operand, Bson::Array(_) | Bson::Null) =>
        {
            Some(operand)
        }
        _ => None,
    }
}
