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
            Some(Turn::Terminal(_)) => panic!("recovered, and in the terminal state"),
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
            Turn::Terminal(_) => panic!("no terminal state by Spring's rules"),
            Turn::Recover(turn) => {
                tried.push(turn.execution().0);
                if tried.len() < 4 {
                    turn.failed(Duration::ZERO);
                } else {
                    turn.recovered();
                }
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

/// Runs a record that fails for ever with these classes in turn, each execution `work_ms` long; gives the number of
/// executions and what ended the retries.
fn ends(settings: RetrySettings, classes: &str, work_ms: u64) -> (u32, Option<Spent>) {
    let mut state = RetryState::new(settings, no_random).unwrap();
    let mut now = Duration::from_secs(7);
    state.begin_at(now);
    for class in classes.chars().cycle().take(5_000) {
        let Some(Turn::Execute(turn)) = state.turn() else { panic!("no execution") };
        now += Duration::from_millis(work_ms);
        let after = turn.failed(&failure(class), now);
        if after.spent.is_some() {
            return (state.execution().0, after.spent);
        }
        let Some(Turn::Wait(turn)) = state.turn() else { panic!("no wait") };
        now = turn.until();
        turn.time(now);
    }
    (state.execution().0, None)
}

#[test]
fn bounds_end_what_springs_rules_do_not() {
    let bounds = |max_attempts, max_elapsed_ms| Bounds { max_attempts, max_elapsed_ms, ..Bounds::default() };
    let endless = settings(BackOff::fixed_unlimited(1_000), true);
    assert_eq!(ends(endless.clone(), "ab", 0), (5_001, None));
    let cap = RetrySettings { bounds: bounds(Some(4), None), ..endless.clone() };
    assert_eq!(ends(cap, "ab", 0), (4, Some(Spent::AttemptCap)));
    let window = RetrySettings { bounds: bounds(Some(40), Some(10_000)), ..endless };
    assert_eq!(ends(window.clone(), "ab", 500), (7, Some(Spent::RetryWindow)));
    // Report R81: one execution that lasts longer than the window, and the one retry that it is granted.
    assert_eq!(ends(window, "a", 15_000), (2, Some(Spent::RetryWindow)));
    assert_eq!(ends(settings(BackOff::fixed(0, 3), false), "ab", 0), (4, Some(Spent::BackOff)));
    assert_eq!(ends(settings(BackOff::fixed(0, 3), false), "ax", 0), (2, Some(Spent::NotRetryable)));
    let once = RetrySettings { reclassify: false, ..settings(BackOff::fixed(0, 3), false) };
    assert_eq!(ends(once, "ax", 0), (4, Some(Spent::BackOff)));
}

#[test]
fn only_bounded_settings_say_so() {
    assert!(RetrySettings::bounded().is_bounded());
    assert!(!RetrySettings::default().is_bounded());
    let no_recovery = RetrySettings { recovery: None, ..RetrySettings::bounded() };
    assert!(!no_recovery.is_bounded());
    let by_back_off = RetrySettings { bounds: Bounds::default(), ..RetrySettings::bounded() };
    assert!(!by_back_off.is_bounded());
    assert!(RetrySettings { back_off: BackOff::fixed(0, 3), ..by_back_off.clone() }.is_bounded());
    let custom = Some(CustomBackOff::new(|_| Some(1)));
    assert!(!RetrySettings { back_off: BackOff::fixed(0, 3), custom, ..by_back_off }.is_bounded());
}

#[test]
fn an_own_back_off_is_asked_for_each_retry() {
    let custom = Some(CustomBackOff::new(|retry| (retry <= 3).then_some(retry * 10)));
    assert_eq!(run(RetrySettings { custom, ..settings(BackOff::None, true) }, "a"), "4 executions: 10 20 30 !");
}

/// What follows when nothing can be recovered: `wait 100`, `alarm`, and the terminal state; at most eight entries.
fn gives_up(then: Terminal) -> Vec<String> {
    let recovery = Some(Recovery { first_wait_ms: 100, max_wait_ms: 300, max_tries: 3, then });
    let settings = RetrySettings { recovery, ..settings(BackOff::fixed(0, 1), true) };
    let mut state = RetryState::new(settings, no_random).unwrap();
    let (mut log, mut now) = (Vec::new(), Duration::ZERO);
    while log.len() < 8 {
        match state.turn() {
            Some(Turn::Execute(turn)) => {
                log.push(format!("execution {}", turn.execution()));
                turn.failed(&failure('a'), now);
            }
            Some(Turn::Wait(turn)) => {
                now = turn.until();
                turn.time(now);
            }
            Some(Turn::Recover(turn)) => {
                let after = turn.failed(now);
                let alarm = if after.alarm { " alarm" } else { "" };
                log.push(format!("try {}{alarm} {:?}", after.tries, after.wait_ms));
            }
            Some(Turn::Terminal(turn)) if then == Terminal::Park && turn.tries() < 5 => {
                log.push(format!("not parked, wait {}", turn.failed(now)));
            }
            Some(Turn::Terminal(turn)) => {
                log.push(format!("{:?}", turn.terminal()));
                turn.done();
            }
            None => return log,
        }
    }
    log
}

#[test]
fn a_recovery_that_fails_is_tried_again_without_the_work_and_ends() {
    let tries = ["execution 1", "execution 2", "try 1 Some(100)", "try 2 Some(200)"];
    let with = |rest: &[&'static str]| [&tries[..], rest].concat();
    assert_eq!(gives_up(Terminal::Skip), with(&["try 3 alarm None", "Skip"]));
    assert_eq!(gives_up(Terminal::Stop), with(&["try 3 alarm None", "Stop"]));
    let endless = ["try 3 alarm Some(300)", "try 4 alarm Some(300)", "try 5 alarm Some(300)", "try 6 alarm Some(300)"];
    assert_eq!(gives_up(Terminal::Block), with(&endless));
    let parked = ["try 3 alarm None", "not parked, wait 300", "try 5 alarm None", "Park"];
    assert_eq!(gives_up(Terminal::Park), with(&parked));
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

proptest! {
    /// With bounds a record ends within its attempts, and no retry begins outside its window but the one granted.
    #[test]
    fn bounded_retries_end(
        back_off in any_back_off(), classes in "[abs]{1,5}", most in 1_u32..12, window_ms in 0_u64..30_000,
        jitter in 0.0..=1.0, work_ms in 0_u64..5_000, seed: u64,
    ) {
        let bounds = Bounds { max_attempts: Some(most), max_elapsed_ms: Some(window_ms), jitter, ..Bounds::default() };
        let settings = RetrySettings { bounds, ..settings(back_off, true) };
        let mut state = RetryState::new(settings, SplitMix64::new(seed)).unwrap();
        let mut now = Duration::ZERO;
        for class in classes.chars().cycle().take(20) {
            let Some(Turn::Execute(turn)) = state.turn() else { break };
            let execution = turn.execution().0;
            prop_assert!(execution <= most);
            prop_assert!(execution <= 2 || now <= Duration::from_millis(window_ms));
            now += Duration::from_millis(work_ms);
            turn.failed(&failure(class), now);
            if let Some(Turn::Wait(turn)) = state.turn() {
                now = turn.until();
                turn.time(now);
            }
        }
        prop_assert!(matches!(state.turn(), Some(Turn::Recover(_))));
    }
}
