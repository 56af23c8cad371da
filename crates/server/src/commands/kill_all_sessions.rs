//! `killAllSessions`.

use super::kill_sessions::kill;
use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Permission, User, UserName};
use crate::error::CommandError;
use crate::value::View;

/// `{killAllSessions: [{user, db}, …]}`; an empty list means all users.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["killAllSessions"],
    doc: "ends the operations and cursors of all sessions, or of those of some users",
    permission: Permission::Cluster(&[Action::KillAnySession]),
    parse: |request, _| {
        let Some(View::Array(users)) = request.get("killAllSessions") else {
            return Err(CommandError::new(10065, "invalid parameter: expected an object (killAllSessions)"));
        };
        let named = users.iter().filter_map(View::as_document).map(|user| {
            let text = |field: &str| user.get(field).and_then(View::as_str).unwrap_or_default();
            UserName::new(text("db"), text("user"))
        });
        let named: Vec<_> = named.collect();
        immediate(move |run| {
            if let Some(UserName { user, db }) = named.iter().find(|name| run.shared().users.get(name).is_none()) {
                return Err(CommandError::new(11, format!("Could not find user \"{user}\" for db \"{db}\"")));
            }
            let owners: Vec<_> = named.iter().map(User::session_owner).collect();
            kill(run.shared(), Some(run.op.id), |session| owners.is_empty() || owners.contains(&session.uid));
            Ok(Reply::empty())
        })
    },
    ..CommandSpec::BASE
};
