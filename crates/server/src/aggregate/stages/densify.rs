//! `$densify` (of release 5.1): documents for the steps between values of a field that have none.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, Document};

use super::unwind::set;
use super::{Documents, Parsing, Run, Stage, deferred, listed};
use crate::aggregate::expression::date::Unit;
use crate::aggregate::expression::lent::nullish;
use crate::aggregate::expression::{Expression, FieldPath, Frame, Val};
use crate::error::{CommandError, Result, fail};
use crate::value::key_string::encode;
use crate::value::number::Number;
use crate::value::view::to_raw;
use crate::value::{View, compare};

/// How many documents a stage may make (`internalQueryMaxAllowedDensifyDocs`).
const GENERATED_MAX: usize = 500_000;

/// How much the documents that it holds may take (`internalDocumentSourceDensifyMaxMemoryBytes`).
const MEMORY_MAX_BYTES: usize = 100 * 1024 * 1024;

/// The stage.
#[derive(Debug, Clone)]
pub(super) struct Densify {
    field: FieldPath,
    value: Expression,
    /// The fields of a partition, with the expressions of their values.
    partition: Vec<(FieldPath, Expression)>,
    step: Step,
    bounds: Bounds,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Number(Number),
    Date(i64, Unit),
}

#[derive(Debug, Clone)]
enum Bounds {
    /// From the least value of all documents to the greatest.
    Full,
    /// From the least value of the partition to its greatest.
    Partition,
    /// From the first value up to, and without, the second.
    Between(Box<(Bson, Bson)>),
}

/// The documents of a partition, and what stands in generated ones.
#[derive(Default)]
struct Members {
    values: Vec<(FieldPath, Bson)>,
    /// With their value of the field; those without one first.
    documents: Vec<(Val, RawDocumentBuf)>,
}

/// What was made so far.
#[derive(Default)]
struct Generated {
    count: usize,
    bytes: usize,
}

fn check_memory(bytes: usize) -> Result<()> {
    if bytes > MEMORY_MAX_BYTES {
        let text = format!("$densify exceeded memory limit of {MEMORY_MAX_BYTES}");
        return fail(6007200, text);
    }
    Ok(())
}

impl Densify {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let scope = &parsing.query().scope;
        let View::Document(spec) = operand else {
            let found = operand.type_name();
            return fail(5733402, format!("the $densify stage specification must be an object, found {found}"));
        };
        let at = |path: &str| -> Result<(FieldPath, Expression)> {
            Ok((FieldPath::parse(path)?, Expression::parse(View::String(&format!("${path}")), scope)?))
        };
        let wrong = |name: &str, found: View<'_>, expected: &str| {
            let text = format!("BSON field '$densify.{name}' is the wrong type '{}'", found.type_name());
            CommandError::type_mismatch(format!("{text}, expected type '{expected}'"))
        };
        let (mut field, mut partition, mut range) = (None, Vec::new(), None);
        for (name, value) in spec.iter() {
            match (name, value) {
                ("field", View::String(path)) => field = Some(path),
                ("field", other) => return Err(wrong("field", other, "string")),
                ("partitionByFields", View::Array(paths)) => {
                    for path in paths.iter() {
                        let View::String(path) = path else { return Err(wrong("partitionByFields", path, "string")) };
                        partition.push(path);
                    }
                }
                ("partitionByFields", other) => return Err(wrong("partitionByFields", other, "array")),
                ("range", View::Document(document)) => range = Some(document),
                ("range", other) => return Err(wrong("range", other, "object")),
                _ => return fail(40415, format!("BSON field '$densify.{name}' is an unknown field.")),
            }
        }
        let missing = |name: &str| {
            CommandError::new(40414, format!("BSON field '$densify.{name}' is missing but a required field"))
        };
        let field = field.ok_or_else(|| missing("field"))?;
        if partition.contains(&field) {
            let text = "BSON field '$densify.partitionByFields' contains the field that is being densified";
            return fail(8993000, text);
        }
        let range = range.ok_or_else(|| missing("range"))?;
        for (name, _) in range.iter() {
            if !matches!(name, "step" | "unit" | "bounds") {
                return fail(40415, format!("BSON field '$densify.range.{name}' is an unknown field."));
            }
        }
        let unit = match range.get("unit") {
            None => None,
            Some(View::String(unit)) => Some(Unit::parse(unit)?),
            Some(other) => return Err(wrong("range.unit", other, "string")),
        };
        let step = range.get("step").ok_or_else(|| missing("range.step"))?;
        let Some(step) = step.number() else { return Err(wrong("range.step", step, "number")) };
        if step.to_f64() <= 0.0 || step.is_nan() {
            return fail(5733401, "the step parameter in a range statement must be a strictly positive numeric value");
        }
        let bounds = bounds(range.get("bounds").ok_or_else(|| missing("range.bounds"))?, unit)?;
        if matches!(bounds, Bounds::Partition) && partition.is_empty() {
            let text = "one may not specify the bounds as 'partition' without specifying a non-empty array of \
                        partitionByFields. You may have meant to specify 'full' bounds.";
            return fail(5733408, text);
        }
        let step = match unit {
            None => Step::Number(step),
            Some(unit) => match step.as_exact_i64() {
                Some(whole) => Step::Date(whole, unit),
                None => {
                    let text =
                        "The step parameter in a range satement must be a whole number when densifying a date range";
                    return fail(6586400, text);
                }
            },
        };
        let partition = partition.into_iter().map(at).collect::<Result<_>>()?;
        let (field, value) = at(field)?;
        Ok(Self { field, value, partition, step, bounds })
    }

    /// Checks that a value can be stepped from.
    fn check(&self, value: &Bson) -> Result<()> {
        match (self.step, value) {
            (Step::Number(_), value) if View::from(value).number().is_some() => Ok(()),
            (Step::Date(..), Bson::DateTime(_)) => Ok(()),
            (Step::Number(_), Bson::DateTime(_)) => {
                fail(6053600, "Encountered date densify value in collection when step does not have a date unit.")
            }
            (Step::Number(_), _) => fail(5733201, "Densify field type must be numeric or a date"),
            (Step::Date(..), value) if View::from(value).number().is_some() => {
                fail(6053600, "Encountered numeric densify value in collection when step has a date unit.")
            }
            (Step::Date(..), _) => fail(5733201, "Densify field type must be numeric or a date"),
        }
    }

    /// The value `count` steps after `from`.
    fn after(&self, from: &Bson, count: i64) -> Result<Bson> {
        let overflow = || CommandError::new(5733201, "Densify value overflowed");
        match (self.step, from) {
            (Step::Date(by, unit), Bson::DateTime(date)) => {
                let amount = by.checked_mul(count).ok_or_else(overflow)?;
                let millis = unit.shift(date.timestamp_millis(), amount).ok_or_else(overflow)?;
                Ok(Bson::DateTime(DateTime::from_millis(millis)))
            }
            (Step::Number(by), from) => {
                let start = View::from(from).number().ok_or_else(overflow)?;
                let way = by.checked_multiply(Number::Long(count)).ok_or_else(overflow)?;
                let sum = start.checked_add(way).ok_or_else(overflow)?;
                // A long only where an int is not wide enough, or one was given.
                Ok(match (start, by, sum) {
                    (Number::Int(_), Number::Int(_), Number::Long(long)) => crate::value::number::int_or_long(long),
                    (_, _, sum) => sum.into(),
                })
            }
            _ => Err(overflow()),
        }
    }

    /// The documents by partition.
    fn partitions(&self, input: Documents, run: &Run) -> Result<BTreeMap<Vec<u8>, Members>> {
        let mut partitions: BTreeMap<Vec<u8>, Members> = BTreeMap::new();
        let mut bytes = 0;
        for document in input {
            let document = document?;
            bytes += document.as_bytes().len();
            check_memory(bytes)?;
            let mut frame = Frame::new((&document).into(), run.slots.clone(), &run.globals);
            let value = self.value.eval(&mut frame)?;
            let value = if nullish(&value) { None } else { value };
            if let Some(value) = &value {
                self.check(value)?;
            }
            let (mut key, mut values) = (Vec::new(), Vec::new());
            for (path, expression) in &self.partition {
                let value = expression.eval(&mut frame)?;
                key.extend(encode(value.as_ref().map_or(View::Null, Into::into), run.globals.collation.as_ref()));
                values.extend(value.map(|value| (path.clone(), value)));
            }
            let members = partitions.entry(key).or_default();
            members.values = values;
            members.documents.push((value, document));
        }
        for members in partitions.values_mut() {
            members.documents.sort_by(|(left, _), (right, _)| match (left, right) {
                (Some(left), Some(right)) => compare::compare(left.into(), right.into(), None),
                (left, right) => left.is_some().cmp(&right.is_some()),
            });
        }
        Ok(partitions)
    }

    fn compute(&self, input: Documents, run: &Run) -> Result<Documents> {
        let mut partitions = self.partitions(input, run)?;
        if partitions.is_empty() && self.partition.is_empty() && matches!(self.bounds, Bounds::Between(_)) {
            partitions.insert(Vec::new(), Members::default());
        }
        let ends = |members: &Members| {
            let values = || members.documents.iter().filter_map(|(value, _)| value.as_ref());
            values().next().cloned().zip(values().next_back().cloned())
        };
        let less = |left: &Bson, right: &Bson| compare::compare(left.into(), right.into(), None).is_lt();
        let full = partitions.values().filter_map(ends).reduce(|(low, high), (other_low, other_high)| {
            let low = if less(&other_low, &low) { other_low } else { low };
            let high = if less(&high, &other_high) { other_high } else { high };
            (low, high)
        });
        let mut results = Vec::new();
        let mut generated = Generated::default();
        for members in partitions.into_values() {
            let (range, is_closed) = match &self.bounds {
                Bounds::Full => (full.clone(), true),
                Bounds::Partition => (ends(&members), true),
                Bounds::Between(range) => (Some((**range).clone()), false),
            };
            self.partition(members, range, is_closed, &mut generated, &mut results)?;
        }
        Ok(listed(results))
    }

    /// Gives out a partition with what lacks between `range`'s ends, the upper one included if it `is_closed`.
    fn partition(
        &self,
        members: Members,
        range: Option<(Bson, Bson)>,
        is_closed: bool,
        generated: &mut Generated,
        results: &mut Vec<RawDocumentBuf>,
    ) -> Result<()> {
        let Members { values, documents } = members;
        let mut steps = match &range {
            Some((low, high)) => Steps { of: self, low, high, is_closed, count: 0, last: None },
            None => {
                results.extend(documents.into_iter().map(|(_, document)| document));
                return Ok(());
            }
        };
        let mut make = |value: Bson, results: &mut Vec<RawDocumentBuf>| -> Result<()> {
            generated.count += 1;
            if generated.count > GENERATED_MAX {
                let text = format!(
                    "Generated {} documents in $densify, which is over the limit of {GENERATED_MAX}. Increase the \
                     'internalQueryMaxAllowedDensifyDocs' parameter to allow more generated documents",
                    generated.count
                );
                return fail(5897900, text);
            }
            let mut document = Document::new();
            for (path, value) in &values {
                set(&mut document, path.parts(), Some(value.clone()));
            }
            set(&mut document, self.field.parts(), Some(value));
            let document = to_raw(&document)?;
            generated.bytes += document.as_bytes().len();
            check_memory(generated.bytes)?;
            results.push(document);
            Ok(())
        };
        let mut next = steps.next()?;
        for (value, document) in documents {
            if let Some(value) = &value {
                while let Some(step) = &next {
                    match compare::compare(step.into(), value.into(), None) {
                        std::cmp::Ordering::Less => make(step.clone(), results)?,
                        std::cmp::Ordering::Equal => {}
                        std::cmp::Ordering::Greater => break,
                    }
                    next = steps.next()?;
                }
            }
            results.push(document);
        }
        while let Some(step) = next {
            make(step, results)?;
            next = steps.next()?;
        }
        Ok(())
    }
}

/// The values that should be there.
struct Steps<'d> {
    of: &'d Densify,
    low: &'d Bson,
    high: &'d Bson,
    is_closed: bool,
    count: i64,
    last: Option<Bson>,
}

impl Steps<'_> {
    fn next(&mut self) -> Result<Option<Bson>> {
        let value = self.of.after(self.low, self.count)?;
        let order = compare::compare((&value).into(), self.high.into(), None);
        if order.is_gt() || (order.is_eq() && !self.is_closed) {
            return Ok(None);
        }
        let is_further = |last: &Bson| compare::compare(last.into(), (&value).into(), None).is_lt();
        if !self.last.as_ref().is_none_or(is_further) {
            return fail(5733401, "the step of $densify is too small to change the value that it is added to");
        }
        self.count += 1;
        self.last = Some(value.clone());
        Ok(Some(value))
    }
}

fn bounds(value: View<'_>, unit: Option<Unit>) -> Result<Bounds> {
    let array = match value {
        View::String("full") => return Ok(Bounds::Full),
        View::String("partition") => return Ok(Bounds::Partition),
        View::String(_) => return fail(5946802, "Bounds string must either be 'full' or 'partition'"),
        View::Array(array) => array,
        _ => {
            let text = "the bounds in a range statement must be the string 'full', 'partition', or an ascending array of \
                        two numbers or two dates";
            return fail(5733402, text);
        }
    };
    let (Some(low), Some(high), 2) = (array.get(0), array.get(1), array.len()) else {
        return fail(5733403, "a bounding array in a range statement must have exactly two elements");
    };
    let (is_number, is_date) = (
        [low, high].iter().filter(|bound| bound.number().is_some()).count(),
        [low, high].iter().filter(|bound| matches!(bound, View::DateTime(_))).count(),
    );
    match (is_number, is_date, unit) {
        (2, 0, Some(_)) => return fail(5733409, "numeric bounds may not have unit parameter"),
        (0, 2, None) => return fail(5733501, "a bounding array of dates must specify a unit"),
        (2, 0, None) | (0, 2, Some(_)) => {}
        (1, 1, _) => {
            return fail(5733406, "a bounding array must contain either both dates or both numeric types");
        }
        _ => {
            let text = "a bounding array must be an ascending array of either two dates or two numbers";
            return fail(5733402, text);
        }
    }
    if !compare::compare(low, high, None).is_le() {
        return fail(5733402, "the bounding array in a range statement must be in ascending order");
    }
    Ok(Bounds::Between(Box::new((low.to_bson()?, high.to_bson()?))))
}

impl Stage for Densify {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        deferred(move || self.compute(input, &run))
    }
}
