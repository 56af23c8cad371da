//! `startSession`.

use bson::{Binary, doc, spec::BinarySubtype};

use super::{CommandSpec, Reply, immediate};
use crate::sessions::SessionId;
use crate::sessions::catalog::timeout;

/// `{startSession: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["startSession"],
    doc: "makes a new session",
    parse: |_, _| {
        immediate(|run| {
            let shared = run.shared();
            let id = shared.new_uuid();
            shared.sessions.vivify(SessionId { id, uid: run.request.session_owner }, &shared.params)?;
            let id = Binary { subtype: BinarySubtype::Uuid, bytes: id.as_bytes().to_vec() };
            let minutes = timeout(&shared.params).as_secs().div_ceil(60) as i32;
            Reply::from_document(&doc! { "id": { "id": id }, "timeoutMinutes": minutes })
        })
    },
    ..CommandSpec::BASE
};
