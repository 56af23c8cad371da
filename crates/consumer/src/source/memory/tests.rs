//! Groups on the paused clock: who has what, when, and what can be committed.

use std::time::Duration;

use backfire_model::back_off::no_random;
use tokio::time::{Instant, sleep};

use super::*;
use crate::source::{CommitError, Polled, Source};

const SECOND: Duration = Duration::from_secs(1);

fn broker(partitions: i32) -> Broker {
    let broker = Broker::new(BrokerSettings::default(), no_random);
    broker.create_topic("orders", partitions).unwrap();
    broker
}

fn settings(interval_s: u64) -> ConsumerSettings {
    ConsumerSettings { max_poll_interval: SECOND * interval_s as u32, ..ConsumerSettings::new("group", ["orders"]) }
}

fn fill(broker: &Broker, partition: i32, count: usize) {
    for number in 0..count {
        let value = Some(format!("{partition}/{number}").into_bytes());
        let record = ProducerRecord { topic: "orders".into(), partition: Some(partition), value, ..Default::default() };
        broker.send(record).unwrap();
    }
}

fn at(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

/// A poll's result on one line: `records orders-0@0..2`, `assigned orders-0`.
fn text(polled: &Polled) -> String {
    let list = |word: &str, parts: &[TopicPartition]| {
        parts.iter().fold(word.to_owned(), |text, part| format!("{text} {}", part.partition))
    };
    match polled {
        Polled::Records(batches) => batches.iter().fold("records".to_owned(), |text, batch| {
            let (first, last) = (batch.records.first().unwrap(), batch.records.last().unwrap());
            format!("{text} {}@{}..{}", batch.partition.partition, first.offset, last.offset)
        }),
        Polled::Assigned(parts) => list("assigned", parts),
        Polled::Revoking(parts) => list("revoking", parts),
        Polled::Lost(parts) => list("lost", parts),
        Polled::Nothing => "nothing".to_owned(),
    }
}

/// Polls without waiting and compares.
async fn check(consumer: &mut MemoryConsumer, expected: &str) {
    let polled = consumer.poll(Duration::ZERO, 3).await.unwrap();
    assert_eq!(text(&polled), expected);
}

#[tokio::test(start_paused = true)]
async fn records_come_in_order_and_no_more_than_asked_for() {
    let broker = broker(2);
    fill(&broker, 0, 4);
    fill(&broker, 1, 4);
    let mut consumer = broker.consumer(settings(300)).unwrap();
    check(&mut consumer, "assigned 0 1").await;
    check(&mut consumer, "records 0@0..2").await;
    check(&mut consumer, "records 1@0..2").await;
    assert_eq!((consumer.lag(&at(0)), consumer.lag(&at(7))), (Some(1), None));
    check(&mut consumer, "records 0@3..3 1@3..3").await;
    check(&mut consumer, "nothing").await;
    consumer.seek(&at(1), 2).await.unwrap();
    check(&mut consumer, "records 1@2..3").await;
    assert_eq!(consumer.seek(&at(2), 0).await, Err(SourceError::NotAssigned(at(2))));
}

#[tokio::test(start_paused = true)]
async fn a_paused_partition_gives_nothing_and_goes_on_where_it_was() {
    let broker = broker(2);
    fill(&broker, 0, 2);
    let mut consumer = broker.consumer(settings(300)).unwrap();
    check(&mut consumer, "assigned 0 1").await;
    consumer.pause(&[at(0)]).unwrap();
    check(&mut consumer, "nothing").await;
    fill(&broker, 1, 1);
    check(&mut consumer, "records 1@0..0").await;
    consumer.resume(&[at(0)]).unwrap();
    check(&mut consumer, "records 0@0..1").await;
    assert!(consumer.pause(&[at(9)]).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_poll_wakes_for_a_record_and_gives_up_at_its_timeout() {
    let broker = broker(1);
    let mut consumer = broker.consumer(settings(300)).unwrap();
    check(&mut consumer, "assigned 0").await;
    let began = Instant::now();
    let producer = async {
        sleep(SECOND * 3).await;
        fill(&broker, 0, 1);
    };
    let (polled, ()) = tokio::join!(consumer.poll(SECOND * 10, 3), producer);
    assert_eq!((text(&polled.unwrap()).as_str(), began.elapsed()), ("records 0@0..0", SECOND * 3));
    assert_eq!(consumer.poll(SECOND * 10, 3).await, Ok(Polled::Nothing));
    assert_eq!(began.elapsed(), SECOND * 13);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_joins_gets_a_share_once_the_others_have_polled() {
    let broker = broker(2);
    let mut one = broker.consumer(settings(300)).unwrap();
    let mut two = broker.consumer(settings(300)).unwrap();
    check(&mut one, "assigned 0 1").await;
    check(&mut two, "nothing").await;
    check(&mut one, "revoking 0 1").await;
    assert_eq!(one.commit(&[(at(0), 0)]).await, Ok(()));
    check(&mut one, "assigned 0").await;
    assert_eq!(one.commit(&[(at(0), 0)]).await, Ok(()));
    check(&mut two, "assigned 1").await;
    two.close().await.unwrap();
    check(&mut one, "revoking 0").await;
    check(&mut one, "assigned 0 1").await;
    assert_eq!(broker.group_counters("group").generation, 3);
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_where_the_next_owner_begins() {
    let broker = broker(1);
    fill(&broker, 0, 5);
    let mut one = broker.consumer(settings(300)).unwrap();
    check(&mut one, "assigned 0").await;
    check(&mut one, "records 0@0..2").await;
    one.commit(&[(at(0), 2)]).await.unwrap();
    assert_eq!((broker.committed("group", &at(0)), broker.lag("group", &at(0))), (Some(2), Ok(3)));
    one.close().await.unwrap();
    let mut two = broker.consumer(settings(300)).unwrap();
    check(&mut two, "assigned 0").await;
    check(&mut two, "records 0@2..4").await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_poll_loses_its_partitions_to_one_that_waits() {
    // facts/client.md D6: the next owner begins at the last committed offset while the first still works.
    let broker = broker(1);
    fill(&broker, 0, 1);
    let mut slow = broker.consumer(settings(4)).unwrap();
    check(&mut slow, "assigned 0").await;
    check(&mut slow, "records 0@0..0").await;
    let began = Instant::now();
    let mut next = broker.consumer(settings(4)).unwrap();
    assert_eq!(text(&next.poll(SECOND * 60, 3).await.unwrap()), "assigned 0");
    // It joined at 0 s, but had to wait until the other was out.
    assert_eq!(began.elapsed(), SECOND * 4);
    check(&mut next, "records 0@0..0").await;
    assert_eq!(slow.commit(&[(at(0), 1)]).await, Err(CommitError::CommitFailed));
    check(&mut slow, "lost 0").await;
    check(&mut slow, "nothing").await;
    assert_eq!(broker.group_counters("group").poll_intervals_exceeded, 1);
    assert_eq!(broker.committed("group", &at(0)), None);
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_waits_keeps_the_member_in_its_group() {
    let broker = broker(1);
    let mut consumer = broker.consumer(settings(4)).unwrap();
    check(&mut consumer, "assigned 0").await;
    assert_eq!(consumer.poll(SECOND * 100, 3).await, Ok(Polled::Nothing));
    // A poll that is dropped counts until it is dropped.
    assert!(tokio::time::timeout(SECOND * 100, consumer.poll(SECOND * 200, 3)).await.is_err());
    sleep(Duration::from_millis(3_999)).await;
    check(&mut consumer, "nothing").await;
    sleep(SECOND * 4).await;
    check(&mut consumer, "lost 0").await;
    check(&mut consumer, "assigned 0").await;
}

#[tokio::test(start_paused = true)]
async fn a_static_member_keeps_its_partitions_until_its_session_is_over() {
    let broker = broker(2);
    let member = |name: &str| ConsumerSettings { group_instance_id: Some(name.to_owned()), ..settings(4) };
    let mut one = broker.consumer(member("one")).unwrap();
    let mut two = broker.consumer(member("two")).unwrap();
    check(&mut one, "assigned 0 1").await;
    check(&mut two, "nothing").await;
    check(&mut one, "revoking 0 1").await;
    check(&mut one, "assigned 0").await;
    check(&mut two, "assigned 1").await;
    // Ten seconds without a poll: over its interval, within its session.
    assert_eq!(text(&two.poll(SECOND * 10, 3).await.unwrap()), "nothing");
    assert_eq!(one.commit(&[(at(0), 1)]).await, Err(CommitError::CommitFailed));
    check(&mut one, "lost 0").await;
    check(&mut one, "assigned 0").await;
    assert_eq!(broker.group_counters("group").generation, 2);
    // 4 s and then 45 s: out, and the other gets everything.
    let began = Instant::now();
    assert_eq!(text(&two.poll(SECOND * 100, 3).await.unwrap()), "revoking 1");
    assert_eq!(began.elapsed(), SECOND * 49);
    check(&mut two, "assigned 0 1").await;
}

#[tokio::test(start_paused = true)]
async fn a_static_member_that_restarts_goes_on_without_a_rebalance() {
    let broker = broker(1);
    let member = ConsumerSettings { group_instance_id: Some("one".to_owned()), ..settings(300) };
    let mut old = broker.consumer(member.clone()).unwrap();
    check(&mut old, "assigned 0").await;
    let mut new = broker.consumer(member).unwrap();
    check(&mut new, "assigned 0").await;
    assert_eq!(broker.group_counters("group").generation, 1);
    let fenced = SourceError::Fenced { instance: "one".to_owned() };
    assert_eq!(old.poll(Duration::ZERO, 1).await, Err(fenced));
    assert_eq!(old.commit(&[(at(0), 1)]).await, Err(CommitError::CommitFailed));
    assert_eq!(new.commit(&[(at(0), 1)]).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_crashed_is_out_when_its_session_is_over() {
    let broker = broker(1);
    let mut one = broker.consumer(settings(300)).unwrap();
    check(&mut one, "assigned 0").await;
    let began = Instant::now();
    drop(one);
    let mut two = broker.consumer(settings(300)).unwrap();
    assert_eq!(text(&two.poll(SECOND * 100, 3).await.unwrap()), "assigned 0");
    assert_eq!(began.elapsed(), SECOND * 45);
    assert_eq!(broker.group_counters("group").sessions_expired, 1);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_join_again_is_out_after_the_longest_poll_interval() {
    let broker = broker(1);
    let mut one = broker.consumer(settings(10)).unwrap();
    check(&mut one, "assigned 0").await;
    let mut two = broker.consumer(settings(20)).unwrap();
    let polling = async {
        let polled = text(&two.poll(SECOND * 100, 3).await.unwrap());
        (polled, Instant::now())
    };
    let began = Instant::now();
    let busy = async {
        // Asks for its work, gives up its partitions, and then works too long to join.
        sleep(SECOND).await;
        let polled = text(&one.poll(Duration::ZERO, 3).await.unwrap());
        sleep(SECOND * 200).await;
        polled
    };
    let ((polled, when), busy) = tokio::join!(polling, busy);
    assert_eq!((polled.as_str(), busy.as_str()), ("assigned 0", "revoking 0"));
    assert_eq!(when - began, SECOND * 11);
}

#[tokio::test(start_paused = true)]
async fn keys_and_random_numbers_choose_partitions() {
    let mut numbers = [0.0, 0.5, 0.99].into_iter().cycle();
    let broker = Broker::new(BrokerSettings::default(), move || numbers.next().unwrap());
    broker.create_topic("orders", 4).unwrap();
    let send = |key: Option<&str>| {
        let key = key.map(|key| key.as_bytes().to_vec());
        broker.send(ProducerRecord { topic: "orders".into(), key, ..Default::default() }).unwrap()
    };
    assert_eq!(send(Some("foobar")).partition.partition, partition_of(b"foobar", 4));
    let chosen: Vec<i32> = (0..4).map(|_| send(None).partition.partition).collect();
    assert_eq!(chosen, [0, 2, 3, 0]);
}

#[tokio::test(start_paused = true)]
async fn limits_and_names_that_do_not_exist_are_errors() {
    let settings =
        BrokerSettings { max_topics: 1, max_records_per_partition: 1, max_members: 1, ..BrokerSettings::default() };
    let broker = Broker::new(settings, no_random);
    assert!(broker.create_topic("orders", 0).is_err());
    broker.create_topic("orders", 1).unwrap();
    assert!(broker.create_topic("more", 1).is_err());
    assert_eq!((broker.partitions("orders"), broker.partitions("more")), (Some(1), None));
    let record = |topic: &str, partition| {
        broker.send(ProducerRecord { topic: topic.into(), partition: Some(partition), ..Default::default() })
    };
    assert!(record("orders", 0).is_ok() && record("orders", 0).is_err() && record("orders", 1).is_err());
    assert_eq!(record("more", 0), Err(SourceError::UnknownTopic { topic: "more".to_owned() }));
    assert_eq!(broker.counters(), BrokerCounters { stored: 1, refused: 1 });
    assert!(broker.consumer(ConsumerSettings::new("group", ["more"])).is_err());
    assert!(broker.consumer(ConsumerSettings::new("group", [""; 0])).is_err());
    let mut one = broker.consumer(ConsumerSettings::new("group", ["orders"])).unwrap();
    check(&mut one, "assigned 0").await;
    let mut two = broker.consumer(ConsumerSettings::new("group", ["orders"])).unwrap();
    assert!(matches!(two.poll(Duration::ZERO, 1).await, Err(SourceError::Limit { limit: 1, .. })));
    assert_eq!(broker.group_counters("group").members_refused, 1);
}
