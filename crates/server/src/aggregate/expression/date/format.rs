//! `$dateToString` and the format language that it shares with `$dateFromString`.

use bson::Bson;

use super::calendar::Civil;
use super::zones::Zone;
use super::{nullish, optional, shown, to_millis, type_name, zone_argument};
use crate::aggregate::expression::Expression;
use crate::aggregate::expression::lent::Val;
use crate::aggregate::expression::table::Parameters;
use crate::aggregate::expression::variables::Frame;
use crate::error::{Result, fail};

/// The operands of `$dateToString`.
pub(super) static TO_STRING: Parameters = Parameters {
    names: &["date", "format", "timezone", "onNull"],
    required: &[("date", 18628, "Missing 'date' parameter to $dateToString")],
    not_object: (18629, "$dateToString only supports an object as its argument"),
    unknown: (18534, "Unrecognized argument to $dateToString: {}"),
};

/// Checks a format for writing.
///
/// # Errors
/// 18535 for a percent sign at the end, 18536 for an unknown letter.
pub(super) fn check_format(format: &str, letters: &str) -> Result<()> {
    let mut chars = format.chars();
    while let Some(letter) = chars.next() {
        if letter != '%' {
            continue;
        }
        match chars.next() {
            None => return fail(18535, "Unmatched '%' at end of format string"),
            Some(letter) if letters.contains(letter) => {}
            Some(letter) => return fail(18536, format!("Invalid format character '%{letter}' in format string")),
        }
    }
    Ok(())
}

/// Letters that a format for writing may have.
const LETTERS: &str = "dGHjLmMSuUVwYzZ%";

/// Computes `$dateToString`.
pub(super) fn to_string(name: &'static str, arguments: &[Option<Expression>], frame: &mut Frame<'_>) -> Result<Val> {
    let format = optional(arguments.get(1), frame)?;
    let given = matches!(arguments.get(1), Some(Some(_)));
    let format = match &format {
        Some(Bson::String(format)) => {
            check_format(format, LETTERS)?;
            Some(format.clone())
        }
        value if given && nullish(value) => return Ok(Some(Bson::Null)),
        _ if !given => None,
        other => {
            let text = format!("$dateToString requires that 'format' be a string, found: {}", type_name(other));
            return fail(18533, format!("{text} with value {}", shown(other)));
        }
    };
    let Some(zone) = zone_argument(name, arguments.get(2), frame)? else { return Ok(Some(Bson::Null)) };
    let date = optional(arguments.first(), frame)?;
    if nullish(&date) {
        let on_null = optional(arguments.get(3), frame)?;
        let given = matches!(arguments.get(3), Some(Some(_)));
        return Ok(if given { on_null } else { Some(Bson::Null) });
    }
    let civil = Civil::at(to_millis(&date)?, &zone);
    let format = format.unwrap_or_else(|| {
        let utc = matches!(zone, Zone::Utc);
        if utc { "%Y-%m-%dT%H:%M:%S.%LZ" } else { "%Y-%m-%dT%H:%M:%S.%L" }.to_owned()
    });
    write(&civil, &format).map(|text| Some(Bson::String(text)))
}

fn write(civil: &Civil, format: &str) -> Result<String> {
    let mut out = String::with_capacity(format.len() + 16);
    let mut chars = format.chars();
    let four_digits = |year: i64| {
        if !(0..=9999).contains(&year) {
            return fail(18537, format!("$dateToString is only defined on year 0-9999, tried to use year {year}"));
        }
        Ok(format!("{year:04}"))
    };
    while let Some(letter) = chars.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let part = match chars.next() {
            Some('d') => format!("{:02}", civil.day),
            Some('G') => four_digits(civil.iso_week().0)?,
            Some('H') => format!("{:02}", civil.hour),
            Some('j') => format!("{:03}", civil.day_of_year()),
            Some('L') => format!("{:03}", civil.millisecond),
            Some('m') => format!("{:02}", civil.month),
            Some('M') => format!("{:02}", civil.minute),
            Some('S') => format!("{:02}", civil.second),
            Some('u') => civil.iso_weekday().to_string(),
            Some('U') => format!("{:02}", civil.week()),
            Some('V') => format!("{:02}", civil.iso_week().1),
            Some('w') => (civil.weekday() + 1).to_string(),
            Some('Y') => four_digits(civil.year)?,
            Some('z') => {
                let minutes = civil.offset_s.abs() / 60;
                let sign = if civil.offset_s < 0 { '-' } else { '+' };
                format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
            }
            Some('Z') => (civil.offset_s / 60).to_string(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        out.push_str(&part);
    }
    Ok(out)
}
