//! `endSessions`.

use super::kill_sessions::own_sessions;
use super::{CommandSpec, Reply, immediate};

/// `{endSessions: [{id: UUID}, …]}`: takes effect at the next refresh; running operations go on (facts/server.md 2.9).
pub const SPEC: CommandSpec = CommandSpec {
    names: &["endSessions"],
    doc: "says that sessions are not needed any more",
    parse: |request, shared| {
        let sessions = own_sessions(request, shared, "endSessions")?;
        immediate(move |run| {
            run.shared().sessions.end(&sessions);
            Ok(Reply::empty())
        })
    },
    ..CommandSpec::BASE
};
