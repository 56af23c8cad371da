//! Views: pipelines over collections, under a name of their own.

use backfire_model::Namespace;
use bson::{Bson, Document, doc};

use crate::error::{CommandError, Result, fail};
use crate::storage::catalog::Catalog;

/// A view.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Its name.
    pub ns: Namespace,
    /// The collection or view it is made of, in the same database.
    pub on: String,
    /// What is done with its documents.
    pub pipeline: Vec<Bson>,
    /// How its strings compare.
    pub collation: Option<Document>,
}

/// How many views may stand on one another.
const MAX_DEPTH: usize = 20;

impl View {
    /// A view from the options of `create`; `None` when they describe none.
    ///
    /// # Errors
    /// When they describe one badly.
    pub fn from_options(ns: &Namespace, options: &Document) -> Result<Option<Self>> {
        let on = match options.get("viewOn") {
            None if options.contains_key("pipeline") => {
                return fail(72, "'pipeline' requires 'viewOn' to also be specified");
            }
            None => return Ok(None),
            Some(Bson::String(on)) if !on.is_empty() => on.clone(),
            Some(_) => return fail(2, "'viewOn' cannot be empty"),
        };
        let pipeline = match options.get("pipeline") {
            None => Vec::new(),
            Some(Bson::Array(stages)) => stages.clone(),
            Some(_) => return fail(14, "'pipeline' option must be specified as an array"),
        };
        let writes = |stage: &Bson| {
            stage.as_document().is_some_and(|stage| stage.keys().any(|name| matches!(name.as_str(), "$out" | "$merge")))
        };
        if pipeline.iter().any(writes) {
            return fail(167, "The aggregation stage $out/$merge cannot be used in a view definition");
        }
        let collation = options.get_document("collation").ok().cloned();
        Ok(Some(Self { ns: ns.clone(), on, pipeline, collation }))
    }

    /// The options as they are listed and stored.
    pub fn options(&self) -> Document {
        let mut options = doc! { "viewOn": &self.on, "pipeline": self.pipeline.clone() };
        if let Some(collation) = &self.collation {
            options.insert("collation", collation.clone());
        }
        options
    }
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The collection underneath.
    pub ns: Namespace,
    /// What is done with its documents before anybody sees them.
    pub pipeline: Vec<Bson>,
    /// How strings compare.
    pub collation: Option<Document>,
}

/// Follows a view down to its collection; `None` when the name is no view.
///
/// # Errors
/// 165 when too many views stand on one another, or they go in a circle.
pub fn resolve(catalog: &Catalog, ns: &Namespace) -> Result<Option<Resolved>> {
    let Some(mut view) = catalog.view(ns) else { return Ok(None) };
    let mut resolved = Resolved { ns: ns.clone(), pipeline: Vec::new(), collation: view.collation.clone() };
    for _ in 0..MAX_DEPTH {
        let mut pipeline = view.pipeline;
        pipeline.append(&mut resolved.pipeline);
        resolved.pipeline = pipeline;
        resolved.ns = Namespace::new(&ns.db, &view.on);
        match catalog.view(&resolved.ns) {
            Some(below) => view = below,
            None => return Ok(Some(resolved)),
        }
    }
    fail(165, format!("View depth too deep or view cycle detected; maximum depth is {MAX_DEPTH}"))
}

/// 166: what cannot be done with a view.
pub fn refused(ns: &Namespace) -> CommandError {
    CommandError::new(166, format!("Namespace {ns} is a view, not a collection"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_make_a_view() {
        let ns = Namespace::new("a", "v");
        for (options, expected) in [
            (doc! {}, Ok(false)),
            (doc! {"viewOn": "c"}, Ok(true)),
            (doc! {"viewOn": ""}, Err(2)),
            (doc! {"pipeline": []}, Err(72)),
            (doc! {"viewOn": "c", "pipeline": 1}, Err(14)),
            (doc! {"viewOn": "c", "pipeline": [{"$out": "x"}]}, Err(167)),
        ] {
            let found = View::from_options(&ns, &options).map(|view| view.is_some()).map_err(|error| error.code);
            assert_eq!(found, expected, "{options}");
        }
    }
}
