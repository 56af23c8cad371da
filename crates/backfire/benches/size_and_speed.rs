//! Size and speed of the lab server: `cargo bench -p backfire --bench size_and_speed`.
//!
//! Starts `backfire serve` as a process of its own and talks to it over raw sockets, so that the figures are the
//! server's. Prints each figure beside its bar and fails when one is missed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use backfire_model::scenario::Scenario;
use backfire_rehearsal::{Options, Transport, rehearse};
use backfire_wire::{Frame, FrameDecoder, MessageFlags, OpMsg, OpMsgEncoder};
use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};

/// Writes that are held at once.
const HELD: usize = 10_000;
/// Memory of one held write beyond its idle connection.
const HELD_MAX_BYTES: u64 = 16 * 1024;
/// `$currentOp` grouped over all of them.
const GROUP_MAX: Duration = Duration::from_millis(100);
/// From the start of the process to its answer to the first hello.
const HELLO_MAX: Duration = Duration::from_millis(50);
/// `store-inventory`, 240 seconds of it, on the paused clock.
const SIMULATED_MAX: Duration = Duration::from_millis(50);

/// A `backfire serve`, ended when dropped.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_backfire"))
            .args(["serve", "--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("backfire serve starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("the first line is the address");
        let address = line.trim().trim_start_matches("mongodb://").split('/').next().expect("host and port").to_owned();
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server takes connections");
        stream.set_nodelay(true).expect("nodelay");
        stream
    }

    fn resident_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).expect("/proc/<pid>/statm");
        text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number of pages") * 4096
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(stream: &mut TcpStream, command: &Document) {
    let body = command.to_vec().expect("encodes");
    stream.write_all(&OpMsgEncoder::new(MessageFlags(0), body.len()).body(&body).finish(1, 0, false)).expect("sent");
}

fn receive(stream: &mut TcpStream) -> Document {
    let mut buffer = bytes::BytesMut::new();
    let mut chunk = [0; 64 * 1024];
    let frame: Frame = loop {
        if let Some(frame) = FrameDecoder::default().decode(&mut buffer).expect("a frame") {
            break frame;
        }
        let read = stream.read(&mut chunk).expect("a reply");
        assert!(read > 0, "the server closed the connection");
        buffer.extend_from_slice(&chunk[..read]);
    };
    let message = OpMsg::parse(&frame).expect("a message");
    Document::from_reader(&message.body[..]).expect("a document")
}

fn run(stream: &mut TcpStream, command: Document) -> Document {
    send(stream, &command);
    receive(stream)
}

struct Report {
    missed: bool,
}

impl Report {
    fn row(&mut self, what: &str, measured: impl std::fmt::Display, bar: impl std::fmt::Display, met: bool) {
        println!("{what:<58} {measured:>12}   bar {bar:>10}   {}", if met { "met" } else { "MISSED" });
        self.missed |= !met;
    }
}

fn main() {
    // `cargo test --benches` and `cargo bench -- --list` start this too; only a bench run measures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let mut report = Report { missed: false };
    first_hello(&mut report);
    held_writes(&mut report);
    simulated(&mut report);
    assert!(!report.missed, "a bar was missed");
}

fn first_hello(report: &mut Report) {
    let mut times: Vec<Duration> = (0..11)
        .map(|_| {
            let started = Instant::now();
            let served = Served::start();
            let reply = run(&mut served.connect(), doc! { "hello": 1, "$db": "admin" });
            assert_eq!(reply.get_f64("ok").ok(), Some(1.0));
            started.elapsed()
        })
        .collect();
    times.sort();
    let median = times[times.len() / 2];
    report.row(
        "start of the process to its first hello, median of 11",
        format!("{median:.1?}"),
        format!("{HELLO_MAX:?}"),
        median <= HELLO_MAX,
    );
}

fn held_writes(report: &mut Report) {
    let served = Served::start();
    let mut control = served.connect();
    let mut connections: Vec<TcpStream> = (0..HELD).map(|_| served.connect()).collect();
    for connection in &mut connections {
        run(connection, doc! { "hello": 1, "$db": "admin" });
    }
    let idle = served.resident_bytes();
    run(
        &mut control,
        doc! {
            "configureFailPoint": "failCommand", "mode": "alwaysOn", "$db": "admin",
            "data": { "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 600_000 },
        },
    );
    for (number, connection) in connections.iter_mut().enumerate() {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(number as u64 / 2).to_le_bytes());
        let lsid = doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes: id.to_vec() } };
        let document = doc! { "productId": 1, "storeId": 7, "attempt": number as i32 };
        send(
            connection,
            &doc! { "insert": "retry_lab", "documents": [document], "lsid": lsid, "txnNumber": 1_i64, "$db": "test" },
        );
    }
    let held = |control: &mut TcpStream| {
        let status = run(control, doc! { "serverStatus": 1, "$db": "admin" });
        status.get_document("connections").expect("connections").get_i32("active").expect("active") as usize
    };
    let patience = Instant::now();
    while held(&mut control) < HELD {
        assert!(patience.elapsed() < Duration::from_secs(60), "the writes do not arrive");
        std::thread::sleep(Duration::from_millis(20));
    }
    let each = served.resident_bytes().saturating_sub(idle) / HELD as u64;
    report.row(
        "one held write over its idle connection (10,000 held)",
        format!("{each} B"),
        format!("{HELD_MAX_BYTES} B"),
        each <= HELD_MAX_BYTES,
    );

    let group = doc! {
        "aggregate": 1, "$db": "admin", "cursor": {},
        "pipeline": [
            { "$currentOp": { "allUsers": true } },
            { "$match": { "command.insert": "retry_lab" } },
            { "$group": { "_id": { "lsid": "$command.lsid.id", "txn": "$command.txnNumber" }, "n": { "$sum": 1 } } },
            { "$group": { "_id": "$n", "groups": { "$sum": 1 } } },
        ],
    };
    let mut times: Vec<Duration> = (0..11)
        .map(|_| {
            let started = Instant::now();
            let reply = run(&mut control, group.clone());
            let elapsed = started.elapsed();
            let batch =
                reply.get_document("cursor").expect("a cursor").get_array("firstBatch").expect("a batch").clone();
            assert_eq!(batch, [bson::bson!({ "_id": 2, "groups": (HELD / 2) as i32 })], "{reply}");
            elapsed
        })
        .collect();
    times.sort();
    let median = times[times.len() / 2];
    report.row(
        "$currentOp grouped over 10,000 held writes, median of 11",
        format!("{median:.1?}"),
        format!("{GROUP_MAX:?}"),
        median <= GROUP_MAX,
    );
}

fn simulated(report: &mut Report) {
    let scenario = Scenario::built_in("store-inventory").expect("built in");
    let options = Options { scale: 1.0, transport: Transport::Memory, seed: 1, started_at_ms: 0, watcher: None };
    let mut times: Vec<Duration> = (0..11)
        .map(|_| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .expect("a runtime");
            let started = Instant::now();
            let run = runtime.block_on(rehearse(&scenario, &options)).expect("it runs");
            let elapsed = started.elapsed();
            assert!(run.differences().is_empty());
            elapsed
        })
        .collect();
    times.sort();
    let median = times[times.len() / 2];
    report.row(
        "store-inventory (240 s) on the paused clock, median of 11",
        format!("{median:.1?}"),
        format!("{SIMULATED_MAX:?}"),
        median <= SIMULATED_MAX,
    );
}
