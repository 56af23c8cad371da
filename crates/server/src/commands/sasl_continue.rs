//! `saslContinue`.

use super::{CommandSpec, Reply, idl, immediate};
use crate::auth::sasl::{self, Payload};
use crate::error::CommandError;

/// `{saslContinue: 1, conversationId, payload}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["saslContinue"],
    doc: "takes the next message of somebody who logs in",
    needs_auth: false,
    dies_with_client: true,
    parse: |request, _| {
        let id = request.get("conversationId");
        let id = id.ok_or_else(|| CommandError::new(4, "Missing expected field \"conversationId\""))?;
        let id = idl::whole_number(id).ok_or_else(|| {
            let found = id.type_name();
            CommandError::type_mismatch(format!(
                "\"conversationId\" had the wrong type. Expected number, found {found}"
            ))
        })?;
        let payload = Payload::read(request.document().into())?;
        let db = request.database()?.to_owned();
        immediate(move |run| {
            let reply = sasl::proceed(run.shared(), &run.op.connection, &db, id, &payload)?;
            Reply::from_document(&reply)
        })
    },
    ..CommandSpec::BASE
};
