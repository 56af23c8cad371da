//! Time zones: names of the tz database (bundled) and fixed offsets.

use jiff::tz::TimeZone;

use crate::error::{Result, fail};

/// A time zone.
#[derive(Debug, Clone)]
pub(crate) enum Zone {
    /// UTC.
    Utc,
    /// A fixed offset, in seconds east of Greenwich.
    Fixed(i64),
    /// A zone of the tz database.
    Named(TimeZone),
}

/// What the tz library covers: the years -9999 to 9999.
const COVERED_S: std::ops::RangeInclusive<i64> = -377_000_000_000..=253_000_000_000;

impl Zone {
    /// Parses `Europe/Paris`, `UTC`, `+02`, `-0530` or `+05:30`.
    ///
    /// # Errors
    /// 40485 for an unknown name.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if matches!(text, "UTC" | "GMT") {
            return Ok(Self::Utc);
        }
        if let Some(offset) = parse_offset(text) {
            return Ok(Self::Fixed(offset));
        }
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+'));
        let found = TimeZone::get(text).ok().filter(|zone| plain && zone.iana_name() == Some(text));
        match found {
            Some(zone) => Ok(Self::Named(zone)),
            None => fail(40485, format!("unrecognized time zone identifier: \"{text}\"")),
        }
    }

    /// Seconds east of Greenwich at a point in time.
    pub(crate) fn offset_at(&self, millis: i64) -> i64 {
        match self {
            Self::Utc => 0,
            Self::Fixed(offset) => *offset,
            Self::Named(zone) => {
                let seconds = millis.div_euclid(1000).clamp(*COVERED_S.start(), *COVERED_S.end());
                let timestamp = jiff::Timestamp::from_second(seconds).unwrap_or_default();
                zone.to_offset(timestamp).seconds().into()
            }
        }
    }

    /// The point in time of a local one; in a gap the time after it, in an overlap the earlier one.
    pub(crate) fn to_utc(&self, local_millis: i64) -> i64 {
        match self {
            Self::Utc => local_millis,
            Self::Fixed(offset) => local_millis.saturating_sub(offset * 1000),
            Self::Named(_) => {
                let day = 86_400_000;
                // the offsets a day before and after bracket any change
                let before = self.offset_at(local_millis.saturating_sub(day));
                let after = self.offset_at(local_millis.saturating_add(day));
                let early = local_millis.saturating_sub(before * 1000);
                if before == after || self.offset_at(early) == before {
                    return early;
                }
                let late = local_millis.saturating_sub(after * 1000);
                if self.offset_at(late) == after { late } else { early }
            }
        }
    }
}

/// Seconds of `+hh`, `+hhmm` or `+hh:mm`.
pub(crate) fn parse_offset(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let plain: String = match digits.len() {
        2 | 4 => digits.to_owned(),
        5 if digits.as_bytes()[2] == b':' => format!("{}{}", &digits[..2], &digits[3..]),
        _ => return None,
    };
    if !plain.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let hours: i64 = plain[..2].parse().ok()?;
    let minutes: i64 = if plain.len() > 2 { plain[2..].parse().ok()? } else { 0 };
    Some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets() {
        let check = |zone: &str, millis: i64, offset: i64| {
            assert_eq!(Zone::parse(zone).unwrap().offset_at(millis), offset, "{zone}");
        };
        check("UTC", 0, 0);
        check("+02", 0, 7200);
        check("-0530", 0, -19_800);
        check("+05:45", 0, 20_700);
        check("America/New_York", 1_577_836_800_000, -18_000);
        check("America/New_York", 1_593_561_600_000, -14_400);
        assert_eq!(Zone::parse("Nowhere/Land").unwrap_err().code, 40485);
        assert!(Zone::parse("america/new_york").is_err());
        assert!(Zone::parse("é").is_err());
    }

    #[test]
    fn local_times() {
        let zone = Zone::parse("Europe/Paris").unwrap();
        // 2020-07-01T12:00 local
        assert_eq!(zone.to_utc(1_593_604_800_000), 1_593_604_800_000 - 7_200_000);
        // 2020-10-25T02:30 is twice: the earlier
        assert_eq!(zone.to_utc(1_603_593_000_000), 1_603_593_000_000 - 7_200_000);
        // 2020-03-29T02:30 does not exist
        assert_eq!(zone.to_utc(1_585_449_000_000), 1_585_449_000_000 - 3_600_000);
    }
}
