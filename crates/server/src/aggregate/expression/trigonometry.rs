//! `$sin`, `$cos`, `$tan` and their relatives.

use bson::Bson;

use super::arithmetic::{number, pair, real, single};
use super::lent::{Val, type_name};
use super::table::{Call, Operator, eager};
use crate::error::{Result, fail};
use crate::value::decimal::Dec;
use crate::value::decimal_math as decimals;
use crate::value::number::Number;
use crate::value::text::plain_number;

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    eager("$acos", 1, 1, |call, values| single(call, values, |value| unit("$acos", value, f64::acos, decimals::acos))),
    eager("$acosh", 1, 1, |call, values| single(call, values, acosh)),
    eager("$asin", 1, 1, |call, values| single(call, values, |value| unit("$asin", value, f64::asin, decimals::asin))),
    eager("$asinh", 1, 1, |call, values| single(call, values, |value| Ok(real(value, f64::asinh, decimals::asinh)))),
    eager("$atan", 1, 1, |call, values| single(call, values, |value| Ok(real(value, f64::atan, decimals::atan)))),
    eager("$atan2", 2, 2, atan2),
    eager("$atanh", 1, 1, |call, values| {
        single(call, values, |value| unit("$atanh", value, f64::atanh, decimals::atanh))
    }),
    eager("$cos", 1, 1, |call, values| single(call, values, |value| finite("$cos", value, f64::cos, decimals::cos))),
    eager("$cosh", 1, 1, |call, values| single(call, values, |value| Ok(real(value, f64::cosh, decimals::cosh)))),
    eager("$degreesToRadians", 1, 1, |call, values| {
        single(call, values, |value| Ok(real(value, f64::to_radians, decimals::degrees_to_radians)))
    }),
    eager("$radiansToDegrees", 1, 1, |call, values| {
        single(call, values, |value| Ok(real(value, f64::to_degrees, decimals::radians_to_degrees)))
    }),
    eager("$sin", 1, 1, |call, values| single(call, values, |value| finite("$sin", value, f64::sin, decimals::sin))),
    eager("$sinh", 1, 1, |call, values| single(call, values, |value| Ok(real(value, f64::sinh, decimals::sinh)))),
    eager("$tan", 1, 1, |call, values| single(call, values, |value| finite("$tan", value, f64::tan, decimals::tan))),
    eager("$tanh", 1, 1, |call, values| single(call, values, |value| Ok(real(value, f64::tanh, decimals::tanh)))),
];

fn out_of_bounds<T>(name: &str, value: Number, low: &str, high: &str) -> Result<T> {
    let text = format!("cannot apply {name} to {}, value must in {low},{high}", plain_number(value));
    fail(50989, text)
}

fn unit(name: &str, value: Number, double: fn(f64) -> f64, decimal: fn(Dec) -> Dec) -> Result<Number> {
    let inside = match value {
        Number::Decimal(value) => value.is_nan() || value.abs().compare_f64(1.0).is_le(),
        other => other.is_nan() || other.to_f64().abs() <= 1.0,
    };
    if !inside {
        return out_of_bounds(name, value, "[-1", "1]");
    }
    Ok(real(value, double, decimal))
}

fn finite(name: &str, value: Number, double: fn(f64) -> f64, decimal: fn(Dec) -> Dec) -> Result<Number> {
    let infinite = match value {
        Number::Decimal(value) => value.is_infinite(),
        other => other.to_f64().is_infinite(),
    };
    if infinite {
        return out_of_bounds(name, value, "(-inf", "inf)");
    }
    Ok(real(value, double, decimal))
}

fn acosh(value: Number) -> Result<Number> {
    let inside = match value {
        Number::Decimal(value) => value.is_nan() || value.compare_f64(1.0).is_ge(),
        other => other.is_nan() || other.to_f64() >= 1.0,
    };
    if !inside {
        return out_of_bounds("$acosh", value, "[1", "inf]");
    }
    Ok(real(value, f64::acosh, decimals::acosh))
}

fn atan2(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let Some((y, x)) = pair(values) else { return Ok(Some(Bson::Null)) };
    let numeric = |value: &Val| match number(value) {
        Some(number) => Ok(number),
        None => fail(51044, format!("$atan2 only supports numeric types, not {}", type_name(value))),
    };
    Ok(Some(match (numeric(&y)?, numeric(&x)?) {
        (y @ Number::Decimal(_), x) | (y, x @ Number::Decimal(_)) => {
            Number::Decimal(decimals::atan2(y.to_decimal(), x.to_decimal())).into()
        }
        (y, x) => Bson::Double(y.to_f64().atan2(x.to_f64())),
    }))
}
