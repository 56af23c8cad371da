//! What is asked of a check.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::finding::Level;
use crate::spring::files::Given;

/// A check to be made.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Files and folders. None: nothing is read, and only the connection string is looked at.
    pub paths: Vec<PathBuf>,
    /// `--uri`: a connection string in place of the one that is found.
    pub uri: Option<String>,
    /// `--set`: values of properties and of names in placeholders.
    pub set: Vec<(String, String)>,
    /// The environment, where `--env` lets it be used.
    pub environment: BTreeMap<String, String>,
    /// `--profile`: active profiles of Spring.
    pub profiles: Vec<String>,
    /// Whether test sources count.
    pub with_tests: bool,
    /// How long the server stands still; `None`: what `backfire.toml` says, or longer than all retries.
    pub stall_ms: Option<u64>,
    /// `--fail-on`: the level from which a finding makes the check fail. `None`: warnings.
    pub fail_on: Option<Level>,
    /// `--baseline`: a file of findings that are known.
    pub baseline: Option<PathBuf>,
}

impl Request {
    /// What Spring's configuration is given beside its files.
    pub fn given(&self) -> Given {
        Given { set: self.set.clone(), environment: self.environment.clone(), profiles: self.profiles.clone() }
    }
}
