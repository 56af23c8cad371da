//! Dates: parts, formatting, parsing, construction.

pub(crate) mod arithmetic;
pub(crate) mod calendar;
mod format;
mod from_parts;
pub(crate) mod parse;
pub(crate) mod zones;

pub(crate) use arithmetic::Unit;

use bson::Bson;

use super::lent::{Val, nullish, shown, type_name, view};
use super::table::{Operator, Parameters, custom, named, optional};
use super::variables::{Frame, Scope};
use super::{Expression, Node};
use crate::error::{Result, fail};
use crate::value::View;
use calendar::Civil;
use zones::Zone;

/// English month names, short.
pub(crate) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

macro_rules! part {
    ($name:literal, $value:expr) => {
        custom($name, |operand, scope| {
            static PARAMETERS: Parameters = Parameters {
                names: &["date", "timezone"],
                required: &[(
                    "date",
                    40539,
                    concat!("missing 'date' argument to ", $name, ", provided: ", $name, ": {}"),
                )],
                not_object: (40536, ""),
                unknown: (40535, concat!("unrecognized option to ", $name, ": \"{}\"")),
            };
            static OPERATOR: Operator =
                named($name, &PARAMETERS, |name, arguments, frame| extract(name, arguments, frame, $value));
            parse_part(&OPERATOR, operand, scope)
        })
    };
}

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    custom("$dateFromParts", from_parts::parse_from_parts),
    named("$dateFromString", &parse::FROM_STRING, parse::from_string),
    named("$dateToParts", &from_parts::TO_PARTS, from_parts::to_parts),
    named("$dateToString", &format::TO_STRING, format::to_string),
    part!("$dayOfMonth", |civil| Bson::Int32(civil.day as i32)),
    part!("$dayOfWeek", |civil| Bson::Int32(civil.weekday() as i32 + 1)),
    part!("$dayOfYear", |civil| Bson::Int32(civil.day_of_year() as i32)),
    part!("$hour", |civil| Bson::Int32(civil.hour as i32)),
    part!("$isoDayOfWeek", |civil| Bson::Int32(civil.iso_weekday() as i32)),
    part!("$isoWeek", |civil| Bson::Int32(civil.iso_week().1 as i32)),
    part!("$isoWeekYear", |civil| Bson::Int64(civil.iso_week().0)),
    part!("$millisecond", |civil| Bson::Int32(civil.millisecond as i32)),
    part!("$minute", |civil| Bson::Int32(civil.minute as i32)),
    part!("$month", |civil| Bson::Int32(civil.month as i32)),
    part!("$second", |civil| Bson::Int32(civil.second as i32)),
    part!("$week", |civil| Bson::Int32(civil.week() as i32)),
    part!("$year", |civil| Bson::Int32(civil.year as i32)),
];

/// The operand of a date part: a date, a list of one, or `{ date, timezone }`.
fn parse_part(operator: &'static Operator, operand: View<'_>, scope: &Scope) -> Result<Expression> {
    let date = match operand {
        View::Document(document) if !document.iter().next().is_some_and(|(name, _)| name.starts_with('$')) => {
            return operator.parse(operand, scope);
        }
        View::Array(array) => {
            let count = array.len();
            match array.get(0) {
                Some(one) if count == 1 => one,
                _ => {
                    let text = format!("{} accepts exactly one argument if given an array", operator.name);
                    return fail(40536, format!("{text}, but was given {count}"));
                }
            }
        }
        one => one,
    };
    let date = Expression::operand(date, scope)?;
    Ok(Node::Named { operator, arguments: vec![Some(date), None] }.into())
}

fn extract(
    name: &'static str,
    arguments: &[Option<Expression>],
    frame: &mut Frame<'_>,
    part: fn(&Civil) -> Bson,
) -> Result<Val> {
    let date = optional(arguments.first(), frame)?;
    if nullish(&date) {
        return Ok(Some(Bson::Null));
    }
    let millis = to_millis(&date)?;
    let Some(zone) = zone_argument(name, arguments.get(1), frame)? else { return Ok(Some(Bson::Null)) };
    Ok(Some(part(&Civil::at(millis, &zone))))
}

/// The milliseconds of a date, a timestamp or an object id.
///
/// # Errors
/// 16006 for other types.
pub(crate) fn to_millis(value: &Val) -> Result<i64> {
    match view(value) {
        Some(View::DateTime(millis)) => Ok(millis),
        Some(View::Timestamp { time, .. }) => Ok(i64::from(time) * 1000),
        Some(View::ObjectId(id)) => Ok(id.timestamp().timestamp_millis()),
        _ => fail(16006, format!("can't convert from BSON type {} to Date", type_name(value))),
    }
}

/// The time zone operand; UTC without one, `None` when it is null.
///
/// # Errors
/// 40533 or 40517 for a value that is no text, 40485 for an unknown zone.
pub(crate) fn zone_argument(
    name: &str,
    argument: Option<&Option<Expression>>,
    frame: &mut Frame<'_>,
) -> Result<Option<Zone>> {
    let Some(Some(argument)) = argument else { return Ok(Some(Zone::Utc)) };
    let value = argument.eval(frame)?;
    match &value {
        Some(Bson::String(zone)) => Zone::parse(zone).map(Some),
        value if nullish(value) => Ok(None),
        other => {
            let text = match name {
                "$dateToString" | "$dateFromParts" | "$dateToParts" | "$dateFromString" => {
                    let text = format!("timezone must evaluate to a string, found {}", type_name(other));
                    return fail(40517, text);
                }
                name => format!("{name} requires a string for the timezone argument, but was given a"),
            };
            fail(40533, format!("{text} {} ({})", type_name(other), shown(other)))
        }
    }
}
