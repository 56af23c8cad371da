//! Text for people.

use std::fmt::Write as _;

use crate::finding::{Finding, Level};
use crate::prediction::{Budget, Prediction};
use crate::report::{Report, ServiceReport};
use crate::rules;
use crate::setting::shown_ms;

/// The report as text.
pub fn report(report: &Report) -> String {
    let mut text = String::new();
    for service in &report.services {
        self::service(&mut text, service);
    }
    for finding in &report.findings {
        self::finding(&mut text, finding);
    }
    let counts = [Level::Error, Level::Warning, Level::Note].map(|level| counted(report.count(level), level.name()));
    let _ = write!(text, "{}; {} read", counts.join(", "), counted(report.files, "file"));
    for (count, what) in [(report.ignored, "ignored"), (report.in_baseline, "in the baseline")] {
        if count > 0 {
            let _ = write!(text, "; {count} {what}");
        }
    }
    text.push('\n');
    text
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn service(text: &mut String, service: &ServiceReport) {
    let _ = writeln!(text, "{}\n", service.name);
    let width = service.settings.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let value_width =
        service.settings.iter().map(|row| row.value.chars().count()).filter(|width| *width <= 44).max().unwrap_or(0);
    for row in &service.settings {
        let _ = write!(text, "  {:width$}  {:value_width$}  {}", row.name, row.value, row.source);
        if let Some(note) = &row.note {
            let _ = write!(text, "; {note}");
        }
        text.push('\n');
    }
    for prediction in &service.predictions {
        self::prediction(text, prediction);
    }
    for note in &service.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    text.push('\n');
}

fn prediction(text: &mut String, one: &Prediction) {
    let stall = match one.stall_ms {
        Some(stall_ms) => format!("the server stands still for {}", shown_ms(stall_ms)),
        None => "the server stands still longer than all retries".to_owned(),
    };
    let _ = writeln!(text, "\n  {}: one record, while {stall}", one.listener);
    let rows = [
        ("executions", &one.executions, false),
        ("sends", &one.sends, false),
        ("copies", &one.copies, false),
        ("copies at once", &one.overlapping_copies_max, false),
        ("of all consumers", &one.overlapping_copies_all, false),
        ("one execution", &one.execution_ms, true),
        ("until the end", &one.dead_letter_ms, true),
    ];
    let mut said: Vec<&str> = Vec::new();
    for (name, amount, is_time) in rows {
        let value = if is_time { amount.shown_as_time() } else { amount.to_string() };
        let _ = write!(text, "    {name:16}  {value}");
        if let Some(why) = amount.why().filter(|why| !why.is_empty() && !said.contains(why)) {
            said.push(why);
            let _ = write!(text, "  ({why})");
        }
        text.push('\n');
    }
    budget(text, "poll budget", &one.exact_budget);
    budget(text, "on the safe side", &one.safe_budget);
    // The others are not worse, and are in the JSON.
    for situation in one.situations.iter().filter(|situation| situation.is_worse(one)) {
        let _ = writeln!(
            text,
            "    worse: {}: sends {}, copies at once {}\n{:22}{}",
            situation.name, situation.sends, situation.overlapping_copies_max, "", situation.why
        );
    }
}

fn budget(text: &mut String, name: &str, budget: &Budget) {
    let allowed = budget.allowed_ms.map_or_else(|| "unknown".to_owned(), shown_ms);
    let verdict = match budget.is_exceeded() {
        Some(true) => "exceeded",
        Some(false) => "kept",
        None => "cannot be said",
    };
    let _ =
        writeln!(text, "    {name:16}  {verdict}: {}, allowed {allowed}\n{:22}{}", budget.arithmetic, "", budget.rule);
}

fn finding(text: &mut String, finding: &Finding) {
    let name = rules::find(finding.rule).map_or("", |rule| rule.name);
    let mut lines = finding.message.lines();
    let _ = writeln!(text, "{}[{}] {name}: {}", finding.level, finding.rule, lines.next().unwrap_or_default());
    for line in lines {
        let _ = writeln!(text, "    {line}");
    }
    if let Some(place) = &finding.place {
        let line = place.line();
        let shown = place.shown_line();
        let gutter = line.to_string().len();
        let _ = writeln!(text, "  --> {}:{line}:{}", place.path(), place.column());
        let _ = writeln!(text, "  {line} | {}", shown.text);
        let _ = writeln!(text, "  {:gutter$} | {}{}", "", " ".repeat(shown.start), "^".repeat(shown.width));
    }
    if let Some(rule) = rules::find(finding.rule) {
        let _ = writeln!(text, "  why: {}", rule.why);
    }
    if let Some(fix) = finding.fix.as_deref().filter(|fix| !fix.is_empty()) {
        let mut lines = fix.lines();
        let _ = writeln!(text, "  fix: {}", lines.next().unwrap_or_default());
        for line in lines {
            let _ = writeln!(text, "       {line}");
        }
    }
    text.push('\n');
}
