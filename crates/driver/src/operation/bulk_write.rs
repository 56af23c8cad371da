//! `bulkWrite` on a collection, and what all single writes share with it.

use bson::Bson;

use backfire_model::Namespace;

use crate::bulk::model::{BulkWriteModel, WriteOptions};
use crate::bulk::result::BulkWriteResult;
use crate::bulk::run::Bulk;
use crate::error::Result;

use super::options::{Options, options};
use super::{Execute, Request};

/// Executes a list of writes. See [`crate::Collection::bulk_write`].
pub struct BulkWrite {
    pub(crate) namespace: Namespace,
    pub(crate) models: Vec<BulkWriteModel>,
}

options!(BulkWrite: ordered, bypass_document_validation, comment, let_vars, raw_data, max_time, write_concern);

impl Execute for BulkWrite {
    type Output = BulkWriteResult;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let ordered = request.options.flag("ordered").unwrap_or(true);
        run_bulk(self.namespace, self.models, ordered, request).await
    }
}

/// Executes writes as a bulk.
pub(super) async fn run_bulk(
    namespace: Namespace,
    models: Vec<BulkWriteModel>,
    ordered: bool,
    mut request: Request,
) -> Result<BulkWriteResult> {
    let mut call = request.start()?;
    let write_concern = request.write_concern();
    Bulk { namespace, models, ordered, write_concern, options: request.options }.run(&mut call).await
}

/// The options of a single write that belong into its statement.
pub(super) fn write_options(options: &Options) -> WriteOptions {
    let filters = options.get("arrayFilters").and_then(Bson::as_array);
    WriteOptions {
        upsert: options.flag("upsert"),
        collation: options.document("collation").cloned(),
        hint: options.get("hint").cloned(),
        array_filters: filters
            .map(|filters| filters.iter().filter_map(|filter| filter.as_document().cloned()).collect()),
        sort: options.document("sort").cloned(),
    }
}
