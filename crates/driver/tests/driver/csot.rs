//! `timeoutMS`.

use std::time::Duration;

use bson::{Document, doc};

use backfire_driver::{
    BulkWriteModel, ClientSettings, Collection, CursorType, DriverError, DriverProfile, TimeoutMode, WriteConcern,
};

use crate::fake::*;

const MS: Duration = Duration::from_millis(1);

fn with_timeout(ms: u32) -> ClientSettings {
    ClientSettings { timeout: Some(ms * MS), ..Fake::settings() }
}

fn collection(fake: &Fake, settings: ClientSettings) -> Collection {
    fake.client(settings).database("db").collection("c")
}

fn max_times(fake: &Fake) -> Vec<Option<i64>> {
    fake.seen().iter().map(|seen| seen.command.get_i64("maxTimeMS").ok()).collect()
}

fn is_timeout<T: std::fmt::Debug>(result: Result<T, DriverError>) -> bool {
    result.is_err_and(|error| error.is_operation_timeout())
}

#[tokio::test(start_paused = true)]
async fn the_innermost_level_counts() {
    let fake = Fake::single(primary());
    let client = fake.client(with_timeout(1000));
    let db = client.database("db");
    db.collection("c").insert_one(doc! {}).await.unwrap();
    db.clone().with_timeout(2000 * MS).collection("c").insert_one(doc! {}).await.unwrap();
    db.collection("c").with_timeout(3000 * MS).insert_one(doc! {}).await.unwrap();
    db.collection("c").insert_one(doc! {}).timeout(4000 * MS).await.unwrap();
    db.collection("c").insert_one(doc! {}).timeout(Duration::ZERO).await.unwrap();
    client.with_timeout(5000 * MS).database("db").run_command(doc! {"ping": 1}).await.unwrap();
    assert_eq!(max_times(&fake), [Some(1000), Some(2000), Some(3000), Some(4000), None, Some(5000)]);
}

#[tokio::test(start_paused = true)]
async fn max_time_is_sent_as_asked_without_timeout_ms_and_replaced_with_it() {
    for (settings, sent) in [(Fake::settings(), 77), (with_timeout(1000), 1000)] {
        let fake = Fake::single(primary());
        let coll = collection(&fake, settings);
        let asked = 77 * MS;
        coll.insert_one(doc! {}).max_time(asked).await.unwrap();
        coll.update_many(doc! {}, doc! {"$set": {"x": 1}}).max_time(asked).await.unwrap();
        coll.find_one_and_delete(doc! {}).max_time(asked).await.unwrap();
        coll.bulk_write([BulkWriteModel::delete_one(doc! {})]).max_time(asked).await.unwrap();
        coll.count_documents(doc! {}).max_time(asked).await.unwrap();
        assert_eq!(max_times(&fake), vec![Some(sent); 5]);
    }
}

#[tokio::test(start_paused = true)]
async fn each_command_of_a_bulk_has_what_is_left() {
    // facts/client.md A5, last row but one.
    let fake = Fake::single(primary());
    fake.script([Step::ReplyAfter(300, ok()), Step::ReplyAfter(400, ok())]);
    let models = [
        BulkWriteModel::insert_one(doc! {"_id": 1}),
        BulkWriteModel::delete_one(doc! {}),
        BulkWriteModel::insert_one(doc! {"_id": 2}),
    ];
    collection(&fake, with_timeout(1000)).bulk_write(models).await.unwrap();
    assert_eq!(max_times(&fake), [Some(1000), Some(700), Some(300)]);
}

#[tokio::test(start_paused = true)]
async fn the_round_trip_is_taken_off_and_a_hopeless_command_is_not_sent() {
    let fake = Fake::single(primary());
    fake.latency("a", 50);
    let settings = ClientSettings { heartbeat_frequency: 500 * MS, ..with_timeout(500) };
    let coll = collection(&fake, settings);
    coll.insert_one(doc! {}).timeout(10_000 * MS).await.unwrap();
    tokio::time::sleep(1000 * MS).await;
    coll.insert_one(doc! {}).await.unwrap();
    assert_eq!(max_times(&fake)[1], Some(450));
    assert!(is_timeout(coll.insert_one(doc! {}).timeout(50 * MS).await));
    assert_eq!(fake.seen().len(), 2, "50 ms are not more than the round trip");
}

#[tokio::test(start_paused = true)]
async fn one_round_trip_is_not_enough_to_judge() {
    let fake = Fake::single(primary());
    fake.latency("a", 100);
    let coll = collection(&fake, with_timeout(250));
    assert!(is_timeout(coll.insert_one(doc! {}).timeout(90 * MS).await), "while the server is looked for");
    coll.insert_one(doc! {}).timeout(400 * MS).await.unwrap();
    coll.insert_one(doc! {}).timeout(150 * MS).await.unwrap();
    assert_eq!(fake.seen().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_handshake_of_the_measuring_connection_is_a_sample_in_java_only() {
    for (profile, left) in [(DriverProfile::JAVA_5_4, 400), (DriverProfile::SPECIFICATION, 500)] {
        let fake = Fake::single(streaming_primary());
        fake.latency("a", 100);
        let settings =
            ClientSettings { profile, heartbeat_frequency: 2000 * MS, min_pool_size: 1, ..with_timeout(500) };
        let coll = collection(&fake, settings);
        // Before the first measurement, at 2.2 s.
        tokio::time::sleep(1500 * MS).await;
        coll.insert_one(doc! {}).await.unwrap();
        assert_eq!(max_times(&fake), [Some(left)], "{}", profile.name);
    }
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_timeout_is_the_operations() {
    let late = doc! {"code": 50, "codeName": "MaxTimeMSExpired", "errmsg": "operation exceeded time limit"};
    for reply in [
        with(doc! {"ok": 0.0}, late.clone()),
        doc! {"ok": 1.0, "n": 0, "writeErrors": [with(doc! {"index": 0}, late.clone())]},
        doc! {"ok": 1.0, "n": 1, "writeConcernError": late.clone()},
    ] {
        for (settings, timeout) in [(with_timeout(1000), true), (Fake::settings(), false)] {
            let fake = Fake::single(primary());
            fake.script([Step::Reply(reply.clone())]);
            let error = collection(&fake, settings).insert_one(doc! {}).await.unwrap_err();
            assert_eq!(error.is_operation_timeout(), timeout, "{reply}");
            assert_eq!(error.cause().unwrap_or(&error).code(), Some(50), "{reply}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_connection_or_a_server_counts_as_well() {
    let fake = Fake::single(primary());
    let coll = collection(&fake, ClientSettings { max_pool_size: 1, ..Fake::settings() });
    fake.script([Step::ReplyAfter(500, ok())]);
    let busy = tokio::spawn(coll.insert_one(doc! {}).into_future());
    tokio::time::sleep(10 * MS).await;
    let error = coll.insert_one(doc! {}).timeout(100 * MS).await.unwrap_err();
    assert_eq!((error.is_operation_timeout(), fake.now_ms()), (true, 110));
    busy.await.unwrap().unwrap();

    let fake = Fake::single(primary());
    fake.mood("a", Mood::ConnectHangs);
    assert!(is_timeout(collection(&fake, with_timeout(100)).insert_one(doc! {}).await));
    assert_eq!(fake.now_ms(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_hangs_while_it_opens_ends_with_the_operation() {
    for (mood, settings, class, at_ms) in [
        (Mood::ConnectHangs, with_timeout(300), "MongoOperationTimeoutException", 300),
        (Mood::HelloStalls, with_timeout(300), "MongoOperationTimeoutException", 300),
        (Mood::ConnectHangs, Fake::settings(), "MongoSocketOpenException", 10_000),
        (
            Mood::HelloStalls,
            ClientSettings { socket_timeout: 700 * MS, ..Fake::settings() },
            "MongoSocketReadTimeoutException",
            700,
        ),
    ] {
        let fake = Fake::single(primary());
        let client = fake.client(settings);
        // The monitor knows the server.
        tokio::time::sleep(MS).await;
        fake.mood("a", mood);
        let before = fake.now_ms();
        let error = client.database("db").collection("c").insert_one(doc! {}).await.unwrap_err();
        assert_eq!((error.java_class(), fake.now_ms() - before), (class, at_ms), "{mood:?}");
        // The operation's own deadline says nothing about the server.
        assert_eq!(client.topology().primary().is_some(), error.is_operation_timeout(), "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn w_timeout_is_left_out() {
    let concern = || WriteConcern { wtimeout: Some(5 * MS), ..WriteConcern::members(1) };
    for (settings, sent) in [(Fake::settings(), doc! {"w": 1, "wtimeout": 5}), (with_timeout(1000), doc! {"w": 1})] {
        let fake = Fake::single(primary());
        collection(&fake, settings).with_write_concern(concern()).insert_one(doc! {}).await.unwrap();
        assert_eq!(fake.seen()[0].command.get_document("writeConcern").unwrap(), &sent);
    }
}

/// A cursor of one document in the first batch, one more later.
fn two_batches(first_ms: u64, second_ms: u64) -> [Step; 2] {
    [
        Step::ReplyAfter(first_ms, cursor(7, vec![doc! {"_id": 1}])),
        Step::ReplyAfter(second_ms, more(0, vec![doc! {"_id": 2}])),
    ]
}

async fn drain(fake: &Fake, timeout: u32, mode: Option<TimeoutMode>, steps: [Step; 2]) -> Result<usize, DriverError> {
    fake.script(steps);
    let mut find = collection(fake, Fake::settings()).find(doc! {}).timeout(timeout * MS);
    if let Some(mode) = mode {
        find = find.timeout_mode(mode);
    }
    find.await?.collect().await.map(|documents| documents.len())
}

#[tokio::test(start_paused = true)]
async fn a_cursors_life_or_each_call_is_limited() {
    let lifetime = Some(TimeoutMode::CursorLifetime);
    for (mode, good, first_max_time) in
        [(None, false, Some(200)), (lifetime, false, Some(200)), (Some(TimeoutMode::Iteration), true, None)]
    {
        let fake = Fake::single(primary());
        let result = drain(&fake, 200, mode, two_batches(120, 120)).await;
        assert_eq!(result.is_ok(), good, "{mode:?}");
        assert!(good || is_timeout(result));
        assert_eq!(max_times(&fake)[..2], [first_max_time, None], "a getMore has none");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_a_cursor_has_its_own_time() {
    let fake = Fake::single(primary());
    let _ = drain(&fake, 200, None, two_batches(120, 120)).await;
    let last = fake.seen().pop().unwrap();
    assert_eq!((last.name.as_str(), last.command.get_i64("maxTimeMS").unwrap()), ("killCursors", 200));
    // And another one if that is wanted.
    fake.script([Step::Reply(cursor(7, vec![])), Step::ReplyAfter(300, ok())]);
    let mut open = collection(&fake, Fake::settings()).find(doc! {}).timeout(200 * MS).await.unwrap();
    open.close_with_timeout(400 * MS).await;
    assert_eq!(fake.seen().pop().unwrap().command.get_i64("maxTimeMS").unwrap(), 400);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_cursor_waits_no_longer_than_there_is_time() {
    let fake = Fake::single(primary());
    let empty = || more(7, vec![]);
    fake.script([
        Step::Reply(cursor(7, vec![doc! {"_id": 1}])),
        Step::ReplyAfter(130, empty()),
        Step::ReplyAfter(100, empty()),
    ]);
    let find = collection(&fake, Fake::settings()).find(doc! {}).cursor_type(CursorType::TailableAwait);
    let mut tail = find.max_await_time(100 * MS).timeout(200 * MS).await.unwrap();
    assert_eq!(tail.try_next().await.unwrap(), Some(doc! {"_id": 1}));
    tokio::time::sleep(1000 * MS).await;
    assert!(is_timeout(tail.next().await));
    assert_eq!(max_times(&fake), [Some(200), Some(100), Some(70)]);
    // It can be asked again.
    fake.script([Step::Reply(more(7, vec![doc! {"_id": 2}]))]);
    assert_eq!(tail.next().await.unwrap(), Some(doc! {"_id": 2}));
}

#[tokio::test(start_paused = true)]
async fn options_that_contradict_each_other_are_refused() {
    let fake = Fake::single(primary());
    let coll = collection(&fake, Fake::settings());
    let iteration = TimeoutMode::Iteration;
    let out = || [doc! {"$out": "d"}];
    let refused = |result: Result<backfire_driver::Cursor, DriverError>| {
        let error = result.unwrap_err();
        assert_eq!(error.java_class(), "IllegalArgumentException", "{error}");
    };
    refused(coll.find(doc! {}).timeout_mode(iteration).await);
    refused(coll.list_indexes().timeout_mode(iteration).await);
    refused(coll.aggregate(out()).timeout(9 * MS).timeout_mode(iteration).await);
    refused(coll.aggregate([]).timeout(5 * MS).max_await_time(5 * MS).await);
    refused(coll.watch([]).timeout(5 * MS).max_await_time(9 * MS).await);
    let tail = || coll.find(doc! {}).cursor_type(CursorType::TailableAwait).timeout(5 * MS);
    refused(tail().timeout_mode(TimeoutMode::CursorLifetime).await);
    refused(tail().max_await_time(5 * MS).await);
    assert_eq!(fake.seen().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn max_time_of_cursors_follows_type_and_mode() {
    use CursorType::*;
    for (cursor_type, first, second) in
        [(NonTailable, Some(200), None), (Tailable, None, None), (TailableAwait, Some(200), Some(50))]
    {
        let fake = Fake::single(primary());
        fake.script([Step::Reply(cursor(7, vec![])), Step::Reply(more(0, vec![]))]);
        let mut find = collection(&fake, with_timeout(200)).find(doc! {}).cursor_type(cursor_type);
        if cursor_type == TailableAwait {
            find = find.max_await_time(50 * MS);
        }
        find.await.unwrap().try_next().await.unwrap();
        assert_eq!(max_times(&fake), [first, second], "{cursor_type:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_specification_lets_the_timeout_win() {
    for (profile, class) in [
        (DriverProfile::JAVA_5_4, "MongoSocketReadException"),
        (DriverProfile::SPECIFICATION, "MongoOperationTimeoutException"),
    ] {
        let fake = Fake::single(primary());
        fake.script([Step::Reset]);
        let coll = collection(&fake, ClientSettings { profile, ..with_timeout(300) });
        let error = coll.insert_one(doc! {}).await.unwrap_err();
        assert_eq!((error.java_class(), fake.now_ms()), (class, 300));
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_cursor_keeps_the_users_max_time_for_get_more() {
    let fake = Fake::single(primary());
    fake.script([Step::Reply(cursor(7, vec![])), Step::Reply(more(0, vec![]))]);
    let db = fake.client(Fake::settings()).database("db");
    let command = doc! {"find": "c", "maxTimeMS": 200_i64, "batchSize": 1};
    let run = db.run_cursor_command(command).option("maxTimeMS", 300).unwrap().option("batchSize", 5).unwrap();
    let documents: Vec<Document> = run.await.unwrap().collect().await.unwrap();
    assert!(documents.is_empty());
    assert_eq!(max_times(&fake), [Some(200), Some(300)]);
    assert_eq!(fake.seen()[1].command.get_i32("batchSize").unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_in_no_time_does_not_stop_the_clock() {
    let fake = Fake::single(streaming_primary());
    let retryable = with(error(10107, "x", &["RetryableWriteError"]), doc! {"topologyVersion": topology_version(1)});
    fake.script(vec![Step::Reply(retryable); 1000]);
    let error = collection(&fake, with_timeout(100)).insert_one(doc! {}).await.unwrap_err();
    assert_eq!((error.is_operation_timeout(), fake.now_ms()), (true, 100));
    let seen = fake.seen();
    assert!(seen.iter().all(|send| (send.lsid(), send.txn()) == (seen[0].lsid(), Some(1))));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_no_bytes_is_given_up_in_time() {
    let fake = Fake::single(primary());
    let coll = collection(&fake, with_timeout(300));
    fake.script([Step::ReplyAndGoDeaf(ok())]);
    coll.insert_one(doc! {}).await.unwrap();
    let error = coll.insert_one(doc! {"pad": "x".repeat(2 * PIPE_BYTES)}).await.unwrap_err();
    assert_eq!((error.is_operation_timeout(), fake.now_ms()), (true, 300));
    assert_eq!(error.cause().unwrap().java_class(), "MongoSocketWriteException");
}
