//! Runs the specifications' tests: one line for each file, then the table.
//!
//! `cargo test -p backfire-specifications -- retryable-writes/insertOne` runs the files whose names contain that.
//! `BACKFIRE_SPECIFICATION_TEST` picks tests within files by a part of their descriptions.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use backfire_specifications::suites::{SUITES, Suite, Verdict};
use backfire_specifications::tally::Tally;
use backfire_tests::shared;
use libtest_mimic::{Arguments, Failed, Trial};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md");

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let Some(folder) = shared::folder("spec") else { return ExitCode::SUCCESS };
    let part = std::env::var("BACKFIRE_SPECIFICATION_TEST").unwrap_or_default();
    let tally = Arc::new(Mutex::new(Tally::default()));
    let mut trials = Vec::new();
    for suite in SUITES {
        let files = suite.files(&folder).unwrap_or_else(|error| panic!("no folder {}: {error}", suite.name));
        for file in files {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let (part, tally) = (part.clone(), Arc::clone(&tally));
            let name = format!("{}/{stem}", suite.name);
            trials.push(Trial::test(name, move || run(suite, &file, &part, &tally)));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if arguments.list {
        return ExitCode::SUCCESS;
    }
    let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{}", tally.tables());
    let everything = conclusion.num_filtered_out == 0 && part.is_empty();
    if conclusion.has_failed() || (everything && !page_says(&tally.page())) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn run(suite: &'static Suite, file: &PathBuf, part: &str, tally: &Mutex<Tally>) -> Result<(), Failed> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let verdicts = suite.run(&text, part).map_err(|failure| failure.to_string())?;
    let mut failures = Vec::new();
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    for (description, verdict) in verdicts {
        tally.add(suite.name, &verdict);
        if let Verdict::Failed(failure) = verdict {
            failures.push(format!("  {description}: {failure}"));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Compares the page of the documentation, or writes it.
fn page_says(text: &str) -> bool {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PAGE, text).expect("the page can be written");
        return true;
    }
    let same = fs::read_to_string(PAGE).unwrap_or_default() == text;
    if !same {
        println!("docs/conformance.md is not what came of this; run with UPDATE_DOCS=1");
    }
    same
}
