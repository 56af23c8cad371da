//! The rules by themselves: no runtime, time as numbers.

use backfire_model::back_off::no_random;
use proptest::prelude::*;

use super::*;
use crate::classifier::Rule;

/// Classes by letter: `a` and `b` are apart, `s` extends `a`, `x` is not retried.
fn failure(class: char) -> Failure {
    let class = match class {
        's' => ErrorClass::new("s").extends("a"),
        class => ErrorClass::new(class.to_string()),
    };
    Failure::new(class, "").of_listener()
}

fn settings(back_off: BackOff, reset: bool) -> RetrySettings {
    RetrySettings {
        back_off,
        classifier: Classifier::default().with(Rule::class("x", false)),
        reset_on_exception_change: reset,
        ..RetrySettings::default()
    }
}

/// Runs a record whose execution n fails with the n-th class and succeeds at `.`; after the last class that one goes
/// on. Gives the waits, and `+` or `!` for success or recovery, with `r` where the back-off began anew.
fn run(settings: RetrySettings, classes: &str) -> String {
    let mut state = RetryState::new(settings, no_random).unwrap();
    let mut classes = classes.chars();
    let mut class = '.';
    let mut now = Duration::ZERO;
    let mut log = Vec::new();
    for _ in 0..200 {
        match state.turn() {
            Some(Turn::Execute(turn)) => {
                class = classes.next().unwrap_or(class);
                if class == '.' {
                    turn.succeeded();
                    log.push("+".to_owned());
                    continue;
                }
                let after = turn.failed(&failure(class), now);
                let restart = if after.back_off_restarted { "r" } else { "" };
                log.extend(after.wait_ms.map(|wait_ms| format!("{restart}{wait_ms}")));
            }
            Some(Turn::Wait(turn)) => {
                now = turn.until();
                turn.time(now);
            }
            Some(Turn::Recover(turn)) => {
                turn.recovered();
                log.push("!".to_owned());
            }
            None => {
                return format!("{} executions: {}", state.execution(), log.join(" "));
            }
        }
    }
    "without end".to_owned()
}

#[test]
fn executions_are_retries_and_one() {
    assert_eq!(run(settings(BackOff::fixed(5, 3), true), "a"), "4 executions: 5 5 5 !");
    assert_eq!(run(settings(BackOff::None, true), "a"), "1 executions: !");
    assert_eq!(run(settings(BackOff::fixed(5, 3), true), "."), "1 executions: +");
    assert_eq!(run(settings(BackOff::fixed(5, 3), true), "aa."), "3 executions: 5 5 +");
    assert_eq!(run(settings(BackOff::fixed_unlimited(5), true), "a"), "without end");
    assert_eq!(run(RetrySettings::default(), "a"), "10 executions: 0 0 0 0 0 0 0 0 0 !");
}

#[test]
fn a_failure_that_is_not_retryable_ends_it_at_once() {
    assert_eq!(run(settings(BackOff::fixed(5, 3), true), "x"), "1 executions: !");
    assert_eq!(run(settings(BackOff::fixed(5, 3), true), "aax"), "3 executions: 5 5 !");
}

#[test]
fn another_class_starts_the_back_off_over_where_that_is_set() {
    assert_eq!(run(settings(BackOff::fixed(5, 3), true), "aab"), "6 executions: 5 5 r5 5 5 !");
    assert_eq!(run(settings(BackOff::fixed(5, 3), false), "aab"), "4 executions: 5 5 5 !");
    // Facts D1: five times A, then B, with nine retries: 15 executions.
    let fives = run(settings(BackOff::fixed(0, 9), true), "aaaaab");
    assert!(fives.starts_with("15 executions"), "{fives}");
    assert_eq!(run(settings(BackOff::fixed(0, 9), true), &"ab".repeat(100)), "without end");
    let alternating = run(settings(BackOff::fixed(0, 9), false), &"ab".repeat(100));
    assert!(alternating.starts_with("10 executions"), "{alternating}");
}

#[test]
fn a_class_that_the_one_before_extends_is_no_change() {
    assert_eq!(run(settings(BackOff::fixed(5, 3), true), "ssa"), "4 executions: 5 5 5 !");
    assert_eq!(run(settings(BackOff::fixed(5, 3), true), "aas"), "6 executions: 5 5 r5 5 5 !");
}

#[test]
fn a_growing_back_off_starts_over_from_its_first_wait() {
    let growing = BackOff::ExponentialMaxRetries(backfire_model::back_off::ExponentialMaxRetries {
        multiplier: 2.0,
        initial_interval_ms: 100,
        ..backfire_model::back_off::ExponentialMaxRetries::new(3)
    });
    assert_eq!(run(settings(growing.clone(), true), "a"), "4 executions: 100 200 400 !");
    assert_eq!(run(settings(growing, true), "aab"), "6 executions: 100 200 r100 200 400 !");
}

/// The executions after which a recovery is tried, when it fails the first three times.
fn recoveries(reset_on_recovery_failure: bool, class: char) -> Vec<u32> {
    let settings = RetrySettings { reset_on_recovery_failure, ..settings(BackOff::fixed(0, 2), true) };
    let mut state = RetryState::new(settings, no_random).unwrap();
    let mut tried = Vec::new();
    while let Some(turn) = state.turn() {
        match turn {
            Turn::Execute(turn) => drop(turn.failed(&failure(class), Duration::ZERO)),
            Turn::Wait(turn) => turn.time(Duration::ZERO),
            Turn::Recover(turn) => {
                tried.push(turn.execution().0);
                if tried.len() < 4 { turn.failed() } else { turn.recovered() }
            }
        }
    }
    tried
}

#[test]
fn a_failed_recovery_repeats_the_back_off_or_only_itself() {
    assert_eq!(recoveries(true, 'a'), [3, 6, 9, 12]);
    assert_eq!(recoveries(false, 'a'), [3, 4, 5, 6]);
    assert_eq!(recoveries(true, 'x'), [1, 2, 3, 4]);
}

#[test]
fn the_attempt_counts_anew_with_the_back_off() {
    let mut state = RetryState::new(settings(BackOff::fixed(0, 9), true), no_random).unwrap();
    let mut seen = Vec::new();
    for class in "aabb".chars() {
        let Some(Turn::Execute(turn)) = state.turn() else { panic!("no execution") };
        seen.push((turn.execution().0, turn.attempt()));
        turn.failed(&failure(class), Duration::ZERO);
        let Some(Turn::Wait(turn)) = state.turn() else { panic!("no wait") };
        turn.time(Duration::ZERO);
    }
    // The third execution is told that it is attempt 3; only its failure starts the count over.
    assert_eq!(seen, [(1, 1), (2, 2), (3, 3), (4, 2)]);
}

#[test]
fn time_ends_a_wait_and_not_before() {
    let mut state = RetryState::new(settings(BackOff::fixed(1_000, 1), true), no_random).unwrap();
    let at = Duration::from_millis;
    let Some(Turn::Execute(turn)) = state.turn() else { panic!("no execution") };
    turn.failed(&failure('a'), at(250));
    for now in [at(250), at(1_249)] {
        let Some(Turn::Wait(turn)) = state.turn() else { panic!("no wait") };
        assert_eq!(turn.until(), at(1_250));
        turn.time(now);
    }
    let Some(Turn::Wait(turn)) = state.turn() else { panic!("the wait is over too early") };
    turn.time(at(1_250));
    assert!(matches!(state.turn(), Some(Turn::Execute(_))));
}

#[test]
fn the_consumer_thread_sleeps_in_slices() {
    let cases =
        [(0, 10), (1, 10), (10, 10), (11, 20), (495, 500), (500, 500), (501, 600), (1_000, 1_000), (1_050, 1_100)];
    for (wait_ms, takes_ms) in cases {
        assert_eq!(WaitMode::Slices.takes_ms(wait_ms), takes_ms, "{wait_ms}");
        assert_eq!(WaitMode::Exact.takes_ms(wait_ms), wait_ms);
    }
    assert_eq!(WaitMode::Slices.takes_ms(u64::MAX), u64::MAX);
}

pub(crate) fn any_back_off() -> impl Strategy<Value = BackOff> {
    use backfire_model::back_off::{Exponential, ExponentialMaxRetries};
    prop_oneof![
        Just(BackOff::None),
        (0_i64..3_000, 0_i64..8).prop_map(|(interval_ms, retries)| BackOff::fixed(interval_ms, retries)),
        (0_i64..3_000).prop_map(BackOff::fixed_unlimited),
        (1_i64..3_000, 1.0..3.0, prop_oneof![Just(None), (0_i64..20_000).prop_map(Some)]).prop_map(
            |(initial, multiplier, max_elapsed_ms)| {
                BackOff::Exponential(Exponential { max_elapsed_ms, ..Exponential::new(initial, multiplier) })
            }
        ),
        (0_i64..8, 0_i64..3_000, 1.0..3.0).prop_map(|(retries, initial_interval_ms, multiplier)| {
            let max_retries = ExponentialMaxRetries::new(retries);
            BackOff::ExponentialMaxRetries(ExponentialMaxRetries { initial_interval_ms, multiplier, ..max_retries })
        }),
    ]
}

/// What the number of executions has to be, worked out from the lengths of runs: the back-off bounds each run of
/// failures in which no class is new.
pub(crate) fn predicted(bound: Option<u64>, pattern: &str, reset: bool) -> u64 {
    let mut in_run = 0_u64;
    let mut before: Option<char> = None;
    for (index, class) in pattern.chars().enumerate() {
        let number = index as u64 + 1;
        let is_change = before.is_some_and(|before| before != class && (before, class) != ('s', 'a'));
        in_run = if reset && is_change { 1 } else { in_run + 1 };
        before = Some(class);
        if class == '.' || class == 'x' || bound == Some(in_run) {
            return number;
        }
    }
    pattern.len() as u64
}

proptest! {
    /// Executions are those that the series allows, for any back-off and any failures.
    #[test]
    fn executions_are_as_predicted(back_off in any_back_off(), failures in "[abs]{0,20}", end in "[.x]", reset: bool) {
        let pattern = format!("{failures}{end}");
        let bound = back_off.executions(SpringVersion::default()).unwrap();
        let expected = predicted(bound, &pattern, reset);
        let log = run(settings(back_off, reset), &pattern);
        prop_assert!(log.starts_with(&format!("{expected} executions")), "{} of {}", log, pattern);
    }

    /// With failures of one class the waits are the series.
    #[test]
    fn waits_are_the_series(back_off in any_back_off(), count in 1_usize..15) {
        let series = back_off.series(SpringVersion::default(), no_random).unwrap();
        let waits: Vec<String> = series.take(count).map(|wait_ms| wait_ms.to_string()).collect();
        let end = if waits.len() < count { "!" } else { "+" };
        let log = run(settings(back_off, true), &format!("{}.", "a".repeat(count)));
        let expected = format!("{} executions: {}", waits.len() + 1, [waits, vec![end.to_owned()]].concat().join(" "));
        prop_assert_eq!(log, expected);
    }
}
