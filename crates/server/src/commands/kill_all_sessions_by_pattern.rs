//! `killAllSessionsByPattern`.

use super::kill_sessions::kill;
use super::{CommandSpec, Reply, idl, immediate};
use crate::auth::{Action, Permission};
use crate::error::CommandError;
use crate::sessions::SessionId;
use crate::stages::session_fields::lsid_document;
use crate::value::View;

const STRUCT: &str = "KillAllSessionsByPatternCmd.killAllSessionsByPattern";

/// What a pattern picks.
enum Pattern {
    Session(SessionId),
    User([u8; 32]),
    All,
}

/// `{killAllSessionsByPattern: [{lsid} | {uid} | {users, roles}, …]}`; an empty list means all.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["killAllSessionsByPattern"],
    doc: "ends the operations and cursors of the sessions that match a pattern",
    permission: Permission::Cluster(&[Action::KillAnySession]),
    parse: |request, _| {
        let Some(View::Array(list)) = request.get("killAllSessionsByPattern") else {
            return Err(CommandError::new(10065, "invalid parameter: expected an object (killAllSessionsByPattern)"));
        };
        let mut patterns = Vec::new();
        for entry in list.iter() {
            let Some(entry) = entry.as_document() else {
                return Err(idl::wrong_type(
                    "KillAllSessionsByPatternCmd",
                    "killAllSessionsByPattern",
                    entry,
                    "object",
                ));
            };
            let mut pattern = Pattern::All;
            for (name, value) in entry.iter() {
                match name {
                    "lsid" => pattern = Pattern::Session(lsid_document(value, STRUCT, request.session_owner)?),
                    "uid" => match value {
                        View::Binary { bytes, .. } if bytes.len() == 32 => {
                            pattern = Pattern::User(bytes.try_into().expect("32 bytes"));
                        }
                        other => return Err(idl::wrong_type(STRUCT, "uid", other, "binData")),
                    },
                    "users" | "roles" => {}
                    other => return Err(idl::unknown(STRUCT, other)),
                }
            }
            patterns.push(pattern);
        }
        if patterns.is_empty() {
            patterns.push(Pattern::All);
        }
        immediate(move |run| {
            kill(run.shared(), Some(run.op.id), |session| {
                patterns.iter().any(|pattern| match pattern {
                    Pattern::Session(wanted) => wanted == session,
                    Pattern::User(uid) => *uid == session.uid,
                    Pattern::All => true,
                })
            });
            Ok(Reply::empty())
        })
    },
    ..CommandSpec::BASE
};
