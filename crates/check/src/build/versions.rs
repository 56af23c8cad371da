//! What Spring Boot's versions bring along: one row each.
//!
//! Source of every row: the properties of the published `spring-boot-dependencies` pom of that version (Maven Central), from
//! 2.7.18, 3.4.0, 3.5.16, 4.0.0 and 4.1.2 also facts/client.md A10, D7. Spring Data MongoDB's number is that of the release train
//! the pom names: `2024.1.0` holds 4.4.0.

use super::Version;

/// A release of Spring Boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootRow {
    /// Its version.
    pub boot: &'static str,
    /// `mongodb.version`: the Java driver.
    pub driver: &'static str,
    /// `spring-kafka.version`.
    pub spring_kafka: &'static str,
    /// `kafka.version`.
    pub kafka_clients: &'static str,
    /// `spring-framework.version`.
    pub spring_framework: &'static str,
    /// Spring Data MongoDB, of `spring-data-bom.version`.
    pub spring_data_mongodb: &'static str,
}

const fn row(
    boot: &'static str,
    driver: &'static str,
    spring_kafka: &'static str,
    kafka_clients: &'static str,
    spring_framework: &'static str,
    spring_data_mongodb: &'static str,
) -> BootRow {
    BootRow { boot, driver, spring_kafka, kafka_clients, spring_framework, spring_data_mongodb }
}

/// First and last release seen of each minor version, oldest first.
pub const BOOT: &[BootRow] = &[
    row("2.7.0", "4.6.0", "2.8.6", "3.1.1", "5.3.20", "3.4.0"),
    row("2.7.18", "4.6.1", "2.8.11", "3.1.2", "5.3.31", "3.4.18"),
    row("3.0.0", "4.8.0", "3.0.0", "3.3.1", "6.0.2", "4.0.0"),
    row("3.0.13", "4.8.2", "3.0.13", "3.3.2", "6.0.14", "4.0.12"),
    row("3.1.0", "4.9.1", "3.0.7", "3.4.0", "6.0.9", "4.1.0"),
    row("3.1.12", "4.9.1", "3.0.17", "3.4.1", "6.0.21", "4.1.12"),
    row("3.2.0", "4.11.1", "3.1.0", "3.6.0", "6.1.1", "4.2.0"),
    row("3.2.12", "4.11.5", "3.1.10", "3.6.2", "6.1.15", "4.2.12"),
    row("3.3.0", "5.0.1", "3.2.0", "3.7.0", "6.1.8", "4.3.0"),
    row("3.3.13", "5.0.1", "3.2.10", "3.7.2", "6.1.21", "4.3.13"),
    row("3.4.0", "5.2.1", "3.3.0", "3.8.1", "6.2.0", "4.4.0"),
    row("3.4.13", "5.2.1", "3.3.11", "3.8.1", "6.2.15", "4.4.13"),
    row("3.5.0", "5.4.0", "3.3.6", "3.9.1", "6.2.7", "4.5.0"),
    row("3.5.16", "5.5.2", "3.3.16", "3.9.2", "6.2.19", "4.5.13"),
    row("4.0.0", "5.6.1", "4.0.0", "4.1.1", "7.0.1", "5.0.0"),
    row("4.0.8", "5.6.5", "4.0.7", "4.1.2", "7.0.9", "5.0.7"),
    row("4.1.0", "5.8.0", "4.1.0", "4.2.1", "7.0.8", "5.1.0"),
    row("4.1.2", "5.8.1", "4.1.2", "4.2.2", "7.0.10", "5.1.2"),
];

/// The row of a version: its own, or the nearest lower one of the same minor version, or of that minor version the lowest.
/// Says whether it is the version's own.
pub fn row_for(version: &Version) -> Option<(&'static BootRow, bool)> {
    let of = |row: &BootRow| Version::parse(row.boot);
    let same_minor = || {
        BOOT.iter().filter(|row| {
            of(row).is_some_and(|boot| (boot.major(), boot.minor()) == (version.major(), version.minor()))
        })
    };
    let exact = BOOT.iter().find(|row| of(row).is_some_and(|boot| boot == *version));
    if let Some(row) = exact {
        return Some((row, true));
    }
    let lower = same_minor().rfind(|row| of(row).is_some_and(|boot| boot < *version));
    lower.or_else(|| same_minor().next()).map(|row| (row, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_readable() {
        let versions: Vec<_> = BOOT.iter().map(|row| Version::parse(row.boot).unwrap()).collect();
        assert!(versions.is_sorted());
        for row in BOOT {
            for text in [row.driver, row.spring_kafka, row.kafka_clients, row.spring_framework, row.spring_data_mongodb]
            {
                assert!(Version::parse(text).is_some(), "{row:?}");
            }
        }
    }

    #[test]
    fn an_unknown_patch_takes_the_nearest_lower_row_of_its_minor() {
        let cases = [
            ("3.4.0", Some(("3.4.0", true))),
            ("3.4.5", Some(("3.4.0", false))),
            ("2.7.99", Some(("2.7.18", false))),
            ("4.1.0-M1", Some(("4.1.0", false))),
            ("2.6.1", None),
            ("9.0.0", None),
        ];
        for (text, expected) in cases {
            let found = row_for(&Version::parse(text).unwrap()).map(|(row, exact)| (row.boot, exact));
            assert_eq!(found, expected, "{text}");
        }
    }
}
