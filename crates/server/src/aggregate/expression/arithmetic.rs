//! `$add`, `$subtract`, `$multiply`, `$divide`, `$mod`, `$abs`, `$ceil`, `$floor`, `$round`, `$trunc`, `$exp`, `$ln`,
//! `$log`, `$log10`, `$pow`, `$sqrt`.

use bson::{Bson, DateTime};

use super::lent::{Val, nullish, shown, type_name, view};
use super::table::{ANY, Call, Operator, eager};
use crate::error::{CommandError, Result, fail};
use crate::value::decimal::{Dec, Rounding};
use crate::value::decimal_math;
use crate::value::number::{Number, Sum, Width, int_or_long};

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    eager("$abs", 1, 1, |call, values| single(call, values, abs)),
    eager("$add", 0, ANY, add),
    eager("$ceil", 1, 1, |call, values| single(call, values, |value| Ok(whole(value, Rounding::Ceiling)))),
    eager("$divide", 2, 2, divide),
    eager("$exp", 1, 1, |call, values| single(call, values, |value| Ok(real(value, f64::exp, decimal_math::exp)))),
    eager("$floor", 1, 1, |call, values| single(call, values, |value| Ok(whole(value, Rounding::Floor)))),
    eager("$ln", 1, 1, |call, values| single(call, values, ln)),
    eager("$log", 2, 2, log),
    eager("$log10", 1, 1, |call, values| single(call, values, log10)),
    eager("$mod", 2, 2, modulo),
    eager("$multiply", 0, ANY, multiply),
    eager("$pow", 2, 2, pow),
    eager("$round", 1, 2, |call, values| round(call, values, Rounding::HalfEven)),
    eager("$sqrt", 1, 1, |call, values| single(call, values, sqrt)),
    eager("$subtract", 2, 2, subtract),
    eager("$trunc", 1, 2, |call, values| round(call, values, Rounding::TowardZero)),
];

/// The number that a value is.
pub(crate) fn number(value: &Val) -> Option<Number> {
    view(value)?.number()
}

/// Applies a function to one number; null stays null.
///
/// # Errors
/// 28765 for a value that is no number.
pub(crate) fn single(call: Call<'_>, values: Vec<Val>, apply: fn(Number) -> Result<Number>) -> Result<Val> {
    let value = values.into_iter().next().flatten();
    if nullish(&value) {
        return Ok(Some(Bson::Null));
    }
    match number(&value) {
        Some(number) => Ok(Some(apply(number)?.into())),
        None => {
            let text = format!("{} only supports numeric types, not {}", call.name, type_name(&value));
            fail(28765, text)
        }
    }
}

/// A function that gives a double for everything but a decimal.
pub(crate) fn real(value: Number, double: fn(f64) -> f64, decimal: fn(Dec) -> Dec) -> Number {
    match value {
        Number::Decimal(value) => Number::Decimal(decimal(value)),
        other => Number::Double(double(other.to_f64())),
    }
}

fn abs(value: Number) -> Result<Number> {
    Ok(match value {
        Number::Int(value) => value.checked_abs().map_or(Number::Long(-i64::from(value)), Number::Int),
        Number::Long(value) => match value.checked_abs() {
            Some(value) => Number::Long(value),
            None => return fail(28680, "can't take $abs of long long min"),
        },
        Number::Double(value) => Number::Double(value.abs()),
        Number::Decimal(value) => Number::Decimal(value.abs()),
    })
}

fn whole(value: Number, how: Rounding) -> Number {
    match value {
        Number::Double(value) if how == Rounding::Ceiling => Number::Double(value.ceil()),
        Number::Double(value) => Number::Double(value.floor()),
        Number::Decimal(value) => Number::Decimal(value.to_integral(how)),
        other => other,
    }
}

fn positive(value: Number) -> bool {
    match value {
        Number::Decimal(value) => value.compare(&Dec::ZERO).is_gt(),
        other => other.to_f64() > 0.0,
    }
}

fn shown_number(value: Number) -> String {
    shown(&Some(value.into()))
}

fn ln(value: Number) -> Result<Number> {
    if positive(value) || value.is_nan() {
        return Ok(real(value, f64::ln, decimal_math::ln));
    }
    fail(28766, format!("$ln's argument must be a positive number, but is {}", shown_number(value)))
}

fn log10(value: Number) -> Result<Number> {
    if positive(value) || value.is_nan() {
        return Ok(real(value, f64::log10, decimal_math::log10));
    }
    fail(28761, format!("$log10's argument must be a positive number, but is {}", shown_number(value)))
}

fn sqrt(value: Number) -> Result<Number> {
    if positive(value) || value.is_zero() || value.is_nan() {
        return Ok(real(value, f64::sqrt, decimal_math::sqrt));
    }
    fail(28714, "$sqrt's argument must be greater than or equal to 0")
}

/// Two operands, or `None` when one is null or missing.
pub(crate) fn pair(values: Vec<Val>) -> Option<(Val, Val)> {
    let mut values = values.into_iter();
    let (left, right) = (values.next().flatten(), values.next().flatten());
    (!nullish(&left) && !nullish(&right)).then_some((left, right))
}

fn add(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let mut sum = Sum::default();
    let mut has_date = false;
    for value in &values {
        if let Some(number) = number(value) {
            sum.add(number);
        } else if let Some(Bson::DateTime(date)) = value {
            if has_date {
                return fail(16612, "only one date allowed in an $add expression");
            }
            has_date = true;
            sum.add_millis(date.timestamp_millis());
        } else if nullish(value) {
            return Ok(Some(Bson::Null));
        } else {
            return fail(16554, format!("$add only supports numeric or date types, not {}", type_name(value)));
        }
    }
    if has_date {
        let millis = match sum.width() {
            Width::Double => Some(sum.to_f64()).filter(|value| value.abs() < 9.3e18).map(|value| value.round() as i64),
            _ => sum.to_i64(),
        };
        let Some(millis) = millis else { return fail(15, "date overflow in $add") };
        return Ok(Some(Bson::DateTime(DateTime::from_millis(millis))));
    }
    Ok(Some(sum.total()))
}

fn subtract(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let Some((left, right)) = pair(values) else { return Ok(Some(Bson::Null)) };
    if let Some(Bson::DateTime(date)) = &left {
        let millis = date.timestamp_millis();
        return match (&right, number(&right)) {
            (Some(Bson::DateTime(other)), _) => match millis.checked_sub(other.timestamp_millis()) {
                Some(difference) => Ok(Some(Bson::Int64(difference))),
                None => fail(15, "overflow in $subtract of dates"),
            },
            (_, Some(number)) => match millis.checked_sub(number.to_i64_saturating()) {
                Some(millis) => Ok(Some(Bson::DateTime(DateTime::from_millis(millis)))),
                None => fail(15, "date overflow in $subtract"),
            },
            _ => fail(16613, format!("cant $subtract a {} from a Date", type_name(&right))),
        };
    }
    let (Some(l), Some(r)) = (number(&left), number(&right)) else {
        return fail(16556, format!("cant $subtract a {} from a {}", type_name(&right), type_name(&left)));
    };
    Ok(Some(match (l, r) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(l.to_decimal().subtract(r.to_decimal())).into()
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => Bson::Double(l.to_f64() - r.to_f64()),
        (Number::Int(l), Number::Int(r)) => int_or_long(i64::from(l) - i64::from(r)),
        _ => {
            let (l, r) = (l.to_i64_saturating(), r.to_i64_saturating());
            l.checked_sub(r).map_or(Bson::Double(l as f64 - r as f64), Bson::Int64)
        }
    }))
}

fn multiply(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let mut width = Width::Int;
    let mut double = 1.0;
    let mut long = Some(1_i64);
    let mut decimal = Dec::from(1);
    for value in &values {
        let Some(number) = number(value) else {
            if nullish(value) {
                return Ok(Some(Bson::Null));
            }
            return fail(16555, format!("$multiply only supports numeric types, not {}", type_name(value)));
        };
        if number.width() == Width::Decimal && width != Width::Decimal {
            // what was multiplied so far becomes a decimal
            decimal = match width {
                Width::Double => Dec::from_f64_15(double),
                _ => long.map_or(Dec::from_f64_15(double), Dec::from),
            };
        }
        width = width.max(number.width());
        if width == Width::Decimal {
            decimal = decimal.multiply(number.to_decimal());
            continue;
        }
        double *= number.to_f64();
        long = match number {
            Number::Int(value) => long.and_then(|total| total.checked_mul(value.into())),
            Number::Long(value) => long.and_then(|total| total.checked_mul(value)),
            _ => None,
        };
    }
    Ok(Some(match (width, long) {
        (Width::Decimal, _) => Number::Decimal(decimal).into(),
        (Width::Long, Some(total)) => Bson::Int64(total),
        (Width::Int, Some(total)) => int_or_long(total),
        _ => Bson::Double(double),
    }))
}

fn divide(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let Some((left, right)) = pair(values) else { return Ok(Some(Bson::Null)) };
    let (Some(l), Some(r)) = (number(&left), number(&right)) else {
        let types = format!("{} and {}", type_name(&left), type_name(&right));
        return fail(16609, format!("$divide only supports numeric types, not {types}"));
    };
    if r.is_zero() {
        return fail(16608, "can't $divide by zero");
    }
    Ok(Some(match (l, r) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(l.to_decimal().divide(r.to_decimal())).into()
        }
        _ => Bson::Double(l.to_f64() / r.to_f64()),
    }))
}

fn modulo(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let Some((left, right)) = pair(values) else { return Ok(Some(Bson::Null)) };
    let (Some(l), Some(r)) = (number(&left), number(&right)) else {
        let types = format!("{} and {}", type_name(&left), type_name(&right));
        return fail(16611, format!("$mod only supports numeric types, not {types}"));
    };
    if r.is_zero() {
        return fail(16610, "can't $mod by zero");
    }
    Ok(Some(match (l, r) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(l.to_decimal().remainder(r.to_decimal())).into()
        }
        // a double divisor that is a small whole number keeps integers integers
        (Number::Double(_), _) => Bson::Double(l.to_f64() % r.to_f64()),
        (_, Number::Double(divisor)) => match Number::Double(divisor).as_exact_i32() {
            Some(divisor) => {
                let rest = l.to_i64_saturating().wrapping_rem(divisor.into());
                if matches!(l, Number::Int(_)) { int_or_long(rest) } else { Bson::Int64(rest) }
            }
            None => Bson::Double(l.to_f64() % divisor),
        },
        (Number::Int(l), Number::Int(r)) => Bson::Int32(l.wrapping_rem(r)),
        _ => Bson::Int64(l.to_i64_saturating().wrapping_rem(r.to_i64_saturating())),
    }))
}

fn log(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let Some((argument, base)) = pair(values) else { return Ok(Some(Bson::Null)) };
    let Some(a) = number(&argument) else {
        return fail(28756, format!("$log's argument must be numeric, not {}", type_name(&argument)));
    };
    let Some(b) = number(&base) else {
        return fail(28757, format!("$log's base must be numeric, not {}", type_name(&base)));
    };
    if !positive(a) && !a.is_nan() {
        return fail(28758, format!("$log's argument must be a positive number, but is {}", shown(&argument)));
    }
    if (!positive(b) && !b.is_nan()) || b.to_f64() == 1.0 {
        let text = "$log's base must be a positive number not equal to 1, but is";
        return fail(28759, format!("{text} {}", shown(&base)));
    }
    Ok(Some(match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            let (a, b) = (decimal_math::ln(a.to_decimal()), decimal_math::ln(b.to_decimal()));
            Number::Decimal(a.divide(b)).into()
        }
        _ => Bson::Double(a.to_f64().ln() / b.to_f64().ln()),
    }))
}

fn pow(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let Some((base, exponent)) = pair(values) else { return Ok(Some(Bson::Null)) };
    let Some(b) = number(&base) else {
        return fail(28762, format!("$pow's base must be numeric, not {}", type_name(&base)));
    };
    let Some(e) = number(&exponent) else {
        return fail(28763, format!("$pow's exponent must be numeric, not {}", type_name(&exponent)));
    };
    let below = match e {
        Number::Decimal(e) => e.is_below_zero(),
        other => other.to_f64() < 0.0,
    };
    if b.is_zero() && below {
        return fail(28764, "$pow cannot take a base of 0 and a negative exponent");
    }
    Ok(Some(match (b, e) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(decimal_math::pow(b.to_decimal(), e.to_decimal())).into()
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => Bson::Double(b.to_f64().powf(e.to_f64())),
        _ => {
            let (whole, power) = (b.to_i64_saturating(), e.to_i64_saturating());
            let ints = matches!((b, e), (Number::Int(_), Number::Int(_)));
            match whole_power(whole, power) {
                Some(result) if ints => int_or_long(result),
                Some(result) => Bson::Int64(result),
                None => Bson::Double((whole as f64).powf(power as f64)),
            }
        }
    }))
}

fn whole_power(base: i64, exponent: i64) -> Option<i64> {
    match base {
        1 => return Some(1),
        -1 => return Some(if exponent % 2 == 0 { 1 } else { -1 }),
        _ => {}
    }
    base.checked_pow(u32::try_from(exponent).ok()?)
}

fn round(call: Call<'_>, values: Vec<Val>, how: Rounding) -> Result<Val> {
    let mut values = values.into_iter();
    let value = values.next().flatten();
    let precision = values.next();
    if nullish(&value) || precision.as_ref().is_some_and(nullish) {
        return Ok(Some(Bson::Null));
    }
    let name = call.name;
    let Some(number) = number(&value) else {
        return fail(51081, format!("{name} only supports numeric types, not {}", type_name(&value)));
    };
    let places = match &precision {
        None => 0,
        Some(precision) => {
            let places = self::number(precision).and_then(Number::as_exact_i64);
            let Some(places) = places else {
                return fail(51082, format!("precision argument to  {name} must be a integral value"));
            };
            if !(-20..=100).contains(&places) {
                let text = format!("cannot apply {name} with precision value {places}");
                return fail(51083, format!("{text} value must be in [-20, 100]"));
            }
            places as i32
        }
    };
    Ok(Some(match number {
        Number::Decimal(value) => Number::Decimal(place(value, places, how)).into(),
        Number::Double(value) if !value.is_finite() => Bson::Double(value),
        Number::Double(value) => Bson::Double(place(Dec::from_f64(value), places, how).to_f64()),
        integer if places >= 0 => integer.into(),
        integer => {
            let rounded = place(integer.to_decimal(), places, how);
            let Some(whole) = rounded.to_i64_exact() else {
                let text = format!("invalid conversion from Decimal128 result in {name} resulting from arguments: ");
                return Err(CommandError::new(51080, format!("{text}[{}, {places}]", shown(&value))));
            };
            if matches!(integer, Number::Int(_)) { int_or_long(whole) } else { Bson::Int64(whole) }
        }
    }))
}

/// Rounds to `places` digits after the point; a value with fewer digits stays as it is.
fn place(value: Dec, places: i32, how: Rounding) -> Dec {
    let rounded = value.quantized(-places, how);
    if rounded.is_nan() { value } else { rounded }
}
