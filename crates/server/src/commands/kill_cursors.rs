//! `killCursors`.

use backfire_model::Namespace;
use bson::{Bson, doc};

use super::{CommandSpec, Reply, idl, immediate};
use crate::auth::{Action, Resource};
use crate::cursors::Killed;
use crate::stages::authorization;
use crate::value::View;

/// `{killCursors: collection, cursors: [id, …]}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["killCursors"],
    doc: "closes cursors",
    in_transactions: true,
    parse: |request, _| {
        idl::collection(request)?;
        let Some(value) = request.get("cursors") else { return Err(idl::missing("killCursors", "cursors")) };
        let View::Array(list) = value else { return Err(idl::wrong_type("killCursors", "cursors", value, "array")) };
        let mut ids = Vec::new();
        for id in list.iter() {
            match id {
                View::Int64(id) => ids.push(id),
                other => return Err(idl::wrong_type("killCursors", "cursors", other, "long")),
            }
        }
        immediate(move |run| {
            let cursors = &run.shared().cursors;
            // Everybody may close its own.
            let may_kill = |id: &i64| match cursors.of(*id) {
                Some((ns, owner)) if owner != run.request.session_owner => {
                    Namespace::parse(&ns).is_some_and(|ns| run.op.may(Action::KillCursors, &Resource::Collection(ns)))
                }
                _ => true,
            };
            if !ids.iter().all(may_kill) {
                return Err(authorization::refusal(run.op, run.request));
            }
            let (killed, not_found): (Vec<i64>, Vec<i64>) =
                ids.into_iter().partition(|id| cursors.kill(*id) == Killed::Yes);
            let list = |ids: Vec<i64>| ids.into_iter().map(Bson::Int64).collect::<Vec<_>>();
            Reply::from_document(&doc! {
                "cursorsKilled": list(killed), "cursorsNotFound": list(not_found), "cursorsAlive": [], "cursorsUnknown": [],
            })
        })
    },
    ..CommandSpec::BASE
};
