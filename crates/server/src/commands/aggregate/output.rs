//! `$out` and `$merge`: where a pipeline's documents go.

use std::sync::Arc;

use backfire_model::Namespace;
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};

use crate::aggregate::Output;
use crate::aggregate::output::{Merge, WhenMatched, WhenNotMatched};
use crate::commands::Run;
use crate::error::{CommandError, Result, fail};
use crate::net::request::raw;
use crate::pipeline::Failed;
use crate::plan::Scan;
use crate::query::Matcher;
use crate::stages::engine::{self, ConflictLoop, Done};
use crate::stages::locks::{Access, enter};
use crate::storage::collection::{Collection, WriteError};
use crate::storage::record::RecordId;
use crate::storage::{Direction, Writer};
use crate::value::view::{to_document, to_raw};
use crate::write::prepare::{document_to_store, id_of};

/// The collection that is written.
fn target(source: &Namespace, output: &Output) -> Namespace {
    let (database, collection) = match output {
        Output::Out { database, collection } => (database, collection),
        Output::Merge(merge) => (&merge.database, &merge.collection),
    };
    Namespace::new(database.as_ref().unwrap_or(&source.db), collection)
}

/// What can be refused before the pipeline runs.
///
/// # Errors
/// 51183 when no unique index holds exactly the `on` fields; 17385 and 31319 for names of the server's own; 17152 for `$out`
/// to a capped collection, 166 for a view.
pub(super) fn check(run: &Run<'_>, source: &Namespace, output: &Output) -> Result<()> {
    let ns = target(source, output);
    if ns.coll.starts_with("system.") {
        return fail(17385, format!("Can't $out to special collection: {}", ns.coll));
    }
    if matches!(ns.db.as_str(), "admin" | "config" | "local") {
        return fail(31319, format!("Cannot $out to internal database: {}", ns.db));
    }
    if run.shared().catalog.is_view(&ns) {
        return Err(crate::views::refused(&ns));
    }
    let Output::Merge(merge) = output else {
        return match run.shared().catalog.get(&ns) {
            Some(collection) if collection.capped.is_some() => {
                fail(17152, format!("namespace '{ns}' is capped so it can't be used for $out"))
            }
            _ => Ok(()),
        };
    };
    let only_id = merge.on.len() == 1 && merge.on[0] == "_id";
    let unique = |collection: Arc<Collection>| {
        let indexes = collection.indexes();
        indexes.iter().any(|index| {
            let key = index.key_pattern();
            let whole = !index.spec.contains_key("partialFilterExpression");
            index.unique && whole && key.len() == merge.on.len() && merge.on.iter().all(|field| key.contains_key(field))
        })
    };
    if only_id || run.shared().catalog.get(&ns).is_some_and(unique) {
        return Ok(());
    }
    fail(51183, "Cannot find index to verify that join fields will be unique")
}

/// Writes the documents that came out of the pipeline.
///
/// # Errors
/// 11000, what `$merge` says of a document, or an interrupt.
pub(super) async fn write(
    run: &Run<'_>,
    source: &Namespace,
    output: &Output,
    documents: Vec<RawDocumentBuf>,
) -> Result<(), Failed> {
    let ns = target(source, output);
    let shared = run.shared();
    if shared.catalog.get(&ns).is_none() {
        let inside = enter(run.op, &ns, Access::ChangeCollection).await?;
        shared.catalog.get_or_create(&ns, || shared.new_uuid())?;
        drop(inside);
    }
    match output {
        Output::Out { .. } => replace_all(run, &ns, &documents).await?,
        Output::Merge(merge) => {
            for document in &documents {
                merge_one(run, &ns, merge, document).await?;
            }
        }
    }
    Ok(())
}

/// A document with an `_id`, as it is stored.
fn stored(run: &Run<'_>, document: &RawDocumentBuf) -> Result<RawDocumentBuf> {
    let stored = document_to_store(document.as_bytes(), run.shared().profile.stores_dollar_fields, || {
        run.shared().new_object_id()
    })?;
    match stored {
        Some(bytes) => RawDocumentBuf::from_bytes(bytes).map_err(|error| crate::value::view::invalid_bson(&error)),
        None => Ok(document.clone()),
    }
}

/// `$out`: in one transaction everything that was there goes and the new documents come.
async fn replace_all(run: &Run<'_>, ns: &Namespace, documents: &[RawDocumentBuf]) -> Result<()> {
    let mut conflicts = ConflictLoop::default();
    loop {
        let inside = enter(run.op, ns, Access::ChangeCollection).await?;
        let collection = run.shared().catalog.get_or_create(ns, || run.shared().new_uuid())?;
        let result = replace_in_one(run, ns, &collection, documents).await;
        drop(inside);
        match result {
            Err(WriteError::Conflict) => conflicts.met(run.op).await?,
            Err(WriteError::Failed(error)) => return Err(error),
            Ok(()) => return Ok(()),
        }
    }
}

async fn replace_in_one(
    run: &Run<'_>,
    ns: &Namespace,
    collection: &Collection,
    documents: &[RawDocumentBuf],
) -> Result<(), WriteError> {
    use std::ops::Bound::Unbounded;
    let shared = run.shared();
    let mut unit = engine::begin(run.op);
    let mut old = Vec::new();
    let snapshot = shared.engine.snapshot();
    snapshot.scan(collection.records, Unbounded, Unbounded, Direction::Forward, usize::MAX, &mut old);
    for (key, value) in old {
        if let Some(record) = RecordId::from_bytes(&key) {
            collection.remove(&mut unit, record, raw(&value))?;
        }
    }
    let mut first_id = Bson::Null;
    for (at, document) in documents.iter().enumerate() {
        let document = stored(run, document)?;
        if at == 0 {
            first_id = id_of(&document);
        }
        collection.insert(&mut unit, &document)?;
    }
    let done = Done { statements: Vec::new(), documents: documents.len() as u32, first_id };
    engine::commit(run.op, ns, unit, None, done).await
}

async fn merge_one(run: &Run<'_>, ns: &Namespace, merge: &Merge, document: &RawDocumentBuf) -> Result<()> {
    let document = stored(run, document)?;
    let filter = on_filter(merge, &document)?;
    let matcher = Arc::new(Matcher::parse(&to_raw(&filter)?, &run.shared().query_context(None))?);
    let mut conflicts = ConflictLoop::default();
    loop {
        let inside = enter(run.op, ns, Access::Write).await?;
        let collection = run.shared().catalog.get_or_create(ns, || run.shared().new_uuid())?;
        let found = Scan::new(run.op, Arc::clone(&collection), Arc::clone(&matcher), None)?.next(run.op).await?;
        let result = merge_into(run, ns, &collection, merge, &document, found.map(|(record, _)| record)).await;
        drop(inside);
        match result {
            Err(WriteError::Conflict) => conflicts.met(run.op).await?,
            Err(WriteError::Failed(error)) => return Err(error),
            Ok(()) => return Ok(()),
        }
    }
}

/// The filter that finds the document to merge with.
fn on_filter(merge: &Merge, document: &RawDocumentBuf) -> Result<Document> {
    let mut filter = Document::new();
    let decoded = to_document(document)?;
    for field in &merge.on {
        let mut value = Some(&Bson::Null);
        let mut inner = Some(&decoded);
        for part in field.split('.') {
            value = inner.and_then(|document| document.get(part));
            inner = value.and_then(Bson::as_document);
        }
        match value {
            None | Some(Bson::Null | Bson::Undefined) => {
                return fail(51132, "$merge write error: 'on' field cannot be missing, null, undefined or an array");
            }
            Some(Bson::Array(_)) => {
                return fail(51185, "$merge write error: 'on' field cannot be missing, null, undefined or an array");
            }
            Some(value) => drop(filter.insert(field, doc! { "$eq": value.clone() })),
        }
    }
    Ok(filter)
}

async fn merge_into(
    run: &Run<'_>,
    ns: &Namespace,
    collection: &Collection,
    merge: &Merge,
    document: &RawDocumentBuf,
    found: Option<RecordId>,
) -> Result<(), WriteError> {
    let shared = run.shared();
    let mut unit = engine::begin(run.op);
    let there = found.and_then(|record| Some((record, unit.get(collection.records, &record.key())?)));
    let id = match there {
        None => match merge.when_not_matched {
            WhenNotMatched::Discard => return Ok(()),
            WhenNotMatched::Fail => {
                let text = "$merge could not find a matching document in the target collection for at least one document \
                            in the source collection";
                return Err(CommandError::new(13113, text).into());
            }
            WhenNotMatched::Insert => {
                collection.insert(&mut unit, document)?;
                id_of(document)
            }
        },
        // Inserting it is what finds the duplicate and names it.
        Some(_) if matches!(merge.when_matched, WhenMatched::Fail) => {
            collection.insert(&mut unit, document)?;
            id_of(document)
        }
        Some((record, existing)) => {
            let now = crate::write::update::apply_context(shared);
            let old = raw(&existing);
            let Some(combined) = merge.combine(&to_document(old)?, &to_document(document)?, &now)? else {
                return Ok(());
            };
            let combined = to_raw(&combined)?;
            if combined.as_bytes() == old.as_bytes() {
                return Ok(());
            }
            collection.replace(&mut unit, record, old, &combined)?;
            id_of(&combined)
        }
    };
    engine::commit(run.op, ns, unit, None, Done { statements: Vec::new(), documents: 1, first_id: id }).await
}
