//! `isMaster`: the older spelling of `hello`, which drivers still use for the first handshake.

use super::CommandSpec;
use super::hello::{Spelling, parse};

/// `{isMaster: 1, …}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["isMaster", "ismaster"],
    doc: "tells what this node is; the older spelling of hello",
    needs_auth: false,
    dies_with_client: true,
    parse: |request, shared| parse(request, shared, Spelling::IsMaster),
    ..CommandSpec::BASE
};
