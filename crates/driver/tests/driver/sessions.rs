//! Sessions, as the server sees them.

use std::time::Duration;

use bson::{Document, Timestamp, doc};

use backfire_driver::{ClientSettings, ReadConcern, SessionOptions, TransactionOptions, WriteConcern};

use crate::fake::*;

fn timestamp(time: u32) -> Timestamp {
    Timestamp { time, increment: 1 }
}

fn cluster_time(time: u32) -> Document {
    doc! {"clusterTime": timestamp(time), "signature": {"keyId": 0_i64}}
}

fn at(time: u32) -> Document {
    doc! {"n": 1, "ok": 1.0, "operationTime": timestamp(time), "$clusterTime": cluster_time(time)}
}

#[tokio::test(start_paused = true)]
async fn the_newest_cluster_time_is_passed_on() {
    let fake = Fake::single(primary());
    let db = fake.client(Fake::settings()).database("db");
    fake.script([Step::Reply(at(5)), Step::Reply(at(3)), Step::Reply(at(9))]);
    for _ in 0..4 {
        db.run_command(doc! {"ping": 1}).await.unwrap();
    }
    let sent: Vec<_> = fake.seen().iter().map(|seen| seen.command.get_document("$clusterTime").ok().cloned()).collect();
    assert_eq!(sent, [None, Some(cluster_time(5)), Some(cluster_time(5)), Some(cluster_time(9))]);
}

#[tokio::test(start_paused = true)]
async fn a_causal_session_reads_what_it_wrote() {
    let fake = Fake::single(primary());
    let client = fake.client(Fake::settings());
    let coll = client.database("db").collection("c").with_read_concern(ReadConcern::level("majority"));
    let session = client.start_session(SessionOptions::default()).unwrap();
    fake.script([Step::Reply(at(5))]);
    coll.insert_one(doc! {}).session(&session).await.unwrap();
    coll.find_one(doc! {}).session(&session).await.unwrap();
    coll.find_one(doc! {}).await.unwrap();
    let loose = SessionOptions { causal_consistency: Some(false), ..SessionOptions::default() };
    let loose = client.start_session(loose).unwrap();
    loose.advance_operation_time(timestamp(7));
    coll.find_one(doc! {}).session(&loose).await.unwrap();
    let sent: Vec<_> = fake.seen().iter().map(|seen| seen.command.get_document("readConcern").ok().cloned()).collect();
    let majority = doc! {"level": "majority"};
    let after = doc! {"level": "majority", "afterClusterTime": timestamp(5)};
    assert_eq!(sent, [None, Some(after), Some(majority.clone()), Some(majority)]);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_session_reads_one_point_in_time() {
    let fake = Fake::single(with(primary(), doc! {"maxWireVersion": 13}));
    let client = fake.client(Fake::settings());
    let coll = client.database("db").collection("c");
    let snapshot = SessionOptions { snapshot: true, ..SessionOptions::default() };
    let session = client.start_session(snapshot.clone()).unwrap();
    let mut first = cursor(0, vec![]);
    first.get_document_mut("cursor").unwrap().insert("atClusterTime", timestamp(5));
    fake.script([Step::Reply(first)]);
    coll.find_one(doc! {}).session(&session).await.unwrap();
    coll.distinct("x", doc! {}).session(&session).await.unwrap();
    coll.insert_one(doc! {}).session(&session).await.unwrap();
    let again = SessionOptions { snapshot_time: session.snapshot_time(), ..snapshot };
    coll.find_one(doc! {}).session(&client.start_session(again).unwrap()).await.unwrap();
    let sent: Vec<_> =
        fake.seen().iter().map(|seen| seen.command.get_document("readConcern").unwrap().clone()).collect();
    let fixed = doc! {"level": "snapshot", "atClusterTime": timestamp(5)};
    assert_eq!(sent, [doc! {"level": "snapshot"}, fixed.clone(), fixed.clone(), fixed]);
    assert!(
        session
            .start_transaction(TransactionOptions::default())
            .unwrap_err()
            .to_string()
            .contains("not supported in snapshot sessions")
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_server_cannot_do_in_a_session_is_refused() {
    let old = Fake::single(primary());
    let client = old.client(Fake::settings());
    let snapshot = SessionOptions { snapshot: true, ..SessionOptions::default() };
    let session = client.start_session(snapshot.clone()).unwrap();
    let error = client.database("db").collection("c").find_one(doc! {}).session(&session).await.unwrap_err();
    assert!(error.is_client_side() && error.to_string().contains("Snapshot reads require MongoDB 5.0 or later"));

    let mut without = primary();
    without.remove("logicalSessionTimeoutMinutes");
    let none = Fake::single(without);
    let client = none.client(Fake::settings());
    let coll = client.database("db").collection("c");
    coll.insert_one(doc! {}).await.unwrap();
    assert_eq!((none.seen()[0].lsid(), none.seen()[0].txn()), (None, None));
    let session = client.start_session(SessionOptions::default()).unwrap();
    assert!(coll.insert_one(doc! {}).session(&session).await.is_err());

    let both = SessionOptions { causal_consistency: Some(true), ..snapshot };
    assert!(client.start_session(both).is_err());
    assert!(client.start_session(SessionOptions { snapshot_time: Some(timestamp(1)), ..Default::default() }).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_session_of_another_client_or_that_has_ended_is_refused() {
    let fake = Fake::single(primary());
    let (one, two) = (fake.client(Fake::settings()), fake.client(Fake::settings()));
    let session = two.start_session(SessionOptions::default()).unwrap();
    let insert = || one.database("db").collection("c").insert_one(doc! {});
    assert_eq!(insert().session(&session).await.unwrap_err().java_class(), "IllegalArgumentException");
    let session = one.start_session(SessionOptions::default()).unwrap();
    session.end();
    assert_eq!(insert().session(&session).await.unwrap_err().java_class(), "IllegalStateException");
    let unacknowledged = one.database("db").collection("c").with_write_concern(WriteConcern::members(0));
    let session = one.start_session(SessionOptions::default()).unwrap();
    assert!(unacknowledged.insert_one(doc! {}).session(&session).await.is_err());
    assert_eq!(fake.seen().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn closing_tells_the_server_which_sessions_are_over() {
    let fake = Fake::single(primary());
    let client = fake.client(Fake::settings());
    let sessions: Vec<_> = (0..3).map(|_| client.start_session(SessionOptions::default()).unwrap()).collect();
    for session in &sessions {
        client.database("db").run_command(doc! {"ping": 1}).session(session).await.unwrap();
    }
    sessions.iter().for_each(|session| session.end());
    client.close().await;
    let last = fake.seen().pop().unwrap();
    assert_eq!((last.name.as_str(), last.command.get_array("endSessions").unwrap().len()), ("endSessions", 3));
    assert_eq!(last.lsid(), None);
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_hang_on_a_silent_server() {
    let fake = Fake::single(primary());
    let client = fake.client(Fake::settings());
    client.database("db").run_command(doc! {"ping": 1}).await.unwrap();
    fake.script([Step::Stall]);
    client.close().await;
    assert_eq!(fake.now_ms(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn operations_side_by_side_have_sessions_of_their_own() {
    let fake = Fake::single(primary());
    let coll = fake.client(Fake::settings()).database("db").collection("c");
    fake.script([Step::ReplyAfter(50, ok()), Step::ReplyAfter(50, ok())]);
    let insert = || coll.insert_one(doc! {}).into_future();
    let (one, two) = tokio::join!(insert(), insert());
    one.unwrap();
    two.unwrap();
    let seen = fake.seen();
    assert_ne!(seen[0].lsid(), seen[1].lsid());
    assert_eq!((seen[0].at_ms, seen[1].at_ms), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_cursor_keeps_its_session_until_it_is_exhausted() {
    let fake = Fake::single(primary());
    let coll = fake.client(Fake::settings()).database("db").collection("c");
    fake.script([Step::Reply(cursor(7, vec![doc! {"_id": 1}]))]);
    let mut open = coll.find(doc! {}).await.unwrap();
    coll.insert_one(doc! {}).await.unwrap();
    assert_eq!(open.next().await.unwrap(), Some(doc! {"_id": 1}));
    assert_eq!(open.next().await.unwrap(), None);
    coll.insert_one(doc! {}).await.unwrap();
    let lsids: Vec<_> = fake.seen().iter().map(Seen::lsid).collect();
    assert!(lsids[0] == lsids[2] && lsids[0] != lsids[1] && lsids[3] == lsids[0]);
}

#[tokio::test(start_paused = true)]
async fn an_old_session_is_not_used_again() {
    let fake = Fake::single(primary());
    let db = fake.client(ClientSettings { ..Fake::settings() }).database("db");
    for (wait_minutes, expected) in [(0, true), (28, true), (29, false)] {
        tokio::time::sleep(Duration::from_secs(60 * wait_minutes)).await;
        db.run_command(doc! {"ping": 1}).await.unwrap();
        let seen = fake.seen();
        let same = seen.len() < 2 || seen[seen.len() - 1].lsid() == seen[seen.len() - 2].lsid();
        assert_eq!(same, expected, "after {wait_minutes} minutes");
    }
}
