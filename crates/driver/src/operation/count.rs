//! `countDocuments`, `estimatedDocumentCount`, and the old `count`.

use bson::{Bson, Document, doc};

use backfire_model::Namespace;

use crate::error::reply::number;
use crate::error::{DriverError, Result, codes};
use crate::execute::Plan;
use crate::retry::Operation;
use crate::topology::Criteria;

use super::options::options;
use super::{Execute, Request, add_raw_data};

/// Counts matching documents exactly, with an aggregation. See [`crate::Collection::count_documents`].
pub struct CountDocuments {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
}

options!(CountDocuments: skip, limit, collation, comment, hint, max_time, raw_data, read_concern, read_preference);

impl Execute for CountDocuments {
    type Output = u64;

    async fn execute(self, mut request: Request) -> Result<Self::Output> {
        let mut call = request.start()?;
        let (read_concern, preference) = (request.scope.read_concern.clone(), request.read_preference());
        let Request { options, .. } = request;
        let mut pipeline = vec![doc! {"$match": self.filter}];
        if let Some(skip) = options.number("skip").filter(|skip| *skip > 0) {
            pipeline.push(doc! {"$skip": skip});
        }
        if let Some(limit) = options.number("limit").filter(|limit| *limit != 0) {
            pipeline.push(doc! {"$limit": limit});
        }
        pipeline.push(doc! {"$group": {"_id": 1, "n": {"$sum": 1}}});
        let Namespace { db, coll } = self.namespace;
        let plan = Plan::new(Operation::Read, db, Criteria::Read(preference), move |wire_version| {
            let mut body = doc! {"aggregate": &coll, "pipeline": pipeline.clone(), "cursor": {}};
            options.copy_into(&mut body, &["collation", "hint", "comment"]);
            add_raw_data(&options, wire_version, &mut body);
            Ok(body)
        });
        let reply = plan.with_read_concern(read_concern).run(&mut call).await?;
        let batch = reply.document.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let first = batch.ok().and_then(|batch| batch.first()).and_then(Bson::as_document);
        Ok(first.map_or(0, |group| unsigned(group, "n")))
    }
}

/// Counts all documents from metadata. See [`crate::Collection::estimated_document_count`].
pub struct EstimatedDocumentCount {
    pub(crate) namespace: Namespace,
}

options!(EstimatedDocumentCount: comment, max_time, raw_data, read_concern, read_preference);

impl Execute for EstimatedDocumentCount {
    type Output = u64;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        run_count(self.namespace, None, request).await
    }
}

/// The `count` command with a filter, as drivers had it before `countDocuments`. See [`crate::Collection::count`].
pub struct Count {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
}

options!(Count: skip, limit, collation, comment, hint, max_time, raw_data, read_concern, read_preference);

impl Execute for Count {
    type Output = u64;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        run_count(self.namespace, Some(self.filter), request).await
    }
}

async fn run_count(namespace: Namespace, filter: Option<Document>, mut request: Request) -> Result<u64> {
    let mut call = request.start()?;
    let (read_concern, preference) = (request.scope.read_concern.clone(), request.read_preference());
    let Request { options, .. } = request;
    let Namespace { db, coll } = namespace;
    let plan = Plan::new(Operation::Read, db, Criteria::Read(preference), move |wire_version| {
        let mut body = doc! {"count": &coll};
        if let Some(filter) = &filter {
            body.insert("query", filter);
        }
        options.copy_into(&mut body, &["limit", "skip", "collation", "hint", "comment"]);
        add_raw_data(&options, wire_version, &mut body);
        Ok(body)
    });
    match plan.with_read_concern(read_concern).run(&mut call).await {
        Ok(reply) => Ok(unsigned(&reply.document, "n")),
        Err(error) if is_missing_namespace(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Whether the server says that there is no such collection.
pub(super) fn is_missing_namespace(error: &DriverError) -> bool {
    error.code() == Some(codes::NAMESPACE_NOT_FOUND)
}

fn unsigned(document: &Document, name: &str) -> u64 {
    number(document, name).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}
