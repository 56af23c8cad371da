//! `$facet`.

use std::sync::Arc;

use bson::{Bson, Document};

use super::{Documents, Parsing, Place, Run, Stage, deferred, listed};
use crate::aggregate::expression::field_path::check_name;
use crate::aggregate::pipeline::Pipeline;
use crate::error::{Result, fail};
use crate::value::View;
use crate::value::view::{to_document, to_raw};

/// A stage that runs several pipelines on the same input.
#[derive(Debug, Clone)]
pub(super) struct Facet {
    facets: Vec<(String, Pipeline)>,
}

impl Facet {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let View::Document(spec) = operand else {
            return fail(40169, "the $facet specification must be a non-empty object");
        };
        if spec.is_empty() {
            return fail(40169, "the $facet specification must be a non-empty object");
        }
        let mut facets = Vec::new();
        for (name, value) in spec.iter() {
            check_name(name)?;
            let View::Array(stages) = value else {
                let kind = value.type_name();
                return fail(40170, format!("arguments to $facet must be arrays, {name} is type {kind}"));
            };
            let stages = stages.iter().map(View::to_bson).collect::<Result<Vec<_>>>()?;
            if let Some(other) = stages.iter().find(|stage| !matches!(stage, Bson::Document(_))) {
                let text = "elements of arrays in $facet spec must be non-empty objects";
                let kind = View::from(other).type_name();
                return fail(40171, format!("{text}, {name} argument contained an element of type {kind}"));
            }
            let pipeline = Pipeline::parse_inside(&stages, parsing.context, Place::Facet, parsing.depth + 1)?;
            facets.push((name.to_owned(), pipeline));
        }
        Ok(Self { facets })
    }
}

impl Stage for Facet {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        deferred(move || {
            let documents = input.collect::<Result<Vec<_>>>()?;
            let mut result = Document::new();
            for (name, pipeline) in &self.facets {
                let input = listed(documents.clone());
                let output = pipeline.run_with(input, Arc::clone(&run.environment), run.slots.clone())?;
                let values = output.map(|document| to_document(&document?).map(Bson::Document));
                result.insert(name, Bson::Array(values.collect::<Result<_>>()?));
            }
            Ok(listed(vec![to_raw(&result)?]))
        })
    }

    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        let optimized = |(name, pipeline): &(String, Pipeline)| Ok((name.clone(), pipeline.clone().optimize()?));
        Ok(Some(Arc::new(Self { facets: self.facets.iter().map(optimized).collect::<Result<_>>()? })))
    }
}
