//! `$dateFromString`, and dates in free text.
//!
//! Free text covers ISO 8601, `2017/02/08`, `02/08/2017`, `08-02-2017`, `Feb 8, 2017`, `8 February 2017`, each with an
//! optional time (12 or 24 hours), fraction and offset. The full grammar of the library that a mongod uses is larger
//! (relative times such as "next monday" are refused here).

use bson::{Bson, DateTime};

use super::calendar::{DAY_MS, days_from_civil, iso_year_start};
use super::format::check_format;
use super::zones::{Zone, parse_offset};
use super::{MONTHS, nullish, optional, shown, type_name, zone_argument};
use crate::aggregate::expression::Expression;
use crate::aggregate::expression::lent::Val;
use crate::aggregate::expression::table::Parameters;
use crate::aggregate::expression::variables::Frame;
use crate::error::{CommandError, Result, fail};

/// The operands of `$dateFromString`.
pub(super) static FROM_STRING: Parameters = Parameters {
    names: &["dateString", "timezone", "format", "onNull", "onError"],
    required: &[("dateString", 40542, "Missing 'dateString' parameter to $dateFromString")],
    not_object: (40540, "$dateFromString only supports an object as an argument, found: {}"),
    unknown: (40541, "Unrecognized argument to $dateFromString: {}"),
};

/// `ConversionFailure`.
const FAILURE: i32 = 241;
/// Letters that a format for reading may have.
const LETTERS: &str = "dGHjLmMSuVYzZb%B";

/// Computes `$dateFromString`.
pub(super) fn from_string(name: &'static str, arguments: &[Option<Expression>], frame: &mut Frame<'_>) -> Result<Val> {
    let given = |at: usize| matches!(arguments.get(at), Some(Some(_)));
    let format = optional(arguments.get(2), frame)?;
    let format = match format {
        Some(Bson::String(format)) => {
            check_format(&format, LETTERS)?;
            Some(format)
        }
        value if nullish(&value) && given(2) => return Ok(Some(Bson::Null)),
        _ if !given(2) => None,
        other => {
            let text = format!("$dateFromString requires that 'format' be a string, found: {}", type_name(&other));
            return fail(40684, format!("{text} with value {}", shown(&other)));
        }
    };
    let zone_given = given(1);
    let zone = zone_argument(name, arguments.get(1), frame)?;
    let input = optional(arguments.first(), frame)?;
    if nullish(&input) {
        return if given(3) { optional(arguments.get(3), frame) } else { Ok(Some(Bson::Null)) };
    }
    let Some(zone) = zone else { return Ok(Some(Bson::Null)) };
    let parsed = match &input {
        Some(Bson::String(text)) => match format {
            Some(format) => formatted(text, &format).and_then(|parts| parts.to_millis(text, &zone, zone_given)),
            None => tokens(text).and_then(|parts| parts.to_millis(text, &zone, zone_given)),
        },
        other => {
            let text = format!("$dateFromString requires that 'dateString' be a string, found: {}", type_name(other));
            fail(FAILURE, format!("{text} with value {}", shown(other)))
        }
    };
    match parsed {
        Ok(millis) => Ok(Some(Bson::DateTime(DateTime::from_millis(millis)))),
        Err(_) if given(4) => optional(arguments.get(4), frame),
        Err(error) => Err(error),
    }
}

/// Milliseconds of a date in free text; `zone` holds where the text names none.
///
/// # Errors
/// `ConversionFailure`.
pub(crate) fn free(text: &str, zone: &Zone) -> Result<i64> {
    tokens(text)?.to_millis(text, zone, false)
}

/// What was read of a date.
#[derive(Debug, Default)]
struct Parts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    millisecond: Option<i64>,
    offset_s: Option<i64>,
    /// The name of the zone in the text, for error texts.
    zone_name: Option<String>,
    /// Seconds since the epoch, instead of everything else.
    epoch_s: Option<i64>,
}

impl Parts {
    fn to_millis(&self, text: &str, zone: &Zone, zone_given: bool) -> Result<i64> {
        if zone_given && let Some(name) = &self.zone_name {
            let text = if name.starts_with(['+', '-']) {
                "you cannot pass in a date/time string with GMT offset together with a timezone argument".to_owned()
            } else {
                let text = "you cannot pass in a date/time string with time zone information";
                format!("{text} ('{name}') together with a timezone argument")
            };
            return fail(FAILURE, text);
        }
        if let Some(seconds) = self.epoch_s {
            return Ok(seconds.saturating_mul(1000));
        }
        let incomplete = || {
            let what = "an incomplete date/time string has been found, with elements missing";
            CommandError::new(FAILURE, format!("{what}: \"{text}\""))
        };
        let days = match (self.iso_year, self.day_of_year) {
            (Some(year), _) => {
                iso_year_start(year) + (self.iso_week.unwrap_or(1) - 1) * 7 + self.iso_day.unwrap_or(1) - 1
            }
            (None, Some(day)) => days_from_civil(self.year.ok_or_else(incomplete)?, 1, 1) + day - 1,
            (None, None) => match (self.year, self.month, self.day) {
                (Some(year), Some(month), Some(day)) => days_from_civil(year, month, day),
                _ => return Err(incomplete()),
            },
        };
        let seconds = self.hour.unwrap_or(0) * 3600 + self.minute.unwrap_or(0) * 60 + self.second.unwrap_or(0);
        let local = days * DAY_MS + seconds * 1000 + self.millisecond.unwrap_or(0);
        Ok(match self.offset_s {
            Some(offset) => local - offset * 1000,
            None => zone.to_utc(local),
        })
    }
}

fn refuse<T>(text: &str, at: usize, why: &str) -> Result<T> {
    let letter = text[at.min(text.len())..].chars().next().map(String::from).unwrap_or_default();
    fail(FAILURE, format!("Error parsing date string '{text}'; {at}: {why} '{letter}'"))
}

/// A reader over the text.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|letter: char| !accept(letter)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn take(&mut self, letter: char) -> bool {
        let found = self.peek() == Some(letter);
        if found {
            self.at += letter.len_utf8();
        }
        found
    }

    /// A number of `least` to `most` digits.
    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let rest = self.rest();
        let digits = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if digits < least {
            return None;
        }
        self.at += digits;
        rest[..digits].parse().ok()
    }

    /// The fraction of a second in milliseconds, its point taken.
    fn fraction(&mut self) -> Option<i64> {
        let digits = self.take_while(|letter| letter.is_ascii_digit());
        let padded: String = digits.chars().chain("000".chars()).take(3).collect();
        if digits.is_empty() { None } else { padded.parse().ok() }
    }

    /// A numeric offset such as `+05`, `-0530`, `+5:30`.
    fn offset(&mut self) -> Option<(i64, String)> {
        let start = self.at;
        self.at += 1;
        let hours = self.take_while(|letter| letter.is_ascii_digit());
        let minutes =
            if hours.len() <= 2 && self.take(':') { self.take_while(|letter| letter.is_ascii_digit()) } else { "" };
        let name = self.text[start..self.at].to_owned();
        let sign = if name.starts_with('-') { -1 } else { 1 };
        if let Some(offset) = parse_offset(&name) {
            return Some((offset, name));
        }
        let hour: i64 = hours.parse().ok().filter(|_| hours.len() <= 2)?;
        let minute: i64 = if minutes.is_empty() { 0 } else { minutes.parse().ok().filter(|_| minutes.len() <= 2)? };
        Some((sign * (hour * 3600 + minute * 60), name))
    }
}

fn month_named(word: &str) -> Option<i64> {
    const LONG: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let word = word.to_ascii_lowercase();
    let known =
        |at: &usize| word == LONG[*at] || word == MONTHS[*at].to_ascii_lowercase() || (*at == 8 && word == "sept");
    (0..12).find(known).map(|at| at as i64 + 1)
}

/// Abbreviations of zones that a text may name, with their offsets in seconds.
const ABBREVIATIONS: &[(&str, i64)] = &[
    ("z", 0),
    ("utc", 0),
    ("gmt", 0),
    ("est", -18_000),
    ("edt", -14_400),
    ("cst", -21_600),
    ("cdt", -18_000),
    ("mst", -25_200),
    ("mdt", -21_600),
    ("pst", -28_800),
    ("pdt", -25_200),
    ("cet", 3600),
    ("cest", 7200),
    ("bst", 3600),
    ("ist", 19_800),
    ("jst", 32_400),
    ("eet", 7200),
    ("eest", 10_800),
    ("msk", 10_800),
    ("wet", 0),
    ("west", 3600),
];

fn is_weekday(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
        .iter()
        .any(|day| word == *day || word == day[..3] || (word.len() > 3 && day.starts_with(&word)))
}

fn tokens(text: &str) -> Result<Parts> {
    let mut reader = Reader { text, at: 0 };
    let mut parts = Parts::default();
    if text.trim().is_empty() {
        return refuse(text, 0, "Empty string");
    }
    // numbers that stand alone beside a month name: a day, then a year
    let mut loose: Vec<(i64, usize)> = Vec::new();
    while let Some(letter) = reader.peek() {
        let start = reader.at;
        if letter.is_whitespace() || letter == ',' {
            reader.at += letter.len_utf8();
        } else if letter == '@' {
            reader.at += 1;
            let negative = reader.take('-');
            match reader.number(1, 18) {
                Some(seconds) => parts.epoch_s = Some(if negative { -seconds } else { seconds }),
                None => return refuse(text, start, "Unexpected character"),
            }
        } else if letter.is_ascii_digit() {
            number_token(&mut reader, &mut parts, &mut loose)?;
        } else if letter.is_alphabetic() {
            word_token(&mut reader, &mut parts)?;
        } else if matches!(letter, '+' | '-') && (parts.hour.is_some() || parts.day.is_some()) {
            match reader.offset() {
                Some((offset, name)) if parts.offset_s.is_none() => {
                    parts.offset_s = Some(offset);
                    parts.zone_name = Some(name);
                }
                Some(_) => return refuse(text, start, "Double timezone specification"),
                None => return refuse(text, start, "Unexpected character"),
            }
        } else {
            return refuse(text, start, "Unexpected character");
        }
    }
    for (value, digits) in loose {
        if digits <= 2 && parts.day.is_none() {
            parts.day = Some(value);
        } else if parts.year.is_none() {
            parts.year = Some(if digits == 2 { short_year(value) } else { value });
        } else {
            return refuse(text, 0, "Unexpected character");
        }
    }
    let in_range = |value: Option<i64>, low: i64, high: i64| value.is_none_or(|value| (low..=high).contains(&value));
    if !(in_range(parts.month, 1, 12) && in_range(parts.day, 1, 31) && in_range(parts.hour, 0, 24)) {
        return refuse(text, 0, "Unexpected character");
    }
    Ok(parts)
}

fn short_year(value: i64) -> i64 {
    value + if value < 70 { 2000 } else { 1900 }
}

/// A word: a month, a weekday, `T`, am or pm, a zone.
fn word_token(reader: &mut Reader<'_>, parts: &mut Parts) -> Result<()> {
    let (text, start) = (reader.text, reader.at);
    let word = reader.take_while(|letter| letter.is_alphabetic());
    let lower = word.to_ascii_lowercase();
    if let Some(month) = month_named(word) {
        reader.take('.');
        if parts.month.is_some() {
            return refuse(text, start, "Double date specification");
        }
        parts.month = Some(month);
    } else if is_weekday(word) || matches!(lower.as_str(), "st" | "nd" | "rd" | "th" | "of" | "at") {
        reader.take('.');
    } else if lower == "t" && reader.peek().is_some_and(|letter| letter.is_ascii_digit()) {
        // what follows is the time
    } else if matches!(lower.as_str(), "am" | "pm") && parts.hour.is_some() {
        let hour = parts.hour.unwrap_or(0);
        parts.hour = Some(hour % 12 + if lower == "pm" { 12 } else { 0 });
    } else if let Some((_, offset)) = ABBREVIATIONS.iter().find(|(name, _)| *name == lower) {
        if parts.offset_s.is_some() {
            return refuse(text, start, "Double timezone specification");
        }
        parts.offset_s = Some(*offset);
        parts.zone_name = Some(word.to_owned());
        if matches!(reader.peek(), Some('+' | '-'))
            && let Some((offset, name)) = reader.offset()
        {
            parts.offset_s = Some(offset);
            parts.zone_name = Some(name);
        }
    } else {
        return refuse(text, start, "passing a time zone identifier as part of the string is not allowed");
    }
    Ok(())
}

/// Digits: a date, a time, or a number beside a month name.
fn number_token(reader: &mut Reader<'_>, parts: &mut Parts, loose: &mut Vec<(i64, usize)>) -> Result<()> {
    let (text, start) = (reader.text, reader.at);
    let digits = reader.take_while(|letter| letter.is_ascii_digit());
    let count = digits.len();
    let value: i64 = match digits.parse() {
        Ok(value) if count <= 14 => value,
        _ => return refuse(text, start, "Unexpected character"),
    };
    let next = reader.peek();
    let dated = parts.day.is_some() || parts.year.is_some();
    match next {
        Some(':') if count <= 2 => {
            time(reader, parts, value);
            return Ok(());
        }
        Some(separator @ ('-' | '/' | '.')) if !dated && parts.month.is_none() => {
            return date(reader, parts, value, count, separator);
        }
        Some('-') if !dated && count <= 2 => {
            // 08-Feb-2017
            reader.at += 1;
        }
        _ => {}
    }
    let rest = reader.rest().trim_start().to_ascii_lowercase();
    if count <= 2 && (rest.starts_with("am") || rest.starts_with("pm")) {
        parts.hour = Some(value);
        return Ok(());
    }
    match count {
        8 if !dated => {
            (parts.year, parts.month, parts.day) = (Some(value / 10_000), Some(value / 100 % 100), Some(value % 100));
        }
        14 if !dated => {
            let (day, time) = (value / 1_000_000, value % 1_000_000);
            (parts.year, parts.month, parts.day) = (Some(day / 10_000), Some(day / 100 % 100), Some(day % 100));
            (parts.hour, parts.minute, parts.second) = (Some(time / 10_000), Some(time / 100 % 100), Some(time % 100));
        }
        4 | 6 if parts.day.is_some() && parts.year.is_some() && parts.hour.is_none() => {
            let time = if count == 4 { value * 100 } else { value };
            (parts.hour, parts.minute, parts.second) = (Some(time / 10_000), Some(time / 100 % 100), Some(time % 100));
            if reader.take('.') {
                parts.millisecond = reader.fraction();
            }
        }
        2 if dated && parts.hour.is_none() && text[..start].ends_with(['T', 't']) => parts.hour = Some(value),
        1 | 2 | 4 => loose.push((value, count)),
        _ => return refuse(text, start, "Unexpected character"),
    }
    Ok(())
}

fn time(reader: &mut Reader<'_>, parts: &mut Parts, hour: i64) {
    parts.hour = Some(hour);
    reader.take(':');
    parts.minute = reader.number(1, 2);
    if reader.take(':') {
        parts.second = reader.number(1, 2);
        if (reader.peek() == Some('.') || reader.peek() == Some(','))
            && reader.rest()[1..].starts_with(|letter: char| letter.is_ascii_digit())
        {
            reader.at += 1;
            parts.millisecond = reader.fraction();
        }
    }
}

/// A date with separators, its first number taken.
fn date(reader: &mut Reader<'_>, parts: &mut Parts, first: i64, count: usize, separator: char) -> Result<()> {
    let (text, start) = (reader.text, reader.at);
    reader.take(separator);
    if count == 4 && separator == '-' && reader.take('W') {
        // 2017-W06-3
        parts.iso_year = Some(first);
        parts.iso_week = reader.number(2, 2);
        if reader.take('-') {
            parts.iso_day = reader.number(1, 1);
        }
        return Ok(());
    }
    if reader.peek().is_some_and(char::is_alphabetic) {
        // 08-Feb-2017
        let word = reader.take_while(char::is_alphabetic);
        let Some(month) = month_named(word) else { return refuse(text, start, "Unexpected character") };
        parts.month = Some(month);
        reader.take(separator);
        let Some(last) = reader.number(1, 4) else { return refuse(text, start, "Unexpected character") };
        (parts.year, parts.day) = if count == 4 { (Some(first), Some(last)) } else { (Some(last), Some(first)) };
        return Ok(());
    }
    let Some(second) = reader.number(1, 3) else { return refuse(text, start, "Unexpected character") };
    if !reader.take(separator) {
        if count != 4 {
            return refuse(text, start, "Unexpected character");
        }
        parts.year = Some(first);
        if second > 31 {
            parts.day_of_year = Some(second);
        } else {
            // 2017-02 is its first day
            (parts.month, parts.day) = (Some(second), Some(1));
        }
        return Ok(());
    }
    let before = reader.at;
    let Some(third) = reader.number(1, 4) else { return refuse(text, reader.at, "Unexpected character") };
    let long = reader.at - before == 4;
    (parts.year, parts.month, parts.day) = match (count, separator) {
        (4, _) => (Some(first), Some(second), Some(third)),
        (_, '/') => (Some(if long { third } else { short_year(third) }), Some(first), Some(second)),
        _ if long => (Some(third), Some(second), Some(first)),
        _ => (Some(short_year(first)), Some(second), Some(third)),
    };
    Ok(())
}

/// Reads a text by a format.
fn formatted(text: &str, format: &str) -> Result<Parts> {
    let mut reader = Reader { text, at: 0 };
    let mut parts = Parts::default();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        let start = reader.at;
        if letter != '%' {
            if !reader.take(letter) {
                return refuse(text, start, "Format literal not found");
            }
            continue;
        }
        let mut number = |least: usize, most: usize, why: &str| match reader.number(least, most) {
            Some(value) => Ok(Some(value)),
            None => refuse(text, start, why),
        };
        match letters.next() {
            Some('d') => parts.day = number(2, 2, "A two digit day could not be found")?,
            Some('G') => parts.iso_year = number(4, 4, "A four digit year could not be found")?,
            Some('H') => parts.hour = number(2, 2, "A two digit hour could not be found")?,
            Some('j') => parts.day_of_year = number(3, 3, "A three digit day-of-year could not be found")?,
            Some('L') => parts.millisecond = number(3, 3, "A three digit millisecond could not be found")?,
            Some('m') => parts.month = number(2, 2, "A two digit month could not be found")?,
            Some('M') => parts.minute = number(2, 2, "A two digit minute could not be found")?,
            Some('S') => parts.second = number(2, 2, "A two digit second could not be found")?,
            Some('u') => parts.iso_day = number(1, 1, "A one digit day of week could not be found")?,
            Some('V') => parts.iso_week = number(2, 2, "A two digit week could not be found")?,
            Some('Y') => parts.year = number(4, 4, "A four digit year could not be found")?,
            Some('b' | 'B') => {
                let word = reader.take_while(char::is_alphabetic);
                let Some(month) = month_named(word) else {
                    return refuse(text, start, "A textual month could not be found");
                };
                parts.month = Some(month);
            }
            Some('z') => match reader.peek() {
                Some('+' | '-') => match reader.offset() {
                    Some((offset, name)) => (parts.offset_s, parts.zone_name) = (Some(offset), Some(name)),
                    None => return refuse(text, start, "The timezone could not be found in the database"),
                },
                Some('Z') => {
                    reader.at += 1;
                    (parts.offset_s, parts.zone_name) = (Some(0), Some("Z".to_owned()));
                }
                _ => return refuse(text, start, "The timezone could not be found in the database"),
            },
            Some('Z') => {
                let negative = reader.take('-');
                reader.take('+');
                match reader.number(1, 4) {
                    Some(minutes) => {
                        parts.offset_s = Some(minutes * if negative { -60 } else { 60 });
                        parts.zone_name = Some(text[start..reader.at].to_owned());
                    }
                    None => return refuse(text, start, "Invalid timezone offset in minutes"),
                }
            }
            _ => {
                if !reader.take('%') {
                    return refuse(text, start, "Format literal not found");
                }
            }
        }
    }
    if reader.at < text.len() {
        return refuse(text, reader.at, "Trailing data");
    }
    let mixed = parts.iso_year.is_some() || parts.iso_week.is_some() || parts.iso_day.is_some();
    if mixed && (parts.year.is_some() || parts.month.is_some() || parts.day.is_some()) {
        return refuse(text, 0, "Mixing of ISO dates with natural dates is not allowed");
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn free_text() {
        let check = |text: &str, want: i64| assert_eq!(free(text, &Zone::Utc).unwrap(), want, "{text}");
        let noon = 1_486_512_000_000_i64;
        for day in [
            "2017-02-08",
            "2017/02/08",
            "02/08/2017",
            "08-02-2017",
            "20170208",
            "Feb 8, 2017",
            "8 February 2017",
            "February 8th 2017",
            "08-Feb-2017",
            "2017-039",
            "2017-W06-3",
            "Wed, 08 Feb 2017",
        ] {
            check(day, noon);
        }
        let time = noon + 43_830_787;
        check("2017-02-08T12:10:30.787Z", time);
        check("2017-02-08 12:10:30.787", time);
        check("2017-02-08T12:10:30.787+00:00", time);
        check("2017-02-08T14:10:30.787+02", time);
        check("2017-02-08T07:10:30.787 EST", time);
        check("Feb 8, 2017 12:10:30 PM", time - 787);
        check("20170208T121030", time - 787);
        check("@1486555830", time - 787);
    }

    #[test]
    fn refusals() {
        let check = |text: &str, want: &str| assert_eq!(free(text, &Zone::Utc).unwrap_err().message, want);
        let nope = "Error parsing date string 'nope'; 0: passing a time zone identifier as part of the string is not allowed 'n'";
        check("nope", nope);
        check("12:30", "an incomplete date/time string has been found, with elements missing: \"12:30\"");
    }

    #[test]
    fn formats() {
        let check = |text: &str, format: &str, want: i64| {
            let parts = formatted(text, format).unwrap();
            assert_eq!(parts.to_millis(text, &Zone::Utc, false).unwrap(), want, "{text}");
        };
        check("08/02/2017", "%d/%m/%Y", 1_486_512_000_000);
        check("2017-02-08T12:00:00.000+0100", "%Y-%m-%dT%H:%M:%S.%L%z", 1_486_551_600_000);
        check("2017-06-3", "%G-%V-%u", 1_486_512_000_000);
        assert!(formatted("2017-02-08x", "%Y-%m-%d").is_err());
    }

    proptest! {
        #[test]
        fn anything_is_a_date_or_an_error(text in "\\PC{0,16}", format in "(%[a-zA-Z%]|\\PC){0,5}") {
            let _ = free(&text, &Zone::Utc);
            let _ = formatted(&text, &format);
        }

        #[test]
        fn date_like(text in "[0-9TZ :./+-]{0,24}") {
            let _ = free(&text, &Zone::Utc);
        }
    }
}
