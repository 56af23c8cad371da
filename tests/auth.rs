//! Logging in, and what each role may do.

use backfire_driver::auth::scram::{KeyCache, ScramClient, ScramMechanism};
use backfire_driver::{Client, ClientSettings, ErrorKind};
use backfire_model::ConnectionString;
use backfire_server::profile::{V4_4, V7_0, V8_0};
use backfire_tests::{Lab, Wire};
use backfire_wire::{Compressor, MessageFlags, OpMsgEncoder, OpQuery, OpReply, compression};
use bson::{Binary, Bson, Document, bson, doc, spec::BinarySubtype};
use proptest::prelude::*;

const SHA_1: ScramMechanism = ScramMechanism::Sha1;
const SHA_256: ScramMechanism = ScramMechanism::Sha256;

/// A server that wants a log-in, with the user `root` and the password `pencil`.
fn lab() -> Lab {
    Lab::with_auth(&V7_0)
}

fn binary(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}

fn bytes(reply: &Document) -> &[u8] {
    match reply.get("payload") {
        Some(Bson::Binary(binary)) => &binary.bytes,
        _ => panic!("no payload: {reply}"),
    }
}

fn client(mechanism: ScramMechanism, user: &str, password: &str) -> ScramClient {
    ScramClient::new(mechanism, user, password, "fyko+d2lbbFgONRv9qkxdawL").expect("a client")
}

fn start(client: &ScramClient) -> Document {
    doc! {
        "saslStart": 1, "mechanism": client.mechanism().name(), "payload": binary(client.first()),
        "options": { "skipEmptyExchange": true },
    }
}

fn go_on(payload: Vec<u8>) -> Document {
    doc! { "saslContinue": 1, "conversationId": 1, "payload": binary(payload) }
}

/// Logs in; gives the last reply.
async fn log_in(wire: &mut Wire, db: &str, user: &str, password: &str) -> Document {
    wire.log_in(db, user, password).await
}

/// A connection that `root` is logged in on.
async fn root(lab: &Lab) -> Wire {
    let mut wire = lab.connect();
    assert_eq!(log_in(&mut wire, "admin", "root", "pencil").await.get_bool("done").ok(), Some(true));
    wire
}

async fn ok(wire: &mut Wire, db: &str, command: Document) -> Document {
    let reply = wire.run(db, command.clone()).await;
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command}: {reply}");
    reply
}

async fn refused(wire: &mut Wire, db: &str, command: Document, code: i32, text: &str) {
    let reply = wire.run(db, command.clone()).await;
    let got = (reply.get_i32("code").unwrap_or(0), reply.get_str("errmsg").unwrap_or_default());
    assert_eq!(got, (code, text), "{command}");
}

/// Makes a user and gives a connection that it is logged in on.
async fn user(lab: &Lab, db: &str, name: &str, roles: Bson) -> Wire {
    let mut wire = root(lab).await;
    ok(&mut wire, db, doc! { "createUser": name, "pwd": "pwd", "roles": roles }).await;
    let mut wire = lab.connect();
    assert_eq!(log_in(&mut wire, db, name, "pwd").await.get_bool("done").ok(), Some(true));
    wire
}

#[tokio::test(start_paused = true)]
async fn both_mechanisms_log_in_in_all_their_forms() {
    let lab = lab();
    for mechanism in [SHA_1, SHA_256] {
        for (skip, as_text) in [(true, false), (false, false), (true, true)] {
            let (mut wire, mut client) = (lab.connect(), client(mechanism, "root", "pencil"));
            let form = |bytes: Vec<u8>| match as_text {
                true => Bson::String(base64(&bytes)),
                false => Bson::Binary(binary(bytes)),
            };
            let payload = |reply: &Document| match reply.get("payload") {
                Some(Bson::String(text)) if as_text => from_base64(text),
                Some(Bson::Binary(binary)) if !as_text => binary.bytes.clone(),
                other => panic!("{other:?}"),
            };
            let mut begin = start(&client);
            begin.insert("payload", form(client.first()));
            begin.insert("options", doc! { "skipEmptyExchange": skip });
            let challenge = ok(&mut wire, "admin", begin).await;
            let names: Vec<_> = challenge.keys().take(4).map(String::as_str).collect();
            assert_eq!(names, ["conversationId", "done", "payload", "ok"]);
            let proof = client.prove(&payload(&challenge), &KeyCache::default()).expect("a challenge");
            let mut last = go_on(Vec::new());
            last.insert("payload", form(proof));
            let mut reply = ok(&mut wire, "admin", last).await;
            client.verify(&payload(&reply)).expect("the server knows the password");
            if !skip {
                assert_eq!(reply.get_bool("done").ok(), Some(false));
                // Before the empty message nobody is logged in.
                let text = "command find requires authentication";
                refused(&mut wire, "test", doc! { "find": "c" }, 13, text).await;
                reply = ok(&mut wire, "admin", go_on(Vec::new())).await;
            }
            assert_eq!(reply.get_bool("done").ok(), Some(true));
            ok(&mut wire, "test", doc! { "find": "c" }).await;
            let status = ok(&mut wire, "admin", doc! { "connectionStatus": 1 }).await;
            let info = status.get_document("authInfo").expect("authInfo");
            assert_eq!(
                info.get_array("authenticatedUsers").ok(),
                Some(&vec![bson!({ "user": "root", "db": "admin" })])
            );
            assert_eq!(
                info.get_array("authenticatedUserRoles").ok(),
                Some(&vec![bson!({ "role": "root", "db": "admin" })])
            );
            ok(&mut wire, "admin", doc! { "logout": 1 }).await;
            refused(&mut wire, "test", doc! { "find": "c" }, 13, "command find requires authentication").await;
        }
    }
    lab.finish().await;
}

fn base64(bytes: &[u8]) -> String {
    bson::Bson::from(binary(bytes.to_vec())).into_canonical_extjson()["$binary"]["base64"]
        .as_str()
        .expect("base64")
        .to_owned()
}

fn from_base64(text: &str) -> Vec<u8> {
    let json = serde_json::json!({ "$binary": { "base64": text, "subType": "00" } });
    match Bson::try_from(json) {
        Ok(Bson::Binary(binary)) => binary.bytes,
        other => panic!("{other:?}"),
    }
}

/// Report R59: the first conversation of some drivers is in `OP_QUERY` throughout.
#[tokio::test(start_paused = true)]
async fn old_drivers_log_in_by_op_query() {
    for profile in [&V4_4, &V7_0, &V8_0] {
        let lab = Lab::with_auth(profile);
        let (mut wire, mut client) = (lab.connect(), client(SHA_1, "root", "pencil"));
        let proof = query(&mut wire, start(&client)).await;
        let proof = client.prove(bytes(&proof), &KeyCache::default()).expect("a challenge");
        let reply = query(&mut wire, go_on(proof)).await;
        assert_eq!(reply.get_bool("done").ok(), Some(true));
        ok(&mut wire, "test", doc! { "find": "c" }).await;
    }
}

async fn query(wire: &mut Wire, command: Document) -> Document {
    wire.write(&OpQuery::encode_command("admin", &command.to_vec().expect("encodes"), 1)).await;
    let frame = wire.frame().await.expect("a reply");
    let reply = OpReply::parse(&frame).expect("an OP_REPLY");
    Document::from_reader(&reply.document[..]).expect("BSON")
}

#[tokio::test(start_paused = true)]
async fn nobody_may_do_almost_nothing() {
    let lab = lab();
    let mut wire = lab.connect();
    for command in
        ["ping", "hello", "isMaster", "buildInfo", "connectionStatus", "whatsmyuri", "logout", "listCommands"]
    {
        ok(&mut wire, "admin", doc! { command: 1 }).await;
    }
    for command in ["insert", "find", "listDatabases", "serverStatus", "createUser", "usersInfo", "killOp", "shutdown"]
    {
        let (code, text) = match command {
            "shutdown" => (59, "no such command: 'shutdown'".to_owned()),
            _ => (13, format!("command {command} requires authentication")),
        };
        refused(&mut wire, "admin", doc! { command: 1 }, code, &text).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_told_as_little_as_possible() {
    const FAILED: &str = "Authentication failed.";
    let lab = lab();
    let mut wire = lab.connect();
    for (db, user, password) in [("admin", "root", "pen"), ("admin", "nobody", "pencil"), ("test", "root", "pencil")] {
        let reply = log_in(&mut wire, db, user, password).await;
        assert_eq!((reply.get_i32("code").ok(), reply.get_str("errmsg").ok()), (Some(18), Some(FAILED)), "{user}@{db}");
    }
    let payload = |text: &str| Bson::Binary(binary(text.into()));
    for first in ["", "n,,", "p=x,,n=root,r=x", "n,,n=root,r=", "n,a=you,n=root,r=x"] {
        let start = doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload(first) };
        refused(&mut wire, "admin", start, 18, FAILED).await;
    }
    let unknown = "Received authentication for mechanism PLAIN which is unknown or not enabled";
    refused(&mut wire, "admin", doc! { "saslStart": 1, "mechanism": "PLAIN", "payload": payload("") }, 334, unknown)
        .await;
    for (command, code, text) in [
        (doc! { "saslStart": 1 }, 4, "Missing expected field \"mechanism\""),
        (doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-1" }, 4, "Missing expected field \"payload\""),
        (doc! { "saslContinue": 1 }, 4, "Missing expected field \"conversationId\""),
        (doc! { "saslContinue": 1, "conversationId": 1 }, 4, "Missing expected field \"payload\""),
        (doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-1", "payload": "~" }, 2, "the payload is not base64"),
    ] {
        refused(&mut wire, "admin", command, code, text).await;
    }
}

#[tokio::test(start_paused = true)]
async fn steps_out_of_order_or_repeated_are_refused() {
    const NONE: &str = "No SASL session state found";
    let lab = lab();
    let mut wire = lab.connect();
    refused(&mut wire, "admin", go_on(Vec::new()), 17, NONE).await;
    let cache = KeyCache::default();
    let begin = async |wire: &mut Wire| {
        let mut client = client(SHA_256, "root", "pencil");
        let challenge = ok(wire, "admin", start(&client)).await;
        client.prove(bytes(&challenge), &cache).expect("a challenge")
    };
    let proof = begin(&mut wire).await;
    let text = "Attempt to switch database target during SASL authentication.";
    refused(&mut wire, "test", go_on(proof.clone()), 17, text).await;
    refused(&mut wire, "admin", go_on(proof), 17, NONE).await;
    let proof = begin(&mut wire).await;
    let other = doc! { "saslContinue": 1, "conversationId": 2, "payload": binary(proof) };
    refused(&mut wire, "admin", other, 17, "sasl: Mismatched conversation id").await;
    // A proof is good once, on its connection, in its conversation.
    let proof = begin(&mut wire).await;
    ok(&mut wire, "admin", go_on(proof.clone())).await;
    refused(&mut wire, "admin", go_on(proof.clone()), 17, NONE).await;
    let mut another = lab.connect();
    refused(&mut another, "admin", go_on(proof.clone()), 17, NONE).await;
    begin(&mut another).await;
    refused(&mut another, "admin", go_on(proof.clone()), 18, "Authentication failed.").await;
    refused(&mut another, "admin", go_on(proof), 17, NONE).await;
    // A new start ends the conversation that was under way.
    let old = begin(&mut another).await;
    begin(&mut another).await;
    refused(&mut another, "admin", go_on(old), 18, "Authentication failed.").await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_tells_mechanisms_and_takes_the_first_message() {
    let lab = lab();
    let mut admin = root(&lab).await;
    let only = doc! { "createUser": "old", "pwd": "p", "roles": [], "mechanisms": ["SCRAM-SHA-1"] };
    ok(&mut admin, "test", only).await;
    let hello = |name: &str| doc! { "hello": 1, "saslSupportedMechs": name };
    for (name, expected) in [
        ("admin.root", Some(vec!["SCRAM-SHA-1", "SCRAM-SHA-256"])),
        ("test.old", Some(vec!["SCRAM-SHA-1"])),
        ("test.nobody", None),
    ] {
        let reply = ok(&mut lab.connect(), "admin", hello(name)).await;
        let found = reply.get_array("saslSupportedMechs").ok();
        let found = found.map(|list| list.iter().filter_map(Bson::as_str).collect::<Vec<_>>());
        assert_eq!(found, expected, "{name}");
    }
    let text = "username must contain a '.' separated database.user pair";
    refused(&mut lab.connect(), "admin", hello("root"), 2, text).await;
    // What is wrong with a speculation is no error.
    for (user, mechanism, works) in
        [("root", SHA_256, true), ("root", SHA_1, true), ("old", SHA_256, false), ("nobody", SHA_1, false)]
    {
        let (mut wire, mut client) = (lab.connect(), client(mechanism, user, "pencil"));
        let mut speculation = start(&client);
        speculation.insert("db", "admin");
        let reply = ok(&mut wire, "admin", doc! { "isMaster": 1, "speculativeAuthenticate": speculation }).await;
        let challenge = reply.get_document("speculativeAuthenticate").ok();
        assert_eq!(challenge.is_some(), works, "{user}");
        if let Some(challenge) = challenge {
            let proof = client.prove(bytes(challenge), &KeyCache::default()).expect("a challenge");
            assert_eq!(ok(&mut wire, "admin", go_on(proof)).await.get_bool("done").ok(), Some(true));
            ok(&mut wire, "test", doc! { "find": "c" }).await;
        }
    }
}

/// How Compass and other tools begin: compression is agreed on in the handshake that logs in.
#[tokio::test(start_paused = true)]
async fn log_ins_are_counted_by_mechanism() {
    for profile in [&V4_4, &V7_0] {
        let lab = Lab::with_auth(profile);
        let mut wire = lab.connect();
        // One that comes with the handshake and succeeds, one that does not go on, one that fails, one after the handshake.
        for (mechanism, goes_on) in [(SHA_256, true), (SHA_1, false)] {
            let mut client = client(mechanism, "root", "pencil");
            let mut first = start(&client);
            first.insert("db", "admin");
            let hello = doc! { "isMaster": 1, "saslSupportedMechs": "admin.root", "speculativeAuthenticate": first };
            let reply = ok(&mut wire, "admin", hello).await;
            let challenge = bytes(reply.get_document("speculativeAuthenticate").expect("a challenge")).to_vec();
            if goes_on {
                let proof = client.prove(&challenge, &KeyCache::default()).expect("a proof");
                ok(&mut wire, "admin", go_on(proof)).await;
            }
        }
        assert!(log_in(&mut lab.connect(), "admin", "root", "eraser").await.contains_key("code"));
        let mut root = root(&lab).await;
        refused(
            &mut lab.connect(),
            "admin",
            doc! { "saslStart": 1, "mechanism": "PLAIN", "payload": binary(vec![]) },
            profile.unknown_mechanism_code,
            "Received authentication for mechanism PLAIN which is unknown or not enabled",
        )
        .await;
        let status = ok(&mut root, "admin", doc! { "serverStatus": 1 }).await;
        let security =
            status.get_document("security").expect("a section").get_document("authentication").expect("counters");
        let of = |received: i64, successful: i64| doc! { "received": received, "successful": successful };
        let mechanism = |speculative: Document, all: Document| {
            if profile.name == "4.4" {
                doc! { "speculativeAuthenticate": speculative, "authenticate": all }
            } else {
                doc! { "speculativeAuthenticate": speculative, "clusterAuthenticate": of(0, 0), "authenticate": all }
            }
        };
        let mechanisms = doc! {
            "MONGODB-X509": mechanism(of(0, 0), of(0, 0)),
            "SCRAM-SHA-1": mechanism(of(1, 0), of(1, 0)),
            "SCRAM-SHA-256": mechanism(of(1, 1), of(3, 2)),
        };
        assert_eq!(security.get_document("mechanisms").ok(), Some(&mechanisms));
        let asked = security.get_i64("saslSupportedMechsReceived").ok();
        assert_eq!(asked, (profile.name != "4.4").then_some(2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_in_goes_on_over_a_compressed_connection() {
    for compressor in [Compressor::Snappy, Compressor::Zlib { level: -1 }, Compressor::Zstd] {
        let lab = lab();
        let (mut wire, mut client) = (lab.connect(), client(SHA_256, "root", "pencil"));
        let mut speculation = start(&client);
        speculation.insert("db", "admin");
        let names = ["snappy", "zlib", "zstd"];
        let hello = doc! {
            "hello": 1, "compression": names.to_vec(), "speculativeAuthenticate": speculation,
            "saslSupportedMechs": "admin.root",
        };
        let reply = ok(&mut wire, "admin", hello).await;
        assert_eq!(reply.get_array("compression").map(Vec::len).ok(), Some(3));
        let challenge = reply.get_document("speculativeAuthenticate").expect("a challenge");
        let proof = client.prove(bytes(challenge), &KeyCache::default()).expect("a challenge");
        for (db, mut command) in [("admin", go_on(proof)), ("test", doc! { "find": "c" })] {
            command.insert("$db", db);
            let body = command.to_vec().expect("encodes");
            let message = OpMsgEncoder::new(MessageFlags(0), body.len()).body(&body).finish(9, 0, false);
            wire.write(&compression::compress(&message, compressor)).await;
            let reply = wire.reply().await.expect("a reply");
            assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command}: {reply}");
        }
    }
}

/// What a user with one role in `test` (or `admin`) may do: for each role, the commands that are allowed.
#[tokio::test(start_paused = true)]
async fn each_role_allows_what_it_should() {
    const READ: &[&str] = &[
        "find",
        "count",
        "distinct",
        "aggregate",
        "listCollections",
        "listIndexes",
        "dbStats",
        "collStats",
        "explain",
    ];
    const WRITE: &[&str] = &[
        "insert",
        "update",
        "upsert",
        "delete",
        "findAndModify",
        "create",
        "createIndexes",
        "dropIndexes",
        "out",
        "merge",
        "rename",
        "drop",
    ];
    const ADMINISTER: &[&str] = &[
        "listCollections",
        "listIndexes",
        "dbStats",
        "collStats",
        "create",
        "createIndexes",
        "dropIndexes",
        "collMod",
        "validate",
        "profile",
        "indexStats",
        "rename",
        "drop",
        "dropDatabase",
    ];
    const USERS: &[&str] = &["usersInfo", "createUser", "updateUser", "dropUser"];
    const MONITOR: &[&str] = &[
        "serverStatus",
        "currentOp",
        "allUsers",
        "getParameter",
        "getCmdLineOpts",
        "getLog",
        "hostInfo",
        "replSetGetStatus",
        "replSetGetConfig",
        "dbStats",
        "collStats",
        "indexStats",
    ];
    const STEER: &[&str] = &["setParameter", "killAllSessions", "otherDatabase"];
    let everything: Vec<&str> = [READ, WRITE, ADMINISTER, USERS, MONITOR, STEER].concat();
    let table: [(&str, &str, Vec<&str>); 11] = [
        ("read", "test", READ.to_vec()),
        ("readWrite", "test", [READ, WRITE].concat()),
        ("dbAdmin", "test", ADMINISTER.to_vec()),
        ("userAdmin", "test", USERS.to_vec()),
        ("dbOwner", "test", [READ, WRITE, ADMINISTER, USERS].concat()),
        ("readAnyDatabase", "admin", [READ, &["otherDatabase"]].concat()),
        ("readWriteAnyDatabase", "admin", [READ, WRITE, &["otherDatabase"]].concat()),
        ("dbAdminAnyDatabase", "admin", ADMINISTER.to_vec()),
        ("userAdminAnyDatabase", "admin", USERS.to_vec()),
        ("clusterMonitor", "admin", MONITOR.to_vec()),
        ("root", "admin", everything.clone()),
    ];
    for (role, db, allowed) in table {
        let lab = lab();
        let mut admin = root(&lab).await;
        for (db, collection) in [("test", "c"), ("test", "d"), ("other", "c")] {
            ok(&mut admin, db, doc! { "insert": collection, "documents": [{ "_id": 1, "a": 1 }] }).await;
        }
        ok(&mut admin, "test", doc! { "createUser": "kept", "pwd": "p", "roles": [] }).await;
        let mut wire = user(&lab, db, "somebody", bson!([role])).await;
        for (name, db, command) in classes() {
            let reply = wire.run(db, command.clone()).await;
            let refused = reply.get_i32("code").ok() == Some(13);
            assert_eq!(!refused, allowed.contains(&name), "{role} {name}: {reply}");
            if refused {
                let shown =
                    format!("not authorized on {db} to execute command {{ {}: ", command.keys().next().unwrap());
                assert!(reply.get_str("errmsg").unwrap().starts_with(&shown), "{reply}");
            } else {
                assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{role} {name}: {reply}");
            }
        }
    }
}

/// One command of each class, in an order in which all of them can succeed.
fn classes() -> Vec<(&'static str, &'static str, Document)> {
    let cursor = doc! {};
    let pipeline = |stage: Document| doc! { "aggregate": "c", "pipeline": [stage], "cursor": cursor.clone() };
    vec![
        ("find", "test", doc! { "find": "c" }),
        ("count", "test", doc! { "count": "c" }),
        ("distinct", "test", doc! { "distinct": "c", "key": "a" }),
        (
            "aggregate",
            "test",
            pipeline(doc! { "$lookup": { "from": "d", "localField": "a", "foreignField": "a", "as": "x" } }),
        ),
        ("explain", "test", doc! { "explain": { "find": "c" } }),
        ("listCollections", "test", doc! { "listCollections": 1 }),
        ("listIndexes", "test", doc! { "listIndexes": "c" }),
        ("dbStats", "test", doc! { "dbStats": 1 }),
        ("collStats", "test", doc! { "collStats": "c" }),
        ("indexStats", "test", pipeline(doc! { "$indexStats": {} })),
        ("insert", "test", doc! { "insert": "c", "documents": [{ "a": 2 }] }),
        ("update", "test", doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "x": 1 } } }] }),
        (
            "upsert",
            "test",
            doc! { "update": "c", "updates": [{ "q": { "b": 1 }, "u": { "$set": { "x": 1 } }, "upsert": true }] },
        ),
        ("delete", "test", doc! { "delete": "c", "deletes": [{ "q": { "b": 1 }, "limit": 1 }] }),
        ("findAndModify", "test", doc! { "findAndModify": "c", "update": { "$set": { "x": 2 } } }),
        ("out", "test", pipeline(doc! { "$out": "o" })),
        ("merge", "test", pipeline(doc! { "$merge": "m" })),
        ("create", "test", doc! { "create": "new" }),
        ("createIndexes", "test", doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] }),
        ("dropIndexes", "test", doc! { "dropIndexes": "c", "index": "*" }),
        ("collMod", "test", doc! { "collMod": "c" }),
        ("validate", "test", doc! { "validate": "c" }),
        ("profile", "test", doc! { "profile": 0 }),
        ("rename", "admin", doc! { "renameCollection": "test.d", "to": "test.e" }),
        ("drop", "test", doc! { "drop": "c" }),
        ("usersInfo", "test", doc! { "usersInfo": 1 }),
        ("createUser", "test", doc! { "createUser": "new", "pwd": "p", "roles": [] }),
        ("updateUser", "test", doc! { "updateUser": "kept", "pwd": "q" }),
        ("dropUser", "test", doc! { "dropUser": "kept" }),
        ("serverStatus", "admin", doc! { "serverStatus": 1 }),
        ("currentOp", "admin", doc! { "currentOp": 1 }),
        (
            "allUsers",
            "admin",
            doc! { "aggregate": 1, "pipeline": [{ "$currentOp": { "allUsers": true } }], "cursor": {} },
        ),
        ("getParameter", "admin", doc! { "getParameter": "*" }),
        ("getCmdLineOpts", "admin", doc! { "getCmdLineOpts": 1 }),
        ("getLog", "admin", doc! { "getLog": "global" }),
        ("hostInfo", "admin", doc! { "hostInfo": 1 }),
        ("replSetGetStatus", "admin", doc! { "replSetGetStatus": 1 }),
        ("replSetGetConfig", "admin", doc! { "replSetGetConfig": 1 }),
        ("setParameter", "admin", doc! { "setParameter": 1, "ttlMonitorEnabled": true }),
        ("killAllSessions", "admin", doc! { "killAllSessions": [] }),
        ("otherDatabase", "other", doc! { "find": "c" }),
        ("dropDatabase", "test", doc! { "dropDatabase": 1 }),
    ]
}

#[tokio::test(start_paused = true)]
async fn pipelines_are_looked_through() {
    let lab = lab();
    let mut wire = user(&lab, "test", "reader", bson!(["read"])).await;
    let secret = doc! { "$unionWith": { "coll": "system.profile", "pipeline": [] } };
    let inner = doc! { "$lookup": { "from": "c", "pipeline": [secret.clone()], "as": "x" } };
    for stage in [
        secret.clone(),
        inner.clone(),
        doc! { "$facet": { "x": [inner.clone()] } },
        doc! { "$unionWith": { "coll": "c", "pipeline": [inner] } },
        doc! { "$out": { "db": "other", "coll": "c" } },
        doc! { "$merge": { "into": { "db": "other", "coll": "c" } } },
    ] {
        for command in ["aggregate", "explain"] {
            let aggregate = doc! { "aggregate": "c", "pipeline": [stage.clone()], "cursor": {} };
            let command = match command {
                "explain" if stage.contains_key("$unionWith") => doc! { "explain": aggregate },
                _ => aggregate,
            };
            let reply = wire.run("test", command.clone()).await;
            assert_eq!(reply.get_i32("code").ok(), Some(13), "{command}: {reply}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn users_are_made_changed_listed_and_removed() {
    let lab = lab();
    let mut admin = root(&lab).await;
    let create = doc! {
        "createUser": "app", "pwd": "one", "roles": ["read", { "role": "readWrite", "db": "other" }],
        "customData": { "team": 1 },
    };
    ok(&mut admin, "test", create.clone()).await;
    refused(&mut admin, "test", create, 51003, "User \"app@test\" already exists").await;
    let info = ok(&mut admin, "test", doc! { "usersInfo": "app" }).await;
    let shown = info.get_array("users").unwrap()[0].as_document().unwrap();
    let names: Vec<_> = shown.keys().map(String::as_str).collect();
    assert_eq!(names, ["_id", "userId", "user", "db", "roles", "customData", "mechanisms"]);
    assert_eq!(shown.get_str("_id").ok(), Some("test.app"));
    let roles = bson!([{ "role": "read", "db": "test" }, { "role": "readWrite", "db": "other" }]);
    assert_eq!(shown.get("roles"), Some(&roles));
    assert!(!info.to_string().contains("Key"), "{info}");
    let mut wire = lab.connect();
    log_in(&mut wire, "test", "app", "one").await;
    let write = doc! { "insert": "c", "documents": [{}] };
    ok(&mut wire, "other", write.clone()).await;
    // Everybody may see itself, and its roles as they are now.
    ok(&mut wire, "test", doc! { "usersInfo": "app" }).await;
    let text = "not authorized on test to execute command { usersInfo: 1, $db: \"test\" }";
    refused(&mut wire, "test", doc! { "usersInfo": 1 }, 13, text).await;
    ok(&mut admin, "test", doc! { "updateUser": "app", "pwd": "two", "roles": ["read"] }).await;
    assert_eq!(wire.run("other", write).await.get_i32("code").ok(), Some(13));
    ok(&mut wire, "test", doc! { "find": "c" }).await;
    assert_eq!(log_in(&mut lab.connect(), "test", "app", "one").await.get_i32("code").ok(), Some(18));
    assert_eq!(log_in(&mut lab.connect(), "test", "app", "two").await.get_bool("done").ok(), Some(true));
    ok(&mut admin, "test", doc! { "dropUser": "app" }).await;
    refused(&mut wire, "test", doc! { "find": "c" }, 13, "command find requires authentication").await;
    // Another user of the same name is another one.
    ok(&mut admin, "test", doc! { "createUser": "app", "pwd": "two", "roles": ["read"] }).await;
    refused(&mut wire, "test", doc! { "find": "c" }, 13, "command find requires authentication").await;
    for (command, code, text) in [
        (doc! { "dropUser": "no" }, 11, "User 'no@test' not found"),
        (doc! { "updateUser": "no", "pwd": "x" }, 11, "User no@test not found"),
        (doc! { "updateUser": "app" }, 2, "Must specify at least one field to update in updateUser"),
        (doc! { "createUser": "x", "pwd": "x" }, 2, "\"createUser\" command requires a \"roles\" array"),
        (doc! { "createUser": "x", "pwd": "", "roles": [] }, 2, "User passwords must not be empty"),
        (doc! { "createUser": "x", "pwd": "x", "roles": ["root"] }, 31, "Could not find role: root@test"),
        (
            doc! { "createUser": "x", "pwd": "x", "roles": [], "mechanisms": ["PLAIN"] },
            2,
            "Unknown auth mechanism 'PLAIN'",
        ),
        (
            doc! { "createUser": "x", "pwd": "x", "roles": [], "mechanisms": [] },
            2,
            "mechanisms field must not be empty",
        ),
        (
            doc! { "createUser": "x", "pwd": "x", "roles": [], "digestPassword": false },
            2,
            "Use of SCRAM-SHA-256 requires undigested passwords",
        ),
        (
            doc! { "createUser": "x", "pwd": "x", "roles": [], "color": 1 },
            40415,
            "BSON field 'createUser.color' is an unknown field.",
        ),
    ] {
        refused(&mut admin, "test", command, code, text).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_administrator_hands_out_only_roles_of_its_database() {
    let lab = lab();
    let mut wire = user(&lab, "test", "chief", bson!(["userAdmin"])).await;
    ok(&mut wire, "test", doc! { "createUser": "a", "pwd": "p", "roles": ["readWrite"] }).await;
    for roles in [bson!([{ "role": "root", "db": "admin" }]), bson!([{ "role": "read", "db": "other" }])] {
        for command in [
            doc! { "createUser": "b", "pwd": "hidden", "roles": roles.clone() },
            doc! { "updateUser": "a", "roles": roles },
        ] {
            let reply = wire.run("test", command).await;
            assert_eq!(reply.get_i32("code").ok(), Some(13), "{reply}");
            assert!(!reply.get_str("errmsg").unwrap().contains("hidden"), "{reply}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_are_not_shown_while_they_are_under_way() {
    let lab = lab();
    let mut admin = root(&lab).await;
    let others = [root(&lab).await, root(&lab).await];
    let blocked = ["createUser", "updateUser", "saslStart", "saslContinue", "hello"];
    let data = doc! { "failCommands": blocked.to_vec(), "blockConnection": true, "blockTimeMS": 600_000 };
    ok(&mut admin, "admin", doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data }).await;
    let mut busy = Vec::new();
    for command in [
        doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-1", "payload": binary(b"secret".to_vec()) },
        doc! { "saslContinue": 1, "conversationId": 1, "payload": "c2VjcmV0" },
        doc! { "hello": 1, "speculativeAuthenticate": { "saslStart": 1, "payload": binary(b"secret".to_vec()) } },
    ] {
        let mut wire = lab.connect();
        wire.send("admin", command, &[]).await;
        busy.push(wire);
    }
    let commands =
        [doc! { "createUser": "x", "pwd": "secret", "roles": [] }, doc! { "updateUser": "x", "pwd": "secret" }];
    for (mut wire, command) in others.into_iter().zip(commands) {
        wire.send("test", command, &[]).await;
        busy.push(wire);
    }
    // All of them are held up, once they have been read.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    let pipeline = bson!([{ "$currentOp": { "allUsers": true } }]);
    let reply = ok(&mut admin, "admin", doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {} }).await;
    let shown = format!("{reply:?}");
    assert!(shown.contains("xxx") && shown.contains("createUser") && shown.contains("effectiveUsers"), "{shown}");
    for secret in ["secret", "c2VjcmV0", "115, 101, 99"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn before_a_log_in_messages_are_small() {
    let lab = lab();
    let large = |size: usize| doc! { "ping": 1, "pad": "x".repeat(size), "$db": "admin" }.to_vec().expect("encodes");
    let message = |body: &[u8]| OpMsgEncoder::new(MessageFlags(0), body.len()).body(body).finish(1, 0, false);
    for (bytes, answered) in [
        (message(&large(60_000)), true),
        (message(&large(70_000)), false),
        (compression::compress(&message(&large(60_000)), Compressor::Zlib { level: -1 }), true),
        (compression::compress(&message(&large(70_000)), Compressor::Zlib { level: -1 }), false),
        (compression::compress(&message(&large(8_000_000)), Compressor::Zstd), false),
    ] {
        let mut wire = lab.connect();
        wire.write(&bytes).await;
        assert_eq!(wire.frame().await.is_some(), answered, "{} bytes", bytes.len());
        let mut wire = root(&lab).await;
        wire.write(&bytes).await;
        assert!(wire.frame().await.is_some(), "{} bytes", bytes.len());
    }
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_somebody_else_is_out_of_reach() {
    let lab = lab();
    let mut admin = root(&lab).await;
    let documents: Vec<_> = (0..3).map(|id| doc! { "_id": id }).collect();
    ok(&mut admin, "test", doc! { "insert": "c", "documents": documents }).await;
    let (mut one, mut two) =
        (user(&lab, "test", "one", bson!(["read"])).await, user(&lab, "test", "two", bson!([])).await);
    // Cursors.
    let lsid = |byte: u8| doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes: vec![byte; 16] } };
    let reply = ok(&mut one, "test", doc! { "find": "c", "batchSize": 1, "lsid": lsid(1) }).await;
    let cursor = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    let text = format!("cursor id {cursor} was not created by the authenticated user");
    for wire in [&mut two, &mut admin] {
        refused(wire, "test", doc! { "getMore": cursor, "collection": "c" }, 13, &text).await;
    }
    let kill = doc! { "killCursors": "c", "cursors": [cursor] };
    assert_eq!(two.run("test", kill.clone()).await.get_i32("code").ok(), Some(13));
    ok(&mut one, "test", doc! { "getMore": cursor, "collection": "c", "batchSize": 1, "lsid": lsid(1) }).await;
    ok(&mut admin, "test", kill).await;
    // Sessions: the same id of two users is two sessions.
    let sessions = doc! { "aggregate": 1, "pipeline": [{ "$listLocalSessions": {} }], "cursor": {} };
    ok(&mut two, "test", doc! { "startSession": 1, "lsid": lsid(1) }).await;
    let own = ok(&mut one, "admin", sessions.clone()).await;
    let own = own.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
    assert_eq!(own.len(), 1, "{own:?}");
    let uid = own[0].as_document().unwrap().get_document("_id").unwrap().get("uid").cloned().unwrap();
    let mut stolen = lsid(1);
    stolen.insert("uid", uid);
    let text = "Unauthorized to set user digest in LogicalSessionId";
    refused(&mut two, "test", doc! { "startSession": 1, "lsid": stolen.clone() }, 13, text).await;
    refused(&mut two, "admin", doc! { "endSessions": [stolen.clone()] }, 13, text).await;
    assert_eq!(two.run("admin", doc! { "killSessions": [stolen.clone()] }).await.get_i32("code").ok(), Some(13));
    ok(&mut one, "admin", doc! { "killSessions": [stolen.clone()] }).await;
    ok(&mut admin, "admin", doc! { "killSessions": [stolen] }).await;
    // Operations.
    let data = doc! { "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 60_000 };
    ok(&mut admin, "admin", doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data }).await;
    one.send("test", doc! { "find": "c" }, &[]).await;
    let own_ops = doc! { "currentOp": 1, "$ownOps": true, "command.find": "c" };
    assert!(ok(&mut two, "admin", own_ops.clone()).await.get_array("inprog").unwrap().is_empty());
    let all = ok(&mut admin, "admin", doc! { "currentOp": 1, "command.find": "c" }).await;
    let op = all.get_array("inprog").unwrap()[0].as_document().unwrap().get_i32("opid").unwrap();
    refused(&mut two, "admin", doc! { "killOp": 1, "op": op }, 13, "Unauthorized").await;
    let mut again = lab.connect();
    log_in(&mut again, "test", "one", "pwd").await;
    assert_eq!(ok(&mut again, "admin", own_ops).await.get_array("inprog").unwrap().len(), 1);
    ok(&mut again, "admin", doc! { "killOp": 1, "op": op }).await;
    // Databases.
    let names = |reply: &Document| reply.get_array("databases").unwrap().len();
    let list = doc! { "listDatabases": 1, "nameOnly": true };
    assert_eq!(
        (names(&ok(&mut again, "admin", list.clone()).await), names(&ok(&mut two, "admin", list.clone()).await)),
        (1, 0)
    );
    let mut all = list;
    all.insert("authorizedDatabases", false);
    assert_eq!(again.run("admin", all).await.get_i32("code").ok(), Some(13));
}

fn settings(options: &str) -> ClientSettings {
    let uri = ConnectionString::parse(&format!("mongodb://{options}")).expect("a connection string");
    ClientSettings::from_connection_string(&uri).expect("settings")
}

#[tokio::test(start_paused = true)]
async fn the_driver_logs_in_and_says_when_it_cannot() {
    let lab = lab();
    let mut admin = root(&lab).await;
    let only = doc! { "createUser": "old", "pwd": "p", "roles": ["readWrite"], "mechanisms": ["SCRAM-SHA-1"] };
    ok(&mut admin, "test", only).await;
    let connect = |options: &str| {
        let connector = lab.connector(std::time::Duration::ZERO);
        Client::connect(settings(options), connector, (), 1).expect("a client")
    };
    for options in [
        "root:pencil@h",
        "root:pencil@h/?authMechanism=SCRAM-SHA-1",
        "root:pencil@h/test?authSource=admin&authMechanism=SCRAM-SHA-256&compressors=zlib",
        // The speculation by SHA-256 fails here, and the server's list says what works.
        "old:p@h/test",
    ] {
        let client = connect(options);
        let reply = client.database("test").run_command(doc! { "find": "c" }).await;
        assert!(reply.is_ok(), "{options}: {reply:?}");
        client.close().await;
    }
    for options in ["root:pen@h", "root:pencil@h/test", "nobody:x@h", "old:p@h/test?authMechanism=SCRAM-SHA-256"] {
        let client = connect(options);
        let error = client.database("test").run_command(doc! { "find": "c" }).await.expect_err(options);
        assert!(matches!(error.kind(), ErrorKind::Command(_)) && error.code() == Some(18), "{options}: {error}");
        assert_eq!(error.java_class(), "MongoSecurityException");
        assert!(error.to_string().contains("Authentication failed."), "{error}");
        client.close().await;
    }
    let error = connect("h").database("test").run_command(doc! { "find": "c" }).await.expect_err("nobody");
    assert_eq!(error.code(), Some(13));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is sent as a conversation, the server answers, stays up, and lets nobody in.
    #[test]
    fn no_payload_gets_anybody_in(
        messages in proptest::collection::vec(
            (0..3usize, prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Bson::Binary(binary(bytes))),
                "(n,,n=root,r=x|c=biws,r=x,p=|[ -~]{0,20})".prop_map(|text| Bson::Binary(binary(text.into_bytes()))),
                "[A-Za-z0-9+/=]{0,12}".prop_map(Bson::String),
                any::<i32>().prop_map(Bson::Int32),
            ]),
            1..6,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let lab = lab();
            let mut wire = lab.connect();
            for (kind, payload) in messages {
                let command = match kind {
                    0 => doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload },
                    1 => doc! { "saslContinue": 1, "conversationId": 1, "payload": payload },
                    _ => doc! { "hello": 1, "speculativeAuthenticate": { "saslStart": 1, "mechanism": "SCRAM-SHA-1", "payload": payload } },
                };
                wire.run("admin", command).await;
            }
            refused(&mut wire, "test", doc! { "find": "c" }, 13, "command find requires authentication").await;
            lab.finish().await;
        });
    }
}
