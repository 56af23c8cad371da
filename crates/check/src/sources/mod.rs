//! Java and Kotlin sources: what they say of a service's listeners, error handlers, writes and clients.
//!
//! `backfire-jvm` reads the sources; here its values become those of the rest of the check: settings that code takes from
//! configuration are looked up there, places become places of files that were found, and what cannot be told says so.

mod client;
mod condition;
mod exception;
mod handler;
mod layer;
mod listener;
mod poll;
mod reader;
mod topic;
mod write;

use std::collections::BTreeSet;
use std::path::PathBuf;

use backfire_jvm::{Analysis, ListenerKind, Project};

pub use client::{apply as apply_clients, uri};
pub use exception::is_a;
pub use handler::of_retry_topic;
pub use listener::{Parts, listeners};
pub use reader::Reader;

use crate::discover::{Found, Kind, Tree};
use crate::format::tree::Flaw;
use crate::spring::Properties;
use condition::Conditions;

/// The files of one service, and what they say.
pub struct Sources<'a> {
    files: Vec<&'a Found>,
    /// What the files say.
    pub analysis: Analysis,
}

impl<'a> Sources<'a> {
    /// Reads the sources of some modules: a service's own and those that it depends on. Beans whose conditions do not hold in
    /// this configuration are left out. `None`: they have none.
    pub fn read(tree: &'a Tree, modules: &BTreeSet<PathBuf>, properties: Option<&Properties>) -> Option<Self> {
        let files: Vec<&Found> = tree
            .files
            .iter()
            .filter(|found| matches!(found.kind, Kind::Java | Kind::Kotlin))
            .filter(|found| modules.contains(&tree.module_of(&found.path)))
            .collect();
        if files.is_empty() {
            return None;
        }
        let texts: Vec<_> = files
            .iter()
            .map(|found| backfire_jvm::SourceFile {
                path: found.file.path.as_str().into(),
                text: found.file.text.as_str().into(),
            })
            .collect();
        let analysis = Project::parse(&texts).analyze_given(&Conditions(properties));
        Some(Self { files, analysis })
    }

    /// Whether they show what consumes records.
    pub fn has_listeners(&self) -> bool {
        self.analysis.listeners.iter().any(|listener| listener.kind != ListenerKind::StreamBinding)
    }

    /// What could not be read or followed.
    pub fn flaws(&self, reader: &Reader<'_>) -> Vec<Flaw> {
        let flaw = |problem: &backfire_jvm::Problem| {
            Some(Flaw { message: problem.message.clone(), place: reader.place(&problem.span)? })
        };
        self.analysis.problems.iter().filter_map(flaw).collect()
    }
}
