//! The document that an upsert inserts.

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};

use super::{ApplyContext, Kind, Update, apply, replace, run_pipeline, storage, whole};
use crate::error::{Result, fail};
use crate::query::Matcher;
use crate::value::View;
use crate::value::view::{to_document, to_raw};

/// Builds the document, encoded.
pub(super) fn encoded(
    update: &Update,
    filter: &Matcher,
    generated_id: ObjectId,
    context: &ApplyContext,
) -> Result<RawDocumentBuf> {
    if let Kind::Replacement(replacement) = &update.kind {
        let base = id_of(filter).map(|base| to_raw(&base)).transpose()?;
        if let Some(document) = whole::document(replacement, base.as_deref(), Some(generated_id)) {
            return Ok(document);
        }
    }
    to_raw(&document(update, filter, Bson::ObjectId(generated_id), context)?)
}

/// What a replacement takes of the filter: `_id` and nothing else.
fn id_of(filter: &Matcher) -> Option<Document> {
    let (_, id) = filter.equalities().unwrap_or_default().into_iter().find(|(path, _)| path == "_id")?;
    Some(doc! { "_id": id })
}

/// Builds the document.
pub(super) fn document(
    update: &Update,
    filter: &Matcher,
    generated_id: Bson,
    context: &ApplyContext,
) -> Result<Document> {
    let document = match &update.kind {
        Kind::Replacement(replacement) => {
            replace(&id_of(filter).unwrap_or_default(), to_document(replacement)?, context)?.document
        }
        Kind::Operators(tree) => apply::apply_to_insert(tree, from_equalities(filter.equalities()?)?, context)?,
        Kind::Pipeline { stages, slots } => {
            let base = from_equalities(filter.equalities()?)?;
            let result = run_pipeline(stages, &base, slots)?;
            super::finish_replacement(&base, result, context.dollars_of_pipeline())?.document
        }
    };
    let document = storage::with_id_first(document, generated_id);
    if let Some(id) = document.get("_id") {
        check_id(id)?;
    }
    let dollars = if update.is_pipeline() { context.dollars_of_pipeline() } else { context.dollars() };
    storage::check_document(&document, dollars)?;
    Ok(document)
}

fn check_id(id: &Bson) -> Result<()> {
    let kind = View::from(id).type_name();
    match id {
        Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined => {
            fail(53, format!("The '_id' value cannot be of type {kind}"))
        }
        Bson::Document(document) if document.keys().next().is_some_and(|name| name.starts_with('$')) => {
            let name = document.keys().next().cloned().unwrap_or_default();
            fail(52, format!("The dollar ($) prefixed field '{name}' in '_id.{name}' is not valid for storage."))
        }
        _ => Ok(()),
    }
}

/// A document with a value at each path.
fn from_equalities(equalities: Vec<(String, Bson)>) -> Result<Document> {
    let mut document = Document::new();
    for (path, value) in equalities {
        insert_path(&mut document, &path, value);
    }
    Ok(document)
}

fn insert_path(document: &mut Document, path: &str, value: Bson) {
    match path.split_once('.') {
        None => {
            document.insert(path, value);
        }
        Some((head, rest)) => {
            let inner = document.entry(head.to_owned()).or_insert_with(|| Bson::Document(Document::new()));
            if let Bson::Document(inner) = inner {
                insert_path(inner, rest, value);
            }
        }
    }
}
