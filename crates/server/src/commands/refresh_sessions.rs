//! `refreshSessions`.

use super::kill_sessions::session_list;
use super::{CommandSpec, Reply, immediate};

/// `{refreshSessions: [{id: UUID}, …]}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["refreshSessions"],
    doc: "keeps sessions from expiring",
    parse: |request, _| {
        let sessions = session_list(request, "refreshSessions")?;
        immediate(move |run| {
            for session in sessions {
                run.shared().sessions.vivify(session, &run.shared().params)?;
            }
            Ok(Reply::empty())
        })
    },
    ..CommandSpec::BASE
};
