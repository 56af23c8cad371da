//! `$concat`, `$indexOfBytes`, `$indexOfCP`, `$split`, `$strLenBytes`, `$strLenCP`, `$strcasecmp`, `$substr`,
//! `$substrBytes`, `$substrCP`, `$toLower`, `$toUpper`, `$trim`, `$ltrim`, `$rtrim`, `$replaceOne`, `$replaceAll`.

use bson::Bson;

use super::Expression;
use super::arithmetic::number;
use super::array::position;
use super::convert::to_text;
use super::lent::{Val, nullish, shown, type_name};
use super::table::{ANY, Call, Operator, Parameters, eager, lazy, named, optional};
use super::variables::Frame;
use crate::error::{Result, fail};
use crate::value::number::Number;

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    eager("$concat", 0, ANY, concat),
    lazy("$indexOfBytes", 2, 4, |arguments, frame| index_of(arguments, frame, &BYTES)),
    lazy("$indexOfCP", 2, 4, |arguments, frame| index_of(arguments, frame, &CODE_POINTS)),
    named("$ltrim", &LTRIM, |name, arguments, frame| trim(name, arguments, frame, true, false)),
    named("$replaceAll", &REPLACE_ALL, |name, arguments, frame| replace(name, arguments, frame, usize::MAX)),
    named("$replaceOne", &REPLACE_ONE, |name, arguments, frame| replace(name, arguments, frame, 1)),
    named("$rtrim", &RTRIM, |name, arguments, frame| trim(name, arguments, frame, false, true)),
    eager("$split", 2, 2, split),
    eager("$strLenBytes", 1, 1, |_, values| length(values, "$strLenBytes", 34473, str::len)),
    eager("$strLenCP", 1, 1, |_, values| length(values, "$strLenCP", 34471, |text| text.chars().count())),
    eager("$strcasecmp", 2, 2, compare_ignoring_case),
    eager("$substr", 3, 3, substring_bytes),
    eager("$substrBytes", 3, 3, substring_bytes),
    eager("$substrCP", 3, 3, substring_code_points),
    eager("$toLower", 1, 1, |_, values| case(values, str::make_ascii_lowercase)),
    eager("$toUpper", 1, 1, |_, values| case(values, str::make_ascii_uppercase)),
    named("$trim", &TRIM, |name, arguments, frame| trim(name, arguments, frame, true, true)),
];

fn text(value: impl Into<String>) -> Result<Val> {
    Ok(Some(Bson::String(value.into())))
}

fn concat(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let mut all = String::new();
    for value in values {
        match value {
            Some(Bson::String(part)) => all.push_str(&part),
            value if nullish(&value) => return Ok(Some(Bson::Null)),
            other => return fail(16702, format!("$concat only supports strings, not {}", type_name(&other))),
        }
    }
    text(all)
}

/// The two ways to count in a text.
struct Counting {
    name: &'static str,
    codes: (i32, i32),
    bytes: bool,
}

const BYTES: Counting = Counting { name: "$indexOfBytes", codes: (40091, 40092), bytes: true };
const CODE_POINTS: Counting = Counting { name: "$indexOfCP", codes: (40093, 40094), bytes: false };

fn index_of(arguments: &[Expression], frame: &mut Frame<'_>, how: &Counting) -> Result<Val> {
    let [input, token, limits @ ..] = arguments else { return Ok(None) };
    let name = how.name;
    let input = input.eval(frame)?;
    if nullish(&input) {
        return Ok(Some(Bson::Null));
    }
    let Some(Bson::String(input)) = input else {
        let text = format!("{name} requires a string as the first argument, found: {}", type_name(&input));
        return fail(how.codes.0, text);
    };
    let token = token.eval(frame)?;
    let Some(Bson::String(token)) = token else {
        let text = format!("{name} requires a string as the second argument, found: {}", type_name(&token));
        return fail(how.codes.1, text);
    };
    let length = if how.bytes { input.len() } else { input.chars().count() };
    let mut ends = [0, length];
    for ((end, limit), which) in ends.iter_mut().zip(limits).zip(["starting", "ending"]) {
        *end = position(name, which, &limit.eval(frame)?)?;
    }
    let [start, end] = ends;
    let end = end.min(length);
    if start > length || end < start {
        return Ok(Some(Bson::Int32(-1)));
    }
    let byte_at = |at: usize| {
        if how.bytes { at } else { input.char_indices().nth(at).map_or(input.len(), |(byte, _)| byte) }
    };
    let (from, to) = (byte_at(start), byte_at(end));
    let haystack = input.as_bytes().get(from..to).unwrap_or_default();
    let found = if token.is_empty() {
        Some(0)
    } else {
        haystack.windows(token.len()).position(|window| window == token.as_bytes())
    };
    let index = found.map(|at| {
        let at = from + at;
        if how.bytes { at } else { input.char_indices().take_while(|(byte, _)| *byte < at).count() }
    });
    Ok(Some(Bson::Int32(index.map_or(-1, |at| at as i32))))
}

fn split(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let mut values = values.into_iter();
    let (input, separator) = (values.next().flatten(), values.next().flatten());
    if nullish(&input) || nullish(&separator) {
        return Ok(Some(Bson::Null));
    }
    let text = "$split requires an expression that evaluates to a string as a";
    let Some(Bson::String(input)) = input else {
        return fail(40085, format!("{text} first argument, found: {}", type_name(&input)));
    };
    let Some(Bson::String(separator)) = separator else {
        return fail(40086, format!("{text} second argument, found: {}", type_name(&separator)));
    };
    if separator.is_empty() {
        return fail(40087, "$split requires a non-empty separator");
    }
    Ok(Some(Bson::Array(input.split(&separator).map(|part| Bson::String(part.to_owned())).collect())))
}

fn length(values: Vec<Val>, name: &str, code: i32, measure: fn(&str) -> usize) -> Result<Val> {
    match values.into_iter().next().flatten() {
        Some(Bson::String(text)) => Ok(Some(Bson::Int32(measure(&text) as i32))),
        other => fail(code, format!("{name} requires a string argument, found: {}", type_name(&other))),
    }
}

fn compare_ignoring_case(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let mut texts = values.iter().map(|value| to_text(value).map(|text| text.to_ascii_uppercase()));
    let left = texts.next().transpose()?.unwrap_or_default();
    let right = texts.next().transpose()?.unwrap_or_default();
    Ok(Some(Bson::Int32(left.as_bytes().cmp(right.as_bytes()) as i32)))
}

fn case(values: Vec<Val>, change: fn(&mut str)) -> Result<Val> {
    let mut result = to_text(&values.into_iter().next().flatten())?;
    change(&mut result);
    text(result)
}

fn substring_bytes(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let [input, start, count] = [0, 1, 2].map(|at| values.get(at).cloned().flatten());
    let input = to_text(&input)?;
    let whole = |value: &Val, what: &str, code: i32| match number(value) {
        Some(number) => Ok(number.to_i64_saturating()),
        None => {
            let text = format!("$substrBytes: {what} must be a numeric type (is BSON type {})", type_name(value));
            fail(code, text)
        }
    };
    let start = whole(&start, "starting index", 16034)?;
    let count = whole(&count, "length", 16035)?;
    let Ok(from) = usize::try_from(start) else {
        return fail(50752, format!("$substrBytes: starting index must be non-negative (got: {start})"));
    };
    let continues = |at: usize| at < input.len() && !input.is_char_boundary(at);
    if continues(from) {
        return fail(28656, "$substrBytes:  Invalid range, starting index is a UTF-8 continuation byte.");
    }
    let to = usize::try_from(count).map_or(input.len(), |count| from.saturating_add(count));
    if continues(to) {
        return fail(28657, "$substrBytes:  Invalid range, ending index is in the middle of a UTF-8 character.");
    }
    text(input.get(from.min(input.len())..to.min(input.len())).unwrap_or_default())
}

fn substring_code_points(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let [input, start, count] = [0, 1, 2].map(|at| values.get(at).cloned().flatten());
    let input = to_text(&input)?;
    let whole = |value: &Val, what: &str, codes: (i32, i32)| -> Result<i32> {
        let Some(number) = number(value) else {
            let text = format!("$substrCP: {what} must be a numeric type (is BSON type {})", type_name(value));
            return fail(codes.0, text);
        };
        match Number::as_exact_i32(number) {
            Some(whole) => Ok(whole),
            None => {
                let text = format!("$substrCP: {what} cannot be represented as a 32-bit integral value");
                fail(codes.1, format!("{text}: {}", shown(value)))
            }
        }
    };
    let start = whole(&start, "starting index", (34450, 34451))?;
    let count = whole(&count, "length", (34452, 34453))?;
    let Ok(count) = usize::try_from(count) else {
        return fail(34454, "$substrCP: length must be a nonnegative integer.");
    };
    let Ok(start) = usize::try_from(start) else {
        return fail(34455, "$substrCP: the starting index must be nonnegative integer.");
    };
    text(input.chars().skip(start).take(count).collect::<String>())
}

macro_rules! trim_parameters {
    ($name:literal) => {
        Parameters {
            names: &["input", "chars"],
            required: &[("input", 50695, concat!($name, " requires an 'input' field"))],
            not_object: (50696, concat!($name, " only supports an object as an argument, found {}")),
            unknown: (50694, concat!($name, " found an unknown argument: {}")),
        }
    };
}

static TRIM: Parameters = trim_parameters!("$trim");
static LTRIM: Parameters = trim_parameters!("$ltrim");
static RTRIM: Parameters = trim_parameters!("$rtrim");

/// What is trimmed without `chars`.
const WHITESPACE: [char; 20] = [
    '\0', ' ', '\t', '\n', '\u{b}', '\u{c}', '\r', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}', '\u{2002}',
    '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}', '\u{200a}',
];

fn trim(name: &str, arguments: &[Option<Expression>], frame: &mut Frame<'_>, left: bool, right: bool) -> Result<Val> {
    let input = optional(arguments.first(), frame)?;
    if nullish(&input) {
        return Ok(Some(Bson::Null));
    }
    let Some(Bson::String(input)) = input else {
        let text = format!("{name} requires its input to be a string, got {}", shown(&input));
        return fail(50699, format!("{text} (of type {}) instead.", type_name(&input)));
    };
    let letters: Vec<char> = match arguments.get(1) {
        Some(Some(chars)) => match chars.eval(frame)? {
            Some(Bson::String(chars)) => chars.chars().collect(),
            value if nullish(&value) => return Ok(Some(Bson::Null)),
            other => {
                let text = format!(" {name} requires 'chars' to be a string, got {}", shown(&other));
                return fail(50700, format!("{text} (of type {}) instead.", type_name(&other)));
            }
        },
        _ => WHITESPACE.to_vec(),
    };
    let mut rest = input.as_str();
    if left {
        rest = rest.trim_start_matches(letters.as_slice());
    }
    if right {
        rest = rest.trim_end_matches(letters.as_slice());
    }
    text(rest)
}

macro_rules! replace_parameters {
    ($name:literal) => {
        Parameters {
            names: &["input", "find", "replacement"],
            required: &[
                ("input", 51749, concat!($name, " requires 'input' to be specified")),
                ("find", 51748, concat!($name, " requires 'find' to be specified")),
                ("replacement", 51747, concat!($name, " requires 'replacement' to be specified")),
            ],
            not_object: (51751, concat!($name, " requires an object as an argument, found: {}")),
            unknown: (51750, concat!($name, " found an unknown argument: {}")),
        }
    };
}

static REPLACE_ONE: Parameters = replace_parameters!("$replaceOne");
static REPLACE_ALL: Parameters = replace_parameters!("$replaceAll");

fn replace(name: &str, arguments: &[Option<Expression>], frame: &mut Frame<'_>, most: usize) -> Result<Val> {
    let mut texts = Vec::with_capacity(3);
    let mut null = false;
    for (at, (what, code)) in [("input", 51746), ("find", 51745), ("replacement", 51744)].into_iter().enumerate() {
        match optional(arguments.get(at), frame)? {
            Some(Bson::String(text)) => texts.push(text),
            value if nullish(&value) => null = true,
            other => return fail(code, format!("{name} requires that '{what}' be a string, found: {}", shown(&other))),
        }
    }
    match texts.as_slice() {
        [input, find, replacement] if !null => text(input.replacen(find.as_str(), replacement, most)),
        _ => Ok(Some(Bson::Null)),
    }
}
