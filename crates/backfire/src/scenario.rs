//! The scenario that the arguments name, and what is to be said of its connection string.

use std::path::Path;

use backfire_model::scenario::{BUILT_IN, Scenario};
use backfire_rehearsal::lab;

/// Reads a scenario: a built-in one, or a file. What its connection string loses is said on stderr: options that are
/// ignored as warnings, what the lab server does not have as notes.
///
/// # Errors
/// Why it cannot be used, with the file and the place in it.
pub fn read(name: &str, file: Option<&Path>) -> Result<Scenario, String> {
    let Some(path) = file else {
        let scenario = Scenario::built_in(name).map_err(|error| error.to_string())?;
        let text = BUILT_IN.iter().find(|(built_in, _)| *built_in == name).map_or("", |(_, text)| text);
        tell(&scenario, text, name);
        return Ok(scenario);
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let scenario = Scenario::parse(&text).map_err(|error| format!("{shown}: {error}"))?;
    tell(&scenario, &text, &shown.to_string());
    Ok(scenario)
}

fn tell(scenario: &Scenario, text: &str, whose: &str) {
    for warning in scenario.warnings(text) {
        eprintln!("warning: {whose}: {warning}");
    }
    if let Ok(uri) = scenario.connection_string() {
        for change in lab::changes(&uri) {
            eprintln!("note: {whose}: client.uri: {change}");
        }
    }
}
