//! Rules with their arithmetic.

use backfire_model::back_off::{BackOff, Fixed};
use proptest::prelude::*;

use super::*;
use crate::container::ContainerSettings;

const EXPECTED: Expected = Expected { normal_ms: 10, longest_ms: 3_000, dead_letter_ms: 0, names_failed_record: None };

fn settings(version: &str, interval_ms: i64, max_retries: Option<i64>, records: usize) -> ContainerSettings {
    let mut settings = ContainerSettings::spring(version.parse().unwrap());
    settings.retry.back_off = BackOff::Fixed(Fixed { interval_ms, max_retries });
    settings.max_poll_records = records;
    settings
}

fn budget(settings: &ContainerSettings, kind: WorkKind, expected: Expected, interval_ms: u64) -> PollBudget {
    PollBudget::new(settings, kind, expected, Duration::from_millis(interval_ms))
}

/// The exact rules of a version with a wait of 8 s and an interval of 10 s, as text.
fn check(version: &str, kind: WorkKind, names_failed_record: Option<bool>, expected: &[&str]) {
    let expect = Expected { names_failed_record, ..EXPECTED };
    let rules = budget(&settings(version, 8_000, Some(3), 1), kind, expect, 10_000).exact;
    let texts: Vec<_> = rules.iter().map(Rule::arithmetic).collect();
    assert_eq!(texts, expected, "{version} {kind:?}");
}

#[test]
fn each_version_has_its_own_longest_time_between_two_polls() {
    let record = ["0 x 10 ms + 3000 ms + 8000 ms + 0 ms = 11000 ms >= 10000 ms"];
    for version in ["2.8", "3.0.2", "3.3.10", "4.0"] {
        check(version, WorkKind::Record, None, &record);
    }
    let wait_and_call = ["8000 ms + 0 x 10 ms + 3000 ms + 1 x 0 ms = 11000 ms >= 10000 ms"];
    check("2.8", WorkKind::Batch, Some(false), &wait_and_call);
    check("3.0.0", WorkKind::Batch, Some(false), &wait_and_call);
    check("3.0.2", WorkKind::Batch, Some(false), &["8000 ms = 8000 ms < 10000 ms"]);
    check("3.3.10", WorkKind::Batch, Some(false), &["0 x 10 ms + 3000 ms + 1 x 0 ms = 3000 ms < 10000 ms"]);
    check("3.3.10", WorkKind::Batch, Some(true), &record);
    let both = [record[0], "0 x 10 ms + 3000 ms + 1 x 0 ms = 3000 ms < 10000 ms"];
    check("3.3.10", WorkKind::Batch, None, &both);
}

#[test]
fn a_rule_names_the_part_that_breaks_it() {
    let of = |wait_ms, records| budget(&settings("3.3", wait_ms, Some(3), records), WorkKind::Record, EXPECTED, 10_000);
    let breaks = |budget: &PollBudget| budget.exact[0].breaks().map(|term| term.name);
    assert_eq!(breaks(&of(8_000, 1)), Some("the longest wait"));
    assert_eq!(breaks(&of(0, 1_001)), Some("records handled before in this poll"));
    assert_eq!(breaks(&of(0, 701)), Some("one execution"));
    assert_eq!(breaks(&of(1_000, 500)), None);
    let text = of(8_000, 1).exact[0].to_string();
    assert!(text.contains("slept between two polls") && text.ends_with("with: the longest wait)"), "{text}");
}

#[test]
fn the_rule_of_thumb_says_how_many_records_fit() {
    // Report R68: 500 records of 700 ms in an interval of 300 s; 428 fit.
    let expect = Expected { longest_ms: 700, ..EXPECTED };
    let one = budget(&settings("3.3", 0, Some(0), 500), WorkKind::Record, expect, 300_000);
    assert_eq!(one.safe.arithmetic(), "500 x (700 ms x 1 + 0 ms) = 350000 ms >= 300000 ms");
    assert_eq!((one.safe.fits(), one.largest_max_poll_records), (false, Some(428)));
    // Ten executions of 60 s leave room for no record at all.
    let expect = Expected { longest_ms: 60_000, ..EXPECTED };
    let ten = budget(&settings("3.3", 0, Some(9), 500), WorkKind::Record, expect, 300_000);
    assert_eq!(ten.largest_max_poll_records, None);
    let endless = budget(&settings("3.3", 1_000, None, 500), WorkKind::Record, expect, 300_000);
    assert!(endless.safe.arithmetic().contains("without a bound"), "{}", endless.safe);
    assert_eq!((endless.safe.fits(), endless.largest_max_poll_records), (false, None));
}

#[test]
fn pause_and_poll_depends_on_neither_executions_nor_waits() {
    let expect = Expected { longest_ms: 10_000_000, ..EXPECTED };
    let budget = budget(&ContainerSettings::default(), WorkKind::Record, expect, 300_000);
    assert_eq!(budget.exact[0].arithmetic(), "max(1000 ms, 30000 ms) = 30000 ms < 300000 ms");
    assert!(budget.fits() && !budget.safe.fits());
}

proptest! {
    /// The largest number of records fits, and one more does not.
    #[test]
    fn the_largest_number_is_the_largest(
        longest_ms in 1_u64..100_000, wait_ms in 0_i64..60_000, retries in 0_i64..20, interval_ms in 1_000_u64..600_000
    ) {
        let expect = Expected { longest_ms, ..EXPECTED };
        let of = |records: u64| {
            let settings = settings("3.3", wait_ms, Some(retries), usize::try_from(records).unwrap());
            budget(&settings, WorkKind::Record, expect, interval_ms)
        };
        let most = of(1).largest_max_poll_records.unwrap_or(0);
        prop_assert!(most == 0 || of(most).safe.fits());
        prop_assert!(!of(most + 1).safe.fits());
    }
}
