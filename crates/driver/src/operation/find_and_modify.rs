//! `findOneAndUpdate`, `findOneAndReplace` and `findOneAndDelete`: the `findAndModify` command.

use bson::{Bson, Document, doc};

use backfire_model::Namespace;

use crate::bulk::model::{Update, check_replacement};
use crate::error::{DriverError, Result};
use crate::execute::Plan;
use crate::retry::Operation;
use crate::topology::Criteria;

use super::options::{Options, options};
use super::{Execute, Request, add_raw_data};

/// `hint` is refused before this wire version (4.2), where the server would not complain.
const WIRE_VERSION_HINT: i32 = 8;
/// And before this one (4.4) when nobody would hear the complaint.
const WIRE_VERSION_HINT_UNACKNOWLEDGED: i32 = 9;

/// Finds a document, updates it, and returns it. See [`crate::Collection::find_one_and_update`].
pub struct FindOneAndUpdate {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
    pub(crate) update: Update,
}

options!(FindOneAndUpdate: array_filters, bypass_document_validation, collation, comment, hint, let_vars, max_time,
    projection, raw_data, return_document, sort, upsert, write_concern);

/// Finds a document, replaces it, and returns it. See [`crate::Collection::find_one_and_replace`].
pub struct FindOneAndReplace {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
    pub(crate) replacement: Document,
}

options!(FindOneAndReplace: bypass_document_validation, collation, comment, hint, let_vars, max_time, projection,
    raw_data, return_document, sort, upsert, write_concern);

/// Finds a document, deletes it, and returns it. See [`crate::Collection::find_one_and_delete`].
pub struct FindOneAndDelete {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
}

options!(FindOneAndDelete: collation, comment, hint, let_vars, max_time, projection, raw_data, sort, write_concern);

impl Execute for FindOneAndUpdate {
    type Output = Option<Document>;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let update = self.update.to_bson()?;
        run(self.namespace, self.filter, Change::Update(update), request).await
    }
}

impl Execute for FindOneAndReplace {
    type Output = Option<Document>;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        check_replacement(&self.replacement)?;
        run(self.namespace, self.filter, Change::Update(Bson::Document(self.replacement)), request).await
    }
}

impl Execute for FindOneAndDelete {
    type Output = Option<Document>;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        run(self.namespace, self.filter, Change::Remove, request).await
    }
}

enum Change {
    Update(Bson),
    Remove,
}

impl Change {
    fn add_to(&self, options: &Options, body: &mut Document) {
        match self {
            Change::Remove => {
                body.insert("remove", true);
            }
            Change::Update(update) => {
                body.insert("new", options.text("returnDocument") == Some("After"));
                options.copy_into(body, &["upsert"]);
                body.insert("update", update);
            }
        }
    }
}

async fn run(namespace: Namespace, filter: Document, change: Change, mut request: Request) -> Result<Option<Document>> {
    let mut call = request.start()?;
    let write_concern = request.write_concern();
    call.check_write_concern(&write_concern)?;
    let acknowledged = write_concern.is_acknowledged();
    let Request { options, .. } = request;
    let plan = Plan::new(Operation::FindAndModify, namespace.db, Criteria::Writable, move |wire_version| {
        let since = if acknowledged { WIRE_VERSION_HINT } else { WIRE_VERSION_HINT_UNACKNOWLEDGED };
        if options.get("hint").is_some() && wire_version < since {
            return Err(DriverError::invalid_argument(format!("hint is not supported by wire version {wire_version}")));
        }
        let mut body = doc! {"findAndModify": &namespace.coll, "query": &filter};
        if let Some(projection) = options.document("projection") {
            body.insert("fields", projection);
        }
        options.copy_into(&mut body, &["sort"]);
        change.add_to(&options, &mut body);
        let names = ["bypassDocumentValidation", "collation", "arrayFilters", "hint", "comment", "let"];
        options.copy_into(&mut body, &names);
        add_raw_data(&options, wire_version, &mut body);
        Ok(body)
    });
    let reply = plan.with_write_concern(write_concern).run(&mut call).await?;
    Ok(reply.document.get_document("value").ok().cloned())
}
