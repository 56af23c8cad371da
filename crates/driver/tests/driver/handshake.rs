//! The first words on a connection.

use bson::doc;

use backfire_driver::settings::ServerApi;
use backfire_driver::{ClientSettings, DriverProfile};
use backfire_wire::Compressor;

use crate::fake::*;

#[tokio::test(start_paused = true)]
async fn the_greeting_is_a_legacy_hello_in_an_old_frame() {
    let fake = Fake::single(primary());
    let settings = ClientSettings { app_name: Some("store".into()), ..Fake::settings() };
    fake.client(settings).database("db").run_command(doc! {"ping": 1}).await.unwrap();
    for greeting in fake.hellos() {
        assert_eq!((greeting.name.as_str(), greeting.is_query), ("isMaster", true));
        let command = greeting.command;
        assert!(command.get_bool("helloOk").unwrap());
        let client = command.get_document("client").unwrap();
        assert_eq!(client.get_document("application").unwrap(), &doc! {"name": "store"});
        assert_eq!(client.get_document("driver").unwrap().get_str("name").unwrap(), "backfire-driver");
        assert!(!command.contains_key("compression") && !command.contains_key("backpressure"));
    }
    assert_eq!(fake.hellos().len(), 2, "one for the monitor, one for the pool");
}

#[tokio::test(start_paused = true)]
async fn hello_is_used_where_the_server_knows_it() {
    for (wire_version, name) in [(9, "isMaster"), (13, "hello")] {
        let fake = Fake::single(with(primary(), doc! {"maxWireVersion": wire_version}));
        let _client = fake.client(Fake::settings());
        tokio::time::sleep(std::time::Duration::from_secs(11)).await;
        let names: Vec<_> = fake.hellos().into_iter().map(|hello| (hello.name, hello.is_query)).collect();
        assert_eq!(names, [("isMaster".into(), true), (name.into(), false)], "wire version {wire_version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_compressor_that_both_know_is_used() {
    for compressor in [Compressor::Snappy, Compressor::Zlib { level: 6 }, Compressor::Zstd] {
        let fake = Fake::single(primary());
        let settings = ClientSettings { compressors: vec![compressor], ..Fake::settings() };
        let db = fake.client(settings).database("db");
        db.collection("c").insert_one(doc! {"pad": "x".repeat(1000)}).await.unwrap();
        // What carries secrets is never compressed.
        db.run_command(doc! {"saslStart": 1}).await.unwrap();
        let compressed: Vec<_> = fake.seen().into_iter().map(|seen| (seen.name, seen.compressed)).collect();
        assert_eq!(compressed, [("insert".to_owned(), true), ("saslStart".to_owned(), false)], "{compressor:?}");
        assert_eq!(fake.hellos()[0].command.get_array("compression").unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn backpressure_is_announced_by_drivers_that_have_it() {
    let fake = Fake::single(primary());
    let settings = ClientSettings { profile: DriverProfile::JAVA_5_14, ..Fake::settings() };
    fake.client(settings).database("db").run_command(doc! {"ping": 1}).await.unwrap();
    assert!(fake.hellos().iter().all(|hello| hello.command.get_bool("backpressure").unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_declared_api_goes_with_every_command_and_the_greeting() {
    let fake = Fake::single(with(primary(), doc! {"maxWireVersion": 13}));
    let server_api = Some(ServerApi { version: "1".into(), strict: Some(true), deprecation_errors: None });
    let settings = ClientSettings { server_api, ..Fake::settings() };
    fake.client(settings).database("db").run_command(doc! {"ping": 1}).await.unwrap();
    for seen in fake.hellos().into_iter().chain(fake.seen()) {
        assert!(seen.name == "hello" || seen.name == "ping", "{}", seen.name);
        assert!(!seen.is_query);
        assert_eq!(seen.command.get_str("apiVersion").unwrap(), "1");
        assert!(seen.command.get_bool("apiStrict").unwrap());
        assert!(!seen.command.contains_key("apiDeprecationErrors"));
    }
}

#[tokio::test(start_paused = true)]
async fn servers_that_are_too_old_or_too_new_are_refused() {
    for (hello, what) in [
        (doc! {"maxWireVersion": 5}, "requires at least 6"),
        (doc! {"minWireVersion": 99, "maxWireVersion": 100}, "only supports up to"),
    ] {
        let fake = Fake::single(with(primary(), hello));
        let error = fake.client(Fake::settings()).database("db").run_command(doc! {"ping": 1}).await.unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}
