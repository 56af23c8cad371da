//! `killSessions`, and what its relatives share (facts/server.md 2.9).

use std::collections::HashSet;

use super::{CommandSpec, Reply, immediate};
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::server::Shared;
use crate::sessions::SessionId;
use crate::stages::session_fields;
use crate::value::View;

/// `{killSessions: [{id: UUID}, …]}`; an empty list means all.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["killSessions"],
    doc: "ends the operations and cursors of sessions; what they did stays remembered",
    parse: |request, _| {
        let sessions: HashSet<_> = session_list(request, "killSessions")?.into_iter().collect();
        immediate(move |run| {
            let all = sessions.is_empty();
            kill(run.shared(), Some(run.op.id), |session| all || sessions.contains(session));
            Ok(Reply::empty())
        })
    },
    ..CommandSpec::BASE
};

/// Aborts the open transactions of the chosen sessions, then kills, with 11601, every operation of theirs, wherever it stands, and then the cursors. The retry
/// history stays.
pub(super) fn kill(shared: &Shared, except: Option<backfire_model::OpId>, chosen: impl Fn(&SessionId) -> bool) {
    for (session, holder) in shared.sessions.abort_open(|session, _| chosen(session)) {
        tracing::debug!(%session, ?holder, "transaction aborted: its session is killed");
    }
    for op in shared.ops.all() {
        let lsid = op.view().lsid;
        if Some(op.id) != except && lsid.is_some_and(|lsid| chosen(&lsid)) {
            op.kill(11601);
        }
    }
    shared.cursors.kill_of_sessions_where(chosen);
}

/// Reads the list of sessions in the field `command`.
pub(super) fn session_list(request: &Request, command: &str) -> Result<Vec<SessionId>> {
    let Some(View::Array(list)) = request.get(command) else {
        return Err(CommandError::new(10065, format!("invalid parameter: expected an object ({command})")));
    };
    list.iter().map(|entry| session_fields::lsid_document(entry, command)).collect()
}
