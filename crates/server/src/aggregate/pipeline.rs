//! A pipeline, parsed once and run over a stream of documents.

use std::sync::Arc;

use bson::Bson;

use super::environment::{Documents, Environment, SourceStage};
use super::expression::{Globals, Val};
use super::output::Output;
use super::stages::{self, Parsed, Place, Stage};
use crate::error::{CommandError, Result, fail};
use crate::query::{Features, QueryContext, too_deep};
use crate::value::View;

/// Where and how a pipeline runs.
#[derive(Debug, Clone)]
pub struct PipelineContext {
    /// Collation, time and variables.
    pub query: QueryContext,
    /// The database.
    pub database: String,
    /// The collection; `None` for `{ aggregate: 1 }`.
    pub collection: Option<String>,
    /// Whether stages may use more memory than [`MEMORY_LIMIT_BYTES`]. They then keep everything in memory: nothing is
    /// spilled to disk.
    pub allow_disk_use: bool,
}

/// What `$sort` and `$group` may hold in memory.
pub const MEMORY_LIMIT_BYTES: usize = 100 * 1024 * 1024;

/// Pipelines inside pipelines, nested at most this deep.
pub(crate) const MAX_PIPELINE_DEPTH: usize = 20;
/// BSON is not nested deeper than this.
const MAX_NESTING: usize = 200;

/// A parsed pipeline. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pipeline {
    source: Option<Source>,
    stages: Vec<Arc<dyn Stage>>,
    output: Option<Output>,
    first_filter: Option<Bson>,
    globals: Arc<Globals>,
    slots: Vec<Val>,
    allow_disk_use: bool,
}

/// Where the documents come from, when not from the collection.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Server(SourceStage),
    Listed(super::expression::Expression),
}

/// What the stages of one run share.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) globals: Arc<Globals>,
    pub(crate) slots: Vec<Val>,
    pub(crate) allow_disk_use: bool,
}

impl Pipeline {
    /// Parses the stages of an `aggregate` command.
    ///
    /// # Errors
    /// A mongod's error for the pipeline.
    pub fn parse(stages: &[Bson], context: &PipelineContext) -> Result<Self> {
        let pipeline = Self::parse_inside(stages, context, Place::Top, 0)?;
        pipeline.optimize().map_err(|error| error.caused_by("Failed to optimize pipeline"))
    }

    /// Parses a pipeline that stands inside a stage.
    pub(crate) fn parse_inside(stages: &[Bson], context: &PipelineContext, place: Place, depth: usize) -> Result<Self> {
        if depth > MAX_PIPELINE_DEPTH {
            let text = format!("Maximum number of nested sub-pipelines exceeded. Limit is {MAX_PIPELINE_DEPTH}");
            return fail(232, text);
        }
        let mut query = context.query.clone();
        query.features = Features { text: false, javascript: false, ..Features::ALL };
        let mut pipeline = Self {
            source: None,
            stages: Vec::new(),
            output: None,
            first_filter: None,
            globals: query.globals(),
            slots: query.slots.clone(),
            allow_disk_use: context.allow_disk_use,
        };
        let context = PipelineContext { query, ..context.clone() };
        for (at, stage) in stages.iter().enumerate() {
            let (name, operand) = stage_of(stage)?;
            if at == 0 && place == Place::Top {
                check_collection(name, &context)?;
            }
            let parsing = stages::Parsing { context: &context, place, depth };
            if pipeline.output.is_some() {
                return fail(40601, format!("{} can only be the final stage in the pipeline", output_name(stages)));
            }
            match parsing.stage(name, operand.into())? {
                Parsed::Stage(stage) => {
                    if at == 0 && name == "$match" {
                        pipeline.first_filter = Some(operand.clone());
                    }
                    pipeline.stages.push(Arc::from(stage));
                }
                Parsed::Source(source) => {
                    if at > 0 {
                        return fail(40602, format!("{name} is only valid as the first stage in a pipeline."));
                    }
                    pipeline.source = Some(source);
                }
                Parsed::Output(output) => pipeline.output = Some(output),
            }
        }
        if stages.is_empty() && place == Place::Top && context.collection.is_none() {
            return fail(73, "{aggregate: 1} is not valid for an empty pipeline.");
        }
        Ok(pipeline)
    }

    /// Computes what is constant, and tells a `$sort` how much of its result is wanted.
    pub(crate) fn optimize(mut self) -> Result<Self> {
        let mut stages: Vec<Arc<dyn Stage>> = Vec::with_capacity(self.stages.len());
        for stage in self.stages {
            let stage = stage.optimized()?.unwrap_or(stage);
            if let (Some(limit), Some(previous)) = (stage.limit(), stages.last_mut())
                && let Some(limited) = previous.limited_to(limit)
            {
                *previous = limited;
            }
            stages.push(stage);
        }
        self.stages = stages;
        if let Some(Source::Listed(expression)) = self.source {
            self.source = Some(Source::Listed(expression.optimize()?));
        }
        Ok(self)
    }

    /// The first stage, when the server makes its documents.
    pub fn source(&self) -> Option<&SourceStage> {
        match &self.source {
            Some(Source::Server(source)) => Some(source),
            _ => None,
        }
    }

    /// Whether it reads the collection it is run on.
    pub fn reads_collection(&self) -> bool {
        self.source.is_none()
    }

    /// The filter of a `$match` that stands first: documents that it does not match need not be read.
    pub fn first_filter(&self) -> Option<&Bson> {
        self.first_filter.as_ref()
    }

    /// The last stage, when it writes.
    pub fn output(&self) -> Option<&Output> {
        self.output.as_ref()
    }

    /// Runs it. `input` are the documents of the collection, in natural order; a pipeline with a source stage does not
    /// touch them. The last stage of a pipeline that writes is left to the caller.
    ///
    /// # Errors
    /// Those of the source stage; the stream yields those of the stages.
    pub fn run(&self, input: Documents, environment: Arc<dyn Environment>) -> Result<Documents> {
        self.run_with(input, environment, self.slots.clone())
    }

    /// Runs it with the values of outer variables.
    pub(crate) fn run_with(
        &self,
        input: Documents,
        environment: Arc<dyn Environment>,
        slots: Vec<Val>,
    ) -> Result<Documents> {
        let run = Run { environment, globals: Arc::clone(&self.globals), slots, allow_disk_use: self.allow_disk_use };
        let mut documents = match &self.source {
            None => input,
            Some(Source::Server(stage)) => run.environment.source(stage)?,
            Some(Source::Listed(expression)) => stages::documents::list(expression, &run)?,
        };
        for stage in &self.stages {
            documents = Arc::clone(stage).run(documents, &run);
        }
        // nothing after an error
        let mut failed = false;
        Ok(Box::new(documents.take_while(move |result| {
            let over = failed;
            failed |= result.is_err();
            !over
        })))
    }
}

fn stage_of(stage: &Bson) -> Result<(&str, &Bson)> {
    let Bson::Document(document) = stage else {
        return fail(14, "Each element of the 'pipeline' array must be an object");
    };
    if too_deep(View::from(stage), MAX_NESTING) {
        return Err(CommandError::new(15, format!("pipeline exceeds the nesting limit of {MAX_NESTING}")));
    }
    let mut fields = document.iter();
    match (fields.next(), fields.next()) {
        (Some((name, operand)), None) => Ok((name, operand)),
        _ => fail(40323, "A pipeline stage specification object must contain exactly one field."),
    }
}

fn output_name(stages: &[Bson]) -> &str {
    let name = |stage: &&Bson| stage_of(stage).is_ok_and(|(name, _)| matches!(name, "$out" | "$merge"));
    stages.iter().find(name).and_then(|stage| stage_of(stage).ok()).map_or("$out", |(name, _)| name)
}

/// Checks the first stage against `{ aggregate: 1 }`.
fn check_collection(name: &str, context: &PipelineContext) -> Result<()> {
    if !stages::is_stage(name) {
        return Ok(());
    }
    let without = matches!(name, "$currentOp" | "$listLocalSessions" | "$documents");
    match (&context.collection, without) {
        (None, false) => fail(73, format!("{{aggregate: 1}} is not valid for '{name}'; a collection is required.")),
        (Some(_), true) if name != "$currentOp" => {
            fail(73, format!("{name} must be run against the database with {{aggregate: 1}}, not a collection"))
        }
        _ => Ok(()),
    }
}
