//! Roots, powers, logarithms and trigonometry of decimals.
//!
//! Everything but the square root is computed in fixed point with 80 digits after the point and rounded once to
//! 34 digits, so the last digit can differ from a correctly rounded result in rare cases. Angles above 10^40 lose their
//! fraction in 34 digits and give NaN.

use num_bigint::{BigInt, BigUint, Sign};

use super::decimal::{DIGITS, Dec, Magnitude, Rounding};

/// Digits after the point.
const SCALE: u32 = 80;
/// Natural logarithm of ten.
const LN_10: &str = "2302585092994045684017991454684364207601101488628772976033327900967572609677352480235997205089598298341967784042286";
/// Half the circle.
const PI: &str = "3141592653589793238462643383279502884197169399375105820974944592307816406286208998628034825342117067982148086513282";
/// Digits after the point of both constants.
const CONSTANT_DIGITS: u32 = 114;

fn power(exponent: u32) -> BigInt {
    BigInt::from(BigUint::from(10u32).pow(exponent))
}

fn one() -> BigInt {
    power(SCALE)
}

fn constant(digits: &str) -> BigInt {
    let value: BigInt = digits.parse().unwrap_or_default();
    value / power(CONSTANT_DIGITS - SCALE)
}

fn multiply(left: &BigInt, right: &BigInt) -> BigInt {
    left * right / one()
}

fn divide(left: &BigInt, right: &BigInt) -> BigInt {
    if *right == BigInt::ZERO { BigInt::ZERO } else { left * one() / right }
}

fn root(value: &BigInt) -> BigInt {
    if value.sign() == Sign::Minus { BigInt::ZERO } else { (value * one()).sqrt() }
}

/// A finite decimal in fixed point; digits below the scale are cut.
fn fixed(value: Dec) -> BigInt {
    let Magnitude::Finite { coefficient, exponent } = value.magnitude else { return BigInt::ZERO };
    let shift = exponent + SCALE as i32;
    let magnitude = if shift >= 0 {
        BigInt::from(coefficient) * power(shift as u32)
    } else {
        BigInt::from(coefficient) / power(shift.unsigned_abs())
    };
    if value.negative { -magnitude } else { magnitude }
}

/// `value` x 10^`exponent` as a decimal.
fn decimal(value: &BigInt, exponent: i64) -> Dec {
    let negative = value.sign() == Sign::Minus;
    Dec::rounded(negative, value.magnitude().clone(), exponent - i64::from(SCALE), false)
}

/// e to the power of a number between about -3 and 3.
fn exp_small(value: &BigInt) -> BigInt {
    const HALVINGS: usize = 12;
    let reduced: BigInt = value >> HALVINGS;
    let mut term = one();
    let mut sum = one();
    let mut count = 1;
    while term != BigInt::ZERO && count < 60 {
        term = multiply(&term, &reduced) / count;
        sum += &term;
        count += 1;
    }
    (0..HALVINGS).fold(sum, |sum, _| multiply(&sum, &sum))
}

/// e to the power of `value`, as a number and a power of ten.
fn exp_parts(value: &BigInt) -> (BigInt, i64) {
    let ln_10 = constant(LN_10);
    let tens = value / &ln_10;
    let rest = value - &tens * &ln_10;
    (exp_small(&rest), i64::try_from(tens).unwrap_or(i64::MAX / 2))
}

/// Natural logarithm of a positive finite decimal, in fixed point.
fn ln_fixed(value: Dec) -> BigInt {
    let Magnitude::Finite { coefficient, exponent } = value.magnitude else { return BigInt::ZERO };
    let digits = coefficient.checked_ilog10().unwrap_or(0);
    // between 1 and 10
    let mantissa = BigInt::from(coefficient) * power(SCALE - digits);
    let start = (coefficient as f64 / 10f64.powi(digits as i32)).ln();
    let mut guess = BigInt::from((start * 1e15) as i64) * power(SCALE - 15);
    for _ in 0..4 {
        let exp = exp_small(&guess);
        guess += divide(&((&mantissa - &exp) * 2), &(&mantissa + &exp));
    }
    guess + constant(LN_10) * (i64::from(exponent) + i64::from(digits))
}

/// Square root, correctly rounded; NaN below zero.
pub fn sqrt(value: Dec) -> Dec {
    match value.magnitude {
        Magnitude::NaN => Dec::NAN,
        _ if value.is_zero() => value,
        _ if value.negative => Dec::NAN,
        Magnitude::Infinite => value,
        Magnitude::Finite { coefficient, exponent } => {
            // twice the digits and an even exponent
            let shift = 2 * DIGITS + 4 + (exponent.unsigned_abs() & 1);
            let scaled = BigUint::from(coefficient) * BigUint::from(10u32).pow(shift);
            let root = scaled.sqrt();
            let exact = &root * &root == scaled;
            let half = (i64::from(exponent) - i64::from(shift)) / 2;
            let result = Dec::rounded(false, root, half, !exact);
            if exact { result.normalized().with_ideal(exponent.div_euclid(2)) } else { result }
        }
    }
}

impl Dec {
    /// The same value with an exponent not above `ideal`, where digits allow.
    fn with_ideal(self, ideal: i32) -> Self {
        match self.magnitude {
            Magnitude::Finite { exponent, .. } if exponent > ideal => {
                let quantized = self.quantized(ideal, Rounding::HalfEven);
                if quantized.is_nan() { self } else { quantized }
            }
            _ => self,
        }
    }
}

/// e to the power of `value`.
pub fn exp(value: Dec) -> Dec {
    match value.magnitude {
        Magnitude::NaN => Dec::NAN,
        _ if value.is_zero() => Dec::from(1),
        Magnitude::Infinite => {
            if value.negative {
                Dec::ZERO
            } else {
                Dec::INFINITY
            }
        }
        // beyond this the exponent is out of range
        Magnitude::Finite { .. } if value.abs().compare_f64(20_000.0).is_gt() => {
            if value.negative {
                Dec::ZERO
            } else {
                Dec::INFINITY
            }
        }
        Magnitude::Finite { .. } => {
            let (number, tens) = exp_parts(&fixed(value));
            decimal(&number, tens)
        }
    }
}

/// Natural logarithm; NaN below zero, negative infinity at zero.
pub fn ln(value: Dec) -> Dec {
    match value.magnitude {
        Magnitude::NaN => Dec::NAN,
        _ if value.is_zero() => Dec::INFINITY.negated(),
        _ if value.negative => Dec::NAN,
        Magnitude::Infinite => value,
        Magnitude::Finite { .. } => decimal(&ln_fixed(value), 0),
    }
}

/// Logarithm to base ten; exact for powers of ten.
pub fn log10(value: Dec) -> Dec {
    if let Magnitude::Finite { coefficient: 1, exponent } = value.normalized().magnitude
        && !value.negative
    {
        return Dec::from(exponent);
    }
    match value.magnitude {
        Magnitude::Finite { coefficient: 1.., .. } if !value.negative => {
            decimal(&divide(&ln_fixed(value), &constant(LN_10)), 0)
        }
        _ => ln(value),
    }
}

/// `base` to the power of `exponent`. NaN for a negative base and an exponent that is not whole.
pub fn pow(base: Dec, exponent: Dec) -> Dec {
    if base.is_nan() || exponent.is_nan() {
        return Dec::NAN;
    }
    if exponent.is_zero() {
        return Dec::from(1);
    }
    if let Some(whole) = exponent.to_i64_exact().filter(|whole| whole.unsigned_abs() <= 100_000) {
        let positive = whole_power(base, whole.unsigned_abs());
        return if whole < 0 { Dec::from(1).divide(positive) } else { positive };
    }
    if base.is_zero() {
        return if exponent.negative { Dec::INFINITY } else { Dec::ZERO };
    }
    if base.negative {
        return Dec::NAN;
    }
    if base.is_infinite() || exponent.is_infinite() {
        let grows = base.compare_f64(1.0).is_gt() != exponent.negative;
        return if base.compare_f64(1.0).is_eq() {
            base
        } else if grows {
            Dec::INFINITY
        } else {
            Dec::ZERO
        };
    }
    let product = multiply(&ln_fixed(base), &fixed(exponent));
    let limit: BigInt = one() * 20_000;
    if product.magnitude() > limit.magnitude() {
        return if product.sign() == Sign::Minus { Dec::ZERO } else { Dec::INFINITY };
    }
    let (number, tens) = exp_parts(&product);
    decimal(&number, tens)
}

fn whole_power(base: Dec, mut exponent: u64) -> Dec {
    let mut result = Dec::from(1);
    let mut square = base;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.multiply(square);
        }
        exponent >>= 1;
        if exponent > 0 {
            square = square.multiply(square);
        }
    }
    result
}

/// The angle less whole turns, for angles that still have a fraction.
fn reduced(value: Dec) -> Option<BigInt> {
    if !matches!(value.magnitude, Magnitude::Finite { .. }) || value.abs().compare_f64(1e40).is_gt() {
        return None;
    }
    // reduce with all digits of the constant, then come back to the scale
    let full: BigInt = PI.parse().ok()?;
    let turn = full * 2;
    let extra = CONSTANT_DIGITS - SCALE;
    Some(fixed(value) * power(extra) % turn / power(extra))
}

fn sine_series(value: &BigInt, first: BigInt, from: u64) -> BigInt {
    let square = multiply(value, value);
    let mut term = first.clone();
    let mut sum = first;
    let mut count = from;
    while term != BigInt::ZERO && count < 400 {
        term = -multiply(&term, &square) / (count * (count + 1));
        sum += &term;
        count += 2;
    }
    sum
}

/// Sine of radians.
pub fn sin(value: Dec) -> Dec {
    match reduced(value) {
        Some(_) if value.is_zero() => value,
        Some(angle) => decimal(&sine_series(&angle, angle.clone(), 2), 0),
        None => Dec::NAN,
    }
}

/// Cosine of radians.
pub fn cos(value: Dec) -> Dec {
    reduced(value).map_or(Dec::NAN, |angle| decimal(&sine_series(&angle, one(), 1), 0))
}

/// Tangent of radians.
pub fn tan(value: Dec) -> Dec {
    match reduced(value) {
        Some(_) if value.is_zero() => value,
        Some(angle) => {
            let sine = sine_series(&angle, angle.clone(), 2);
            decimal(&divide(&sine, &sine_series(&angle, one(), 1)), 0)
        }
        None => Dec::NAN,
    }
}

fn atan_fixed(value: &BigInt) -> BigInt {
    const HALVINGS: usize = 8;
    let mut reduced = value.clone();
    for _ in 0..HALVINGS {
        let denominator = one() + root(&(one() + multiply(&reduced, &reduced)));
        reduced = divide(&reduced, &denominator);
    }
    let square = multiply(&reduced, &reduced);
    let mut term = reduced.clone();
    let mut sum = reduced;
    let mut count = 1_u64;
    while term != BigInt::ZERO && count < 200 {
        term = -multiply(&term, &square);
        count += 2;
        sum += &term / count;
    }
    sum << HALVINGS
}

/// Arc tangent, in radians.
pub fn atan(value: Dec) -> Dec {
    if value.is_nan() || value.is_zero() {
        return value;
    }
    let half: BigInt = constant(PI) / 2;
    if value.is_infinite() || value.abs().compare_f64(1e30).is_gt() {
        return decimal(&if value.negative { -half } else { half }, 0);
    }
    decimal(&atan_fixed(&fixed(value)), 0)
}

/// Angle of the point (`x`, `y`), in radians.
pub fn atan2(y: Dec, x: Dec) -> Dec {
    if y.is_nan() || x.is_nan() {
        return Dec::NAN;
    }
    let pi = constant(PI);
    if x.is_zero() {
        if y.is_zero() {
            return if x.negative { decimal(&if y.negative { -pi } else { pi }, 0) } else { y };
        }
        let half: BigInt = pi / 2;
        return decimal(&if y.negative { -half } else { half }, 0);
    }
    let angle = atan(y.divide(x).abs());
    let angle = if x.negative { decimal(&pi, 0).subtract(angle) } else { angle };
    if y.negative { angle.negated() } else { angle }
}

/// Arc sine, in radians; NaN outside [-1, 1].
pub fn asin(value: Dec) -> Dec {
    if value.is_nan() || value.abs().compare_f64(1.0).is_gt() {
        return Dec::NAN;
    }
    if value.is_zero() {
        return value;
    }
    decimal(&asin_fixed(&fixed(value)), 0)
}

fn asin_fixed(value: &BigInt) -> BigInt {
    let rest = one() - multiply(value, value);
    if rest == BigInt::ZERO {
        let half: BigInt = constant(PI) / 2;
        return if value.sign() == Sign::Minus { -half } else { half };
    }
    atan_fixed(&divide(value, &root(&rest)))
}

/// Arc cosine, in radians; NaN outside [-1, 1].
pub fn acos(value: Dec) -> Dec {
    if value.is_nan() || value.abs().compare_f64(1.0).is_gt() {
        return Dec::NAN;
    }
    decimal(&(constant(PI) / 2 - asin_fixed(&fixed(value))), 0)
}

/// Hyperbolic sine.
pub fn sinh(value: Dec) -> Dec {
    if value.is_zero() {
        return value;
    }
    exp(value).subtract(exp(value.negated())).divide(Dec::from(2))
}

/// Hyperbolic cosine.
pub fn cosh(value: Dec) -> Dec {
    exp(value).plus(exp(value.negated())).divide(Dec::from(2))
}

/// Hyperbolic tangent.
pub fn tanh(value: Dec) -> Dec {
    if value.is_zero() || value.is_nan() {
        return value;
    }
    if value.abs().compare_f64(100.0).is_gt() {
        return Dec::finite(value.negative, 1, 0);
    }
    sinh(value).divide(cosh(value))
}

/// Inverse hyperbolic sine.
pub fn asinh(value: Dec) -> Dec {
    if value.is_zero() || value.is_nan() || value.is_infinite() {
        return value;
    }
    let magnitude = value.abs();
    let result = ln(magnitude.plus(sqrt(magnitude.multiply(magnitude).plus(Dec::from(1)))));
    if value.negative { result.negated() } else { result }
}

/// Inverse hyperbolic cosine; NaN below 1.
pub fn acosh(value: Dec) -> Dec {
    if value.is_nan() || value.compare_f64(1.0).is_lt() {
        return Dec::NAN;
    }
    ln(value.plus(sqrt(value.multiply(value).subtract(Dec::from(1)))))
}

/// Inverse hyperbolic tangent; NaN outside [-1, 1].
pub fn atanh(value: Dec) -> Dec {
    if value.is_nan() || value.abs().compare_f64(1.0).is_gt() {
        return Dec::NAN;
    }
    let one = Dec::from(1);
    if value.is_zero() {
        return value;
    }
    ln(one.plus(value).divide(one.subtract(value))).divide(Dec::from(2))
}

/// Radians of one degree, times `value`.
pub fn degrees_to_radians(value: Dec) -> Dec {
    value.multiply(decimal(&constant(PI), 0)).divide(Dec::from(180))
}

/// Degrees of one radian, times `value`.
pub fn radians_to_degrees(value: Dec) -> Dec {
    value.multiply(Dec::from(180)).divide(decimal(&constant(PI), 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dec(text: &str) -> Dec {
        Dec::parse(text).unwrap()
    }

    #[test]
    fn known_digits() {
        let check = |got: Dec, want: &str| assert_eq!(got.to_string(), want);
        check(sqrt(dec("2")), "1.414213562373095048801688724209698");
        check(sqrt(dec("16")), "4");
        check(sqrt(dec("2.25")), "1.5");
        check(sqrt(dec("1E-3")), "0.03162277660168379331998893544432719");
        check(exp(dec("1")), "2.718281828459045235360287471352662");
        check(ln(dec("2")), "0.6931471805599453094172321214581766");
        check(ln(dec("1E+100")), "230.2585092994045684017991454684364");
        check(log10(dec("1000")), "3");
        check(log10(dec("2")), "0.3010299956639811952137388947244930");
        check(pow(dec("2"), dec("10")), "1024");
        check(pow(dec("2"), dec("0.5")), "1.414213562373095048801688724209698");
        check(pow(dec("2"), dec("-1")), "0.5");
        check(sin(dec("1")), "0.8414709848078965066525023216302990");
        check(cos(dec("1")), "0.5403023058681397174009366074429766");
        check(atan(dec("1")), "0.7853981633974483096156608458198757");
        check(asin(dec("1")), "1.570796326794896619231321691639751");
        check(degrees_to_radians(dec("180")), "3.141592653589793238462643383279503");
        check(exp(dec("20000.5")), "Infinity");
    }

    proptest! {
        #[test]
        fn near_the_doubles(value in -30.0_f64..30.0) {
            let dec = Dec::from_f64(value);
            type Pair = (fn(Dec) -> Dec, fn(f64) -> f64);
            let pairs: [Pair; 8] = [
                (exp, f64::exp), (sin, f64::sin), (cos, f64::cos), (atan, f64::atan), (sinh, f64::sinh),
                (cosh, f64::cosh), (tanh, f64::tanh), (asinh, f64::asinh),
            ];
            for (ours, theirs) in pairs {
                let (ours, theirs) = (ours(dec).to_f64(), theirs(value));
                prop_assert!((ours - theirs).abs() <= theirs.abs() * 1e-12 + 1e-14, "{} {}", ours, theirs);
            }
        }

        #[test]
        fn any_bytes(bytes: [u8; 16], other: [u8; 16]) {
            let value = Dec::from_bson(bson::Decimal128::from_bytes(bytes));
            let other = Dec::from_bson(bson::Decimal128::from_bytes(other));
            for each in [sqrt, exp, ln, log10, sin, cos, tan, atan, asin, acos, sinh, cosh, tanh, asinh, acosh, atanh] {
                each(value);
            }
            pow(value, other);
            atan2(value, other);
        }
    }
}
