//! `listCollections`.

use bson::spec::BinarySubtype;
use bson::{Binary, RawDocumentBuf, doc};

use super::batch::{self, Shape};
use super::list_indexes::{batch_size, flag};
use super::{CommandSpec, Invocation, Run, Running};
use crate::auth::{Action, Permission};
use crate::cursors::from_list;
use crate::query::Matcher;
use crate::value::View;
use crate::value::view::to_raw;

/// `{listCollections: 1, filter: {…}, nameOnly: bool, cursor: {batchSize}}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["listCollections"],
    doc: "lists the collections of a database",
    dies_with_client: true,
    primary: super::PrimaryRule::UnlessSecondaryOk,
    permission: Permission::Database(&[Action::ListCollections]),
    parse: |request, shared| {
        let filter = match request.get("filter").and_then(View::as_document) {
            Some(filter) => filter.to_document()?,
            None => doc! {},
        };
        Ok(Box::new(ListCollections {
            db: request.database()?.to_owned(),
            filter: Matcher::parse(&to_raw(&filter)?, &shared.query_context(None))?,
            name_only: flag(request, "nameOnly"),
            batch_size: batch_size(request),
        }))
    },
    ..CommandSpec::BASE
};

struct ListCollections {
    db: String,
    filter: Matcher,
    name_only: bool,
    batch_size: Option<usize>,
}

impl Invocation for ListCollections {
    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let mut documents = Vec::new();
            for collection in run.shared().catalog.collections_of(&self.db) {
                let mut entry = doc! { "name": collection.ns.coll.clone(), "type": "collection" };
                if !self.name_only {
                    let uuid = Binary { subtype: BinarySubtype::Uuid, bytes: collection.uuid.as_bytes().to_vec() };
                    entry.insert("options", collection.options.read().clone());
                    entry.insert("info", doc! { "readOnly": false, "uuid": uuid });
                    if let Some(index) = collection.id_index() {
                        entry.insert("idIndex", index.spec.clone());
                    }
                }
                let raw: RawDocumentBuf = to_raw(&entry)?;
                if self.filter.matches(&raw)? {
                    documents.push(batch::value(&raw));
                }
            }
            for view in run.shared().catalog.views_of(&self.db) {
                let mut entry = doc! { "name": view.ns.coll.clone(), "type": "view" };
                if !self.name_only {
                    entry.extend(doc! { "options": view.options(), "info": { "readOnly": true } });
                }
                let raw: RawDocumentBuf = to_raw(&entry)?;
                if self.filter.matches(&raw)? {
                    documents.push(batch::value(&raw));
                }
            }
            let ns = format!("{}.$cmd.listCollections", self.db);
            batch::first(&run, ns, from_list(documents), self.batch_size, false, Shape::BatchLast, false).await
        })
    }
}
