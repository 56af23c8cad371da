//! `$bucketAuto`.

use std::sync::Arc;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};

use super::bucket::{group_by, output_fields};
use super::group::Field;
use super::{Documents, Parsing, Run, Stage, check_memory, deferred, listed};
use crate::aggregate::accumulator::Accumulator;
use crate::aggregate::expression::{Expression, Frame};
use crate::error::{CommandError, Result, fail};
use crate::value::View;
use crate::value::key_string::encode;
use crate::value::view::to_raw;

/// A stage that spreads documents evenly over a number of buckets.
#[derive(Debug, Clone)]
pub(super) struct BucketAuto {
    key: Expression,
    buckets: usize,
    fields: Vec<Field>,
    granularity: Option<Granularity>,
}

/// A series of preferred numbers to which the limits of buckets are rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Granularity {
    /// The numbers of one decade; each further decade is ten times these.
    Series(&'static [f64]),
    PowersOfTwo,
}

/// The preferred-number series, by name. `R40`, `R80`, `E48`, `E96` and `E192` are refused.
const SERIES: &[(&str, &[f64])] = &[
    ("R5", &[10.0, 16.0, 25.0, 40.0, 63.0]),
    ("R10", &[100.0, 125.0, 160.0, 200.0, 250.0, 315.0, 400.0, 500.0, 630.0, 800.0]),
    (
        "R20",
        &[
            100.0, 112.0, 125.0, 140.0, 160.0, 180.0, 200.0, 224.0, 250.0, 280.0, 315.0, 355.0, 400.0, 450.0, 500.0,
            560.0, 630.0, 710.0, 800.0, 900.0,
        ],
    ),
    ("1-2-5", &[10.0, 20.0, 50.0]),
    ("E6", &[10.0, 15.0, 22.0, 33.0, 47.0, 68.0]),
    ("E12", &[10.0, 12.0, 15.0, 18.0, 22.0, 27.0, 33.0, 39.0, 47.0, 56.0, 68.0, 82.0]),
    (
        "E24",
        &[
            10.0, 11.0, 12.0, 13.0, 15.0, 16.0, 18.0, 20.0, 22.0, 24.0, 27.0, 30.0, 33.0, 36.0, 39.0, 43.0, 47.0, 51.0,
            56.0, 62.0, 68.0, 75.0, 82.0, 91.0,
        ],
    ),
];

impl Granularity {
    fn parse(name: &str) -> Result<Self> {
        if name == "POWERSOF2" {
            return Ok(Self::PowersOfTwo);
        }
        if matches!(name, "R40" | "R80" | "E48" | "E96" | "E192") {
            return fail(238, format!("this server does not know the granularity '{name}' of $bucketAuto"));
        }
        match SERIES.iter().find(|(known, _)| *known == name) {
            Some((_, series)) => Ok(Self::Series(series)),
            None => fail(40257, format!("Unknown rounding granularity '{name}'")),
        }
    }

    /// The smallest preferred number above `value`.
    fn up(self, value: f64) -> f64 {
        if value == 0.0 {
            return 0.0;
        }
        match self {
            Self::PowersOfTwo => value.log2().floor().exp2() * 2.0,
            Self::Series(series) => {
                let mut scale = 1.0;
                let (first, last) = (series[0], series[series.len() - 1]);
                while value >= last * scale {
                    scale *= 10.0;
                }
                while value < first * scale {
                    scale /= 10.0;
                }
                // the decade that holds the value; its end is the start of the next
                series
                    .iter()
                    .map(|number| number * scale)
                    .find(|number| *number > value)
                    .unwrap_or(first * scale * 10.0)
            }
        }
    }

    /// The largest preferred number below `value`.
    fn down(self, value: f64) -> f64 {
        if value == 0.0 {
            return 0.0;
        }
        match self {
            Self::PowersOfTwo => (value.log2().ceil() - 1.0).exp2(),
            Self::Series(series) => {
                let mut scale = 1.0;
                let first = series[0];
                while value > first * scale * 10.0 {
                    scale *= 10.0;
                }
                while value <= first * scale {
                    scale /= 10.0;
                }
                series.iter().rev().map(|number| number * scale).find(|number| *number < value).unwrap_or(first * scale)
            }
        }
    }
}

impl BucketAuto {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let View::Document(spec) = operand else {
            let kind = operand.type_name();
            return fail(40240, format!("The argument to $bucketAuto must be an object, but found type: {kind}."));
        };
        let (mut key, mut buckets, mut output, mut granularity) = (None, None, None, None);
        for (name, value) in spec.iter() {
            match name {
                "groupBy" => key = Some(group_by("$bucketAuto", 40239, value, parsing)?),
                "buckets" => {
                    let Some(number) = value.number() else {
                        let text = "The $bucketAuto 'buckets' field must be a numeric value, but found type";
                        return fail(40241, format!("{text}: {}.", value.type_name()));
                    };
                    let shown = crate::value::text::plain_number(number);
                    match number.as_exact_i32() {
                        Some(count) => match usize::try_from(count) {
                            Ok(count @ 1..) => buckets = Some(count),
                            _ => {
                                let text = "The $bucketAuto 'buckets' field must be greater than 0, but found";
                                return fail(40243, format!("{text}: {shown}."));
                            }
                        },
                        None => {
                            let text = "The $bucketAuto 'buckets' field must be representable as a 32-bit integer";
                            return fail(40242, format!("{text}, but found {shown}."));
                        }
                    }
                }
                "output" => output = Some(value),
                "granularity" => match value {
                    View::String(name) => granularity = Some(Granularity::parse(name)?),
                    other => {
                        let text = "The $bucketAuto 'granularity' field must be a string, but found type";
                        return fail(40261, format!("{text}: {}.", other.type_name()));
                    }
                },
                _ => return fail(40245, format!("Unrecognized option to $bucketAuto: {name}.")),
            }
        }
        let (Some(key), Some(buckets)) = (key, buckets) else {
            return fail(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified.");
        };
        let fields = output_fields("$bucketAuto", 40244, output, parsing)?;
        Ok(Self { key, buckets, fields, granularity })
    }

    fn bucket(&self, input: Documents, run: &Run) -> Result<Documents> {
        let collation = run.globals.collation.as_ref();
        let mut bytes = 0;
        let mut sorted: Vec<(Vec<u8>, Bson, RawDocumentBuf)> = Vec::new();
        for document in input {
            let document = document?;
            let mut frame = Frame::new((&document).into(), run.slots.clone(), &run.globals);
            let key = self.key.eval(&mut frame)?.unwrap_or(Bson::Null);
            if self.granularity.is_some() {
                check_rounded(&key)?;
            }
            bytes += document.as_bytes().len();
            check_memory(run, bytes, |limit| {
                let text = "Exceeded memory limit for $bucketAuto, but didn't allow external sort.";
                CommandError::new(16819, format!("{text} Pass allowDiskUse:true to opt in. Limit: {limit}"))
            })?;
            sorted.push((encode((&key).into(), collation), key, document));
        }
        sorted.sort_by(|left, right| left.0.cmp(&right.0));
        let mut results = Vec::new();
        let size = (sorted.len() as f64 / self.buckets as f64).round().max(1.0) as usize;
        let mut at = 0;
        let mut low: Option<Bson> = None;
        while at < sorted.len() && results.len() < self.buckets {
            let last = results.len() + 1 == self.buckets;
            let mut end = if last { sorted.len() } else { (at + size).min(sorted.len()) };
            // equal keys stay together, and a rounded limit takes all below it
            let mut high = sorted[end - 1].1.clone();
            if let Some(granularity) = self.granularity {
                high = Bson::Double(granularity.up(number(&high)));
                while end < sorted.len() && number(&sorted[end].1) < number(&high) {
                    end += 1;
                }
            } else {
                while end < sorted.len() && sorted[end].0 == sorted[end - 1].0 {
                    end += 1;
                }
                // the limit is the first key of the next bucket, or the last key
                high = sorted.get(end).map_or(sorted[sorted.len() - 1].1.clone(), |(_, key, _)| key.clone());
            }
            let first = match (&low, self.granularity) {
                (Some(low), Some(_)) => low.clone(),
                (None, Some(granularity)) => Bson::Double(granularity.down(number(&sorted[at].1))),
                (_, None) => sorted[at].1.clone(),
            };
            results.push(self.result(&sorted[at..end], first, high.clone(), run)?);
            low = Some(high);
            at = end;
        }
        Ok(listed(results))
    }

    fn result(
        &self,
        members: &[(Vec<u8>, Bson, RawDocumentBuf)],
        low: Bson,
        high: Bson,
        run: &Run,
    ) -> Result<RawDocumentBuf> {
        let mut result = Document::new();
        result.insert("_id", doc! { "min": low, "max": high });
        for field in &self.fields {
            let mut accumulator = Accumulator::new(field.kind(), run.globals.collation.clone());
            for (_, _, document) in members {
                let mut frame = Frame::new(document.into(), run.slots.clone(), &run.globals);
                accumulator.add(field.argument().eval(&mut frame)?)?;
            }
            result.insert(field.name(), accumulator.finish()?.unwrap_or(Bson::Null));
        }
        to_raw(&result)
    }
}

fn number(value: &Bson) -> f64 {
    View::from(value).number().map_or(0.0, |number| number.to_f64())
}

fn check_rounded(key: &Bson) -> Result<()> {
    let Some(number) = View::from(key).number() else {
        let kind = View::from(key).type_name();
        let text = "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a value with type";
        return fail(40258, format!("{text}: {kind}"));
    };
    if number.is_nan() {
        return fail(40259, "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a NaN");
    }
    if number.to_f64() < 0.0 {
        let text =
            "$bucketAuto can specify a 'granularity' with non-negative numbers only, but found a negative number";
        return fail(40260, text);
    }
    Ok(())
}

impl Stage for BucketAuto {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        deferred(move || self.bucket(input, &run))
    }

    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        Ok(Some(Arc::new(Self { key: self.key.clone().optimize()?, ..self.clone() })))
    }
}
