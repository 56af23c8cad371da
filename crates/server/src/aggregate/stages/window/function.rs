//! The functions of a window.

use std::sync::Arc;

use bson::Bson;

use super::bounds::{Bounds, Edge};
use super::{Member, filling, numeric};
use crate::aggregate::accumulator::{Accumulator, Kind, approximate_bytes};
use crate::aggregate::choice;
use crate::aggregate::expression::date::Unit;
use crate::aggregate::expression::{Expression, Frame, Val};
use crate::aggregate::stages::{Parsing, Run, check_memory};
use crate::error::{CommandError, Result, fail};
use crate::query::Sort;
use crate::value::{DocView, View};

/// What a field of the output is.
#[derive(Debug, Clone)]
pub(super) enum Function {
    Accumulate { kind: Kind, argument: Expression, bounds: Bounds },
    DocumentNumber,
    Rank,
    DenseRank,
    Shift { output: Expression, by: i64, default: Val },
    Derivative { input: Expression, unit: Option<Unit>, bounds: Bounds },
    Integral { input: Expression, unit: Option<Unit>, bounds: Bounds },
    MovingAverage { input: Expression, alpha: numeric::Real },
    Covariance { pair: Expression, is_sample: bool, bounds: Bounds },
    LinearFill(Expression),
    CarryForward(Expression),
}

impl Function {
    /// Parses `{function: operand, window: …}`.
    ///
    /// # Errors
    /// 9 and those of the function.
    pub(super) fn parse(function: DocView<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let scope = &parsing.query().scope;
        let (mut window, mut found) = (None, None);
        for (name, value) in function.iter() {
            if name == "window" {
                window = Some(Bounds::parse(value)?);
            } else if found.is_none() && name.starts_with('$') {
                found = Some((name, value));
            } else {
                return fail(9, format!("Window function found an unknown argument: {name}"));
            }
        }
        let Some((name, operand)) = found else { return fail(9, "Must specify a window function in output field") };
        let bounds = window.unwrap_or(Bounds::ALL);
        let no_window = || match window {
            Some(_) => fail(9, format!("{name} does not accept a 'window' field")),
            None => Ok(()),
        };
        Ok(match name {
            "$documentNumber" | "$rank" | "$denseRank" => {
                if window.is_some() {
                    return fail(5371601, "Rank style window functions take no other arguments");
                }
                if !matches!(operand, View::Document(document) if document.is_empty()) {
                    return fail(5371603, format!("{name} must be specified with '{{}}' as the value"));
                }
                match name {
                    "$documentNumber" => Self::DocumentNumber,
                    "$rank" => Self::Rank,
                    _ => Self::DenseRank,
                }
            }
            "$shift" => {
                no_window()?;
                shift(operand, parsing)?
            }
            "$derivative" | "$integral" => {
                let (input, unit) = with_unit(name, operand, parsing)?;
                match (name, window) {
                    ("$integral", _) => Self::Integral { input, unit, bounds },
                    (_, Some(bounds)) => Self::Derivative { input, unit, bounds },
                    (_, None) => return fail(9, "$derivative requires explicit window bounds"),
                }
            }
            "$expMovingAvg" => {
                no_window()?;
                moving_average(operand, parsing)?
            }
            "$covariancePop" | "$covarianceSamp" => {
                let pair = Expression::parse(operand, scope)?;
                Self::Covariance { pair, is_sample: name == "$covarianceSamp", bounds }
            }
            "$linearFill" | "$locf" => {
                no_window()?;
                let value = Expression::parse(operand, scope)?;
                if name == "$locf" { Self::CarryForward(value) } else { Self::LinearFill(value) }
            }
            "$count" => match operand {
                View::Document(document) if document.is_empty() => {
                    Self::Accumulate { kind: Kind::Count, argument: Expression::constant(None), bounds }
                }
                _ => return fail(9, "$count only accepts an empty object as input"),
            },
            other => {
                if let Some((choice, argument)) = choice::parse(other, operand, scope, parsing.query().collation())? {
                    return Ok(Self::Accumulate { kind: Kind::Several(Arc::new(choice)), argument, bounds });
                }
                match Kind::by_name(other) {
                    Some(kind) => Self::Accumulate { kind, argument: Expression::parse(operand, scope)?, bounds },
                    None => return fail(9, format!("Unrecognized window function, {other}")),
                }
            }
        })
    }

    /// Checks what the function wants of `sortBy`; `is_single`: it has one field.
    ///
    /// # Errors
    /// 5339902, 5371602 and relatives.
    pub(super) fn check_sort(&self, has_sort: bool, is_single: bool) -> Result<()> {
        let one = |code: i32, name: &str| {
            let text = "must be specified with a top level sortBy expression with exactly one element";
            if is_single { Ok(()) } else { fail(code, format!("{name} {text}")) }
        };
        let any = |name: &str| {
            if has_sort { Ok(()) } else { fail(9, format!("'{name}' requires a sortBy")) }
        };
        match self {
            Self::Rank => one(5371602, "$rank"),
            Self::DenseRank => one(5371602, "$denseRank"),
            Self::LinearFill(_) => one(605001, "$linearFill"),
            Self::Derivative { .. } => one(5624903, "$derivative"),
            Self::Integral { .. } => one(5423904, "$integral"),
            Self::DocumentNumber => one(5371602, "$documentNumber"),
            Self::Shift { .. } => any("$shift"),
            Self::MovingAverage { .. } => any("$expMovingAvg"),
            Self::CarryForward(_) => Ok(()),
            Self::Accumulate { bounds, .. } | Self::Covariance { bounds, .. } => match bounds {
                Bounds::Range(..) if !is_single => fail(5339902, "Range-based window require sortBy a single field"),
                Bounds::Documents(low, high) if !has_sort && (*low, *high) != (Edge::Unbounded, Edge::Unbounded) => {
                    fail(5339901, "Document-based bounds require a sortBy")
                }
                _ => Ok(()),
            },
        }
    }

    /// The value of each member of a partition.
    ///
    /// # Errors
    /// Those of its expressions and of what it computes.
    pub(super) fn values(&self, members: &[Member], sort_value: Option<&Expression>, run: &Run) -> Result<Vec<Val>> {
        let each = |expression: &Expression| {
            let value = |member: &Member| {
                expression.eval(&mut Frame::new((&member.document).into(), run.slots.clone(), &run.globals))
            };
            members.iter().map(value).collect::<Result<Vec<_>>>()
        };
        let sorted = || sort_value.map_or(Ok(Vec::new()), each);
        let count = members.len();
        // The value of each window.
        let windows = |bounds: &Bounds, sorted: &[Val], of: &dyn Fn(std::ops::Range<usize>) -> Result<Val>| {
            let mut held = 0;
            let result = |at: usize| hold(of(bounds.members(at, count, sorted)?)?, &mut held, run);
            (0..count).map(result).collect::<Result<Vec<Val>>>()
        };
        Ok(match self {
            Self::DocumentNumber => (1..=count).map(|at| Some(Bson::Int32(at as i32))).collect(),
            Self::Rank | Self::DenseRank => {
                let dense = matches!(self, Self::DenseRank);
                let (mut rank, mut ranks) = (0, Vec::with_capacity(count));
                for at in 0..count {
                    let same = at > 0 && members[at].key == members[at - 1].key;
                    if !same {
                        rank = if dense { rank + 1 } else { at as i32 + 1 };
                    }
                    ranks.push(Some(Bson::Int32(rank)));
                }
                ranks
            }
            Self::Shift { output, by, default } => {
                let values = each(output)?;
                let shifted = |at: usize| {
                    let from = usize::try_from(at as i64 + by).ok();
                    from.and_then(|from| values.get(from)).cloned().unwrap_or_else(|| default.clone())
                };
                (0..count).map(shifted).collect()
            }
            Self::Derivative { input, unit, bounds } => {
                let (values, sorted) = (each(input)?, sorted()?);
                windows(bounds, &sorted, &|inside| {
                    numeric::derivative(&values[inside.clone()], &sorted[inside], *unit)
                })?
            }
            Self::Integral { input, unit, bounds } => {
                let (values, sorted) = (each(input)?, sorted()?);
                windows(bounds, &sorted, &|inside| numeric::integral(&values[inside.clone()], &sorted[inside], *unit))?
            }
            Self::MovingAverage { input, alpha } => numeric::moving_average(&each(input)?, *alpha),
            Self::Covariance { pair, is_sample, bounds } => {
                let (pairs, sorted) = (each(pair)?, sorted()?);
                windows(bounds, &sorted, &|inside| Ok(numeric::covariance(&pairs[inside], *is_sample)))?
            }
            Self::LinearFill(value) => filling::on_the_line(each(value)?, &sorted()?)?,
            Self::CarryForward(value) => filling::carried_forward(each(value)?),
            Self::Accumulate { kind, argument, bounds } => {
                let values = each(argument)?;
                if let Bounds::Documents(Edge::Unbounded, high) = bounds {
                    return growing(values, kind.clone(), *high, run);
                }
                let sorted = if let Bounds::Range(..) = bounds { sorted()? } else { Vec::new() };
                windows(bounds, &sorted, &|inside| {
                    let mut accumulator = Accumulator::new(kind.clone(), run.globals.collation.clone());
                    values[inside].iter().try_for_each(|value| accumulator.add(value.clone()))?;
                    accumulator.finish()
                })?
            }
        })
    }
}

/// Whether the sort has one field.
pub(super) fn is_single(sort: Option<&Sort>) -> bool {
    sort.is_some_and(|sort| sort.fields().len() == 1)
}

fn shift(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Function> {
    let scope = &parsing.query().scope;
    let View::Document(spec) = operand else { return fail(9, "Argument to $shift must be an object") };
    if let Some((name, _)) = spec.iter().find(|(name, _)| !matches!(*name, "output" | "by" | "default")) {
        return fail(9, format!("Unknown argument in $shift: {name}"));
    }
    let part = |name| spec.get(name).map(|value| Expression::parse(value, scope)).transpose();
    let by = spec.get("by").and_then(View::number).and_then(|number| number.as_exact_i32());
    let default = match part("default")?.map(Expression::optimize).transpose()? {
        None => Some(Bson::Null),
        Some(default) => match default.as_constant() {
            Some(value) => value.clone(),
            None => return fail(9, "'$shift:default' expression must yield a constant value."),
        },
    };
    match (part("output")?, by) {
        (Some(output), Some(by)) => Ok(Function::Shift { output, by: by.into(), default }),
        _ => fail(9, "$shift requires 'output' and an integer 'by'"),
    }
}

/// `{input, unit}`.
fn with_unit(name: &str, operand: View<'_>, parsing: &Parsing<'_>) -> Result<(Expression, Option<Unit>)> {
    let View::Document(spec) = operand else {
        return fail(9, format!("{name} expects an object, but found {}", operand.type_name()));
    };
    let (mut input, mut unit) = (None, None);
    for (field, value) in spec.iter() {
        match (field, value) {
            ("input", value) => input = Some(Expression::parse(value, &parsing.query().scope)?),
            ("unit", View::String(word)) => {
                let parsed = Unit::parse(word)?;
                if parsed.millis().is_none() {
                    let text = "unit must be 'week' or smaller";
                    return fail(5490704, format!("{name} {text}"));
                }
                unit = Some(parsed);
            }
            ("unit", _) => return fail(5490703, format!("{name} 'unit' must be a string")),
            _ => return fail(9, format!("{name} got unexpected argument: {field}")),
        }
    }
    match input {
        Some(input) => Ok((input, unit)),
        None => fail(9, format!("{name} requires an 'input' expression")),
    }
}

/// `{input, N}` or `{input, alpha}`.
fn moving_average(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Function> {
    let View::Document(spec) = operand else {
        return fail(9, "$expMovingAvg must have exactly two arguments: either input and N, or input and alpha");
    };
    let both = "$expMovingAvg sub object must have exactly two fields: An 'input' field, and either an 'N' field or an \
                'alpha' field";
    let Some(input) = spec.get("input").filter(|_| spec.iter().count() == 2) else { return fail(9, both) };
    let input = Expression::parse(input, &parsing.query().scope)?;
    let alpha = match (spec.get("N"), spec.get("alpha")) {
        (Some(n), None) => match n.number().and_then(|number| number.as_exact_i64()).filter(|n| *n > 0) {
            Some(n) => numeric::Real::Double(2.0 / (n as f64 + 1.0)),
            None => return fail(9, "'N' field must be an integer greater than zero"),
        },
        (None, Some(alpha)) => {
            let inside = alpha.number().map(|number| number.to_f64()).is_some_and(|alpha| alpha > 0.0 && alpha < 1.0);
            match alpha.to_bson().map(Some).map(|alpha| numeric::Real::of(&alpha))? {
                Some(alpha) if inside => alpha,
                _ => return fail(9, "'alpha' must be between 0 and 1 (exclusive)"),
            }
        }
        _ => return fail(9, both),
    };
    Ok(Function::MovingAverage { input, alpha })
}

/// The values of windows that start at the first member: each is the one before with more members.
fn growing(values: Vec<Val>, kind: Kind, high: Edge<i64>, run: &Run) -> Result<Vec<Val>> {
    let count = values.len();
    let mut accumulator = Accumulator::new(kind, run.globals.collation.clone());
    let (mut added, mut held) = (0, 0);
    let mut results: Vec<Val> = Vec::with_capacity(count);
    for at in 0..count {
        let end = match high {
            Edge::Unbounded => count,
            Edge::At(by) => (at as i64 + by + 1).clamp(0, count as i64) as usize,
        };
        let same = at > 0 && end == added;
        for value in values.iter().take(end).skip(added) {
            accumulator.add(value.clone())?;
        }
        added = added.max(end);
        let result = match results.last() {
            Some(last) if same => last.clone(),
            _ => accumulator.clone().finish()?,
        };
        results.push(hold(result, &mut held, run)?);
    }
    Ok(results)
}

/// Counts what the results take: each window may be the whole partition.
fn hold(result: Val, held: &mut usize, run: &Run) -> Result<Val> {
    *held += result.as_ref().map_or(0, approximate_bytes);
    check_memory(run, *held, |limit| too_large(*held, limit))?;
    Ok(result)
}

/// The error of a stage that holds too much.
pub(super) fn too_large(bytes: usize, limit: usize) -> CommandError {
    let text = "Exceeded memory limit in $setWindowFields, used";
    CommandError::new(5643011, format!("{text} {bytes} bytes but max allowed is {limit}"))
}
