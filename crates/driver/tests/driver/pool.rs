//! The connection pool.

use std::time::Duration;

use bson::doc;

use backfire_driver::events::{CheckOutFailure, CloseReason, PoolEvent};
use backfire_driver::{Client, ClientSettings, Event};

use crate::fake::*;

/// The pool's events in short, in order.
fn story(fake: &Fake) -> Vec<String> {
    let short = |(_, event)| match event {
        Event::Pool(PoolEvent::PoolCreated { .. }) => Some("created".to_owned()),
        Event::Pool(PoolEvent::PoolReady { .. }) => Some("ready".to_owned()),
        Event::Pool(PoolEvent::PoolCleared { .. }) => Some("cleared".to_owned()),
        Event::Pool(PoolEvent::PoolClosed { .. }) => Some("closed".to_owned()),
        Event::Pool(PoolEvent::ConnectionCreated { .. }) => Some("conn+".to_owned()),
        Event::Pool(PoolEvent::ConnectionReady { .. }) => Some("conn ready".to_owned()),
        Event::Pool(PoolEvent::ConnectionClosed { reason, .. }) => Some(format!("conn- {reason:?}")),
        Event::Pool(PoolEvent::CheckOutStarted { .. }) => Some("out?".to_owned()),
        Event::Pool(PoolEvent::CheckOutFailed { reason, .. }) => Some(format!("out! {reason:?}")),
        Event::Pool(PoolEvent::CheckedOut { .. }) => Some("out".to_owned()),
        Event::Pool(PoolEvent::CheckedIn { .. }) => Some("in".to_owned()),
        Event::Command(_) | Event::Topology(_) => None,
    };
    fake.log().into_iter().filter_map(short).collect()
}

async fn ping(client: &Client) -> backfire_driver::Result<bson::Document> {
    client.database("db").run_command(doc! {"ping": 1}).await
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_made_used_and_kept() {
    let fake = Fake::single(primary());
    let client = fake.client(Fake::settings());
    ping(&client).await.unwrap();
    ping(&client).await.unwrap();
    client.close().await;
    let expected = [
        "created",
        "ready",
        "out?",
        "conn+",
        "conn ready",
        "out",
        "in",
        "out?",
        "out",
        "in", // two pings
        "out?",
        "out",
        "in", // endSessions
        "conn- PoolClosed",
        "closed",
    ];
    assert_eq!(story(&fake), expected);
}

#[tokio::test(start_paused = true)]
async fn the_pool_is_no_larger_than_it_may_be() {
    let fake = Fake::single(primary());
    let settings =
        ClientSettings { max_pool_size: 1, wait_queue_timeout: Duration::from_millis(300), ..Fake::settings() };
    let client = fake.client(settings);
    fake.script([Step::ReplyAfter(500, ok()), Step::ReplyAfter(200, ok())]);
    let slow = tokio::spawn({
        let client = client.clone();
        async move { ping(&client).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Waits from 100 ms, gives up at 400 ms.
    let error = ping(&client).await.unwrap_err();
    assert_eq!((error.java_class(), fake.now_ms()), ("MongoTimeoutException", 400));
    // Waits from 400 ms and gets the connection at 500 ms.
    ping(&client).await.unwrap();
    assert_eq!((fake.seen()[1].at_ms, fake.now_ms()), (500, 700));
    slow.await.unwrap().unwrap();
    assert!(story(&fake).contains(&format!("out! {:?}", CheckOutFailure::Timeout)));
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_socket_frees_its_slot() {
    // facts/client.md A4.5: maxPoolSize does not bound what runs on the server.
    let fake = Fake::single(primary());
    let settings = ClientSettings { max_pool_size: 1, socket_timeout: Duration::from_millis(100), ..Fake::settings() };
    let client = fake.client(settings);
    fake.script(vec![Step::Stall; 4]);
    for _ in 0..2 {
        let _ = client.database("db").collection("c").insert_one(doc! {"x": 1}).await;
    }
    let connections: Vec<_> = fake.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections.len(), 4);
    assert!(connections.windows(2).all(|pair| pair[0] != pair[1]), "{connections:?}");
    let closed = format!("conn- {:?}", CloseReason::Error);
    assert_eq!(story(&fake).iter().filter(|event| **event == closed).count(), 4);
}

#[tokio::test(start_paused = true)]
async fn connections_open_two_at_a_time() {
    let fake = Fake::single(primary());
    let client = fake.client(Fake::settings());
    ping(&client).await.unwrap();
    // From here on each hello takes 100 ms.
    fake.latency("a", 100);
    fake.script(vec![Step::ReplyAfter(10_000, ok()); 5]);
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { ping(&client).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let times: Vec<_> = fake.seen().iter().skip(1).map(|seen| seen.at_ms).collect();
    assert_eq!(times, [0, 100, 100, 200, 200], "one idle connection, then two by two");
    tasks.iter().for_each(|task| task.abort());
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_hear_that_the_pool_was_cleared() {
    let fake = Fake::single(primary());
    let client = fake.client(ClientSettings { max_pool_size: 1, retry_reads: false, ..Fake::settings() });
    fake.script([Step::ReplyAfter(100, ok())]);
    let first = tokio::spawn({
        let client = client.clone();
        async move { ping(&client).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let second = tokio::spawn({
        let client = client.clone();
        async move { client.database("db").collection("c").find_one(doc! {}).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    // The heartbeat breaks, so the pool is cleared.
    fake.mood("a", Mood::HelloResets);
    tokio::time::sleep(Duration::from_secs(11)).await;
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    fake.mood("a", Mood::Well);
    tokio::time::sleep(Duration::from_secs(20)).await;
    fake.script([Step::ReplyAfter(30_000, ok())]);
    let first = tokio::spawn({
        let client = client.clone();
        async move { ping(&client).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let second = tokio::spawn({
        let client = client.clone();
        async move { client.database("db").collection("c").find_one(doc! {}).await }
    });
    fake.mood("a", Mood::HelloResets);
    let error = second.await.unwrap().unwrap_err();
    assert_eq!(error.java_class(), "MongoConnectionPoolClearedException");
    assert!(error.cause().is_some());
    first.abort();
}

#[tokio::test(start_paused = true)]
async fn a_minimum_is_kept_and_idle_connections_end() {
    let fake = Fake::single(primary());
    let settings = ClientSettings { min_pool_size: 3, max_idle_time: Duration::from_secs(90), ..Fake::settings() };
    let _client = fake.client(settings);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fake.open(), 4, "three and the monitor's");
    let before = fake.hellos().iter().filter(|hello| hello.is_query).count();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let after = fake.hellos().iter().filter(|hello| hello.is_query).count();
    assert_eq!((fake.open(), after - before), (4, 3), "closed and made anew");
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_is_given_up_leaves_nothing_behind() {
    let fake = Fake::single(primary());
    let client = fake.client(ClientSettings { max_pool_size: 1, ..Fake::settings() });
    fake.script([Step::Stall]);
    let waiting = client.database("db").collection("c").insert_one(doc! {"x": 1});
    assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
    // The only slot is free again, and the session is not used again.
    client.database("db").collection("c").insert_one(doc! {"x": 1}).await.unwrap();
    let seen = fake.seen();
    assert!(seen[0].connection != seen[1].connection && seen[0].lsid() != seen[1].lsid());
    // The same for one that waits for a connection.
    fake.script([Step::ReplyAfter(100, ok())]);
    let slow = tokio::spawn({
        let client = client.clone();
        async move { ping(&client).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(tokio::time::timeout(Duration::from_millis(50), ping(&client)).await.is_err());
    slow.await.unwrap().unwrap();
    ping(&client).await.unwrap();
}
