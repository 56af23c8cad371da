//! `logout`.

use super::{CommandSpec, Reply, immediate};

/// `{logout: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["logout"],
    doc: "ends the log-in of a user of the database on this connection",
    needs_auth: false,
    parse: |request, _| {
        let db = request.database()?.to_owned();
        immediate(move |run| {
            run.op.connection.login().log_out(&db);
            Ok(Reply::empty())
        })
    },
    ..CommandSpec::BASE
};
