//! `dropDatabase`.

use backfire_model::Namespace;
use bson::doc;

use super::{CommandSpec, Invocation, Reply, Run, Running};
use crate::auth::{Action, Permission};
use crate::error::CommandError;
use crate::stages::locks::{Access, enter};

/// `{dropDatabase: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["dropDatabase"],
    doc: "removes a database",
    permission: Permission::Database(&[Action::DropDatabase]),
    parse: |request, _| Ok(Box::new(DropDatabase { db: request.database()?.to_owned() })),
    ..CommandSpec::DDL
};

struct DropDatabase {
    db: String,
}

impl Invocation for DropDatabase {
    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let shared = run.shared();
            if matches!(self.db.as_str(), "admin" | "config" | "local") {
                let text = format!("Cannot drop '{}' database", self.db);
                return Err(CommandError::new(20, text).into());
            }
            let inside = enter(run.op, &Namespace::new(self.db.clone(), "$cmd"), Access::ChangeDatabase).await?;
            let collections = shared.catalog.collections_of(&self.db);
            for collection in &collections {
                shared.catalog.drop(&collection.ns);
                shared.cursors.kill_of_namespace(&collection.ns.to_string());
            }
            let views = shared.catalog.views_of(&self.db);
            for view in &views {
                shared.catalog.drop_view(&view.ns);
            }
            drop(inside);
            if collections.is_empty() && views.is_empty() {
                return Ok(Reply::empty());
            }
            shared.topology.next_op_time(&shared.clock);
            Ok(Reply::from_document(&doc! { "dropped": self.db })?)
        })
    }
}
