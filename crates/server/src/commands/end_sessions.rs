//! `endSessions`.

use super::kill_sessions::session_list;
use super::{CommandSpec, Reply, immediate};

/// `{endSessions: [{id: UUID}, …]}`: takes effect at the next refresh; running operations go on (facts/server.md 2.9).
pub const SPEC: CommandSpec = CommandSpec {
    names: &["endSessions"],
    doc: "says that sessions are not needed any more",
    parse: |request, _| {
        let sessions = session_list(request, "endSessions")?;
        immediate(move |run| {
            run.shared().sessions.end(&sessions);
            Ok(Reply::empty())
        })
    },
    ..CommandSpec::BASE
};
