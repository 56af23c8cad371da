//! `$project`, `$addFields` with its alias `$set`, `$unset`.

use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};

use super::{Documents, Run, Stage};
use crate::aggregate::expression::Val;
use crate::error::{Result, fail};
use crate::query::{Match, Projection, QueryContext};
use crate::value::View;

/// A stage that changes the fields of each document.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    projection: Projection,
}

impl Project {
    /// Parses `$project`.
    pub(crate) fn parse(operand: View<'_>, context: &QueryContext) -> Result<Self> {
        let View::Document(spec) = operand else {
            return fail(15969, "$project specification must be an object");
        };
        let projection = Projection::parse_stage(spec, context);
        Ok(Self { projection: projection.map_err(|error| error.caused_by("Invalid $project"))? })
    }

    /// Parses `$addFields` or `$set`.
    pub(crate) fn parse_additions(name: &str, operand: View<'_>, context: &QueryContext) -> Result<Self> {
        let View::Document(spec) = operand else {
            let found = operand.type_name();
            return fail(40272, format!("{name} specification stage must be an object, got {found}"));
        };
        let projection = Projection::parse_additions(spec, context);
        Ok(Self { projection: projection.map_err(|error| error.caused_by(&format!("Invalid {name}")))? })
    }

    /// Parses `$unset`.
    pub(crate) fn parse_unset(operand: View<'_>, context: &QueryContext) -> Result<Self> {
        let mut spec = Document::new();
        match operand {
            View::String(name) => {
                spec.insert(name, Bson::Int32(0));
            }
            View::Array(names) => {
                if names.is_empty() {
                    return fail(31119, "$unset specification must be a string or an array with at least one field");
                }
                for name in names.iter() {
                    let View::String(name) = name else {
                        let text = "$unset specification must be a string or an array containing only string values";
                        return fail(31120, text);
                    };
                    spec.insert(name, Bson::Int32(0));
                }
            }
            _ => return fail(31002, "$unset specification must be a string or an array"),
        }
        let projection = Projection::parse_stage((&spec).into(), context);
        Ok(Self { projection: projection.map_err(|error| error.caused_by("Invalid $unset"))? })
    }

    /// Changes one document.
    pub(crate) fn apply(&self, document: &RawDocument, slots: &[Val]) -> Result<RawDocumentBuf> {
        self.projection.apply_with(document, Match::default(), slots)
    }
}

impl Stage for Project {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let slots = run.slots.clone();
        super::map(input, move |document| self.apply(&document, &slots))
    }

    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        let mut projection = self.projection.clone();
        projection.optimize()?;
        Ok(Some(Arc::new(Self { projection })))
    }
}
