//! `saslStart`.

use super::{CommandSpec, Reply, immediate};
use crate::auth::sasl::Start;

/// `{saslStart: 1, mechanism, payload, options: {skipEmptyExchange}}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["saslStart"],
    doc: "begins to log in a user of the database by SCRAM",
    needs_auth: false,
    dies_with_client: true,
    parse: |request, _| {
        let start = Start::read(request.document().into())?;
        let db = request.database()?.to_owned();
        immediate(move |run| {
            let reply = start.run(run.shared(), &run.op.connection, &db, false)?;
            Reply::from_document(&reply)
        })
    },
    ..CommandSpec::BASE
};
