//! `insertOne` and `insertMany`.

use std::collections::BTreeMap;

use bson::{Bson, Document};

use backfire_model::Namespace;

use crate::bulk::model::BulkWriteModel;
use crate::bulk::result::as_single_write;
use crate::error::Result;

use super::bulk_write::run_bulk;
use super::options::options;
use super::{Execute, Request};

/// Inserts one document. See [`crate::Collection::insert_one`].
pub struct InsertOne {
    pub(crate) namespace: Namespace,
    pub(crate) document: Document,
}

options!(InsertOne: bypass_document_validation, comment, raw_data, max_time, write_concern);

/// What [`InsertOne`] did.
#[derive(Debug, Clone, PartialEq)]
pub struct InsertOneResult {
    /// False for `w: 0`.
    pub acknowledged: bool,
    /// The document's `_id`.
    pub inserted_id: Bson,
}

impl Execute for InsertOne {
    type Output = InsertOneResult;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let mut document = self.document;
        let random = request.scope.client.random.clone();
        let inserted_id = crate::bulk::model::ensure_id(&mut document, || random.object_id());
        let models = vec![BulkWriteModel::InsertOne { document }];
        let result = run_bulk(self.namespace, models, true, request).await.map_err(as_single_write)?;
        Ok(InsertOneResult { acknowledged: result.acknowledged, inserted_id })
    }
}

/// Inserts documents. See [`crate::Collection::insert_many`].
pub struct InsertMany {
    pub(crate) namespace: Namespace,
    pub(crate) documents: Vec<Document>,
}

options!(InsertMany: ordered, bypass_document_validation, comment, raw_data, max_time, write_concern);

/// What [`InsertMany`] did.
#[derive(Debug, Clone, PartialEq)]
pub struct InsertManyResult {
    /// False for `w: 0`.
    pub acknowledged: bool,
    /// The `_id` of each document, by its position.
    pub inserted_ids: BTreeMap<usize, Bson>,
}

impl Execute for InsertMany {
    type Output = InsertManyResult;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let ordered = request.options.flag("ordered").unwrap_or(true);
        let models = self.documents.into_iter().map(|document| BulkWriteModel::InsertOne { document }).collect();
        let result = run_bulk(self.namespace, models, ordered, request).await?;
        Ok(InsertManyResult { acknowledged: result.acknowledged, inserted_ids: result.inserted_ids })
    }
}
