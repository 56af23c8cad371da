//! Ten thousand clients of one `backfire serve`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use backfire_wire::{FrameDecoder, MessageFlags, OpMsg, OpMsgEncoder};
use bson::{Document, doc};
use bytes::BytesMut;

/// How many connections there are.
const CONNECTIONS: usize = 10_000;
/// Files that a process has open besides.
const OTHER_FILES: u64 = 200;
/// A limit that only a server which stands still reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `backfire serve`, ended when dropped.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_backfire"))
            .args(["serve", "--port", "0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("backfire serve starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("its first line");
        let address = line.trim().trim_start_matches("mongodb://").split('/').next().expect("an address").to_owned();
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server takes connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
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

fn run(stream: &mut TcpStream, command: Document) -> Document {
    send(stream, &command);
    let (mut buffer, mut chunk) = (BytesMut::new(), [0; 4096]);
    loop {
        if let Some(frame) = FrameDecoder::default().decode(&mut buffer).expect("a frame") {
            let message = OpMsg::parse(&frame).expect("a message");
            return Document::from_reader(&message.body[..]).expect("a document");
        }
        let read = stream.read(&mut chunk).expect("a reply");
        assert!(read > 0, "the server closed the connection");
        buffer.extend_from_slice(&chunk[..read]);
    }
}

fn ok(reply: &Document) -> bool {
    reply.get_f64("ok").ok() == Some(1.0)
}

fn current(control: &mut TcpStream) -> i32 {
    let status = run(control, doc! { "serverStatus": 1, "$db": "admin" });
    status.get_document("connections").and_then(|connections| connections.get_i32("current")).expect("a number")
}

fn dropped(control: &mut TcpStream, counter: &str) -> i64 {
    let status = run(control, doc! { "serverStatus": 1, "$db": "admin" });
    let own = status.get_document("backfire").and_then(|own| own.get_document("connections")).expect("counters");
    own.get_i64(counter).expect("a number")
}

fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn ten_thousand_clients_are_served() {
    let wanted = CONNECTIONS as u64 + OTHER_FILES;
    let limit = rlimit::increase_nofile_limit(wanted).unwrap_or(0);
    if limit < wanted {
        println!("SKIPPED: 10,000 connections: a process may have {limit} open files here, and it takes {wanted}");
        return;
    }
    let served = Served::start(&[]);
    let mut control = served.connect();
    let mut clients: Vec<TcpStream> = (0..CONNECTIONS).map(|_| served.connect()).collect();
    for client in &mut clients {
        assert!(ok(&run(client, doc! { "hello": 1, "$db": "admin" })));
    }
    assert_eq!(current(&mut control), CONNECTIONS as i32 + 1);
    // All at once: each has sent before the first reply is read.
    let insert = |id: usize| doc! { "insert": "c", "documents": [{ "_id": id as i32 }], "$db": "test" };
    for (id, client) in clients.iter_mut().enumerate() {
        send(client, &insert(id));
    }
    for client in &mut clients {
        let mut header = [0; 16];
        client.read_exact(&mut header).expect("a reply");
        let length = i32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        client.read_exact(&mut vec![0; length - header.len()]).expect("all of it");
    }
    let counted = run(&mut control, doc! { "count": "c", "query": {}, "$db": "test" });
    assert_eq!(counted.get_i32("n").ok(), Some(CONNECTIONS as i32));
    drop(clients);
    until("closed connections are forgotten", || current(&mut control) == 1);
}

#[test]
fn clients_that_stop_half_way_are_dropped_and_disturb_nobody() {
    const EACH: i64 = 20;
    let served = Served::start(&["--client-timeout", "1s"]);
    let mut control = served.connect();
    let documents: Vec<_> = (0..60).map(|id| doc! { "_id": id, "s": "x".repeat(200_000) }).collect();
    for document in documents {
        assert!(ok(&run(&mut control, doc! { "insert": "c", "documents": [document], "$db": "test" })));
    }
    // Twelve megabytes to each, which nobody reads; and messages without an end.
    let mut readers: Vec<TcpStream> = (0..EACH).map(|_| served.connect()).collect();
    readers.iter_mut().for_each(|reader| send(reader, &doc! { "find": "c", "batchSize": 100, "$db": "test" }));
    let mut unfinished: Vec<TcpStream> = (0..EACH).map(|_| served.connect()).collect();
    unfinished.iter_mut().for_each(|client| client.write_all(&[200, 0, 0, 0, 1]).expect("sent"));
    let mut writes = 0;
    until("slow readers are dropped", || {
        writes += 1;
        let insert = doc! { "insert": "d", "documents": [{ "_id": writes }], "$db": "test" };
        assert!(ok(&run(&mut control, insert)), "others go on");
        dropped(&mut control, "slowReadersDropped") == EACH
            && dropped(&mut control, "unfinishedMessagesDropped") == EACH
    });
    until("they are forgotten", || current(&mut control) == 1);
}
