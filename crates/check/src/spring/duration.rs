//! Durations as Spring Boot binds them: `30s`, `500ms`, `PT30S`, or a plain number in the property's unit.

/// The unit of a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds: the default.
    Millis,
    /// Seconds: `@DurationUnit(SECONDS)`.
    Seconds,
}

/// Milliseconds; `None`: this is no duration.
pub fn parse_ms(text: &str, unit: Unit) -> Option<i64> {
    let text = text.trim();
    let upper = text.to_ascii_uppercase();
    let unsigned = upper.trim_start_matches(['+', '-']);
    if unsigned.starts_with('P') {
        let value = iso_ms(unsigned)?;
        return Some(if upper.starts_with('-') { -value } else { value });
    }
    let end = text.char_indices().find(|(at, c)| !(c.is_ascii_digit() || (*at == 0 && matches!(c, '+' | '-'))));
    let end = end.map_or(text.len(), |(at, _)| at);
    let number: i64 = text[..end].parse().ok()?;
    let suffix = text[end..].trim().to_ascii_lowercase();
    let factor = match (suffix.as_str(), unit) {
        ("", Unit::Millis) | ("ms", _) => 1,
        ("", Unit::Seconds) | ("s", _) => 1_000,
        ("m", _) => 60_000,
        ("h", _) => 3_600_000,
        ("d", _) => 86_400_000,
        ("ns", _) => return Some(number / 1_000_000),
        ("us", _) => return Some(number / 1_000),
        _ => return None,
    };
    number.checked_mul(factor)
}

/// `PnDTnHnMn.nS`.
fn iso_ms(text: &str) -> Option<i64> {
    let (days, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((days, time)) => (days, time),
        None => (text.strip_prefix('P')?, ""),
    };
    let mut total = 0_i64;
    for (part, units) in
        [(days, &[('D', 86_400_000.0)][..]), (time, &[('H', 3_600_000.0), ('M', 60_000.0), ('S', 1_000.0)])]
    {
        let mut rest = part;
        while !rest.is_empty() {
            let at = rest.find(|c: char| c.is_ascii_alphabetic())?;
            let number: f64 = rest[..at].parse().ok()?;
            let letter = rest[at..].chars().next()?;
            let (_, factor) = units.iter().find(|(unit, _)| *unit == letter)?;
            total = total.checked_add((number * factor).round() as i64)?;
            rest = &rest[at + 1..];
        }
    }
    (days.len() + time.len() > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling() {
        let cases = [
            ("30s", Some(30_000)),
            ("500ms", Some(500)),
            ("500", Some(500)),
            ("2m", Some(120_000)),
            ("2 m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("PT30S", Some(30_000)),
            ("pt1m30.5s", Some(90_500)),
            ("P1DT1H", Some(90_000_000)),
            ("-PT1S", Some(-1_000)),
            ("-1", Some(-1)),
            ("5x", None),
            ("", None),
            ("P", None),
            ("PT5", None),
            ("9223372036854775807h", None),
            ("é", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_ms(text, Unit::Millis), expected, "{text}");
        }
        assert_eq!(parse_ms("5", Unit::Seconds), Some(5_000));
    }
}
