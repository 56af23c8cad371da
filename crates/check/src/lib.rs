//! `backfire check`: reads a service's settings, predicts what a stall makes of its writes, and says what to change.
//!
//! The way of a check: [`discover`] finds files; [`spring`], [`build`], [`connect`], [`sources`] and [`stated`] read them, each value with its
//! place; [`understand`] makes services of them; [`prediction`] says what they promise; [`rules`] says what is wrong;
//! [`output`] shows it. Nothing here prints, asks a clock or the network, and no output holds a secret.

pub mod baseline;
pub mod build;
pub mod client;
pub mod connect;
pub mod discover;
pub mod finding;
pub mod format;
pub mod ignores;
pub mod kafka;
pub mod listeners;
pub mod modules;
pub mod output;
pub mod prediction;
pub mod report;
pub mod request;
pub mod rules;
pub mod scenario;
pub mod service;
pub mod setting;
pub mod situations;
pub mod source;
pub mod sources;
pub mod spring;
pub mod stated;
pub mod statements;
pub mod understand;

pub use finding::{Finding, Level};
pub use prediction::{Amount, Budget, Prediction};
pub use report::{Report, ServiceReport, SettingRow};
pub use request::Request;

use std::collections::{HashMap, HashSet};

use baseline::Baseline;
use discover::Kind;
use ignores::Ignores;
use source::masked;

/// Why a check could not run: exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A path that cannot be looked at.
    #[error(transparent)]
    Path(#[from] discover::NoSuchPath),
    /// A `backfire.toml` that cannot be used.
    #[error(transparent)]
    Stated(#[from] stated::StatedError),
    /// A baseline that cannot be used.
    #[error("{path}: {why}")]
    Baseline {
        /// The path.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// Nothing to look at.
    #[error(
        "there is nothing to check in {paths}: no Spring configuration, no connector, no driver, no backfire.toml; give a connection string with --uri, or state it in backfire.toml"
    )]
    Nothing {
        /// The paths given.
        paths: String,
    },
}

/// Checks what is asked.
///
/// # Errors
/// A path, `backfire.toml` or baseline that cannot be used, or nothing to look at.
pub fn check(request: &Request) -> Result<Report, Error> {
    let known = match &request.baseline {
        Some(path) => {
            let error = |why: String| Error::Baseline { path: discover::shown(path), why };
            let text = std::fs::read_to_string(path).map_err(|e| error(e.to_string()))?;
            Some(Baseline::parse(&text).map_err(error)?)
        }
        None => None,
    };
    let tree = discover::discover(&request.paths, request.with_tests)?;
    let services = understand::services(&tree, request)?;
    if services.is_empty() && tree.unread.is_empty() {
        let paths = request.paths.iter().map(|path| discover::shown(path)).collect::<Vec<_>>().join(", ");
        return Err(Error::Nothing { paths });
    }
    let mut ignores = Ignores::default();
    for found in &tree.files {
        ignores.add_file(&found.file);
        if found.kind == Kind::Stated {
            ignores.add_stated(&found.file, &stated::read(&found.file)?);
        }
    }
    let mut report = Report {
        services: Vec::new(),
        findings: std::mem::take(&mut ignores.findings),
        ignored: 0,
        in_baseline: 0,
        files: tree.files.len(),
        fail_on: request.fail_on.unwrap_or(Level::Warning),
    };
    for service in &services {
        let (of_service, findings) = report::of_service(service);
        report.services.push(of_service);
        report.findings.extend(findings);
    }
    for unread in &tree.unread {
        let mut finding = Finding::new(format!("{} {}", unread.path, unread.why));
        finding.rule = "BF038";
        report.findings.push(finding);
    }
    finish(&mut report, &ignores, known.as_ref());
    Ok(report)
}

/// How many listeners one message names.
const NAMES_MAX: usize = 6;

/// What is said in the same words of the same place for several listeners is said once, of all of them: `a, b: ...`.
fn merge(findings: &mut Vec<Finding>) {
    // The first of each group has the message of all of it; the others have none.
    let mut messages: Vec<Option<String>> = vec![None; findings.len()];
    for group in alike(findings) {
        if let [first, ..] = group.as_slice() {
            messages[*first] = Some(joint_message(findings, &group));
        }
    }
    let mut messages = messages.into_iter();
    findings.retain_mut(|finding| {
        let message = messages.next().flatten();
        let is_kept = message.is_some();
        finding.message = message.unwrap_or_default();
        is_kept
    });
}

/// Which findings say the same of the same place but for the listener's name that the message begins with: groups of indices,
/// each in order.
fn alike(findings: &[Finding]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut group_of = HashMap::new();
    for (at, finding) in findings.iter().enumerate() {
        let new = groups.len();
        let group = match (&finding.place, finding.message.split_once(": ")) {
            (Some(place), Some((_, text))) => {
                let range = place.range();
                let key = (finding.rule, place.path(), range.start, range.end, finding.about.as_str(), text);
                *group_of.entry(key).or_insert(new)
            }
            _ => new,
        };
        if group == new {
            groups.push(Vec::new());
        }
        groups[group].push(at);
    }
    groups
}

/// One message for all findings of a group; that of a finding alone stays as it is.
fn joint_message(findings: &[Finding], group: &[usize]) -> String {
    let messages = || group.iter().map(|at| findings[*at].message.as_str());
    let named = || messages().filter_map(|message| message.split_once(": "));
    match named().next() {
        Some((_, text)) if group.len() > 1 => {
            let names: Vec<&str> = named().map(|(name, _)| name).take(NAMES_MAX).collect();
            let names = names.join(", ");
            match group.len().saturating_sub(NAMES_MAX) {
                0 => format!("{names}: {text}"),
                more => format!("{names} and {more} more: {text}"),
            }
        }
        _ => messages().collect(),
    }
}

/// The scenario of each listener of what is asked: service, listener, and the scenario or why there is none.
///
/// # Errors
/// As those of [`check`].
pub fn scenarios(request: &Request) -> Result<Vec<ListenerScenario>, Error> {
    let tree = discover::discover(&request.paths, request.with_tests)?;
    let services = understand::services(&tree, request)?;
    let of = |service: &service::Service| {
        let one = |listener: &service::Listener| ListenerScenario {
            service: service.name.clone(),
            listener: listener.name.clone(),
            prediction: prediction::predict(service, listener),
            scenario: scenario::of_listener(service, listener),
        };
        service.listeners.iter().map(one).collect::<Vec<_>>()
    };
    Ok(services.iter().flat_map(of).collect())
}

/// What to rehearse or simulate for a listener.
#[derive(Debug, Clone)]
pub struct ListenerScenario {
    /// Its service.
    pub service: String,
    /// Its name.
    pub listener: String,
    /// What is predicted for it.
    pub prediction: Prediction,
    /// What measures that, or why nothing does.
    pub scenario: Result<backfire_model::scenario::Scenario, String>,
}

/// Masks, sorts, and leaves out what is ignored or known.
fn finish(report: &mut Report, ignores: &Ignores, known: Option<&Baseline>) {
    for finding in &mut report.findings {
        finding.message = masked(&finding.message);
        finding.fix = finding.fix.as_deref().map(masked);
    }
    // Several services can share a file: what is said of it is said once.
    let mut seen = HashSet::new();
    report
        .findings
        .retain(|finding| seen.insert((finding.rule, finding.message.clone(), format!("{:?}", finding.place))));
    merge(&mut report.findings);
    report.findings.sort_by_cached_key(|finding| {
        let place = finding.place.as_ref().map(|place| (place.path().to_owned(), place.line(), place.column()));
        (std::cmp::Reverse(finding.level), finding.rule, place)
    });
    baseline::fingerprint(&mut report.findings);
    let before = report.findings.len();
    report.findings.retain(|finding| !ignores.covers(finding));
    report.ignored = before - report.findings.len();
    if let Some(known) = known {
        let known = known.fingerprints();
        let before = report.findings.len();
        report.findings.retain(|finding| !known.contains(finding.fingerprint.as_str()));
        report.in_baseline = before - report.findings.len();
    }
}
