//! `$literal`, `$meta`, `$function`, `$binarySize`, `$bsonSize`, `$rand`, `$sampleRate`, and bitwise operators of later
//! releases.

use bson::Bson;

use super::Expression;
use super::arithmetic::number;
use super::lent::{Val, nullish, type_name};
use super::table::{ANY, Call, Operator, custom, eager};
use super::variables::Scope;
use crate::error::{Result, fail};
use crate::value::number::Number;
use crate::value::{View, view::to_raw};

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    eager("$binarySize", 1, 1, binary_size),
    eager("$bsonSize", 1, 1, bson_size),
    custom("$const", literal),
    custom("$function", parse_function),
    custom("$literal", literal),
    custom("$meta", parse_meta),
    eager("$rand", 0, ANY, |call, _| Ok(Some(Bson::Double(call.globals.random())))),
    eager("$bitAnd", 0, ANY, |call, values| bitwise(call, values, -1, |left, right| left & right)),
    eager("$bitOr", 0, ANY, |call, values| bitwise(call, values, 0, |left, right| left | right)),
    eager("$bitXor", 0, ANY, |call, values| bitwise(call, values, 0, |left, right| left ^ right)),
    eager("$bitNot", 1, 1, bit_not),
    eager("$tsSecond", 1, 1, |call, values| timestamp(call, values, |time| i64::from(time.time))),
    eager("$tsIncrement", 1, 1, |call, values| timestamp(call, values, |time| i64::from(time.increment))),
];

fn literal(operand: View<'_>, _: &Scope) -> Result<Expression> {
    Ok(Expression::constant(Some(operand.to_bson()?)))
}

fn binary_size(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    match values.into_iter().next().flatten() {
        Some(Bson::String(text)) => Ok(Some(Bson::Int32(text.len() as i32))),
        Some(Bson::Binary(binary)) => Ok(Some(Bson::Int32(binary.bytes.len() as i32))),
        value if nullish(&value) => Ok(Some(Bson::Null)),
        other => {
            let text = "$binarySize requires a string or BinData argument, found";
            fail(51276, format!("{text}: {}", type_name(&other)))
        }
    }
}

fn bson_size(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    match values.into_iter().next().flatten() {
        Some(Bson::Document(document)) => Ok(Some(Bson::Int32(to_raw(&document)?.as_bytes().len() as i32))),
        value if nullish(&value) => Ok(Some(Bson::Null)),
        other => fail(31393, format!("$bsonSize requires a document input, found: {}", type_name(&other))),
    }
}

/// What a mongod answers where it would run JavaScript and has no engine for it.
///
/// # Errors
/// Always.
pub(crate) fn no_javascript<T>() -> Result<T> {
    fail(31264, "Cannot run server-side javascript without the javascript engine enabled")
}

fn parse_function(operand: View<'_>, scope: &Scope) -> Result<Expression> {
    let View::Document(document) = operand else {
        return fail(31260, format!("$function requires an object as an argument, found: {}", operand.type_name()));
    };
    if document.get("body").is_none() {
        return fail(31261, "The body function must be specified.");
    }
    match document.get("args") {
        None => return fail(31263, "The args field must be specified."),
        Some(arguments) => Expression::operand(arguments, scope)?,
    };
    match document.get("lang") {
        None => return fail(31418, "The lang field must be specified."),
        Some(View::String("js")) => {}
        Some(_) => return fail(31419, "Currently the only supported language specifier is 'js'."),
    }
    no_javascript()
}

fn parse_meta(operand: View<'_>, _: &Scope) -> Result<Expression> {
    let View::String(kind) = operand else { return fail(17307, "$meta only supports string arguments") };
    match kind {
        "textScore" => fail(40218, "query requires text score metadata, but it is not available"),
        "geoNearDistance" | "geoNearPoint" => {
            let what = if kind == "geoNearPoint" { "geoNear point" } else { "geoNear distance" };
            fail(40218, format!("query requires {what} metadata, but it is not available"))
        }
        // without such metadata the value is missing
        "randVal" | "searchScore" | "searchHighlights" | "recordId" | "indexKey" | "sortKey" => {
            Ok(Expression::constant(None))
        }
        _ => fail(17308, format!("Unsupported argument to $meta: {kind}")),
    }
}

fn bitwise(call: Call<'_>, values: Vec<Val>, start: i64, apply: fn(i64, i64) -> i64) -> Result<Val> {
    let mut long = false;
    let mut result = start;
    for value in &values {
        match number(value) {
            Some(Number::Int(value)) => result = apply(result, value.into()),
            Some(Number::Long(value)) => {
                long = true;
                result = apply(result, value);
            }
            _ if nullish(value) => return Ok(Some(Bson::Null)),
            _ => return fail(14, format!("{} only supports int and long operands.", call.name)),
        }
    }
    Ok(Some(if long { Bson::Int64(result) } else { Bson::Int32(result as i32) }))
}

fn bit_not(call: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let value = values.into_iter().next().flatten();
    match number(&value) {
        Some(Number::Int(value)) => Ok(Some(Bson::Int32(!value))),
        Some(Number::Long(value)) => Ok(Some(Bson::Int64(!value))),
        _ if nullish(&value) => Ok(Some(Bson::Null)),
        _ => fail(28765, format!("{} only supports int and long, not: {}.", call.name, type_name(&value))),
    }
}

fn timestamp(call: Call<'_>, values: Vec<Val>, part: fn(bson::Timestamp) -> i64) -> Result<Val> {
    match values.into_iter().next().flatten() {
        Some(Bson::Timestamp(time)) => Ok(Some(Bson::Int64(part(time)))),
        value if nullish(&value) => Ok(Some(Bson::Null)),
        other => {
            let text = format!(" Argument to {} must be a timestamp, but is {}", call.name, type_name(&other));
            fail(5687301, text)
        }
    }
}
