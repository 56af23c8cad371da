//! `$cmp`, `$eq`, `$gt`, `$gte`, `$lt`, `$lte`, `$ne`.

use std::cmp::Ordering;

use bson::Bson;

use super::Expression;
use super::lent::Lent;
use super::table::{Operator, lazy};
use super::variables::Frame;
use crate::error::Result;
use crate::value::{Collation, View, compare};

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    lazy("$cmp", 2, 2, |arguments, frame| Ok(Some(Bson::Int32(order(arguments, frame)? as i32)))),
    lazy("$eq", 2, 2, |arguments, frame| Ok(Some(Bson::Boolean(order(arguments, frame)?.is_eq())))),
    lazy("$gt", 2, 2, |arguments, frame| Ok(Some(Bson::Boolean(order(arguments, frame)?.is_gt())))),
    lazy("$gte", 2, 2, |arguments, frame| Ok(Some(Bson::Boolean(order(arguments, frame)?.is_ge())))),
    lazy("$lt", 2, 2, |arguments, frame| Ok(Some(Bson::Boolean(order(arguments, frame)?.is_lt())))),
    lazy("$lte", 2, 2, |arguments, frame| Ok(Some(Bson::Boolean(order(arguments, frame)?.is_le())))),
    lazy("$ne", 2, 2, |arguments, frame| Ok(Some(Bson::Boolean(order(arguments, frame)?.is_ne())))),
];

fn order(arguments: &[Expression], frame: &mut Frame<'_>) -> Result<Ordering> {
    let [left, right] = arguments else { return Ok(Ordering::Equal) };
    let left: Lent<'_> = left.eval_view(frame)?;
    let right = right.eval_view(frame)?;
    Ok(compare_optional(left.view(), right.view(), frame.collation()))
}

/// The order of values with a missing one before all but `MinKey`, equal to undefined's rank but below it.
pub(crate) fn compare_optional(
    left: Option<View<'_>>,
    right: Option<View<'_>>,
    collation: Option<&Collation>,
) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => compare(left, right, collation),
        (None, None) => Ordering::Equal,
        (None, Some(View::MinKey)) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (Some(View::MinKey), None) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
    }
}
