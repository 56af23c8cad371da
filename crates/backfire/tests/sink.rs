//! `backfire sink` as a user meets it, with generated records and a lab server.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// How long anything may take: generous, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

fn sink(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backfire"));
    command.args(["sink", "--from", "orders", "--to", "store.orders"]).args(arguments);
    command
}

/// Runs to the end: exit code, stdout, stderr.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = sink(arguments).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

#[test]
fn one_command_tries_it_out() {
    let (code, out, err) = run(&["--set", "generated.records=700"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("700 records in ") && out.contains(": 700 written, 0 dead letters\n"), "{out}");
    assert!(err.contains("a lab server for this run: mongodb://127.0.0.1:"), "{err}");
    assert!(err.contains("700 generated records in topic orders"), "{err}");
}

#[test]
fn machines_get_json_and_quiet_is_quiet() {
    let (code, out, err) = run(&["--set", "generated.records=30", "--format", "json", "--quiet", "--records", "20"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let value: Value = serde_json::from_str(&out).expect("JSON");
    assert!(value["records"].as_u64().is_some_and(|records| (20..=30).contains(&records)), "{out}");
    assert_eq!((&value["deadLetters"], &value["handedToTwo"]), (&Value::from(0), &Value::from(0)));
}

#[test]
fn dead_letters_exit_with_1() {
    // No generated value has an `_id`.
    let (code, out, _) = run(&["--set", "generated.records=3", "--set", "write.id=value"]);
    assert_eq!(code, 1);
    assert!(out.contains(": 0 written, 3 dead letters\n"), "{out}");
}

#[test]
fn what_cannot_run_exits_with_2_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sink.toml");
    fs::write(&file, "[write]\nmood = \"insert\"\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    let cases: &[(&[&str], &str)] = &[
        (&["--config", file], "sink.toml: line 2: there is no option 'write.mood'; did you mean 'write.mode'?"),
        (&["--config", "no/such/file"], "cannot read no/such/file"),
        (&["--set", "write.id=none"], "needs an identity"),
        (&["--set", "retry.jitter=2"], "--set: 'retry.jitter' takes a number from 0 to 1, not '2'"),
        (&["--set", "generated.records=0"], "there is nothing to write"),
        (&["--uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300"], "127.0.0.1:1"),
        (&["--metrics", "203.0.113.1:1"], "cannot listen on 203.0.113.1:1"),
    ];
    for (arguments, part) in cases {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(part), "{arguments:?}: {err}");
    }
    if cfg!(not(feature = "kafka")) {
        let (code, _, err) = run(&["--brokers", "127.0.0.1:1"]);
        assert!(code == 2 && err.contains("--features kafka"), "{err}");
    }
}

#[test]
fn it_serves_metrics_and_a_signal_stops_it() {
    // More records than asked for, so that it would go on.
    let arguments =
        ["--set", "generated.records=50", "--records", "1000000", "--metrics", "127.0.0.1:0", "--format", "json"];
    let mut child = sink(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines().map_while(Result::ok);
    let address =
        lines.find_map(|line| Some(line.split_once("metrics at http://")?.1.strip_suffix("/metrics")?.to_owned()));
    let address = address.expect("it says where");
    let began = Instant::now();
    let text = loop {
        assert!(began.elapsed() < PATIENCE, "no metrics");
        if let Ok(mut stream) = TcpStream::connect(&address) {
            let mut text = String::new();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").expect("asked");
            stream.read_to_string(&mut text).expect("an answer");
            if text.contains("backfire_consumer_executions_total{outcome=\"ok\"}") {
                break text;
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("backfire_consumer_lag_records{topic=\"orders\""), "{text}");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("signalled");
    let mut out = String::new();
    child.stdout.take().expect("stdout").read_to_string(&mut out).expect("its result");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let value: Value = serde_json::from_str(&out).expect("JSON");
    assert!(value["records"].as_u64().is_some_and(|records| (1..=50).contains(&records)), "{out}");
}
