//! `killSessions`, and what its relatives share (facts/server.md 2.9).

use std::collections::HashSet;

use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Resource};
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::server::Shared;
use crate::sessions::SessionId;
use crate::stages::{authorization, session_fields};
use crate::value::View;

/// `{killSessions: [{id: UUID}, …]}`; an empty list means all.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["killSessions"],
    doc: "ends the operations and cursors of sessions; what they did stays remembered",
    parse: |request, _| {
        let sessions: HashSet<_> = session_list(request, "killSessions")?.into_iter().collect();
        immediate(move |run| {
            let all = sessions.is_empty();
            let owner = run.request.session_owner;
            // All sessions are all of one's own, where there are users.
            let own = |session: &SessionId| !run.op.shared.auth || session.uid == owner;
            if !sessions.iter().all(own) && !run.op.may(Action::KillAnySession, &Resource::Cluster) {
                return Err(authorization::refusal(run.op, run.request));
            }
            let chosen = |session: &SessionId| if all { own(session) } else { sessions.contains(session) };
            kill(run.shared(), Some(run.op.id), chosen);
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
    let read = |entry| session_fields::lsid_document(entry, command, request.session_owner);
    list.iter().map(read).collect()
}

/// The same, where nobody may name the sessions of others.
pub(super) fn own_sessions(request: &Request, shared: &Shared, command: &str) -> Result<Vec<SessionId>> {
    let sessions = session_list(request, command)?;
    sessions.iter().try_for_each(|session| session_fields::check_owner(session, request, shared))?;
    Ok(sessions)
}
