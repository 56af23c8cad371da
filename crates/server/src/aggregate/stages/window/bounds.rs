//! Windows: which neighbours of a document count.

use bson::Bson;

use crate::aggregate::expression::Val;
use crate::aggregate::expression::date::Unit;
use crate::aggregate::expression::lent::type_name;
use crate::error::{CommandError, Result, fail};
use crate::value::{View, text};

/// The documents around one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bounds {
    /// Positions around the document.
    Documents(Edge<i64>, Edge<i64>),
    /// Values around that of the sort field; with a unit, dates.
    Range(Edge<f64>, Edge<f64>, Option<Unit>),
}

/// One end of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Edge<T> {
    Unbounded,
    At(T),
}

impl Bounds {
    /// All documents of the partition.
    pub(super) const ALL: Self = Self::Documents(Edge::Unbounded, Edge::Unbounded);

    /// Parses `window`.
    ///
    /// # Errors
    /// 9 for what is no window.
    pub(super) fn parse(value: View<'_>) -> Result<Self> {
        let View::Document(spec) = value else { return fail(9, "'window' field must be an object") };
        let unit = match spec.get("unit") {
            None => None,
            Some(View::String(unit)) => Some(Unit::parse(unit)?),
            Some(_) => return fail(9, "'unit' must be a string"),
        };
        let mut bounds = None;
        for (name, value) in spec.iter().filter(|(name, _)| *name != "unit") {
            let pair = value.as_array().filter(|array| array.len() == 2);
            let pair = pair.and_then(|array| Some((array.get(0)?, array.get(1)?)));
            let Some((low, high)) = pair.filter(|_| matches!(name, "documents" | "range")) else {
                let wrong = "Window bounds must be a 2-element array, in 'documents' or 'range'";
                return fail(9, format!("{wrong}: {}", text::element(name, value)));
            };
            if bounds.is_some() {
                return fail(9, "Window bounds can specify either 'documents' or 'range', not both.");
            }
            bounds = Some(match (name, unit) {
                ("documents", Some(_)) => return fail(9, "'unit' is only allowed with range-based windows"),
                ("documents", None) => Self::Documents(position(low)?, position(high)?),
                (_, unit) => Self::Range(distance(low, unit)?, distance(high, unit)?, unit),
            });
        }
        let bounds = match (bounds, unit) {
            (None, Some(_)) => return fail(9, "'unit' is only allowed with range-based windows"),
            (bounds, _) => bounds.unwrap_or(Self::ALL),
        };
        let backwards = match bounds {
            Self::Documents(Edge::At(low), Edge::At(high)) => low > high,
            Self::Range(Edge::At(low), Edge::At(high), _) => low > high,
            _ => false,
        };
        if backwards {
            return fail(5339900, "Lower bound must not exceed upper bound");
        }
        Ok(bounds)
    }

    /// The members in the window of the member at `at`. `sorted` has the value of the sort field of each, for ranges.
    ///
    /// # Errors
    /// 5429413, 5429414 and 5429513 when that value is of another kind than the range.
    pub(super) fn members(self, at: usize, count: usize, sorted: &[Val]) -> Result<std::ops::Range<usize>> {
        match self {
            Self::Documents(low, high) => {
                let clamp = |edge: Edge<i64>, open: i64| match edge {
                    Edge::Unbounded => open,
                    Edge::At(by) => at as i64 + by,
                };
                let start = clamp(low, 0).clamp(0, count as i64) as usize;
                let end = (clamp(high, count as i64 - 1) + 1).clamp(start as i64, count as i64) as usize;
                Ok(start..end)
            }
            Self::Range(low, high, unit) => {
                let center = sorted.get(at).and_then(Option::as_ref);
                let (low, high) = match unit {
                    Some(unit) => around_date(center, low, high, unit)?,
                    None => around_number(center, low, high)?,
                };
                let place = |value: &Val| match (value, unit) {
                    (Some(Bson::DateTime(date)), Some(_)) => Some(date.timestamp_millis() as f64),
                    (value, None) => value.as_ref().and_then(|value| View::from(value).number()).map(|it| it.to_f64()),
                    _ => None,
                };
                let inside = |value: &Val| {
                    place(value).is_some_and(|value| {
                        let above = matches!(low, Edge::Unbounded) || matches!(low, Edge::At(low) if value >= low);
                        above && (matches!(high, Edge::Unbounded) || matches!(high, Edge::At(high) if value <= high))
                    })
                };
                let start = sorted.iter().position(inside).unwrap_or(0);
                let length = sorted[start..].iter().take_while(|value| inside(value)).count();
                Ok(start..start + length)
            }
        }
    }
}

fn around_number(center: Option<&Bson>, low: Edge<f64>, high: Edge<f64>) -> Result<(Edge<f64>, Edge<f64>)> {
    if let Some(Bson::DateTime(_)) = center {
        let text = "Invalid range: For windows that involve date or time ranges, a unit must be provided.";
        return fail(5429413, text);
    }
    let Some(number) = center.and_then(|value| View::from(value).number()) else {
        let found = type_name(&center.cloned());
        return fail(5429414, format!("Invalid range: Expected the sortBy field to be a number, but it was {found}"));
    };
    let shifted = |edge: Edge<f64>| match edge {
        Edge::Unbounded => Edge::Unbounded,
        Edge::At(by) => Edge::At(number.to_f64() + by),
    };
    Ok((shifted(low), shifted(high)))
}

fn around_date(center: Option<&Bson>, low: Edge<f64>, high: Edge<f64>, unit: Unit) -> Result<(Edge<f64>, Edge<f64>)> {
    let Some(Bson::DateTime(date)) = center else {
        let found = type_name(&center.cloned());
        return fail(5429513, format!("Invalid range: Expected the sortBy field to be a Date, but it was {found}"));
    };
    let shifted = |edge: Edge<f64>| match edge {
        Edge::Unbounded => Ok(Edge::Unbounded),
        Edge::At(by) => match unit.shift(date.timestamp_millis(), by as i64) {
            Some(millis) => Ok(Edge::At(millis as f64)),
            None => Err(CommandError::new(5166406, "$dateAdd overflowed")),
        },
    };
    Ok((shifted(low)?, shifted(high)?))
}

fn position(value: View<'_>) -> Result<Edge<i64>> {
    match value {
        View::String("unbounded") => Ok(Edge::Unbounded),
        View::String("current") => Ok(Edge::At(0)),
        other => match other.number().and_then(|number| number.as_exact_i32()) {
            Some(at) => Ok(Edge::At(i64::from(at))),
            None => fail(9, "Numeric document-based bounds must be an integer"),
        },
    }
}

fn distance(value: View<'_>, unit: Option<Unit>) -> Result<Edge<f64>> {
    match (value, unit) {
        (View::String("unbounded"), _) => Ok(Edge::Unbounded),
        (View::String("current"), _) => Ok(Edge::At(0.0)),
        (other, None) => match other.number() {
            Some(number) => Ok(Edge::At(number.to_f64())),
            None => fail(9, "Range-based bounds expression must be a number"),
        },
        (other, Some(_)) => match other.number().and_then(|number| number.as_exact_i32()) {
            Some(whole) => Ok(Edge::At(f64::from(whole))),
            None => fail(9, "With 'unit', range-based bounds must be an integer"),
        },
    }
}
