//! The runner on a paused clock.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use backfire_model::back_off::{BackOff, Exponential, SpringVersion, no_random};
use proptest::prelude::*;

use super::*;
use crate::bounds::Recovery;
use crate::classifier::{Classifier, Rule};
use crate::dead_letters::Destination;
use crate::failure::ErrorClass;
use crate::headers;
use crate::retry_state::WaitMode;
use crate::retry_state::tests::{any_back_off, predicted};

fn failure(class: char) -> Failure {
    let class = match class {
        's' => ErrorClass::new("s").extends("a"),
        class => ErrorClass::new(class.to_string()),
    };
    Failure::new(class, "failed")
}

fn settings(back_off: BackOff) -> RetrySettings {
    let classifier = Classifier::default().with(Rule::class("x", false));
    RetrySettings { back_off, classifier, ..RetrySettings::default() }
}

fn record() -> Record {
    Record { topic: "orders".into(), offset: 7, ..Record::default() }
}

/// Runs one record on a paused clock. Each execution takes `work_ms`; the n-th fails with the n-th class, succeeds at
/// `.`, and after the last class that one goes on. Gives a line per event, with the time in milliseconds.
async fn log(handler: &mut ErrorHandler<fn() -> f64>, classes: &str, work_ms: u64) -> Vec<String> {
    let began = Instant::now();
    let log = RefCell::new(Vec::new());
    let classes: Vec<char> = classes.chars().collect();
    let work = |execution: Execution| {
        let class = classes[(execution.0 as usize - 1).min(classes.len() - 1)];
        async move {
            sleep(Duration::from_millis(work_ms)).await;
            if class == '.' { Ok(execution.0) } else { Err(failure(class)) }
        }
    };
    let mut listener = |record: &Record, event: Event<'_>| {
        let text = match event {
            Event::ExecutionStarted { execution, attempt } => format!("start {execution} ({attempt})"),
            Event::Succeeded { execution } => format!("ok {execution}"),
            Event::Failed { execution, failure, retryable, back_off_restarted } => {
                let class = failure.root().class.name();
                let kind = if retryable { "" } else { " for good" };
                format!("fail {execution} {class}{kind}{}", if back_off_restarted { " anew" } else { "" })
            }
            Event::Waiting { wait_ms } => format!("wait {wait_ms}"),
            Event::DeadLettered { execution, letter } => format!("dead {execution} {} {}", record.topic, letter.topic),
            Event::RecoveryFailed { execution, reason } => format!("kept {execution} {}", reason.limit),
        };
        log.borrow_mut().push(format!("{} {text}", began.elapsed().as_millis()));
    };
    let outcome = handler.run(&record(), work, &mut listener).await;
    let outcome = match outcome {
        Outcome::Succeeded { value, execution } => format!("succeeded with {value} in {execution}"),
        Outcome::DeadLettered { execution } => format!("dead after {execution}"),
        Outcome::Terminal { execution, terminal } => format!("{terminal:?} after {execution}"),
    };
    log.borrow_mut().push(outcome);
    log.into_inner()
}

fn handler(settings: RetrySettings, limit: usize) -> ErrorHandler<fn() -> f64> {
    ErrorHandler::new(settings, DeadLetters::new(Destination::default(), limit), no_random as fn() -> f64).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_worked_timeline_of_a_stalled_write() {
    // Socket timeout 30 s with a resend: an execution takes 60 s. FixedBackOff(0, 3): the dead letter comes at 240 s.
    let mut handler = handler(settings(BackOff::fixed(0, 3)), 10);
    let expected = [
        "0 start 1 (1)",
        "60000 fail 1 a",
        "60000 wait 0",
        "60000 start 2 (2)",
        "120000 fail 2 a",
        "120000 wait 0",
        "120000 start 3 (3)",
        "180000 fail 3 a",
        "180000 wait 0",
        "180000 start 4 (4)",
        "240000 fail 4 a",
        "240000 dead 4 orders orders-dlt",
        "dead after 4",
    ];
    assert_eq!(log(&mut handler, "a", 60_000).await, expected);
    let letters = handler.dead_letters().take();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].header(headers::EXCEPTION_CAUSE_FQCN), Some(b"a".as_slice()));
    assert_eq!(letters[0].header(headers::ORIGINAL_OFFSET), Some(7_i64.to_be_bytes().as_slice()));
}

#[tokio::test(start_paused = true)]
async fn waits_come_between_the_executions() {
    let growing = Exponential { max_attempts: Some(3), ..Exponential::new(500, 2.0) };
    let mut handler = handler(settings(BackOff::Exponential(growing)), 10);
    let log = log(&mut handler, "a", 2_000).await;
    let starts: Vec<&String> = log.iter().filter(|line| line.contains("start")).collect();
    // The measured run of facts/client.md Y with S 1000 (2 s an execution), less what the real stack adds.
    assert_eq!(starts, ["0 start 1 (1)", "2500 start 2 (2)", "5500 start 3 (3)", "9500 start 4 (4)"]);
}

#[tokio::test(start_paused = true)]
async fn success_ends_it_and_the_next_record_begins_anew() {
    let mut handler = handler(settings(BackOff::fixed(100, 2)), 10);
    let expected =
        ["0 start 1 (1)", "10 fail 1 a", "10 wait 100", "110 start 2 (2)", "120 ok 2", "succeeded with 2 in 2"];
    assert_eq!(log(&mut handler, "a.", 10).await, expected);
    assert_eq!(log(&mut handler, "a.", 10).await, expected);
    assert!(handler.dead_letters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn classes_that_change_and_failures_for_good() {
    let mut handler = handler(settings(BackOff::fixed(0, 1)), 10);
    let expected = [
        "0 start 1 (1)",
        "1 fail 1 a",
        "1 wait 0",
        "1 start 2 (2)",
        "2 fail 2 b anew",
        "2 wait 0",
        "2 start 3 (2)",
        "3 fail 3 x for good",
        "3 dead 3 orders orders-dlt",
        "dead after 3",
    ];
    assert_eq!(log(&mut handler, "abx", 1).await, expected);
}

#[tokio::test(start_paused = true)]
async fn waits_as_the_consumer_thread_sleeps() {
    let slices = RetrySettings { wait_mode: WaitMode::Slices, ..settings(BackOff::fixed(0, 2)) };
    let log = log(&mut handler(slices, 10), "a", 5).await;
    let starts: Vec<&String> = log.iter().filter(|line| line.contains("start")).collect();
    assert_eq!(starts, ["0 start 1 (1)", "15 start 2 (2)", "30 start 3 (3)"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_list_keeps_the_record_until_there_is_room() {
    let mut handler = handler(settings(BackOff::fixed(0, 1)), 0);
    let endless = tokio::time::timeout(Duration::from_millis(59_500), log(&mut handler, "a", 1_000)).await;
    assert!(endless.is_err(), "the record was done without room for it");
    // 59 executions of 1 s, two before each try.
    assert_eq!(handler.dead_letters().refused(), 29);

    let mut handler = self::handler(settings(BackOff::fixed(0, 1)), 1);
    log(&mut handler, "a", 1_000).await;
    let letters = handler.dead_letters().clone();
    let emptied = async {
        sleep(Duration::from_millis(4_500)).await;
        letters.take()
    };
    let (lines, emptied) = tokio::join!(log(&mut handler, "a", 1_000), emptied);
    assert_eq!((emptied.len(), letters.len(), letters.refused()), (1, 1, 2));
    assert_eq!(lines.last().map(String::as_str), Some("dead after 6"));
    assert!(lines.contains(&"4000 kept 4 1".to_owned()), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_full_list_ends_in_the_terminal_state_where_the_settings_bound_it() {
    let recovery = Recovery { first_wait_ms: 100, max_tries: 3, then: Terminal::Stop, ..Recovery::default() };
    let bounded = RetrySettings { recovery: Some(recovery), ..settings(BackOff::fixed(0, 0)) };
    let expected = ["0 start 1 (1)", "10 fail 1 a", "10 kept 1 0", "110 kept 1 0", "310 kept 1 0", "Stop after 1"];
    assert_eq!(log(&mut handler(bounded, 0), "a", 10).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_leaves_the_handler_ready() {
    let mut handler = handler(settings(BackOff::fixed_unlimited(1_000)), 1);
    for _ in 0..2 {
        let run = log(&mut handler, "a", 0);
        assert!(tokio::time::timeout(Duration::from_secs(100), run).await.is_err());
    }
    assert_eq!(log(&mut handler, ".", 0).await.first().map(String::as_str), Some("0 start 1 (1)"));
}

#[tokio::test(start_paused = true)]
async fn handlers_run_side_by_side_and_share_a_list() {
    let letters = DeadLetters::new(Destination::default(), 10);
    let run = |partition: i32| {
        let letters = letters.clone();
        tokio::spawn(async move {
            let mut handler = ErrorHandler::new(settings(BackOff::fixed(1_000, 2)), letters, no_random).unwrap();
            let record = Record { partition, ..record() };
            handler.run(&record, |_| async { Err::<(), _>(failure('a')) }, &mut crate::unheard).await
        })
    };
    let began = Instant::now();
    let (one, two) = tokio::join!(run(1), run(2));
    assert_eq!((one.unwrap(), two.unwrap()), (dead_after(3), dead_after(3)));
    assert_eq!((letters.len(), began.elapsed()), (2, Duration::from_secs(2)));
}

fn dead_after(executions: u32) -> Outcome<()> {
    Outcome::DeadLettered { execution: Execution(executions) }
}

#[test]
fn a_back_off_that_cannot_be_used_is_refused() {
    let letters = DeadLetters::new(Destination::default(), 1);
    assert!(ErrorHandler::new(settings(BackOff::fixed(-1, 1)), letters, no_random).is_err());
}

proptest! {
    /// The runner makes as many executions as the series predicts, for any back-off and any failures, and its time is
    /// that of the executions and the waits.
    #[test]
    fn executions_and_time_are_as_predicted(
        back_off in any_back_off(), failures in "[abs]{0,12}", end in "[.x]", reset: bool, work_ms in 0_u64..50,
    ) {
        let pattern = format!("{failures}{end}");
        let bound = back_off.executions(SpringVersion::default()).unwrap();
        let expected = predicted(bound, &pattern, reset);
        let settings = RetrySettings { reset_on_exception_change: reset, ..settings(back_off) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (executions, waits_ms) = (Cell::new(0_u64), Cell::new(0_u64));
        let elapsed = runtime.block_on(async {
            let began = Instant::now();
            let classes: Vec<char> = pattern.chars().collect();
            let work = |execution: Execution| {
                executions.set(executions.get() + 1);
                let class = classes.get(execution.0 as usize - 1).copied();
                async move {
                    sleep(Duration::from_millis(work_ms)).await;
                    class.filter(|class| *class != '.').map_or(Ok(()), |class| Err(failure(class)))
                }
            };
            let mut listener = |_: &Record, event: Event<'_>| {
                if let Event::Waiting { wait_ms } = event {
                    waits_ms.set(waits_ms.get() + wait_ms);
                }
            };
            handler(settings, 1).run(&record(), work, &mut listener).await;
            began.elapsed()
        });
        prop_assert_eq!(executions.get(), expected, "{}", pattern);
        prop_assert_eq!(elapsed, Duration::from_millis(expected * work_ms + waits_ms.get()));
    }
}
