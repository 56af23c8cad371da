//! The binary as a user meets it: exit codes, what is printed where, and how it stops.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use backfire_model::scenario::BUILT_IN;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// How long anything may take: generous, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

fn backfire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backfire"));
    command.args(arguments);
    command
}

/// Runs to the end: exit code, stdout, stderr.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = backfire(arguments).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

/// A folder of its own for each test.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_rehearsal_as_predicted_exits_with_0() {
    let (code, out, err) = run(&["rehearse", "lost-reply", "--scale", "0.1"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("lost-reply, every time x 0.1\n\n time "), "{out}");
    assert!(out.ends_with("\nas predicted\n"), "{out}");
    assert!(err.contains("the application should end after"), "progress goes to stderr: {err}");
}

#[test]
fn quiet_means_no_progress() {
    let (code, _, err) = run(&["rehearse", "lost-reply", "--scale", "0.1", "--quiet"]);
    assert_eq!((code, err.as_str()), (0, ""));
}

#[test]
fn a_difference_exits_with_1() {
    let (code, out, _) = run(&["rehearse", "lost-reply", "--app", "true", "--format", "json"]);
    assert_eq!(code, 1);
    let value: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(value["differences"][0], serde_json::json!({ "name": "executions", "predicted": 1, "measured": 0 }));
}

#[test]
fn how_a_program_ended_is_told() {
    let app = |command: &str, more: &[&str]| {
        let arguments = ["rehearse", "lost-reply", "--format", "json", "--app", command];
        let (code, out, err) = run(&[&arguments[..], more].concat());
        let value: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{command}: {out}{err}"));
        (code, value["app"].clone(), value["timeline"].clone(), err)
    };
    let ended = |command: &str, end: &str, status: Option<i32>| serde_json::json!({ "command": command, "end": end, "status": status });
    for (command, more, expected) in [
        ("true", &[][..], ended("true", "exited", Some(0))),
        ("exit 3", &[], ended("exit 3", "exited", Some(3))),
        ("kill -9 $$", &[], ended("kill -9 $$", "signal", None)),
        ("sleep 1000", &["--app-timeout", "1"], ended("sleep 1000", "timed_out", None)),
    ] {
        let (code, app, timeline, err) = app(command, more);
        assert_eq!((code, app, timeline), (1, expected, Value::Array(Vec::new())), "{err}");
        assert!(err.contains("no write arrived from") && err.contains("does it use BACKFIRE_URI?"), "{err}");
    }
    // A run of backfire's own client has no program.
    let (_, out, _) = run(&["rehearse", "lost-reply", "--scale", "0.1", "--format", "json"]);
    assert!(!out.contains("\"app\""), "{out}");
}

#[test]
fn a_connection_string_of_production_loses_what_the_lab_server_has_not() {
    let folder = folder();
    let file = folder.path().join("mine.toml");
    let (_, text, _) = run(&["rehearse", "--print", "lost-reply"]);
    let uri = "mongodb://user:secret@a,b/?tls=true&replicaSet=rsX&retryWrite=false&socketTimeoutMS=30000";
    let lines: Vec<_> = text
        .lines()
        .map(|line| if line.starts_with("uri =") { format!("uri = \"{uri}\"") } else { line.to_owned() })
        .collect();
    let line = lines.iter().position(|line| line.starts_with("uri =")).expect("a uri") + 1;
    fs::write(&file, lines.join("\n")).expect("written");
    let file = file.to_str().expect("UTF-8");
    let (code, _, err) = run(&["rehearse", "--scenario-file", file, "--scale", "0.1", "--quiet"]);
    assert_eq!(code, 0, "{err}");
    for part in [
        &format!(
            "warning: {file}: line {line}: client.uri: the option \"retryWrite\" is not known and is ignored; did you mean retryWrites?"
        ),
        "client.uri: the user and the password are left out",
        "client.uri: tls is left out",
        "client.uri: replicaSet is rs0",
    ] {
        assert!(err.contains(part), "no '{part}' in {err}");
    }
    assert!(!err.contains("secret"), "{err}");
    // A program finds a connection string that it can use.
    let (_, _, err) = run(&["rehearse", "--scenario-file", file, "--quiet", "--app", "echo \"<$BACKFIRE_URI>\""]);
    let given = err.split('<').nth(1).and_then(|rest| rest.split('>').next()).expect("printed");
    assert!(given.starts_with("mongodb://127.0.0.1:") && given.contains("replicaSet=rs0"), "{given}");
    assert!(!given.contains("tls") && !given.contains('@'), "{given}");
}

#[test]
fn keys_that_do_nothing_are_refused_with_their_line() {
    let folder = folder();
    let file = folder.path().join("mine.toml");
    let (_, text, _) = run(&["rehearse", "--print", "store-inventory"]);
    fs::write(&file, text.replace("kind = \"engine\"", "kind = \"engine\"\ntimes = 3")).expect("written");
    let (code, out, err) = run(&["rehearse", "--scenario-file", file.to_str().expect("UTF-8")]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("mine.toml: line ") && err.contains("stall.times does nothing with kind = \"engine\""),
        "{err}"
    );
}

#[test]
fn lists_are_json_as_well() {
    for (arguments, key) in
        [(["rehearse", "--list", "--format", "json"], "name"), (["check", "--rules", "--format", "json"], "id")]
    {
        let (code, out, err) = run(&arguments);
        let value: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        let all = value.as_array().expect("a list");
        assert!(code == 0 && all.len() > 10 && all.iter().all(|row| row[key].is_string()), "{out}");
    }
}

#[test]
fn events_can_go_to_stdout_and_the_result_then_does_not() {
    let (code, out, err) = run(&["rehearse", "lost-reply", "--scale", "0.1", "--quiet", "--events", "-"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.lines().count() > 5 && out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{out}");
    assert!(!out.contains("backfire-control") && err.ends_with("as predicted\n"), "{out}{err}");
}

#[test]
fn an_interrupted_rehearsal_keeps_its_events() {
    let folder = folder();
    let file = folder.path().join("events.jsonl");
    let path = file.to_str().expect("UTF-8");
    let arguments = ["rehearse", "store-inventory", "--quiet", "--events", path];
    let mut child = backfire(&arguments).spawn().expect("it starts");
    let kept = || fs::read_to_string(&file).unwrap_or_default();
    until("a send", || kept().contains("\"event\":\"send\""));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("sent");
    assert_eq!(child.wait().expect("it ends").code(), Some(2));
    let kept = kept();
    assert!(kept.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{kept}");
}

#[test]
fn what_cannot_run_exits_with_2_and_says_why() {
    let folder = folder();
    let file = folder.path().join("mine.toml");
    let (_, text, _) = run(&["rehearse", "--print", "store-inventory"]);
    fs::write(&file, text.replace("interval_ms", "intervall_ms")).expect("written");
    let file = file.to_str().expect("UTF-8");
    let empty = folder.path().join("empty.pem");
    fs::write(&empty, "\n").expect("writable");
    let empty = empty.display().to_string();
    // A certificate, and a key of another one.
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let (one, other) = (self_signed(), self_signed());
    fs::write(&cert, one.cert.pem()).expect("writable");
    fs::write(&key, other.signing_key.serialize_pem()).expect("writable");
    let (cert, key) = (cert.to_str().expect("UTF-8"), key.to_str().expect("UTF-8"));
    let nowhere = folder.path().join("no/such/file").display().to_string();
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["rehearse", "retry-lap"],
            &["there is no scenario 'retry-lap'; did you mean 'retry-lab'?", "store-inventory"],
        ),
        (&["rehearse", "--scenario-file", file], &["mine.toml: line ", "intervall_ms", "interval_ms"]),
        (&["rehearse", "--scenario-file", &nowhere], &["cannot read", "no/such/file"]),
        (&["rehearse", "--events", &nowhere], &["cannot write", "no/such/file"]),
        (&["rehearse", "--scale", "0"], &["'0'", "must be from 0.001 to 1000"]),
        (
            &["serve", "--bind", "0.0.0.0", "--port", "0"],
            &["--bind 0.0.0.0 can be reached from other machines", "--auth", "--allow-remote"],
        ),
        (&["serve", "--auth"], &["--auth needs the password", "--password-file FILE", "BACKFIRE_PASSWORD"]),
        (&["serve", "--auth", "--password-file", &nowhere], &["--password-file", "no/such/file", "No such file"]),
        (&["serve", "--auth", "--password-file", &empty], &["empty.pem: there is no password in it"]),
        (&["serve", "--password-file", file], &["--auth"]),
        (&["serve", "--tls-cert", file], &["--tls-key"]),
        (&["serve", "--tls-cert", &nowhere, "--tls-key", file], &["--tls-cert", "no/such/file: No such file"]),
        (
            &["serve", "--tls-cert", file, "--tls-key", file],
            &["--tls-cert", "mine.toml: there is no certificate in it"],
        ),
        (&["serve", "--tls-cert", cert, "--tls-key", file], &["--tls-key", "mine.toml: there is no private key in it"]),
        (
            &["serve", "--tls-cert", cert, "--tls-key", key],
            &["--tls-key", "key.pem: it is not the key of the certificate"],
        ),
        (
            &["serve", "--tls-cert", cert, "--tls-key", key, "--tls-ca", &empty],
            &["--tls-ca", "empty.pem: there is no certificate in it"],
        ),
        (&["serve", "--profile", "3.6"], &["'3.6'", "4.2, 4.4, 6.0, 7.0, 8.0, 8.2"]),
        (&["serve", "--max-connections", "0"], &["'0'", "must be 1 or more"]),
        (&["serve", "--advertise", "lab:x"], &["'lab:x'"]),
        (&["rehearse", "--app", " "], &["--app", "there is no command in it"]),
        (&["rehearse", "--app", "no-such-command"], &["cannot run 'no-such-command'", "127", "no write arrived"]),
        (&["rehearse", "--print", "retry-lab", "--format", "json"], &["--print", "--format"]),
        (&["check", "--rules", "--format", "sarif"], &["--rules has the formats text and json"]),
        (&["serve", "--bind", "127.0.0.1", "--port", "1"], &["cannot listen on 127.0.0.1:1"]),
    ];
    for (arguments, parts) in cases {
        // Root may listen on port 1.
        if arguments.contains(&"1") && nix::unistd::Uid::effective().is_root() {
            continue;
        }
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        for part in *parts {
            assert!(err.contains(part), "{arguments:?} should say '{part}': {err}");
        }
    }
}

#[test]
fn what_is_printed_can_be_used() {
    let (code, list, _) = run(&["rehearse", "--list"]);
    assert_eq!((code, list.lines().count()), (0, BUILT_IN.len()));
    for line in list.lines() {
        let name = line.split_whitespace().next().expect("a name");
        let (code, text, _) = run(&["rehearse", "--print", name]);
        assert_eq!(code, 0);
        assert!(text.contains(&format!("name = \"{name}\"")), "{text}");
    }
}

#[test]
fn a_scenario_of_ones_own_runs_and_keeps_its_events() {
    let folder = folder();
    let (file, events) = (folder.path().join("mine.toml"), folder.path().join("events.jsonl"));
    let (_, text, _) = run(&["rehearse", "--print", "retry-writes-off"]);
    fs::write(&file, text.replace("name = \"retry-writes-off\"", "name = \"mine\"")).expect("written");
    let (file, events) = (file.to_str().expect("UTF-8"), events.to_str().expect("UTF-8"));
    let arguments = ["rehearse", "--scenario-file", file, "--scale", "0.01", "--events", events, "--format", "json"];
    let (code, out, err) = run(&arguments);
    assert_eq!(code, 0, "{out}{err}");
    let value: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&value["scenario"], &value["measured"]["copies"]), (&Value::from("mine"), &Value::from(4)));
    let kept = fs::read_to_string(events).expect("kept");
    let kept: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let sends = kept.iter().filter(|event| event["event"] == "send").count();
    assert_eq!(sends, 4, "{kept:?}");
    assert!(kept.iter().all(|event| event["at_ms"].is_u64() && event["side"].is_string()));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = backfire(&["rehearse", "--list"]).stdout(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    assert!(child.wait().expect("it ends").success());
}

fn self_signed() -> rcgen::CertifiedKey<rcgen::KeyPair> {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate")
}

#[test]
fn serve_says_what_its_clients_need() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let own = self_signed();
    fs::write(path("cert.pem"), own.cert.pem()).expect("writable");
    fs::write(path("key.pem"), own.signing_key.serialize_pem()).expect("writable");
    fs::write(path("password"), "pencil\n").expect("writable");
    let server = Server::start(&[
        "--auth",
        "--password-file",
        &path("password"),
        "--bind",
        "0.0.0.0",
        "--advertise",
        "127.0.0.1",
    ]);
    assert!(server.uri.ends_with("/?replicaSet=rs0&authSource=admin"), "{}", server.uri);
    assert!(ping(server.address()));
    let reply = ask(server.address(), bson::doc! { "find": "c", "$db": "test" }).expect("a reply");
    assert!(String::from_utf8_lossy(&reply).contains("command find requires authentication"));
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let server = Server::start(&["--standalone", "--tls-cert", &cert, "--tls-key", &key]);
    assert!(server.uri.ends_with("/?tls=true"), "{}", server.uri);
    // Who speaks without encryption is not answered.
    assert!(!ping(server.address()));
    assert_eq!(server.stop(Signal::SIGTERM), Some(0));
}

/// A running server; killed when the test is over.
struct Server {
    child: Child,
    uri: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut child =
            backfire(&["serve", "--port", "0"]).args(arguments).stdout(Stdio::piped()).spawn().expect("starts");
        let mut uri = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut uri).expect("a line");
        Self { child, uri: uri.trim_end().to_owned() }
    }

    fn address(&self) -> &str {
        self.uri.trim_start_matches("mongodb://").split('/').next().expect("an address")
    }

    /// Sends a signal and waits for the end.
    fn stop(mut self, signal: Signal) -> Option<i32> {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("sent");
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("waited") {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `{ping: 1}` on `admin`, and whether a reply came.
fn ping(address: &str) -> bool {
    ask(address, bson::doc! { "ping": 1, "$db": "admin" }).is_some()
}

/// The reply to a command, as bytes.
fn ask(address: &str, command: bson::Document) -> Option<Vec<u8>> {
    let mut stream = send(address, command)?;
    let mut header = [0; 16];
    stream.read_exact(&mut header).ok()?;
    let length = u32::from_le_bytes(header[..4].try_into().ok()?) as usize;
    let mut reply = vec![0; length - header.len()];
    stream.read_exact(&mut reply).ok()?;
    Some(reply)
}

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a command on a connection of its own.
fn send(address: &str, command: bson::Document) -> Option<TcpStream> {
    let body = command.to_vec().expect("encodes");
    let mut message = Vec::new();
    for field in [(16 + 5 + body.len()) as i32, 1, 0, 2013, 0] {
        message.extend(field.to_le_bytes());
    }
    message.push(0);
    message.extend(body);
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(&message).expect("written");
    Some(stream)
}

#[test]
fn serve_prints_its_connection_string_and_stops_when_told() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let server = Server::start(&[]);
        assert!(
            server.uri.starts_with("mongodb://127.0.0.1:") && server.uri.ends_with("/?replicaSet=rs0"),
            "{}",
            server.uri
        );
        assert!(ping(server.address()));
        assert_eq!(server.stop(signal), Some(0), "{signal}");
    }
    let server = Server::start(&["--standalone", "--profile", "8.0"]);
    assert!(server.uri.ends_with('/'), "{}", server.uri);
}

#[test]
fn a_second_signal_does_not_wait_for_what_cannot_be_interrupted() {
    let mut child =
        backfire(&["serve", "--port", "0"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut uri = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut uri).expect("a line");
    let mut server = Server { child, uri: uri.trim_end().to_owned() };
    let point = bson::doc! { "configureFailPoint": "stallInEngine", "mode": "alwaysOn", "$db": "admin" };
    ask(server.address(), point).expect("a reply");
    let insert = bson::doc! { "insert": "orders", "documents": [{ "a": 1 }], "$db": "test" };
    let mut writing = send(server.address(), insert).expect("connected");
    // In the list alone it may still be before its stall, where it does look for interrupts.
    until("the stall", || {
        let running = ask(server.address(), bson::doc! { "currentOp": 1, "$db": "admin" }).expect("a reply");
        running.windows(b"stallInEngine".len()).any(|window| window == b"stallInEngine")
    });
    let id = Pid::from_raw(server.child.id() as i32);
    kill(id, Signal::SIGINT).expect("sent");
    let mut said = String::new();
    BufReader::new(server.child.stderr.as_mut().expect("piped")).read_line(&mut said).expect("a line");
    assert!(said.starts_with("stopping: 1 operation does not look for interrupts (test.orders)"), "{said}");
    assert!(said.contains("Another signal ends it at once"), "{said}");
    let began = Instant::now();
    assert_eq!(server.stop(Signal::SIGINT), Some(0));
    assert!(began.elapsed() < Duration::from_secs(4), "it did not wait: {:?}", began.elapsed());
    assert!(writing.read_exact(&mut [0; 16]).is_err(), "the connection is closed without a reply");
}

#[test]
fn other_machines_are_told_where_the_server_is() {
    for (arguments, address, warns) in [
        (&["--bind", "0.0.0.0", "--allow-remote"][..], "127.0.0.1:", true),
        (&["--bind", "0.0.0.0", "--allow-remote", "--advertise", "lab.example.com"], "lab.example.com:", false),
        (&["--advertise", "lab.example.com:77"], "lab.example.com:77", false),
    ] {
        let mut child = backfire(&["serve", "--port", "0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut uri = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut uri).expect("a line");
        assert!(uri.starts_with(&format!("mongodb://{address}")), "{uri}");
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("sent");
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("read");
        assert!(child.wait().expect("it ends").success());
        assert_eq!(said.contains("--advertise HOST"), warns, "{said}");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let server = Server::start(&[]);
    let port = server.address().split(':').nth(1).expect("a port");
    let (code, out, err) = run(&["serve", "--port", port]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains(&format!("cannot listen on 127.0.0.1:{port}: ")), "{err}");
}

#[test]
fn a_program_is_given_what_it_needs_and_ended_with_all_it_started() {
    let folder = folder();
    let file = folder.path().join("seen");
    let script = format!("echo \"$BACKFIRE_URI $BACKFIRE_NAMESPACE\" > {}; sleep 1000 & sleep 1000", file.display());
    let (code, out, err) = run(&["rehearse", "--app", &script, "--app-timeout", "1", "--scale", "0.1"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("its time was over"), "{err}");
    let seen = fs::read_to_string(file).expect("the program ran");
    assert!(seen.contains("socketTimeoutMS=500") && seen.contains("appName=retry-lab"), "{seen}");
    assert!(seen.trim_end().ends_with("test.retry_lab"), "{seen}");
}

#[test]
fn a_run_becomes_a_report_at_once_or_later() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (page, events, kept) = (path("run.html"), path("run.jsonl"), path("run.json"));
    let scenario = ["rehearse", "lost-reply", "--scale", "0.1", "--format", "json"];
    let (code, json, err) = run(&[&scenario[..], &["--report", &page, "--events", &events]].concat());
    assert_eq!(code, 0, "{err}");
    fs::write(&kept, &json).expect("written");
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.contains("One write was sent twice and executed once.") && html.contains("As predicted"), "{html}");
    assert!(html.contains("socketTimeoutMS"), "the settings of the scenario");

    let (code, out, err) = run(&["report", &events, "--prediction", &kept, "--format", "json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (run_json, told): (Value, Value) =
        (serde_json::from_str(&json).expect("JSON"), serde_json::from_str(&out).expect("JSON"));
    for key in ["scenario", "scale", "predicted", "measured", "differences"] {
        assert_eq!(told[key], run_json[key], "{key}");
    }
    for (name, begins) in [
        ("a.svg", "<svg "),
        ("a.perfetto.json", "{\"displayTimeUnit"),
        ("a.otlp.json", "{\"resourceSpans"),
        ("a.htm", "<!doctype html>"),
    ] {
        let target = path(name);
        let (code, out, err) = run(&["report", &events, "-o", &target, "--name", "mine", "--tickets", "5"]);
        assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
        let text = fs::read_to_string(&target).expect("a report");
        assert!(text.starts_with(begins), "{name}: {}", &text[..text.len().min(100)]);
    }
    let input = fs::File::open(&events).expect("a stream");
    let output = backfire(&["report", "-", "--format", "svg"]).stdin(input).output().expect("it starts");
    assert!(output.status.success() && output.stdout.starts_with(b"<svg "));
}

#[test]
fn a_report_that_cannot_be_made_says_why() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (good, bad, empty, other) = (path("good.jsonl"), path("bad.jsonl"), path("empty.jsonl"), path("other.json"));
    let event = "{\"at_ms\":0,\"side\":\"client\",\"event\":\"execution_started\",\"execution\":1}\n";
    fs::write(&good, event).expect("written");
    fs::write(&bad, format!("{event}\n{event}{{\"at_ms\":0,\"side\":\"client\",\"event\":\"sleeps\"}}\n"))
        .expect("written");
    fs::write(&empty, "\n").expect("written");
    fs::write(&other, "{\"files\": 3}").expect("written");
    let nowhere = path("no/such/file.html");
    let cases: &[(&[&str], &str)] = &[
        (&["report", &bad], "bad.jsonl: line 4: column 44: unknown variant `sleeps`"),
        (&["report", &empty], "empty.jsonl: there is no event in it"),
        (&["report", &nowhere], "cannot read "),
        (&["report", &good, "-o", &nowhere], "cannot write "),
        (&["report", &good, "-o", "report.pdf"], "cannot tell the format of report.pdf"),
        (
            &["report", &good, "--prediction", &other],
            "other.json: none of the keys 'predicted', 'predictions' is in it",
        ),
        (&["report", &good, "--findings", &bad], "bad.jsonl: "),
        (&["rehearse", "--report", "x.pdf"], "cannot tell the format of x.pdf"),
        (&["rehearse", "--report", &nowhere], "cannot write "),
    ];
    for (arguments, says) in cases {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?} should say '{says}': {err}");
    }
    let (code, out, err) = run(&["report", &bad, "--skip-bad-lines", "--format", "json"]);
    assert_eq!(code, 0, "{err}");
    let told: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&told["events"], &told["skipped_lines"]), (&Value::from(2), &Value::from(1)));
    assert!(err.contains("1 line was no event; it is line 4"), "{err}");
}

#[test]
fn a_simulation_prints_what_was_asked_for() {
    let (code, out, _) = run(&["simulate"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("as predicted") && out.contains("copies 1 to 4 commit 2 documents each"), "{out}");
    let (code, out, _) =
        run(&["simulate", "--consumers", "3", "--records", "2", "--set", "stall-for=241s", "--format", "json"]);
    let value: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (code, &value["outcome"]["records"], &value["outcome"]["overlapping_copies_max"]),
        (0, &6.into(), &4.into())
    );
    assert_eq!((&value["complete"], &value["outlives_stall"]), (&true.into(), &false.into()));
    let (code, out, _) = run(&["simulate", "--trace"]);
    assert!(
        code == 0 && out.starts_with("# seconds") && out.contains(" >> insert ") && out.contains("D after E4"),
        "{out}"
    );
    let (code, out, _) = run(&["simulate", "--sweep", "socketTimeoutMS=5s,20s", "--sweep", "retryWrites=true,false"]);
    assert_eq!((code, out.lines().filter(|line| line.contains('█')).count()), (0, 4), "{out}");
    let (code, out, _) = run(&["simulate", "--dials"]);
    assert!(code == 0 && out.contains("max.poll.interval.ms"), "{out}");
}

#[test]
fn a_simulation_keeps_its_events_and_its_report() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (events, report) = (path("run.jsonl"), path("run.html"));
    let (code, _, err) =
        run(&["simulate", "--consumers", "2", "--set", "stall-for=100s", "--events", &events, "--report", &report]);
    assert_eq!(code, 0, "{err}");
    let events = fs::read_to_string(events).expect("kept");
    let parsed: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(parsed.iter().any(|event| event["record"] == "1-0" && event["consumer"] == 2), "{events}");
    assert!(fs::read_to_string(report).expect("written").contains("<html"));
}

#[test]
fn what_cannot_be_simulated_says_why() {
    for (arguments, expected) in [
        (["simulate", "--set", "sockettimeout=5s"], "did you mean 'socketTimeoutMS'?"),
        (["simulate", "--set", "tickets=2"], "a server has at least 5"),
        (["simulate", "--consumers", "0"], "load.consumers is 0; it must be 1 or more"),
        (["simulate", "--sweep", "consumers=5..1"], "the first must be the smaller"),
        (["simulate", "--threshold", "backoff=none"], "a threshold is searched over a time or a number"),
        (["simulate", "--set", "backoff=fixed(0)"], "it has no end"),
        (["simulate", "client-gone", "--quiet"], "use 'backfire rehearse'"),
    ] {
        let (code, _, err) = run(&arguments);
        assert!(code == 2 && err.contains(expected), "{arguments:?}: {err}");
    }
}

#[test]
fn a_listener_that_check_found_can_be_simulated() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/boot34-maven-java-single");
    let (code, scenario, err) = run(&["check", fixture, "--scenario"]);
    assert_eq!(code, 0, "{err}");
    let folder = folder();
    let file = folder.path().join("mine.toml");
    fs::write(&file, scenario).expect("written");
    let (code, out, err) = run(&["simulate", "--scenario-file", file.to_str().expect("UTF-8")]);
    assert!(code == 0 && out.contains("as predicted"), "{out}{err}");
}
