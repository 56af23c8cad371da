//! Annotations of GitHub: one workflow command per finding.

use std::fmt::Write as _;

use crate::finding::Level;
use crate::report::Report;
use crate::rules;

/// The report as workflow commands.
pub fn report(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let command = match finding.level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "notice",
        };
        let mut properties = Vec::new();
        if let Some(place) = &finding.place {
            let (end_line, end_column) = place.end();
            properties.push(format!("file={}", property(place.path())));
            properties.push(format!("line={}", place.line()));
            properties.push(format!("endLine={end_line}"));
            // A column is allowed only within one line.
            if end_line == place.line() {
                properties.push(format!("col={}", place.column()));
                properties.push(format!("endColumn={end_column}"));
            }
        }
        let name = rules::find(finding.rule).map_or("", |rule| rule.name);
        properties.push(format!("title={}", property(&format!("{} {name}", finding.rule))));
        let fix = finding.fix.as_ref().map(|fix| format!("\nFix: {fix}")).unwrap_or_default();
        let _ = writeln!(text, "::{command} {}::{}", properties.join(","), data(&format!("{}{fix}", finding.message)));
    }
    text
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
