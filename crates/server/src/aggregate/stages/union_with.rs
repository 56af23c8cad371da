//! `$unionWith`.

use std::sync::Arc;

use super::{Documents, Parsing, Place, Run, Stage, deferred};
use crate::aggregate::pipeline::{Pipeline, PipelineContext};
use crate::error::{Result, fail};
use crate::value::View;

/// A stage that appends the documents of another collection.
#[derive(Debug, Clone)]
pub(super) struct UnionWith {
    database: String,
    collection: String,
    pipeline: Pipeline,
}

impl UnionWith {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let mut stages = Vec::new();
        let mut collection = None;
        match operand {
            View::String(name) => collection = Some(name.to_owned()),
            View::Document(spec) => {
                for (name, value) in spec.iter() {
                    let wrong = |expected: &str| {
                        let found = value.type_name();
                        let text = format!("BSON field '$unionWith.{name}' is the wrong type '{found}', expected type");
                        fail(14, format!("{text} '{expected}'"))
                    };
                    match (name, value) {
                        ("coll", View::String(name)) => collection = Some(name.to_owned()),
                        ("coll", _) => return wrong("string"),
                        ("pipeline", View::Array(array)) => {
                            stages = array.iter().map(View::to_bson).collect::<Result<_>>()?;
                        }
                        ("pipeline", _) => return wrong("array"),
                        _ => return fail(40415, format!("BSON field '$unionWith.{name}' is an unknown field.")),
                    }
                }
            }
            other => {
                let text = "the $unionWith stage specification must be an object or string, but found";
                return fail(9, format!("{text} {}", other.type_name()));
            }
        }
        let Some(collection) = collection else {
            return fail(40414, "BSON field '$unionWith.coll' is missing but a required field");
        };
        let context = PipelineContext { collection: Some(collection.clone()), ..parsing.context.clone() };
        let pipeline = Pipeline::parse_inside(&stages, &context, Place::Other, parsing.depth + 1)?;
        Ok(Self { database: context.database, collection, pipeline })
    }
}

impl Stage for UnionWith {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        let other = deferred(move || {
            let documents = if self.pipeline.reads_collection() {
                run.environment.documents(&self.database, &self.collection)?
            } else {
                super::listed(Vec::new())
            };
            self.pipeline.run_with(documents, Arc::clone(&run.environment), run.slots.clone())
        });
        Box::new(input.chain(other))
    }

    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        Ok(Some(Arc::new(Self { pipeline: self.pipeline.clone().optimize()?, ..self.clone() })))
    }
}
