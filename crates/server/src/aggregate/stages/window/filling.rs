//! `$linearFill` and `$locf`: values in the place of those that are null or missing.

use bson::Bson;

use super::numeric::Real;
use crate::aggregate::expression::Val;
use crate::aggregate::expression::lent::{nullish, type_name};
use crate::error::{Result, fail};
use crate::value::{View, compare};

/// The last value before that is none of those; null before the first.
pub(super) fn carried_forward(values: Vec<Val>) -> Vec<Val> {
    let mut last = Some(Bson::Null);
    let carry = |value: Val| {
        if !nullish(&value) {
            last = value;
        }
        last.clone()
    };
    values.into_iter().map(carry).collect()
}

/// On the line between the numbers on both sides; null outside of them.
///
/// # Errors
/// When a value or a sort value is neither a number nor, for the latter, a date; when two sort values are the same.
pub(super) fn on_the_line(values: Vec<Val>, sorted: &[Val]) -> Result<Vec<Val>> {
    let mut places = Vec::with_capacity(sorted.len());
    for (at, value) in sorted.iter().enumerate() {
        let place = match value {
            Some(Bson::DateTime(date)) => Real::Double(date.timestamp_millis() as f64),
            other => match Real::of(other) {
                Some(number) => number,
                None => {
                    let found = type_name(other);
                    let text = "$linearFill must have a sortBy field of a numeric or Date type, but found";
                    return fail(605001, format!("{text} {found}"));
                }
            },
        };
        let before = at.checked_sub(1).and_then(|before| sorted[before].as_ref()).zip(value.as_ref());
        if before.is_some_and(|(before, value)| compare::equal(View::from(before), View::from(value), None)) {
            return fail(6050106, "There can be no repeated values in the sort field");
        }
        places.push(place);
    }
    let mut filled = values;
    let mut left: Option<(Real, Real)> = None;
    let mut gap_from = 0;
    for at in 0..filled.len() {
        let value = &filled[at];
        if nullish(value) {
            continue;
        }
        let Some(number) = Real::of(value) else {
            let found = type_name(value);
            return fail(6050105, format!("Value to be filled must be numeric or nullish, but found {found}"));
        };
        let right = (places[at], number);
        for (gap, place) in filled[gap_from..at].iter_mut().zip(&places[gap_from..at]) {
            *gap = match left {
                Some((x, y)) => {
                    let slope = right.1.minus(y).over(right.0.minus(x));
                    y.plus(place.minus(x).times(slope)).value()
                }
                None => Some(Bson::Null),
            };
        }
        (left, gap_from) = (Some(right), at + 1);
    }
    filled[gap_from..].fill(Some(Bson::Null));
    Ok(filled)
}
