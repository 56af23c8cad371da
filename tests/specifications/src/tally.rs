//! How many tests passed and how many were not run, as a page of the documentation.

use std::collections::BTreeMap;
use std::fmt::Write;

use backfire_server::profile::PROFILES;

use crate::skip::Reason;
use crate::suites::{SUITES, Verdict};

/// The counts of all suites.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<&'static str, Counts>);

#[derive(Debug, Default, Clone)]
struct Counts {
    passed: usize,
    /// Of those that passed: with a server of this version, among others.
    passed_with: BTreeMap<&'static str, usize>,
    skipped: BTreeMap<Reason, usize>,
    failed: usize,
}

impl Counts {
    fn skipped(&self) -> usize {
        self.skipped.values().sum()
    }
}

impl Tally {
    /// Counts what became of a test of a suite.
    pub fn add(&mut self, suite: &'static str, verdict: &Verdict) {
        let counts = self.0.entry(suite).or_default();
        match verdict {
            Verdict::Passed(versions) => {
                counts.passed += 1;
                versions.iter().for_each(|version| *counts.passed_with.entry(version).or_default() += 1);
            }
            Verdict::Skipped(reason) => *counts.skipped.entry(*reason).or_default() += 1,
            Verdict::Failed(_) => counts.failed += 1,
        }
    }

    /// How many tests failed.
    pub fn failed(&self) -> usize {
        self.0.values().map(|counts| counts.failed).sum()
    }

    fn total(&self) -> Counts {
        let mut total = Counts::default();
        for counts in self.0.values() {
            total.passed += counts.passed;
            counts.passed_with.iter().for_each(|(name, count)| *total.passed_with.entry(name).or_default() += count);
            counts.skipped.iter().for_each(|(reason, count)| *total.skipped.entry(*reason).or_default() += count);
            total.failed += counts.failed;
        }
        total
    }

    /// The tables: suites by what became of their tests, and reasons for not running one.
    pub fn tables(&self) -> String {
        let mut text = String::from("| suite | tests | passed |");
        let mut line = String::from("| --- | ---: | ---: |");
        for profile in PROFILES {
            let _ = write!(text, " with {} |", profile.name);
            line.push_str(" ---: |");
        }
        text.push_str(" not run | failed |\n");
        text.push_str(&line);
        text.push_str(" ---: | ---: |\n");
        let none = Counts::default();
        let total = self.total();
        let rows = SUITES.iter().map(|suite| (suite.name, self.0.get(suite.name).unwrap_or(&none)));
        for (name, counts) in rows.chain([("all", &total)]) {
            let (passed, skipped) = (counts.passed, counts.skipped());
            let _ = write!(text, "| {name} | {} | {passed} |", passed + skipped + counts.failed);
            for profile in PROFILES {
                let _ = write!(text, " {} |", counts.passed_with.get(profile.name).copied().unwrap_or(0));
            }
            let _ = writeln!(text, " {skipped} | {} |", counts.failed);
        }
        text.push_str("\n| not run because of | tests | in |\n| --- | ---: | --- |\n");
        for reason in Reason::ALL {
            let count = total.skipped.get(&reason).copied().unwrap_or(0);
            let suites: Vec<_> = SUITES
                .iter()
                .filter_map(|suite| Some((suite.name, self.0.get(suite.name)?.skipped.get(&reason)?)))
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            let _ = writeln!(text, "| {reason} | {count} | {} |", suites.join(", "));
        }
        text
    }

    /// The page of the documentation.
    pub fn page(&self) -> String {
        format!(
            "# Conformance\n\n\
             The test files of the [MongoDB drivers' specifications](https://github.com/mongodb/specifications), run with\n\
             backfire's driver (profile `{}`) against its lab server. Each test runs with every server version that it\n\
             takes, on a replica set of one, each time on a server of its own. Neither driver nor server knows the other's\n\
             code, and neither was written by those who wrote the tests.\n\n\
             `cargo test -p backfire-specifications` runs them and compares this page with what came of it; with `UPDATE_DOCS=1`\n\
             it writes the page. The runner is strict: an operation, an option or an assertion that it does not know is a failure.\n\n\
             {}",
            backfire_driver::DriverProfile::SPECIFICATION.name,
            self.tables()
        )
    }
}
