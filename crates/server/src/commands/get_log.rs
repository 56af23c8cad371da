//! `getLog`.

use bson::{Bson, doc};

use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Permission};
use crate::error::CommandError;
use crate::value::View;

/// The logs there are.
const LOGS: [&str; 2] = ["global", "startupWarnings"];

/// `{getLog: "global" | "startupWarnings" | "*"}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["getLog"],
    doc: "shows recent log lines; this server logs to stderr and keeps none",
    permission: Permission::Cluster(&[Action::GetLog]),
    parse: |request, _| {
        let name = match request.get("getLog") {
            Some(View::String(name)) => name.to_owned(),
            Some(other) => {
                let found = other.type_name();
                return Err(CommandError::type_mismatch(format!(
                    "Argument to getLog must be of type String; found {found} of type {found}"
                )));
            }
            None => String::new(),
        };
        immediate(move |_| match name.as_str() {
            "*" => Reply::from_document(&doc! { "names": LOGS.map(Bson::from).to_vec() }),
            name if LOGS.contains(&name) => Reply::from_document(&doc! { "totalLinesWritten": 0, "log": [] }),
            other => Ok(Reply::bare_failure(format!("no RamLog named: {other}"))),
        })
    },
    ..CommandSpec::ADMIN
};
