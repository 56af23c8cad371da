//! `$dateFromParts` and `$dateToParts`.

use bson::{Bson, DateTime, Document, doc};

use super::calendar::{Civil, DAY_MS, days_from_civil, iso_year_start};
use super::{nullish, optional, shown, to_millis, type_name, zone_argument};
use crate::aggregate::expression::Expression;
use crate::aggregate::expression::arithmetic::number;
use crate::aggregate::expression::lent::Val;
use crate::aggregate::expression::table::{Operator, Parameters, named};
use crate::aggregate::expression::variables::{Frame, Scope};
use crate::error::{Result, fail};
use crate::value::View;
use crate::value::number::Number;

const NAMES: [&str; 11] = [
    "year",
    "isoWeekYear",
    "month",
    "isoWeek",
    "day",
    "isoDayOfWeek",
    "hour",
    "minute",
    "second",
    "millisecond",
    "timezone",
];

/// The operands of `$dateFromParts`.
static FROM_PARTS: Parameters = Parameters {
    names: &NAMES,
    required: &[],
    not_object: (40519, "$dateFromParts only supports an object as its argument"),
    unknown: (40518, "Unrecognized argument to $dateFromParts: {}"),
};

/// The operands of `$dateToParts`.
pub(super) static TO_PARTS: Parameters = Parameters {
    names: &["date", "timezone", "iso8601"],
    required: &[("date", 40522, "Missing 'date' parameter to $dateToParts")],
    not_object: (40524, "$dateToParts only supports an object as its argument"),
    unknown: (40520, "Unrecognized argument to $dateToParts: {}"),
};

/// Parses `$dateFromParts`, which mixes neither kind of date with the other.
pub(super) fn parse_from_parts(operand: View<'_>, scope: &Scope) -> Result<Expression> {
    static OPERATOR: Operator = named("$dateFromParts", &FROM_PARTS, from_parts);
    let given = |name: &str| operand.as_document().is_some_and(|document| document.get(name).is_some());
    let parsed = OPERATOR.parse(operand, scope)?;
    let (natural, iso) = (given("year"), given("isoWeekYear"));
    if !natural && !iso {
        return fail(40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present");
    }
    if natural && (iso || given("isoWeek") || given("isoDayOfWeek")) {
        return fail(40489, "$dateFromParts does not allow mixing natural dates with ISO dates");
    }
    if iso && (given("month") || given("day")) {
        return fail(40525, "$dateFromParts does not allow mixing ISO dates with natural dates");
    }
    Ok(parsed)
}

/// Computes `$dateFromParts`.
fn from_parts(name: &'static str, arguments: &[Option<Expression>], frame: &mut Frame<'_>) -> Result<Val> {
    let natural = matches!(arguments.first(), Some(Some(_)));
    let Some(zone) = zone_argument(name, arguments.get(10), frame)? else { return Ok(Some(Bson::Null)) };
    let mut part = |at: usize, default: i64| -> Result<Option<i64>> {
        if !matches!(arguments.get(at), Some(Some(_))) {
            return Ok(Some(default));
        }
        let value = optional(arguments.get(at), frame)?;
        if nullish(&value) {
            return Ok(None);
        }
        let Some(whole) = number(&value).and_then(Number::as_exact_i64) else {
            let text = format!("'{}' must evaluate to an integer, found {}", NAMES[at], type_name(&value));
            return fail(40515, format!("{text} with value {}", shown(&value)));
        };
        if at < 2 && !(1..=9999).contains(&whole) {
            let text = format!("'{}' must evaluate to an integer in the range 1 to 9999", NAMES[at]);
            return fail(40523, format!("{text}, found {whole}"));
        }
        let wide = at >= 8;
        if !wide && !(-32_768..=32_767).contains(&whole) {
            let text = format!("'{}' must evaluate to a value in the range [-32768, 32767]", NAMES[at]);
            return fail(31034, format!("{text}; value {whole} is not in range"));
        }
        Ok(Some(whole))
    };
    let days = if natural {
        let (Some(year), Some(month), Some(day)) = (part(0, 1970)?, part(2, 1)?, part(4, 1)?) else {
            return Ok(Some(Bson::Null));
        };
        days_from_civil(year, month, day)
    } else {
        let (Some(year), Some(week), Some(day)) = (part(1, 1970)?, part(3, 1)?, part(5, 1)?) else {
            return Ok(Some(Bson::Null));
        };
        iso_year_start(year) + (week - 1) * 7 + day - 1
    };
    let (Some(hour), Some(minute), Some(second), Some(milli)) = (part(6, 0)?, part(7, 0)?, part(8, 0)?, part(9, 0)?)
    else {
        return Ok(Some(Bson::Null));
    };
    let time = (|| {
        let seconds = (hour * 3600 + minute * 60).checked_add(second)?;
        (days * DAY_MS).checked_add(seconds.checked_mul(1000)?)?.checked_add(milli)
    })();
    let Some(local) = time else { return fail(15, "$dateFromParts: the date is out of range") };
    Ok(Some(Bson::DateTime(DateTime::from_millis(zone.to_utc(local)))))
}

/// Computes `$dateToParts`.
pub(super) fn to_parts(name: &'static str, arguments: &[Option<Expression>], frame: &mut Frame<'_>) -> Result<Val> {
    let date = optional(arguments.first(), frame)?;
    let Some(zone) = zone_argument(name, arguments.get(1), frame)? else { return Ok(Some(Bson::Null)) };
    let iso = match optional(arguments.get(2), frame)? {
        Some(Bson::Boolean(iso)) => iso,
        None if !matches!(arguments.get(2), Some(Some(_))) => false,
        value if nullish(&value) => return Ok(Some(Bson::Null)),
        other => return fail(40521, format!("iso8601 must evaluate to a bool, found {}", type_name(&other))),
    };
    if nullish(&date) {
        return Ok(Some(Bson::Null));
    }
    let civil = Civil::at(to_millis(&date)?, &zone);
    let mut parts: Document = if iso {
        let (year, week) = civil.iso_week();
        doc! { "isoWeekYear": year as i32, "isoWeek": week as i32, "isoDayOfWeek": civil.iso_weekday() as i32 }
    } else {
        doc! { "year": civil.year as i32, "month": civil.month as i32, "day": civil.day as i32 }
    };
    parts.extend(doc! {
        "hour": civil.hour as i32,
        "minute": civil.minute as i32,
        "second": civil.second as i32,
        "millisecond": civil.millisecond as i32,
    });
    Ok(Some(Bson::Document(parts)))
}
