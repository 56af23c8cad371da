//! SARIF 2.1.0.
//!
//! After the [specification](https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html): columns count Unicode code points,
//! and a URI is relative to the folder that the check ran in, unless the path was absolute.

use serde_json::{Value, json};

use crate::finding::Level;
use crate::report::Report;
use crate::rules::{RULES, Rule};
use crate::source::Place;

/// The report as a SARIF log.
pub fn report(report: &Report) -> Value {
    let results: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            let fix = finding.fix.as_ref().map(|fix| format!("\n\nFix: {fix}")).unwrap_or_default();
            let mut result = json!({
                "ruleId": finding.rule,
                "level": level(finding.level),
                "message": { "text": format!("{}{fix}", finding.message) },
                "partialFingerprints": { "backfire/v1": finding.fingerprint },
            });
            if let Some(index) = RULES.iter().position(|rule| rule.id == finding.rule) {
                result["ruleIndex"] = json!(index);
            }
            if let Some(place) = &finding.place {
                result["locations"] = json!([location(place)]);
            }
            result
        })
        .collect();
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "backfire",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": RULES.iter().map(descriptor).collect::<Vec<_>>(),
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    }
}

fn descriptor(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "name": rule.name,
        "shortDescription": { "text": rule.summary },
        "fullDescription": { "text": rule.why },
        "help": { "text": rule.page, "markdown": crate::rules::explain(rule) },
        "defaultConfiguration": { "level": level(rule.level) },
    })
}

fn location(place: &Place) -> Value {
    let (end_line, end_column) = place.end();
    json!({
        "physicalLocation": {
            "artifactLocation": { "uri": uri(place.path()) },
            "region": {
                "startLine": place.line(),
                "startColumn": place.column(),
                "endLine": end_line,
                "endColumn": end_column,
            },
        },
    })
}

/// A path as a URI reference.
fn uri(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let escaped: String = path
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    if path.starts_with('/') { format!("file://{escaped}") } else { escaped }
}
