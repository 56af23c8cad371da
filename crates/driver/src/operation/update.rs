//! `updateOne`, `updateMany` and `replaceOne`.

use bson::{Bson, Document};

use backfire_model::Namespace;

use crate::bulk::model::{BulkWriteModel, ReplaceModel, Update, UpdateModel};
use crate::bulk::result::{BulkWriteResult, as_single_write};
use crate::error::Result;

use super::bulk_write::{run_bulk, write_options};
use super::options::options;
use super::{Execute, Request};

/// What an update or a replacement did.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateResult {
    /// False for `w: 0`.
    pub acknowledged: bool,
    /// Documents that matched.
    pub matched_count: u64,
    /// Documents that were changed.
    pub modified_count: u64,
    /// The `_id` of an upserted document.
    pub upserted_id: Option<Bson>,
}

impl From<BulkWriteResult> for UpdateResult {
    fn from(result: BulkWriteResult) -> Self {
        Self {
            acknowledged: result.acknowledged,
            matched_count: result.matched_count,
            modified_count: result.modified_count,
            upserted_id: result.upserted_ids.into_values().next(),
        }
    }
}

/// Updates one document. See [`crate::Collection::update_one`].
pub struct UpdateOne {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
    pub(crate) update: Update,
}

options!(UpdateOne: upsert, array_filters, bypass_document_validation, collation, comment, hint, let_vars, sort,
    raw_data, max_time, write_concern);

impl Execute for UpdateOne {
    type Output = UpdateResult;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let options = write_options(&request.options);
        let model = BulkWriteModel::UpdateOne(UpdateModel { filter: self.filter, update: self.update, options });
        let result = run_bulk(self.namespace, vec![model], true, request).await;
        result.map(UpdateResult::from).map_err(as_single_write)
    }
}

/// Updates all matching documents. Never retried. See [`crate::Collection::update_many`].
pub struct UpdateMany {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
    pub(crate) update: Update,
}

options!(UpdateMany: upsert, array_filters, bypass_document_validation, collation, comment, hint, let_vars,
    raw_data, max_time, write_concern);

impl Execute for UpdateMany {
    type Output = UpdateResult;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let options = write_options(&request.options);
        let model = BulkWriteModel::UpdateMany(UpdateModel { filter: self.filter, update: self.update, options });
        let result = run_bulk(self.namespace, vec![model], true, request).await;
        result.map(UpdateResult::from).map_err(as_single_write)
    }
}

/// Replaces one document. See [`crate::Collection::replace_one`].
pub struct ReplaceOne {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
    pub(crate) replacement: Document,
}

options!(ReplaceOne: upsert, bypass_document_validation, collation, comment, hint, let_vars, sort, raw_data, max_time,
    write_concern);

impl Execute for ReplaceOne {
    type Output = UpdateResult;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let options = write_options(&request.options);
        let model =
            BulkWriteModel::ReplaceOne(ReplaceModel { filter: self.filter, replacement: self.replacement, options });
        let result = run_bulk(self.namespace, vec![model], true, request).await;
        result.map(UpdateResult::from).map_err(as_single_write)
    }
}
