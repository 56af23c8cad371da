//! `killAllSessions`.

use super::kill_sessions::kill;
use super::{CommandSpec, Reply, immediate};
use crate::error::CommandError;
use crate::value::View;

/// `{killAllSessions: [{user, db}, …]}`; an empty list means all users.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["killAllSessions"],
    doc: "ends the operations and cursors of all sessions, or of those of some users",
    parse: |request, _| {
        let Some(View::Array(users)) = request.get("killAllSessions") else {
            return Err(CommandError::new(10065, "invalid parameter: expected an object (killAllSessions)"));
        };
        let first = users.iter().next().and_then(View::as_document);
        let named = first.map(|user| {
            let text = |field: &str| user.get(field).and_then(View::as_str).unwrap_or_default().to_owned();
            (text("user"), text("db"))
        });
        immediate(move |run| {
            // Nobody can be logged in, so there is no user to be found.
            if let Some((user, db)) = named {
                return Err(CommandError::new(11, format!("Could not find user \"{user}\" for db \"{db}\"")));
            }
            kill(run.shared(), Some(run.op.id), |_| true);
            Ok(Reply::empty())
        })
    },
    ..CommandSpec::BASE
};
