//! `whatsmyuri`.

use bson::doc;

use super::{CommandSpec, Reply, immediate};

/// `{whatsmyuri: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["whatsmyuri"],
    doc: "says which address this client has",
    needs_auth: false,
    parse: |_, _| immediate(|run| Reply::from_document(&doc! { "you": run.op.connection.peer.clone() })),
    ..CommandSpec::BASE
};
