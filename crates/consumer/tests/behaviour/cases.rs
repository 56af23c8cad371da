//! The behaviour, one function for each.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backfire_consumer::{
    BoundedMode, ConsumerEvent, Container, ContainerSettings, DeadLetterRecoverer, Delivery, Destination, ErrorClass,
    Failure, Mode, Observer, Record, RetrySettings, StopHandle, Work, headers, per_batch, per_record,
};
use backfire_model::back_off::{BackOff, Fixed};
use tokio::time::sleep;

use crate::world::{World, until};

const SECOND: Duration = Duration::from_secs(1);

/// What was executed: partition, offset and attempt.
type Log = Arc<Mutex<Vec<(i32, i64, u64)>>>;

fn bounded(interval_ms: i64, max_retries: i64) -> ContainerSettings {
    let back_off = BackOff::Fixed(Fixed { interval_ms, max_retries: Some(max_retries) });
    let mut retry = RetrySettings { back_off, ..RetrySettings::bounded() };
    retry.bounds.jitter = 0.0;
    let mode =
        Mode::Bounded(BoundedMode { drain_timeout: SECOND * 4, partitions_at_once: 2, ..BoundedMode::default() });
    ContainerSettings { retry, mode, poll_timeout: SECOND, ..ContainerSettings::default() }
}

fn spring(interval_ms: i64, max_retries: i64) -> ContainerSettings {
    let mut settings = ContainerSettings::spring("3.3".parse().expect("a version"));
    settings.retry.back_off = BackOff::Fixed(Fixed { interval_ms, max_retries: Some(max_retries) });
    settings.poll_timeout = SECOND;
    settings
}

/// Work that notes what it executes, takes some time, and fails where `fails` says so.
fn work<F>(log: &Log, takes: Duration, fails: F) -> impl Work + use<F>
where
    F: Fn(&Record, u64) -> bool + Send + Sync + Copy,
{
    let log = Arc::clone(log);
    per_record(move |delivery: Delivery| {
        let (record, attempt) = (Arc::clone(delivery.record()), delivery.attempt());
        log.lock().expect("not poisoned").push((record.partition, record.offset, attempt));
        async move {
            sleep(takes).await;
            match fails(&record, attempt) {
                true => Err(Failure::new(ErrorClass::new("com.mongodb.MongoSocketReadTimeoutException"), "timed out")),
                false => Ok(()),
            }
        }
    })
}

fn recoverer<W: World>(world: &W) -> DeadLetterRecoverer<W::Publisher> {
    let destination = Destination { consumer_group: Some(world.group().to_owned()), ..Destination::default() };
    DeadLetterRecoverer::new(world.publisher(), destination)
}

/// Runs a consumer until something has come about.
async fn run_until<W: World>(
    world: &W,
    work: impl Work,
    settings: ContainerSettings,
    observer: impl Observer,
    come_about: impl Future<Output = ()>,
) {
    let stop = StopHandle::new();
    let container = Container::new(world.consumer(SECOND * 60), work, recoverer(world), settings, 1)
        .observer(observer)
        .stop_by(stop.clone());
    let ending = async {
        come_about.await;
        stop.stop();
    };
    let (ended, ()) = tokio::join!(container.run(), ending);
    ended.expect("the container ends well");
}

fn unobserved(_: &ConsumerEvent<'_>) {}

fn executed(log: &Log) -> Vec<(i32, i64, u64)> {
    log.lock().expect("not poisoned").clone()
}

pub async fn every_record_is_executed_in_order_and_committed<W: World>(world: &W) {
    world.create_topics(2, 2).await;
    world.fill(0, 30).await;
    world.fill(1, 30).await;
    let log = Log::default();
    let all = [(0, 30), (1, 30)];
    run_until(world, work(&log, Duration::ZERO, |_, _| false), bounded(0, 3), unobserved, world.until_committed(&all))
        .await;
    for partition in 0..2 {
        let found: Vec<_> = executed(&log).into_iter().filter(|(number, ..)| *number == partition).collect();
        let expected: Vec<_> = (0..30).map(|offset| (partition, offset, 1)).collect();
        assert_eq!(found, expected);
    }
}

pub async fn a_record_that_fails_becomes_a_dead_letter_with_its_headers<W: World>(world: &W) {
    world.create_topics(2, 2).await;
    world.fill(1, 3).await;
    for settings in [bounded(10, 2), spring(10, 2)] {
        let log = Log::default();
        let fails = work(&log, Duration::ZERO, |record, _| record.offset % 3 == 1);
        let end = world.records(world.topic()).await.len() as i64;
        run_until(world, fails, settings, unobserved, world.until_committed(&[(1, end)])).await;
        let attempts: Vec<_> = executed(&log).iter().map(|(_, offset, attempt)| (offset % 3, *attempt)).collect();
        assert_eq!(attempts, [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1)]);
        world.fill(1, 3).await;
    }
    let letters = world.records(&format!("{}-dlt", world.topic())).await;
    assert_eq!(letters.len(), 2);
    for (letter, offset) in letters.iter().zip([1_i64, 4]) {
        assert_eq!((letter.partition, letter.key.as_deref()), (1, Some(b"key".as_slice())));
        assert_eq!(letter.value.as_deref(), Some(b"1".as_slice()));
        let expected: BTreeMap<&str, Vec<u8>> = BTreeMap::from([
            ("own", b"1".to_vec()),
            (headers::ORIGINAL_TOPIC, world.topic().as_bytes().to_vec()),
            (headers::ORIGINAL_PARTITION, vec![0, 0, 0, 1]),
            (headers::ORIGINAL_OFFSET, offset.to_be_bytes().to_vec()),
            (headers::ORIGINAL_TIMESTAMP, 1_000_i64.to_be_bytes().to_vec()),
            (headers::ORIGINAL_TIMESTAMP_TYPE, b"CreateTime".to_vec()),
            (headers::ORIGINAL_CONSUMER_GROUP, world.group().as_bytes().to_vec()),
            (headers::EXCEPTION_FQCN, b"org.springframework.kafka.listener.ListenerExecutionFailedException".to_vec()),
            (headers::EXCEPTION_CAUSE_FQCN, b"com.mongodb.MongoSocketReadTimeoutException".to_vec()),
            (headers::EXCEPTION_MESSAGE, b"Listener failed; timed out".to_vec()),
            (headers::HOPS, b"1".to_vec()),
        ]);
        let mut found: BTreeMap<&str, Vec<u8>> =
            letter.headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        assert!(found.remove(headers::EXCEPTION_STACKTRACE).is_some());
        assert_eq!(found, expected);
    }
}

pub async fn a_dead_letter_goes_to_any_partition_where_its_own_is_missing<W: World>(world: &W) {
    world.create_topics(3, 1).await;
    world.fill(2, 1).await;
    let fails = work(&Log::default(), Duration::ZERO, |_, _| true);
    run_until(world, fails, bounded(0, 0), unobserved, world.until_committed(&[(2, 1)])).await;
    let letters = world.records(&format!("{}-dlt", world.topic())).await;
    assert_eq!(letters.iter().map(|letter| letter.partition).collect::<Vec<_>>(), [0]);
}

pub async fn a_record_that_waits_holds_up_its_own_partition_only<W: World>(world: &W) {
    world.create_topics(2, 2).await;
    world.fill(0, 2).await;
    let log = Log::default();
    let fails =
        work(&log, Duration::ZERO, |record, attempt| record.partition == 0 && record.offset == 0 && attempt == 1);
    let come_about = async {
        until(async || executed(&log).len() == 1).await;
        world.fill(1, 5).await;
        world.until_committed(&[(1, 5)]).await;
        assert_eq!(world.committed(0).await, None);
        world.until_committed(&[(0, 2)]).await;
    };
    run_until(world, fails, bounded(6_000, 3), unobserved, come_about).await;
    let expected = [(0, 0, 1), (1, 0, 1), (1, 1, 1), (1, 2, 1), (1, 3, 1), (1, 4, 1), (0, 0, 2), (0, 1, 1)];
    assert_eq!(executed(&log), expected);
}

/// The events that say something about the group, and failed commits.
fn group_events(events: &Arc<Mutex<Vec<String>>>) -> impl Observer + use<> {
    let events = Arc::clone(events);
    move |event: &ConsumerEvent<'_>| {
        let name = match event {
            ConsumerEvent::Assigned { partitions } if !partitions.is_empty() => "assigned",
            ConsumerEvent::Revoked { .. } => "revoked",
            ConsumerEvent::Lost { .. } => "lost",
            ConsumerEvent::CommitFailed { .. } => "commit failed",
            _ => return,
        };
        events.lock().expect("not poisoned").push(name.to_owned());
    }
}

pub async fn an_execution_longer_than_the_poll_interval_keeps_its_partition<W: World>(world: &W) {
    world.create_topics(1, 1).await;
    world.fill(0, 2).await;
    let (log, events, stop) = (Log::default(), Arc::default(), StopHandle::new());
    let interval = world.shortest_interval();
    let slow = work(&log, interval + SECOND * 2, |_, _| false);
    let container = Container::new(world.consumer(interval), slow, recoverer(world), bounded(0, 3), 1)
        .observer(group_events(&events))
        .stop_by(stop.clone());
    let ending = async {
        world.until_committed(&[(0, 2)]).await;
        stop.stop();
    };
    tokio::join!(container.run(), ending).0.expect("it ends well");
    assert_eq!(executed(&log), [(0, 0, 1), (0, 1, 1)]);
    assert_eq!(*events.lock().expect("not poisoned"), ["assigned"]);
}

pub async fn spring_loses_its_partition_when_an_execution_is_longer_than_the_poll_interval<W: World>(world: &W) {
    // facts/client.md Y2: the record comes back, and nothing is committed.
    world.create_topics(1, 1).await;
    world.fill(0, 1).await;
    let (log, events, stop) = (Log::default(), Arc::default(), StopHandle::new());
    let interval = world.shortest_interval();
    let slow = work(&log, interval + SECOND * 2, |_, _| false);
    let container = Container::new(world.consumer(interval), slow, recoverer(world), spring(0, 3), 1)
        .observer(group_events(&events))
        .stop_by(stop.clone());
    let ending = async {
        until(async || executed(&log).len() == 2).await;
        assert_eq!(world.committed(0).await, None);
        stop.stop();
    };
    tokio::join!(container.run(), ending).0.expect("it ends well");
    assert_eq!(executed(&log), [(0, 0, 1), (0, 0, 1)]);
    let events = events.lock().expect("not poisoned").clone();
    assert!(events.starts_with(&["assigned", "commit failed", "lost", "assigned"].map(str::to_owned)), "{events:?}");
}

pub async fn a_consumer_that_joins_takes_over_and_nothing_is_lost<W: World>(world: &W) {
    world.create_topics(4, 4).await;
    for partition in 0..4 {
        world.fill(partition, 25).await;
    }
    let (one, two, stop) = (Log::default(), Log::default(), StopHandle::new());
    let container = |log: &Log, seed| {
        let takes = Duration::from_millis(100);
        Container::new(
            world.consumer(SECOND * 60),
            work(log, takes, |_, _| false),
            recoverer(world),
            bounded(0, 3),
            seed,
        )
        .stop_by(stop.clone())
    };
    let late = async {
        until(async || executed(&one).len() >= 5).await;
        container(&two, 2).run().await
    };
    let ending = async {
        world.until_committed(&[(0, 25), (1, 25), (2, 25), (3, 25)]).await;
        stop.stop();
    };
    let (first, second, ()) = tokio::join!(container(&one, 1).run(), late, ending);
    first.expect("it ends well");
    second.expect("it ends well");
    let mut seen: Vec<_> = [executed(&one), executed(&two)].concat();
    assert!(!executed(&two).is_empty(), "the second had nothing to do");
    seen.sort_unstable();
    let expected: Vec<_> = (0..4).flat_map(|partition| (0..25).map(move |offset| (partition, offset, 1))).collect();
    // The rebalance waited for what ran, so nothing is even executed twice where it can be committed.
    if !world.takes_commits_in_rebalance() {
        seen.dedup();
    }
    assert_eq!(seen, expected);
}

pub async fn what_a_dropped_consumer_had_begun_is_delivered_again<W: World>(world: &W) {
    world.create_topics(1, 1).await;
    world.fill(0, 3).await;
    let log = Log::default();
    let stuck = work(&log, SECOND * 3_600, |_, _| false);
    let container = Container::new(world.consumer(SECOND * 60), stuck, recoverer(world), bounded(0, 3), 1);
    tokio::select! {
        ended = container.run() => panic!("it ended: {ended:?}"),
        () = until(async || executed(&log).len() == 1) => {}
    }
    let quick = work(&log, Duration::ZERO, |_, _| false);
    run_until(world, quick, bounded(0, 3), unobserved, world.until_committed(&[(0, 3)])).await;
    assert_eq!(executed(&log), [(0, 0, 1), (0, 0, 1), (0, 1, 1), (0, 2, 1)]);
}

pub async fn a_batch_is_executed_and_committed_as_one<W: World>(world: &W) {
    world.create_topics(1, 1).await;
    world.fill(0, 40).await;
    let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let noting = {
        let sizes = Arc::clone(&sizes);
        per_batch(move |delivery: Delivery| {
            sizes.lock().expect("not poisoned").push(delivery.records().len());
            async { Ok(()) }
        })
    };
    let settings = ContainerSettings { max_poll_records: 16, ..bounded(0, 3) };
    run_until(world, noting, settings, unobserved, world.until_committed(&[(0, 40)])).await;
    let sizes = sizes.lock().expect("not poisoned").clone();
    assert!(sizes.iter().sum::<usize>() == 40 && sizes.iter().all(|size| *size <= 16), "{sizes:?}");
}

pub async fn spring_seeks_back_to_the_failed_record<W: World>(world: &W) {
    world.create_topics(2, 2).await;
    world.fill(0, 4).await;
    world.fill(1, 4).await;
    let log = Log::default();
    let fails = work(&log, Duration::ZERO, |record, attempt| record.offset == 1 && attempt < 3);
    run_until(world, fails, spring(10, 5), unobserved, world.until_committed(&[(0, 4), (1, 4)])).await;
    for partition in 0..2 {
        let found: Vec<_> = executed(&log).into_iter().filter(|(number, ..)| *number == partition).collect();
        let expected =
            [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1), (3, 1)].map(|(offset, attempt)| (partition, offset, attempt));
        assert_eq!(found, expected);
    }
}
