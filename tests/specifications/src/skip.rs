//! Everything that may keep a test from being run.

use std::fmt;

use backfire_server::profile::Profile;
use bson::{Bson, Document};

use crate::unified::file::{Operation, Test, TestFile};

/// Why a test cannot be run. In the order of how near the test is to being run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It needs a server version that no profile has. There is no such test: one is a failure.
    Version,
    /// It needs a standalone server, a sharded cluster or a load balancer.
    Topology,
    /// It watches a change stream.
    ChangeStreams,
    /// It stores files.
    GridFs,
    /// It encrypts in the client.
    Encryption,
    /// No driver that follows the specification's text can pass it.
    ContradictsItself,
}

/// Tests that want a timeout where there is none: `getMore` is held for 60 ms, and each iteration has a `timeoutMS` of 100
/// or none at all (DRIVERS-2965). The tests of `find` with the same names hold it for longer than the timeout.
const CONTRADICTIONS: [&str; 3] = [
    "Non-tailable cursor iteration timeoutMS is refreshed for getMore if timeoutMode is iteration - failure",
    "Tailable cursor iteration timeoutMS is refreshed for getMore - failure",
    "Tailable cursor awaitData iteration timeoutMS is refreshed for getMore - failure",
];

impl Reason {
    /// Those that keep a test from being run. There are no others.
    pub const ALL: [Self; 5] =
        [Self::Topology, Self::ChangeStreams, Self::GridFs, Self::Encryption, Self::ContradictsItself];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Version => "server version that no profile has",
            Self::Topology => "topology other than one replica set",
            Self::ChangeStreams => "change streams",
            Self::GridFs => "GridFS",
            Self::Encryption => "client-side encryption",
            Self::ContradictsItself => "the test contradicts its specification (DRIVERS-2965)",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Tests that a server of a version would fail, too, although their requirements take it: 4.2 and 4.4.0 do not know `hello`,
/// which came with 4.4.2.
const NOT_WITH: [(&str, &str); 2] = [
    ("WaitQueueTimeoutError does not clear the pool", "4.2"),
    ("WaitQueueTimeoutError does not clear the pool", "4.4"),
];

/// Whether a test is run with this version, if its requirements take it.
pub fn suits(test: &Test, profile: &Profile) -> bool {
    !NOT_WITH.contains(&(test.description.as_str(), profile.name))
}

/// Whether a test contradicts its specification.
pub fn contradicts_itself(test: &Test) -> Option<Reason> {
    CONTRADICTIONS.contains(&test.description.as_str()).then_some(Reason::ContradictsItself)
}

/// Which part of MongoDB a test needs that is not there, if it needs one. Its requirements are not looked at.
pub fn missing_part(file: &TestFile, test: &Test) -> Option<Reason> {
    let operations =
        || test.operations.iter().flat_map(|one| std::iter::once(one).chain(one.inner.as_deref()).chain(&one.body));
    let created = operations().filter(|operation| operation.name == "createEntities");
    let created = created.flat_map(|operation| operation.arguments.get_array("entities").into_iter().flatten());
    let entities: Vec<_> = file.entities.iter().chain(created.filter_map(Bson::as_document)).collect();
    let encrypts = entities.iter().any(|entity| {
        entity.contains_key("clientEncryption")
            || entity.get_document("client").is_ok_and(|client| client.contains_key("autoEncryptOpts"))
    });
    if encrypts {
        return Some(Reason::Encryption);
    }
    operations().find_map(|operation| part_of_operation(operation, &entities))
}

fn part_of_operation(operation: &Operation, entities: &[&Document]) -> Option<Reason> {
    let entity = |kind: &str, id: &str| {
        let described = entities.iter().filter_map(|entity| entity.get_document(kind).ok());
        described.into_iter().find(|fields| fields.get_str("id").ok() == Some(id))
    };
    if entity("bucket", &operation.object).is_some() {
        return Some(Reason::GridFs);
    }
    match operation.name.as_str() {
        "createChangeStream" => Some(Reason::ChangeStreams),
        // A session is pinned to one of several mongos.
        "assertSessionPinned" | "assertSessionUnpinned" | "targetedFailPoint" => Some(Reason::Topology),
        _ => None,
    }
}
