//! `renameCollection`.

use backfire_model::Namespace;

use super::{CommandSpec, Invocation, Reply, Run, Running, idl};
use crate::auth::{Action, Needs, Permission, Resource};
use crate::error::{CommandError, Result, fail};
use crate::net::Request;
use crate::stages::locks::{Access, enter};
use crate::value::View;

/// `{renameCollection: "db.from", to: "db.to", dropTarget: bool}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["renameCollection"],
    doc: "gives a collection another name",
    admin_only: true,
    permission: Permission::Computed(needs),
    parse: |request, _| {
        idl::only(request, "renameCollection", &["to", "dropTarget", "stayTemp"])?;
        let ns = |field: &str| -> Result<Namespace> {
            match request.get(field) {
                Some(View::String(ns)) => match ns.split_once('.') {
                    Some((database, collection)) => idl::namespace(database, collection),
                    None => fail(73, format!("Invalid namespace specified '{ns}'")),
                },
                Some(other) => Err(idl::wrong_type("renameCollection", field, other, "string")),
                None => Err(idl::missing("renameCollection", field)),
            }
        };
        let (from, to) = (ns("renameCollection")?, ns("to")?);
        if from == to {
            return fail(20, "Can't rename a collection to itself");
        }
        if from.coll.starts_with("system.") || to.coll.starts_with("system.") {
            return fail(20, "renaming system collections is not allowed");
        }
        let drop_target = request.get("dropTarget").is_some_and(View::is_true);
        Ok(Box::new(RenameCollection { from, to, drop_target }))
    },
    ..CommandSpec::DDL
};

fn needs(request: &Request, needs: &mut Needs) {
    let ns = |field: &str| request.get(field).and_then(View::as_str).and_then(Namespace::parse);
    let (Some(from), Some(to)) = (ns("renameCollection"), ns("to")) else { return };
    let same = from.db == to.db;
    let (from, to) = (Resource::Collection(from), Resource::Collection(to));
    if same {
        needs.add(Action::RenameCollectionSameDb, from);
        needs.add(Action::RenameCollectionSameDb, to.clone());
    } else {
        needs.all(&[Action::Find, Action::DropCollection], &from);
        needs.all(&[Action::Insert, Action::CreateIndex], &to);
    }
    if request.get("dropTarget").is_some_and(View::is_true) {
        needs.add(Action::DropCollection, to);
    }
}

struct RenameCollection {
    from: Namespace,
    to: Namespace,
    drop_target: bool,
}

impl Invocation for RenameCollection {
    fn namespace(&self) -> Option<String> {
        Some(self.from.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let shared = run.shared();
            run.op.view().ns = self.from.to_string();
            // Two databases are always taken in the order of their names.
            let (first, second) =
                if self.from.db <= self.to.db { (&self.from, &self.to) } else { (&self.to, &self.from) };
            let inside = enter(run.op, first, Access::ChangeDatabase).await?;
            let other = match first.db == second.db {
                true => None,
                false => Some(enter(run.op, second, Access::ChangeDatabase).await?),
            };
            if shared.catalog.is_view(&self.from) {
                return Err(CommandError::new(166, format!("cannot rename view: {}", self.from)).into());
            }
            let taken = shared.catalog.get(&self.to).is_some();
            if shared.catalog.is_view(&self.to) || (taken && !self.drop_target) {
                return Err(CommandError::new(48, "target namespace exists").into());
            }
            shared.catalog.rename(&self.from, &self.to)?;
            for ns in [&self.from, &self.to] {
                shared.cursors.kill_of_namespace(&ns.to_string());
            }
            shared.topology.next_op_time(&shared.clock);
            drop((other, inside));
            Ok(Reply::empty())
        })
    }
}
