//! `$convert`, the `$to…` shorthands, `$type`, `$isNumber`.

use bson::oid::ObjectId;
use bson::{Bson, DateTime};

use super::Expression;
use super::date::{self, zones::Zone};
use super::lent::{Val, nullish, type_name, view};
use super::table::{Operator, Parameters, eager, named, optional};
use super::variables::Frame;
use crate::error::{Result, fail};
use crate::value::decimal::{Dec, Rounding};
use crate::value::number::Number;
use crate::value::{Kind, View, text};

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    named("$convert", &CONVERT, convert_operator),
    eager("$isNumber", 1, 1, |_, values| {
        let numeric = values.first().and_then(view).is_some_and(|value| value.kind().is_numeric());
        Ok(Some(Bson::Boolean(numeric)))
    }),
    eager("$toBool", 1, 1, |_, values| shorthand(values, Kind::Bool)),
    eager("$toDate", 1, 1, |_, values| shorthand(values, Kind::Date)),
    eager("$toDecimal", 1, 1, |_, values| shorthand(values, Kind::Decimal)),
    eager("$toDouble", 1, 1, |_, values| shorthand(values, Kind::Double)),
    eager("$toInt", 1, 1, |_, values| shorthand(values, Kind::Int)),
    eager("$toLong", 1, 1, |_, values| shorthand(values, Kind::Long)),
    eager("$toObjectId", 1, 1, |_, values| shorthand(values, Kind::ObjectId)),
    eager("$toString", 1, 1, |_, values| shorthand(values, Kind::String)),
    eager("$type", 1, 1, |_, values| {
        let name = values.first().map_or("missing", type_name);
        Ok(Some(Bson::String(name.to_owned())))
    }),
];

/// `ConversionFailure`.
const FAILURE: i32 = 241;

static CONVERT: Parameters = Parameters {
    names: &["input", "to", "onError", "onNull"],
    required: &[("input", 9, "Missing 'input' parameter to $convert"), ("to", 9, "Missing 'to' parameter to $convert")],
    not_object: (9, "$convert expects an object of named arguments but found: {}"),
    unknown: (9, "$convert found an unknown argument: {}"),
};

fn shorthand(values: Vec<Val>, to: Kind) -> Result<Val> {
    let value = values.into_iter().next().flatten();
    if nullish(&value) { Ok(Some(Bson::Null)) } else { convert(&value, to).map(Some) }
}

fn convert_operator(_: &'static str, arguments: &[Option<Expression>], frame: &mut Frame<'_>) -> Result<Val> {
    let to = optional(arguments.get(1), frame)?;
    let input = optional(arguments.first(), frame)?;
    if nullish(&input) {
        let on_null = optional(arguments.get(3), frame)?;
        let given = matches!(arguments.get(3), Some(Some(_)));
        return Ok(if given { on_null } else { Some(Bson::Null) });
    }
    if nullish(&to) {
        return Ok(Some(Bson::Null));
    }
    let kind = target(&to)?;
    match (convert(&input, kind), arguments.get(2)) {
        (Err(error), Some(Some(on_error))) if error.code == FAILURE => on_error.eval(frame),
        (result, _) => result.map(Some),
    }
}

fn target(to: &Val) -> Result<Kind> {
    if let Some(Bson::String(name)) = to {
        return match Kind::by_name(name) {
            Some(kind) => Ok(kind),
            None => fail(2, format!("Unknown type name: {name}")),
        };
    }
    let Some(number) = view(to).and_then(View::number) else {
        return fail(9, format!("$convert's 'to' argument must be a string or number, but is {}", type_name(to)));
    };
    let Some(code) = number.as_exact_i32() else {
        return fail(9, "In $convert, numeric 'to' argument is not an integer");
    };
    match Kind::by_code(code.into()) {
        Some(kind) => Ok(kind),
        None => fail(9, format!("In $convert, numeric value for 'to' does not correspond to a BSON type: {code}")),
    }
}

fn refuse<T>(why: &str) -> Result<T> {
    fail(FAILURE, format!("{why} in $convert with no onError value"))
}

fn refuse_with<T>(why: &str, detail: impl std::fmt::Display) -> Result<T> {
    fail(FAILURE, format!("{why} in $convert with no onError value: {detail}"))
}

/// Converts a value that is not null.
fn convert(value: &Val, to: Kind) -> Result<Bson> {
    let Some(value) = value else { return Ok(Bson::Null) };
    let from = View::from(value);
    let unsupported = || refuse(&format!("Unsupported conversion from {} to {}", from.type_name(), to.name()));
    match to {
        Kind::Bool => match from {
            View::Double(_) | View::Int32(_) | View::Int64(_) | View::Decimal(_) | View::Bool(_) => {
                Ok(Bson::Boolean(from.is_true()))
            }
            View::String(_) | View::ObjectId(_) | View::DateTime(_) => Ok(Bson::Boolean(true)),
            _ => unsupported(),
        },
        Kind::Double | Kind::Decimal | Kind::Int | Kind::Long => match from {
            View::String(text) => parse_number(text, to),
            View::Bool(value) => number_to(Number::Int(value.into()), to),
            View::DateTime(millis) if to != Kind::Int => match to {
                Kind::Decimal => Ok(Number::Decimal(Dec::from(millis)).into()),
                _ => number_to(Number::Long(millis), to),
            },
            other => match other.number() {
                Some(number) => number_to(number, to),
                None => unsupported(),
            },
        },
        Kind::Date => match from {
            View::DateTime(_) => Ok(value.clone()),
            View::Int64(millis) => Ok(Bson::DateTime(DateTime::from_millis(millis))),
            View::Double(_) | View::Decimal(_) => match number_to(from.number().unwrap_or(Number::Int(0)), Kind::Long)?
            {
                Bson::Int64(millis) => Ok(Bson::DateTime(DateTime::from_millis(millis))),
                _ => unsupported(),
            },
            View::String(text) => Ok(Bson::DateTime(DateTime::from_millis(date::parse::free(text, &Zone::Utc)?))),
            View::ObjectId(id) => Ok(Bson::DateTime(id.timestamp())),
            View::Timestamp { time, .. } => Ok(Bson::DateTime(DateTime::from_millis(i64::from(time) * 1000))),
            _ => unsupported(),
        },
        Kind::ObjectId => match from {
            View::ObjectId(_) => Ok(value.clone()),
            View::String(text) => parse_id(text),
            _ => unsupported(),
        },
        Kind::String => match from {
            View::String(_) => Ok(value.clone()),
            View::Bool(value) => Ok(Bson::String(value.to_string())),
            View::ObjectId(id) => Ok(Bson::String(id.to_hex())),
            View::DateTime(millis) => Ok(Bson::String(text::iso_date(millis))),
            other => match other.number() {
                Some(number) => Ok(Bson::String(number_text(number))),
                None => unsupported(),
            },
        },
        _ if to == from.kind() => unsupported(),
        _ => unsupported(),
    }
}

/// A number in the words of a C++ string stream: doubles with up to 15 digits.
fn number_text(number: Number) -> String {
    match number {
        Number::Double(value) if value.is_nan() => "NaN".to_owned(),
        Number::Double(value) if value.is_infinite() => if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        Number::Double(value) => text::general(value, 15),
        other => text::plain_number(other),
    }
}

fn number_to(number: Number, to: Kind) -> Result<Bson> {
    match to {
        Kind::Double => {
            let double = number.to_f64();
            if let Number::Decimal(value) = number
                && double.is_infinite()
                && !value.is_infinite()
            {
                return refuse_with("Conversion would overflow target type", value);
            }
            Ok(Bson::Double(double))
        }
        Kind::Decimal => Ok(Number::Decimal(number.to_decimal()).into()),
        _ => {
            let long = match number {
                Number::Int(value) => i64::from(value),
                Number::Long(value) => value,
                _ if number.is_nan() => return refuse("Attempt to convert NaN value to integer type"),
                Number::Double(value) if value.is_infinite() => {
                    return refuse("Attempt to convert infinity value to integer type");
                }
                Number::Decimal(value) if value.is_infinite() => {
                    return refuse("Attempt to convert infinity value to integer type");
                }
                Number::Double(value) if value.abs() >= 9_223_372_036_854_775_808.0 => return overflow(number),
                Number::Double(value) => value as i64,
                Number::Decimal(value) => match value.to_i64_rounded(Rounding::TowardZero) {
                    Some(value) => value,
                    None => return overflow(number),
                },
            };
            match to {
                Kind::Long => Ok(Bson::Int64(long)),
                _ => i32::try_from(long).map(Bson::Int32).or_else(|_| overflow(number)),
            }
        }
    }
}

fn overflow<T>(number: Number) -> Result<T> {
    refuse_with("Conversion would overflow target type", text::plain_number(number))
}

fn parse_number(input: &str, to: Kind) -> Result<Bson> {
    let failed = |why: &str| {
        let text = format!("Failed to parse number '{input}' in $convert with no onError value: {why}");
        fail(FAILURE, text)
    };
    let unsigned = input.strip_prefix(['+', '-']).unwrap_or(input);
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        return refuse_with("Illegal hexadecimal input", input);
    }
    if input.is_empty() {
        return failed("Empty string");
    }
    match to {
        Kind::Int | Kind::Long => {
            if unsigned.is_empty() {
                return failed("No digits");
            }
            if !unsigned.bytes().all(|byte| byte.is_ascii_digit()) || unsigned.starts_with(['+', '-']) {
                return failed("Did not consume whole string.");
            }
            let parsed = input.parse::<i64>().ok();
            match (to, parsed, parsed.and_then(|value| i32::try_from(value).ok())) {
                (Kind::Int, _, Some(value)) => Ok(Bson::Int32(value)),
                (Kind::Long, Some(value), _) => Ok(Bson::Int64(value)),
                _ => failed("Overflow"),
            }
        }
        Kind::Double => {
            let plain = !unsigned.starts_with(char::is_whitespace);
            match input.parse::<f64>().ok().filter(|_| plain) {
                Some(value) if value.is_infinite() && !unsigned.to_ascii_lowercase().starts_with("inf") => {
                    failed("Out of range")
                }
                Some(value) => Ok(Bson::Double(value)),
                None if unsigned.starts_with(|letter: char| letter.is_ascii_digit()) => {
                    failed("Did not consume whole string.")
                }
                None => failed("Did not consume any digits"),
            }
        }
        _ => match Dec::parse(input) {
            Some(value) if value.is_infinite() && !unsigned.to_ascii_lowercase().starts_with("inf") => {
                failed("Conversion from string to decimal would overflow")
            }
            Some(value) => Ok(Number::Decimal(value).into()),
            None => failed("Failed to parse string to decimal"),
        },
    }
}

fn parse_id(input: &str) -> Result<Bson> {
    let failed = |why: String| {
        let text = format!("Failed to parse objectId '{input}' in $convert with no onError value: {why}");
        fail(FAILURE, text)
    };
    if input.len() != 24 {
        let text = "Invalid string length for parsing to OID, expected 24 but found";
        return failed(format!("{text} {}", input.len()));
    }
    match ObjectId::parse_str(input) {
        Ok(id) => Ok(Bson::ObjectId(id)),
        Err(_) => failed("Invalid character found in hex string".to_owned()),
    }
}

/// A value as the text operators take it: numbers, dates and null become text.
///
/// # Errors
/// 16007 for other types.
pub(crate) fn to_text(value: &Val) -> Result<String> {
    let Some(value) = value else { return Ok(String::new()) };
    Ok(match View::from(value) {
        View::String(text) | View::Symbol(text) | View::Code(text) => text.to_owned(),
        View::Null | View::Undefined => String::new(),
        View::DateTime(millis) => text::iso_date(millis),
        View::Timestamp { time, increment } => {
            let (year, month, day) = text::civil_from_days(i64::from(time) / 86_400);
            let (hour, minute, second) = (time / 3600 % 24, time / 60 % 60, time % 60);
            let name = date::MONTHS[(month - 1) as usize];
            format!("{name} {day:>2} {hour:02}:{minute:02}:{second:02} {year}:{increment}")
        }
        other => match other.number() {
            Some(number) => number_text(number),
            None => return fail(16007, format!("can't convert from BSON type {} to String", other.type_name())),
        },
    })
}
