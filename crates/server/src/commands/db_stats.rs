//! `dbStats`.

use super::{CommandSpec, PrimaryRule, Reply, idl, immediate};
use crate::auth::{Action, Permission};
use crate::stats;

/// `{dbStats: 1, scale}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["dbStats", "dbstats"],
    doc: "tells how large a database is",
    primary: PrimaryRule::UnlessSecondaryOk,
    permission: Permission::Database(&[Action::DbStats]),
    parse: |request, _| {
        let (database, scale) = (request.database()?.to_owned(), idl::scale(request)?);
        immediate(move |run| Reply::from_document(&stats::of_database(run.shared(), &database, scale)))
    },
    ..CommandSpec::BASE
};
