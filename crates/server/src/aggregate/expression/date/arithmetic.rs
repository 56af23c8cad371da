//! `$dateAdd`, `$dateSubtract`, `$dateDiff`, `$dateTrunc` (operators of release 5.0).

use bson::{Bson, DateTime};

use super::calendar::{Civil, DAY_MS, days_from_civil};
use super::zones::Zone;
use super::{nullish, optional, shown, to_millis, type_name, zone_argument};
use crate::aggregate::expression::Expression;
use crate::aggregate::expression::arithmetic::number;
use crate::aggregate::expression::lent::Val;
use crate::aggregate::expression::table::{Operator, Parameters, named};
use crate::aggregate::expression::variables::Frame;
use crate::error::{CommandError, Result, fail};
use crate::value::number::Number;

macro_rules! add_parameters {
    ($name:literal) => {
        Parameters {
            names: &["startDate", "unit", "amount", "timezone"],
            required: &[
                ("startDate", 5166402, concat!($name, " requires startDate, unit, and amount to be present")),
                ("unit", 5166402, concat!($name, " requires startDate, unit, and amount to be present")),
                ("amount", 5166402, concat!($name, " requires startDate, unit, and amount to be present")),
            ],
            not_object: (5166400, concat!($name, " expects an object as its argument")),
            unknown: (5166401, concat!("Unrecognized argument to ", $name, ": {}")),
        }
    };
}

static ADD: Parameters = add_parameters!("$dateAdd");
static SUBTRACT: Parameters = add_parameters!("$dateSubtract");

static DIFF: Parameters = Parameters {
    names: &["startDate", "unit", "endDate", "timezone", "startOfWeek"],
    required: &[
        ("startDate", 5166303, "Missing 'startDate' parameter to $dateDiff"),
        ("endDate", 5166304, "Missing 'endDate' parameter to $dateDiff"),
        ("unit", 5166305, "Missing 'unit' parameter to $dateDiff"),
    ],
    not_object: (5166301, "$dateDiff only supports an object as its argument"),
    unknown: (5166302, "Unrecognized argument to $dateDiff: {}"),
};

static TRUNC: Parameters = Parameters {
    names: &["date", "unit", "binSize", "timezone", "startOfWeek"],
    required: &[
        ("date", 5439009, "Missing 'date' parameter to $dateTrunc"),
        ("unit", 5439010, "Missing 'unit' parameter to $dateTrunc"),
    ],
    not_object: (5439007, "$dateTrunc only supports an object as its argument"),
    unknown: (5439008, "Unrecognized argument to $dateTrunc: {}"),
};

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    named("$dateAdd", &ADD, |name, arguments, frame| add(name, arguments, frame, 1)),
    named("$dateDiff", &DIFF, difference),
    named("$dateSubtract", &SUBTRACT, |name, arguments, frame| add(name, arguments, frame, -1)),
    named("$dateTrunc", &TRUNC, truncate),
];

/// A unit: a number of months, or of milliseconds; days and weeks follow the local calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Months(i64),
    Days(i64),
    Millis(i64),
}

impl Unit {
    /// The unit called `name`.
    ///
    /// # Errors
    /// 9 for an unknown one.
    pub(crate) fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "year" => Self::Months(12),
            "quarter" => Self::Months(3),
            "month" => Self::Months(1),
            "week" => Self::Days(7),
            "day" => Self::Days(1),
            "hour" => Self::Millis(3_600_000),
            "minute" => Self::Millis(60_000),
            "second" => Self::Millis(1000),
            "millisecond" => Self::Millis(1),
            other => return fail(9, format!("unknown time unit value: {other}")),
        })
    }

    /// How many milliseconds one is; `None` where that depends on the date.
    pub(crate) fn millis(self) -> Option<i64> {
        match self {
            Self::Months(_) => None,
            Self::Days(days) => Some(days * DAY_MS),
            Self::Millis(millis) => Some(millis),
        }
    }

    /// A time so many units later, in UTC; `None` when it overflows.
    pub(crate) fn shift(self, millis: i64, amount: i64) -> Option<i64> {
        shift(millis, self, amount, &Zone::Utc)
    }
}

fn unit_of(name: &str, value: &Val) -> Result<Unit> {
    let Some(Bson::String(unit)) = value else {
        return fail(5439013, format!("{name} requires 'unit' to be a string, but got {}", type_name(value)));
    };
    Unit::parse(unit)
}

fn date_of(name: &str, what: &str, value: &Val) -> Result<i64> {
    to_millis(value)
        .map_err(|_| CommandError::new(5166403, format!("{name} requires {what} to be convertible to a date")))
}

fn whole(name: &str, what: &str, value: &Val) -> Result<i64> {
    match number(value).and_then(Number::as_exact_i64) {
        Some(whole) => Ok(whole),
        None => fail(5166405, format!("{name} expects integer {what}, but got {}", shown(value))),
    }
}

fn add(name: &'static str, arguments: &[Option<Expression>], frame: &mut Frame<'_>, sign: i64) -> Result<Val> {
    let [start, unit, amount] = [0, 1, 2].map(|at| optional(arguments.get(at), frame));
    let (start, unit, amount) = (start?, unit?, amount?);
    let Some(zone) = zone_argument(name, arguments.get(3), frame)? else { return Ok(Some(Bson::Null)) };
    if nullish(&start) || nullish(&unit) || nullish(&amount) {
        return Ok(Some(Bson::Null));
    }
    let start = date_of(name, "startDate", &start)?;
    let amount = whole(name, "amount of time units", &amount)?.checked_mul(sign);
    let unit = unit_of(name, &unit)?;
    let shifted = amount.and_then(|amount| shift(start, unit, amount, &zone));
    match shifted {
        Some(millis) => Ok(Some(Bson::DateTime(DateTime::from_millis(millis)))),
        None => fail(5166406, format!("{name} overflowed")),
    }
}

fn shift(start: i64, unit: Unit, amount: i64, zone: &Zone) -> Option<i64> {
    match unit {
        Unit::Millis(length) => start.checked_add(amount.checked_mul(length)?),
        Unit::Days(length) => {
            let civil = Civil::at(start, zone);
            let days = civil.days().checked_add(amount.checked_mul(length)?)?;
            Some(zone.to_utc(days.checked_mul(DAY_MS)?.checked_add(civil.millis_of_day())?))
        }
        Unit::Months(length) => {
            let civil = Civil::at(start, zone);
            let months = civil.year.checked_mul(12)?.checked_add(i64::from(civil.month) - 1)?;
            let months = months.checked_add(amount.checked_mul(length)?).filter(|months| months.abs() < 4_000_000)?;
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
            // a day that the month does not have becomes its last
            let length = days_from_civil(year, month + 1, 1) - days_from_civil(year, month, 1);
            let days = days_from_civil(year, month, i64::from(civil.day).min(length));
            Some(zone.to_utc(days * DAY_MS + civil.millis_of_day()))
        }
    }
}

/// 0 for Sunday to 6; Sunday without one.
fn week_start(name: &str, value: &Val) -> Result<Option<i64>> {
    const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    match value {
        None => Ok(Some(0)),
        value if nullish(value) => Ok(None),
        Some(Bson::String(day)) => {
            let lower = day.to_ascii_lowercase();
            match DAYS.iter().position(|known| *known == lower || known[..3] == lower) {
                Some(at) => Ok(Some(at as i64)),
                None => fail(9, format!("unknown day of week value: {day}")),
            }
        }
        other => fail(5439015, format!("{name} requires 'startOfWeek' to be a string, but got {}", type_name(other))),
    }
}

fn difference(name: &'static str, arguments: &[Option<Expression>], frame: &mut Frame<'_>) -> Result<Val> {
    let [start, unit, end, week] = [0, 1, 2, 4].map(|at| optional(arguments.get(at), frame));
    let (start, unit, end, week) = (start?, unit?, end?, week?);
    let Some(zone) = zone_argument(name, arguments.get(3), frame)? else { return Ok(Some(Bson::Null)) };
    if nullish(&start) || nullish(&unit) || nullish(&end) {
        return Ok(Some(Bson::Null));
    }
    let unit = unit_of(name, &unit)?;
    let (start, end) = (date_of(name, "'startDate'", &start)?, date_of(name, "'endDate'", &end)?);
    let (from, to) = (Civil::at(start, &zone), Civil::at(end, &zone));
    let count = match unit {
        Unit::Millis(length) => {
            // boundaries crossed, on the local clock
            let local = |civil: &Civil| civil.days() * DAY_MS + civil.millis_of_day();
            if length == 1 { end - start } else { local(&to).div_euclid(length) - local(&from).div_euclid(length) }
        }
        Unit::Days(1) => to.days() - from.days(),
        Unit::Days(_) => {
            let Some(first) = week_start(name, &week)? else { return Ok(Some(Bson::Null)) };
            // day 4 before the epoch was a Sunday
            let index = |civil: &Civil| (civil.days() + 4 - first).div_euclid(7);
            index(&to) - index(&from)
        }
        Unit::Months(length) => {
            let index = |civil: &Civil| (civil.year * 12 + i64::from(civil.month) - 1).div_euclid(length);
            index(&to) - index(&from)
        }
    };
    Ok(Some(Bson::Int64(count)))
}

fn truncate(name: &'static str, arguments: &[Option<Expression>], frame: &mut Frame<'_>) -> Result<Val> {
    let [date, unit, bin, week] = [0, 1, 2, 4].map(|at| optional(arguments.get(at), frame));
    let (date, unit, bin, week) = (date?, unit?, bin?, week?);
    let Some(zone) = zone_argument(name, arguments.get(3), frame)? else { return Ok(Some(Bson::Null)) };
    let bin_given = matches!(arguments.get(2), Some(Some(_)));
    if nullish(&date) || nullish(&unit) || (bin_given && nullish(&bin)) {
        return Ok(Some(Bson::Null));
    }
    let bin = if bin_given { whole(name, "'binSize'", &bin)? } else { 1 };
    if bin <= 0 {
        return fail(5439018, format!("{name} requires 'binSize' to be greater than 0, but got value {bin}"));
    }
    let unit = unit_of(name, &unit)?;
    let civil = Civil::at(date_of(name, "'date'", &date)?, &zone);
    // bins count from 2000-01-01 (weeks from the first start of a week after it)
    let reference = days_from_civil(2000, 1, 1);
    let overflow = || CommandError::new(5439019, format!("{name} overflowed"));
    let local = match unit {
        Unit::Millis(length) => {
            let size = length.checked_mul(bin).ok_or_else(overflow)?;
            let local = civil.days() * DAY_MS + civil.millis_of_day() - reference * DAY_MS;
            local.div_euclid(size) * size + reference * DAY_MS
        }
        Unit::Days(1) => ((civil.days() - reference).div_euclid(bin) * bin + reference) * DAY_MS,
        Unit::Days(_) => {
            let Some(first) = week_start(name, &week)? else { return Ok(Some(Bson::Null)) };
            let start = reference + (first - (reference + 4)).rem_euclid(7);
            let size = bin.checked_mul(7).ok_or_else(overflow)?;
            ((civil.days() - start).div_euclid(size) * size + start) * DAY_MS
        }
        Unit::Months(length) => {
            let size = length.checked_mul(bin).ok_or_else(overflow)?;
            let months = (civil.year - 2000) * 12 + i64::from(civil.month) - 1;
            let floor = months.div_euclid(size) * size;
            days_from_civil(2000 + floor.div_euclid(12), floor.rem_euclid(12) + 1, 1) * DAY_MS
        }
    };
    Ok(Some(Bson::DateTime(DateTime::from_millis(zone.to_utc(local)))))
}
