//! Resends, as the server sees them.

use std::time::Duration;

use bson::doc;
use proptest::prelude::*;

use backfire_driver::{BulkWriteModel, ClientSettings, Collection, DriverProfile, ReadMode, ReadPreference};

use crate::fake::*;

const S: Duration = Duration::from_secs(5);

fn with_socket_timeout() -> ClientSettings {
    ClientSettings { socket_timeout: S, ..Fake::settings() }
}

fn collection(fake: &Fake, settings: ClientSettings) -> Collection {
    fake.client(settings).database("db").collection("c")
}

/// Name, time and number of each command.
fn sends(fake: &Fake) -> Vec<(String, u64, Option<i64>)> {
    fake.seen().into_iter().map(|seen| (seen.name.clone(), seen.at_ms, seen.txn())).collect()
}

fn expected(rows: &[(&str, u64, i64)]) -> Vec<(String, u64, Option<i64>)> {
    rows.iter().map(|(name, at_ms, txn)| ((*name).to_owned(), *at_ms, (*txn > 0).then_some(*txn))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_socket_timeout_leads_to_a_resend_at_once_with_the_same_identity() {
    let fake = Fake::single(primary());
    let coll = collection(&fake, with_socket_timeout());
    fake.script([Step::Stall, Step::Stall]);
    let error = coll.insert_one(doc! {"x": 1}).await.unwrap_err();
    assert_eq!(error.java_class(), "MongoSocketReadTimeoutException");
    assert!(error.has_label("RetryableWriteError"));
    assert_eq!(sends(&fake), expected(&[("insert", 0, 1), ("insert", 5000, 1)]));
    assert_eq!(fake.now_ms(), 10_000);
    let seen = fake.seen();
    assert_eq!(seen[0].lsid(), seen[1].lsid());
    assert_eq!(seen[0].own_fields(), seen[1].own_fields());
    assert_ne!(seen[0].connection, seen[1].connection, "a socket that timed out is closed");
}

#[tokio::test(start_paused = true)]
async fn each_execution_after_a_timeout_has_another_session() {
    let fake = Fake::single(primary());
    let coll = collection(&fake, with_socket_timeout());
    fake.script([Step::Stall, Step::Stall, Step::Stall, Step::Stall]);
    for _ in 0..3 {
        let _ = coll.insert_one(doc! {"x": 1}).await;
    }
    // The worked timeline of two executions that stall, and a third that does not.
    assert_eq!(
        sends(&fake),
        expected(&[
            ("insert", 0, 1),
            ("insert", 5000, 1),
            ("insert", 10_000, 1),
            ("insert", 15_000, 1),
            ("insert", 20_000, 1)
        ])
    );
    let lsids: Vec<_> = fake.seen().iter().map(Seen::lsid).collect();
    assert_eq!((&lsids[0], &lsids[2]), (&lsids[1], &lsids[3]));
    assert!(lsids[0] != lsids[2] && lsids[2] != lsids[4] && lsids[0] != lsids[4]);
}

#[tokio::test(start_paused = true)]
async fn a_good_execution_gives_its_session_to_the_next() {
    let fake = Fake::single(primary());
    let coll = collection(&fake, with_socket_timeout());
    for _ in 0..3 {
        coll.insert_one(doc! {"x": 1}).await.unwrap();
    }
    let seen = fake.seen();
    assert_eq!(sends(&fake).iter().map(|(_, _, txn)| *txn).collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
    assert!(seen.iter().all(|other| other.lsid() == seen[0].lsid()));
}

#[tokio::test(start_paused = true)]
async fn a_read_timeout_touches_neither_pool_nor_server() {
    let fake = Fake::single(primary());
    let client = fake.client(with_socket_timeout());
    fake.script([Step::Stall]);
    client.database("db").collection("c").insert_one(doc! {"x": 1}).await.unwrap();
    assert!(client.topology().primary().is_some());
    assert!(!format!("{:?}", fake.log()).contains("PoolCleared"));
}

#[tokio::test(start_paused = true)]
async fn a_reset_clears_the_pool_and_the_resend_waits_for_a_check() {
    let fake = Fake::single(primary());
    let client = fake.client(with_socket_timeout());
    fake.script([Step::Reset]);
    client.database("db").collection("c").insert_one(doc! {"x": 1}).await.unwrap();
    // facts/client.md A4.4: about half a second, the shortest time between two checks.
    assert_eq!(sends(&fake), expected(&[("insert", 0, 1), ("insert", 500, 1)]));
    assert!(format!("{:?}", fake.log()).contains("PoolCleared"));
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_once_and_what_twice() {
    let filter = || doc! {"x": 1};
    let update = || doc! {"$set": {"y": 1}};
    let settings = || ClientSettings { socket_timeout: Duration::from_millis(100), ..Fake::settings() };
    let off = || ClientSettings { retry_writes: false, ..settings() };
    macro_rules! row {
        ($settings:expr, $hello:expr, $coll:ident => $operation:expr, $sends:expr) => {{
            let fake = Fake::single($hello);
            fake.script(vec![Step::Stall; 4]);
            let $coll = collection(&fake, $settings);
            assert!($operation.await.is_err());
            let seen = fake.seen();
            assert_eq!(seen.len(), $sends, "{}", stringify!($operation));
            assert_eq!(seen[0].txn().is_some(), $sends == 2 && seen[0].name != "find", "{}", stringify!($operation));
        }};
    }
    let standalone = doc! {"ismaster": true, "maxWireVersion": 9, "logicalSessionTimeoutMinutes": 30, "ok": 1.0};
    row!(settings(), primary(), c => c.insert_one(filter()), 2);
    row!(settings(), primary(), c => c.insert_many([filter(), filter()]), 2);
    row!(settings(), primary(), c => c.update_one(filter(), update()), 2);
    row!(settings(), primary(), c => c.replace_one(filter(), filter()), 2);
    row!(settings(), primary(), c => c.delete_one(filter()), 2);
    row!(settings(), primary(), c => c.find_one_and_update(filter(), update()), 2);
    row!(settings(), primary(), c => c.find_one_and_replace(filter(), filter()), 2);
    row!(settings(), primary(), c => c.find_one_and_delete(filter()), 2);
    row!(settings(), primary(), c => c.find_one(filter()), 2);
    // Never resent: facts/client.md A6.
    row!(settings(), primary(), c => c.update_many(filter(), update()), 1);
    row!(settings(), primary(), c => c.delete_many(filter()), 1);
    row!(settings(), primary(), c => c.create_index(backfire_driver::IndexModel::new(filter())), 1);
    row!(settings(), primary(), c => c.drop(), 1);
    row!(settings(), primary(), c => c.aggregate([doc! {"$out": "d"}]), 1);
    row!(off(), primary(), c => c.insert_one(filter()), 1);
    row!(off(), primary(), c => c.find_one_and_delete(filter()), 1);
    let direct = ClientSettings { replica_set: None, ..settings() };
    row!(direct, standalone, c => c.insert_one(filter()), 1);
}

#[tokio::test(start_paused = true)]
async fn one_multi_write_spoils_a_bulk_in_java_only() {
    let models = || {
        [
            BulkWriteModel::insert_one(doc! {"_id": 1}),
            BulkWriteModel::update_many(doc! {}, doc! {"$set": {"x": 1}}),
            BulkWriteModel::delete_one(doc! {}),
        ]
    };
    for (profile, numbers) in
        [(DriverProfile::JAVA_5_4, [None, None, None]), (DriverProfile::SPECIFICATION, [Some(1), None, Some(2)])]
    {
        let fake = Fake::single(primary());
        collection(&fake, ClientSettings { profile, ..Fake::settings() }).bulk_write(models()).await.unwrap();
        assert_eq!(fake.seen().iter().map(Seen::txn).collect::<Vec<_>>(), numbers, "{}", profile.name);
    }
}

#[tokio::test(start_paused = true)]
async fn updates_and_replacements_are_two_commands_in_java_only() {
    let models = || {
        [
            BulkWriteModel::replace_one(doc! {"_id": 1}, doc! {"x": 1}),
            BulkWriteModel::update_one(doc! {"_id": 2}, doc! {"$set": {"x": 1}}),
        ]
    };
    for (profile, commands) in [(DriverProfile::JAVA_5_4, 2), (DriverProfile::SPECIFICATION, 1)] {
        let fake = Fake::single(primary());
        let settings = ClientSettings { profile, ..Fake::settings() };
        let result = collection(&fake, settings).bulk_write(models()).await.unwrap();
        assert_eq!((fake.seen().len(), result.matched_count), (commands, 2), "{}", profile.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bulk_has_two_sends_for_each_command_and_stops_where_it_is_stuck() {
    let models = || {
        [
            BulkWriteModel::insert_one(doc! {"_id": 1}),
            BulkWriteModel::update_one(doc! {}, doc! {"$set": {"x": 1}}),
            BulkWriteModel::delete_one(doc! {}),
            BulkWriteModel::insert_one(doc! {"_id": 2}),
        ]
    };
    // Every command stalls once: 2 B sends (facts/client.md A5, F7).
    let fake = Fake::single(primary());
    let good = Step::Reply(ok());
    for _ in 0..4 {
        fake.script([Step::Stall, good.clone()]);
    }
    let result = collection(&fake, with_socket_timeout()).bulk_write(models()).await.unwrap();
    assert_eq!(fake.seen().iter().map(|seen| seen.txn().unwrap()).collect::<Vec<_>>(), [1, 1, 2, 2, 3, 3, 4, 4]);
    assert_eq!((result.inserted_count, result.deleted_count), (2, 1));
    // Stuck at the second: 1 + 2, and the rest is not sent.
    let fake = Fake::single(primary());
    fake.script([good, Step::Stall, Step::Stall]);
    let error = collection(&fake, with_socket_timeout()).bulk_write(models()).await.unwrap_err();
    assert_eq!(error.java_class(), "MongoSocketReadTimeoutException");
    assert_eq!(error.bulk_result().unwrap().inserted_count, 1);
    assert_eq!(sends(&fake), expected(&[("insert", 0, 1), ("update", 0, 2), ("update", 5000, 2)]));
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_server_are_retried_by_their_label() {
    let retryable = &["RetryableWriteError"];
    let concern = |labels: &[&str]| {
        doc! {"n": 1, "ok": 1.0, "writeConcernError": {"code": 91, "errmsg": "x"}, "errorLabels": labels.to_vec()}
    };
    for (steps, sends, outcome) in [
        (vec![error(10107, "NotMaster", retryable)], 2, "ok"),
        (vec![error(10107, "NotMaster", &[])], 1, "MongoNotPrimaryException"),
        (vec![error(50, "MaxTimeMSExpired", &[])], 1, "MongoExecutionTimeoutException"),
        (vec![error(91, "x", retryable), error(11000, "DuplicateKey", &[])], 2, "MongoCommandException"),
        (
            vec![error(91, "x", retryable), error(10107, "x", &["RetryableWriteError", "NoWritesPerformed"])],
            2,
            "MongoNodeIsRecoveringException",
        ),
        (vec![concern(retryable)], 2, "ok"),
        (vec![concern(&[])], 1, "MongoWriteConcernException"),
        (vec![concern(retryable), concern(retryable)], 2, "MongoWriteConcernException"),
    ] {
        let fake = Fake::single(primary());
        fake.script(steps.into_iter().map(Step::Reply));
        let result = collection(&fake, Fake::settings()).insert_one(doc! {"x": 1}).await;
        let shown = result.map_or_else(|error| error.java_class(), |_| "ok");
        assert_eq!((fake.seen().len(), shown), (sends, outcome));
    }
}

#[tokio::test(start_paused = true)]
async fn with_timeout_ms_a_stall_is_sent_once() {
    // facts/client.md A2 third row, A7: socketTimeoutMS is ignored.
    let fake = Fake::single(primary());
    fake.script([Step::Stall]);
    let settings = ClientSettings {
        timeout: Some(Duration::from_secs(3)),
        socket_timeout: Duration::from_millis(500),
        ..Fake::settings()
    };
    let error = collection(&fake, settings).insert_one(doc! {"x": 1}).await.unwrap_err();
    assert_eq!(error.java_class(), "MongoOperationTimeoutException");
    assert_eq!(error.cause().map(|cause| cause.java_class()), Some("MongoSocketReadTimeoutException"));
    assert_eq!((sends(&fake), fake.now_ms()), (expected(&[("insert", 0, 1)]), 3000));
    assert_eq!(fake.seen()[0].command.get_i64("maxTimeMS").ok(), Some(3000));
}

#[tokio::test(start_paused = true)]
async fn with_timeout_ms_resets_are_resent_until_it_runs_out() {
    // facts/client.md A2 fourth row: one send per half second; A7: the app sees the reset.
    let fake = Fake::single(primary());
    fake.script(vec![Step::Reset; 100]);
    let settings = ClientSettings { timeout: Some(Duration::from_millis(1900)), ..Fake::settings() };
    let error = collection(&fake, settings).insert_one(doc! {"x": 1}).await.unwrap_err();
    assert_eq!(error.java_class(), "MongoSocketReadException");
    assert_eq!(
        sends(&fake),
        expected(&[("insert", 0, 1), ("insert", 500, 1), ("insert", 1000, 1), ("insert", 1500, 1)])
    );
    assert_eq!(fake.now_ms(), 1900);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_gets_fewer_sends() {
    // facts/client.md A4.8: the resend must shake hands, which times out as well; then no server can be selected.
    let fake = Fake::single(primary());
    let settings = ClientSettings { socket_timeout: Duration::from_secs(1), ..Fake::settings() };
    let coll = collection(&fake, settings);
    coll.insert_one(doc! {"x": 0}).await.unwrap();
    fake.mood("a", Mood::HelloStalls);
    fake.script([Step::Stall]);
    let first = coll.insert_one(doc! {"x": 1}).await.unwrap_err();
    let second = coll.insert_one(doc! {"x": 1}).await.unwrap_err();
    assert_eq!(first.java_class(), "MongoSocketReadTimeoutException");
    assert_eq!(second.java_class(), "MongoTimeoutException");
    assert_eq!(fake.seen().len(), 2, "one good, one stalled, no resend");
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_gets_a_send_for_each_idle_connection() {
    // facts/client.md A4.8: with minPoolSize 4, 4 sends over 3 executions.
    let fake = Fake::single(primary());
    let settings = ClientSettings { socket_timeout: Duration::from_secs(1), min_pool_size: 4, ..Fake::settings() };
    let coll = collection(&fake, settings);
    tokio::time::sleep(Duration::from_millis(10)).await;
    fake.mood("a", Mood::HelloStalls);
    fake.script(vec![Step::Stall; 10]);
    for _ in 0..3 {
        assert!(coll.insert_one(doc! {"x": 1}).await.is_err());
    }
    assert_eq!(fake.seen().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_explicit_session_keeps_its_id_over_executions() {
    let fake = Fake::single(primary());
    let client = fake.client(with_socket_timeout());
    let session = client.start_session(Default::default()).unwrap();
    let coll = client.database("db").collection("c");
    fake.script([Step::Stall, Step::Stall]);
    assert!(coll.insert_one(doc! {"x": 1}).session(&session).await.is_err());
    assert!(session.is_dirty());
    coll.insert_one(doc! {"x": 1}).session(&session).await.unwrap();
    let seen = fake.seen();
    assert_eq!(seen.iter().map(|seen| seen.txn().unwrap()).collect::<Vec<_>>(), [1, 1, 2]);
    assert!(seen.iter().all(|other| other.lsid() == Some(session.lsid_document().unwrap())));
    session.end();
    coll.insert_one(doc! {"x": 1}).await.unwrap();
    assert_ne!(fake.seen()[3].lsid(), seen[0].lsid(), "a dirty session is given up");
}

#[tokio::test(start_paused = true)]
async fn a_first_handshake_that_breaks_is_retried_by_newer_drivers() {
    for (profile, good) in [(DriverProfile::JAVA_5_4, false), (DriverProfile::JAVA_5_14, true)] {
        let fake = Fake::single(primary());
        let settings = ClientSettings { profile, ..Fake::settings() };
        let client = fake.client(settings);
        // The monitor knows the server; then handshakes break for a while.
        client.database("db").run_command(doc! {"ping": 1}).await.unwrap();
        fake.script([Step::Stall]);
        let busy = client.database("db").collection("c").insert_one(doc! {"x": 0});
        let busy = tokio::spawn(busy.into_future());
        tokio::time::sleep(Duration::from_millis(10)).await;
        fake.mood("a", Mood::HelloResets);
        let mended = fake.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            mended.mood("a", Mood::Well);
        });
        let result = client.database("db").collection("c").insert_one(doc! {"x": 1}).await;
        assert_eq!(result.is_ok(), good, "{}: {result:?}", profile.name);
        busy.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn overload_errors_are_retried_with_backpressure_only() {
    let overload = || Step::Reply(error(462, "Overload", &["SystemOverloadedError", "RetryableError"]));
    for (profile, sends) in [(DriverProfile::JAVA_5_4, 1), (DriverProfile::JAVA_5_14, 3)] {
        let fake = Fake::single(primary());
        fake.script([overload(), overload(), overload(), overload()]);
        let coll = collection(&fake, ClientSettings { profile, ..Fake::settings() });
        let error = coll.update_many(doc! {}, doc! {"$set": {"x": 1}}).await.unwrap_err();
        assert_eq!((error.code(), fake.seen().len()), (Some(462), sends), "{}", profile.name);
        assert!(fake.now_ms() <= 600, "200 and 400 ms at most");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retried_read_keeps_its_preference_and_waits_for_nobody() {
    let fake = Fake::single(primary());
    fake.script([Step::Reply(error(11602, "x", &[])), Step::Reply(cursor(0, vec![doc! {"_id": 1}]))]);
    let coll =
        collection(&fake, Fake::settings()).with_read_preference(ReadPreference::mode(ReadMode::PrimaryPreferred));
    let found = coll.find_one(doc! {}).await.unwrap();
    assert_eq!(found, Some(doc! {"_id": 1}));
    for seen in fake.seen() {
        assert_eq!(seen.command.get_document("$readPreference").unwrap(), &doc! {"mode": "primaryPreferred"});
    }
}

/// What the server does with one send.
fn any_step() -> impl Strategy<Value = Step> {
    let label = prop_oneof![Just(vec![]), Just(vec!["RetryableWriteError"])];
    let code = prop_oneof![Just(50), Just(91), Just(262), Just(10107), Just(11000)];
    prop_oneof![
        2 => Just(Step::Stall),
        2 => Just(Step::Reset),
        1 => Just(Step::Reply(ok())),
        2 => (code, label).prop_map(|(code, labels)| Step::Reply(error(code, "x", &labels))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_execution_is_one_identity_and_at_most_two_sends(
        steps in prop::collection::vec(any_step(), 1..8), modify: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let fake = Fake::single(primary());
            let coll = collection(&fake, with_socket_timeout());
            fake.script(steps);
            let mut used = Vec::new();
            for _ in 0..3 {
                let before = fake.seen().len();
                let failed = if modify {
                    coll.find_one_and_delete(doc! {}).await.is_err()
                } else {
                    coll.insert_one(doc! {"x": 1}).await.is_err()
                };
                let sent = fake.seen().split_off(before);
                assert!((1..=2).contains(&sent.len()), "{} sends", sent.len());
                let identity = (sent[0].lsid(), sent[0].txn());
                assert!(sent.iter().all(|send| (send.lsid(), send.txn()) == identity && send.own_fields() == sent[0].own_fields()));
                assert!(!used.contains(&identity), "an execution's identity is its own");
                used.push(identity);
                let _ = failed;
            }
        });
    }
}
