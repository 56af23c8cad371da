//! Sinks from topics in memory into a lab server in memory, on the paused clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backfire_consumer::source::memory::{Broker, BrokerSettings};
use backfire_consumer::{ProducerRecord, TopicPartition, headers};
use backfire_driver::Client;
use backfire_model::back_off::no_random;
use backfire_model::{ConnectionString, Namespace};
use backfire_rehearsal::Transport;
use backfire_rehearsal::lab::Lab;
use backfire_server::ServerConfig;
use backfire_sink::{Settings, Sink, SinkError, Summary};
use bson::{Bson, Document, doc};
use tokio::time::{sleep, timeout};

const PARTITIONS: i32 = 2;

struct World {
    lab: Lab,
    broker: Broker,
    clients: AtomicU64,
}

impl World {
    /// The topic `orders` with these records: partition, key, value.
    async fn new(records: &[(i32, &str, &str)]) -> Self {
        let lab = Lab::start(ServerConfig::new("127.0.0.1:27017".to_owned(), 1_000), Transport::Memory).await.unwrap();
        let broker = Broker::new(BrokerSettings::default(), no_random);
        broker.create_topic("orders", PARTITIONS).unwrap();
        broker.create_topic("orders-dlt", PARTITIONS).unwrap();
        let world = Self { lab, broker, clients: AtomicU64::new(1) };
        records.iter().for_each(|(partition, key, value)| world.send(*partition, key, Some(value)));
        world
    }

    fn send(&self, partition: i32, key: &str, value: Option<&str>) {
        let record = ProducerRecord {
            topic: "orders".into(),
            partition: Some(partition),
            key: Some(key.as_bytes().to_vec()),
            value: value.map(|value| value.as_bytes().to_vec()),
            ..ProducerRecord::default()
        };
        self.broker.send(record).unwrap();
    }

    fn client(&self) -> Client {
        let uri: ConnectionString = "mongodb://127.0.0.1:27017/?replicaSet=rs0&socketTimeoutMS=5000".parse().unwrap();
        // The same seed twice would be the same sessions twice: the server would take new writes for resends of old ones.
        self.lab.client(&uri, (), self.clients.fetch_add(1, Ordering::Relaxed)).unwrap()
    }

    fn sink(&self, sets: &[(&str, &str)]) -> Sink {
        let mut settings = Settings::default();
        sets.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
        Sink::with_client(settings, "orders", Namespace::new("store", "orders"), self.client()).unwrap()
    }

    /// Runs a sink until this many records are done; ten minutes at most.
    async fn run(&self, sets: &[(&str, &str)], records: u64) -> Result<Summary, SinkError> {
        let sink = self.sink(sets).limit(records);
        timeout(Duration::from_secs(600), sink.run_in_memory(self.broker.clone())).await.expect("it ends")
    }

    async fn documents(&self) -> Vec<Document> {
        let client = self.client();
        let mut cursor =
            client.database("store").collection("orders").find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
        let mut documents = Vec::new();
        while let Some(document) = cursor.next().await.unwrap() {
            documents.push(document);
        }
        client.close().await;
        documents
    }

    async fn check_documents(&self, expected: Vec<Document>) {
        assert_eq!(self.documents().await, expected);
    }

    async fn fail_point(&self, command: Document) {
        let client = self.client();
        client.database("admin").run_command(command).await.unwrap();
        client.close().await;
    }

    fn committed(&self) -> Vec<Option<i64>> {
        let of = |number| self.broker.committed("backfire-sink", &TopicPartition::new("orders", number));
        (0..PARTITIONS).map(of).collect()
    }

    /// Where dead letters come from, and why.
    fn dead_letters(&self) -> Vec<(i64, String)> {
        let text = |value: Option<&[u8]>| String::from_utf8(value.unwrap().to_vec()).unwrap();
        (0..PARTITIONS)
            .flat_map(|number| self.broker.read(&TopicPartition::new("orders-dlt", number), 0, usize::MAX).unwrap())
            .map(|letter| {
                let offset = letter.header(headers::ORIGINAL_OFFSET).unwrap().try_into().unwrap();
                (i64::from_be_bytes(offset), text(letter.header(headers::EXCEPTION_CAUSE_FQCN)))
            })
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn upserts_by_place_are_the_same_when_everything_comes_again() {
    let world = World::new(&[(0, "a", r#"{"n": 1}"#), (1, "b", r#"{"n": 2}"#), (0, "a", r#"{"n": 3}"#)]).await;
    let expected = vec![
        doc! {"_id": "orders-0-0", "n": 1},
        doc! {"_id": "orders-0-1", "n": 3},
        doc! {"_id": "orders-1-0", "n": 2},
    ];
    for group in ["backfire-sink", "again"] {
        let summary = world.run(&[("consumer.group", group)], 3).await.unwrap();
        assert_eq!((summary.done, summary.writes, summary.dead_letters), (3, 3, 0));
        world.check_documents(expected.clone()).await;
    }
    assert_eq!(world.committed(), [Some(2), Some(1)]);
}

#[tokio::test(start_paused = true)]
async fn the_newest_record_of_a_key_wins_and_no_value_deletes() {
    let world = World::new(&[(0, "a", r#"{"n": 1}"#), (0, "b", r#"{"n": 2}"#), (0, "a", r#"{"m": 3}"#)]).await;
    world.send(0, "b", None);
    let by_key = [("write.id", "key"), ("write.no_value", "delete")];
    world.run(&by_key, 4).await.unwrap();
    world.check_documents(vec![doc! {"_id": "a", "m": 3}]).await;
    // Merged, fields stay that the newer one does not name.
    let merged = [&by_key[..], &[("write.how", "merge"), ("consumer.group", "merge")]].concat();
    world.run(&merged, 4).await.unwrap();
    world.check_documents(vec![doc! {"_id": "a", "m": 3, "n": 1}]).await;
}

#[tokio::test(start_paused = true)]
async fn upserts_by_fields_make_their_index() {
    let world = World::new(&[(0, "", r#"{"a": 1, "n": 1}"#), (0, "", r#"{"a": 1, "n": 2}"#)]).await;
    let sets = [("write.id", "fields"), ("write.fields", "a"), ("write.create_index", "true")];
    world.run(&sets, 2).await.unwrap();
    let documents = world.documents().await;
    assert_eq!((documents.len(), documents[0].get("n")), (1, Some(&Bson::Int32(2))));
    let client = world.client();
    let names = client.database("store").collection("orders").list_index_names().await.unwrap();
    assert_eq!(names, ["_id_", "a_1"]);
}

#[tokio::test(start_paused = true)]
async fn inserts_add_a_document_each_time_unless_their_place_identifies_them() {
    let world = World::new(&[(0, "a", r#"{"n": 1}"#), (0, "b", r#"{"n": 2}"#), (0, "c", r#"{"n": 3}"#)]).await;
    world.run(&[("write.mode", "insert")], 3).await.unwrap();
    let again = world.run(&[("write.mode", "insert"), ("consumer.group", "again")], 3).await.unwrap();
    assert_eq!((again.done, again.already_there, again.dead_letters), (3, 3, 0));
    assert_eq!(world.documents().await.len(), 3);
    for (group, documents) in [("c", 6), ("d", 9)] {
        world.run(&[("write.mode", "insert"), ("write.id", "none"), ("consumer.group", group)], 3).await.unwrap();
        assert_eq!(world.documents().await.len(), documents);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_fault_it_is_becomes_a_dead_letter_at_once() {
    let world = World::new(&[
        (0, "a", r#"{"n": 1}"#),
        (0, "b", "no json"),
        (0, "c", r#"{"n": 3}"#),
        (0, "d", r#"{"n": 4}"#),
        (0, "e", r#"{"n": 5}"#),
    ])
    .await;
    let sets = [("write.mode", "insert"), ("write.id", "value"), ("retry.first_wait_ms", "1000")];
    // No value has an `_id`.
    let summary = world.run(&sets, 5).await.unwrap();
    assert_eq!((summary.dead_letters, summary.waits_ms), (5, 0));
    let summary = world.run(&[("consumer.group", "b")], 5).await.unwrap();
    assert_eq!((summary.done, summary.waits_ms), (5, 0));
    let written: Vec<_> =
        world.documents().await.iter().map(|document| document.get("_id").cloned().unwrap()).collect();
    assert_eq!(written, ["orders-0-0", "orders-0-2", "orders-0-3", "orders-0-4"].map(Bson::from));
    let own: Vec<_> = world.dead_letters().split_off(5);
    assert_eq!(own, [(1, "backfire.BadRecordException".to_owned())]);
    assert_eq!(world.committed(), [Some(5), None]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_the_server_refuses_becomes_a_dead_letter_and_the_others_are_written() {
    let world = World::new(&[(0, "", r#"{"_id": 1}"#), (0, "", r#"{"_id": 1}"#), (0, "", r#"{"_id": 2}"#)]).await;
    let sets = [("write.mode", "insert"), ("write.id", "value")];
    let summary = world.run(&sets, 3).await.unwrap();
    assert_eq!((summary.dead_letters, world.documents().await.len()), (1, 2));
    assert_eq!(world.dead_letters(), [(1, "backfire.WriteRefusedException".to_owned())]);
}

fn fail_writes(mode: impl Into<Bson>) -> Document {
    doc! {
        "configureFailPoint": "failCommand",
        "mode": mode.into(),
        "data": {"failCommands": ["update"], "closeConnection": true},
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out() {
    let world = World::new(&[(0, "a", r#"{"n": 1}"#), (1, "b", r#"{"n": 2}"#)]).await;
    world.fail_point(fail_writes(doc! {"times": 7})).await;
    let summary = world.run(&[], 2).await.unwrap();
    assert_eq!((summary.done, summary.dead_letters, world.documents().await.len()), (2, 0, 2));
    assert!(summary.failures >= 3 && summary.waits_ms > 0, "{summary:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_ends_the_sink_with_the_reason_and_nothing_is_lost() {
    let world = World::new(&[(0, "a", r#"{"n": 1}"#), (0, "b", r#"{"n": 2}"#)]).await;
    world.fail_point(fail_writes("alwaysOn")).await;
    let error = world.run(&[("retry.max_attempts", "3")], 2).await.unwrap_err().to_string();
    assert!(error.starts_with("orders-0@0 could not be written (attempt cap spent): "), "{error}");
    assert_eq!((world.committed(), world.dead_letters()), (vec![None, None], vec![]));
    world.fail_point(fail_writes("off")).await;
    world.run(&[], 2).await.unwrap();
    assert_eq!(world.documents().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn spent_retries_make_dead_letters_where_that_is_asked_for() {
    let world = World::new(&[(0, "a", r#"{"n": 1}"#), (0, "b", r#"{"n": 2}"#)]).await;
    world.fail_point(fail_writes("alwaysOn")).await;
    let sets = [("retry.then", "dead-letter"), ("retry.max_attempts", "2")];
    let summary = world.run(&sets, 2).await.unwrap();
    assert_eq!((summary.dead_letters, world.committed()), (2, vec![Some(2), None]));
    let class = "MongoSocketReadException".to_owned();
    assert_eq!(world.dead_letters(), [(0, class.clone()), (1, class)]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_not_allowed_ends_the_sink_at_once() {
    let world = World::new(&[(0, "a", r#"{"n": 1}"#)]).await;
    world
        .fail_point(doc! {
            "configureFailPoint": "failCommand",
            "mode": "alwaysOn",
            "data": {"failCommands": ["update"], "errorCode": 13},
        })
        .await;
    let began = tokio::time::Instant::now();
    let error = world.run(&[("retry.then", "dead-letter")], 1).await.unwrap_err().to_string();
    assert!(error.starts_with("orders-0@0 cannot be written: "), "{error}");
    assert!(began.elapsed() < Duration::from_secs(1) && world.dead_letters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_sink_dropped_at_any_time_loses_nothing_and_applies_nothing_twice() {
    for after_ms in 0..40 {
        let records: Vec<_> = (0..40).map(|n| (n % 2, "k", r#"{"n": 1}"#)).collect();
        let world = World::new(&records).await;
        // Each write takes a while, so that there is something to interrupt.
        world
            .fail_point(doc! {
                "configureFailPoint": "failCommand",
                "mode": "alwaysOn",
                "data": {"failCommands": ["update"], "blockConnection": true, "blockTimeMS": 5},
            })
            .await;
        let sets = [("consumer.max_poll_records", "4")];
        let sink = world.sink(&sets);
        tokio::select! {
            ended = sink.run_in_memory(world.broker.clone()) => panic!("it ended: {ended:?}"),
            () = sleep(Duration::from_millis(after_ms)) => {}
        }
        let left: i64 = 40 - world.committed().iter().map(|offset| offset.unwrap_or(0)).sum::<i64>();
        world.run(&sets, left.unsigned_abs()).await.unwrap();
        assert_eq!((world.documents().await.len(), world.committed()), (40, vec![Some(20), Some(20)]), "{after_ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_consumers_share_the_work_and_every_bulk_says_whose_it_is() {
    let records: Vec<_> = (0..200).map(|n| (n % 2, "k", r#"{"n": 1}"#)).collect();
    let world = World::new(&records).await;
    let summary = world.run(&[("consumer.consumers", "2"), ("consumer.max_poll_records", "10")], 200).await.unwrap();
    assert_eq!((summary.done, summary.handed_to_two, world.documents().await.len()), (200, 0, 200));
    assert!(summary.bulks >= 20, "{summary:?}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_work_is_refused_at_the_start() {
    let world = World::new(&[]).await;
    let error = world.run(&[("dead_letters.topic", "nowhere")], 1).await.unwrap_err().to_string();
    assert!(error.contains("no topic \"nowhere\" for dead letters"), "{error}");
    let new = |uri: &str, sets: &[(&str, &str)]| {
        let mut settings = Settings::default();
        sets.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
        Sink::new(settings, "orders", Namespace::new("a", "b"), uri, 0, 1).map(drop).unwrap_err().to_string()
    };
    assert!(new("mongodb://h/", &[("write.id", "none")]).contains("needs an identity"));
    assert!(new("http://h/", &[]).starts_with("the connection string cannot be used: "), "{}", new("http://h/", &[]));
    let tls = new("mongodb://h/?tls=true&tlsCAFile=/no/such/file", &[]);
    assert!(tls.contains("tlsCAFile /no/such/file: No such file"), "{tls}");
}
