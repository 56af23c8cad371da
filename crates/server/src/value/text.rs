//! Values as a mongod spells them in error texts.
//!
//! Three spellings exist: [`document`] and [`element`] for BSON (`{ a: 1, s: "x" }`), [`value`] for values inside
//! aggregation (`{a: 1, s: "x"}`), and [`safe_number`] for numbers in update errors (`(NumberLong)5`).

use std::fmt::Write;

use super::decimal::Dec;
use super::number::Number;
use super::{ArrayView, DocView, View};

/// Nesting beyond this is cut off with dots.
const MAX_DEPTH: usize = 100;

/// A document: `{ a: 1, b: [ 2 ] }`.
pub fn document<'a>(document: impl Into<DocView<'a>>) -> String {
    let mut out = String::new();
    write_document(&mut out, document.into(), 0);
    out
}

/// A value without its name.
pub fn bson(value: View<'_>) -> String {
    let mut out = String::new();
    write_bson(&mut out, value, 0);
    out
}

/// A field: `a: 1`.
pub fn element(name: &str, value: View<'_>) -> String {
    format!("{name}: {}", bson(value))
}

fn write_document(out: &mut String, document: DocView<'_>, depth: usize) {
    if document.is_empty() {
        out.push_str("{}");
        return;
    }
    if depth > MAX_DEPTH {
        out.push_str("{ ... }");
        return;
    }
    out.push_str("{ ");
    for (at, (name, value)) in document.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(name);
        out.push_str(": ");
        write_bson(out, value, depth + 1);
    }
    out.push_str(" }");
}

fn write_array(out: &mut String, array: ArrayView<'_>, depth: usize) {
    if array.is_empty() {
        out.push_str("[]");
        return;
    }
    if depth > MAX_DEPTH {
        out.push_str("[ ... ]");
        return;
    }
    out.push_str("[ ");
    for (at, value) in array.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write_bson(out, value, depth + 1);
    }
    out.push_str(" ]");
}

/// The first `limit` bytes, back to a character boundary.
fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

fn write_bson(out: &mut String, value: View<'_>, depth: usize) {
    // writing to a String cannot fail
    let _ = match value {
        View::Double(value) => write!(out, "{}", double(value)),
        View::String(text) | View::Symbol(text) => {
            if text.len() + 1 > 160 {
                write!(out, "\"{}...\"", cut(text, 70))
            } else {
                write!(out, "\"{text}\"")
            }
        }
        View::Document(inner) => {
            write_document(out, inner, depth);
            Ok(())
        }
        View::Array(inner) => {
            write_array(out, inner, depth);
            Ok(())
        }
        View::Binary { subtype: 4, bytes } if bytes.len() == 16 => write!(out, "UUID(\"{}\")", uuid(bytes)),
        View::Binary { subtype, bytes } if bytes.len() > 80 => {
            write!(out, "BinData({subtype}, {}...)", hex(&bytes[..70]))
        }
        View::Binary { subtype, bytes } => write!(out, "BinData({subtype}, {})", hex(bytes)),
        View::Undefined => write!(out, "undefined"),
        View::ObjectId(id) => write!(out, "ObjectId('{id}')"),
        View::Bool(value) => write!(out, "{value}"),
        View::DateTime(millis) => write!(out, "new Date({millis})"),
        View::Null => write!(out, "null"),
        View::Regex { pattern, options } => write!(out, "/{pattern}/{options}"),
        View::DbPointer(pointer) => {
            let (namespace, id) = pointer.parts();
            write!(out, "DBRef('{namespace}',{id})")
        }
        View::Code(code) if code.len() + 1 > 80 => write!(out, "{}...", cut(code, 70)),
        View::Code(code) => write!(out, "{code}"),
        View::CodeWithScope { code, scope } => {
            let _ = write!(out, "CodeWScope( {code}, ");
            write_document(out, scope, depth + 1);
            write!(out, ")")
        }
        View::Int32(value) => write!(out, "{value}"),
        View::Timestamp { time, increment } => write!(out, "Timestamp({time}, {increment})"),
        View::Int64(value) => write!(out, "{value}"),
        View::Decimal(value) => write!(out, "{}", Dec::from_bson(value)),
        View::MinKey => write!(out, "MinKey"),
        View::MaxKey => write!(out, "MaxKey"),
    };
}

/// A double with 16 digits, and `.0` where that shows neither a point nor a capital letter of an exponent.
pub fn double(value: f64) -> String {
    let mut text = general(value, 16);
    if !text.contains(['.', 'E', 'N']) {
        text.push_str(".0");
    }
    text
}

/// C's `%.<precision>g`.
pub fn general(value: f64, precision: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{:.*e}", precision - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        let mantissa = trim_fraction(mantissa);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let fraction = (precision as i32 - 1 - exponent).max(0) as usize;
    trim_fraction(&format!("{value:.fraction$}")).to_owned()
}

fn trim_fraction(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// A number alone, as a C++ stream writes it.
pub fn plain_number(value: Number) -> String {
    match value {
        Number::Int(value) => value.to_string(),
        Number::Long(value) => value.to_string(),
        Number::Double(value) => general(value, 6),
        Number::Decimal(value) => value.to_string(),
    }
}

/// A number as update errors name it: `(NumberLong)5`.
pub fn safe_number(value: Number) -> String {
    match value {
        Number::Int(value) => format!("(NumberInt){value}"),
        Number::Long(value) => format!("(NumberLong){value}"),
        Number::Double(value) => format!("(NumberDouble){}", general(value, 6)),
        Number::Decimal(value) => format!("(NumberDecimal){value}"),
    }
}

/// Upper-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02X}");
        out
    })
}

/// The usual spelling of a UUID's 16 bytes.
pub fn uuid(bytes: &[u8]) -> String {
    <[u8; 16]>::try_from(bytes).map(|bytes| uuid::Uuid::from_bytes(bytes).to_string()).unwrap_or_default()
}

/// A value as the aggregation engine writes it: `{a: 1, s: "x"}`, `[1, 2]`, dates in ISO form.
pub fn value(value: View<'_>) -> String {
    let mut out = String::new();
    write_value(&mut out, value, 0);
    out
}

/// A document as the aggregation engine writes it.
pub fn value_document<'a>(document: impl Into<DocView<'a>>) -> String {
    value(View::Document(document.into()))
}

fn write_value(out: &mut String, value: View<'_>, depth: usize) {
    if depth > MAX_DEPTH {
        out.push_str("...");
        return;
    }
    let _ = match value {
        View::Document(document) => {
            out.push('{');
            for (at, (name, value)) in document.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                out.push_str(name);
                out.push_str(": ");
                write_value(out, value, depth + 1);
            }
            write!(out, "}}")
        }
        View::Array(array) => {
            out.push('[');
            for (at, value) in array.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write_value(out, value, depth + 1);
            }
            write!(out, "]")
        }
        View::String(text) => write!(out, "\"{text}\""),
        View::Symbol(text) => write!(out, "Symbol(\"{text}\")"),
        View::Code(code) => write!(out, "Code(\"{code}\")"),
        View::CodeWithScope { code, scope } => {
            let _ = write!(out, "CodeWScope(\"{code}\", ");
            write_value(out, View::Document(scope), depth + 1);
            write!(out, ")")
        }
        View::Double(value) => write!(out, "{}", general(value, 6)),
        View::ObjectId(id) => write!(out, "{id}"),
        View::DateTime(millis) => write!(out, "{}", iso_date(millis)),
        View::Binary { subtype, bytes } => write!(out, "BinData({subtype}, \"{}\")", hex(bytes)),
        View::DbPointer(pointer) => {
            let (namespace, id) = pointer.parts();
            write!(out, "DBRef(\"{namespace}\", {id})")
        }
        other => {
            write_bson(out, other, depth);
            Ok(())
        }
    };
}

/// Days since the epoch as year, month (1..=12) and day, in the proleptic Gregorian calendar.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Milliseconds since the epoch as `2020-01-02T03:04:05.006Z`.
pub fn iso_date(millis: i64) -> String {
    let (year, month, day) = civil_from_days(millis.div_euclid(86_400_000));
    let rest = millis.rem_euclid(86_400_000);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, doc};

    #[test]
    fn both_spellings() {
        let check = |document: bson::Document, spaced: &str, tight: &str| {
            assert_eq!(super::document(&document), spaced);
            assert_eq!(value_document(&document), tight);
            let raw = super::super::view::to_raw(&document).unwrap();
            assert_eq!(super::document(&raw), spaced);
        };
        check(doc! {}, "{}", "{}");
        check(doc! { "a": 1, "s": "x" }, r#"{ a: 1, s: "x" }"#, r#"{a: 1, s: "x"}"#);
        check(doc! { "a": [1_i64, []], "d": {} }, "{ a: [ 1, [] ], d: {} }", "{a: [1, []], d: {}}");
        check(doc! { "a": 1.0, "b": 2.5 }, "{ a: 1.0, b: 2.5 }", "{a: 1, b: 2.5}");
        check(
            doc! { "d": bson::DateTime::from_millis(1_577_934_245_006) },
            "{ d: new Date(1577934245006) }",
            "{d: 2020-01-02T03:04:05.006Z}",
        );
        check(
            doc! { "t": bson::Timestamp { time: 5, increment: 6 }, "n": null, "m": Bson::MinKey },
            "{ t: Timestamp(5, 6), n: null, m: MinKey }",
            "{t: Timestamp(5, 6), n: null, m: MinKey}",
        );
        let id = bson::oid::ObjectId::from_bytes([1; 12]);
        check(doc! { "i": id }, "{ i: ObjectId('010101010101010101010101') }", "{i: 010101010101010101010101}");
        let uuid = bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![15; 16] };
        check(
            doc! { "u": uuid },
            "{ u: UUID(\"0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f\") }",
            "{u: BinData(4, \"0F0F0F0F0F0F0F0F0F0F0F0F0F0F0F0F\")}",
        );
        let long = "y".repeat(160);
        check(doc! { "s": &long }, &format!("{{ s: \"{}...\" }}", "y".repeat(70)), &format!("{{s: \"{long}\"}}"));
    }

    #[test]
    fn doubles() {
        for (value, want) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e20, "1e+20.0"),
            (1.5e-7, "1.5e-07"),
            (123_456_789.125, "123456789.125"),
            (f64::INFINITY, "inf.0"),
            (-0.0, "-0.0"),
            (1.0 / 3.0, "0.3333333333333333"),
        ] {
            assert_eq!(double(value), want);
        }
        assert_eq!(general(1_234_567.0, 6), "1.23457e+06");
    }

    #[test]
    fn numbers_of_updates() {
        assert_eq!(safe_number(Number::Long(i64::MAX)), "(NumberLong)9223372036854775807");
        assert_eq!(safe_number(Number::Double(1.5)), "(NumberDouble)1.5");
    }

    #[test]
    fn calendar() {
        assert_eq!(civil_from_days(0), (1970, 1, 1));
        assert_eq!(civil_from_days(-719_528), (0, 1, 1));
        assert_eq!(iso_date(-1), "1969-12-31T23:59:59.999Z");
    }
}
