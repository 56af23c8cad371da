//! Public reports as tests, each named after its report; those that need a container's insides are with its tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backfire_consumer::source::memory::{Broker, BrokerSettings, ConsumerSettings};
use backfire_consumer::{
    ConsumerEvent, Container, ContainerSettings, DeadLetterRecoverer, Delivery, Destination, ErrorClass, Failure,
    Observer, ProducerRecord, RetrySettings, SpringKafkaVersion, StopHandle, TopicPartition, Work, per_record,
};
use backfire_model::back_off::{BackOff, Exponential, ExponentialMaxRetries, Fixed, no_random};
use parking_lot::Mutex;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

fn failure() -> Failure {
    Failure::new(ErrorClass::new("a.B"), "failed")
}

fn fixed(interval_ms: i64, max_retries: i64) -> BackOff {
    BackOff::Fixed(Fixed { interval_ms, max_retries: Some(max_retries) })
}

/// A broker with one record in `orders`; with a dead-letter topic or without.
fn broker(has_dead_letters: bool) -> Broker {
    let broker = Broker::new(BrokerSettings::default(), no_random);
    broker.create_topic("orders", 1).unwrap();
    if has_dead_letters {
        broker.create_topic("orders-dlt", 1).unwrap();
    }
    broker.send(ProducerRecord { topic: "orders".into(), ..Default::default() }).unwrap();
    broker
}

/// Runs a consumer on the broker for ten minutes.
async fn run(broker: &Broker, work: impl Work, settings: ContainerSettings, observer: impl Observer) {
    let stop = StopHandle::new();
    let source = broker.consumer(ConsumerSettings::new("group", ["orders"])).unwrap();
    let recoverer = DeadLetterRecoverer::new(broker.clone(), Destination::default());
    let container = Container::new(source, work, recoverer, settings, 1).observer(observer).stop_by(stop.clone());
    let ending = async {
        sleep(SECOND * 600).await;
        stop.stop();
    };
    tokio::join!(container.run(), ending).0.unwrap();
}

fn unobserved(_: &ConsumerEvent<'_>) {}

fn committed(broker: &Broker) -> Option<i64> {
    broker.committed("group", &TopicPartition::new("orders", 0))
}

fn dead_letters(broker: &Broker) -> i64 {
    broker.end_offset(&TopicPartition::new("orders-dlt", 0)).unwrap_or(0)
}

/// Spring Kafka with a back-off; how it classifies is left as it is.
fn spring(back_off: BackOff) -> ContainerSettings {
    let mut settings = ContainerSettings::spring("3.3".parse().unwrap());
    settings.retry.back_off = back_off;
    settings
}

#[tokio::test(start_paused = true)]
async fn r75_back_offs_without_a_limit_are_said_to_have_none() {
    // spring-kafka issues 1804, 2137, 1354. As executions within ten minutes; with no limit it goes on.
    let grows = |initial_ms, multiplier| BackOff::Exponential(Exponential::new(initial_ms, multiplier));
    let limited = BackOff::ExponentialMaxRetries(ExponentialMaxRetries {
        initial_interval_ms: 1_000,
        multiplier: 2.0,
        max_interval_ms: 10_000,
        ..ExponentialMaxRetries::new(6)
    });
    let cases = [
        // 1, 2, 4, 8, 16 s, then 30 s without end: the default maximum.
        (grows(1_000, 2.0), None),
        (BackOff::Fixed(Fixed::default()), None),
        (BackOff::Fixed(Fixed { interval_ms: 1_000, max_retries: None }), None),
        (limited, Some(7)),
        (fixed(0, 9), Some(10)),
    ];
    for (back_off, executions) in cases {
        let bounded = RetrySettings {
            back_off: back_off.clone(),
            reset_on_exception_change: false,
            recovery: Some(Default::default()),
            ..RetrySettings::default()
        };
        assert_eq!(bounded.is_bounded(), executions.is_some(), "{back_off:?}");
        let broker = broker(true);
        let fails = per_record(|_: Delivery| async { Err(failure()) });
        let waits = Arc::new(Mutex::new(Vec::new()));
        let noting = {
            let waits = Arc::clone(&waits);
            move |event: &ConsumerEvent<'_>| {
                if let ConsumerEvent::Decided { wait_ms: Some(wait_ms), .. } = event {
                    waits.lock().push(*wait_ms);
                }
            }
        };
        run(&broker, fails, spring(back_off.clone()), noting).await;
        let waits = waits.lock().clone();
        match executions {
            None => assert!(dead_letters(&broker) == 0 && waits.len() >= 20, "{back_off:?}: {waits:?}"),
            Some(executions) => assert_eq!((dead_letters(&broker), waits.len() + 1), (1, executions), "{back_off:?}"),
        }
        if executions == Some(7) {
            assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
        }
    }
}

/// Work with retries of its own inside: this many tries in each execution.
fn nested(tries: u64, sends: &Arc<AtomicU64>) -> impl Work + use<> {
    let sends = Arc::clone(sends);
    per_record(move |_: Delivery| {
        sends.fetch_add(tries, Ordering::Relaxed);
        async { Err(failure()) }
    })
}

#[tokio::test(start_paused = true)]
async fn r78_nested_retries_multiply_and_a_failed_dead_letter_commits_nothing() {
    // fhir-server pulls 2458, 2507: 4 executions x 3 tries = 12.
    for settings in [spring(fixed(0, 3)), ContainerSettings { retry: bounded(fixed(0, 3)), ..Default::default() }] {
        let (broker, sends) = (broker(true), Arc::default());
        run(&broker, nested(3, &sends), settings, unobserved).await;
        assert_eq!((sends.load(Ordering::Relaxed), committed(&broker), dead_letters(&broker)), (12, Some(1), 1));
    }
    // No dead-letter topic: the offset stays, and in our own mode the work is not run again.
    let (broker, sends) = (broker(false), Arc::default());
    let settings = ContainerSettings { retry: bounded(fixed(0, 3)), ..Default::default() };
    run(&broker, nested(3, &sends), settings, unobserved).await;
    assert_eq!((sends.load(Ordering::Relaxed), committed(&broker)), (12, None));
}

fn bounded(back_off: BackOff) -> RetrySettings {
    RetrySettings { back_off, ..RetrySettings::bounded() }
}

#[tokio::test(start_paused = true)]
async fn r81_an_attempt_longer_than_the_window_gets_one_retry_and_the_spent_bound_is_named() {
    // OpenDJ issues 921, 901: ten attempts and a window of ten seconds; one attempt lasts fifteen.
    // Three seconds each: a fourth begins at 9 s, a fifth would at 12 s.
    for (takes_s, executions, spent) in [(15, 2, "retry window"), (0, 10, "attempt cap"), (3, 4, "retry window")] {
        let broker = broker(true);
        let mut retry = bounded(fixed(0, 100));
        retry.bounds.max_elapsed_ms = Some(10_000);
        retry.bounds.jitter = 0.0;
        let slow = per_record(move |_: Delivery| async move {
            sleep(SECOND * takes_s).await;
            Err(failure())
        });
        let seen = Arc::new(Mutex::new((0, String::new())));
        let noting = {
            let seen = Arc::clone(&seen);
            move |event: &ConsumerEvent<'_>| match event {
                ConsumerEvent::ExecutionStarted { .. } => seen.lock().0 += 1,
                ConsumerEvent::Decided { spent: Some(spent), .. } => seen.lock().1 = spent.to_string(),
                _ => {}
            }
        };
        run(&broker, slow, ContainerSettings { retry, ..Default::default() }, noting).await;
        let (found, name) = seen.lock().clone();
        assert_eq!((found, name.as_str()), (executions, spent), "{takes_s} s");
        assert_eq!((dead_letters(&broker), committed(&broker)), (1, Some(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn r89_a_binders_attempts_multiply_the_containers_ten() {
    // spring-cloud-stream issues 2205, 2002: maxAttempts 2 inside the container's default handler.
    let (broker, sends) = (broker(true), Arc::default());
    run(&broker, nested(2, &sends), spring(BackOff::default()), unobserved).await;
    assert_eq!(sends.load(Ordering::Relaxed), 20);
}

#[test]
fn r90_a_version_whose_rules_are_not_known_is_refused_and_not_guessed() {
    // spring-kafka issue 885: 2.2.0 began to skip records after ten deliveries, 2.1 never did.
    for version in ["2.1.0", "2.2.0"] {
        let error = version.parse::<SpringKafkaVersion>().unwrap_err().to_string();
        assert!(error.contains(version) && error.contains("2.7"), "{error}");
    }
}
