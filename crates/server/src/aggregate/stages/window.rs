//! `$setWindowFields` (of release 5.0), for windows of documents and of ranges of numbers.

use std::sync::Arc;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};

use super::unwind::set;
use super::{Documents, Parsing, Run, Stage, deferred, listed};
use crate::aggregate::accumulator::{Accumulator, Kind};
use crate::aggregate::expression::{Expression, FieldPath, Frame, Val};
use crate::error::{Result, fail};
use crate::query::Sort;
use crate::value::View;
use crate::value::key_string::encode;
use crate::value::view::{to_document, to_raw};

/// A stage that computes fields over the neighbours of each document.
#[derive(Debug, Clone)]
pub(super) struct Window {
    partition: Option<Expression>,
    sort: Option<Sort>,
    /// The expression of the one sort field, for ranges.
    sort_value: Option<Expression>,
    outputs: Vec<Output>,
}

#[derive(Debug, Clone)]
struct Output {
    path: FieldPath,
    function: Function,
}

#[derive(Debug, Clone)]
enum Function {
    Accumulate { kind: Kind, argument: Expression, bounds: Bounds },
    DocumentNumber,
    Rank,
    DenseRank,
    Shift { output: Expression, by: i64, default: Option<Expression> },
}

#[derive(Debug, Clone, Copy)]
enum Bounds {
    /// Positions around the document.
    Documents(Edge<i64>, Edge<i64>),
    /// Values around that of the sort field.
    Range(Edge<f64>, Edge<f64>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Edge<T> {
    Unbounded,
    At(T),
}

impl Window {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let scope = &parsing.query().scope;
        let View::Document(spec) = operand else {
            let text = "the $setWindowFields stage specification must be an object, found";
            return fail(9, format!("{text} {}", operand.type_name()));
        };
        let mut window = Self { partition: None, sort: None, sort_value: None, outputs: Vec::new() };
        for (name, value) in spec.iter() {
            match (name, value) {
                ("partitionBy", value) => window.partition = Some(Expression::parse(value, scope)?),
                ("sortBy", View::Document(pattern)) => {
                    let sort = Sort::parse_view(pattern, parsing.query().collation().cloned())?;
                    if let [(path, _)] = sort.fields() {
                        let path = format!("${path}");
                        window.sort_value = Some(Expression::parse(View::String(&path), scope)?);
                    }
                    window.sort = Some(sort);
                }
                ("output", View::Document(fields)) => {
                    for (path, value) in fields.iter() {
                        let View::Document(function) = value else {
                            let kind = value.type_name();
                            return fail(9, format!("The field '{path}' must be an object, but found type: {kind}"));
                        };
                        let path = FieldPath::parse(path)?;
                        window.outputs.push(Output { path, function: parse_function(function, parsing)? });
                    }
                }
                ("sortBy" | "output", other) => {
                    let text =
                        format!("BSON field '$setWindowFields.{name}' is the wrong type '{}'", other.type_name());
                    return fail(14, format!("{text}, expected type 'object'"));
                }
                _ => return fail(40415, format!("BSON field '$setWindowFields.{name}' is an unknown field.")),
            }
        }
        if spec.get("output").is_none() {
            return fail(40414, "BSON field '$setWindowFields.output' is missing but a required field");
        }
        window.check_sort()?;
        Ok(window)
    }

    fn check_sort(&self) -> Result<()> {
        for output in &self.outputs {
            match output.function {
                Function::Accumulate { bounds: Bounds::Range(..), .. } if self.sort_value.is_none() => {
                    return fail(5339902, "Range-based window require sortBy a single field");
                }
                Function::Rank | Function::DenseRank if self.sort_value.is_none() => {
                    return fail(5371602, "a rank-style window function requires a sortBy with exactly one element");
                }
                Function::DocumentNumber | Function::Shift { .. } if self.sort.is_none() => {
                    return fail(5371602, "this window function requires a sortBy");
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn compute(&self, input: Documents, run: &Run) -> Result<Documents> {
        let collation = run.globals.collation.as_ref();
        let mut documents: Vec<(Vec<u8>, Vec<u8>, RawDocumentBuf)> = Vec::new();
        for document in input {
            let document = document?;
            let mut frame = Frame::new((&document).into(), run.slots.clone(), &run.globals);
            let partition = match &self.partition {
                None => Vec::new(),
                Some(partition) => match partition.eval(&mut frame)? {
                    Some(Bson::Array(_)) => {
                        return fail(14, "An expression used to partition cannot evaluate to value of type array");
                    }
                    value => encode(value.as_ref().map_or(View::Null, Into::into), collation),
                },
            };
            let key = match &self.sort {
                None => Vec::new(),
                Some(sort) => sort.key(&document)?,
            };
            documents.push((partition, key, document));
        }
        documents.sort_by(|left, right| (&left.0, &left.1).cmp(&(&right.0, &right.1)));
        let mut results = Vec::with_capacity(documents.len());
        for partition in documents.chunk_by(|left, right| left.0 == right.0) {
            self.partition(partition, run, &mut results)?;
        }
        Ok(listed(results))
    }

    fn partition(
        &self,
        members: &[(Vec<u8>, Vec<u8>, RawDocumentBuf)],
        run: &Run,
        results: &mut Vec<RawDocumentBuf>,
    ) -> Result<()> {
        let mut decoded = members.iter().map(|(_, _, raw)| to_document(raw)).collect::<Result<Vec<_>>>()?;
        for output in &self.outputs {
            let values = output.function.values(members, self.sort_value.as_ref(), run)?;
            for (document, value) in decoded.iter_mut().zip(values) {
                set(document, output.path.parts(), value);
            }
        }
        for document in &decoded {
            results.push(to_raw(document)?);
        }
        Ok(())
    }
}

fn parse_function(function: crate::value::DocView<'_>, parsing: &Parsing<'_>) -> Result<Function> {
    let scope = &parsing.query().scope;
    let mut bounds = Bounds::Documents(Edge::Unbounded, Edge::Unbounded);
    let mut found = None;
    for (name, value) in function.iter() {
        if name == "window" {
            bounds = parse_bounds(value)?;
        } else if found.is_none() && name.starts_with('$') {
            found = Some((name, value));
        } else {
            return fail(9, format!("Window function found an unknown argument: {name}"));
        }
    }
    let Some((name, operand)) = found else { return fail(9, "Must specify a window function in output field") };
    Ok(match name {
        "$documentNumber" => Function::DocumentNumber,
        "$rank" => Function::Rank,
        "$denseRank" => Function::DenseRank,
        "$shift" => {
            let View::Document(spec) = operand else { return fail(9, "Argument to $shift must be an object") };
            let part = |name| spec.get(name).map(|value| Expression::parse(value, scope)).transpose();
            let by = spec.get("by").and_then(View::number).and_then(|number| number.as_exact_i32());
            match (part("output")?, by) {
                (Some(output), Some(by)) => Function::Shift { output, by: by.into(), default: part("default")? },
                _ => return fail(9, "$shift requires 'output' and an integer 'by'"),
            }
        }
        "$count" => Function::Accumulate { kind: Kind::Count, argument: Expression::constant(None), bounds },
        other => match Kind::by_name(other) {
            Some(kind) => Function::Accumulate { kind, argument: Expression::parse(operand, scope)?, bounds },
            None => return fail(9, format!("Unrecognized window function, {other}")),
        },
    })
}

fn parse_bounds(value: View<'_>) -> Result<Bounds> {
    let View::Document(spec) = value else { return fail(9, "'window' field must be an object") };
    let mut bounds = Bounds::Documents(Edge::Unbounded, Edge::Unbounded);
    for (name, value) in spec.iter() {
        let pair = value.as_array().and_then(|array| Some((array.get(0)?, array.get(1)?)));
        let Some((low, high)) = pair.filter(|_| matches!(name, "documents" | "range")) else {
            let text = "Window bounds must be a 2-element array, in 'documents' or 'range'";
            return fail(9, format!("{text}: {}", crate::value::text::element(name, value)));
        };
        bounds = if name == "documents" {
            let edge = |value: View<'_>| match value {
                View::String("unbounded") => Ok(Edge::Unbounded),
                View::String("current") => Ok(Edge::At(0)),
                other => match other.number().and_then(|number| number.as_exact_i32()) {
                    Some(at) => Ok(Edge::At(i64::from(at))),
                    None => fail(9, "Numeric document-based bounds must be an integer"),
                },
            };
            Bounds::Documents(edge(low)?, edge(high)?)
        } else {
            let edge = |value: View<'_>| match value {
                View::String("unbounded") => Ok(Edge::Unbounded),
                View::String("current") => Ok(Edge::At(0.0)),
                other => match other.number() {
                    Some(number) => Ok(Edge::At(number.to_f64())),
                    None => fail(9, "Range-based bounds expression must be a number"),
                },
            };
            Bounds::Range(edge(low)?, edge(high)?)
        };
    }
    Ok(bounds)
}

impl Function {
    /// The value of each member of a partition.
    fn values(
        &self,
        members: &[(Vec<u8>, Vec<u8>, RawDocumentBuf)],
        sort_value: Option<&Expression>,
        run: &Run,
    ) -> Result<Vec<Val>> {
        let each = |expression: &Expression| {
            let value = |(_, _, document): &(Vec<u8>, Vec<u8>, RawDocumentBuf)| {
                expression.eval(&mut Frame::new(document.into(), run.slots.clone(), &run.globals))
            };
            members.iter().map(value).collect::<Result<Vec<_>>>()
        };
        let count = members.len();
        Ok(match self {
            Self::DocumentNumber => (1..=count).map(|at| Some(Bson::Int32(at as i32))).collect(),
            Self::Rank | Self::DenseRank => {
                let dense = matches!(self, Self::DenseRank);
                let (mut rank, mut ranks) = (0, Vec::with_capacity(count));
                for at in 0..count {
                    let same = at > 0 && members[at].1 == members[at - 1].1;
                    if !same {
                        rank = if dense { rank + 1 } else { at as i32 + 1 };
                    }
                    ranks.push(Some(Bson::Int32(rank)));
                }
                ranks
            }
            Self::Shift { output, by, default } => {
                let values = each(output)?;
                let default = match default {
                    None => Some(Bson::Null),
                    Some(default) => {
                        let empty = Document::new();
                        default.eval(&mut Frame::new((&empty).into(), run.slots.clone(), &run.globals))?
                    }
                };
                let shifted = |at: usize| {
                    let from = usize::try_from(at as i64 + by).ok();
                    from.and_then(|from| values.get(from)).cloned().unwrap_or_else(|| default.clone())
                };
                (0..count).map(shifted).collect()
            }
            Self::Accumulate { kind, argument, bounds } => {
                let values = each(argument)?;
                if let Bounds::Documents(Edge::Unbounded, high) = bounds {
                    return growing(values, kind.clone(), *high, run);
                }
                let sorted = match (bounds, sort_value) {
                    (Bounds::Range(..), Some(sort_value)) => each(sort_value)?,
                    _ => Vec::new(),
                };
                let result = |at: usize| {
                    let mut accumulator = Accumulator::new(kind.clone(), run.globals.collation.clone());
                    for member in bounds.members(at, count, &sorted)? {
                        accumulator.add(values[member].clone())?;
                    }
                    accumulator.finish()
                };
                (0..count).map(result).collect::<Result<_>>()?
            }
        })
    }
}

/// The values of windows that start at the first member: each is the one before with more members.
fn growing(values: Vec<Val>, kind: Kind, high: Edge<i64>, run: &Run) -> Result<Vec<Val>> {
    let count = values.len();
    let mut accumulator = Accumulator::new(kind, run.globals.collation.clone());
    let mut added = 0;
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
        results.push(result);
    }
    Ok(results)
}

impl Bounds {
    /// The members in the window of the member at `at`.
    fn members(self, at: usize, count: usize, sorted: &[Val]) -> Result<std::ops::Range<usize>> {
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
            Self::Range(low, high) => {
                let number = |value: &Val| value.as_ref().and_then(|value| View::from(value).number());
                let Some(center) = sorted.get(at).and_then(number).map(|number| number.to_f64()) else {
                    return fail(5429414, "Invalid range: Expected the sortBy field to be a number");
                };
                let inside = |value: &Val| {
                    number(value).is_some_and(|number| {
                        let distance = number.to_f64() - center;
                        let above = match low {
                            Edge::Unbounded => true,
                            Edge::At(low) => distance >= low,
                        };
                        above
                            && match high {
                                Edge::Unbounded => true,
                                Edge::At(high) => distance <= high,
                            }
                    })
                };
                let start = sorted.iter().position(inside).unwrap_or(0);
                let length = sorted[start..].iter().take_while(|value| inside(value)).count();
                Ok(start..start + length)
            }
        }
    }
}

impl Stage for Window {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        deferred(move || self.compute(input, &run))
    }
}
