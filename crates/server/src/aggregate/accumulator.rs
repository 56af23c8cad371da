//! Accumulators: what `$group` and its relatives keep per group.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::{Bson, Document};

use super::choice::{Choice, Several};
use super::expression::Val;
use super::expression::lent::{nullish, type_name, view};
use crate::error::{Result, fail};
use crate::value::decimal::Dec;
use crate::value::key_string::encode;
use crate::value::number::{Number, Sum, Width};
use crate::value::{Collation, View, compare};

/// The accumulators.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    AddToSet,
    Avg,
    Count,
    First,
    Last,
    Max,
    MergeObjects,
    Min,
    Push,
    Several(Arc<Choice>),
    StdDevPop,
    StdDevSamp,
    Sum,
}

/// Names of the accumulators.
static NAMES: [(&str, Kind); 11] = [
    ("$addToSet", Kind::AddToSet),
    ("$avg", Kind::Avg),
    ("$first", Kind::First),
    ("$last", Kind::Last),
    ("$max", Kind::Max),
    ("$mergeObjects", Kind::MergeObjects),
    ("$min", Kind::Min),
    ("$push", Kind::Push),
    ("$stdDevPop", Kind::StdDevPop),
    ("$stdDevSamp", Kind::StdDevSamp),
    ("$sum", Kind::Sum),
];

/// The memory that one `$push` or `$addToSet` may take.
const MEMORY_LIMIT_BYTES: usize = 100 * 1024 * 1024;

impl Kind {
    /// The accumulator called `name`.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| kind.clone())
    }
}

/// The state of one accumulator.
#[derive(Debug, Clone)]
pub(crate) struct Accumulator {
    collation: Option<Collation>,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Set { seen: BTreeSet<Vec<u8>>, values: Vec<Bson>, bytes: usize },
    Avg { sum: Sum, count: i64 },
    Count(i64),
    First(Option<Val>),
    Last(Val),
    Extreme { largest: bool, value: Val },
    Merge(Document),
    Push { values: Vec<Bson>, bytes: usize },
    Several(Several),
    Deviation { sample: bool, count: f64, mean: f64, squares: f64 },
    Sum(Sum),
}

impl Accumulator {
    /// An empty accumulator.
    pub(crate) fn new(kind: Kind, collation: Option<Collation>) -> Self {
        let state = match kind {
            Kind::AddToSet => State::Set { seen: BTreeSet::new(), values: Vec::new(), bytes: 0 },
            Kind::Avg => State::Avg { sum: Sum::default(), count: 0 },
            Kind::Count => State::Count(0),
            Kind::First => State::First(None),
            Kind::Last => State::Last(None),
            Kind::Max => State::Extreme { largest: true, value: None },
            Kind::Min => State::Extreme { largest: false, value: None },
            Kind::MergeObjects => State::Merge(Document::new()),
            Kind::Push => State::Push { values: Vec::new(), bytes: 0 },
            Kind::Several(choice) => State::Several(Several::new(choice)),
            Kind::StdDevPop => State::Deviation { sample: false, count: 0.0, mean: 0.0, squares: 0.0 },
            Kind::StdDevSamp => State::Deviation { sample: true, count: 0.0, mean: 0.0, squares: 0.0 },
            Kind::Sum => State::Sum(Sum::default()),
        };
        Self { collation, state }
    }

    /// Whether a further value changes nothing.
    pub(crate) fn is_settled(&self) -> bool {
        match &self.state {
            State::First(first) => first.is_some(),
            State::Several(several) => several.is_settled(),
            _ => false,
        }
    }

    /// Adds a borrowed number without making a value of it; `false` when the accumulator wants a value.
    pub(crate) fn add_number(&mut self, value: Option<View<'_>>) -> bool {
        match &mut self.state {
            State::Sum(sum) => {
                if let Some(number) = value.and_then(View::number) {
                    sum.add(number);
                }
                true
            }
            State::Count(count) => {
                *count += 1;
                true
            }
            _ => false,
        }
    }

    /// Adds a value.
    ///
    /// # Errors
    /// 40400 for `$mergeObjects` of something else, `ExceededMemoryLimit` for a list that grows too large.
    pub(crate) fn add(&mut self, value: Val) -> Result<()> {
        match &mut self.state {
            State::Sum(sum) => {
                if let Some(number) = view(&value).and_then(View::number) {
                    sum.add(number);
                }
            }
            State::Avg { sum, count } => {
                if let Some(number) = view(&value).and_then(View::number) {
                    sum.add(number);
                    *count += 1;
                }
            }
            State::Count(count) => *count += 1,
            State::First(first) => {
                first.get_or_insert(value);
            }
            State::Last(last) => *last = value,
            State::Extreme { largest, value: best } => {
                if nullish(&value) {
                    return Ok(());
                }
                let better = match (view(&value), view(best)) {
                    (Some(new), Some(old)) => {
                        let order = compare(new, old, self.collation.as_ref());
                        if *largest { order.is_gt() } else { order.is_lt() }
                    }
                    _ => true,
                };
                if better {
                    *best = value;
                }
            }
            State::Merge(merged) => match value {
                Some(Bson::Document(document)) => merged.extend(document),
                value if nullish(&value) => {}
                other => {
                    let shown = super::expression::lent::shown(&other);
                    let text = "$mergeObjects requires object inputs, but input";
                    return fail(40400, format!("{text} {shown} is of type {}", type_name(&other)));
                }
            },
            State::Push { values, bytes } => {
                if let Some(value) = value {
                    grow("$push", bytes, &value)?;
                    values.push(value);
                }
            }
            State::Several(several) => several.add(value, self.collation.as_ref())?,
            State::Set { seen, values, bytes } => {
                if let Some(value) = value
                    && seen.insert(encode((&value).into(), self.collation.as_ref()))
                {
                    grow("$addToSet", bytes, &value)?;
                    values.push(value);
                }
            }
            State::Deviation { count, mean, squares, .. } => {
                if let Some(number) = view(&value).and_then(View::number) {
                    let number = number.to_f64();
                    *count += 1.0;
                    let delta = number - *mean;
                    if delta != 0.0 {
                        *mean += delta / *count;
                        *squares += delta * (number - *mean);
                    }
                }
            }
        }
        Ok(())
    }

    /// The result; `None` is missing.
    pub(crate) fn finish(self) -> Result<Val> {
        Ok(match self.state {
            State::Sum(sum) => Some(sum.total()),
            State::Count(count) => Some(crate::value::number::int_or_long(count)),
            State::Avg { count: 0, .. } => Some(Bson::Null),
            State::Avg { sum, count } => Some(match sum.width() {
                Width::Decimal => Number::Decimal(sum.to_decimal().divide(Dec::from(count))).into(),
                _ => Bson::Double(sum.to_f64() / count as f64),
            }),
            State::First(first) => first.flatten(),
            State::Last(last) => last,
            State::Extreme { value, .. } => Some(value.unwrap_or(Bson::Null)),
            State::Merge(merged) => Some(Bson::Document(merged)),
            State::Push { values, .. } | State::Set { values, .. } => Some(Bson::Array(values)),
            State::Several(several) => Some(several.finish()),
            State::Deviation { sample, count, squares, .. } => {
                let divisor = if sample { count - 1.0 } else { count };
                Some(if divisor <= 0.0 { Bson::Null } else { Bson::Double((squares / divisor).sqrt()) })
            }
        })
    }
}

pub(super) fn grow(name: &str, bytes: &mut usize, value: &Bson) -> Result<()> {
    *bytes += approximate_bytes(value);
    if *bytes > MEMORY_LIMIT_BYTES {
        let text = format!("{name} used too much memory and cannot spill to disk. Memory limit");
        return fail(146, format!("{text}: {MEMORY_LIMIT_BYTES} bytes"));
    }
    Ok(())
}

/// The memory that a value takes, roughly.
pub(crate) fn approximate_bytes(value: &Bson) -> usize {
    std::mem::size_of::<Bson>()
        + match value {
            Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => text.len(),
            Bson::Array(values) => values.iter().map(approximate_bytes).sum(),
            Bson::Document(document) => {
                document.iter().map(|(name, value)| name.len() + 16 + approximate_bytes(value)).sum()
            }
            Bson::Binary(binary) => binary.bytes.len(),
            _ => 0,
        }
}
