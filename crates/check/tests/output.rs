//! The forms of output.

use std::path::Path;

use backfire_check::{Request, check, output, rules};
use serde_json::Value;

fn report() -> backfire_check::Report {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    check(&Request { paths: vec![root], ..Request::default() }).unwrap()
}

#[test]
fn all_fixtures_at_once_are_services_of_their_own() {
    let report = report();
    assert!(report.services.len() >= 13, "{:?}", report.services.iter().map(|s| &s.name).collect::<Vec<_>>());
}

#[test]
fn json_has_the_promised_shape() {
    let value = output::json::report(&report());
    for row in value["settings"].as_array().unwrap() {
        for key in ["name", "value", "source"] {
            assert!(row[key].is_string(), "{row}");
        }
    }
    for prediction in value["predictions"].as_array().unwrap() {
        for key in ["listener", "executions", "sends", "copies", "overlapping_copies_max", "poll_budget"] {
            assert!(!prediction[key].is_null(), "{key} in {prediction}");
        }
        for budget in ["poll_budget", "poll_budget_safe"] {
            for key in ["needed_ms", "allowed_ms", "rule", "arithmetic"] {
                assert!(!prediction[budget][key].is_null(), "{key} in {prediction}");
            }
        }
    }
    for finding in value["findings"].as_array().unwrap() {
        let keys: Vec<_> = finding.as_object().unwrap().keys().map(String::as_str).collect();
        for key in ["rule", "level", "message", "file", "line", "column", "fix"] {
            assert!(keys.contains(&key), "{key} in {finding}");
        }
        assert!(rules::find(finding["rule"].as_str().unwrap()).is_some());
    }
}

/// What the SARIF 2.1.0 schema asks of the parts that are used here.
#[test]
fn sarif_is_as_its_schema_wants_it() {
    let log = output::sarif::report(&report());
    assert_eq!(log["version"], "2.1.0");
    let keys = |value: &Value, allowed: &[&str], required: &[&str]| {
        let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
        object.keys().for_each(|key| assert!(allowed.contains(&key.as_str()), "{key} in {value}"));
        required.iter().for_each(|key| assert!(object.contains_key(*key), "no {key} in {value}"));
    };
    keys(&log, &["$schema", "version", "runs"], &["version", "runs"]);
    let levels = ["none", "note", "warning", "error"];
    let uri = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%/:".contains(&byte));
    for run in log["runs"].as_array().unwrap() {
        keys(run, &["tool", "columnKind", "results"], &["tool"]);
        assert_eq!(run["columnKind"], "unicodeCodePoints");
        let driver = &run["tool"]["driver"];
        keys(driver, &["name", "version", "rules"], &["name"]);
        let rules = driver["rules"].as_array().unwrap();
        for rule in rules {
            keys(rule, &["id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration"], &["id"]);
            for text in ["shortDescription", "fullDescription", "help"] {
                assert!(rule[text]["text"].as_str().is_some_and(|text| !text.is_empty()));
            }
            assert!(levels.contains(&rule["defaultConfiguration"]["level"].as_str().unwrap()));
        }
        for result in run["results"].as_array().unwrap() {
            keys(
                result,
                &["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
                &["message"],
            );
            assert_eq!(rules[result["ruleIndex"].as_u64().unwrap() as usize]["id"], result["ruleId"]);
            assert!(levels.contains(&result["level"].as_str().unwrap()));
            assert!(result["message"]["text"].is_string());
            assert!(result["partialFingerprints"].as_object().unwrap().values().all(Value::is_string));
            for location in result["locations"].as_array().into_iter().flatten() {
                let place = &location["physicalLocation"];
                assert!(uri(place["artifactLocation"]["uri"].as_str().unwrap()));
                let region = &place["region"];
                keys(region, &["startLine", "startColumn", "endLine", "endColumn"], &["startLine"]);
                let number = |key: &str| region[key].as_u64().unwrap();
                assert!(number("startLine") >= 1 && number("startColumn") >= 1 && number("endColumn") >= 1);
                assert!((number("startLine"), number("startColumn")) <= (number("endLine"), number("endColumn")));
            }
        }
    }
}

#[test]
fn annotations_are_one_line_each() {
    let report = report();
    let text = output::github::report(&report);
    assert_eq!(text.lines().count(), report.findings.len());
    for line in text.lines() {
        assert!(["::error ", "::warning ", "::notice "].iter().any(|start| line.starts_with(start)), "{line}");
    }
}
