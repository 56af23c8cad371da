//! A day of use on the paused clock: nothing that the server keeps grows with time.

use std::time::Duration;

use backfire_server::profile::V7_0;
use backfire_tests::{Lab, Wire};
use bson::{Document, doc};

/// How long the server is used.
const HOURS: u64 = 24;
/// What happens at once, once a minute.
const MINUTE: Duration = Duration::from_secs(60);
/// Documents that a service keeps: as many are removed as are added.
const KEPT: i32 = 1000;

/// What a server has at one moment, and what must not grow from hour to hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    sessions: usize,
    history: u64,
    cursors: usize,
    operations: u64,
    connections: usize,
    session_documents: i32,
    documents: i32,
}

/// The most of each.
fn most(hours: &[Held]) -> [(&'static str, u64); 7] {
    let most = |what: fn(&Held) -> u64| hours.iter().map(what).max().unwrap_or(0);
    [
        ("sessions", most(|held| held.sessions as u64)),
        ("history", most(|held| held.history)),
        ("cursors", most(|held| held.cursors as u64)),
        ("operations", most(|held| held.operations)),
        ("connections", most(|held| held.connections as u64)),
        ("session documents", most(|held| held.session_documents as u64)),
        ("documents", most(|held| held.documents as u64)),
    ]
}

async fn held(lab: &Lab) -> Held {
    let shared = lab.server.shared();
    let n = |reply: Document| reply.get_i32("n").expect("a number");
    let session_documents = n(lab.ok("config", doc! { "count": "transactions", "query": {} }).await);
    let documents = n(lab.ok("test", doc! { "count": "c", "query": {} }).await);
    // The connections of these two commands end by themselves.
    tokio::time::sleep(Duration::from_millis(10)).await;
    Held {
        sessions: shared.sessions.len(),
        history: shared.sessions.history_len(),
        cursors: shared.cursors.counts().0,
        operations: shared.ops.running(),
        connections: shared.connections.counts().0,
        session_documents,
        documents,
    }
}

/// The id of a session that is used in this minute and never again.
fn lsid(number: u64) -> Document {
    let mut bytes = vec![0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    doc! { "id": bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes } }
}

/// What clients do in a minute: retryable writes, one of them sent twice, a cursor that is left open, a write whose client
/// goes away while a fail point holds it, an operation that is killed, a message that is cut off.
async fn minute(lab: &Lab, number: u64) {
    let mut wire = lab.connect();
    let id = number as i32;
    for txn in 1..=3_i64 {
        let insert = doc! {
            "insert": "c", "documents": [{ "_id": id * 4 + txn as i32 }], "lsid": lsid(number), "txnNumber": txn,
        };
        assert_eq!(wire.run("test", insert.clone()).await.get_i32("n").ok(), Some(1));
        if txn == 3 {
            assert_eq!(wire.run("test", insert).await.get_i32("n").ok(), Some(1), "answered from history");
        }
    }
    let old = doc! { "q": { "_id": { "$lt": id * 4 - KEPT } }, "limit": 0 };
    wire.run("test", doc! { "delete": "c", "deletes": [old] }).await;
    let open = wire.run("test", doc! { "find": "c", "batchSize": 1, "lsid": lsid(number) }).await;
    assert_eq!(open.get_f64("ok").ok(), Some(1.0));

    held_write(lab, number).await;
    killed(lab, &mut wire).await;

    let mut cut_off = lab.connect();
    cut_off.write(&[200, 0, 0, 0, 1]).await;
    // It is neither finished nor closed: the server has to lose patience.
    tokio::spawn(async move { while cut_off.frame().await.is_some() {} });
}

async fn held_write(lab: &Lab, number: u64) {
    let data = doc! { "failCommands": ["update"], "blockConnection": true, "blockTimeMS": 20_000 };
    lab.fail_point("failCommand", doc! { "times": 1 }, data).await;
    let mut gone = lab.connect();
    let update = doc! { "q": { "_id": -1 }, "u": { "$inc": { "n": 1 } }, "upsert": true };
    gone.send("test", doc! { "update": "held", "updates": [update], "lsid": lsid(number), "txnNumber": 9_i64 }, &[])
        .await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    drop(gone);
}

async fn killed(lab: &Lab, wire: &mut Wire) {
    let data = doc! { "failCommands": ["count"], "blockConnection": true, "blockTimeMS": 3_600_000 };
    lab.fail_point("failCommand", doc! { "times": 1 }, data).await;
    wire.send("test", doc! { "count": "c", "query": {} }, &[]).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let op = lab.server.shared().ops.all().into_iter().next_back().expect("the held count runs");
    lab.ok("admin", doc! { "killOp": 1, "op": op.id.0 }).await;
    assert_eq!(wire.reply().await.and_then(|reply| reply.get_i32("code").ok()), Some(11601));
}

#[tokio::test(start_paused = true)]
async fn nothing_grows_in_a_day() {
    let lab = Lab::of(&V7_0);
    let mut each_hour = Vec::new();
    for number in 0..HOURS * 60 {
        minute(&lab, number + 1).await;
        tokio::time::sleep(MINUTE).await;
        if (number + 1) % 60 == 0 {
            each_hour.push(held(&lab).await);
        }
    }
    // After some hours everything that expires has begun to. What is left of the last minutes depends on when it was looked
    // for last; it does not depend on how many hours went before.
    let (early, late) = (most(&each_hour[6..12]), most(&each_hour[18..]));
    for (what, early, late) in early.iter().zip(late).map(|((what, early), (_, late))| (what, *early, late)) {
        assert!(late <= early + early / 20 + 8, "{what}: {early} at first, {late} in the end");
    }
    // Sessions live for half an hour, cursors for ten minutes, and both are looked for every five.
    let settled = each_hour[HOURS as usize - 1];
    assert!(settled.sessions <= 40 && settled.cursors <= 20 && settled.connections <= 10, "{settled:?}");
    let dropped = &lab.server.shared().connections.dropped;
    assert!(dropped.unfinished_messages.load(std::sync::atomic::Ordering::Relaxed) > HOURS * 50);

    // And once nobody uses it, nothing is left but the data.
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    let left = held(&lab).await;
    let nothing =
        Held { sessions: 0, history: 0, cursors: 0, operations: 0, connections: 0, session_documents: 0, ..left };
    assert_eq!(left, nothing);
    lab.finish().await;
}
