//! Bytes that no client would send: the connection is closed or an error answered, memory stays bounded, nothing panics.

use std::io::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backfire_server::net::Limits;
use backfire_tests::{Lab, Wire};
use backfire_wire::{Compressor, Header, MessageFlags, OpCode, OpMsgEncoder, compression};
use bson::{Document, doc};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What the server did with some bytes.
#[derive(Debug, PartialEq)]
enum Answer {
    Closed,
    Replied(Document),
}

async fn answer(connection: &mut Wire) -> Answer {
    connection.reply().await.map_or(Answer::Closed, Answer::Replied)
}

/// Writes `bytes`, closes the client's side, and lets the server do what it wants with them.
async fn throw(lab: &Lab, bytes: &[u8]) {
    let mut connection = lab.connect();
    connection.write(bytes).await;
    connection.finish_writing().await;
    while connection.frame().await.is_some() {}
}

/// The server still works.
async fn alive(lab: &Lab) {
    assert_eq!(lab.run("admin", doc! { "ping": 1 }).await.get_f64("ok").ok(), Some(1.0));
}

fn message(command: Document) -> Vec<u8> {
    OpMsgEncoder::new(MessageFlags(0), 0).body(&command.to_vec().unwrap()).finish(7, 0, false)
}

fn blocking<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(future)
}

/// Commands of many shapes, to be damaged.
fn seeds() -> Vec<Vec<u8>> {
    let lsid = doc! { "id": bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![1; 16] } };
    let commands = [
        doc! { "ping": 1, "$db": "admin" },
        doc! { "hello": 1, "$db": "admin", "client": { "driver": { "name": "x", "version": "1" }, "os": { "type": "x" } } },
        doc! { "insert": "c", "documents": [{ "_id": 1, "a": [1, { "b": "x" }] }], "lsid": lsid.clone(), "txnNumber": 1_i64, "$db": "test" },
        doc! { "find": "c", "filter": { "a": { "$in": [1, 2] }, "$or": [{ "b": 1 }, { "c": { "$gt": 2 } }] }, "sort": { "a": 1 }, "$db": "test" },
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }], "$db": "test" },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a_1", "unique": true }], "$db": "test" },
        doc! { "killSessions": [lsid], "$db": "admin" },
        doc! { "setParameter": 1, "cursorTimeoutMillis": 5, "$db": "admin" },
        doc! { "serverStatus": 1, "$db": "admin" },
        doc! { "currentOp": 1, "$db": "admin" },
    ];
    let plain = commands.map(message).to_vec();
    let packed = plain.iter().flat_map(|bytes| {
        [Compressor::Snappy, Compressor::Zlib { level: 6 }, Compressor::Zstd]
            .map(|compressor| compression::compress(bytes, compressor))
    });
    let packed: Vec<_> = packed.collect();
    [plain, packed].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes_never_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        blocking(async {
            let lab = Lab::new();
            throw(&lab, &bytes).await;
            alive(&lab).await;
            lab.finish().await;
        });
    }

    /// A header that is right, and anything behind it.
    #[test]
    fn arbitrary_bodies_never_hurt(
        body in proptest::collection::vec(any::<u8>(), 0..300),
        op_code in prop_oneof![Just(2013), Just(2004), Just(2012), Just(1), 2000..2015_i32],
    ) {
        blocking(async {
            let lab = Lab::new();
            let mut bytes = Vec::new();
            let header = Header { length_bytes: (16 + body.len()) as i32, request_id: 1, response_to: 0, op_code: OpCode::from(op_code) };
            header.write(&mut bytes);
            bytes.extend_from_slice(&body);
            throw(&lab, &bytes).await;
            alive(&lab).await;
            lab.finish().await;
        });
    }

    /// A real command with some bytes changed, cut off, or both.
    #[test]
    fn damaged_commands_never_hurt(
        pick in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        blocking(async {
            let lab = Lab::new();
            let seeds = seeds();
            let mut bytes = pick.get(&seeds).clone();
            for (at, value) in &changes {
                // The header's length stays right, so that the change is looked at.
                let at = 4 + at.index(bytes.len() - 4);
                bytes[at] = *value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()).max(16));
                let length = bytes.len() as i32;
                bytes[..4].copy_from_slice(&length.to_le_bytes());
            }
            throw(&lab, &bytes).await;
            alive(&lab).await;
            lab.finish().await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn lengths_that_lie_close_the_connection() {
    let ping = message(doc! { "ping": 1, "$db": "admin" });
    for claimed in [0, 15, -1, 48_000_001, i32::MAX] {
        let lab = Lab::new();
        let mut bytes = ping.clone();
        bytes[..4].copy_from_slice(&i32::to_le_bytes(claimed));
        let mut connection = lab.connect();
        connection.write(&bytes).await;
        assert_eq!(answer(&mut connection).await, Answer::Closed, "claimed {claimed}");
        alive(&lab).await;
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn compression_inside_compression_closes_the_connection() {
    let lab = Lab::new();
    let once = compression::compress(&message(doc! { "ping": 1, "$db": "admin" }), Compressor::Snappy);
    let mut connection = lab.connect();
    connection.write(&once).await;
    assert!(matches!(answer(&mut connection).await, Answer::Replied(reply) if reply.get_f64("ok").ok() == Some(1.0)));
    connection.write(&compression::compress(&once, Compressor::Snappy)).await;
    assert_eq!(answer(&mut connection).await, Answer::Closed);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_of_48_mb_is_taken_and_its_documents_are_limited() {
    let lab = Lab::new();
    let mut connection = lab.connect();
    let big = |mebibytes: usize| doc! { "pad": "x".repeat(mebibytes * 1024 * 1024) };
    let fits: Vec<_> = std::iter::repeat_with(|| big(15)).take(3).collect();
    connection.send("test", doc! { "insert": "c" }, &[("documents".to_owned(), fits)]).await;
    let Answer::Replied(reply) = answer(&mut connection).await else { panic!("closed") };
    assert_eq!(reply.get_i32("n").ok(), Some(3), "{reply}");

    connection.send("test", doc! { "insert": "c" }, &[("documents".to_owned(), vec![big(17)])]).await;
    let Answer::Replied(reply) = answer(&mut connection).await else { panic!("closed") };
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
    assert_eq!(error.get_i32("code").ok(), Some(2));
    assert!(error.get_str("errmsg").unwrap().starts_with("object to insert too large. size in bytes: "), "{error}");

    let reply = connection.run("test", doc! { "find": "c", "filter": big(17) }).await;
    assert_eq!(reply.get_i32("code").ok(), Some(10334), "the command itself is limited too");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn deep_documents_are_refused() {
    let nested = |depth: usize| (1..depth).fold(doc! {}, |inner, _| doc! { "a": inner });
    let lab = Lab::new();
    let reply = lab.run("test", doc! { "find": "c", "filter": nested(300) }).await;
    assert_eq!(reply.get_i32("code").ok(), Some(15), "{reply}");
    let reply = lab.run("test", doc! { "insert": "c", "documents": [nested(190)] }).await;
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap();
    assert_eq!(error.get_i32("code").ok(), Some(15), "{reply}");
    alive(&lab).await;
    lab.finish().await;
}

/// Resident memory of this process in bytes, where the system tells.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

#[tokio::test(start_paused = true)]
async fn claims_cost_nothing_until_the_bytes_come() {
    let Some(before) = resident_bytes() else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: this system does not tell resident memory");
        return;
    };
    let lab = Lab::new();
    let mut connections = Vec::new();
    for _ in 0..200 {
        let mut connection = lab.connect();
        let mut bytes = Vec::new();
        Header { length_bytes: 47_000_000, request_id: 1, response_to: 0, op_code: OpCode::Msg }.write(&mut bytes);
        bytes.extend_from_slice(&[0; 100]);
        connection.write(&bytes).await;
        connections.push(connection);
    }
    alive(&lab).await;
    let grown = resident_bytes().unwrap_or(before).saturating_sub(before);
    assert!(grown < 100 * 1024 * 1024, "200 claims of 47 MB cost {grown} bytes");
    drop(connections);
    lab.finish().await;
}

/// A command without a parser of its own would answer what the common base answers.
#[tokio::test(start_paused = true)]
async fn every_command_reads_its_own_request() {
    for spec in backfire_server::commands::ALL {
        let lab = Lab::new();
        let mut wire = lab.connect();
        wire.send("admin", doc! { spec.name(): 1, "maxTimeMS": 1000 }, &[]).await;
        let reply = wire.reply().await.expect("a reply");
        assert_ne!(reply.get_str("errmsg").ok(), Some("not implemented"), "{}", spec.name());
    }
}

/// A server whose connections are as patient as `limits` says, and one of them with a pipe that holds little.
async fn impatient(limits: Limits) -> (Lab, tokio::io::DuplexStream, tokio::task::JoinHandle<()>) {
    let lab = Lab::with(|config| config.limits = limits);
    let (near, far) = tokio::io::duplex(4096);
    let server = lab.server.clone();
    let serving = tokio::spawn(async move { server.serve(far, "127.0.0.1:50001".to_owned()).await });
    (lab, near, serving)
}

fn dropped(lab: &Lab) -> (u64, u64) {
    let dropped = &lab.server.shared().connections.dropped;
    (dropped.unfinished_messages.load(Relaxed), dropped.slow_readers.load(Relaxed))
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_reply_is_dropped_and_disturbs_nobody() {
    let limits = Limits { reply: Duration::from_secs(30), ..Limits::DEFAULT };
    let (lab, mut near, serving) = impatient(limits).await;
    lab.ok("test", doc! { "insert": "c", "documents": [{ "_id": 1, "s": "x".repeat(100_000) }] }).await;
    near.write_all(&message(doc! { "find": "c", "$db": "test" })).await.unwrap();
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert!(!serving.is_finished());
    // Meanwhile others read and write, without waiting.
    let before = tokio::time::Instant::now();
    lab.ok("test", doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "a": 1 } } }] }).await;
    assert_eq!(lab.count(doc! { "a": 1 }).await, 1);
    assert_eq!(before.elapsed(), Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(serving.is_finished());
    assert_eq!(dropped(&lab), (0, 1));
    let status = lab.ok("admin", doc! { "serverStatus": 1 }).await;
    let counted = status.get_document("backfire").and_then(|lab| lab.get_document("connections")).expect("counters");
    assert_eq!(counted, &doc! { "unfinishedMessagesDropped": 0_i64, "slowReadersDropped": 1_i64 });
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_its_reply_slowly_and_in_time_gets_all_of_it() {
    let limits = Limits { reply: Duration::from_secs(30), ..Limits::DEFAULT };
    let (lab, mut near, serving) = impatient(limits).await;
    lab.ok("test", doc! { "insert": "c", "documents": [{ "_id": 1, "s": "x".repeat(60_000) }] }).await;
    near.write_all(&message(doc! { "find": "c", "$db": "test" })).await.unwrap();
    let mut read = 0;
    while read < 60_000 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        read += near.read(&mut [0; 4096]).await.unwrap();
    }
    assert!(!serving.is_finished());
    assert_eq!(dropped(&lab), (0, 0));
    drop(near);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_begun_and_not_finished_ends_its_connection() {
    let limits = Limits { message: Duration::from_secs(20), ..Limits::DEFAULT };
    for sent in [1, 15, 16, 30] {
        let (lab, mut near, serving) = impatient(limits).await;
        let whole = message(doc! { "ping": 1, "$db": "admin" });
        // At rest it may be for as long as it likes.
        tokio::time::sleep(Duration::from_secs(100_000)).await;
        near.write_all(&whole[..sent]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(19)).await;
        assert!(!serving.is_finished(), "after {sent} bytes");
        // A byte now and then does not help.
        near.write_all(&whole[sent..=sent]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(serving.is_finished(), "after {sent} bytes");
        assert_eq!(dropped(&lab), (1, 0));
        lab.finish().await;
    }
}
