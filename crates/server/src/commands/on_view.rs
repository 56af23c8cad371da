//! Reads on views: `find`, `count` and `distinct` become pipelines.

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use bson::{Bson, Document, doc};

use super::{Reply, Run};
use crate::error::fail;
use crate::net::Request;
use crate::pipeline::Failed;
use crate::value::View;
use crate::value::view::to_raw;
use crate::write::results::append_number;

/// Options of `find` that a view has not (4.4).
const NOT_ON_VIEWS: &[&str] = &["min", "max", "returnKey", "showRecordId", "tailable", "awaitData", "noCursorTimeout"];

/// The fields of a request that a pipeline takes as they are.
const SHARED: &[&str] = &["collation", "let", "maxTimeMS", "readConcern", "comment", "lsid", "$db", "$readPreference"];

fn field(request: &Request, name: &str) -> Option<Bson> {
    request.get(name).and_then(|value| value.to_bson().ok())
}

fn object(request: &Request, name: &str) -> Option<Document> {
    let object = field(request, name)?.as_document().cloned()?;
    (!object.is_empty()).then_some(object)
}

fn positive(request: &Request, name: &str) -> Option<i64> {
    let number = request.get(name)?.number()?.to_i64_saturating();
    (number != 0).then_some(number.saturating_abs())
}

/// Runs a pipeline in the place of the request.
async fn aggregate(run: Run<'_>, collection: &str, stages: Vec<Document>, cursor: Document) -> Result<Reply, Failed> {
    let mut command = doc! { "aggregate": collection, "pipeline": stages, "cursor": cursor };
    for name in SHARED {
        if let Some(value) = field(run.request, name) {
            command.insert(*name, value);
        }
    }
    let request = run.request.with_body(to_raw(&command)?.into_bytes().into());
    let invocation = (super::aggregate::SPEC.parse)(&request, run.shared())?;
    invocation.run(Run { request: &request, ..run }).await
}

/// `find` on a view.
pub(super) async fn find(run: Run<'_>, collection: &str) -> Result<Reply, Failed> {
    let request = run.request;
    if let Some(option) = NOT_ON_VIEWS.iter().find(|name| request.get(name).is_some_and(View::is_true)) {
        return Ok(fail(167, format!("Option {option} not supported in aggregation."))?);
    }
    let mut stages = Vec::new();
    for (name, stage) in [("filter", "$match"), ("sort", "$sort")] {
        stages.extend(object(request, name).map(|operand| doc! { stage: operand }));
    }
    for (name, stage) in [("skip", "$skip"), ("limit", "$limit")] {
        stages.extend(positive(request, name).map(|number| doc! { stage: number }));
    }
    stages.extend(object(request, "projection").map(|projection| doc! { "$project": projection }));
    let cursor = field(request, "batchSize").map_or_else(Document::new, |size| doc! { "batchSize": size });
    aggregate(run, collection, stages, cursor).await
}

/// The only batch of a reply.
fn first_batch(reply: &Reply) -> Vec<RawDocumentBuf> {
    let batch = reply.fields.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let documents = batch.into_iter().flatten().filter_map(Result::ok).filter_map(RawBsonRef::as_document);
    documents.map(bson::RawDocument::to_owned).collect()
}

/// `count` on a view.
pub(super) async fn count(run: Run<'_>, collection: &str) -> Result<Reply, Failed> {
    let request = run.request;
    let mut stages: Vec<_> = object(request, "query").map(|query| doc! { "$match": query }).into_iter().collect();
    for (name, stage) in [("skip", "$skip"), ("limit", "$limit")] {
        stages.extend(positive(request, name).map(|number| doc! { stage: number }));
    }
    stages.push(doc! { "$count": "n" });
    let reply = aggregate(run, collection, stages, doc! {}).await?;
    let found = first_batch(&reply).first().and_then(|document| View::from(document.get("n").ok()??).number());
    let mut fields = RawDocumentBuf::new();
    append_number(&mut fields, cstr!("n"), found.map_or(0, |number| number.to_i64_saturating()));
    Ok(Reply::new(fields))
}

/// `distinct` on a view.
pub(super) async fn distinct(run: Run<'_>, collection: &str, key: &str) -> Result<Reply, Failed> {
    let mut stages: Vec<_> = object(run.request, "query").map(|query| doc! { "$match": query }).into_iter().collect();
    // Each part of the path may be an array, whose elements count one by one.
    for (at, _) in key.match_indices('.').chain([(key.len(), "")]) {
        stages.push(doc! { "$unwind": { "path": format!("${}", &key[..at]), "preserveNullAndEmptyArrays": true } });
    }
    stages.push(doc! { "$match": { key: { "$exists": true } } });
    stages.push(doc! { "$group": { "_id": null, "values": { "$addToSet": format!("${key}") } } });
    let reply = aggregate(run, collection, stages, doc! {}).await?;
    let mut fields = RawDocumentBuf::new();
    let values = first_batch(&reply).first().and_then(|document| Some(document.get_array("values").ok()?.to_owned()));
    fields.append(cstr!("values"), values.unwrap_or_default());
    Ok(Reply::new(fields))
}
