//! Decimal128 arithmetic (IEEE 754-2008, the BID encoding that BSON stores).
//!
//! 34 digits, exponents from -6176 to 6111, rounding half to even. Sums, products, quotients and remainders are exact
//! before the one rounding. NaN payloads and the signalling bit
//! are not kept.

use std::cmp::Ordering;

use bson::Decimal128;
use num_bigint::BigUint;

/// Most significant digits.
pub const DIGITS: u32 = 34;
/// Largest exponent of a 34-digit coefficient.
pub const MAX_EXPONENT: i32 = 6111;
/// Smallest exponent.
pub const MIN_EXPONENT: i32 = -6176;
const BIAS: i32 = 6176;
/// 10^34 - 1.
const MAX_COEFFICIENT: u128 = 9_999_999_999_999_999_999_999_999_999_999_999;

/// A decoded decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dec {
    /// Sign; zero has one too.
    pub negative: bool,
    /// Magnitude.
    pub magnitude: Magnitude,
}

/// The magnitude of a [`Dec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Magnitude {
    /// `coefficient` x 10^`exponent`.
    Finite {
        /// At most 34 digits.
        coefficient: u128,
        /// Power of ten.
        exponent: i32,
    },
    /// Infinity.
    Infinite,
    /// Not a number.
    NaN,
}

use Magnitude::{Finite, Infinite, NaN};

/// How a quotient or a quantized value is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, ties to the even digit.
    HalfEven,
    /// Toward zero.
    TowardZero,
    /// Toward negative infinity.
    Floor,
    /// Toward positive infinity.
    Ceiling,
}

fn power_of_ten(exponent: u32) -> BigUint {
    BigUint::from(10u32).pow(exponent)
}

fn digits_of(coefficient: u128) -> u32 {
    coefficient.checked_ilog10().map_or(1, |log| log + 1)
}

impl From<i64> for Dec {
    fn from(value: i64) -> Self {
        Self::finite(value < 0, value.unsigned_abs().into(), 0)
    }
}

impl From<i32> for Dec {
    fn from(value: i32) -> Self {
        Self::from(i64::from(value))
    }
}

impl Dec {
    /// Zero.
    pub const ZERO: Self = Self::finite(false, 0, 0);
    /// NaN.
    pub const NAN: Self = Self { negative: false, magnitude: NaN };
    /// Positive infinity.
    pub const INFINITY: Self = Self { negative: false, magnitude: Infinite };

    /// A finite value; the caller keeps to 34 digits and to the exponent range.
    pub const fn finite(negative: bool, coefficient: u128, exponent: i32) -> Self {
        Self { negative, magnitude: Finite { coefficient, exponent } }
    }

    /// Decodes a BSON value. A coefficient above 34 digits is zero, as the standard asks.
    pub fn from_bson(value: Decimal128) -> Self {
        let bits = u128::from_le_bytes(value.bytes());
        let negative = bits >> 127 == 1;
        let combination = (bits >> 122) as u8 & 0x1f;
        let magnitude = match combination {
            0x1f => NaN,
            0x1e => Infinite,
            0x18..=0x1d => Finite { coefficient: 0, exponent: ((bits >> 111) as i32 & 0x3fff) - BIAS },
            _ => {
                let coefficient = bits & ((1 << 113) - 1);
                Finite {
                    coefficient: if coefficient > MAX_COEFFICIENT { 0 } else { coefficient },
                    exponent: ((bits >> 113) as i32 & 0x3fff) - BIAS,
                }
            }
        };
        Self { negative, magnitude }
    }

    /// Encodes it.
    pub fn to_bson(self) -> Decimal128 {
        let sign = u128::from(self.negative) << 127;
        let bits = match self.magnitude {
            NaN => 0x1f << 122,
            Infinite => 0x1e << 122,
            Finite { coefficient, exponent } => (((exponent + BIAS) as u128 & 0x3fff) << 113) | coefficient,
        };
        Decimal128::from_bytes((sign | bits).to_le_bytes())
    }

    /// Rounds an exact `coefficient` x 10^`exponent` to 34 digits and to the exponent range.
    ///
    /// `sticky` says that a nonzero amount below the coefficient was cut off.
    pub fn rounded(negative: bool, coefficient: BigUint, exponent: i64, sticky: bool) -> Self {
        Self::rounded_with(negative, coefficient, exponent, sticky, Rounding::HalfEven)
    }

    fn rounded_with(negative: bool, mut coefficient: BigUint, mut exponent: i64, sticky: bool, how: Rounding) -> Self {
        let length = decimal_length(&coefficient);
        let mut drop = i64::from(length) - i64::from(DIGITS);
        drop = drop.max(i64::from(MIN_EXPONENT) - exponent);
        if drop > 0 {
            coefficient = shift_right(negative, coefficient, drop, sticky, how);
            exponent += drop;
            if coefficient > BigUint::from(MAX_COEFFICIENT) {
                coefficient /= 10u32;
                exponent += 1;
            }
        } else if sticky && how != Rounding::HalfEven {
            coefficient = shift_right(negative, coefficient * 10u32, 1, true, how);
        }
        let small = u128::try_from(&coefficient).unwrap_or(MAX_COEFFICIENT);
        Self::fitted(negative, small, exponent)
    }

    /// Brings an exponent that is too large into range by padding zeros, or overflows to infinity.
    fn fitted(negative: bool, mut coefficient: u128, mut exponent: i64) -> Self {
        if coefficient == 0 {
            let exponent = exponent.clamp(MIN_EXPONENT.into(), MAX_EXPONENT.into()) as i32;
            return Self::finite(negative, 0, exponent);
        }
        while exponent > i64::from(MAX_EXPONENT) {
            match coefficient.checked_mul(10).filter(|padded| *padded <= MAX_COEFFICIENT) {
                Some(padded) => {
                    coefficient = padded;
                    exponent -= 1;
                }
                None => return Self { negative, magnitude: Infinite },
            }
        }
        Self::finite(negative, coefficient, exponent as i32)
    }

    /// The value nearest to a double with 34 digits; exact doubles keep few digits (2.5 stays 2.5).
    pub fn from_f64(value: f64) -> Self {
        if value.is_nan() {
            return Self::NAN;
        }
        let negative = value.is_sign_negative();
        if value.is_infinite() {
            return Self { negative, magnitude: Infinite };
        }
        let (mantissa, exponent) = split(value);
        if mantissa == 0 {
            return Self::finite(negative, 0, 0);
        }
        // without trailing zero bits the decimal has no trailing zeros
        let spare = mantissa.trailing_zeros().min(exponent.min(0).unsigned_abs());
        let (mantissa, exponent) = (BigUint::from(mantissa >> spare), exponent + spare as i32);
        if exponent >= 0 {
            return Self::rounded(negative, mantissa << exponent as usize, 0, false);
        }
        // m / 2^k = m * 5^k / 10^k
        let power = exponent.unsigned_abs();
        Self::rounded(negative, mantissa * BigUint::from(5u32).pow(power), -i64::from(power), false)
    }

    /// The value of a double to 15 significant digits, as a mongod converts doubles in arithmetic: 2.5 becomes
    /// 2.50000000000000. Zero and the non-finite stay as they are.
    pub fn from_f64_15(value: f64) -> Self {
        let exact = Self::from_f64(value);
        let Finite { coefficient, exponent } = exact.magnitude else { return exact };
        if coefficient == 0 {
            return exact;
        }
        let target = exponent + digits_of(coefficient) as i32 - 15;
        let rounded = exact.quantized(target, Rounding::HalfEven);
        match rounded.magnitude {
            // rounding up made a 16th digit
            Finite { coefficient, .. } if digits_of(coefficient) > 15 => {
                exact.quantized(target + 1, Rounding::HalfEven)
            }
            _ => rounded,
        }
    }

    /// Parses a decimal number as a mongod does: an optional sign, digits with one point, an optional exponent, or
    /// `Infinity`, `Inf`, `NaN` in any case. Digits beyond the 34th are rounded.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, body) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if body.eq_ignore_ascii_case("inf") || body.eq_ignore_ascii_case("infinity") {
            return Some(Self { negative, magnitude: Infinite });
        }
        if body.eq_ignore_ascii_case("nan") {
            return Some(Self { negative, magnitude: NaN });
        }
        let (mantissa, exponent) = match body.find(['e', 'E']) {
            Some(at) => (&body[..at], parse_exponent(&body[at + 1..])?),
            None => (body, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: String = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let coefficient: BigUint = digits.parse().ok()?;
        Some(Self::rounded(negative, coefficient, exponent - fraction.len() as i64, false))
    }

    /// Whether it is zero of either sign.
    pub fn is_zero(&self) -> bool {
        matches!(self.magnitude, Finite { coefficient: 0, .. })
    }

    /// Whether it is NaN.
    pub fn is_nan(&self) -> bool {
        self.magnitude == NaN
    }

    /// Whether it is an infinity.
    pub fn is_infinite(&self) -> bool {
        self.magnitude == Infinite
    }

    /// Below zero (not the negative zero, not NaN).
    pub fn is_below_zero(&self) -> bool {
        self.negative && !self.is_zero() && !self.is_nan()
    }

    /// The value with the sign flipped.
    pub fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// The value without its sign.
    pub fn abs(self) -> Self {
        Self { negative: false, ..self }
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        let magnitude = match self.magnitude {
            NaN => return f64::NAN,
            Infinite => f64::INFINITY,
            Finite { coefficient, exponent } => format!("{coefficient}e{exponent}").parse().unwrap_or(f64::NAN),
        };
        if self.negative { -magnitude } else { magnitude }
    }

    /// The largest double that is not above the magnitude, and whether it equals the magnitude.
    pub fn magnitude_toward_zero(&self) -> (f64, bool) {
        let Finite { coefficient, exponent } = self.magnitude else {
            return (f64::INFINITY, true);
        };
        if exponent == 0 && coefficient < 1 << 53 {
            return (coefficient as f64, true);
        }
        let nearest = self.abs().to_f64();
        if nearest == 0.0 {
            return (0.0, coefficient == 0);
        }
        if nearest.is_infinite() {
            return (f64::MAX, false);
        }
        match compare_binary_decimal(nearest, coefficient, exponent) {
            Ordering::Equal => (nearest, true),
            Ordering::Less => (nearest, false),
            Ordering::Greater => (nearest.next_down(), false),
        }
    }

    /// Compares with another decimal; NaN equals NaN and is less than all else; zeros are equal.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self.is_nan(), other.is_nan()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            _ => {}
        }
        if self.is_zero() && other.is_zero() {
            return Ordering::Equal;
        }
        let (left_below, right_below) = (self.is_below_zero(), other.is_below_zero());
        match (left_below, right_below) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (true, true) => self.compare_magnitude(other).reverse(),
            (false, false) => self.compare_magnitude(other),
        }
    }

    fn compare_magnitude(&self, other: &Self) -> Ordering {
        let (Finite { coefficient: lc, exponent: le }, Finite { coefficient: rc, exponent: re }) =
            (self.magnitude, other.magnitude)
        else {
            return self.is_infinite().cmp(&other.is_infinite());
        };
        if lc == 0 || rc == 0 {
            return lc.cmp(&rc);
        }
        let left_top = le + digits_of(lc) as i32;
        let right_top = re + digits_of(rc) as i32;
        left_top.cmp(&right_top).then_with(|| {
            // same number of digits before the point: exponents differ by at most 33
            let left = BigUint::from(lc) * power_of_ten((le - re).max(0) as u32);
            let right = BigUint::from(rc) * power_of_ten((re - le).max(0) as u32);
            left.cmp(&right)
        })
    }

    /// Compares exactly with a double, in the same order.
    pub fn compare_f64(&self, other: f64) -> Ordering {
        match (self.is_nan(), other.is_nan()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            _ => {}
        }
        let below = self.is_below_zero();
        let other_below = other < 0.0;
        if below != other_below {
            return if below { Ordering::Less } else { Ordering::Greater };
        }
        let (toward_zero, exact) = self.magnitude_toward_zero();
        let order = toward_zero.total_cmp(&other.abs());
        let order = if order == Ordering::Equal && !exact { Ordering::Greater } else { order };
        if below { order.reverse() } else { order }
    }

    /// Sum.
    pub fn plus(self, other: Self) -> Self {
        match (self.magnitude, other.magnitude) {
            (NaN, _) | (_, NaN) => Self::NAN,
            (Infinite, Infinite) if self.negative != other.negative => Self::NAN,
            (Infinite, _) => self,
            (_, Infinite) => other,
            (Finite { coefficient: lc, exponent: le }, Finite { coefficient: rc, exponent: re }) => {
                self.add_finite(lc, le, other, rc, re)
            }
        }
    }

    fn add_finite(self, lc: u128, le: i32, other: Self, rc: u128, re: i32) -> Self {
        let low = le.min(re);
        if lc == 0 && rc == 0 {
            return Self::finite(self.negative && other.negative, 0, low);
        }
        if lc == 0 {
            return other.padded_toward(low);
        }
        if rc == 0 {
            return self.padded_toward(low);
        }
        // Beyond this distance the smaller operand can only decide a tie: one unit far below stands for it.
        const FAR: i32 = 80;
        let ((big, bc, be), (small, sc, se)) =
            if le >= re { ((self, lc, le), (other, rc, re)) } else { ((other, rc, re), (self, lc, le)) };
        let (sc, se) = if be - se > FAR { (1, be - FAR) } else { (sc, se) };
        let large = BigUint::from(bc) * power_of_ten((be - se) as u32);
        let little = BigUint::from(sc);
        if big.negative == small.negative {
            return Self::rounded(big.negative, large + little, se.into(), false);
        }
        match large.cmp(&little) {
            Ordering::Equal => Self::finite(false, 0, low),
            Ordering::Greater => Self::rounded(big.negative, large - little, se.into(), false),
            Ordering::Less => Self::rounded(small.negative, little - large, se.into(), false),
        }
    }

    /// The same value with an exponent as near to `exponent` as the digits allow.
    fn padded_toward(self, exponent: i32) -> Self {
        let Finite { coefficient, exponent: own } = self.magnitude else { return self };
        if own <= exponent {
            return self;
        }
        let room = DIGITS - digits_of(coefficient);
        let shift = ((own - exponent) as u32).min(room);
        Self::finite(self.negative, coefficient * 10u128.pow(shift), own - shift as i32)
    }

    /// Difference.
    pub fn subtract(self, other: Self) -> Self {
        if other.is_nan() { Self::NAN } else { self.plus(other.negated()) }
    }

    /// Product.
    pub fn multiply(self, other: Self) -> Self {
        let negative = self.negative != other.negative;
        match (self.magnitude, other.magnitude) {
            (NaN, _) | (_, NaN) => Self::NAN,
            (Infinite, _) | (_, Infinite) if self.is_zero() || other.is_zero() => Self::NAN,
            (Infinite, _) | (_, Infinite) => Self { negative, magnitude: Infinite },
            (Finite { coefficient: lc, exponent: le }, Finite { coefficient: rc, exponent: re }) => {
                let product = BigUint::from(lc) * BigUint::from(rc);
                Self::rounded(negative, product, i64::from(le) + i64::from(re), false)
            }
        }
    }

    /// Quotient; an exact one keeps as few digits as it can.
    pub fn divide(self, other: Self) -> Self {
        let negative = self.negative != other.negative;
        match (self.magnitude, other.magnitude) {
            (NaN, _) | (_, NaN) | (Infinite, Infinite) => Self::NAN,
            (Infinite, _) => Self { negative, magnitude: Infinite },
            (Finite { .. }, Infinite) => Self::finite(negative, 0, MIN_EXPONENT),
            (Finite { coefficient: 0, .. }, Finite { coefficient: 0, .. }) => Self::NAN,
            (Finite { .. }, Finite { coefficient: 0, .. }) => Self { negative, magnitude: Infinite },
            (Finite { coefficient: lc, exponent: le }, Finite { coefficient: rc, exponent: re }) => {
                let ideal = i64::from(le) - i64::from(re);
                if lc == 0 {
                    return Self::fitted(negative, 0, ideal);
                }
                let shift = DIGITS + 2 + digits_of(rc);
                let scaled = BigUint::from(lc) * power_of_ten(shift);
                let divisor = BigUint::from(rc);
                let mut quotient = &scaled / &divisor;
                let sticky = &quotient * &divisor != scaled;
                let mut exponent = ideal - i64::from(shift);
                if !sticky {
                    let ten = BigUint::from(10u32);
                    while exponent < ideal && &quotient % &ten == BigUint::ZERO {
                        quotient /= &ten;
                        exponent += 1;
                    }
                }
                Self::rounded(negative, quotient, exponent, sticky)
            }
        }
    }

    /// Remainder with the sign of the dividend, as C's `fmod`.
    pub fn remainder(self, other: Self) -> Self {
        match (self.magnitude, other.magnitude) {
            (NaN, _) | (_, NaN) | (Infinite, _) | (_, Finite { coefficient: 0, .. }) => Self::NAN,
            (_, Infinite) => self,
            (Finite { coefficient: lc, exponent: le }, Finite { coefficient: rc, exponent: re }) => {
                let low = le.min(re);
                let divisor = BigUint::from(rc) * power_of_ten((re - low) as u32);
                let scale = BigUint::from(10u32).modpow(&BigUint::from((le - low) as u32), &divisor);
                let rest = BigUint::from(lc) % &divisor * scale % &divisor;
                Self::rounded(self.negative, rest, low.into(), false)
            }
        }
    }

    /// The value with exactly the exponent `exponent`; NaN when that takes more than 34 digits.
    pub fn quantized(self, exponent: i32, how: Rounding) -> Self {
        let Finite { coefficient, exponent: own } = self.magnitude else { return self };
        if !(MIN_EXPONENT..=MAX_EXPONENT).contains(&exponent) {
            return Self::NAN;
        }
        if own >= exponent {
            let shift = (own - exponent) as u32;
            if coefficient == 0 {
                return Self::finite(self.negative, 0, exponent);
            }
            if digits_of(coefficient) + shift > DIGITS {
                return Self::NAN;
            }
            return Self::finite(self.negative, coefficient * 10u128.pow(shift), exponent);
        }
        let rounded = shift_right(self.negative, coefficient.into(), (exponent - own).into(), false, how);
        match u128::try_from(&rounded) {
            Ok(small) if small <= MAX_COEFFICIENT => Self::finite(self.negative, small, exponent),
            _ => Self::NAN,
        }
    }

    /// Rounded to a whole number; a value without fraction stays as it is.
    pub fn to_integral(self, how: Rounding) -> Self {
        match self.magnitude {
            Finite { exponent, .. } if exponent < 0 => self.quantized(0, how),
            _ => self,
        }
    }

    /// The whole number it is, when it fits 64 bits; `None` when it has a fraction or does not fit.
    pub fn to_i64_exact(self) -> Option<i64> {
        let whole = self.to_integral(Rounding::TowardZero);
        (whole.compare(&self) == Ordering::Equal).then(|| whole.to_i64_truncated())?
    }

    /// The whole part, when it fits 64 bits.
    pub fn to_i64_truncated(self) -> Option<i64> {
        self.to_i64_rounded(Rounding::TowardZero)
    }

    /// The value rounded to a whole number, when it fits 64 bits.
    pub fn to_i64_rounded(self, how: Rounding) -> Option<i64> {
        let Finite { coefficient, exponent } = self.to_integral(how).magnitude else { return None };
        if coefficient == 0 {
            return Some(0);
        }
        if exponent > 19 {
            return None;
        }
        let scaled = coefficient.checked_mul(10u128.checked_pow(exponent.max(0) as u32)?)?;
        let signed = i128::try_from(scaled).ok()?;
        i64::try_from(if self.negative { -signed } else { signed }).ok()
    }

    /// The same value without trailing zeros in the coefficient; zero is `0E0`.
    pub fn normalized(self) -> Self {
        let Finite { mut coefficient, mut exponent } = self.magnitude else { return self };
        if coefficient == 0 {
            return Self::finite(self.negative, 0, 0);
        }
        while coefficient.is_multiple_of(10) {
            coefficient /= 10;
            exponent += 1;
        }
        Self::finite(self.negative, coefficient, exponent)
    }
}

impl std::fmt::Display for Dec {
    /// As the decimal128 specification writes it: plain between 1E-6 and the precision, scientific elsewhere.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_nan() {
            return f.write_str("NaN");
        }
        if self.negative {
            f.write_str("-")?;
        }
        let Finite { coefficient, exponent } = self.magnitude else {
            return f.write_str("Infinity");
        };
        let digits = coefficient.to_string();
        let adjusted = exponent + digits.len() as i32 - 1;
        if exponent > 0 || adjusted < -6 {
            f.write_str(&digits[..1])?;
            if digits.len() > 1 {
                write!(f, ".{}", &digits[1..])?;
            }
            return write!(f, "E{adjusted:+}");
        }
        if exponent == 0 {
            return f.write_str(&digits);
        }
        let fraction = exponent.unsigned_abs() as usize;
        if digits.len() > fraction {
            let (whole, fraction) = digits.split_at(digits.len() - fraction);
            write!(f, "{whole}.{fraction}")
        } else {
            write!(f, "0.{digits:0>fraction$}")
        }
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Anything beyond this over- or underflows all the same.
    let value = digits.parse::<i64>().unwrap_or(1_000_000).min(1_000_000);
    Some(if text.starts_with('-') { -value } else { value })
}

fn decimal_length(value: &BigUint) -> u32 {
    match u128::try_from(value) {
        Ok(small) => digits_of(small),
        Err(_) => value.to_string().len() as u32,
    }
}

/// Drops `count` digits, rounding.
fn shift_right(negative: bool, value: BigUint, count: i64, sticky: bool, how: Rounding) -> BigUint {
    if count > i64::from(decimal_length(&value)) + 1 {
        let nonzero = sticky || value != BigUint::ZERO;
        let away = match how {
            Rounding::Ceiling => nonzero && !negative,
            Rounding::Floor => nonzero && negative,
            Rounding::HalfEven | Rounding::TowardZero => false,
        };
        return BigUint::from(u32::from(away));
    }
    let unit = power_of_ten(count as u32);
    let quotient = &value / &unit;
    let rest = value - &quotient * &unit;
    let inexact = sticky || rest != BigUint::ZERO;
    let up = match how {
        Rounding::TowardZero => false,
        Rounding::Ceiling => inexact && !negative,
        Rounding::Floor => inexact && negative,
        Rounding::HalfEven => match (rest * 2u32).cmp(&unit) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => sticky || quotient.bit(0),
        },
    };
    if up { quotient + 1u32 } else { quotient }
}

/// A finite positive or negative double as mantissa x 2^exponent, without its sign.
fn split(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i32 & 0x7ff;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// Compares a positive double with `coefficient` x 10^`exponent`, exactly.
fn compare_binary_decimal(double: f64, coefficient: u128, exponent: i32) -> Ordering {
    let (mantissa, binary) = split(double);
    let mut left = BigUint::from(mantissa);
    let mut right = BigUint::from(coefficient);
    if binary >= 0 {
        left <<= binary as usize;
    } else {
        right <<= binary.unsigned_abs() as usize;
    }
    if exponent >= 0 {
        right *= power_of_ten(exponent as u32);
    } else {
        left *= power_of_ten(exponent.unsigned_abs());
    }
    left.cmp(&right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dec(text: &str) -> Dec {
        Dec::parse(text).unwrap()
    }

    #[test]
    fn arithmetic() {
        let check = |op: fn(Dec, Dec) -> Dec, left: &str, right: &str, want: &str| {
            assert_eq!(op(dec(left), dec(right)).to_string(), want, "{left} {right}");
        };
        check(Dec::plus, "1.0", "2.50", "3.50");
        check(Dec::plus, "1E+6111", "-1E-6176", "1.000000000000000000000000000000000E+6111");
        check(Dec::plus, "1E+40", "1", "1.000000000000000000000000000000000E+40");
        check(Dec::plus, "9999999999999999999999999999999999", "0.5", "1.000000000000000000000000000000000E+34");
        check(Dec::plus, "Infinity", "-Infinity", "NaN");
        check(Dec::subtract, "1", "1.00", "0.00");
        check(Dec::multiply, "1.5", "-2", "-3.0");
        check(Dec::multiply, "1E+6000", "1E+6000", "Infinity");
        check(Dec::multiply, "1E-6000", "1E-6000", "0E-6176");
        check(Dec::divide, "7", "2", "3.5");
        check(Dec::divide, "1", "3", "0.3333333333333333333333333333333333");
        check(Dec::divide, "2", "3", "0.6666666666666666666666666666666667");
        check(Dec::divide, "1", "0", "Infinity");
        check(Dec::divide, "0", "0", "NaN");
        check(Dec::divide, "100", "10", "10");
        check(Dec::remainder, "-7", "3", "-1");
        check(Dec::remainder, "5.5", "2", "1.5");
        check(Dec::remainder, "1E+6000", "7", "1");
        check(Dec::remainder, "1", "0", "NaN");
    }

    #[test]
    fn texts_round_trip() {
        for text in ["0", "-0", "1.5", "1E+3", "0.000001", "1E-7", "1.23E-10", "NaN", "Infinity", "-Infinity", "0E+5"] {
            assert_eq!(dec(text).to_string(), text);
            assert_eq!(Dec::from_bson(dec(text).to_bson()), dec(text));
        }
        for text in ["", "-", ".", "1e", "1e+", "0x1", " 1", "1 ", "1.2.3", "é"] {
            assert_eq!(Dec::parse(text), None, "{text}");
        }
        assert_eq!(dec("12345678901234567890123456789012345").to_string(), "1.234567890123456789012345678901234E+34");
    }

    #[test]
    fn doubles() {
        assert_eq!(Dec::from_f64(2.5).to_string(), "2.5");
        assert_eq!(Dec::from_f64(0.1).to_string(), "0.1000000000000000055511151231257827");
        assert_eq!(Dec::from_f64_15(0.1).to_string(), "0.100000000000000");
        assert_eq!(Dec::from_f64_15(2.5).to_string(), "2.50000000000000");
        assert_eq!(Dec::from_f64_15(999_999_999_999_999.9).to_string(), "1.00000000000000E+15");
        assert_eq!(Dec::from_f64_15(0.0).to_string(), "0");
        assert_eq!(dec("0.1").compare_f64(0.1), Ordering::Less);
        assert_eq!(dec("0.5").compare_f64(0.5), Ordering::Equal);
        assert_eq!(dec("1E+400").compare_f64(f64::INFINITY), Ordering::Less);
        assert_eq!(dec("NaN").compare_f64(f64::NEG_INFINITY), Ordering::Less);
        assert_eq!(dec("-0").compare_f64(0.0), Ordering::Equal);
    }

    #[test]
    fn integers() {
        assert_eq!(dec("9223372036854775807").to_i64_exact(), Some(i64::MAX));
        assert_eq!(dec("9223372036854775808").to_i64_exact(), None);
        assert_eq!(dec("1.5").to_i64_exact(), None);
        assert_eq!(dec("1.5").to_i64_truncated(), Some(1));
        assert_eq!(dec("1E+2").to_i64_exact(), Some(100));
        assert_eq!(dec("2.5").to_i64_rounded(Rounding::HalfEven), Some(2));
        assert_eq!(dec("-2.5").to_integral(Rounding::Floor).to_string(), "-3");
        assert_eq!(dec("1E-6000").to_integral(Rounding::Ceiling).to_string(), "1");
    }

    proptest! {
        #[test]
        fn integer_arithmetic_agrees(left in -1_000_000_000_i64..1_000_000_000, right in -1_000_000_000_i64..1_000_000_000) {
            let (l, r) = (Dec::from(left), Dec::from(right));
            prop_assert_eq!(l.plus(r).to_i64_exact(), Some(left + right));
            prop_assert_eq!(l.multiply(r).to_i64_exact(), Some(left * right));
            prop_assert_eq!(l.compare(&r), left.cmp(&right));
            if right != 0 {
                prop_assert_eq!(l.remainder(r).to_i64_exact(), Some(left % right));
            }
        }

        #[test]
        fn bytes_never_panic(bytes: [u8; 16], other: [u8; 16]) {
            let left = Dec::from_bson(Decimal128::from_bytes(bytes));
            let right = Dec::from_bson(Decimal128::from_bytes(other));
            for value in [left.plus(right), left.multiply(right), left.divide(right), left.remainder(right)] {
                prop_assert_eq!(Dec::from_bson(value.to_bson()), value);
                prop_assert_eq!(Dec::parse(&value.abs().to_string()), Some(value.abs()));
            }
            prop_assert_eq!(left.compare(&right), right.compare(&left).reverse());
        }
    }
}
