//! Replies recorded from a real mongod 4.4.0, replayed against the 4.4 profile.
//!
//! Everything must be equal, the order of fields included, but for what no two runs have in common: times, ids, hosts.

use std::collections::HashMap;
use std::time::Duration;

use backfire_tests::{Lab, Wire, shared};
use backfire_wire::{Frame, OpCode, OpMsg, OpReply, compression};
use bson::{Bson, Document};
use regex::Regex;

/// Fields whose value differs from run to run.
const MASKED: &[&str] = &[
    "$clusterTime",
    "operationTime",
    "opTime",
    "electionId",
    "topologyVersion",
    "host",
    "pid",
    "connectionId",
    "client",
    "desc",
    "opid",
    "currentOpTime",
    "microsecs_running",
    "secs_running",
    "localTime",
    "lastWrite",
    "ts",
    "t",
    "wall",
    "ui",
    "uuid",
    "you",
    "me",
    "hosts",
    "primary",
    "setVersion",
    "locks",
    "lockStats",
    "flowControlStats",
    "numYields",
    "waitingForLatch",
    "lastWriteDate",
    "lastWriteOpTime",
    "prevOpTime",
    "count",
    "timesEntered",
    "payload",
    "port",
    "gitVersion",
];

/// Commands whose replies describe a machine or a build.
const LEFT_OUT: &[&str] = &["serverStatus", "buildInfo", "hostInfo", "getCmdLineOpts", "replSetGetStatus"];

/// What is compared of such a reply all the same.
const SECTIONS: &[(&str, &str)] = &[("serverStatus", "security")];

/// Replies that differ, each with the number under which docs/differences.md says why: file, case, step.
const ALLOWED: &[(&str, &str, usize, u32)] = &[
    ("query.json", "out_and_merge", 8, 20),
    ("admin.json", "info", 15, 17),
    ("admin.json", "info", 16, 17),
    ("admin.json", "info", 17, 17),
    ("admin.json", "current_op_command", 0, 18),
    ("admin.json", "current_op_command", 1, 18),
    ("admin.json", "current_op_command", 2, 18),
    ("raw_frames.json", "compressed_nested", 0, 9),
    ("raw_frames.json", "old_insert", 0, 11),
];

fn mask(value: &Bson, texts: &[(Regex, &str)]) -> Bson {
    match value {
        Bson::Document(document) => Bson::Document(mask_document(document, texts)),
        Bson::Array(array) => Bson::Array(array.iter().map(|value| mask(value, texts)).collect()),
        Bson::ObjectId(id) if !id.to_hex().starts_with("01234567") => Bson::String("an ObjectId".into()),
        Bson::String(text) => Bson::String(
            texts.iter().fold(text.clone(), |text, (pattern, with)| pattern.replace_all(&text, *with).into_owned()),
        ),
        other => other.clone(),
    }
}

fn mask_document(document: &Document, texts: &[(Regex, &str)]) -> Document {
    document
        .iter()
        .map(|(name, value)| {
            let is_cursor_id = name == "id" && matches!(value, Bson::Int64(id) if *id != 0);
            let is_session_id = name == "id" && matches!(value, Bson::Binary(_));
            let masked = MASKED.contains(&name.as_str()) || is_cursor_id || is_session_id;
            (name.clone(), if masked { Bson::String("masked".into()) } else { mask(value, texts) })
        })
        .collect()
}

/// Equality that sees the order of fields and the types of numbers.
fn same(one: &Bson, other: &Bson) -> bool {
    match (one, other) {
        (Bson::Document(one), Bson::Document(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|((name, value), (other_name, other))| name == other_name && same(value, other))
        }
        (Bson::Array(one), Bson::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
        }
        _ => one == other,
    }
}

struct Case<'a> {
    lab: &'a Lab,
    /// The steps whose replies may differ.
    allowed: Vec<usize>,
    connections: HashMap<String, Wire>,
    started: HashMap<String, String>,
    texts: Vec<(Regex, &'static str)>,
    failures: Vec<String>,
    compared: usize,
}

impl Case<'_> {
    fn connection(&mut self, name: &str) -> &mut Wire {
        let lab = self.lab;
        self.connections.entry(name.to_owned()).or_insert_with(|| lab.connect())
    }

    async fn send(&mut self, step: &Document, command: &Document) {
        let db = step.get_str("db").expect("a step names its database");
        let sequences = step.get_document("sequences").map_or_else(
            |_| Vec::new(),
            |sequences| {
                let documents = |list: &Bson| {
                    list.as_array().into_iter().flatten().filter_map(Bson::as_document).cloned().collect::<Vec<_>>()
                };
                sequences.iter().map(|(name, list)| (name.clone(), documents(list))).collect()
            },
        );
        let name = step.get_str("conn").expect("a step names its connection").to_owned();
        self.connection(&name).send(db, command.clone(), &sequences).await;
    }

    async fn step(&mut self, index: usize, step: &Document) {
        let mut reply = None;
        let mut command_name = String::new();
        if let Ok(command) = step.get_document("run") {
            command_name = command.keys().next().cloned().unwrap_or_default();
            self.send(step, command).await;
            reply = Some(self.receive(step.get_str("conn").expect("named")).await);
        } else if let Ok(name) = step.get_str("start") {
            let command = step.get_document("cmd").expect("a start has a command");
            self.started.insert(name.to_owned(), step.get_str("conn").expect("named").to_owned());
            self.send(step, command).await;
            tokio::time::sleep(Duration::from_millis(150)).await;
        } else if let Ok(name) = step.get_str("join") {
            let connection = self.started[name].clone();
            reply = Some(self.receive(&connection).await);
        } else if let Ok(name) = step.get_str("close") {
            self.connections.remove(name);
            tokio::time::sleep(Duration::from_millis(100)).await;
        } else if let Ok(millis) = step.get_i32("sleep_ms") {
            tokio::time::sleep(Duration::from_millis(millis as u64)).await;
        }
        let (Ok(expected), Some(reply)) = (step.get_document("reply"), reply) else { return };
        // What a case drops first is what an earlier one left on the recorded server.
        let clears_up = index == 0 && command_name == "drop";
        let section = SECTIONS.iter().find(|(command, _)| *command == command_name).map(|(_, section)| *section);
        if clears_up || (section.is_none() && LEFT_OUT.contains(&command_name.as_str())) {
            return;
        }
        self.compared += 1;
        let part = |reply: &Document| match section {
            Some(section) => {
                Document::from_iter([(section.to_owned(), reply.get(section).cloned().unwrap_or(Bson::Null))])
            }
            None => reply.clone(),
        };
        let (expected, got) = (mask_document(&part(expected), &self.texts), mask_document(&part(&reply), &self.texts));
        let equal = same(&Bson::Document(expected.clone()), &Bson::Document(got.clone()));
        if self.allowed.contains(&index) {
            if equal {
                self.failures.push(format!("step {index} is equal and need not be allowed to differ any more"));
            }
        } else if !equal {
            self.failures.push(format!("step {index}: {step}\n    recorded {expected}\n    answered {got}"));
        }
    }

    async fn receive(&mut self, connection: &str) -> Document {
        let reply = self.connection(connection).reply().await;
        if reply.is_none() {
            self.connections.remove(connection);
        }
        reply.unwrap_or_else(|| bson::doc! { "$connectionClosed": true })
    }
}

/// Parts of texts that differ from run to run.
fn changing_texts() -> Vec<(Regex, &'static str)> {
    vec![
        (Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}").expect("valid"), "a UUID"),
        (Regex::new(r"Timestamp\(\d+, \d+\)").expect("valid"), "a Timestamp"),
        (Regex::new(r"new Date\(\d+\)").expect("valid"), "a Date"),
        // The recorded server's term; every election of the recording moved it.
        (Regex::new(r"a Timestamp, t: \d+").expect("valid"), "a Timestamp, t: a term"),
    ]
}

/// Plays every case of a file on a fresh server each. `only` picks cases by name.
async fn replay(file: &str) {
    let Some(folder) = shared::folder("golden") else { return };
    let text = std::fs::read_to_string(folder.join(file)).expect("the recording is readable");
    let json: serde_json::Value = serde_json::from_str(&text).expect("the recording is JSON");
    let Bson::Document(cases) = Bson::try_from(json).expect("the recording is extended JSON") else {
        panic!("not an object")
    };
    let texts = changing_texts();
    let mut report = Vec::new();
    let mut compared = 0;
    for (name, steps) in &cases {
        let lab = Lab::new();
        let (connections, started) = (HashMap::new(), HashMap::new());
        let allowed = ALLOWED.iter().filter(|(of, case, ..)| (*of, *case) == (file, name.as_str()));
        let mut case = Case {
            lab: &lab,
            allowed: allowed.map(|(_, _, step, _)| *step).collect(),
            connections,
            started,
            texts: texts.clone(),
            failures: Vec::new(),
            compared: 0,
        };
        for (index, step) in steps.as_array().expect("a case is a list").iter().enumerate() {
            case.step(index, step.as_document().expect("a step is an object")).await;
        }
        compared += case.compared;
        report.extend(case.failures.into_iter().map(|failure| format!("{name} {failure}")));
    }
    assert!(compared > 0, "{file} holds no step with a reply");
    println!("{file}: {} of {compared} replies equal", compared - report.len());
    assert!(report.is_empty(), "{} of {compared} replies differ:\n{}", report.len(), report.join("\n"));
}

/// A frame of the server as it is compared: what stands around the document, and the document.
fn decoded(frame: &Frame, texts: &[(Regex, &str)]) -> String {
    let (inner, compressed) = match frame.header.op_code {
        OpCode::Compressed => {
            let (inner, compressor) = compression::decompress(frame).expect("a server compresses rightly");
            (inner, format!("in {} ", compressor.name()))
        }
        _ => (frame.clone(), String::new()),
    };
    let to = frame.header.response_to;
    let document = |bytes: &[u8]| {
        let document = Document::from_reader(bytes).expect("a server writes valid BSON");
        mask_document(&document, texts)
    };
    match inner.header.op_code {
        OpCode::Msg => {
            let message = OpMsg::parse(&inner).expect("a server writes valid messages");
            format!("{compressed}OP_MSG to {to} flags {:?} {}", message.flags, document(&message.body))
        }
        _ => {
            let reply = OpReply::parse(&inner).expect("nothing else than OP_REPLY");
            format!("{compressed}OP_REPLY to {to} flags {:?} {}", reply.flags, document(&reply.document))
        }
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal")).collect()
}

/// What a server answers to these bytes, and whether it closes the connection.
async fn exchange(lab: &Lab, send: &[Vec<u8>], texts: &[(Regex, &str)]) -> (Vec<String>, bool) {
    let mut wire = lab.connect();
    for bytes in send {
        wire.write(bytes).await;
    }
    let mut frames = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_secs(1), wire.frame()).await {
            Ok(Some(frame)) => frames.push(decoded(&frame, texts)),
            Ok(None) => return (frames, true),
            Err(_) => return (frames, false),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn raw_frames() {
    const FILE: &str = "raw_frames.json";
    let Some(folder) = shared::folder("golden") else { return };
    let text = std::fs::read_to_string(folder.join(FILE)).expect("the recording is readable");
    let cases: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).expect("the recording is JSON");
    let texts = changing_texts();
    let mut report = Vec::new();
    for (name, case) in &cases {
        let frames = |field: &str| -> Vec<Vec<u8>> {
            let list = case[field].as_array().expect("a list of frames");
            list.iter().map(|frame| from_hex(frame.as_str().expect("hexadecimal"))).collect()
        };
        let recorded: Vec<_> = frames("receive")
            .into_iter()
            .map(|bytes| decoded(&Frame::from_whole(bytes.into()).expect("a whole frame"), &texts))
            .collect();
        let recorded = (recorded, case["closed"].as_bool().expect("a bool"));
        let answered = exchange(&Lab::new(), &frames("send"), &texts).await;
        let allowed = ALLOWED.iter().any(|(file, case, ..)| (*file, *case) == (FILE, name.as_str()));
        if (answered == recorded) == allowed {
            report.push(format!("{name}\n    recorded {recorded:?}\n    answered {answered:?}"));
        }
    }
    println!("{FILE}: {} of {} exchanges as they should be", cases.len() - report.len(), cases.len());
    assert!(report.is_empty(), "{} exchanges differ (or are equal now):\n{}", report.len(), report.join("\n"));
}

#[test]
fn every_allowed_difference_is_explained() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/differences.md")).expect("the page");
    for (file, case, step, number) in ALLOWED {
        let entry = format!("\n{number}. **");
        assert!(page.contains(&entry), "{file} {case} step {step}: docs/differences.md has no entry {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn write_path() {
    replay("write_path.json").await;
}

#[tokio::test(start_paused = true)]
async fn interrupts() {
    replay("interrupts.json").await;
}

#[tokio::test(start_paused = true)]
async fn tickets() {
    replay("tickets.json").await;
}

#[tokio::test(start_paused = true)]
async fn sessions_more() {
    replay("sessions_more.json").await;
}

#[tokio::test(start_paused = true)]
async fn crud() {
    replay("crud.json").await;
}

#[tokio::test(start_paused = true)]
async fn query() {
    replay("query.json").await;
}

#[tokio::test(start_paused = true)]
async fn admin() {
    replay("admin.json").await;
}
