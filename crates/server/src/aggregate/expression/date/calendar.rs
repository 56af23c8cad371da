//! The proleptic Gregorian calendar.

use super::zones::Zone;
use crate::value::text::civil_from_days;

/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// A point in time in the calendar of some zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// 1 to 12.
    pub(crate) month: u32,
    /// 1 to 31.
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
    pub(crate) millisecond: u32,
    /// Seconds east of Greenwich.
    pub(crate) offset_s: i64,
    /// Days since the epoch.
    days: i64,
}

/// Days since the epoch of a date; months and days beyond their range run over.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = (year + (month - 1).div_euclid(12), (month - 1).rem_euclid(12) + 1);
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468 + day - 1
}

/// Days since the epoch of the Monday of week 1 of an ISO year.
pub(crate) fn iso_year_start(year: i64) -> i64 {
    // the week of January 4
    let fourth = days_from_civil(year, 1, 4);
    fourth - (fourth + 3).rem_euclid(7)
}

impl Civil {
    /// The calendar of `zone` at a point in time.
    pub(crate) fn at(millis: i64, zone: &Zone) -> Self {
        let offset_s = zone.offset_at(millis);
        let local = millis.saturating_add(offset_s * 1000);
        let days = local.div_euclid(DAY_MS);
        let rest = local.rem_euclid(DAY_MS);
        let (year, month, day) = civil_from_days(days);
        Self {
            year,
            month,
            day,
            hour: (rest / 3_600_000) as u32,
            minute: (rest / 60_000 % 60) as u32,
            second: (rest / 1000 % 60) as u32,
            millisecond: (rest % 1000) as u32,
            offset_s,
            days,
        }
    }

    /// 0 for Sunday to 6.
    pub(crate) fn weekday(&self) -> u32 {
        (self.days + 4).rem_euclid(7) as u32
    }

    /// 1 for Monday to 7.
    pub(crate) fn iso_weekday(&self) -> u32 {
        (self.days + 3).rem_euclid(7) as u32 + 1
    }

    /// 1 to 366.
    pub(crate) fn day_of_year(&self) -> u32 {
        (self.days - days_from_civil(self.year, 1, 1)) as u32 + 1
    }

    /// The week that starts on Sundays; days before the first Sunday are week 0.
    pub(crate) fn week(&self) -> u32 {
        (self.day_of_year() + 6 - self.weekday()) / 7
    }

    /// ISO year and week.
    pub(crate) fn iso_week(&self) -> (i64, u32) {
        let mut year = self.year;
        if self.days >= iso_year_start(year + 1) {
            year += 1;
        } else if self.days < iso_year_start(year) {
            year -= 1;
        }
        (year, ((self.days - iso_year_start(year)) / 7) as u32 + 1)
    }

    /// Days since the epoch, in the zone.
    pub(crate) fn days(&self) -> i64 {
        self.days
    }

    /// Milliseconds of the day, in the zone.
    pub(crate) fn millis_of_day(&self) -> i64 {
        i64::from(self.hour * 3600 + self.minute * 60 + self.second) * 1000 + i64::from(self.millisecond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_days() {
        let check = |year, month, day, weekday, day_of_year, week, iso: (i64, u32)| {
            let civil = Civil::at(days_from_civil(year, month, day) * DAY_MS, &Zone::Utc);
            assert_eq!((civil.year, civil.month as i64, civil.day as i64), (year, month, day));
            assert_eq!((civil.weekday(), civil.day_of_year(), civil.week()), (weekday, day_of_year, week));
            assert_eq!(civil.iso_week(), iso);
        };
        check(2020, 1, 1, 3, 1, 0, (2020, 1));
        check(2016, 1, 1, 5, 1, 0, (2015, 53));
        check(2017, 1, 1, 0, 1, 1, (2016, 52));
        check(2018, 12, 31, 1, 365, 52, (2019, 1));
        check(2020, 12, 31, 4, 366, 52, (2020, 53));
        check(1969, 12, 31, 3, 365, 52, (1970, 1));
    }

    proptest! {
        #[test]
        fn days_round_trip(days in -3_000_000_i64..3_000_000) {
            let (year, month, day) = civil_from_days(days);
            prop_assert_eq!(days_from_civil(year, month.into(), day.into()), days);
        }
    }
}
