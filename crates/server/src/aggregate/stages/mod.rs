//! Stages of a pipeline, one file per stage or family. [`STAGES`] lists them.

pub(crate) mod bucket;
pub(crate) mod bucket_auto;
pub(crate) mod chain;
pub(crate) mod current_op;
pub(crate) mod densify;
pub(crate) mod documents;
pub(crate) mod facet;
pub(crate) mod fill;
pub(crate) mod filter;
pub(crate) mod graph_lookup;
pub(crate) mod group;
pub(crate) mod limit;
pub(crate) mod lookup;
pub(crate) mod project;
pub(crate) mod redact;
pub(crate) mod replace_root;
pub(crate) mod sample;
pub(crate) mod sort;
pub(crate) mod source;
pub(crate) mod union_with;
pub(crate) mod unwind;
pub(crate) mod window;

use std::sync::Arc;

use bson::raw::RawDocumentBuf;

use super::environment::{Documents, SourceStage};
use super::output::{self, Output};
use super::pipeline::{PipelineContext, Run, Source};
use crate::error::{CommandError, Result, fail};
use crate::value::View;

/// A stage, parsed.
pub(crate) trait Stage: std::fmt::Debug + Send + Sync {
    /// The stream after the stage.
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents;

    /// The stage with its constants computed; `None` when there is nothing to compute.
    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        Ok(None)
    }

    /// How many documents a stage lets pass, if that is all it does.
    fn limit(&self) -> Option<u64> {
        None
    }

    /// A stage that only has to give the first documents of its result.
    fn limited_to(&self, _limit: u64) -> Option<Arc<dyn Stage>> {
        None
    }
}

/// What a stage's operand was parsed into.
pub(crate) enum Parsed {
    /// A stage with an input.
    Stage(Box<dyn Stage>),
    /// A first stage without one.
    Source(Source),
    /// A last stage that writes.
    Output(Output),
}

/// Where a pipeline stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In an `aggregate` command.
    Top,
    /// In a `$facet`.
    Facet,
    /// In a `$lookup` or a `$unionWith`.
    Other,
}

/// What a stage is parsed with.
#[derive(Clone, Copy)]
pub(crate) struct Parsing<'c> {
    pub(crate) context: &'c PipelineContext,
    pub(crate) place: Place,
    pub(crate) depth: usize,
}

/// Parses a stage; it gets its name because several names share a parser.
type Parser = fn(&Parsing<'_>, &'static str, View<'_>) -> Result<Parsed>;

fn stage(stage: impl Stage + 'static) -> Result<Parsed> {
    Ok(Parsed::Stage(Box::new(stage)))
}

/// All stages.
pub(crate) const STAGES: &[(&str, Parser)] = &[
    ("$addFields", |parsing, name, operand| stage(project::Project::parse_additions(name, operand, parsing.query())?)),
    ("$bucket", |parsing, _, operand| bucket::parse(operand, parsing)),
    ("$bucketAuto", |parsing, _, operand| stage(bucket_auto::BucketAuto::parse(operand, parsing)?)),
    ("$changeStream", |_, name, _| fail(238, format!("this server has no change streams: {name}"))),
    ("$collStats", |_, _, operand| source::coll_stats(operand)),
    ("$count", |parsing, _, operand| stage(group::Group::parse_count(operand, parsing)?)),
    ("$currentOp", |parsing, _, operand| current_op::parse(operand, parsing.context)),
    ("$densify", |parsing, _, operand| stage(densify::Densify::parse(operand, parsing)?)),
    ("$documents", |parsing, _, operand| documents::parse(operand, parsing)),
    ("$facet", |parsing, _, operand| stage(facet::Facet::parse(operand, parsing)?)),
    ("$fill", |parsing, _, operand| fill::parse(operand, parsing)),
    ("$geoNear", |_, name, _| fail(238, format!("this server has no geospatial queries: {name}"))),
    ("$graphLookup", |parsing, _, operand| stage(graph_lookup::GraphLookup::parse(operand, parsing)?)),
    ("$group", |parsing, _, operand| stage(group::Group::parse(operand, parsing)?)),
    ("$indexStats", |_, _, operand| source::index_stats(operand)),
    ("$limit", |_, _, operand| stage(limit::Limit::parse(operand)?)),
    ("$listLocalSessions", |_, name, operand| source::sessions(name, operand)),
    ("$listSessions", |_, name, operand| source::sessions(name, operand)),
    ("$lookup", |parsing, _, operand| stage(lookup::Lookup::parse(operand, parsing)?)),
    ("$match", |parsing, _, operand| stage(filter::Filter::parse(operand, parsing)?)),
    ("$merge", |parsing, _, operand| Ok(Parsed::Output(output::parse_merge(operand, parsing.query())?))),
    ("$out", |_, _, operand| Ok(Parsed::Output(output::parse_out(operand)?))),
    ("$planCacheStats", |_, _, operand| source::plan_cache_stats(operand)),
    ("$project", |parsing, _, operand| stage(project::Project::parse(operand, parsing.query())?)),
    ("$redact", |parsing, _, operand| stage(redact::Redact::parse(operand, parsing)?)),
    ("$replaceRoot", |parsing, _, operand| stage(replace_root::ReplaceRoot::parse(operand, parsing.query())?)),
    ("$replaceWith", |parsing, _, operand| stage(replace_root::ReplaceRoot::parse_with(operand, parsing.query())?)),
    ("$sample", |_, _, operand| stage(sample::Sample::parse(operand)?)),
    ("$set", |parsing, name, operand| stage(project::Project::parse_additions(name, operand, parsing.query())?)),
    ("$setWindowFields", |parsing, _, operand| stage(window::Window::parse(operand, parsing)?)),
    ("$skip", |_, _, operand| stage(limit::Skip::parse(operand)?)),
    ("$sort", |parsing, _, operand| stage(sort::SortStage::parse(operand, parsing)?)),
    ("$sortByCount", |parsing, _, operand| bucket::parse_sort_by_count(operand, parsing)),
    ("$unionWith", |parsing, _, operand| stage(union_with::UnionWith::parse(operand, parsing)?)),
    ("$unset", |parsing, _, operand| stage(project::Project::parse_unset(operand, parsing.query())?)),
    ("$unwind", |_, _, operand| stage(unwind::Unwind::parse(operand)?)),
];

/// Whether `name` is a stage.
pub(crate) fn is_stage(name: &str) -> bool {
    STAGES.iter().any(|(known, _)| *known == name)
}

impl<'c> Parsing<'c> {
    /// Collation, time and variables.
    pub(crate) fn query(&self) -> &'c crate::query::QueryContext {
        &self.context.query
    }

    /// Parses one stage.
    pub(crate) fn stage(&self, name: &str, operand: View<'_>) -> Result<Parsed> {
        let Some((name, parse)) = STAGES.iter().find(|(known, _)| *known == name && self.query().scope.has(name))
        else {
            return fail(40324, format!("Unrecognized pipeline stage name: '{name}'"));
        };
        self.check_place(name)?;
        parse(self, name, operand)
    }

    fn check_place(&self, name: &str) -> Result<()> {
        let sources = [
            "$collStats",
            "$currentOp",
            "$indexStats",
            "$listLocalSessions",
            "$listSessions",
            "$planCacheStats",
            "$geoNear",
            "$changeStream",
            "$documents",
        ];
        match self.place {
            Place::Facet if matches!(name, "$out" | "$merge" | "$facet") || sources.contains(&name) => {
                fail(40600, format!("{name} is not allowed to be used within a $facet stage"))
            }
            Place::Other if matches!(name, "$out" | "$merge") => {
                fail(51047, format!("{name} is not allowed within a $lookup's sub-pipeline"))
            }
            _ => Ok(()),
        }
    }
}

/// A stream of one transformed document for each.
pub(crate) fn map(
    input: Documents,
    mut apply: impl FnMut(RawDocumentBuf) -> Result<RawDocumentBuf> + Send + 'static,
) -> Documents {
    Box::new(input.map(move |document| apply(document?)))
}

/// A stream that is made when its first document is wanted.
pub(crate) fn deferred(make: impl FnOnce() -> Result<Documents> + Send + 'static) -> Documents {
    let mut make = Some(make);
    let mut stream: Option<Documents> = None;
    Box::new(std::iter::from_fn(move || {
        if let Some(make) = make.take() {
            match make() {
                Ok(made) => stream = Some(made),
                Err(error) => return Some(Err(error)),
            }
        }
        stream.as_mut()?.next()
    }))
}

/// A stream over documents at hand.
pub(crate) fn listed(documents: Vec<RawDocumentBuf>) -> Documents {
    Box::new(documents.into_iter().map(Ok))
}

/// The parsed source stage.
fn server(stage: SourceStage) -> Result<Parsed> {
    Ok(Parsed::Source(Source::Server(stage)))
}

/// The error when a stage holds too much.
pub(crate) fn check_memory(run: &Run, bytes: usize, error: impl FnOnce(usize) -> CommandError) -> Result<()> {
    let limit = super::pipeline::MEMORY_LIMIT_BYTES;
    if bytes > limit && !run.allow_disk_use { Err(error(limit)) } else { Ok(()) }
}
