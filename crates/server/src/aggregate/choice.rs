//! Accumulators that choose: `$firstN`, `$lastN`, `$maxN`, `$minN`, `$top`, `$topN`, `$bottom`, `$bottomN` (5.2).

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{Bson, bson};

use super::accumulator::grow;
use super::expression::lent::{nullish, type_name};
use super::expression::{Expression, Scope, Val};
use crate::error::{Result, fail};
use crate::query::Sort;
use crate::value::key_string::encode;
use crate::value::number::Number;
use crate::value::{Collation, View};

/// Which values are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    First,
    Last,
    Largest,
    Smallest,
    Top,
    Bottom,
}

/// The accumulators of this family: name, which, and whether the result is one value instead of a list.
const NAMES: [(&str, Which, bool); 8] = [
    ("$bottom", Which::Bottom, true),
    ("$bottomN", Which::Bottom, false),
    ("$firstN", Which::First, false),
    ("$lastN", Which::Last, false),
    ("$maxN", Which::Largest, false),
    ("$minN", Which::Smallest, false),
    ("$top", Which::Top, true),
    ("$topN", Which::Top, false),
];

/// What an accumulator of this family is to choose.
#[derive(Debug)]
pub(crate) struct Choice {
    name: &'static str,
    which: Which,
    single: bool,
    count: usize,
    sort: Option<Sort>,
}

/// Parses `name: operand`; `None` when it is no accumulator of this family. The expression gives what is to be added: the
/// value, or for those with an order the value and the document that is ordered by.
pub(crate) fn parse(
    name: &str,
    operand: View<'_>,
    scope: &Scope,
    collation: Option<&Collation>,
) -> Result<Option<(Choice, Expression)>> {
    let Some((name, which, single)) = NAMES.into_iter().find(|(known, ..)| *known == name && scope.has(known)) else {
        return Ok(None);
    };
    let ordered = matches!(which, Which::Top | Which::Bottom);
    let code = |ordered_code: i32, plain: i32| if ordered { ordered_code } else { plain };
    let View::Document(document) = operand else {
        return fail(
            code(5788001, 5787900),
            format!("specification must be an object; found {name}: {}", operand.type_name()),
        );
    };
    let (mut count, mut value, mut sort) = (None, None, None);
    for (field, operand) in document.iter() {
        match field {
            "n" if !single => count = Some(number(&Expression::parse(operand, scope)?.optimize()?)?),
            "input" if !ordered => value = Some(operand.to_bson()?),
            "output" if ordered => value = Some(operand.to_bson()?),
            "sortBy" if ordered => match operand {
                View::Document(pattern) => sort = Some(Sort::parse_view(pattern, collation.cloned())?),
                _ => return fail(10065, "invalid parameter: expected an object (sortBy)"),
            },
            _ => return fail(code(5788002, 5787901), format!("Unknown argument to {name} '{field}'")),
        }
    }
    let Some(count) = count.or(single.then_some(1)) else {
        return fail(code(5788003, 5787906), "Missing value for 'n'");
    };
    let Some(value) = value else {
        let missing = if ordered { "Missing value for 'output'" } else { "Missing value for 'input'" };
        return fail(code(5788004, 5787907), missing);
    };
    if ordered && sort.is_none() {
        return fail(5788005, "Missing value for 'sortBy'");
    }
    let added = if ordered { bson!([value, "$$ROOT"]) } else { value };
    let argument = Expression::parse((&added).into(), scope)?;
    Ok(Some((Choice { name, which, single, count, sort }, argument)))
}

/// A number of values: a positive constant.
fn number(expression: &Expression) -> Result<usize> {
    let value = match expression.as_constant() {
        Some(Some(value)) => value,
        _ => return fail(5787902, "Value for 'n' must be a constant"),
    };
    let number = match View::from(value).number() {
        Some(number @ (Number::Int(_) | Number::Long(_))) => number.to_i64_saturating(),
        Some(number) if number.to_f64().fract() == 0.0 => number.to_i64_saturating(),
        _ => {
            let found = type_name(&Some(value.clone()));
            return fail(5787902, format!("Value for 'n' must be of integral type, but found {found}"));
        }
    };
    match usize::try_from(number) {
        Ok(number @ 1..) => Ok(number),
        _ => fail(5787908, format!("'n' must be greater than 0, found {number}")),
    }
}

/// What was chosen so far.
#[derive(Debug, Clone)]
pub(super) struct Several {
    choice: Arc<Choice>,
    /// In the order of their keys, those with equal keys in the order in which they came.
    kept: VecDeque<(Vec<u8>, Bson)>,
    bytes: usize,
}

impl Several {
    pub(super) fn new(choice: Arc<Choice>) -> Self {
        Self { choice, kept: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.choice.which == Which::First && self.kept.len() >= self.choice.count
    }

    /// Adds a value.
    ///
    /// # Errors
    /// 146 when those that are kept take too much memory.
    pub(super) fn add(&mut self, value: Val, collation: Option<&Collation>) -> Result<()> {
        let (key, value) = match self.choice.which {
            Which::First | Which::Last => (Vec::new(), value.unwrap_or(Bson::Null)),
            Which::Largest | Which::Smallest if nullish(&value) => return Ok(()),
            Which::Largest | Which::Smallest => {
                let value = value.unwrap_or(Bson::Null);
                (encode((&value).into(), collation), value)
            }
            Which::Top | Which::Bottom => match (value, &self.choice.sort) {
                (Some(Bson::Array(mut pair)), Some(sort)) if pair.len() == 2 => {
                    let document = pair.pop().unwrap_or(Bson::Null);
                    let key = document.as_document().map_or(Ok(Vec::new()), |document| sort.key_of(document.into()))?;
                    (key, pair.pop().unwrap_or(Bson::Null))
                }
                _ => return Ok(()),
            },
        };
        grow(self.choice.name, &mut self.bytes, &value)?;
        let place = self.kept.partition_point(|(kept, _)| *kept <= key);
        self.kept.insert(place, (key, value));
        if self.kept.len() > self.choice.count {
            let dropped = match self.choice.which {
                Which::First | Which::Smallest | Which::Top => self.kept.pop_back(),
                Which::Last | Which::Largest | Which::Bottom => self.kept.pop_front(),
            };
            let freed = dropped.map_or(0, |(_, value)| super::accumulator::approximate_bytes(&value));
            self.bytes = self.bytes.saturating_sub(freed);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Bson {
        let mut values: Vec<Bson> = self.kept.into_iter().map(|(_, value)| value).collect();
        if self.choice.which == Which::Largest {
            values.reverse();
        }
        if self.choice.single { values.pop().unwrap_or(Bson::Null) } else { Bson::Array(values) }
    }
}
