//! What a pipeline needs of the user who sends it: reading every collection that it reads, writing the one it writes.

use crate::auth::{Action, Needs, Resource};
use crate::net::Request;
use crate::value::view::DocView;
use crate::value::{ArrayView, View};

/// How deep pipelines are looked into. The pipelines themselves may not be nested as deep.
const MAX_DEPTH: usize = 64;

/// Adds the needs of an `aggregate`.
pub(super) fn add(request: &Request, needs: &mut Needs) {
    let db = request.database().unwrap_or_default();
    let Some(View::Array(pipeline)) = request.get("pipeline") else { return };
    if let Some(View::String(collection)) = request.get("aggregate") {
        let action = match pipeline.iter().next().and_then(first_field) {
            Some(("$collStats", _)) => Action::CollStats,
            Some(("$indexStats", _)) => Action::IndexStats,
            _ => Action::Find,
        };
        needs.add(action, Resource::collection(db, collection));
    }
    let bypass = request.get("bypassDocumentValidation").is_some_and(View::is_true);
    add_stages(pipeline, db, bypass, needs, 0);
}

fn first_field(stage: View<'_>) -> Option<(&str, View<'_>)> {
    stage.as_document().and_then(|stage| stage.iter().next())
}

fn add_stages(stages: ArrayView<'_>, db: &str, bypass: bool, needs: &mut Needs, depth: usize) {
    if depth > MAX_DEPTH {
        // Nobody may do what cannot be looked through.
        return needs.all(Action::ALL, &Resource::Cluster);
    }
    let inner = |pipeline: Option<View<'_>>, needs: &mut Needs| {
        if let Some(View::Array(pipeline)) = pipeline {
            add_stages(pipeline, db, bypass, needs, depth + 1);
        }
    };
    for (name, operand) in stages.iter().filter_map(first_field) {
        match (name, operand) {
            ("$currentOp" | "$listSessions" | "$listLocalSessions", View::Document(options))
                if options.get("allUsers").is_some_and(View::is_true) =>
            {
                needs.add(Action::Inprog, Resource::Cluster);
            }
            ("$lookup" | "$graphLookup", View::Document(lookup)) => {
                read(lookup.get("from"), db, needs);
                inner(lookup.get("pipeline"), needs);
            }
            ("$unionWith", View::Document(union)) => {
                read(union.get("coll"), db, needs);
                inner(union.get("pipeline"), needs);
            }
            ("$unionWith", collection) => read(Some(collection), db, needs),
            ("$facet", View::Document(facets)) => facets.iter().for_each(|(_, facet)| inner(Some(facet), needs)),
            ("$out", target) => write(target, &[Action::Insert, Action::Remove], db, bypass, needs),
            ("$merge", View::Document(merge)) => {
                let target = merge.get("into").unwrap_or(View::Null);
                write(target, &[Action::Insert, Action::Update], db, bypass, needs);
            }
            ("$merge", target) => write(target, &[Action::Insert, Action::Update], db, bypass, needs),
            _ => {}
        }
    }
}

fn read(collection: Option<View<'_>>, db: &str, needs: &mut Needs) {
    if let Some(View::String(collection)) = collection {
        needs.add(Action::Find, Resource::collection(db, collection));
    }
}

fn write(target: View<'_>, actions: &[Action], db: &str, bypass: bool, needs: &mut Needs) {
    let text = |document: DocView<'_>, name: &str| document.get(name).and_then(View::as_str).map(str::to_owned);
    let (db, collection) = match target {
        View::String(collection) => (db.to_owned(), collection.to_owned()),
        View::Document(target) => {
            (text(target, "db").unwrap_or_else(|| db.to_owned()), text(target, "coll").unwrap_or_default())
        }
        _ => return,
    };
    let resource = Resource::collection(&db, &collection);
    needs.all(actions, &resource);
    if bypass {
        needs.add(Action::BypassDocumentValidation, resource);
    }
}
