//! `drop`.

use backfire_model::Namespace;
use bson::doc;

use super::{CommandSpec, Invocation, Reply, Run, Running, idl};
use crate::auth::{Action, Permission};
use crate::error::CommandError;
use crate::stages::locks::{Access, enter};

/// `{drop: collection}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["drop"],
    doc: "removes a collection or a view",
    permission: Permission::Collection(&[Action::DropCollection]),
    parse: |request, _| Ok(Box::new(Drop { ns: idl::collection(request)? })),
    ..CommandSpec::DDL
};

struct Drop {
    ns: Namespace,
}

impl Invocation for Drop {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let shared = run.shared();
            run.op.view().ns = self.ns.to_string();
            let inside = enter(run.op, &self.ns, Access::ChangeCollection).await?;
            if shared.catalog.drop_view(&self.ns) {
                shared.topology.next_op_time(&shared.clock);
                return Ok(Reply::from_document(&doc! { "ns": self.ns.to_string() })?);
            }
            let Some(dropped) = shared.catalog.drop(&self.ns) else {
                if shared.profile.drop_missing_is_ok {
                    return Ok(Reply::empty());
                }
                return Err(CommandError::new(26, "ns not found").into());
            };
            shared.cursors.kill_of_namespace(&self.ns.to_string());
            if self.ns == Namespace::new("config", "transactions") {
                shared.sessions.invalidate_all();
            }
            shared.topology.next_op_time(&shared.clock);
            drop(inside);
            let indexes = dropped.indexes().len() as i32;
            Ok(Reply::from_document(&doc! { "nIndexesWas": indexes, "ns": self.ns.to_string() })?)
        })
    }
}
