//! `connectionStatus`.

use bson::doc;

use super::{CommandSpec, Reply, immediate};

/// `{connectionStatus: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["connectionStatus"],
    doc: "says who is logged in on this connection",
    needs_auth: false,
    parse: |_, _| {
        immediate(|_| {
            Reply::from_document(&doc! { "authInfo": { "authenticatedUsers": [], "authenticatedUserRoles": [] } })
        })
    },
    ..CommandSpec::BASE
};
