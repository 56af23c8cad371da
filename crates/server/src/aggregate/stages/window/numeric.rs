//! `$derivative`, `$integral`, `$expMovingAvg`, `$covariancePop`, `$covarianceSamp`.

use bson::Bson;

use crate::aggregate::expression::Val;
use crate::aggregate::expression::date::Unit;
use crate::aggregate::expression::lent::{nullish, type_name};
use crate::error::{Result, fail};
use crate::value::View;
use crate::value::decimal::Dec;
use crate::value::number::Number;

/// A double, or a decimal where one was met.
#[derive(Debug, Clone, Copy)]
pub(super) enum Real {
    Double(f64),
    Decimal(Dec),
}

impl Real {
    /// The number that a value is.
    pub(super) fn of(value: &Val) -> Option<Self> {
        Some(match View::from(value.as_ref()?).number()? {
            Number::Decimal(decimal) => Self::Decimal(decimal),
            other => Self::Double(other.to_f64()),
        })
    }

    fn decimal(self) -> Dec {
        match self {
            Self::Double(double) => Dec::from_f64_15(double),
            Self::Decimal(decimal) => decimal,
        }
    }

    fn with(self, other: Self, doubles: fn(f64, f64) -> f64, decimals: fn(Dec, Dec) -> Dec) -> Self {
        match (self, other) {
            (Self::Double(left), Self::Double(right)) => Self::Double(doubles(left, right)),
            (left, right) => Self::Decimal(decimals(left.decimal(), right.decimal())),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.with(other, |left, right| left + right, Dec::plus)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.with(other, |left, right| left - right, Dec::subtract)
    }

    pub(super) fn times(self, other: Self) -> Self {
        self.with(other, |left, right| left * right, Dec::multiply)
    }

    pub(super) fn over(self, other: Self) -> Self {
        self.with(other, |left, right| left / right, Dec::divide)
    }

    pub(super) fn is_zero(self) -> bool {
        match self {
            Self::Double(double) => double == 0.0,
            Self::Decimal(decimal) => decimal.is_zero(),
        }
    }

    pub(super) fn value(self) -> Val {
        Some(match self {
            Self::Double(double) => Bson::Double(double),
            Self::Decimal(decimal) => Bson::Decimal128(decimal.to_bson()),
        })
    }
}

const NULL: Val = Some(Bson::Null);

/// The place of a document on the axis: its sort value, a number, or with a unit a date.
///
/// # Errors
/// 5624900 to 5624902 for another kind of value.
pub(super) fn place(name: &str, sorted: &Val, unit: Option<Unit>) -> Result<Real> {
    match (sorted, unit) {
        (Some(Bson::DateTime(date)), Some(_)) => Ok(Real::Double(date.timestamp_millis() as f64)),
        (_, Some(_)) => {
            let found = type_name(sorted);
            fail(5624900, format!("{name} with 'unit' expects the sortBy field to be a Date, but found {found}"))
        }
        (Some(Bson::DateTime(_)), None) => {
            fail(5624901, format!("{name} where the sortBy is a Date requires an 'unit'"))
        }
        (value, None) => match Real::of(value) {
            Some(real) => Ok(real),
            None => {
                fail(5624902, format!("{name} expects the sortBy field to be numeric, but found {}", type_name(value)))
            }
        },
    }
}

/// How long a unit is that has one length: up to a week.
fn unit_ms(unit: Option<Unit>) -> Real {
    Real::Double(unit.and_then(Unit::millis).map_or(1.0, |millis| millis as f64))
}

/// The slope between the ends of a window: null where it has no two places.
///
/// # Errors
/// Those of [`place`].
pub(super) fn derivative(values: &[Val], sorted: &[Val], unit: Option<Unit>) -> Result<Val> {
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return Ok(NULL) };
    let (Some(from), Some(to)) = (sorted.first(), sorted.last()) else { return Ok(NULL) };
    let run = place("$derivative", to, unit)?.minus(place("$derivative", from, unit)?);
    let (Some(first), Some(last)) = (Real::of(first), Real::of(last)) else { return Ok(NULL) };
    if values.len() < 2 || run.is_zero() {
        return Ok(NULL);
    }
    Ok(last.minus(first).times(unit_ms(unit)).over(run).value())
}

/// The area below the values of a window, by trapezia.
///
/// # Errors
/// Those of [`place`].
pub(super) fn integral(values: &[Val], sorted: &[Val], unit: Option<Unit>) -> Result<Val> {
    let mut points = Vec::with_capacity(values.len());
    for (value, sorted) in values.iter().zip(sorted) {
        let x = place("$integral", sorted, unit)?;
        match Real::of(value) {
            Some(y) => points.push((x, y)),
            None if nullish(value) => return Ok(NULL),
            None => {
                let found = type_name(value);
                return fail(5423900, format!("The input value of $integral must be numeric, but found {found}"));
            }
        }
    }
    if points.is_empty() {
        return Ok(NULL);
    }
    let trapezium = |pair: &[(Real, Real)]| {
        let ((x, y), (next_x, next_y)) = (pair[0], pair[1]);
        y.plus(next_y).times(next_x.minus(x)).over(Real::Double(2.0))
    };
    let area = points.windows(2).map(trapezium).fold(Real::Double(0.0), Real::plus);
    Ok(area.over(unit_ms(unit)).value())
}

/// The moving average, heavier on what is near: null until there is a number; what is none changes nothing.
pub(super) fn moving_average(values: &[Val], alpha: Real) -> Vec<Val> {
    let mut average: Option<Real> = None;
    let rest = Real::Double(1.0).minus(alpha);
    let mut next = |value: &Val| {
        if let Some(number) = Real::of(value) {
            average = Some(match average {
                None => number,
                Some(before) => number.times(alpha).plus(before.times(rest)),
            });
        }
        average.map_or(NULL, Real::value)
    };
    values.iter().map(&mut next).collect()
}

/// The covariance of the pairs that are two numbers; null where there are too few.
pub(super) fn covariance(pairs: &[Val], is_sample: bool) -> Val {
    let numbers = |pair: &Val| match pair {
        Some(Bson::Array(pair)) => match &pair[..] {
            [x, y] => Some((Real::of(&Some(x.clone()))?, Real::of(&Some(y.clone()))?)),
            _ => None,
        },
        _ => None,
    };
    let pairs: Vec<(Real, Real)> = pairs.iter().filter_map(numbers).collect();
    let by = pairs.len().saturating_sub(usize::from(is_sample));
    if by == 0 {
        return NULL;
    }
    let zero = || Real::Double(0.0);
    let count = Real::Double(pairs.len() as f64);
    let mean = |of: fn(&(Real, Real)) -> Real| pairs.iter().map(of).fold(zero(), Real::plus).over(count);
    let (mean_x, mean_y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = pairs.iter().map(|(x, y)| x.minus(mean_x).times(y.minus(mean_y))).fold(zero(), Real::plus);
    sum.over(Real::Double(by as f64)).value()
}
