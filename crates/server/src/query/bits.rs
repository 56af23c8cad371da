//! `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.

use super::node::{Node, Test};
use super::parse::{FieldOperand, FieldParser, non_negative};
use crate::error::{Result, fail};
use crate::value::View;
use crate::value::number::Number;

/// The operators of this family.
pub(crate) const FIELD: &[(&str, FieldParser)] = &[
    ("$bitsAllSet", |_, operand| parse(operand, Want { all: true, set: true })),
    ("$bitsAllClear", |_, operand| parse(operand, Want { all: true, set: false })),
    ("$bitsAnySet", |_, operand| parse(operand, Want { all: false, set: true })),
    ("$bitsAnyClear", |_, operand| parse(operand, Want { all: false, set: false })),
];

/// Whether all or any of the bits, and set or clear.
#[derive(Debug, Clone, Copy)]
struct Want {
    all: bool,
    set: bool,
}

/// A test of the bits of integers and binary data.
#[derive(Debug, Clone)]
pub(crate) struct BitTest {
    positions: Vec<u32>,
    want: Want,
}

impl BitTest {
    /// Whether `value` has the bits. Only whole numbers in the range of a long and binary data do.
    pub(crate) fn matches(&self, value: View<'_>) -> bool {
        let bit: &dyn Fn(u32) -> bool = match value {
            View::Binary { bytes, .. } => {
                &|at| bytes.get(at as usize / 8).is_some_and(|byte| byte & (1 << (at % 8)) != 0)
            }
            other => {
                let Some(number) = other.number() else { return false };
                let whole = match number {
                    Number::Decimal(value) => value.to_i64_truncated(),
                    other => other.as_exact_i64(),
                };
                let Some(whole) = whole else { return false };
                // beyond the 64th bit the sign goes on
                &move |at| whole >> at.min(63) & 1 == 1
            }
        };
        if self.want.all {
            self.positions.iter().all(|at| bit(*at) == self.want.set)
        } else {
            self.positions.iter().any(|at| bit(*at) == self.want.set)
        }
    }
}

fn parse(operand: &FieldOperand<'_>, want: Want) -> Result<Option<Node>> {
    let positions = match operand.value {
        View::Array(array) => {
            array.iter().enumerate().map(|(at, value)| position(at, value)).collect::<Result<Vec<_>>>()?
        }
        View::Binary { bytes, .. } => {
            (0..bytes.len() as u32 * 8).filter(|at| bytes[*at as usize / 8] & (1 << (at % 8)) != 0).collect()
        }
        value if value.number().is_some() => {
            let mask = non_negative(operand.name, value)?;
            (0..64).filter(|at| mask >> at & 1 == 1).collect()
        }
        _ => {
            let text = "takes an Array, a number, or a BinData but received";
            return fail(2, format!("{} {text}: {}", operand.path, operand.shown()));
        }
    };
    Ok(Some(operand.leaf(Test::Bits(BitTest { positions, want }))))
}

fn position(at: usize, value: View<'_>) -> Result<u32> {
    let shown = || crate::value::text::element(&at.to_string(), value);
    let Some(number) = value.number() else {
        return fail(2, format!("bit positions must be an integer but got: {}", shown()));
    };
    if number.is_nan() {
        return fail(2, format!("bit positions cannot take a NaN: {}", shown()));
    }
    if number.to_f64().abs() > f64::from(i32::MAX) {
        return fail(2, format!("bit positions cannot be represented as a 32-bit signed integer: {}", shown()));
    }
    let Some(whole) = number.as_exact_i32() else {
        return fail(2, format!("bit positions must be an integer but got: {}", shown()));
    };
    u32::try_from(whole).or_else(|_| fail(2, format!("bit positions must be >= 0 but got: {}", shown())))
}
