//! `profile`: there is no profiler, and it can be asked for.

use bson::doc;

use super::{CommandSpec, Reply, idl, immediate};
use crate::auth::{Action, Permission};
use crate::error::fail;

/// `{profile: -1 | 0}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["profile"],
    doc: "tells that the profiler is off",
    permission: Permission::Database(&[Action::EnableProfiler]),
    parse: |request, _| {
        idl::only(request, "profile", &["slowms", "sampleRate", "filter"])?;
        match request.get("profile").and_then(idl::whole_number) {
            Some(level) if level <= 0 => {}
            Some(_) => return fail(115, "this server has no profiler"),
            None => return fail(14, "BSON field 'profile.profile' is the wrong type, expected type 'int'"),
        }
        immediate(|_| Reply::from_document(&doc! { "was": 0, "slowms": 100, "sampleRate": 1.0 }))
    },
    ..CommandSpec::BASE
};
