//! Create, change, rename and drop collections; drop databases.

use bson::{Document, doc};

use backfire_model::Namespace;

use crate::error::Result;
use crate::execute::Plan;
use crate::retry::Operation;
use crate::topology::Criteria;

use super::count::is_missing_namespace;
use super::options::options;
use super::{Execute, Request, add_raw_data};

/// Creates a collection or view. See [`crate::Database::create_collection`].
pub struct CreateCollection {
    pub(crate) namespace: Namespace,
}

options!(CreateCollection: capped, change_stream_pre_and_post_images, clustered_index, collation, comment,
    expire_after_seconds, index_option_defaults, max_documents, max_time, raw_data, size, storage_engine, time_series,
    validation_action, validation_level, validator, view_on, view_pipeline);

/// What a `create` takes over from the options under their own names.
const CREATE_FIELDS: [&str; 16] = [
    "capped",
    "size",
    "max",
    "validator",
    "validationLevel",
    "validationAction",
    "storageEngine",
    "indexOptionDefaults",
    "viewOn",
    "pipeline",
    "collation",
    "clusteredIndex",
    "timeseries",
    "expireAfterSeconds",
    "changeStreamPreAndPostImages",
    "comment",
];

impl Execute for CreateCollection {
    type Output = ();

    async fn execute(self, request: Request) -> Result<Self::Output> {
        define(self.namespace.db, doc! {"create": self.namespace.coll}, &CREATE_FIELDS, request).await
    }
}

/// Changes a collection's definition. See [`crate::Database::modify_collection`].
pub struct ModifyCollection {
    pub(crate) namespace: Namespace,
}

options!(ModifyCollection: change_stream_pre_and_post_images, comment, expire_after_seconds, index, max_time, raw_data,
    validation_action, validation_level, validator, view_on, view_pipeline);

const MODIFY_FIELDS: [&str; 9] = [
    "validator",
    "validationLevel",
    "validationAction",
    "index",
    "viewOn",
    "pipeline",
    "expireAfterSeconds",
    "changeStreamPreAndPostImages",
    "comment",
];

impl Execute for ModifyCollection {
    type Output = ();

    async fn execute(self, request: Request) -> Result<Self::Output> {
        define(self.namespace.db, doc! {"collMod": self.namespace.coll}, &MODIFY_FIELDS, request).await
    }
}

/// Drops a collection; one that does not exist is dropped already. See [`crate::Collection::drop`].
pub struct DropCollection {
    pub(crate) namespace: Namespace,
}

options!(DropCollection: comment, max_time, raw_data);

impl Execute for DropCollection {
    type Output = ();

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let body = doc! {"drop": self.namespace.coll};
        match define(self.namespace.db, body, &["comment"], request).await {
            Err(error) if !is_missing_namespace(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Renames a collection. See [`crate::Collection::rename`].
pub struct RenameCollection {
    pub(crate) from: Namespace,
    pub(crate) to: Namespace,
}

options!(RenameCollection: comment, drop_target, max_time, raw_data);

impl Execute for RenameCollection {
    type Output = ();

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let body = doc! {"renameCollection": self.from.to_string(), "to": self.to.to_string()};
        define("admin".into(), body, &["dropTarget", "comment"], request).await
    }
}

/// Drops a database. See [`crate::Database::drop`].
pub struct DropDatabase {
    pub(crate) database: String,
}

options!(DropDatabase: comment, max_time);

impl Execute for DropDatabase {
    type Output = ();

    async fn execute(self, request: Request) -> Result<Self::Output> {
        define(self.database, doc! {"dropDatabase": 1}, &["comment"], request).await
    }
}

/// Runs a command that defines something. None of these is retried (facts/client.md A6).
async fn define(database: String, body: Document, fields: &'static [&'static str], mut request: Request) -> Result<()> {
    let mut call = request.start()?;
    let write_concern = request.definition_write_concern();
    let Request { options, .. } = request;
    let plan = Plan::new(Operation::PlainWrite, database, Criteria::Writable, move |wire_version| {
        let mut body = body.clone();
        options.copy_into(&mut body, fields);
        add_raw_data(&options, wire_version, &mut body);
        Ok(body)
    });
    plan.with_write_concern(write_concern).run(&mut call).await.map(drop)
}
