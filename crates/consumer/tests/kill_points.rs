//! A consumer killed at every point of a record's path loses no record.
//!
//! Every call on that path (a poll, an execution, a dead letter, a commit, a seek, leaving the group) gets a point
//! before it, and one behind it, where its effect is done and its answer is not there yet. A run is killed at the first
//! point, another at the second, and so on, until a run meets no further point; after each, another consumer takes over.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backfire_consumer::source::memory::{Broker, BrokerSettings, ConsumerSettings, MemoryConsumer};
use backfire_consumer::{
    AckMode, BoundedMode, CommitError, Container, ContainerSettings, DeadLetterRecoverer, Delivery, Destination,
    ErrorClass, Failure, Mode, Polled, Position, ProducerRecord, PublishError, Publisher, RetrySettings, Source,
    SourceError, StopHandle, TopicPartition, Work, WorkError, WorkKind, headers,
};
use backfire_model::back_off::{BackOff, Fixed, no_random};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const PARTITIONS: i32 = 2;
const RECORDS: i64 = 4;

/// Counts the points, and stands still at one of them.
#[derive(Clone)]
struct Points {
    passed: Arc<AtomicU64>,
    kill_at: u64,
    killed: Arc<Notify>,
}

impl Points {
    fn new(kill_at: u64) -> Self {
        Self { passed: Arc::default(), kill_at, killed: Arc::default() }
    }

    async fn point(&self) {
        if self.passed.fetch_add(1, Ordering::Relaxed) + 1 == self.kill_at {
            self.killed.notify_one();
            pending::<()>().await;
        }
    }

    /// A call with a point before and behind it.
    async fn around<T>(&self, call: impl Future<Output = T>) -> T {
        self.point().await;
        let result = call.await;
        self.point().await;
        result
    }
}

struct PointedSource(MemoryConsumer, Points);

impl Source for PointedSource {
    async fn poll(&mut self, timeout: Duration, max_records: usize) -> Result<Polled, SourceError> {
        let points = self.1.clone();
        points.around(self.0.poll(timeout, max_records)).await
    }

    async fn commit(&mut self, offsets: &[(TopicPartition, i64)]) -> Result<(), CommitError> {
        let points = self.1.clone();
        points.around(self.0.commit(offsets)).await
    }

    async fn seek(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), SourceError> {
        let points = self.1.clone();
        points.around(self.0.seek(partition, offset)).await
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), SourceError> {
        self.0.pause(partitions)
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), SourceError> {
        self.0.resume(partitions)
    }

    fn assignment(&self) -> Vec<TopicPartition> {
        self.0.assignment()
    }

    fn lag(&self, partition: &TopicPartition) -> Option<u64> {
        self.0.lag(partition)
    }

    fn max_poll_interval(&self) -> Duration {
        self.0.max_poll_interval()
    }

    async fn close(self) -> Result<(), SourceError> {
        let points = self.1.clone();
        points.around(self.0.close()).await
    }
}

#[derive(Clone)]
struct PointedPublisher(Broker, Points);

impl Publisher for PointedPublisher {
    async fn publish(&self, record: ProducerRecord) -> Result<Position, PublishError> {
        self.1.around(self.0.publish(record)).await
    }

    async fn partitions(&self, topic: &str) -> Option<i32> {
        self.1.around(Publisher::partitions(&self.0, topic)).await
    }
}

/// Writes what it is given, except the second record of each partition, which fails for good; the third fails once.
struct Writes {
    kind: WorkKind,
    names_record: bool,
    written: Arc<Mutex<BTreeSet<(i32, i64)>>>,
    points: Points,
}

impl Work for Writes {
    fn kind(&self) -> WorkKind {
        self.kind
    }

    async fn execute(&self, delivery: Delivery) -> Result<(), WorkError> {
        for (index, record) in delivery.records().iter().enumerate() {
            self.points.point().await;
            let fails = record.offset == 1 || (record.offset == 2 && delivery.attempt() == 1);
            if fails {
                let failure = Failure::new(ErrorClass::new("a.B"), "failed");
                return Err(match self.names_record {
                    true => WorkError::at(index, failure),
                    false => WorkError::from(failure),
                });
            }
            self.written.lock().insert((record.partition, record.offset));
            self.points.point().await;
        }
        Ok(())
    }
}

#[derive(Clone)]
struct Case {
    settings: ContainerSettings,
    kind: WorkKind,
    names_record: bool,
}

fn broker() -> Broker {
    let broker = Broker::new(BrokerSettings::default(), no_random);
    broker.create_topic("orders", PARTITIONS).unwrap();
    broker.create_topic("orders-dlt", PARTITIONS).unwrap();
    for partition in 0..PARTITIONS {
        for _ in 0..RECORDS {
            let record = ProducerRecord { topic: "orders".into(), partition: Some(partition), ..Default::default() };
            broker.send(record).unwrap();
        }
    }
    broker
}

/// Runs a consumer until all is done, with a session that has to run out first, or until it is killed. Gives whether it was.
async fn run(broker: &Broker, case: &Case, written: &Arc<Mutex<BTreeSet<(i32, i64)>>>, points: &Points) -> bool {
    let stop = StopHandle::new();
    let source = broker.consumer(ConsumerSettings::new("group", ["orders"])).unwrap();
    let recoverer = DeadLetterRecoverer::new(PointedPublisher(broker.clone(), points.clone()), Destination::default());
    let work = Writes {
        kind: case.kind,
        names_record: case.names_record,
        written: Arc::clone(written),
        points: points.clone(),
    };
    let source = PointedSource(source, points.clone());
    let container = Container::new(source, work, recoverer, case.settings.clone(), 1).stop_by(stop.clone());
    let ending = async {
        sleep(SECOND * 75).await;
        stop.stop();
    };
    let running = async { tokio::join!(container.run(), ending).0 };
    tokio::select! {
        ended = running => {
            ended.unwrap();
            false
        }
        () = points.killed.notified() => true,
    }
}

/// Where the record of a dead letter stood.
fn origin(letter: &backfire_consumer::Record) -> (i32, i64) {
    let partition = letter.header(headers::ORIGINAL_PARTITION).unwrap().try_into().unwrap();
    let offset = letter.header(headers::ORIGINAL_OFFSET).unwrap().try_into().unwrap();
    (i32::from_be_bytes(partition), i64::from_be_bytes(offset))
}

fn done(broker: &Broker, written: &Mutex<BTreeSet<(i32, i64)>>) -> BTreeSet<(i32, i64)> {
    let letters = (0..PARTITIONS)
        .flat_map(|number| broker.read(&TopicPartition::new("orders-dlt", number), 0, usize::MAX).unwrap())
        .map(|letter| origin(&letter));
    letters.chain(written.lock().iter().copied()).collect()
}

fn committed(broker: &Broker) -> Vec<Option<i64>> {
    (0..PARTITIONS).map(|number| broker.committed("group", &TopicPartition::new("orders", number))).collect()
}

async fn check(case: Case) {
    let all: BTreeSet<_> = (0..PARTITIONS).flat_map(|part| (0..RECORDS).map(move |at| (part, at))).collect();
    let mut kill_at = 1;
    loop {
        let (broker, written, points) = (broker(), Arc::default(), Points::new(kill_at));
        let was_killed = run(&broker, &case, &written, &points).await;
        // What is committed is done, at any time.
        let done_by_then = done(&broker, &written);
        for (partition, offset) in (0..PARTITIONS).zip(committed(&broker)) {
            for at in 0..offset.unwrap_or(0) {
                assert!(done_by_then.contains(&(partition, at)), "{partition}@{at} is lost, killed at {kill_at}");
            }
        }
        if was_killed {
            assert!(!run(&broker, &case, &written, &Points::new(u64::MAX)).await);
        }
        assert_eq!(done(&broker, &written), all, "killed at {kill_at}");
        assert_eq!(committed(&broker), [Some(RECORDS), Some(RECORDS)], "killed at {kill_at}");
        if !was_killed {
            break;
        }
        kill_at += 1;
    }
    // Polls, executions, dead letters and commits all have points.
    assert!(kill_at > 40, "{kill_at} points only");
}

fn bounded(ack_mode: AckMode) -> ContainerSettings {
    let back_off = BackOff::Fixed(Fixed { interval_ms: 1_000, max_retries: Some(1) });
    let retry = RetrySettings { back_off, ..RetrySettings::bounded() };
    ContainerSettings { retry, ack_mode, ..ContainerSettings::default() }
}

fn spring(ack_mode: AckMode) -> ContainerSettings {
    let mut settings = ContainerSettings { ack_mode, ..ContainerSettings::spring("3.3".parse().unwrap()) };
    settings.retry.back_off = BackOff::Fixed(Fixed { interval_ms: 1_000, max_retries: Some(1) });
    settings
}

/// Both partitions at the same time.
fn at_once(ack_mode: AckMode) -> ContainerSettings {
    let mode = BoundedMode { partitions_at_once: 2, ..BoundedMode::default() };
    ContainerSettings { mode: Mode::Bounded(mode), ..bounded(ack_mode) }
}

#[tokio::test(start_paused = true)]
async fn partitions_at_once() {
    for ack_mode in [AckMode::Batch, AckMode::Record] {
        check(Case { settings: at_once(ack_mode), kind: WorkKind::Record, names_record: false }).await;
    }
    for names_record in [true, false] {
        check(Case { settings: at_once(AckMode::Batch), kind: WorkKind::Batch, names_record }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn record_by_record() {
    for ack_mode in [AckMode::Batch, AckMode::Record] {
        check(Case { settings: bounded(ack_mode), kind: WorkKind::Record, names_record: false }).await;
        check(Case { settings: spring(ack_mode), kind: WorkKind::Record, names_record: false }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn in_batches_that_name_the_failed_record() {
    check(Case { settings: bounded(AckMode::Batch), kind: WorkKind::Batch, names_record: true }).await;
    check(Case { settings: spring(AckMode::Batch), kind: WorkKind::Batch, names_record: true }).await;
}

#[tokio::test(start_paused = true)]
async fn in_batches_that_name_nothing() {
    check(Case { settings: bounded(AckMode::Batch), kind: WorkKind::Batch, names_record: false }).await;
    check(Case { settings: spring(AckMode::Batch), kind: WorkKind::Batch, names_record: false }).await;
}
