//! `$arrayElemAt`, `$arrayToObject`, `$concatArrays`, `$first`, `$last`, `$in`, `$indexOfArray`, `$isArray`, `$range`,
//! `$reverseArray`, `$size`, `$slice`, `$zip`, and of later releases `$firstN`, `$lastN`, `$minN`, `$maxN`, `$sortArray`.

use bson::{Bson, Document};

use super::arithmetic::number;
use super::comparison::compare_optional;
use super::lent::{Val, nullish, shown, type_name, view};
use super::table::{ANY, Call, Operator, Parameters, custom, eager, lazy, named, optional};
use super::variables::{Frame, Scope};
use super::{Expression, Node};
use crate::error::{Result, fail};
use crate::query::Sort;
use crate::value::number::Number;
use crate::value::{DocView, View, compare, text};

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    eager("$arrayElemAt", 2, 2, element_at),
    eager("$arrayToObject", 1, 1, to_object),
    eager("$concatArrays", 0, ANY, concat),
    eager("$first", 1, 1, |call, values| end(call, values, 0)),
    eager("$last", 1, 1, |call, values| end(call, values, -1)),
    eager("$in", 2, 2, contains),
    lazy("$indexOfArray", 2, 4, index_of),
    eager("$isArray", 1, 1, |_, values| Ok(Some(Bson::Boolean(matches!(values.first(), Some(Some(Bson::Array(_)))))))),
    eager("$range", 2, 3, range),
    eager("$reverseArray", 1, 1, reverse),
    eager("$size", 1, 1, size),
    eager("$slice", 2, 3, slice),
    custom("$zip", parse_zip),
    named("$firstN", &FIRST_N, |name, arguments, frame| several(name, arguments, frame, Pick::First)),
    named("$lastN", &FIRST_N, |name, arguments, frame| several(name, arguments, frame, Pick::Last)),
    named("$minN", &FIRST_N, |name, arguments, frame| several(name, arguments, frame, Pick::Smallest)),
    named("$maxN", &FIRST_N, |name, arguments, frame| several(name, arguments, frame, Pick::Largest)),
    named("$sortArray", &SORT_ARRAY, sort_array),
];

fn null() -> Result<Val> {
    Ok(Some(Bson::Null))
}

fn element_at(call: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let mut values = values.into_iter();
    let (array, index) = (values.next().flatten(), values.next().flatten());
    if nullish(&array) || nullish(&index) {
        return null();
    }
    let name = call.name;
    let Some(Bson::Array(array)) = array else {
        return fail(28689, format!("{name}'s first argument must be an array, but is {}", type_name(&array)));
    };
    let Some(at) = number(&index) else {
        return fail(28690, format!("{name}'s second argument must be a numeric value, but is {}", type_name(&index)));
    };
    let Some(at) = at.as_exact_i32() else {
        let text = "second argument must be representable as a 32-bit integer";
        return fail(28691, format!("{name}'s {text}: {}", shown(&index)));
    };
    Ok(at_position(array, at.into()))
}

fn at_position(mut array: Vec<Bson>, at: i64) -> Val {
    let at = if at < 0 { at + array.len() as i64 } else { at };
    let at = usize::try_from(at).ok().filter(|at| *at < array.len())?;
    Some(array.swap_remove(at))
}

fn end(call: Call<'_>, values: Vec<Val>, at: i64) -> Result<Val> {
    match values.into_iter().next().flatten() {
        Some(Bson::Array(array)) => Ok(at_position(array, at)),
        value if nullish(&value) => null(),
        other => fail(28689, format!("{}'s argument must be an array, but is {}", call.name, type_name(&other))),
    }
}

fn to_object(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let value = values.into_iter().next().flatten();
    if nullish(&value) {
        return null();
    }
    let Some(Bson::Array(array)) = value else {
        return fail(40386, format!("$arrayToObject requires an array input, found: {}", type_name(&value)));
    };
    let arrays = matches!(array.first(), Some(Bson::Array(_)));
    let mut document = Document::new();
    for element in array {
        let kind = View::from(&element).type_name();
        let (key, value) = match element {
            Bson::Array(pair) if arrays => key_value_array(pair)?,
            Bson::Document(pair) if !arrays => key_value_document(&pair)?,
            _ if !arrays && document.is_empty() => {
                return fail(40398, format!("Unrecognised input type format for $arrayToObject: {kind}"));
            }
            _ => {
                let (code, met) = if arrays { (40391, "Array") } else { (40396, "Object") };
                let text =
                    "$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects.";
                return fail(code, format!("{text} {met} was detected, now found: {kind}"));
            }
        };
        if key.contains('\0') {
            return fail(4940400, "Key field cannot contain an embedded null byte");
        }
        document.insert(key, value);
    }
    Ok(Some(Bson::Document(document)))
}

fn key_value_array(pair: Vec<Bson>) -> Result<(String, Bson)> {
    let count = pair.len();
    let Ok([key, value]) = <[Bson; 2]>::try_from(pair) else {
        let text = "$arrayToObject requires an array of size 2 arrays,found array of size";
        return fail(40397, format!("{text}: {count}"));
    };
    match key {
        Bson::String(key) => Ok((key, value)),
        other => {
            let text = "$arrayToObject requires an array of key-value pairs, where the key must be of type string.";
            fail(40395, format!("{text} Found key type: {}", View::from(&other).type_name()))
        }
    }
}

fn key_value_document(pair: &Document) -> Result<(String, Bson)> {
    if pair.len() != 2 {
        let text = "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys";
        return fail(40392, format!("{text}:{}", pair.len()));
    }
    let (Some(key), Some(value)) = (pair.get("k"), pair.get("v")) else {
        let text = "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys from";
        return fail(40393, format!("{text}: {}", text::value_document(pair)));
    };
    match key {
        Bson::String(key) => Ok((key.clone(), value.clone())),
        other => {
            let text = "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must be of type string.";
            fail(40394, format!("{text} Found type: {}", View::from(other).type_name()))
        }
    }
}

fn concat(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let mut all = Vec::new();
    for value in values {
        match value {
            Some(Bson::Array(array)) => all.extend(array),
            value if nullish(&value) => return null(),
            other => return fail(28664, format!("$concatArrays only supports arrays, not {}", type_name(&other))),
        }
    }
    Ok(Some(Bson::Array(all)))
}

fn contains(call: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let mut values = values.into_iter();
    let (value, array) = (values.next().flatten(), values.next().flatten());
    let Some(Bson::Array(array)) = array else {
        return fail(40081, format!("$in requires an array as a second argument, found: {}", type_name(&array)));
    };
    let collation = call.globals.collation.as_ref();
    let found = array.iter().any(|each| compare_optional(Some(each.into()), view(&value), collation).is_eq());
    Ok(Some(Bson::Boolean(found)))
}

/// A starting or ending position of the `$indexOf` family.
///
/// # Errors
/// 40096 or 40097.
pub(crate) fn position(name: &str, which: &str, value: &Val) -> Result<usize> {
    let whole = number(value).and_then(Number::as_exact_i32);
    let Some(at) = whole else {
        let text = format!("{name} requires an integral {which} index, found a value of type: {}", type_name(value));
        return fail(40096, format!("{text}, with value: {}", shown(value)));
    };
    usize::try_from(at).or_else(|_| fail(40097, format!("{name} requires a nonnegative {which} index, found: {at}")))
}

fn index_of(arguments: &[Expression], frame: &mut Frame<'_>) -> Result<Val> {
    let [array, wanted, limits @ ..] = arguments else { return Ok(None) };
    let array = array.eval(frame)?;
    if nullish(&array) {
        return null();
    }
    let Some(Bson::Array(array)) = array else {
        let text = "$indexOfArray requires an array as a first argument, found";
        return fail(40090, format!("{text}: {}", type_name(&array)));
    };
    let wanted = wanted.eval(frame)?;
    let mut ends = [0, array.len()];
    for ((end, limit), which) in ends.iter_mut().zip(limits).zip(["starting", "ending"]) {
        *end = position("$indexOfArray", which, &limit.eval(frame)?)?;
    }
    let collation = frame.collation();
    let found = array
        .iter()
        .enumerate()
        .take(ends[1])
        .skip(ends[0])
        .find(|(_, each)| compare_optional(Some((*each).into()), view(&wanted), collation).is_eq());
    Ok(Some(Bson::Int32(found.map_or(-1, |(at, _)| at as i32))))
}

/// The longest array that `$range` makes.
const MAX_RANGE: i64 = 4_000_000;

fn range(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let limit = |at: usize, what: &str, codes: (i32, i32), colon: &str| -> Result<i64> {
        let value = values.get(at).cloned().flatten();
        let Some(number) = number(&value) else {
            let text = format!("$range requires a numeric {what} value, found value of type:{colon}");
            return fail(codes.0, format!("{text}{}", type_name(&value)));
        };
        match number.as_exact_i32() {
            Some(whole) => Ok(whole.into()),
            None => {
                let text = format!("$range requires a {what} value that can be represented as a 32-bit integer");
                fail(codes.1, format!("{text}, found value: {}", shown(&value)))
            }
        }
    };
    let start = limit(0, "starting", (34443, 34444), " ")?;
    let end = limit(1, "ending", (34445, 34446), " ")?;
    let step = if values.len() > 2 { limit(2, "step", (34447, 34448), "")? } else { 1 };
    if step == 0 {
        return fail(34449, "$range requires a non-zero step value");
    }
    if (end - start) / step > MAX_RANGE {
        return fail(146, "$range would use too much memory and cannot spill");
    }
    let mut numbers = Vec::new();
    let mut at = start;
    while (step > 0 && at < end) || (step < 0 && at > end) {
        numbers.push(Bson::Int32(at as i32));
        at += step;
    }
    Ok(Some(Bson::Array(numbers)))
}

fn reverse(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    match values.into_iter().next().flatten() {
        Some(Bson::Array(mut array)) => {
            array.reverse();
            Ok(Some(Bson::Array(array)))
        }
        value if nullish(&value) => null(),
        other => {
            let text = "The argument to $reverseArray must be an array, but was of type";
            fail(34435, format!("{text}: {}", type_name(&other)))
        }
    }
}

fn size(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    match values.into_iter().next().flatten() {
        Some(Bson::Array(array)) => Ok(Some(Bson::Int32(array.len() as i32))),
        other => fail(17124, format!("The argument to $size must be an array, but was of type: {}", type_name(&other))),
    }
}

fn slice(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let three = values.len() == 3;
    let mut values = values.into_iter();
    let (array, second, third) = (values.next().flatten(), values.next().flatten(), values.next().flatten());
    if nullish(&array) || nullish(&second) {
        return null();
    }
    let Some(Bson::Array(mut array)) = array else {
        let text = "First argument to $slice must be an array, but is of type";
        return fail(28724, format!("{text}: {}", type_name(&array)));
    };
    let whole = |value: &Val, which: &str, codes: (i32, i32)| -> Result<i64> {
        let Some(number) = number(value) else {
            let text = format!("{which} argument to $slice must be a numeric value, but is of type");
            return fail(codes.0, format!("{text}: {}", type_name(value)));
        };
        match number.as_exact_i32() {
            Some(whole) => Ok(whole.into()),
            None => {
                let text = format!("{which} argument to $slice can't be represented as a 32-bit integer");
                fail(codes.1, format!("{text}: {}", shown(value)))
            }
        }
    };
    let second_number = whole(&second, "Second", (28725, 28726))?;
    let length = array.len() as i64;
    let from_end = |at: i64| if at < 0 { (length + at).max(0) } else { at.min(length) };
    let (start, end) = if three {
        if nullish(&third) {
            return null();
        }
        let count = whole(&third, "Third", (28727, 28728))?;
        if count <= 0 {
            return fail(28729, format!("Third argument to $slice must be positive: {}", shown(&third)));
        }
        let start = from_end(second_number);
        (start, (start + count).min(length))
    } else if second_number < 0 {
        (from_end(second_number), length)
    } else {
        (0, second_number.min(length))
    };
    array.truncate(end as usize);
    Ok(Some(Bson::Array(array.split_off(start as usize))))
}

fn parse_zip(operand: View<'_>, scope: &Scope) -> Result<Expression> {
    static ZIP: Operator = lazy("$zip", 1, ANY, zip);
    let View::Document(document) = operand else {
        return fail(34460, format!("$zip only supports an object as an argument, found {}", operand.type_name()));
    };
    let list = |name: &str, value: View<'_>, code: i32| match value {
        View::Array(array) => array.iter().map(|each| Expression::operand(each, scope)).collect::<Result<Vec<_>>>(),
        other => fail(code, format!("{name} must be an array of expressions, found {}", other.type_name())),
    };
    let mut inputs = Vec::new();
    let mut defaults = Vec::new();
    let mut longest = false;
    for (name, value) in document.iter() {
        match name {
            "inputs" => inputs = list(name, value, 34461)?,
            "defaults" => defaults = list(name, value, 34462)?,
            "useLongestLength" => match value {
                View::Bool(value) => longest = value,
                other => return fail(34463, format!("useLongestLength must be a bool, found {}", other.type_name())),
            },
            other => return fail(34464, format!("$zip found an unknown argument: {other}")),
        }
    }
    if inputs.is_empty() {
        return fail(34465, "$zip requires at least one input array");
    }
    if !longest && !defaults.is_empty() {
        return fail(34466, "cannot specify defaults unless useLongestLength is true");
    }
    if !defaults.is_empty() && defaults.len() != inputs.len() {
        return fail(34467, "defaults and inputs must have the same length");
    }
    let flags = Expression::constant(Some(Bson::Array(vec![Bson::Boolean(longest), Bson::Int32(inputs.len() as i32)])));
    let arguments = std::iter::once(flags).chain(inputs).chain(defaults).collect();
    Ok(Node::Call { operator: &ZIP, arguments }.into())
}

/// The first argument tells whether the longest input counts, and how many of the others are inputs.
fn zip(arguments: &[Expression], frame: &mut Frame<'_>) -> Result<Val> {
    let [flags, rest @ ..] = arguments else { return Ok(None) };
    let Some(Some(Bson::Array(flags))) = flags.as_constant() else { return Ok(None) };
    let (Some(Bson::Boolean(longest)), Some(Bson::Int32(count))) = (flags.first(), flags.get(1)) else {
        return Ok(None);
    };
    let (inputs, defaults) = rest.split_at((*count as usize).min(rest.len()));
    let mut columns = Vec::with_capacity(inputs.len());
    for input in inputs {
        match input.eval(frame)? {
            Some(Bson::Array(array)) => columns.push(array),
            value if nullish(&value) => return null(),
            other => return fail(34468, format!("$zip found a non-array expression in input: {}", shown(&other))),
        }
    }
    let lengths = columns.iter().map(Vec::len);
    let rows = if *longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
    let defaults =
        defaults.iter().map(|each| Ok(each.eval(frame)?.unwrap_or(Bson::Null))).collect::<Result<Vec<_>>>()?;
    let cell = |at: usize, row: usize| {
        columns[at].get(row).cloned().unwrap_or_else(|| defaults.get(at).cloned().unwrap_or(Bson::Null))
    };
    let row = |row: usize| Bson::Array((0..columns.len()).map(|at| cell(at, row)).collect());
    Ok(Some(Bson::Array((0..rows).map(row).collect())))
}

static FIRST_N: Parameters = Parameters {
    names: &["n", "input"],
    required: &[("n", 5787906, "Missing value for 'n'"), ("input", 5787907, "Missing value for 'input'")],
    not_object: (5787900, "specification must be an object; found {}"),
    unknown: (5787901, "Unknown argument for 'n' operator: {}"),
};

#[derive(Clone, Copy)]
enum Pick {
    First,
    Last,
    Smallest,
    Largest,
}

fn several(name: &str, arguments: &[Option<Expression>], frame: &mut Frame<'_>, pick: Pick) -> Result<Val> {
    let count = optional(arguments.first(), frame)?;
    let Some(count) = number(&count).and_then(Number::as_exact_i64).filter(|count| *count > 0) else {
        return fail(5787908, format!("'n' must be greater than 0, found {}", shown(&count)));
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let Some(Bson::Array(mut array)) = optional(arguments.get(1), frame)? else {
        return fail(5788200, format!("{name} requires 'input' to be an array"));
    };
    let collation = frame.collation();
    match pick {
        Pick::First => {}
        Pick::Last => {
            let spare = array.len().saturating_sub(count);
            array.drain(..spare);
        }
        Pick::Smallest | Pick::Largest => {
            array.retain(|value| !matches!(value, Bson::Null | Bson::Undefined));
            array.sort_by(|left, right| compare(left.into(), right.into(), collation));
            if matches!(pick, Pick::Largest) {
                array.reverse();
            }
        }
    }
    array.truncate(count);
    Ok(Some(Bson::Array(array)))
}

static SORT_ARRAY: Parameters = Parameters {
    names: &["input", "sortBy"],
    required: &[
        ("input", 2942502, "$sortArray requires 'input' to be specified"),
        ("sortBy", 2942503, "$sortArray requires 'sortBy' to be specified"),
    ],
    not_object: (2942500, "$sortArray requires an object as an argument, found: {}"),
    unknown: (2942501, "$sortArray found an unknown argument: {}"),
};

fn sort_array(_: &'static str, arguments: &[Option<Expression>], frame: &mut Frame<'_>) -> Result<Val> {
    let input = optional(arguments.first(), frame)?;
    if nullish(&input) {
        return null();
    }
    let Some(Bson::Array(mut array)) = input else {
        let text = "The input argument to $sortArray must be an array, but was of type";
        return fail(2942504, format!("{text}: {}", type_name(&input)));
    };
    let by = optional(arguments.get(1), frame)?;
    let collation = frame.collation();
    if let Some(Bson::Document(pattern)) = &by {
        let sort = Sort::parse_view(pattern.into(), collation.cloned())?;
        let empty = Document::new();
        let mut keyed = Vec::with_capacity(array.len());
        for value in array {
            let document = match &value {
                Bson::Document(document) => DocView::from(document),
                _ => DocView::from(&empty),
            };
            keyed.push((sort.key_of(document)?, value));
        }
        keyed.sort_by(|left, right| left.0.cmp(&right.0));
        return Ok(Some(Bson::Array(keyed.into_iter().map(|(_, value)| value).collect())));
    }
    match number(&by).and_then(Number::as_exact_i64) {
        Some(1) => array.sort_by(|left, right| compare(left.into(), right.into(), collation)),
        Some(-1) => array.sort_by(|left, right| compare(right.into(), left.into(), collation)),
        _ => return fail(2942505, "The $sort element value must be either 1 or -1"),
    }
    Ok(Some(Bson::Array(array)))
}
