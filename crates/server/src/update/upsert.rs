//! The document that an upsert inserts.

use bson::{Bson, Document};

use super::{ApplyContext, Kind, Update, apply, replace, run_pipeline, storage};
use crate::error::{Result, fail};
use crate::query::Matcher;
use crate::value::View;
use crate::value::view::to_document;

/// Builds the document.
pub(super) fn document(
    update: &Update,
    filter: &Matcher,
    generated_id: Bson,
    context: &ApplyContext,
) -> Result<Document> {
    let equalities = filter.equalities();
    let document = match &update.kind {
        Kind::Replacement(replacement) => {
            // of the filter, a replacement takes only `_id`
            let id = equalities.unwrap_or_default().into_iter().find(|(path, _)| path == "_id").map(|(_, id)| id);
            let base = id.map(|id| Document::from_iter([("_id".to_owned(), id)])).unwrap_or_default();
            replace(&base, to_document(replacement)?, context)?.document
        }
        Kind::Operators(tree) => apply::apply_to_insert(tree, from_equalities(equalities?)?, context)?,
        Kind::Pipeline { stages, slots } => {
            let base = from_equalities(equalities?)?;
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
