//! JSON: settings, predictions, findings.
//!
//! `settings`, `predictions` and `findings` hold those of all services; each names its service.

use serde_json::{Value, json};

use crate::finding::Finding;
use crate::prediction::{Budget, Prediction};
use crate::report::{Report, SettingRow};
use crate::setting::Source;
use crate::situations::Situation;

/// The report as a value.
pub fn report(report: &Report) -> Value {
    let mut settings = Vec::new();
    let mut predictions = Vec::new();
    let mut notes = Vec::new();
    for service in &report.services {
        settings.extend(service.settings.iter().map(|row| setting(&service.name, row)));
        predictions.extend(service.predictions.iter().map(|one| prediction(&service.name, one)));
        notes.extend(service.notes.iter().map(|note| json!({ "service": service.name, "note": note })));
    }
    json!({
        "settings": settings,
        "predictions": predictions,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "notes": notes,
        "ignored": report.ignored,
        "in_baseline": report.in_baseline,
        "files": report.files,
        "fails": report.fails(),
    })
}

fn setting(service: &str, row: &SettingRow) -> Value {
    let mut value = json!({
        "name": row.name,
        "value": row.value,
        "source": row.source.to_string(),
        "service": service,
        "kind": match &row.source {
            Source::File(_) => "file",
            Source::Default(_) => "default",
            Source::Argument(_) => "argument",
            Source::Environment(_) => "environment",
            Source::Unknown { .. } => "unknown",
        },
    });
    if let Some(place) = row.source.place() {
        value["file"] = json!(place.path());
        value["line"] = json!(place.line());
        value["column"] = json!(place.column());
    }
    if let Some(note) = &row.note {
        value["note"] = json!(note);
    }
    value
}

fn budget(budget: &Budget) -> Value {
    json!({
        "needed_ms": budget.needed_ms.json(),
        "allowed_ms": budget.allowed_ms,
        "exceeded": budget.is_exceeded(),
        "rule": budget.rule,
        "arithmetic": budget.arithmetic,
    })
}

/// A prediction. `poll_budget` is the exact one, `poll_budget_safe` the one on the safe side.
pub fn prediction(service: &str, one: &Prediction) -> Value {
    json!({
        "listener": one.listener,
        "service": service,
        "stall_ms": one.stall_ms,
        "executions": one.executions.json(),
        "sends": one.sends.json(),
        "copies": one.copies.json(),
        "overlapping_copies_max": one.overlapping_copies_max.json(),
        "overlapping_copies_all_consumers": one.overlapping_copies_all.json(),
        "sends_per_execution": one.sends_per_execution.json(),
        "execution_ms": one.execution_ms.json(),
        "dead_letter_ms": one.dead_letter_ms.json(),
        "poll_budget": budget(&one.exact_budget),
        "poll_budget_safe": budget(&one.safe_budget),
        "largest_poll_records": one.largest_poll_records,
        "situations": one.situations.iter().map(situation).collect::<Vec<_>>(),
    })
}

fn situation(one: &Situation) -> Value {
    json!({
        "name": one.name,
        "sends": one.sends.json(),
        "overlapping_copies_max": one.overlapping_copies_max.json(),
        "why": one.why,
    })
}

fn finding(finding: &Finding) -> Value {
    let place = finding.place.as_ref();
    json!({
        "rule": finding.rule,
        "level": finding.level.name(),
        "message": finding.message,
        "file": place.map(|place| place.path()),
        "line": place.map(|place| place.line()),
        "column": place.map(|place| place.column()),
        "fix": finding.fix,
        "about": finding.about,
        "source_line": place.map(|place| place.shown_line().text),
        "fingerprint": finding.fingerprint,
    })
}
