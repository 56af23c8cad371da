//! The total order of BSON values.
//!
//! Types first, by rank; numbers of all four types by exact value, with NaN below every number; documents field by
//! field, each by type rank, then name, then value; binary data by length, subtype, bytes.

use std::cmp::Ordering;

use super::decimal::Dec;
use super::{ArrayView, Collation, DocView, View};

/// Compares two values.
pub fn compare(left: View<'_>, right: View<'_>, collation: Option<&Collation>) -> Ordering {
    let ranks = left.kind().rank().cmp(&right.kind().rank());
    if ranks != Ordering::Equal {
        return ranks;
    }
    compare_same_rank(left, right, collation)
}

/// Whether two values are equal in the order of values (`1` and `1.0` are).
pub fn equal(left: View<'_>, right: View<'_>, collation: Option<&Collation>) -> bool {
    compare(left, right, collation) == Ordering::Equal
}

/// Compares two documents.
pub fn compare_documents(left: DocView<'_>, right: DocView<'_>, collation: Option<&Collation>) -> Ordering {
    let mut left = left.iter();
    let mut right = right.iter();
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((left_name, left)), Some((right_name, right))) => {
                let order = left
                    .kind()
                    .rank()
                    .cmp(&right.kind().rank())
                    .then_with(|| left_name.as_bytes().cmp(right_name.as_bytes()))
                    .then_with(|| compare_same_rank(left, right, collation));
                if order != Ordering::Equal {
                    return order;
                }
            }
        }
    }
}

/// Compares two arrays element by element.
pub fn compare_arrays(left: ArrayView<'_>, right: ArrayView<'_>, collation: Option<&Collation>) -> Ordering {
    let mut left = left.iter();
    let mut right = right.iter();
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(left), Some(right)) => {
                let order = compare(left, right, collation);
                if order != Ordering::Equal {
                    return order;
                }
            }
        }
    }
}

/// Compares text, with the collation if there is one.
pub fn compare_text(left: &str, right: &str, collation: Option<&Collation>) -> Ordering {
    match collation {
        Some(collation) => collation.compare(left, right),
        None => left.as_bytes().cmp(right.as_bytes()),
    }
}

fn compare_same_rank(left: View<'_>, right: View<'_>, collation: Option<&Collation>) -> Ordering {
    use View as V;
    match (left, right) {
        (V::Int32(left), V::Int32(right)) => left.cmp(&right),
        (V::String(left) | V::Symbol(left), V::String(right) | V::Symbol(right)) => {
            compare_text(left, right, collation)
        }
        (V::ObjectId(left), V::ObjectId(right)) => left.bytes().cmp(&right.bytes()),
        (V::Document(left), V::Document(right)) => compare_documents(left, right, collation),
        (V::Array(left), V::Array(right)) => compare_arrays(left, right, collation),
        (V::Binary { subtype: ls, bytes: lb }, V::Binary { subtype: rs, bytes: rb }) => {
            stored_length(ls, lb).cmp(&stored_length(rs, rb)).then(ls.cmp(&rs)).then_with(|| lb.cmp(rb))
        }
        (V::Bool(left), V::Bool(right)) => left.cmp(&right),
        (V::DateTime(left), V::DateTime(right)) => left.cmp(&right),
        (V::Timestamp { time: lt, increment: li }, V::Timestamp { time: rt, increment: ri }) => (lt, li).cmp(&(rt, ri)),
        (V::Regex { pattern: lp, options: lo }, V::Regex { pattern: rp, options: ro }) => {
            lp.as_bytes().cmp(rp.as_bytes()).then_with(|| lo.as_bytes().cmp(ro.as_bytes()))
        }
        (V::DbPointer(left), V::DbPointer(right)) => {
            let (left_ns, left_id) = left.parts();
            let (right_ns, right_id) = right.parts();
            (left_ns.len().cmp(&right_ns.len()))
                .then_with(|| left_ns.as_bytes().cmp(right_ns.as_bytes()))
                .then_with(|| left_id.bytes().cmp(&right_id.bytes()))
        }
        (V::Code(left), V::Code(right)) => left.as_bytes().cmp(right.as_bytes()),
        (V::CodeWithScope { code: lc, scope: ls }, V::CodeWithScope { code: rc, scope: rs }) => {
            lc.as_bytes().cmp(rc.as_bytes()).then_with(|| compare_documents(ls, rs, None))
        }
        _ => compare_numbers(left, right),
    }
}

/// The length that a mongod compares: subtype 2 has a length of its own inside.
pub(super) fn stored_length(subtype: u8, bytes: &[u8]) -> usize {
    bytes.len() + if subtype == 2 { 4 } else { 0 }
}

/// Compares two numbers of any type; anything else is equal.
fn compare_numbers(left: View<'_>, right: View<'_>) -> Ordering {
    use View as V;
    match (left, right) {
        (V::Double(left), V::Double(right)) => doubles(left, right),
        (V::Double(left), V::Decimal(right)) => double_to_decimal(left, Dec::from_bson(right)),
        (V::Decimal(left), V::Double(right)) => double_to_decimal(right, Dec::from_bson(left)).reverse(),
        (V::Decimal(left), V::Decimal(right)) => Dec::from_bson(left).compare(&Dec::from_bson(right)),
        (left, right) => match (integer(left), integer(right)) {
            (Some(left), Some(right)) => left.cmp(&right),
            (Some(left), None) => integer_to_other(left, right),
            (None, Some(right)) => integer_to_other(right, left).reverse(),
            (None, None) => Ordering::Equal,
        },
    }
}

fn integer(value: View<'_>) -> Option<i64> {
    match value {
        View::Int32(value) => Some(value.into()),
        View::Int64(value) => Some(value),
        _ => None,
    }
}

fn integer_to_other(left: i64, right: View<'_>) -> Ordering {
    match right {
        View::Double(right) => long_to_double(left, right),
        View::Decimal(right) => Dec::from(left).compare(&Dec::from_bson(right)),
        _ => Ordering::Equal,
    }
}

/// NaN equals itself and is less than every other number.
pub fn doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

/// Exact: no rounding of the long.
fn long_to_double(left: i64, right: f64) -> Ordering {
    if right.is_nan() {
        return Ordering::Greater;
    }
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if right >= TWO_TO_63 {
        return Ordering::Less;
    }
    if right < -TWO_TO_63 {
        return Ordering::Greater;
    }
    let whole = right.trunc();
    left.cmp(&(whole as i64)).then_with(|| doubles(0.0, right - whole))
}

fn double_to_decimal(left: f64, right: Dec) -> Ordering {
    right.compare_f64(left).reverse()
}
