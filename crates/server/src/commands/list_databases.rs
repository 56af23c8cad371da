//! `listDatabases`.

use bson::{Bson, doc};

use super::list_indexes::flag;
use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Resource};
use crate::query::Matcher;
use crate::stages::authorization;
use crate::value::View;
use crate::value::view::to_raw;

/// `{listDatabases: 1, filter: {…}, nameOnly: bool}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["listDatabases"],
    doc: "lists the databases",
    dies_with_client: true,
    primary: super::PrimaryRule::UnlessSecondaryOk,
    parse: |request, shared| {
        let filter = match request.get("filter").and_then(View::as_document) {
            Some(filter) => filter.to_document()?,
            None => doc! {},
        };
        let filter = Matcher::parse(&to_raw(&filter)?, &shared.query_context(None))?;
        let authorized = request.get("authorizedDatabases").map(View::is_true);
        let name_only = flag(request, "nameOnly");
        immediate(move |run| {
            let shared = run.shared();
            let snapshot = shared.engine.snapshot();
            let (mut databases, mut total) = (Vec::new(), 0);
            let may_list = run.op.may(Action::ListDatabases, &Resource::Cluster);
            let may_see_all = !shared.auth || (may_list && authorized != Some(true));
            if authorized == Some(false) && !may_see_all {
                return Err(authorization::refusal(run.op, run.request));
            }
            let user = run.op.user();
            let sees = |db: &str| user.as_ref().is_some_and(|user| user.roles.iter().any(|role| role.touches(db)));
            for name in shared.catalog.databases() {
                if !may_see_all && !sees(&name) {
                    continue;
                }
                let mut entry = doc! { "name": name.clone() };
                if !name_only {
                    let collections = shared.catalog.collections_of(&name);
                    let size: i64 = collections.iter().map(|collection| collection.data_size(&*snapshot) as i64).sum();
                    let empty = collections.iter().all(|collection| collection.count(&*snapshot) == 0);
                    entry.insert("sizeOnDisk", Bson::Int64(size));
                    entry.insert("empty", empty);
                    total += size;
                }
                if filter.matches(&to_raw(&entry)?)? {
                    databases.push(Bson::Document(entry));
                }
            }
            let mut reply = doc! { "databases": databases };
            if !name_only {
                reply.insert("totalSize", total);
            }
            Reply::from_document(&reply)
        })
    },
    ..CommandSpec::ADMIN
};
