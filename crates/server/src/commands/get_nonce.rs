//! `getnonce`.

use bson::doc;
use rand::RngExt;

use super::{CommandSpec, Reply, immediate};

/// `{getnonce: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["getnonce"],
    doc: "gives a random number, which once was a part of logging in",
    needs_auth: false,
    exists: |profile| profile.getnonce,
    parse: |_, _| {
        immediate(|run| {
            let nonce: u64 = run.shared().rng().lock().random();
            Reply::from_document(&doc! { "nonce": format!("{nonce:016x}") })
        })
    },
    ..CommandSpec::BASE
};
