//! A real broker, a lab server, and sinks between them, each a process of its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backfire_consumer::source::kafka::{KafkaConsumer, KafkaPublisher, KafkaSettings};
use backfire_consumer::{Polled, ProducerRecord, Publisher, Source, SplitMix64, headers};
use backfire_driver::{Client, ClientSettings, TcpConnector};
use bson::{Bson, Document, doc};
use tokio::time::{Instant, sleep};

use crate::ledger::Ledger;

/// The same seed twice would be the same sessions twice.
static NEXT_SEED: AtomicU64 = AtomicU64::new(1);

const PARTITIONS: i32 = 3;

/// A record of this many is no JSON.
pub const BAD_EVERY: u64 = 50;

/// Ends a child also when the test fails.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct Stage {
    pub brokers: String,
    binary: String,
    pub topic: String,
    /// The collection that is looked at, in the database `test`.
    pub collection: &'static str,
    publisher: KafkaPublisher,
    /// How many records were written.
    pub sent: u64,
    uri: String,
    server: Option<Running>,
    /// How the server is started.
    serve: Vec<String>,
}

impl Stage {
    /// `None`: there is no broker, or no binary.
    pub async fn new(name: &str) -> Option<Self> {
        Self::with_server(name, 0, None).await
    }

    /// The same with a server that can be killed and comes back at its port, empty; what it acknowledges is in the ledger.
    pub async fn behind_ledger(name: &str) -> Option<(Self, Arc<Ledger>)> {
        let unused = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = unused.local_addr().expect("its address").port();
        drop(unused);
        let ledger = Arc::new(Ledger::default());
        let proxy = ledger.proxy(port).await;
        Some((Self::with_server(name, port, Some(proxy)).await?, ledger))
    }

    /// A server at this port (0: any), which tells clients to connect to that one.
    async fn with_server(name: &str, port: u16, advertised: Option<u16>) -> Option<Self> {
        let (Ok(brokers), Ok(binary)) = (std::env::var("BACKFIRE_KAFKA_BROKERS"), std::env::var("BACKFIRE_BIN")) else {
            println!("SKIPPED: kafka: no real Kafka broker; clients/kafka/run starts one");
            return None;
        };
        let topic = format!("{name}-{}", std::process::id());
        let publisher = KafkaPublisher::new(&KafkaSettings::new(&brokers, "", [&topic])).expect("a producer");
        for topic in [&topic, &format!("{topic}-dlt")] {
            publisher.create_topic(topic, PARTITIONS).await.expect("the topic is made");
        }
        let mut serve = vec!["serve".to_owned(), "--port".to_owned(), port.to_string()];
        serve.extend(advertised.map(|port| format!("--advertise=127.0.0.1:{port}")));
        let mut stage = Self {
            brokers,
            binary,
            topic,
            collection: "kill",
            publisher,
            sent: 0,
            uri: String::new(),
            server: None,
            serve,
        };
        stage.start_server();
        if let Some(port) = advertised {
            stage.uri = format!("mongodb://127.0.0.1:{port}/?replicaSet=rs0");
        }
        Some(stage)
    }

    fn start_server(&mut self) {
        let mut server =
            Command::new(&self.binary).args(&self.serve).stdout(Stdio::piped()).spawn().expect("the lab server starts");
        let mut uri = String::new();
        let out = server.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut uri).expect("its first line");
        self.server = Some(Running(server));
        if self.uri.is_empty() {
            self.uri = uri.trim().to_owned();
        }
    }

    pub fn server(&self) -> &Running {
        self.server.as_ref().expect("it runs")
    }

    /// `kill -9` of the server; for so long there is none.
    pub async fn restart_server(&mut self, down: Duration, ledger: &Ledger) {
        self.server = None;
        sleep(down).await;
        ledger.new_life();
        self.start_server();
    }

    /// The `_id` that a sink gives a record, by its number; `None`: it is a bad one.
    pub fn id(&self, number: u64) -> Option<String> {
        let (partition, offset) = (number % PARTITIONS as u64, number / PARTITIONS as u64);
        (!number.is_multiple_of(BAD_EVERY)).then(|| format!("{}-{partition}-{offset}", self.topic))
    }

    /// The numbers of the records before the offsets that a group has committed. Nobody may be in it.
    pub async fn committed(&self, group: &str) -> Vec<u64> {
        let mut first = [None; PARTITIONS as usize];
        for record in self.read(&self.topic, group).await {
            let first = &mut first[record.partition as usize];
            *first = Some(first.unwrap_or(record.offset).min(record.offset));
        }
        let is_committed = |number: &u64| {
            let (partition, offset) = (number % PARTITIONS as u64, (number / PARTITIONS as u64) as i64);
            first[partition as usize].is_none_or(|first| offset < first)
        };
        (0..self.sent).filter(is_committed).collect()
    }

    /// From now on each write takes this long at least, so that a kill meets it half done.
    pub async fn slow_down(&self, block_ms: i64) {
        let client = self.client();
        let held = doc! {
            "configureFailPoint": "failCommand",
            "mode": "alwaysOn",
            "data": {"failCommands": ["insert", "update"], "blockConnection": true, "blockTimeMS": block_ms},
        };
        client.database("admin").run_command(held).await.expect("armed");
        client.close().await;
    }

    pub async fn send(&mut self, records: u64) {
        for number in self.sent..self.sent + records {
            let value = match number % BAD_EVERY {
                0 => "no json".to_owned(),
                _ => format!("{{\"n\":{number}}}"),
            };
            let record = ProducerRecord {
                topic: self.topic.as_str().into(),
                partition: Some((number % PARTITIONS as u64) as i32),
                value: Some(value.into_bytes()),
                ..ProducerRecord::default()
            };
            self.publisher.publish(record).await.expect("the record is written");
        }
        self.sent += records;
    }

    /// Writes records of this many bytes, as fast as it goes.
    pub async fn fill(&mut self, records: u64, bytes: usize) {
        let mut left = records;
        while left > 0 {
            let batch = left.min(5_000);
            let sends = (0..batch).map(|number| {
                let number = self.sent + number;
                let mut value = format!("{{\"n\":{number},\"note\":\"");
                value.extend(std::iter::repeat_n('x', bytes.saturating_sub(value.len() + 2)));
                value.push_str("\"}");
                self.publisher.publish(ProducerRecord {
                    topic: self.topic.as_str().into(),
                    partition: Some((number % PARTITIONS as u64) as i32),
                    value: Some(value.into_bytes()),
                    ..ProducerRecord::default()
                })
            });
            for sent in futures_util::future::join_all(sends).await {
                sent.expect("the record is written");
            }
            self.sent += batch;
            left -= batch;
        }
    }

    /// The connection string, with this database.
    pub fn uri_of(&self, database: &str) -> String {
        self.uri.replace("/?", &format!("/{database}?"))
    }

    /// How many documents there are.
    pub async fn count(&self) -> u64 {
        let client = self.client();
        let count =
            client.database("test").collection(self.collection).estimated_document_count().await.expect("counted");
        client.close().await;
        count as u64
    }

    fn client(&self) -> Client {
        let uri = self.uri.parse().expect("a connection string");
        let settings = ClientSettings::from_connection_string(&uri).expect("usable");
        let seed = NEXT_SEED.fetch_add(1, Ordering::Relaxed);
        Client::connect(settings, TcpConnector, (), seed).expect("a client")
    }

    pub fn sink(&self, sets: &[&str]) -> Running {
        let mut command = Command::new(&self.binary);
        command.args(["sink", "--quiet", "--from", &self.topic, "--to", "test.kill", "--brokers", &self.brokers]);
        command.args(["--uri", &self.uri]);
        let own = [
            "consumer.session_timeout_ms=1000",
            "consumer.max_poll_interval_ms=20000",
            "consumer.drain_timeout_ms=5000",
            "consumer.max_poll_records=20",
            "kafka.heartbeat.interval.ms=200",
        ];
        for set in own.iter().chain(sets) {
            command.args(["--set", set]);
        }
        Running(command.stdout(Stdio::null()).spawn().expect("the sink starts"))
    }

    /// Starts and kills sinks, with more records for each.
    pub async fn kill(&mut self, times: u32, records_each: u64, sets: &[&str]) {
        let mut random = SplitMix64::new(7);
        for _ in 0..times {
            self.send(records_each).await;
            let mut sink = self.sink(sets);
            sleep(Duration::from_millis(200 + random.next_u64() % 2_500)).await;
            // `kill -9`, unless it ended by itself, which it may not.
            assert!(sink.0.try_wait().expect("its state").is_none(), "the sink ended by itself");
            sink.0.kill().expect("killed");
        }
    }

    pub async fn documents(&self) -> Vec<Document> {
        let client = self.client();
        let mut cursor = client.database("test").collection(self.collection).find(doc! {}).await.expect("found");
        let mut documents = Vec::new();
        while let Some(document) = cursor.next().await.expect("the next") {
            documents.push(document);
        }
        client.close().await;
        documents
    }

    /// How often each good record is in the collection, by its number.
    pub async fn written(&self) -> BTreeMap<i64, u64> {
        let mut written = BTreeMap::new();
        for document in self.documents().await {
            let number = match document.get("n") {
                Some(Bson::Int32(number)) => i64::from(*number),
                Some(Bson::Int64(number)) => *number,
                other => panic!("no number: {other:?}"),
            };
            *written.entry(number).or_insert(0) += 1;
        }
        written
    }

    /// Lets a last sink write the rest, and ends it as an operator does.
    pub async fn finish(&self, sets: &[&str]) {
        let sink = self.sink(sets);
        let good = self.sent - self.sent.div_ceil(BAD_EVERY);
        let began = Instant::now();
        while (self.written().await.len() as u64) < good {
            assert!(
                began.elapsed() < Duration::from_secs(120),
                "records are lost: {} of {good}",
                self.written().await.len()
            );
            sleep(Duration::from_millis(500)).await;
        }
        self.end(sink).await;
    }

    /// Ends a sink that has written all good records, as an operator does.
    pub async fn end(&self, mut sink: Running) {
        // The dead letters behind the last good record.
        sleep(Duration::from_secs(2)).await;
        let pid = sink.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        let status = sink.0.wait().expect("it ends");
        assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    }

    /// Reads a topic to its end with a new member of a group.
    pub async fn read(&self, topic: &str, group: &str) -> Vec<Arc<backfire_consumer::Record>> {
        let mut source = KafkaConsumer::new(&KafkaSettings::new(&self.brokers, group, [topic])).expect("a consumer");
        let (mut records, mut assigned) = (Vec::new(), false);
        loop {
            match source.poll(Duration::from_secs(3), 1_000).await.expect("polled") {
                Polled::Records(batches) => records.extend(batches.into_iter().flat_map(|batch| batch.records)),
                Polled::Assigned(_) => assigned = true,
                Polled::Nothing if assigned => break,
                _ => {}
            }
        }
        source.close().await.expect("closed");
        records
    }

    pub async fn check_nothing_is_lost(&self) {
        let written = self.written().await;
        let mut missing: Vec<_> = (0..self.sent)
            .filter(|number| number % BAD_EVERY != 0 && !written.contains_key(&(*number as i64)))
            .collect();
        missing.truncate(10);
        assert!(missing.is_empty(), "lost: {missing:?}");
        // Where each dead letter comes from.
        let letters = self.read(&format!("{}-dlt", self.topic), "reader").await;
        let origins: BTreeMap<_, u64> = letters.iter().fold(BTreeMap::new(), |mut origins, letter| {
            let origin = [headers::ORIGINAL_PARTITION, headers::ORIGINAL_OFFSET]
                .map(|name| letter.header(name).map(<[u8]>::to_vec));
            *origins.entry(origin).or_insert(0) += 1;
            origins
        });
        assert_eq!(origins.len() as u64, self.sent.div_ceil(BAD_EVERY), "bad records are missing");
        println!("{} dead letters of {} bad records", letters.len(), origins.len());
        // All of it is committed: another member of the group finds nothing.
        assert_eq!(self.read(&self.topic, "backfire-sink").await.len(), 0);
    }
}
