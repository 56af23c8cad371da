//! What is run: one folder of the specifications' tests each.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backfire_server::profile::{PROFILES, Profile};
use backfire_tests::Lab;

use crate::failure::{Checked, Within, fail};
use crate::skip::{Reason, contradicts_itself, missing_part, suits};
use crate::unified::file::{Test, TestFile};
use crate::unified::requirements::fitting;
use crate::unified::run;
use crate::uri;

/// A folder of test files.
#[derive(Debug)]
pub struct Suite {
    /// The folder's name, which is the specification's.
    pub name: &'static str,
    /// How its files are read and run.
    pub format: Format,
}

/// The format of test files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The unified test format.
    Unified,
    /// Connection strings and what they mean.
    Uri(uri::Checks),
}

/// All that is run.
pub const SUITES: &[Suite] = &[
    Suite { name: "connection-string", format: Format::Uri(uri::Checks::Everything) },
    Suite { name: "uri-options", format: Format::Uri(uri::Checks::Options) },
    Suite { name: "retryable-writes", format: Format::Unified },
    Suite { name: "sessions", format: Format::Unified },
    Suite { name: "client-side-operations-timeout", format: Format::Unified },
    Suite { name: "client-backpressure", format: Format::Unified },
    Suite { name: "run-command", format: Format::Unified },
    Suite { name: "command-monitoring", format: Format::Unified },
    Suite { name: "crud", format: Format::Unified },
    Suite { name: "unified-valid-pass", format: Format::Unified },
];

/// What became of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It passed, with a server of each of these versions; there are none for a test without a server.
    Passed(Vec<&'static str>),
    /// It was not run.
    Skipped(Reason),
    /// It failed.
    Failed(String),
}

impl Suite {
    /// The files of the suite, in the order of their names.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn files(&self, specifications: &Path) -> std::io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(specifications.join(self.name))?;
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        Ok(files)
    }

    /// Runs the tests of a file whose descriptions contain `part`: their descriptions, and what became of them.
    ///
    /// # Errors
    /// When the file is not in the format.
    pub fn run(&self, text: &str, part: &str) -> Checked<Vec<(String, Verdict)>> {
        let verdicts = match self.format {
            Format::Uri(checks) => uri::run(text, part, checks)?,
            Format::Unified => run_unified(text, part)?,
        };
        Ok(verdicts)
    }
}

fn run_unified(text: &str, part: &str) -> Checked<Vec<(String, Verdict)>> {
    let file = TestFile::parse(text)?;
    let mut verdicts = Vec::new();
    for test in file.tests.iter().filter(|test| test.description.contains(part)) {
        let verdict = match profiles_for(&file, test).within(|| test.description.clone())? {
            Err(reason) => Verdict::Skipped(reason),
            Ok(profiles) => with_all(&profiles, &file, test),
        };
        verdicts.push((test.description.clone(), verdict));
    }
    Ok(verdicts)
}

/// The versions to run a test with, or why it is not run.
fn profiles_for(file: &TestFile, test: &Test) -> Checked<Result<Vec<&'static Profile>, Reason>> {
    if let Some(reason) = contradicts_itself(test) {
        return Ok(Err(reason));
    }
    let suiting: Vec<_> = PROFILES.into_iter().filter(|profile| suits(test, profile)).collect();
    let fit = fitting(&[&file.requirements, &test.requirements], &suiting)?;
    let fit = fit.and_then(|profiles| missing_part(file, test).map_or(Ok(profiles), Err));
    // A file may say that a test is not to be run; that must have one of the reasons, too.
    match (&test.skip_reason, &fit) {
        (_, Err(Reason::Version)) => fail!("{}", Reason::Version),
        (Some(said), Ok(_)) => fail!("it is not to be run, for a reason that is none of ours: {said}"),
        _ => Ok(fit),
    }
}

fn with_all(profiles: &[&'static Profile], file: &TestFile, test: &Test) -> Verdict {
    let run = |profile: &&'static Profile| Some((profile.name, on_a_server(profile, file, test).err()?));
    let failures: Vec<_> = profiles.iter().filter_map(run).collect();
    if failures.is_empty() {
        return Verdict::Passed(profiles.iter().map(|profile| profile.name).collect());
    }
    let lines: Vec<_> = failures.iter().map(|(name, failure)| format!("[{name}] {failure}")).collect();
    Verdict::Failed(lines.join("\n    "))
}

/// Runs a test on a server of its own, on the paused clock.
fn on_a_server(profile: &'static Profile, file: &TestFile, test: &Test) -> Checked {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.within(|| "no runtime".into())?.block_on(async {
        let mut requirements = file.requirements.iter().chain(&test.requirements);
        let auth = requirements.any(|requirement| requirement.auth() == Some(true));
        let lab = Arc::new(if auth { Lab::with_auth(profile) } else { Lab::of(profile) });
        let result = run::run(&lab, file, test).await;
        match Arc::into_inner(lab) {
            Some(lab) => lab.finish().await,
            None => return Err(crate::failure::Failure::new("something of the test still runs")),
        }
        result
    })
}
