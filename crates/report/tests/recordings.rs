//! Recordings of rehearsals, in every form. `recordings/NAME.jsonl` is what `rehearse --events` kept, `NAME.json` what
//! `rehearse --format json` printed of the same run.

use std::fs;
use std::path::PathBuf;

use backfire_report::input::{self, Options};
use backfire_report::{Context, Format, Recording};
use serde_json::Value;

const NAMES: [&str; 6] = ["client-gone", "late-copy", "max-time", "retry-lab", "store-inventory", "ticket-queue"];

fn file(name: &str) -> String {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The recording of a rehearsal, with its prediction.
fn recording(name: &str) -> Recording {
    let events = file(&format!("{name}.jsonl"));
    let recording = input::read(events.as_bytes(), &Options::default()).expect("a stream");
    recording.with(Context::parse(&file(&format!("{name}.json"))).expect("a prediction"))
}

fn numbers(recording: &Recording) -> Value {
    serde_json::from_str(&Format::Json.render(recording)).expect("JSON")
}

#[test]
fn a_recording_tells_what_the_rehearsal_counted() {
    for name in NAMES {
        let run: Value = serde_json::from_str(&file(&format!("{name}.json"))).expect("JSON");
        let told = numbers(&recording(name));
        for key in ["scenario", "scale", "predicted", "measured", "differences"] {
            assert_eq!(told[key], run[key], "{name}: {key}");
        }
        for (key, number) in run["extras"]["measured"].as_object().expect("numbers") {
            assert_eq!(told["extras"]["measured"][key], *number, "{name}: {key}");
        }
    }
}

#[test]
fn numbers_of_another_run_are_not_taken_for_those_of_this_one() {
    let events = file("retry-lab.jsonl");
    let read = || input::read(events.as_bytes(), &Options::default()).expect("a stream");
    let other = Context::parse(&file("ticket-queue.json")).expect("a prediction");
    let told = numbers(&read().with(other));
    assert_eq!(told["measured"]["documents"], Value::Null);
    assert_ne!(told["differences"].as_array().map(Vec::len), Some(0));
    let alone = numbers(&read());
    assert_eq!((&alone["predicted"], &alone["differences"]), (&Value::Null, &Value::Null));
    assert_eq!(alone["measured"]["copies"], 4);
}

/// The one sentence of each; they are what a reader sees first.
#[test]
fn headlines() {
    let lines: Vec<String> = NAMES
        .iter()
        .map(|name| {
            let told = numbers(&recording(name));
            let sentences = told["sentences"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let sentences: Vec<String> = sentences.map(|sentence| format!("  {sentence}\n")).collect();
            format!("{name}: {}\n{}", told["headline"].as_str().unwrap_or_default(), sentences.concat())
        })
        .collect();
    insta::assert_snapshot!(lines.concat());
}

#[test]
fn every_form_of_every_recording_is_well_formed_and_the_same_twice() {
    for name in NAMES {
        let recording = recording(name);
        for format in [Format::Html, Format::Svg, Format::Json, Format::Perfetto, Format::Otlp] {
            let text = format.render(&recording);
            assert_eq!(text, format.render(&recording), "{name} as {format:?}");
            match format {
                Format::Html | Format::Svg => {
                    assert!(
                        !text.contains("NaN") && !text.contains("inf\"") && !text.contains("http://")
                            || format == Format::Svg
                    );
                }
                _ => assert!(serde_json::from_str::<Value>(&text).is_ok(), "{name} as {format:?}"),
            }
        }
        let svg = Format::Svg.render(&recording);
        let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        let rows = document.descendants().filter(|node| node.attribute("class") == Some("wait")).count();
        assert!(rows > 1, "{name}");
    }
}

#[test]
fn the_chart() {
    insta::assert_snapshot!(Format::Svg.render(&recording("client-gone")));
}

#[test]
fn the_trace() {
    let trace: Value = serde_json::from_str(&Format::Perfetto.render(&recording("client-gone"))).expect("JSON");
    insta::assert_snapshot!(lines(&trace["traceEvents"]));
}

#[test]
fn the_spans() {
    let spans: Value = serde_json::from_str(&Format::Otlp.render(&recording("client-gone"))).expect("JSON");
    let of = |at: usize| lines(&spans["resourceSpans"][at]["scopeSpans"][0]["spans"]);
    insta::assert_snapshot!(format!("{}\n{}", of(0), of(1)));
}

/// A list of values, one to a line.
fn lines(values: &Value) -> String {
    values.as_array().into_iter().flatten().map(|value| format!("{value}\n")).collect()
}

#[test]
fn the_page_holds_no_text_of_a_recording_as_markup() {
    let bad = "</script><img src=x onerror=alert(1)>";
    let line = format!(
        r#"{{"at_ms":1,"side":"server","event":"arrived","op":1,"lsid":null,"txnNumber":null,"connection":1,"request_id":1,
           "app_name":"{bad}","command":"insert","namespace":"db.{bad}"}}"#
    );
    let recording = input::read(line.replace('\n', " ").as_bytes(), &Options::default()).expect("a stream");
    let json = format!(
        r#"{{"scenario":"{bad}","settings":[{{"name":"{bad}","value":"{bad}","source":"{bad}","note":"{bad}"}}],
            "findings":[{{"rule":"{bad}","level":"{bad}","message":"{bad}","file":"{bad}","fix":"{bad}","about":"{bad}","source_line":"{bad}"}}],
            "predictions":[{{"listener":"{bad}","copies":"{bad}","dead_letter_ms":"{bad}"}}]}}"#
    );
    let recording = recording.with(Context::parse(&json).expect("a context"));
    for format in [Format::Html, Format::Svg] {
        let text = format.render(&recording);
        assert!(!text.contains("<img"), "{format:?}");
        assert_eq!(text.matches("</script>").count(), if format == Format::Html { 2 } else { 0 });
    }
}
