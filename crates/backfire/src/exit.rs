//! Exit codes.

use std::fmt::Display;
use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// As predicted; nothing found; done.
    Fine,
    /// A difference or a finding.
    Difference,
    /// It could not run.
    CouldNotRun,
}

impl Exit {
    /// Says on stderr why the command could not run.
    pub fn could_not_run(why: impl Display) -> Self {
        eprintln!("backfire: {why}");
        Exit::CouldNotRun
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Fine => 0,
            Exit::Difference => 1,
            Exit::CouldNotRun => 2,
        })
    }
}
