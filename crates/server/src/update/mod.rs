//! The update language: operators, replacements and pipelines.
//!
//! | file | subject |
//! | --- | --- |
//! | `parse` | an update as a tree of paths; conflicts between paths |
//! | `array_filters` | the filters behind `$[identifier]` |
//! | `operators` | one file per family of operators |
//! | `apply` | applying the tree to a document |
//! | `log` | the oplog form of what was changed |
//! | `storage` | what may be stored |
//! | `upsert` | the document that an upsert inserts |
//! | `whole` | a replacement by its bytes |

mod apply;
mod array_filters;
mod log;
mod operators;
mod parse;
mod storage;
#[cfg(test)]
mod tests;
mod upsert;
mod whole;

use bson::oid::ObjectId;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, Timestamp};

pub use log::Oplog;
pub use storage::{DollarFields, check_document};

use crate::aggregate::expression::Val;
use crate::aggregate::stages::project::Project;
use crate::aggregate::stages::replace_root::ReplaceRoot;
use crate::error::{Result, fail};
use crate::query::{Matcher, QueryContext, too_deep};
use crate::value::view::{to_document, to_raw};
use crate::value::{View, text};

/// How an update is parsed.
#[derive(Debug, Clone)]
pub struct UpdateOptions<'a> {
    /// Whether it changes all documents that match.
    pub multi: bool,
    /// The filters behind `$[identifier]`.
    pub array_filters: &'a [Document],
    /// Collation, time and variables.
    pub context: &'a QueryContext,
    /// Whether an operator may have no fields.
    pub empty_operators: bool,
}

/// What an update reads while it is applied.
#[derive(Debug, Clone, Copy)]
pub struct ApplyContext {
    /// The time that `$currentDate` sets.
    pub now: DateTime,
    /// The timestamp that `$currentDate` and zero timestamps in a replacement set.
    pub timestamp: Timestamp,
    /// Whether names of fields may begin with `$`, where the kind of update allows it.
    pub stores_dollar_fields: bool,
}

impl ApplyContext {
    /// What an update of operators or a replacement may leave.
    fn dollars(&self) -> DollarFields {
        if self.stores_dollar_fields { DollarFields::Inside } else { DollarFields::Refused }
    }

    /// What a pipeline may leave.
    fn dollars_of_pipeline(&self) -> DollarFields {
        if self.stores_dollar_fields { DollarFields::Anywhere } else { DollarFields::Refused }
    }
}

/// A document after an update.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied<D = Document> {
    /// The document.
    pub document: D,
    /// Whether it differs from before.
    pub changed: bool,
    /// The change in the oplog's form.
    pub oplog: Oplog,
}

/// A parsed update.
#[derive(Debug, Clone)]
pub struct Update {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Replacement(RawDocumentBuf),
    Operators(parse::Tree),
    Pipeline { stages: Vec<PipelineStage>, slots: Vec<Val> },
}

#[derive(Debug, Clone)]
enum PipelineStage {
    Project(Project),
    ReplaceRoot(ReplaceRoot),
}

/// BSON is not nested deeper than this.
const MAX_NESTING: usize = 200;

impl Update {
    /// Parses the `u` of an update or the `update` of a `findAndModify`: a document of operators, a replacement, or a
    /// pipeline.
    ///
    /// # Errors
    /// A mongod's error for the update.
    pub fn parse(update: &Bson, options: &UpdateOptions<'_>) -> Result<Self> {
        if too_deep(update.into(), MAX_NESTING) {
            return fail(15, "Document exceeds maximum nested object depth");
        }
        match update {
            Bson::Array(stages) => Self::parse_pipeline(stages, options),
            Bson::Document(document) => {
                let operators = document.keys().next().is_some_and(|name| name.starts_with('$'));
                if operators {
                    let tree = parse::parse(document, options)?;
                    return Ok(Self { kind: Kind::Operators(tree) });
                }
                if options.multi {
                    return fail(9, "multi update is not supported for replacement-style update");
                }
                array_filters::parse(options)?.refuse_unused(document)?;
                Ok(Self { kind: Kind::Replacement(to_raw(document)?) })
            }
            other => {
                let found = View::from(other).type_name();
                fail(9, format!("Update argument must be either an object or an array, but was of type {found}"))
            }
        }
    }

    /// Whether [`Update::replacement`] takes a document of the client: it has no operators.
    pub fn is_whole(update: &RawDocument) -> bool {
        let first = update.iter().next().and_then(std::result::Result::ok);
        !first.is_some_and(|(name, _)| name.as_str().starts_with('$'))
    }

    /// As [`Update::parse`] for a document without operators that came from a client: then it does not nest too deeply.
    ///
    /// # Errors
    /// As [`Update::parse`].
    pub fn replacement(update: &RawDocument, options: &UpdateOptions<'_>) -> Result<Self> {
        if options.multi || !options.array_filters.is_empty() {
            return Self::parse(&Bson::Document(to_document(update)?), options);
        }
        Ok(Self { kind: Kind::Replacement(update.to_owned()) })
    }

    fn parse_pipeline(stages: &[Bson], options: &UpdateOptions<'_>) -> Result<Self> {
        if !options.array_filters.is_empty() {
            return fail(9, "arrayFilters may not be specified for pipeline-syle updates");
        }
        let context = options.context;
        let parsed = stages.iter().map(|stage| pipeline_stage(stage, context)).collect::<Result<_>>()?;
        Ok(Self { kind: Kind::Pipeline { stages: parsed, slots: context.slots.clone() } })
    }

    /// Whether it puts a whole document in the place of the old one.
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replacement(_))
    }

    /// Whether it is a pipeline.
    pub fn is_pipeline(&self) -> bool {
        matches!(self.kind, Kind::Pipeline { .. })
    }

    /// Whether it needs the array position at which the filter matched.
    pub fn needs_match(&self) -> bool {
        matches!(&self.kind, Kind::Operators(tree) if tree.has_positional())
    }

    /// Applies it to a document. `array_position` is where the filter matched, for the positional operator.
    ///
    /// # Errors
    /// A mongod's error for the document and the update.
    pub fn apply(
        &self,
        document: &RawDocument,
        array_position: Option<usize>,
        context: &ApplyContext,
    ) -> Result<Applied> {
        let original = to_document(document)?;
        match &self.kind {
            Kind::Operators(tree) => apply::apply(tree, original, array_position, context),
            Kind::Replacement(replacement) => replace(&original, to_document(replacement)?, context),
            Kind::Pipeline { stages, slots } => {
                let result = run_pipeline(stages, &original, slots)?;
                finish_replacement(&original, result, context.dollars_of_pipeline())
            }
        }
    }

    /// As [`Update::apply`], with the document encoded. Most replacements need not be taken apart for that.
    ///
    /// # Errors
    /// Those of [`Update::apply`].
    pub fn apply_encoded(
        &self,
        document: &RawDocument,
        array_position: Option<usize>,
        context: &ApplyContext,
    ) -> Result<Applied<RawDocumentBuf>> {
        if let Kind::Replacement(replacement) = &self.kind
            && let Some(after) = whole::document(replacement, Some(document), None)
        {
            let changed = after.as_bytes() != document.as_bytes();
            return Ok(Applied { document: after, changed, oplog: Oplog::of_whole(changed) });
        }
        let Applied { document, changed, oplog } = self.apply(document, array_position, context)?;
        Ok(Applied { document: to_raw(&document)?, changed, oplog })
    }

    /// The document that an upsert inserts: what the filter fixes, changed by the update, with `_id` first.
    ///
    /// # Errors
    /// A mongod's error for the filter and the update.
    pub fn insert_document(&self, filter: &Matcher, generated_id: Bson, context: &ApplyContext) -> Result<Document> {
        upsert::document(self, filter, generated_id, context)
    }

    /// As [`Update::insert_document`], with the document encoded. Most replacements need not be taken apart for that.
    ///
    /// # Errors
    /// Those of [`Update::insert_document`].
    pub fn insert_encoded(
        &self,
        filter: &Matcher,
        generated_id: ObjectId,
        context: &ApplyContext,
    ) -> Result<RawDocumentBuf> {
        upsert::encoded(self, filter, generated_id, context)
    }
}

fn pipeline_stage(stage: &Bson, context: &QueryContext) -> Result<PipelineStage> {
    let Bson::Document(stage) = stage else {
        return fail(14, "Each element of the 'pipeline' array must be an object");
    };
    let mut fields = stage.iter();
    let (Some((name, operand)), None) = (fields.next(), fields.next()) else {
        return fail(40323, "A pipeline stage specification object must contain exactly one field.");
    };
    let operand = View::from(operand);
    match name.as_str() {
        "$project" => Project::parse(operand, context).map(PipelineStage::Project),
        "$addFields" | "$set" => Project::parse_additions(name, operand, context).map(PipelineStage::Project),
        "$unset" => Project::parse_unset(operand, context).map(PipelineStage::Project),
        "$replaceRoot" => ReplaceRoot::parse(operand, context).map(PipelineStage::ReplaceRoot),
        "$replaceWith" => ReplaceRoot::parse_with(operand, context).map(PipelineStage::ReplaceRoot),
        known if crate::aggregate::is_stage(known) => {
            fail(72, format!("{known} is not allowed to be used within an update"))
        }
        unknown => fail(40324, format!("Unrecognized pipeline stage name: '{unknown}'")),
    }
}

fn run_pipeline(stages: &[PipelineStage], document: &Document, slots: &[Val]) -> Result<Document> {
    let mut raw = to_raw(document)?;
    for stage in stages {
        raw = match stage {
            PipelineStage::Project(project) => project.apply(&raw, slots)?,
            PipelineStage::ReplaceRoot(replace) => replace.apply(&raw, slots)?,
        };
    }
    to_document(&raw)
}

fn replace(original: &Document, mut replacement: Document, context: &ApplyContext) -> Result<Applied> {
    storage::set_zero_timestamps(&mut replacement, context.timestamp);
    finish_replacement(original, replacement, context.dollars())
}

/// Keeps `_id`, and compares with the document before.
fn finish_replacement(original: &Document, result: Document, dollars: DollarFields) -> Result<Applied> {
    let result = match original.get("_id") {
        None => result,
        Some(id) => storage::with_id_first(result, id.clone()),
    };
    if let (Some(old), Some(new)) = (original.get("_id"), result.get("_id"))
        && !storage::identical(old, new)
    {
        let text = "After applying the update, the (immutable) field '_id' was found to have been altered to";
        return fail(66, format!("{text} {}", text::element("_id", new.into())));
    }
    storage::check_document(&result, dollars)?;
    let changed = !storage::identical_documents(original, &result);
    Ok(Applied { document: result, changed, oplog: Oplog::of_whole(changed) })
}
