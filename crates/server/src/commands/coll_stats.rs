//! `collStats`.

use super::{CommandSpec, PrimaryRule, Reply, idl, immediate};
use crate::auth::{Action, Permission};
use crate::stats;

/// `{collStats: collection, scale}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["collStats", "collstats"],
    doc: "tells how large a collection and its indexes are",
    primary: PrimaryRule::UnlessSecondaryOk,
    permission: Permission::Collection(&[Action::CollStats]),
    parse: |request, _| {
        let (ns, scale) = (idl::collection(request)?, idl::scale(request)?);
        immediate(move |run| Reply::from_document(&stats::of_collection(run.shared(), &ns, scale)))
    },
    ..CommandSpec::BASE
};
