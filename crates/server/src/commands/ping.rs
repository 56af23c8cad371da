//! `ping`.

use super::{CommandSpec, Reply, immediate};

/// `{ping: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["ping"],
    doc: "does nothing, successfully",
    needs_auth: false,
    parse: |_, _| immediate(|_| Ok(Reply::empty())),
    ..CommandSpec::BASE
};
