//! Numbers of the four BSON types: promotion and arithmetic.
//!
//! Two families of rules exist in a mongod. Updates (`$inc`, `$mul`, `$bit`) use [`Number::checked_add`] and
//! [`Number::checked_multiply`]: int widens to long, a long that overflows is refused. Expressions use
//! [`Sum`], which adds integers and doubles with compensation and narrows at the end.

use bson::Bson;

use super::View;
use super::decimal::{Dec, Rounding};

/// A numeric value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// 32-bit integer.
    Int(i32),
    /// 64-bit integer.
    Long(i64),
    /// 64-bit float.
    Double(f64),
    /// Decimal.
    Decimal(Dec),
}

impl View<'_> {
    /// The number it is, if it is one.
    #[inline]
    pub fn number(self) -> Option<Number> {
        Some(match self {
            Self::Int32(value) => Number::Int(value),
            Self::Int64(value) => Number::Long(value),
            Self::Double(value) => Number::Double(value),
            Self::Decimal(value) => Number::Decimal(Dec::from_bson(value)),
            _ => return None,
        })
    }
}

impl From<Number> for Bson {
    fn from(value: Number) -> Self {
        match value {
            Number::Int(value) => Bson::Int32(value),
            Number::Long(value) => Bson::Int64(value),
            Number::Double(value) => Bson::Double(value),
            Number::Decimal(value) => Bson::Decimal128(value.to_bson()),
        }
    }
}

/// 2^63 as a double.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The long that a double is, when it is a whole number in range.
pub fn exact_i64(value: f64) -> Option<i64> {
    (value.trunc() == value && (-TWO_TO_63..TWO_TO_63).contains(&value)).then_some(value as i64)
}

/// An int where it fits, else a long.
pub fn int_or_long(value: i64) -> Bson {
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

impl Number {
    /// The long it equals, if it is a whole number in range.
    pub fn as_exact_i64(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value.into()),
            Self::Long(value) => Some(value),
            Self::Double(value) => exact_i64(value),
            Self::Decimal(value) => value.to_i64_exact(),
        }
    }

    /// The int it equals, if it is a whole number in range.
    pub fn as_exact_i32(self) -> Option<i32> {
        self.as_exact_i64().and_then(|value| i32::try_from(value).ok())
    }

    /// The whole part, held to the range of a long; NaN is zero.
    pub fn to_i64_saturating(self) -> i64 {
        match self {
            Self::Int(value) => value.into(),
            Self::Long(value) => value,
            Self::Double(value) => value as i64,
            Self::Decimal(value) => value.to_i64_rounded(Rounding::TowardZero).unwrap_or({
                match (value.is_nan(), value.negative) {
                    (true, _) => 0,
                    (false, true) => i64::MIN,
                    (false, false) => i64::MAX,
                }
            }),
        }
    }

    /// As a double, rounded.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Int(value) => value.into(),
            Self::Long(value) => value as f64,
            Self::Double(value) => value,
            Self::Decimal(value) => value.to_f64(),
        }
    }

    /// As a decimal; a double keeps 15 digits, as a mongod converts in arithmetic.
    pub fn to_decimal(self) -> Dec {
        match self {
            Self::Int(value) => value.into(),
            Self::Long(value) => value.into(),
            Self::Double(value) => Dec::from_f64_15(value),
            Self::Decimal(value) => value,
        }
    }

    /// Whether it is zero of either sign.
    pub fn is_zero(self) -> bool {
        match self {
            Self::Int(value) => value == 0,
            Self::Long(value) => value == 0,
            Self::Double(value) => value == 0.0,
            Self::Decimal(value) => value.is_zero(),
        }
    }

    /// Whether it is NaN.
    pub fn is_nan(self) -> bool {
        match self {
            Self::Double(value) => value.is_nan(),
            Self::Decimal(value) => value.is_nan(),
            _ => false,
        }
    }

    fn promote(self, other: Self) -> Pair {
        match (self, other) {
            (Self::Decimal(_), _) | (_, Self::Decimal(_)) => Pair::Decimals(self.to_decimal(), other.to_decimal()),
            (Self::Double(_), _) | (_, Self::Double(_)) => Pair::Doubles(self.to_f64(), other.to_f64()),
            (Self::Int(left), Self::Int(right)) => Pair::Ints(left, right),
            _ => Pair::Longs(self.to_i64_saturating(), other.to_i64_saturating()),
        }
    }

    /// The sum as an update computes it; `None` when a long overflows.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        Some(match self.promote(other) {
            Pair::Ints(left, right) => {
                left.checked_add(right).map_or(Self::Long(i64::from(left) + i64::from(right)), Self::Int)
            }
            Pair::Longs(left, right) => Self::Long(left.checked_add(right)?),
            Pair::Doubles(left, right) => Self::Double(left + right),
            Pair::Decimals(left, right) => Self::Decimal(left.plus(right)),
        })
    }

    /// The product as an update computes it; `None` when a long overflows.
    pub fn checked_multiply(self, other: Self) -> Option<Self> {
        Some(match self.promote(other) {
            Pair::Ints(left, right) => {
                left.checked_mul(right).map_or(Self::Long(i64::from(left) * i64::from(right)), Self::Int)
            }
            Pair::Longs(left, right) => Self::Long(left.checked_mul(right)?),
            Pair::Doubles(left, right) => Self::Double(left * right),
            Pair::Decimals(left, right) => Self::Decimal(left.multiply(right)),
        })
    }
}

enum Pair {
    Ints(i32, i32),
    Longs(i64, i64),
    Doubles(f64, f64),
    Decimals(Dec, Dec),
}

/// The widest type met so far, in the order in which a mongod widens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Width {
    /// Only ints.
    #[default]
    Int,
    /// Some long.
    Long,
    /// Some double.
    Double,
    /// Some decimal.
    Decimal,
}

impl Number {
    /// Its type as a [`Width`].
    pub fn width(self) -> Width {
        match self {
            Self::Int(_) => Width::Int,
            Self::Long(_) => Width::Long,
            Self::Double(_) => Width::Double,
            Self::Decimal(_) => Width::Decimal,
        }
    }
}

/// A sum of doubles and integers as two doubles: the rounded sum and what rounding lost.
#[derive(Debug, Clone, Copy, Default)]
pub struct DoubleDouble {
    sum: f64,
    rest: f64,
    special: f64,
}

impl DoubleDouble {
    /// Adds a double.
    pub fn add(&mut self, value: f64) {
        self.special += value;
        if !value.is_finite() {
            return;
        }
        let (sum, low) = two_sum(self.sum, value);
        self.rest += low;
        let (sum, rest) = two_sum(sum, self.rest);
        self.sum = sum;
        self.rest = rest;
    }

    /// Adds a long without losing its low bits.
    pub fn add_long(&mut self, value: i64) {
        // 2^53: below it a double holds the long exactly
        if value.unsigned_abs() <= 1 << 53 {
            self.add(value as f64);
        } else {
            let low = value & 0xffff_ffff;
            self.add((value - low) as f64);
            self.add(low as f64);
        }
    }

    /// The sum as one double.
    pub fn to_f64(self) -> f64 {
        // a finite sum that overflowed shows in `sum`, an operand that was not finite in `special`
        if self.special.is_finite() || self.sum.is_infinite() { self.sum } else { self.special }
    }

    /// The sum as two doubles.
    pub fn parts(self) -> (f64, f64) {
        (self.to_f64(), if self.to_f64().is_finite() { self.rest } else { 0.0 })
    }

    /// The sum as a decimal.
    pub fn to_decimal(self) -> Dec {
        let total = self.to_f64();
        if !total.is_finite() {
            return Dec::from_f64(total);
        }
        if self.rest == 0.0 { Dec::from_f64(total) } else { Dec::from_f64(total).plus(Dec::from_f64(self.rest)) }
    }

    /// The sum as a long, when it is whole and fits.
    pub fn to_i64(self) -> Option<i64> {
        let total = self.to_f64();
        if !total.is_finite() || total.abs() > TWO_TO_63 || self.rest.trunc() != self.rest || total.trunc() != total {
            return None;
        }
        i64::try_from(total as i128 + self.rest as i128).ok()
    }
}

fn two_sum(left: f64, right: f64) -> (f64, f64) {
    let sum = left + right;
    let back = sum - left;
    (sum, (left - (sum - back)) + (right - back))
}

/// A sum over numbers of any type, narrowed at the end (the rule of `$add`, `$sum` and `$avg`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    width: Width,
    binary: DoubleDouble,
    decimal: Option<Dec>,
}

impl Sum {
    /// Adds one number.
    pub fn add(&mut self, value: Number) {
        self.width = self.width.max(value.width());
        match value {
            Number::Int(value) => self.binary.add(value.into()),
            Number::Long(value) => self.binary.add_long(value),
            Number::Double(value) => self.binary.add(value),
            Number::Decimal(value) => self.decimal = Some(self.decimal.map_or(value, |total| total.plus(value))),
        }
    }

    /// Adds milliseconds, which do not widen the result.
    pub fn add_millis(&mut self, millis: i64) {
        self.binary.add_long(millis);
    }

    /// The widest type added.
    pub fn width(&self) -> Width {
        self.width
    }

    /// The sum as a double; decimals rounded.
    pub fn to_f64(&self) -> f64 {
        match self.decimal {
            Some(_) => self.to_decimal().to_f64(),
            None => self.binary.to_f64(),
        }
    }

    /// The sum as a decimal.
    pub fn to_decimal(&self) -> Dec {
        match self.decimal {
            Some(total) => total.plus(self.binary.to_decimal()),
            None => self.binary.to_decimal(),
        }
    }

    /// The sum as a long, when it is whole and fits.
    pub fn to_i64(&self) -> Option<i64> {
        match self.decimal {
            Some(_) => self.to_decimal().to_i64_rounded(Rounding::HalfEven),
            None => self.binary.to_i64(),
        }
    }

    /// The sum in the narrowest type that the operands allow: ints that overflow give a long, longs that overflow a
    /// double.
    pub fn total(&self) -> Bson {
        match self.width {
            Width::Decimal => Bson::Decimal128(self.to_decimal().to_bson()),
            Width::Double => Bson::Double(self.binary.to_f64()),
            Width::Long => self.binary.to_i64().map_or(Bson::Double(self.binary.to_f64()), Bson::Int64),
            Width::Int => self.binary.to_i64().map_or(Bson::Double(self.binary.to_f64()), int_or_long),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn updates_widen_ints_and_refuse_long_overflow() {
        let check = |left, right, sum: Option<Number>| assert_eq!(Number::checked_add(left, right), sum);
        check(Number::Int(i32::MAX), Number::Int(1), Some(Number::Long(1 << 31)));
        check(Number::Int(1), Number::Double(1.5), Some(Number::Double(2.5)));
        check(Number::Long(i64::MAX), Number::Int(1), None);
        check(Number::Long(1), Number::Decimal(Dec::from(2)), Some(Number::Decimal(Dec::from(3))));
        assert_eq!(Number::Int(i32::MAX).checked_multiply(Number::Int(2)), Some(Number::Long(4_294_967_294)));
        assert_eq!(Number::Long(i64::MAX).checked_multiply(Number::Int(2)), None);
    }

    #[test]
    fn sums_narrow() {
        let check = |values: &[Number], want: Bson| {
            let mut sum = Sum::default();
            values.iter().for_each(|value| sum.add(*value));
            assert_eq!(sum.total(), want);
        };
        check(&[], Bson::Int32(0));
        check(&[Number::Int(i32::MAX), Number::Int(1)], Bson::Int64(1 << 31));
        check(&[Number::Long(1), Number::Int(1)], Bson::Int64(2));
        check(&[Number::Long(i64::MAX), Number::Long(1)], Bson::Double(TWO_TO_63));
        check(&[Number::Long(i64::MAX), Number::Double(1.0), Number::Double(-1.0)], Bson::Double(TWO_TO_63));
        check(&[Number::Double(0.1), Number::Double(0.2), Number::Double(-0.1)], Bson::Double(0.2));
        check(&[Number::Double(f64::INFINITY), Number::Int(1)], Bson::Double(f64::INFINITY));
        let seven_and_a_half = Bson::Decimal128("7.5".parse().unwrap());
        check(
            &[Number::Int(1), Number::Double(2.5), Number::Long(3), Number::Decimal(Dec::parse("1.0").unwrap())],
            seven_and_a_half,
        );
    }

    proptest! {
        #[test]
        fn long_sums_are_exact(values in prop::collection::vec(any::<i64>().prop_map(|v| v >> 8), 0..20)) {
            let mut sum = Sum::default();
            values.iter().for_each(|value| sum.add(Number::Long(*value)));
            prop_assert_eq!(sum.to_i64(), Some(values.iter().sum::<i64>()));
        }
    }
}
