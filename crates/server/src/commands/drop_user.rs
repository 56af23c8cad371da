//! `dropUser`.

use super::{CommandSpec, Reply, immediate, user_fields};
use crate::auth::{Action, Permission};
use crate::error::CommandError;

/// `{dropUser: name}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["dropUser"],
    doc: "removes a user; connections that it is logged in on are nobody's then",
    permission: Permission::Database(&[Action::DropUser]),
    parse: |request, _| {
        let name = user_fields::name(request, "dropUser")?;
        immediate(move |run| {
            if run.shared().users.remove(&name) {
                return Ok(Reply::empty());
            }
            Err(CommandError::new(11, format!("User '{name}' not found")))
        })
    },
    ..CommandSpec::DDL
};
