//! `dropIndexes`.

use backfire_model::Namespace;
use bson::{Bson, doc};

use super::{CommandSpec, Invocation, Reply, Run, Running, idl};
use crate::auth::{Action, Permission};
use crate::error::{CommandError, Result};
use crate::stages::locks::{Access, enter};
use crate::storage::collection::Collection;
use crate::value::{View, text};

/// `{dropIndexes: collection, index: name | [names] | key pattern | "*"}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["dropIndexes", "deleteIndexes"],
    doc: "removes indexes",
    permission: Permission::Collection(&[Action::DropIndex]),
    parse: |request, _| {
        let ns = idl::collection(request)?;
        let index = request.get("index").ok_or_else(|| idl::missing("dropIndexes", "index"))?.to_bson()?;
        Ok(Box::new(DropIndexes { ns, index }))
    },
    ..CommandSpec::DDL
};

struct DropIndexes {
    ns: Namespace,
    index: Bson,
}

impl Invocation for DropIndexes {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let shared = run.shared();
            run.op.view().ns = self.ns.to_string();
            let inside = enter(run.op, &self.ns, Access::ChangeCollection).await?;
            let collection = shared.catalog.get(&self.ns).ok_or_else(|| CommandError::new(26, "ns not found"))?;
            let before = collection.indexes().len() as i32;
            let mut reply = doc! { "nIndexesWas": before };
            let names = names(&collection, &self.index)?;
            if self.index == Bson::String("*".into()) {
                reply.insert("msg", "non-_id indexes dropped for collection");
            }
            for name in names {
                shared.catalog.drop_index(&collection, &name);
            }
            shared.topology.next_op_time(&shared.clock);
            drop(inside);
            Ok(Reply::from_document(&reply)?)
        })
    }
}

/// The names of the indexes to drop.
fn names(collection: &Collection, wanted: &Bson) -> Result<Vec<String>> {
    match wanted {
        Bson::String(all) if all == "*" => {
            Ok(collection.indexes().iter().map(|index| index.name.clone()).filter(|name| name != "_id_").collect())
        }
        Bson::String(name) => named(collection, name).map(|name| vec![name]),
        Bson::Array(list) => list
            .iter()
            .map(|name| match name {
                Bson::String(name) => named(collection, name),
                other => Err(CommandError::type_mismatch(format!(
                    "dropIndexes with an array of index names requires strings, but found {}",
                    View::from(other).type_name()
                ))),
            })
            .collect(),
        Bson::Document(key) => {
            let indexes = collection.indexes();
            let found = indexes.iter().find(|index| index.key_pattern() == *key);
            let found = found
                .ok_or_else(|| CommandError::new(27, format!("can't find index with key: {}", text::document(key))))?;
            named(collection, &found.name).map(|name| vec![name])
        }
        other => Err(CommandError::new(
            9,
            format!(
                "dropIndexes 'index' must be a string, an array of strings or an object, but found {}",
                View::from(other).type_name()
            ),
        )),
    }
}

fn named(collection: &Collection, name: &str) -> Result<String> {
    if name == "_id_" {
        return Err(CommandError::new(72, "cannot drop _id index"));
    }
    if collection.indexes().iter().any(|index| index.name == name) {
        return Ok(name.to_owned());
    }
    Err(CommandError::new(27, format!("index not found with name [{name}]")))
}
