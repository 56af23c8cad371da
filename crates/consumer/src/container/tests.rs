//! Containers on in-memory topics and the paused clock: what is executed when, and what is committed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backfire_model::back_off::{BackOff, Fixed, no_random};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::*;
use crate::bounds::Recovery;
use crate::dead_letters::{DeadLetterRecoverer, Destination, Discard};
use crate::failure::ErrorClass;
use crate::owners::Owners;
use crate::poll_budget::Expected;
use crate::record::{ProducerRecord, TopicPartition};
use crate::retry_state::RetrySettings;
use crate::source::memory::{Broker, BrokerSettings, ConsumerSettings};
use crate::work::{Delivery, WorkError, WorkKind, per_batch, per_record};

const SECOND: Duration = Duration::from_secs(1);

/// What happened, one line for each event: `12.000 one starts 0@3 #1`.
#[derive(Clone)]
struct Log {
    began: Instant,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Log {
    fn new() -> Self {
        Self { began: Instant::now(), lines: Arc::default() }
    }

    fn observer(&self, name: &'static str) -> impl Observer + use<> {
        let log = self.clone();
        move |event: &ConsumerEvent<'_>| {
            if let Some(text) = text(event) {
                log.lines.lock().push(format!("{:.3} {name} {text}", log.began.elapsed().as_secs_f64()));
            }
        }
    }

    /// The lines that contain this.
    fn with(&self, part: &str) -> Vec<String> {
        self.lines.lock().iter().filter(|line| line.contains(part)).cloned().collect()
    }

    /// The lines that contain `part`, joined.
    fn check(&self, part: &str, expected: &str) {
        let lines = self.lines.lock();
        let found: Vec<&str> = lines.iter().filter(|line| line.contains(part)).map(String::as_str).collect();
        assert_eq!(found.join("; "), expected, "in\n{}", lines.join("\n"));
    }
}

fn place(records: &Records) -> String {
    match records {
        [one] => format!("{}@{}", one.partition, one.offset),
        [first, .., last] => format!("{}@{}..{}", first.partition, first.offset, last.offset),
        [] => "nothing".to_owned(),
    }
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn text(event: &ConsumerEvent<'_>) -> Option<String> {
    let one = |record: &Arc<Record>| place(std::slice::from_ref(record));
    let parts = |parts: &[TopicPartition]| list(parts, |part| part.partition.to_string());
    let offsets = |offsets: &[(TopicPartition, i64)]| list(offsets, |(part, at)| format!("{}@{at}", part.partition));
    Some(match event {
        ConsumerEvent::Assigned { partitions } => format!("assigned {}", parts(partitions)),
        ConsumerEvent::Revoked { partitions } => format!("revoked {}", parts(partitions)),
        ConsumerEvent::Lost { partitions } => format!("lost {}", parts(partitions)),
        ConsumerEvent::ExecutionStarted { records, attempt } => format!("starts {} #{attempt}", place(records)),
        ConsumerEvent::Succeeded { records, stale, .. } => {
            format!("{} {}", if *stale { "stale" } else { "done" }, place(records))
        }
        ConsumerEvent::Failed { records, failure, .. } => format!("failed {} {}", place(records), failure.outer()),
        ConsumerEvent::Decided { record, wait_ms: Some(wait_ms), .. } => format!("waits {} {wait_ms}", one(record)),
        ConsumerEvent::Decided { record, spent: Some(spent), .. } => format!("gives up {} {spent}", one(record)),
        ConsumerEvent::Decided { .. } => return None,
        ConsumerEvent::OverBudget { records, ran_ms, .. } => format!("over budget {} {ran_ms}", place(records)),
        ConsumerEvent::HandedOverWhileRunning { records, .. } => format!("handed over {}", place(records)),
        ConsumerEvent::Recovered { record, .. } => format!("dead {}", one(record)),
        ConsumerEvent::RecoveryFailed { record, tries, alarm, .. } => {
            format!("not dead {} {tries}{}", one(record), if *alarm { " alarm" } else { "" })
        }
        ConsumerEvent::Terminal { record, terminal, .. } => format!("terminal {} {terminal:?}", one(record)),
        ConsumerEvent::Committed { offsets: at } => format!("committed {}", offsets(at)),
        ConsumerEvent::CommitFailed { offsets: at, .. } => format!("commit failed {}", offsets(at)),
        ConsumerEvent::SourceFailed { error } => format!("source failed {error}"),
    })
}

/// A broker with the topic `orders`, its dead-letter topic, and records in each partition.
fn broker(partitions: i32, records: i64) -> Broker {
    let broker = Broker::new(BrokerSettings::default(), no_random);
    broker.create_topic("orders", partitions).unwrap();
    broker.create_topic("orders-dlt", partitions).unwrap();
    (0..partitions).for_each(|partition| fill(&broker, partition, records));
    broker
}

fn fill(broker: &Broker, partition: i32, records: i64) {
    for _ in 0..records {
        let record = ProducerRecord { topic: "orders".into(), partition: Some(partition), ..Default::default() };
        broker.send(record).unwrap();
    }
}

fn consumer(broker: &Broker, interval: Duration) -> impl Source + use<> {
    let settings = ConsumerSettings { max_poll_interval: interval, ..ConsumerSettings::new("group", ["orders"]) };
    broker.consumer(settings).unwrap()
}

fn committed(broker: &Broker, partition: i32) -> Option<i64> {
    broker.committed("group", &TopicPartition::new("orders", partition))
}

fn letters(broker: &Broker) -> i64 {
    let count = broker.partitions("orders-dlt").unwrap();
    (0..count).map(|number| broker.end_offset(&TopicPartition::new("orders-dlt", number)).unwrap()).sum()
}

fn recoverer(broker: &Broker) -> DeadLetterRecoverer<Broker> {
    DeadLetterRecoverer::new(broker.clone(), Destination::default())
}

/// An exception.
fn failure(class: &'static str) -> Failure {
    Failure::new(ErrorClass::new(class), "failed")
}

/// Always the same wait.
fn fixed(interval_ms: i64, max_retries: i64) -> BackOff {
    BackOff::Fixed(Fixed { interval_ms, max_retries: Some(max_retries) })
}

/// Our own mode, without jitter.
fn bounded(back_off: BackOff) -> ContainerSettings {
    let mut retry = RetrySettings { back_off, ..RetrySettings::bounded() };
    retry.bounds.jitter = 0.0;
    ContainerSettings { retry, ..ContainerSettings::default() }
}

/// Spring Kafka's of a version.
fn spring(version: &str, back_off: BackOff) -> ContainerSettings {
    let mut settings = ContainerSettings::spring(version.parse().unwrap());
    settings.retry.back_off = back_off;
    settings
}

fn mode(settings: &mut ContainerSettings) -> &mut BoundedMode {
    match &mut settings.mode {
        Mode::Bounded(mode) => mode,
        Mode::Spring(_) => panic!("not our own mode"),
    }
}

/// Work of this time that fails as `fails` says for offset and attempt.
fn work<F>(takes: Duration, fails: F) -> impl Work
where
    F: Fn(i64, u64) -> Option<&'static str> + Send + Sync + Copy,
{
    per_record(move |delivery: Delivery| async move {
        if !takes.is_zero() {
            sleep(takes).await;
        }
        match fails(delivery.record().offset, delivery.attempt()) {
            Some(class) => Err(failure(class)),
            None => Ok(()),
        }
    })
}

/// Runs a container for this long and stops it.
async fn run_for<S, W, D, O, P>(container: Container<S, W, D, O, P>, time: Duration) -> Result<(), ContainerError>
where
    S: Source,
    W: Work,
    D: Recoverer,
    O: Observer,
    P: Recoverer,
{
    let stop = StopHandle::new();
    let ending = async {
        sleep(time).await;
        stop.stop();
    };
    tokio::join!(container.stop_by(stop.clone()).run(), ending).0
}

#[tokio::test(start_paused = true)]
async fn every_record_is_executed_once_in_order_and_committed() {
    for settings in [bounded(fixed(0, 3)), spring("3.3", fixed(0, 3))] {
        let (broker, log) = (broker(2, 3), Log::new());
        let source = consumer(&broker, SECOND * 300);
        let container = Container::new(source, work(Duration::ZERO, |_, _| None), recoverer(&broker), settings, 1);
        run_for(container.observer(log.observer("one")), SECOND * 20).await.unwrap();
        let starts: Vec<String> = log.with("starts");
        for partition in 0..2 {
            let expected: Vec<_> = (0..3).map(|offset| format!("0.000 one starts {partition}@{offset} #1")).collect();
            let of_partition = format!("starts {partition}@");
            let found: Vec<_> = starts.iter().filter(|line| line.contains(&of_partition)).cloned().collect();
            assert_eq!(found, expected);
            assert_eq!(committed(&broker, partition), Some(3));
        }
        // It left its group.
        assert_eq!(broker.group_counters("group").members, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_fails_is_tried_as_the_back_off_says_and_becomes_a_dead_letter() {
    // The timeline of the fixed back-off (0, 3): four executions; Spring sleeps 10 ms at least between two.
    let cases = [
        (bounded(fixed(0, 3)), ["2.000", "4.000", "6.000", "8.000"]),
        (bounded(fixed(1_000, 3)), ["2.000", "5.000", "8.000", "11.000"]),
        (spring("3.3", fixed(0, 3)), ["2.000", "4.010", "6.020", "8.030"]),
        (spring("2.8", fixed(1_050, 3)), ["2.000", "5.100", "8.200", "11.300"]),
    ];
    for (settings, times) in cases {
        let (broker, log) = (broker(1, 2), Log::new());
        let always = |offset, _| (offset == 1).then_some("a.Timeout");
        let source = consumer(&broker, SECOND * 300);
        let container = Container::new(source, work(SECOND * 2, always), Discard, settings, 1);
        run_for(container.observer(log.observer("one")), SECOND * 60).await.unwrap();
        let expected: Vec<String> =
            times.iter().enumerate().map(|(index, time)| format!("{time} one starts 0@1 #{}", index + 1)).collect();
        log.check("starts 0@1", &expected.join("; "));
        assert_eq!(log.with("starts 0@0").len(), 1, "the record before is not repeated");
        assert_eq!(committed(&broker, 0), Some(2));
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_record_of_a_partition_is_committed_when_it_is_a_dead_letter() {
    // Report R83: restarted, it is not delivered again.
    for settings in [bounded(fixed(0, 1)), spring("3.3", fixed(0, 1))] {
        let broker = broker(1, 1);
        for _ in 0..2 {
            let source = consumer(&broker, SECOND * 300);
            let fails = work(Duration::ZERO, |_, _| Some("a.B"));
            let container = Container::new(source, fails, recoverer(&broker), settings.clone(), 1);
            run_for(container, SECOND * 10).await.unwrap();
            assert_eq!((committed(&broker, 0), letters(&broker)), (Some(1), 1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn long_executions_and_waits_do_not_cost_the_membership() {
    // An execution of ten minutes and a wait of ten minutes, with a poll interval of ten seconds.
    let (broker, log) = (broker(1, 1), Log::new());
    let mut settings = bounded(fixed(600_000, 3));
    settings.retry.bounds.max_elapsed_ms = None;
    mode(&mut settings).drain_timeout = SECOND * 5;
    let source = consumer(&broker, SECOND * 10);
    let fails_once = work(SECOND * 600, |_, attempt| (attempt == 1).then_some("a.B"));
    let container = Container::new(source, fails_once, Discard, settings, 1);
    run_for(container.observer(log.observer("one")), SECOND * 2_000).await.unwrap();
    log.check("starts", "0.000 one starts 0@0 #1; 1200.000 one starts 0@0 #2");
    let counters = broker.group_counters("group");
    assert_eq!((counters.poll_intervals_exceeded, counters.generation, committed(&broker, 0)), (0, 1, Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_waits_holds_up_its_own_partition_only() {
    let (broker, log) = (broker(2, 3), Log::new());
    let source = consumer(&broker, SECOND * 300);
    let fails = per_record(|delivery: Delivery| async move {
        let record = delivery.record();
        match record.partition == 0 && record.offset == 1 && delivery.attempt() <= 2 {
            true => Err(failure("a.B")),
            false => Ok(()),
        }
    });
    let container = Container::new(source, fails, Discard, bounded(fixed(10_000, 3)), 1);
    let more = async {
        sleep(SECOND * 5).await;
        (0..2).for_each(|partition| fill(&broker, partition, 1));
    };
    let running = run_for(container.observer(log.observer("one")), SECOND * 60);
    tokio::join!(running, more).0.unwrap();
    log.check(
        "starts 1@",
        "0.000 one starts 1@0 #1; 0.000 one starts 1@1 #1; 0.000 one starts 1@2 #1; 5.000 one starts 1@3 #1",
    );
    log.check(
        "starts 0@",
        "0.000 one starts 0@0 #1; 0.000 one starts 0@1 #1; 10.000 one starts 0@1 #2; 20.000 one starts 0@1 #3; \
         20.000 one starts 0@2 #1; 20.000 one starts 0@3 #1",
    );
    assert_eq!((committed(&broker, 0), committed(&broker, 1)), (Some(4), Some(4)));
}

/// Two consumers; the second joins at 1 s and is to get partition 1, of which the first executes a record for 25 s.
async fn drained(drain: Duration, at_once: usize) -> (Broker, Log) {
    let (broker, log) = (broker(2, 0), Log::new());
    fill(&broker, 1, 2);
    let mut settings = bounded(fixed(0, 3));
    *mode(&mut settings) = BoundedMode { drain_timeout: drain, partitions_at_once: at_once, ..BoundedMode::default() };
    let container = |name| {
        let source = consumer(&broker, SECOND * 300);
        Container::new(source, work(SECOND * 25, |_, _| None), Discard, settings.clone(), 1)
            .observer(log.observer(name))
    };
    let one = run_for(container("one"), SECOND * 70);
    let two = async {
        sleep(SECOND).await;
        run_for(container("two"), SECOND * 120).await
    };
    let (one, two) = tokio::join!(one, two);
    one.unwrap();
    two.unwrap();
    (broker, log)
}

#[tokio::test(start_paused = true)]
async fn a_rebalance_waits_for_what_runs_and_keeps_what_is_done() {
    for at_once in [1, 4] {
        // Report R76: drain first, then fence.
        let (broker, log) = drained(SECOND * 30, at_once).await;
        log.check("starts", "0.000 one starts 1@0 #1; 25.000 two starts 1@1 #1");
        log.check("handed over", "");
        log.check("committed", "25.000 one committed 1@1; 50.000 two committed 1@2");
        assert_eq!(committed(&broker, 1), Some(2));
    }
}

#[tokio::test(start_paused = true)]
async fn an_execution_longer_than_the_drain_timeout_is_named_and_not_committed() {
    // It began at 0 s and is told of the rebalance by its poll at 2 s, or, where it polls all the time, at 1 s; 20 s later
    // its partition goes, too early.
    for (at_once, gone_s) in [(1, 22), (4, 21)] {
        let (broker, log) = drained(SECOND * 20, at_once).await;
        log.check("handed over", &format!("{gone_s}.000 one handed over 1@0"));
        log.check("starts 1@0", &format!("0.000 one starts 1@0 #1; {gone_s}.000 two starts 1@0 #1"));
        log.check("stale", "25.000 one stale 1@0");
        let commits = format!("{}.000 two committed 1@1; {}.000 two committed 1@2", gone_s + 25, gone_s + 50);
        log.check("committed", &commits);
        assert_eq!(committed(&broker, 1), Some(2));
    }
}

#[tokio::test(start_paused = true)]
async fn spring_exceeds_its_poll_interval_and_never_ends() {
    // facts/client.md Y2: each consumer counts on with its own attempts, nothing is ever committed, and the record runs
    // in both at once.
    let (broker, log, owners) = (broker(1, 1), Log::new(), Owners::new(100));
    let container = |name| {
        let source = consumer(&broker, SECOND * 4);
        let settings = spring("3.3", fixed(0, 3));
        Container::new(source, work(SECOND * 6, |_, _| Some("a.Timeout")), recoverer(&broker), settings, 1)
            .observer(owners.observer(name, log.observer(name)))
    };
    let two = async {
        sleep(SECOND).await;
        run_for(container("two"), SECOND * 100).await
    };
    let (one, two) = tokio::join!(run_for(container("one"), SECOND * 100), two);
    one.unwrap();
    two.unwrap();
    let attempts: Vec<String> =
        log.with("starts").iter().filter_map(|line| Some(line.split_once('#')?.1.to_owned())).collect();
    assert_eq!(attempts[..8].join(" "), "1 1 2 2 3 3 4 4");
    assert!(attempts.len() > 16 && letters(&broker) > 3, "{} executions", attempts.len());
    assert_eq!(committed(&broker, 0), None);
    // The ledger names the record, and the watchdog told it in time.
    assert_eq!(owners.two_owners()[0].to_string(), "orders-0@0: two began while one executed it");
    assert!(owners.at_once() > 8 && owners.unseen() == 0, "{owners:?}");
    assert_eq!(log.with("over budget")[0], "4.000 one over budget 0@0 4000");
}

#[tokio::test(start_paused = true)]
async fn alternating_exceptions_never_end_in_spring_and_end_here() {
    // Report R71. Spring's total is cut off by the end of the test.
    let alternate = |_, attempt: u64| Some(if attempt.is_multiple_of(2) { "a.A" } else { "a.B" });
    let count = Arc::new(AtomicU64::new(0));
    let run = async |settings: ContainerSettings| {
        let broker = broker(1, 1);
        count.store(0, Ordering::Relaxed);
        let counting = {
            let count = Arc::clone(&count);
            per_record(move |_: Delivery| {
                let number = count.fetch_add(1, Ordering::Relaxed);
                async move { Err(failure(alternate(0, number).unwrap_or_default())) }
            })
        };
        let container = Container::new(consumer(&broker, SECOND * 300), counting, recoverer(&broker), settings, 1);
        run_for(container, SECOND * 200).await.unwrap();
        (count.load(Ordering::Relaxed), letters(&broker))
    };
    let (executions, letters) = run(spring("3.3", fixed(1_000, 3))).await;
    assert!(executions > 150 && letters == 0, "{executions} executions, {letters} dead letters");
    assert_eq!(run(spring("2.8", fixed(1_000, 3))).await, (4, 1), "before 2.9 a change of class was ignored");
    assert_eq!(run(bounded(fixed(1_000, 3))).await, (4, 1));
    assert_eq!(run(bounded(fixed(1_000, 1_000))).await, (10, 1), "the attempt cap holds for any back-off");
}

/// Never takes a record.
struct Broken;

impl Recoverer for Broken {
    async fn recover(&self, _: &Record, _: &Failure, _: Spent) -> Result<Recovered, RecoverError> {
        Err(RecoverError::Publish(PublishError { message: "no broker".to_owned() }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_recoverer_that_always_fails_ends_as_the_settings_say() {
    // Report R72.
    let run = async |settings: ContainerSettings| {
        let (broker, log) = (broker(1, 2), Log::new());
        let fails = work(Duration::ZERO, |offset, _| (offset == 0).then_some("a.B"));
        let container = Container::new(consumer(&broker, SECOND * 300), fails, Broken, settings, 1)
            .parking(Discard)
            .observer(log.observer("one"));
        (run_for(container, SECOND * 600).await, committed(&broker, 0), log)
    };
    let terminal = |then| {
        let mut settings = bounded(fixed(1_000, 1));
        settings.retry.recovery = Some(Recovery { first_wait_ms: 1_000, max_wait_ms: 8_000, max_tries: 4, then });
        settings
    };
    let tries = "1.000 one not dead 0@0 1; 2.000 one not dead 0@0 2; 4.000 one not dead 0@0 3; \
                 8.000 one not dead 0@0 4 alarm";

    let (ended, offset, log) = run(terminal(Terminal::Block)).await;
    ended.unwrap();
    assert_eq!((offset, log.with("starts").len()), (None, 2), "the work is not executed again");
    let failed = log.with("not dead");
    assert_eq!(failed[..4].join("; "), tries);
    assert!(failed[5..].iter().all(|line| line.ends_with("alarm")) && failed.len() > 70, "{failed:?}");

    for (then, name) in [(Terminal::Park, "Park"), (Terminal::Skip, "Skip")] {
        let (ended, offset, log) = run(terminal(then)).await;
        ended.unwrap();
        assert_eq!(offset, Some(2), "{name}");
        log.check("not dead", tries);
        log.check("terminal", &format!("8.000 one terminal 0@0 {name}"));
    }

    let (ended, offset, log) = run(terminal(Terminal::Stop)).await;
    assert!(matches!(ended, Err(ContainerError::Stopped { record, .. }) if record.offset == 0));
    assert_eq!((offset, log.with("starts").len()), (None, 2));

    // Spring executes the work again, cycle after cycle.
    let (ended, offset, log) = run(spring("3.3", fixed(1_000, 1))).await;
    ended.unwrap();
    assert_eq!(offset, None);
    assert!(log.with("starts").len() > 500, "{}", log.with("starts").len());
}

#[tokio::test(start_paused = true)]
async fn spring_leaves_its_group_or_not_as_its_version_does() {
    // Report R69: interval 10 s, back-off 8 s, an execution of 3 s. A record listener works and sleeps between two polls
    // in all versions; a batch listener polls before the wait, then around it, then during it.
    let cases = [
        ("2.8", WorkKind::Record, true),
        ("3.0.2", WorkKind::Record, true),
        ("3.3.10", WorkKind::Record, true),
        ("2.8", WorkKind::Batch, true),
        ("3.0.0", WorkKind::Batch, true),
        ("2.9.5", WorkKind::Batch, false),
        ("3.0.2", WorkKind::Batch, false),
        ("3.3.10", WorkKind::Batch, false),
    ];
    for (version, kind, leaves) in cases {
        let broker = broker(1, 1);
        let mut settings = spring(version, fixed(8_000, 2));
        settings.expected =
            Some(Expected { normal_ms: 0, longest_ms: 3_000, dead_letter_ms: 0, names_failed_record: Some(false) });
        let source = consumer(&broker, SECOND * 10);
        let (single, batch) = (
            per_record(|_: Delivery| async {
                sleep(SECOND * 3).await;
                Err(failure("a.B"))
            }),
            per_batch(|_: Delivery| async {
                sleep(SECOND * 3).await;
                Err(WorkError::from(failure("a.B")))
            }),
        );
        let fits = match kind {
            WorkKind::Record => {
                let container = Container::new(source, single, Discard, settings, 1);
                let fits = container.poll_budget().unwrap().fits();
                run_for(container, SECOND * 40).await.unwrap();
                fits
            }
            WorkKind::Batch => {
                let container = Container::new(source, batch, Discard, settings, 1);
                let fits = container.poll_budget().unwrap().fits();
                run_for(container, SECOND * 40).await.unwrap();
                fits
            }
        };
        let exceeded = broker.group_counters("group").poll_intervals_exceeded > 0;
        assert_eq!((exceeded, fits), (leaves, !leaves), "{version} {kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_names_its_failed_record_keeps_what_is_before_it() {
    for settings in [bounded(fixed(1_000, 1)), spring("3.3", fixed(1_000, 1))] {
        let (broker, log) = (broker(1, 4), Log::new());
        let at_two = per_batch(|delivery: Delivery| async move {
            match delivery.records().iter().position(|record| record.offset == 2) {
                Some(index) => Err(WorkError::at(index, failure("a.B"))),
                None => Ok(()),
            }
        });
        let container = Container::new(consumer(&broker, SECOND * 300), at_two, recoverer(&broker), settings, 1);
        run_for(container.observer(log.observer("one")), SECOND * 30).await.unwrap();
        log.check("starts", "0.000 one starts 0@0..3 #1; 1.000 one starts 0@2..3 #2; 1.000 one starts 0@3 #1");
        assert_eq!((committed(&broker, 0), letters(&broker)), (Some(4), 1));
        assert!(log.with("committed 0@2").len() == 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_names_nothing_is_tried_as_a_whole() {
    let bad = || {
        per_batch(|delivery: Delivery| async move {
            match delivery.records().iter().any(|record| record.offset == 2) {
                true => Err(WorkError::from(failure("a.B"))),
                false => Ok(()),
            }
        })
    };
    // Spring: all four become dead letters.
    let (broker_, log) = (broker(1, 4), Log::new());
    let settings = spring("3.3", fixed(1_000, 1));
    let container = Container::new(consumer(&broker_, SECOND * 300), bad(), recoverer(&broker_), settings, 1);
    run_for(container.observer(log.observer("one")), SECOND * 30).await.unwrap();
    log.check("starts", "0.000 one starts 0@0..3 #1; 1.000 one starts 0@0..3 #2");
    assert_eq!((committed(&broker_, 0), letters(&broker_)), (Some(4), 4));
    // Here: one by one, and only the bad one does.
    let (broker, log) = (broker(1, 4), Log::new());
    let settings = bounded(fixed(1_000, 1));
    let container = Container::new(consumer(&broker, SECOND * 300), bad(), recoverer(&broker), settings, 1);
    run_for(container.observer(log.observer("one")), SECOND * 30).await.unwrap();
    log.check(
        "starts",
        "0.000 one starts 0@0..3 #1; 1.000 one starts 0@0..3 #2; 1.000 one starts 0@0 #1; 1.000 one starts 0@1 #1; \
         1.000 one starts 0@2 #1; 2.000 one starts 0@2 #2; 2.000 one starts 0@3 #1",
    );
    assert_eq!((committed(&broker, 0), letters(&broker)), (Some(4), 1));
}

#[tokio::test(start_paused = true)]
async fn manual_acknowledgement_decides_what_is_committed() {
    for ack_mode in [AckMode::Manual, AckMode::ManualImmediate] {
        let broker = broker(1, 3);
        let settings = ContainerSettings { ack_mode, ..bounded(fixed(0, 0)) };
        let first_two = per_record(|delivery: Delivery| async move {
            if delivery.record().offset < 2 {
                delivery.acknowledge();
            }
            Ok(())
        });
        let container = Container::new(consumer(&broker, SECOND * 300), first_two, Discard, settings, 1);
        run_for(container, SECOND * 10).await.unwrap();
        assert_eq!(committed(&broker, 0), Some(2), "{ack_mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_says_which_attempt_it_is() {
    let broker = broker(1, 1);
    let settings = ContainerSettings { delivery_attempt_header: true, ..bounded(fixed(0, 2)) };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noting = {
        let seen = Arc::clone(&seen);
        per_record(move |delivery: Delivery| {
            let header = delivery.record().header(crate::headers::DELIVERY_ATTEMPT).map(<[u8]>::to_vec);
            seen.lock().push((delivery.attempt(), header, delivery.id().to_string()));
            async { Err(failure("a.B")) }
        })
    };
    let container = Container::new(consumer(&broker, SECOND * 300), noting, Discard, settings, 1);
    run_for(container, SECOND * 10).await.unwrap();
    let expected: Vec<_> =
        (1..=3_u8).map(|attempt| (u64::from(attempt), Some(vec![0, 0, 0, attempt]), "orders-0-0".to_owned())).collect();
    assert_eq!(*seen.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_outlives_its_budget_is_reported_or_dropped() {
    for at_once in [1, 4] {
        for (over_budget, starts) in [
            (OverBudget::Report, "0.000 one starts 0@0 #1"),
            (OverBudget::Cancel, "0.000 one starts 0@0 #1; 60.000 one starts 0@0 #2"),
        ] {
            let (broker, log) = (broker(1, 1), Log::new());
            let mut settings = bounded(fixed(0, 1));
            mode(&mut settings).over_budget = over_budget;
            mode(&mut settings).partitions_at_once = at_once;
            let container =
                Container::new(consumer(&broker, SECOND * 300), work(SECOND * 150, |_, _| None), Discard, settings, 1);
            run_for(container.observer(log.observer("one")), SECOND * 200).await.unwrap();
            log.check("starts", starts);
            let reported = match over_budget {
                OverBudget::Report => "60.000 one over budget 0@0 60000; 120.000 one over budget 0@0 120000",
                OverBudget::Cancel => "60.000 one over budget 0@0 60000; 120.000 one over budget 0@0 60000",
            };
            log.check("over budget", reported);
            assert_eq!(committed(&broker, 0), Some(1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_what_runs_but_not_for_ever() {
    for at_once in [1, 4] {
        for (takes_s, offset, ended_s) in [(20, Some(1), 20), (100, None, 35)] {
            let (broker, log) = (broker(1, 2), Log::new());
            let mut settings = bounded(fixed(0, 0));
            mode(&mut settings).partitions_at_once = at_once;
            let container = Container::new(
                consumer(&broker, SECOND * 300),
                work(SECOND * takes_s, |_, _| None),
                Discard,
                settings,
                1,
            );
            run_for(container.observer(log.observer("one")), SECOND * 5).await.unwrap();
            assert_eq!((log.began.elapsed(), committed(&broker, 0)), (SECOND * ended_s, offset));
            assert_eq!(broker.group_counters("group").members, 0);
            assert_eq!(log.with(STOPPED).len(), usize::from(offset.is_none()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn partitions_are_executed_at_once_each_in_its_order() {
    // Partition 0 takes 3 s for each record, the others one; two at once, so that the third waits for its turn. What comes
    // later is taken while partition 0 is executed.
    let (broker, log) = (broker(3, 2), Log::new());
    let takes = per_record(|delivery: Delivery| async move {
        sleep(if delivery.record().partition == 0 { SECOND * 3 } else { SECOND }).await;
        Ok(())
    });
    let mut settings = bounded(fixed(0, 3));
    mode(&mut settings).partitions_at_once = 2;
    let container = Container::new(consumer(&broker, SECOND * 300), takes, Discard, settings, 1);
    let more = async {
        sleep(Duration::from_millis(5_500)).await;
        fill(&broker, 1, 1);
    };
    let running = run_for(container.observer(log.observer("one")), SECOND * 30);
    tokio::join!(running, more).0.unwrap();
    log.check("starts 0@", "0.000 one starts 0@0 #1; 3.000 one starts 0@1 #1");
    log.check("starts 1@", "0.000 one starts 1@0 #1; 2.000 one starts 1@1 #1; 5.500 one starts 1@2 #1");
    log.check("starts 2@", "1.000 one starts 2@0 #1; 3.000 one starts 2@1 #1");
    assert_eq!([0, 1, 2].map(|number| committed(&broker, number)), [Some(2), Some(3), Some(2)]);
    // Not only when all is done.
    assert!(log.with("committed").iter().any(|line| line.contains("2@1")), "{:?}", log.with("committed"));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_partition_does_not_stall_others_and_what_is_kept_is_bounded() {
    let (broker, log) = (broker(2, 100), Log::new());
    let takes = per_batch(|delivery: Delivery| async move {
        if delivery.record().partition == 0 {
            sleep(SECOND * 100).await;
        }
        sleep(SECOND).await;
        Ok(())
    });
    let mut settings = ContainerSettings { max_poll_records: 2, ..bounded(fixed(0, 3)) };
    *mode(&mut settings) =
        BoundedMode { partitions_at_once: 2, attempt_budget: None, drain_timeout: SECOND, ..BoundedMode::default() };
    let container = Container::new(consumer(&broker, SECOND * 300), takes, Discard, settings, 1);
    run_for(container.observer(log.observer("one")), SECOND * 60).await.unwrap();
    log.check("starts 0@", "0.000 one starts 0@0..1 #1");
    assert_eq!((committed(&broker, 0), committed(&broker, 1)), (None, Some(100)), "{:?}", log.with("starts 1@"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_never_passed_over() {
    // Reports R78, R82: the second of three fails for good and cannot be made a dead letter.
    let broker = broker(1, 3);
    let fails = work(Duration::ZERO, |offset, _| (offset == 1).then_some("a.B"));
    let container = Container::new(consumer(&broker, SECOND * 300), fails, Broken, bounded(fixed(0, 1)), 1);
    run_for(container, SECOND * 600).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(1));
}

#[tokio::test(start_paused = true)]
async fn many_consumers_of_one_group_share_its_partitions_and_repeat_exactly() {
    let run = async || {
        let (broker, log) = (broker(16, 40), Log::new());
        let stop = StopHandle::new();
        let all = run_concurrently(10, &stop, |number| {
            let name: &'static str = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"][number];
            let fails = work(SECOND, |offset, attempt| (offset % 7 == 3 && attempt < 3).then_some("a.B"));
            let source = consumer(&broker, SECOND * 300);
            let settings = ContainerSettings::default();
            Container::new(source, fails, recoverer(&broker), settings, number as u64).observer(log.observer(name))
        });
        let ending = async {
            sleep(SECOND * 600).await;
            stop.stop();
        };
        tokio::join!(all, ending).0.unwrap();
        (0..16).for_each(|partition| assert_eq!(committed(&broker, partition), Some(40)));
        log.lines.lock().join("\n")
    };
    let first = run().await;
    for name in 'a'..='j' {
        assert!(first.contains(&format!(" {name} starts")), "{name} had nothing to do");
    }
    assert_eq!(first, run().await);
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_are_refused_with_the_reason() {
    let check = async |settings: ContainerSettings, part: &str| {
        let broker = broker(1, 0);
        let container =
            Container::new(consumer(&broker, SECOND * 300), work(SECOND, |_, _| None), Discard, settings, 1);
        let error = container.run().await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    let own = || bounded(fixed(0, 3));
    check(ContainerSettings { max_poll_records: 0, ..own() }, "max_poll_records").await;
    let mut settings = own();
    settings.retry.bounds.jitter = 1.5;
    check(settings, "jitter is 1.5").await;
    let mut settings = own();
    settings.retry.recovery = Some(Recovery { then: Terminal::Park, ..Recovery::default() });
    check(settings, "no place to park").await;
    let mut settings = own();
    mode(&mut settings).keep_alive = Duration::ZERO;
    check(settings, "keep_alive").await;
    let mut settings = own();
    mode(&mut settings).attempt_budget = Some(Duration::ZERO);
    check(settings, "attempt_budget").await;
    let mut settings = own();
    mode(&mut settings).drain_timeout = SECOND * 300;
    check(settings, "drain_timeout (300000 ms)").await;
    let mut settings = spring("2.8", fixed(0, 3));
    if let Mode::Spring(mode) = &mut settings.mode {
        mode.waits = SpringWaits::PauseContainer;
    }
    check(settings, "came with Spring Kafka 2.9").await;
    let mut settings = spring("3.3", fixed(0, 3));
    settings.retry.recovery = Some(Recovery::default());
    check(settings, "no terminal state").await;
    // The poll budget, with its arithmetic.
    let mut settings = spring("3.3", fixed(10_000, 3));
    settings.over_poll_budget = OverPollBudget::Refuse;
    settings.expected =
        Some(Expected { normal_ms: 500, longest_ms: 60_000, dead_letter_ms: 125_000, names_failed_record: None });
    check(settings, "499 x 500 ms + 60000 ms + 10000 ms + 125000 ms = 444500 ms >= 300000 ms").await;
}
