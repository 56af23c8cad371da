//! `deleteOne` and `deleteMany`.

use bson::Document;

use backfire_model::Namespace;

use crate::bulk::model::{BulkWriteModel, WriteFilter};
use crate::bulk::result::{BulkWriteResult, as_single_write};
use crate::error::Result;

use super::bulk_write::{run_bulk, write_options};
use super::options::options;
use super::{Execute, Request};

/// What a delete did.
#[derive(Debug, Clone, PartialEq)]
pub struct DeleteResult {
    /// False for `w: 0`.
    pub acknowledged: bool,
    /// Documents deleted.
    pub deleted_count: u64,
}

impl From<BulkWriteResult> for DeleteResult {
    fn from(result: BulkWriteResult) -> Self {
        Self { acknowledged: result.acknowledged, deleted_count: result.deleted_count }
    }
}

/// Deletes one document. See [`crate::Collection::delete_one`].
pub struct DeleteOne {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
}

options!(DeleteOne: collation, comment, hint, let_vars, raw_data, max_time, write_concern);

impl Execute for DeleteOne {
    type Output = DeleteResult;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let options = write_options(&request.options);
        let model = BulkWriteModel::DeleteOne(WriteFilter { filter: self.filter, options });
        let result = run_bulk(self.namespace, vec![model], true, request).await;
        result.map(DeleteResult::from).map_err(as_single_write)
    }
}

/// Deletes all matching documents. Never retried. See [`crate::Collection::delete_many`].
pub struct DeleteMany {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
}

options!(DeleteMany: collation, comment, hint, let_vars, raw_data, max_time, write_concern);

impl Execute for DeleteMany {
    type Output = DeleteResult;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let options = write_options(&request.options);
        let model = BulkWriteModel::DeleteMany(WriteFilter { filter: self.filter, options });
        let result = run_bulk(self.namespace, vec![model], true, request).await;
        result.map(DeleteResult::from).map_err(as_single_write)
    }
}
