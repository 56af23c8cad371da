//! `refreshSessions`.

use super::kill_sessions::own_sessions;
use super::{CommandSpec, Reply, immediate};

/// `{refreshSessions: [{id: UUID}, …]}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["refreshSessions"],
    doc: "keeps sessions from expiring",
    parse: |request, shared| {
        let sessions = own_sessions(request, shared, "refreshSessions")?;
        immediate(move |run| {
            for session in sessions {
                run.shared().sessions.vivify(session, &run.shared().params)?;
            }
            Ok(Reply::empty())
        })
    },
    ..CommandSpec::BASE
};
