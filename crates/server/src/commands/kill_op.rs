//! `killOp` (facts/server.md 8).

use backfire_model::OpId;
use bson::doc;

use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Resource};
use crate::error::CommandError;
use crate::value::View;

/// `{killOp: 1, op: <opid>}`: always succeeds; the operation ends with 11601 at its next interrupt point.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["killOp"],
    doc: "tells an operation to stop",
    parse: |request, _| {
        let op = match request.get("op") {
            None => return Err(CommandError::new(4, "Missing expected field \"op\"")),
            Some(View::Int32(op)) => i64::from(op),
            Some(View::Int64(op)) => op,
            Some(View::Double(op)) => op as i64,
            Some(other) => {
                let found = other.type_name();
                return Err(CommandError::type_mismatch(format!(
                    "Expected field \"op\" to have numeric type, but found {found}"
                )));
            }
        };
        let op = i32::try_from(op).map_err(|_| {
            CommandError::new(26823, format!("invalid op : {op}. Op ID cannot be represented with 32 bits"))
        })?;
        immediate(move |run| {
            let may_kill_all = run.op.may(Action::KillOp, &Resource::Cluster);
            let target = run.shared().ops.find(OpId(op));
            // Everybody may end its own.
            let own = target.as_ref().is_some_and(|target| target.is_of_same_user(run.op));
            if !may_kill_all && !own {
                return Err(CommandError::new(13, "Unauthorized"));
            }
            if let Some(target) = target {
                target.kill(11601);
            }
            Reply::from_document(&doc! { "info": "attempting to kill op" })
        })
    },
    ..CommandSpec::ADMIN
};
