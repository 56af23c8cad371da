//! The reference pages of what the server has, made from its tables.

use std::fmt::Write;

use crate::commands::{ALL, CommandSpec};
use crate::failpoints::table::FAIL_POINTS;
use crate::params::{Kind, PARAMS, Settable};
use crate::profile::{PROFILES, Profile};

/// All commands as a Markdown page.
pub fn commands_markdown() -> String {
    let mut text = String::from(
        "# Commands of the lab server\n\n\
         A command that is not listed is answered with CommandNotFound (59) and the server's own text.\n\n\
         | command | what it does | notes |\n| --- | --- | --- |\n",
    );
    for spec in ALL {
        let _ = writeln!(text, "| `{}` | {} | {} |", spec.name(), cell(spec.doc), notes(spec));
    }
    text
}

fn notes(spec: &CommandSpec) -> String {
    let mut notes = Vec::new();
    if !spec.names[1..].is_empty() {
        let names: Vec<_> = spec.names[1..].iter().map(|name| format!("`{name}`")).collect();
        notes.push(format!("also {}", names.join(", ")));
    }
    let versions = |exists: fn(&Profile) -> bool| {
        let names: Vec<_> = PROFILES.iter().filter(|profile| exists(profile)).map(|profile| profile.name).collect();
        (names.len() < PROFILES.len()).then(|| format!("only under {}", names.join(", ")))
    };
    notes.extend(versions(spec.exists));
    let flags = [
        (spec.retryable_write, "takes a `txnNumber`"),
        (spec.write_concern, "takes a `writeConcern`"),
        (spec.admin_only, "on `admin` only"),
        (spec.test_only, "only with `enableTestCommands`"),
        (spec.dies_with_client, "ends when its client goes away"),
    ];
    notes.extend(flags.iter().filter(|(holds, _)| *holds).map(|(_, note)| (*note).to_owned()));
    notes.join("; ")
}

/// All parameters as a Markdown page.
pub fn parameters_markdown() -> String {
    let mut text = String::from(
        "# Parameters of the lab server\n\n\
         For `getParameter` and `setParameter`. Names that begin with `lab` are backfire's own; the others are the real \
         server's.\n\n\
         | parameter | default | allowed | set | what it does |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in PARAMS {
        let (default, allowed) = match row.kind {
            Kind::Bool => ((row.default != 0).to_string(), "true or false".to_owned()),
            Kind::Int => (row.default.to_string(), format!("{} to {}", row.range.0, row.range.1)),
        };
        let set = match row.settable {
            Settable::Runtime => "while it runs",
            Settable::Startup => "at start",
        };
        let _ = writeln!(text, "| `{}` | {default} | {allowed} | {set} | {} |", row.name, cell(row.doc));
    }
    text
}

/// All fail points as a Markdown page.
pub fn fail_points_markdown() -> String {
    let mut text = String::from(
        "# Fail points of the lab server\n\n\
         Set with `configureFailPoint` on `admin`: `{configureFailPoint: NAME, mode: MODE, data: {...}}`, where MODE is \
         `\"off\"`, `\"alwaysOn\"`, `{times: N}`, `{skip: N}` or `{activationProbability: P}`.\n\n\
         | fail point | what it does |\n| --- | --- |\n",
    );
    for row in FAIL_POINTS {
        let _ = writeln!(text, "| `{}` | {} |", row.name, cell(row.doc));
    }
    text
}

/// A `|` would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
