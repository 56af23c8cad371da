//! `listDatabases`.

use bson::{Bson, doc};

use super::list_indexes::flag;
use super::{CommandSpec, Reply, immediate};
use crate::query::Matcher;
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
        let name_only = flag(request, "nameOnly");
        immediate(move |run| {
            let shared = run.shared();
            let snapshot = shared.engine.snapshot();
            let (mut databases, mut total) = (Vec::new(), 0);
            for name in shared.catalog.databases() {
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
