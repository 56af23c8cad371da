//! `$allElementsTrue`, `$anyElementTrue`, `$setDifference`, `$setEquals`, `$setIntersection`, `$setIsSubset`,
//! `$setUnion`.
//!
//! Equality is that of the order of values, so the order-preserving bytes of a value are its identity in a set.

use std::collections::{BTreeMap, BTreeSet};

use bson::Bson;

use super::Expression;
use super::lent::{Val, nullish, type_name, view};
use super::table::{ANY, Call, Operator, eager, lazy};
use super::variables::Frame;
use crate::error::{Result, fail};
use crate::value::key_string::encode;
use crate::value::{Collation, View};

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    eager("$allElementsTrue", 1, 1, |_, values| elements(values, true)),
    eager("$anyElementTrue", 1, 1, |_, values| elements(values, false)),
    eager("$setDifference", 2, 2, difference),
    lazy("$setEquals", 0, ANY, equals),
    eager("$setIntersection", 0, ANY, intersection),
    eager("$setIsSubset", 2, 2, is_subset),
    eager("$setUnion", 0, ANY, union),
];

fn elements(values: Vec<Val>, all: bool) -> Result<Val> {
    let (code, name) = if all { (17040, "$allElementsTrue") } else { (17041, "$anyElementTrue") };
    let Some(Some(Bson::Array(array))) = values.first() else {
        let found = values.first().map_or("missing", type_name);
        return fail(code, format!("{name}'s argument must be an array, but is {found}"));
    };
    let mut truths = array.iter().map(|value| View::from(value).is_true());
    Ok(Some(Bson::Boolean(if all { truths.all(|truth| truth) } else { truths.any(|truth| truth) })))
}

fn keys(array: &[Bson], collation: Option<&Collation>) -> BTreeSet<Vec<u8>> {
    array.iter().map(|value| encode(value.into(), collation)).collect()
}

fn difference(call: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let mut values = values.into_iter();
    let (left, right) = (values.next().flatten(), values.next().flatten());
    if nullish(&left) || nullish(&right) {
        return Ok(Some(Bson::Null));
    }
    let text = "both operands of $setDifference must be arrays.";
    let Some(Bson::Array(left)) = left else {
        return fail(17048, format!("{text} First argument is of type: {}", type_name(&left)));
    };
    let Some(Bson::Array(right)) = right else {
        return fail(17049, format!("{text} Second argument is of type: {}", type_name(&right)));
    };
    let collation = call.globals.collation.as_ref();
    let mut seen = keys(&right, collation);
    let rest = left.into_iter().filter(|value| seen.insert(encode(value.into(), collation))).collect();
    Ok(Some(Bson::Array(rest)))
}

fn is_subset(call: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let text = "both operands of $setIsSubset must be arrays.";
    let array = |at: usize, code: i32, which: &str| match values.get(at) {
        Some(Some(Bson::Array(array))) => Ok(keys(array, call.globals.collation.as_ref())),
        other => {
            let found = other.map_or("missing", type_name);
            fail(code, format!("{text} {which} argument is of type: {found}"))
        }
    };
    let left = array(0, 17046, "First")?;
    let right = array(1, 17042, "Second")?;
    Ok(Some(Bson::Boolean(left.is_subset(&right))))
}

fn equals(arguments: &[Expression], frame: &mut Frame<'_>) -> Result<Val> {
    if arguments.len() < 2 {
        return fail(17045, format!("$setEquals needs at least two arguments had: {}", arguments.len()));
    }
    let mut first: Option<BTreeSet<Vec<u8>>> = None;
    for argument in arguments {
        let value = argument.eval(frame)?;
        let Some(Bson::Array(array)) = &value else {
            let text = "All operands of $setEquals must be arrays. One argument is of type";
            return fail(17044, format!("{text}: {}", type_name(&value)));
        };
        let set = keys(array, frame.collation());
        match &first {
            None => first = Some(set),
            Some(first) if *first != set => return Ok(Some(Bson::Boolean(false))),
            Some(_) => {}
        }
    }
    Ok(Some(Bson::Boolean(true)))
}

fn array_of(value: Val, name: &str, code: i32) -> Result<Option<Vec<Bson>>> {
    match value {
        Some(Bson::Array(array)) => Ok(Some(array)),
        value if nullish(&value) => Ok(None),
        other => {
            let found = view(&other).map_or("missing", View::type_name);
            fail(code, format!("All operands of {name} must be arrays. One argument is of type: {found}"))
        }
    }
}

fn intersection(call: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let collation = call.globals.collation.as_ref();
    let mut result: Option<BTreeMap<Vec<u8>, Bson>> = None;
    for value in values {
        let Some(array) = array_of(value, call.name, 17047)? else { return Ok(Some(Bson::Null)) };
        let here = array.into_iter().map(|value| (encode((&value).into(), collation), value));
        match &mut result {
            None => {
                let mut first = BTreeMap::new();
                here.for_each(|(key, value)| {
                    first.entry(key).or_insert(value);
                });
                result = Some(first);
            }
            Some(result) => {
                let here: BTreeSet<_> = here.map(|(key, _)| key).collect();
                result.retain(|key, _| here.contains(key));
            }
        }
    }
    Ok(Some(Bson::Array(result.unwrap_or_default().into_values().collect())))
}

fn union(call: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let collation = call.globals.collation.as_ref();
    let mut result = BTreeMap::new();
    for value in values {
        let Some(array) = array_of(value, call.name, 17043)? else { return Ok(Some(Bson::Null)) };
        for value in array {
            result.entry(encode((&value).into(), collation)).or_insert(value);
        }
    }
    Ok(Some(Bson::Array(result.into_values().collect())))
}
