//! The fixture services and what a check says of them, word for word.

use std::path::{Path, PathBuf};

use backfire_check::finding::Level;
use backfire_check::{Amount, Report, Request, check, output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Checks a fixture; paths in the report are relative to `fixtures/`.
fn run(name: &str, change: impl FnOnce(&mut Request)) -> Report {
    let mut request = Request { paths: vec![root().join(name)], ..Request::default() };
    change(&mut request);
    check(&request).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The text without what differs from machine to machine.
fn text(report: &Report) -> String {
    let prefix = backfire_check::discover::shown(&root());
    output::text::report(report).replace(&format!("{prefix}/"), "")
}

fn rules(report: &Report) -> Vec<&'static str> {
    let mut rules: Vec<_> = report.findings.iter().map(|finding| finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

const FIXTURES: &[&str] = &[
    "boot27-gradle-java-batch",
    "boot27-maven-java-legacy",
    "boot34-gradle-java-failures",
    "boot34-maven-java-single",
    "boot35-gradle-java-right",
    "boot35-gradle-kotlin-retry-topics",
    "boot35-maven-java-mistakes",
    "boot35-maven-kotlin-batch",
    "boot41-gradle-java-jitter",
    "boot41-maven-kotlin-old-keys",
    "boot41-maven-kotlin-retry-topics",
    "connect-sinks",
    "go-service",
    "multi-module",
    "node-service",
    "python-service",
    "stated-handlers",
    "stream-binder",
];

#[test]
fn golden_texts() {
    for name in FIXTURES {
        let report = run(name, |_| {});
        insta::assert_snapshot!(*name, text(&report));
    }
}

#[test]
fn every_rule_is_broken_by_a_fixture() {
    let mut found: Vec<&str> = FIXTURES.iter().flat_map(|name| rules(&run(name, |_| {}))).collect();
    found.sort_unstable();
    found.dedup();
    let missing: Vec<&str> =
        backfire_check::rules::RULES.iter().map(|rule| rule.id).filter(|id| !found.contains(id)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_service_as_it_should_be_has_no_warning() {
    let report = run("boot35-gradle-java-right", |request| request.fail_on = Some(Level::Warning));
    assert!(!report.fails(), "{:?}", report.findings);
}

#[test]
fn no_output_holds_a_password() {
    for name in FIXTURES {
        let report = run(name, |_| {});
        let outputs = [
            output::text::report(&report),
            output::json::report(&report).to_string(),
            output::sarif::report(&report).to_string(),
            output::github::report(&report),
            format!("{report:?}"),
        ];
        for text in outputs {
            assert!(!text.contains("s3cret"), "{name}: {text}");
        }
    }
}

#[test]
fn store_inventory_as_published() {
    let report = run("stated-handlers", |_| {});
    let prediction = &report.services[0].predictions[0];
    assert_eq!(prediction.executions, Amount::Exact(4));
    assert_eq!(prediction.sends, Amount::Exact(8));
    assert_eq!(prediction.copies, Amount::Exact(4));
    assert_eq!(prediction.overlapping_copies_max, Amount::Exact(4));
    assert_eq!(prediction.overlapping_copies_all, Amount::Exact(8));
    assert_eq!(prediction.dead_letter_ms, Amount::Exact(240_000));
    let within = run("stated-handlers", |request| request.stall_ms = Some(100_000));
    let prediction = &within.services[0].predictions[0];
    assert_eq!((&prediction.executions, &prediction.overlapping_copies_max), (&Amount::Exact(2), &Amount::Exact(2)));
}

#[test]
fn versions_come_from_build_files() {
    let report = run("boot35-gradle-kotlin-retry-topics", |_| {});
    let row = |name: &str| report.services[0].settings.iter().find(|row| row.name == name).unwrap().value.clone();
    assert_eq!(
        (row("Spring Boot"), row("Java driver"), row("Spring Kafka")),
        ("3.5.16".into(), "5.5.2".into(), "3.3.16".into())
    );
    assert_eq!(row("max.poll.interval.ms"), "120000");
    let report = run("multi-module", |_| {});
    let row = |name: &str| report.services[0].settings.iter().find(|row| row.name == name).unwrap().value.clone();
    assert_eq!(
        (row("Spring Boot"), row("max.poll.interval.ms"), row("socketTimeoutMS")),
        ("3.4.13".into(), "240000".into(), "15000 ms".into())
    );
}

#[test]
fn profiles_sets_and_environment() {
    let socket = |report: &Report| {
        let settings = &report.services[0].settings;
        settings.iter().find(|row| row.name == "timeoutMS").unwrap().value.clone()
    };
    let name = "boot35-gradle-kotlin-retry-topics";
    assert_eq!(socket(&run(name, |_| {})), "not set");
    assert_eq!(socket(&run(name, |request| request.profiles = vec!["prod".into()])), "10000 ms");
    assert_eq!(socket(&run(name, |request| request.profiles = vec!["live".into()])), "10000 ms");
    let uri = "mongodb://h/?timeoutMS=77".to_owned();
    assert_eq!(socket(&run(name, |request| request.set = vec![("MONGO_URI".into(), uri.clone())])), "77 ms");
    assert_eq!(
        socket(&run(name, |request| drop(request.environment.insert("MONGO_URI".into(), uri.clone())))),
        "77 ms"
    );
    assert_eq!(socket(&run(name, |request| request.uri = Some(uri.clone()))), "77 ms");
}

#[test]
fn a_single_file_works_as_well() {
    let report = run("boot34-maven-java-single/src/main/resources/application.yml", |_| {});
    assert_eq!(report.services[0].settings.iter().find(|row| row.name == "concurrency").unwrap().value, "3");
    let report = run("connect-sinks/orders-sink.json", |_| {});
    assert!(rules(&report).contains(&"BF034"));
}

#[test]
fn a_connection_string_alone_is_enough() {
    let request = Request { uri: Some("mongodb://u:p%40ss@h/?socketTimeoutMS=5s".into()), ..Request::default() };
    let report = check(&request).unwrap();
    assert_eq!(
        rules(&report),
        ["BF001", "BF030", "BF031"].iter().copied().filter(|r| rules(&report).contains(r)).collect::<Vec<_>>()
    );
    assert!(
        report.findings.iter().any(|finding| finding.rule == "BF031" && finding.message.contains("is no whole number"))
    );
    assert!(report.fails());
}

#[test]
fn a_baseline_leaves_only_what_is_new() {
    let report = run("boot34-maven-java-single", |_| {});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baseline.json");
    let baseline = backfire_check::baseline::Baseline::of(&report.findings);
    std::fs::write(&path, serde_json::to_string(&baseline).unwrap()).unwrap();
    let again = run("boot34-maven-java-single", |request| request.baseline = Some(path));
    assert_eq!((again.findings.len(), again.in_baseline), (0, report.findings.len()));
    assert!(!again.fails());
}

#[test]
fn the_level_decides_whether_it_fails() {
    let report = run("node-service", |request| request.fail_on = Some(Level::Error));
    assert_eq!(report.fails(), report.count(Level::Error) > 0);
}

#[test]
fn nothing_to_look_at_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("README.md"), "x").unwrap();
    let error = check(&Request { paths: vec![folder.path().to_path_buf()], ..Request::default() }).unwrap_err();
    assert!(error.to_string().contains("nothing to check"), "{error}");
}

#[test]
fn the_rules_page_is_in_step() {
    let path = root().join("../docs/rules.md");
    let text = backfire_check::rules::rules_markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "docs/rules.md is out of step; run UPDATE_DOCS=1 cargo test -p backfire-check the_rules_page"
    );
}
