//! The differences between Spring Framework versions that change a series of waits, as one table.

use std::fmt;
use std::str::FromStr;

/// A version of Spring Framework (`spring-core`), as far as back-off differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpringVersion {
    /// 5.3 and 6.0: no `maxAttempts`, no jitter.
    V5_3,
    /// 6.1 and 6.2: `maxAttempts`. What Spring Kafka 3.x runs on.
    V6_1,
    /// 7.0.0: jitter, scaled by a whole number, division by zero for an initial interval of 0.
    V7_0_0,
    /// 7.0.10: that division repaired.
    V7_0_10,
    /// 7.1: jitter scaled by a fraction.
    V7_1,
}

/// How a version spreads a wait by its jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitterRule {
    /// There is no jitter.
    None,
    /// `jitter * (interval / initialInterval)` in whole numbers, which fails for an initial interval of 0.
    WholeFactorUnchecked,
    /// The same; an initial interval of 0 counts as a factor of 1.
    WholeFactor,
    /// `jitter * (interval / initialInterval)` with the fraction kept.
    FractionFactor,
}

/// One version and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpringVersionRow {
    /// The version.
    pub version: SpringVersion,
    /// Its number, as text.
    pub name: &'static str,
    /// The first release this row stands for: major, minor, patch.
    pub first_release: (u16, u16, u16),
    /// Whether `ExponentialBackOff.setMaxAttempts` exists.
    pub has_max_attempts: bool,
    /// How jitter works.
    pub jitter: JitterRule,
}

const fn row(
    version: SpringVersion,
    name: &'static str,
    first_release: (u16, u16, u16),
    has_max_attempts: bool,
    jitter: JitterRule,
) -> SpringVersionRow {
    SpringVersionRow { version, name, first_release, has_max_attempts, jitter }
}

/// Every version that differs, oldest first (facts/client.md D2).
pub const SPRING_VERSIONS: &[SpringVersionRow] = &[
    row(SpringVersion::V5_3, "5.3", (5, 3, 0), false, JitterRule::None),
    row(SpringVersion::V6_1, "6.1", (6, 1, 0), true, JitterRule::None),
    row(SpringVersion::V7_0_0, "7.0.0", (7, 0, 0), true, JitterRule::WholeFactorUnchecked),
    row(SpringVersion::V7_0_10, "7.0.10", (7, 0, 10), true, JitterRule::WholeFactor),
    row(SpringVersion::V7_1, "7.1", (7, 1, 0), true, JitterRule::FractionFactor),
];

impl SpringVersion {
    /// The version's row.
    pub fn row(self) -> &'static SpringVersionRow {
        &SPRING_VERSIONS[self as usize]
    }
}

impl Default for SpringVersion {
    /// 6.1, that of Spring Kafka 3.x.
    fn default() -> Self {
        Self::V6_1
    }
}

impl fmt::Display for SpringVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

/// Text that is no version of Spring Framework from 5.3 on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no Spring Framework version from 5.3 on; write it like 6.2 or 7.0.10")]
pub struct UnknownSpringVersion {
    text: String,
}

impl FromStr for SpringVersion {
    type Err = UnknownSpringVersion;

    /// Reads `6.2`, `6.2.19` or `7.1.0-M1` and finds the row it belongs to.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || UnknownSpringVersion { text: text.chars().take(40).collect() };
        let numbers = text.split_once('-').map_or(text, |(numbers, _)| numbers);
        let mut parts = numbers.split('.').map(|part| part.parse::<u16>().map_err(|_| error()));
        let major = parts.next().ok_or_else(error)??;
        let minor = parts.next().ok_or_else(error)??;
        let patch = parts.next().transpose()?.unwrap_or(0);
        if parts.next().is_some() {
            return Err(error());
        }
        SPRING_VERSIONS
            .iter()
            .rev()
            .find(|row| row.first_release <= (major, minor, patch))
            .map(|row| row.version)
            .ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_stands_at_its_version() {
        for row in SPRING_VERSIONS {
            assert_eq!(row.version.row(), row);
        }
        assert!(SPRING_VERSIONS.is_sorted_by_key(|row| row.first_release));
    }

    #[test]
    fn a_release_belongs_to_the_row_it_came_after() {
        let cases = [
            ("5.3.39", SpringVersion::V5_3),
            ("6.0.23", SpringVersion::V5_3),
            ("6.1", SpringVersion::V6_1),
            ("6.2.19", SpringVersion::V6_1),
            ("7.0", SpringVersion::V7_0_0),
            ("7.0.10", SpringVersion::V7_0_10),
            ("7.1.0-M1", SpringVersion::V7_1),
        ];
        for (text, version) in cases {
            assert_eq!(text.parse(), Ok(version), "{text}");
        }
        for text in ["", "5.2.1", "6", "six.one", "6.1.2.3", "6.1.x"] {
            assert!(text.parse::<SpringVersion>().is_err(), "{text}");
        }
    }
}
