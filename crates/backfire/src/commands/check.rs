//! `backfire check`: what a service's settings promise, and what is wrong with them.

use std::path::Path;

use backfire_check::baseline::Baseline;
use backfire_check::{Level, Report, Request, output, rules};

use serde_json::{Value, json};

use crate::cli::{Check, CheckFormat, FailOn};
use crate::exit::Exit;
use crate::out;

/// Checks, or explains a rule.
pub fn run(arguments: &Check) -> Exit {
    if arguments.rules && arguments.format == CheckFormat::Json {
        let all: Vec<_> = rules::RULES
            .iter()
            .map(
                |rule| json!({ "id": rule.id, "name": rule.name, "level": rule.level.name(), "summary": rule.summary }),
            )
            .collect();
        return out::print(&format!("{:#}\n", Value::from(all))).err().unwrap_or(Exit::Fine);
    }
    if (arguments.rules || arguments.explain.is_some()) && arguments.format != CheckFormat::Text {
        return Exit::could_not_run("--rules has the formats text and json, and --explain is Markdown");
    }
    if arguments.rules {
        let width = rules::RULES.iter().map(|rule| rule.name.len()).max().unwrap_or(0);
        let lines = rules::RULES.iter().map(|rule| {
            let level = rule.level.name();
            format!("{}  {level:7}  {:width$}  {}\n", rule.id, rule.name, rule.summary)
        });
        return out::print(&lines.collect::<String>()).err().unwrap_or(Exit::Fine);
    }
    if let Some(id) = &arguments.explain {
        return explain(id);
    }
    if let Some(listener) = &arguments.scenario {
        return match scenario(arguments, listener) {
            Ok(text) => out::print(&text).err().unwrap_or(Exit::Fine),
            Err(why) => Exit::could_not_run(why),
        };
    }
    let report = match backfire_check::check(&request(arguments)) {
        Ok(report) => report,
        Err(error) => return Exit::could_not_run(error),
    };
    if let Some(path) = &arguments.write_baseline
        && let Err(why) = write_baseline(path, &report)
    {
        return Exit::could_not_run(why);
    }
    let text = match arguments.format {
        CheckFormat::Text => output::text::report(&report),
        CheckFormat::Json => format!("{:#}\n", output::json::report(&report)),
        CheckFormat::Sarif => format!("{:#}\n", output::sarif::report(&report)),
        CheckFormat::Github => output::github::report(&report),
    };
    if let Err(exit) = out::print(&text) {
        return exit;
    }
    // Findings that were just written down as known are no reason to fail.
    if report.fails() && arguments.write_baseline.is_none() { Exit::Difference } else { Exit::Fine }
}

fn request(arguments: &Check) -> Request {
    // A connection string alone is looked at without the folder that happens to be the current one.
    let here = if arguments.paths.is_empty() && arguments.uri.is_none() { vec![".".into()] } else { Vec::new() };
    Request {
        paths: if arguments.paths.is_empty() { here } else { arguments.paths.clone() },
        uri: arguments.uri.clone(),
        set: arguments.set.clone(),
        environment: if arguments.env { std::env::vars().collect() } else { Default::default() },
        profiles: arguments.profile.clone(),
        with_tests: arguments.with_tests,
        stall_ms: arguments.stall,
        fail_on: Some(match arguments.fail_on {
            FailOn::Note => Level::Note,
            FailOn::Warning => Level::Warning,
            FailOn::Error => Level::Error,
        }),
        baseline: arguments.baseline.clone(),
    }
}

/// The scenario of a listener as a file.
fn scenario(arguments: &Check, listener: &str) -> Result<String, String> {
    let found = backfire_check::scenarios(&request(arguments)).map_err(|error| error.to_string())?;
    let names = || found.iter().map(|one| one.listener.as_str()).collect::<Vec<_>>().join(", ");
    let mut wanted = found.iter().filter(|one| listener.is_empty() || one.listener == listener);
    let one = match (wanted.next(), wanted.next()) {
        (Some(one), None) => one,
        (Some(_), Some(_)) => {
            return Err(format!("there are several listeners: {}; name one with --scenario", names()));
        }
        (None, _) if found.is_empty() => return Err("there is no listener here".to_owned()),
        (None, _) => return Err(format!("there is no listener '{listener}'; there are: {}", names())),
    };
    let scenario = one.scenario.as_ref().map_err(|why| format!("{} cannot be made a scenario: {why}", one.listener))?;
    toml::to_string_pretty(scenario).map_err(|error| error.to_string())
}

fn explain(id: &str) -> Exit {
    match rules::find(id) {
        Some(rule) => out::print(&rules::explain(rule)).err().unwrap_or(Exit::Fine),
        None => {
            let nearest = rules::nearest(id).map_or(String::new(), |nearest| format!("; did you mean {nearest}?"));
            Exit::could_not_run(format!("there is no rule '{id}'{nearest} (backfire check --rules lists them)"))
        }
    }
}

fn write_baseline(path: &Path, report: &Report) -> Result<(), String> {
    let text = serde_json::to_string_pretty(&Baseline::of(&report.findings)).map_err(|error| error.to_string())?;
    std::fs::write(path, text + "\n").map_err(|error| format!("cannot write {}: {error}", path.display()))
}
