//! A rehearsal whose record comes through Kafka.
//!
//! `BACKFIRE_KAFKA_BROKERS` names the broker; `clients/kafka/run` sets it.

use std::process::Command;

#[cfg(feature = "kafka")]
use serde_json::Value;

/// Runs to the end: exit code, stdout, stderr.
fn rehearse(arguments: &[&str]) -> (i32, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_backfire")).arg("rehearse").args(arguments).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

#[test]
fn it_says_what_is_missing() {
    let (code, out, err) = rehearse(&["--with", "kafka"]);
    let why = if cfg!(feature = "kafka") { "--brokers HOST:PORT" } else { "built without Kafka" };
    assert!(code == 2 && out.is_empty() && err.contains(why), "{err}");
    let (code, _, err) = rehearse(&["--brokers", "127.0.0.1:1"]);
    assert!(code == 2 && err.contains("--with"), "{err}");
}

#[cfg(feature = "kafka")]
#[test]
fn a_broker_that_does_not_answer_is_an_error_within_a_bounded_time() {
    let began = std::time::Instant::now();
    let (code, _, err) = rehearse(&["--with", "kafka", "--brokers", "127.0.0.1:1"]);
    assert!(code == 2 && err.contains("no broker answers"), "{err}");
    assert!(began.elapsed().as_secs() < 60);
}

#[cfg(feature = "kafka")]
#[test]
fn through_a_real_broker_it_is_as_predicted() {
    let Ok(brokers) = std::env::var("BACKFIRE_KAFKA_BROKERS") else {
        println!("SKIPPED: kafka: no real Kafka broker; clients/kafka/run starts one");
        return;
    };
    let with = ["--with", "kafka", "--brokers", &brokers, "--quiet", "--scale", "0.1"];
    let json = |arguments: &[&str]| -> Value {
        let (code, out, err) = rehearse(arguments);
        assert_eq!(code, 0, "{arguments:?} {out} {err}");
        serde_json::from_str(&out).expect("JSON")
    };
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let plain = json(&["lost-reply", "--quiet", "--scale", "0.1", "--format", "json"]);
    for scenario in ["retry-lab", "store-inventory", "retry-writes-off", "update-many", "upsert-by-id", "lost-reply"] {
        let run = json(&[&[scenario, "--format", "json"], with.as_slice()].concat());
        assert_eq!(run["differences"], serde_json::json!([]), "{scenario}");
        assert_eq!(keys(&run), keys(&plain));
        assert_eq!(keys(&run["measured"]), keys(&plain["measured"]));
        let timeline = run["timeline"].as_array().expect("a list");
        let dead_letters = timeline.iter().filter(|entry| entry["event"] == "dead_letter").count();
        assert_eq!(dead_letters, usize::from(scenario != "lost-reply"), "{scenario}");
    }
    let (_, text, _) = rehearse(&[&["lost-reply"], with.as_slice()].concat());
    assert!(text.starts_with(&format!("lost-reply, every time x 0.1, through Kafka at {brokers}\n")), "{text}");
}
