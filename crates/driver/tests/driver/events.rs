//! Command events.

use std::time::Duration;

use bson::{Document, doc};

use backfire_driver::events::CommandEvent;
use backfire_driver::{ClientSettings, WriteConcern};

use crate::fake::*;

/// `+insert 1` for a start (with the number of the send), `=insert` for a good end, `-insert Class` for a bad one.
fn story(fake: &Fake) -> Vec<String> {
    let short = |event| match event {
        CommandEvent::Started(event) => format!("+{} {}", event.command_name, event.attempt),
        CommandEvent::Succeeded(event) => format!("={}", event.command_name),
        CommandEvent::Failed(event) => format!("-{} {}", event.command_name, event.error.java_class()),
    };
    fake.command_events().into_iter().map(short).collect()
}

#[tokio::test(start_paused = true)]
async fn every_send_is_told_once_and_ends_once() {
    let fake = Fake::single(primary());
    let coll = fake
        .client(ClientSettings { socket_timeout: Duration::from_secs(1), ..Fake::settings() })
        .database("db")
        .collection("c");
    fake.script([Step::Stall, Step::ReplyAfter(70, ok()), Step::Reply(error(11000, "x", &[])), Step::Reset]);
    coll.insert_one(doc! {"_id": 1}).await.unwrap();
    assert!(coll.insert_one(doc! {"_id": 1}).await.is_err());
    coll.insert_one(doc! {"_id": 1}).await.unwrap();
    let expected = [
        "+insert 1",
        "-insert MongoSocketReadTimeoutException",
        "+insert 2",
        "=insert",
        "+insert 1",
        "-insert MongoCommandException",
        "+insert 1",
        "-insert MongoSocketReadException",
        "+insert 2",
        "=insert",
    ];
    assert_eq!(story(&fake), expected);
}

#[tokio::test(start_paused = true)]
async fn a_start_holds_all_that_identifies_a_send() {
    let fake = Fake::single(primary());
    let coll = fake
        .client(ClientSettings { socket_timeout: Duration::from_secs(1), ..Fake::settings() })
        .database("db")
        .collection("c");
    fake.script([Step::Stall, Step::ReplyAfter(70, ok())]);
    coll.insert_many([doc! {"_id": 1}, doc! {"_id": 2}]).await.unwrap();
    let events = fake.command_events();
    let [
        CommandEvent::Started(first),
        CommandEvent::Failed(failed),
        CommandEvent::Started(second),
        CommandEvent::Succeeded(good),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((first.lsid, first.txn_number), (second.lsid, second.txn_number));
    assert!(first.lsid.is_some() && first.txn_number.is_some());
    assert_eq!(first.operation_id, second.operation_id);
    assert_ne!(first.request_id, second.request_id);
    assert_ne!(first.connection.id, second.connection.id);
    assert_eq!(first.connection.server_id.unwrap().0 as u64, fake.seen()[0].connection);
    assert_eq!((failed.request_id, good.request_id), (first.request_id, second.request_id));
    assert_eq!((failed.duration.as_millis(), good.duration.as_millis()), (1000, 70));
    assert_eq!(good.reply.get_i32("n").unwrap(), 1);
    // The documents travel in a sequence, and are shown in place.
    let shown = first.command.to_document();
    assert_eq!(shown.get_array("documents").unwrap().len(), 2);
    assert!(!first.command.body().contains_key("documents"));
    assert_eq!(shown, fake.seen()[0].command);
    assert_eq!((first.database.as_str(), first.command_name.as_str()), ("db", "insert"));
}

#[tokio::test(start_paused = true)]
async fn a_start_comes_before_the_bytes() {
    let fake = Fake::single(primary());
    let db = fake.client(Fake::settings()).database("db");
    fake.script([Step::ReplyAndGoDeaf(ok())]);
    db.run_command(doc! {"ping": 1}).await.unwrap();
    // The bytes of the next command never leave: its connection takes no more of them.
    let large = doc! {"ping": 1, "pad": "x".repeat(2 * PIPE_BYTES)};
    let stuck = tokio::time::timeout(Duration::from_millis(1), db.run_command(large).into_future()).await;
    assert!(stuck.is_err());
    assert_eq!(story(&fake), ["+ping 1", "=ping", "+ping 1"]);
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_nobody_answers_succeeds_at_once() {
    let fake = Fake::single(primary());
    let coll =
        fake.client(Fake::settings()).database("db").collection("c").with_write_concern(WriteConcern::members(0));
    let result = coll.insert_one(doc! {"_id": 1}).await.unwrap();
    assert!(!result.acknowledged);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let seen = fake.seen();
    assert_eq!((seen[0].lsid(), seen[0].txn()), (None, None));
    assert_eq!(seen[0].command.get_document("writeConcern").unwrap(), &doc! {"w": 0});
    let events = fake.command_events();
    let Some(CommandEvent::Succeeded(good)) = events.last() else { panic!("{events:?}") };
    assert_eq!(good.reply, doc! {"ok": 1});
    // The connection is good for the next command.
    coll.find_one(doc! {}).await.unwrap();
    assert_eq!(fake.seen()[1].connection, seen[0].connection);
}

#[tokio::test(start_paused = true)]
async fn secrets_are_not_told() {
    let fake = Fake::single(primary());
    let db = fake.client(Fake::settings()).database("db");
    let secret = "s3cret";
    fake.script([
        Step::Reply(doc! {"ok": 1.0, "payload": secret}),
        Step::Reply(with(error(18, "AuthenticationFailed", &[]), doc! {"errmsg": secret, "payload": secret})),
        Step::Reply(doc! {"ok": 1.0, "speculativeAuthenticate": secret}),
    ]);
    let commands: [Document; 3] = [
        doc! {"saslStart": 1, "payload": secret},
        doc! {"createUser": "u", "pwd": secret},
        doc! {"hello": 1, "speculativeAuthenticate": {"payload": secret}},
    ];
    for command in commands {
        let _ = db.run_command(command).await;
    }
    assert_eq!(fake.command_events().len(), 6);
    assert!(!format!("{:?}", fake.command_events()).contains(secret));
}
