//! What a pipeline asks of the server it runs in.

use bson::Document;
use bson::raw::RawDocumentBuf;

use super::stages::current_op::CurrentOpOptions;
use crate::error::Result;

/// A stream of documents; it ends at the first error.
pub type Documents = Box<dyn Iterator<Item = Result<RawDocumentBuf>> + Send>;

/// Data that a pipeline reads besides its input.
pub trait Environment: Send + Sync {
    /// All documents of a collection, in natural order; none for one that does not exist.
    ///
    /// # Errors
    /// Whatever keeps the collection from being read.
    fn documents(&self, database: &str, collection: &str) -> Result<Documents>;

    /// The documents of a source stage.
    ///
    /// # Errors
    /// The stage's own errors, such as a missing collection.
    fn source(&self, stage: &SourceStage) -> Result<Documents>;
}

/// A first stage whose documents the server makes.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceStage {
    /// `$currentOp`.
    CurrentOp(CurrentOpOptions),
    /// `$collStats`, with its operand as given.
    CollStats(Document),
    /// `$indexStats`.
    IndexStats,
    /// `$listSessions`, with its operand as given.
    ListSessions(Document),
    /// `$listLocalSessions`, with its operand as given.
    ListLocalSessions(Document),
    /// `$planCacheStats`.
    PlanCacheStats,
}

impl SourceStage {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CurrentOp(_) => "$currentOp",
            Self::CollStats(_) => "$collStats",
            Self::IndexStats => "$indexStats",
            Self::ListSessions(_) => "$listSessions",
            Self::ListLocalSessions(_) => "$listLocalSessions",
            Self::PlanCacheStats => "$planCacheStats",
        }
    }
}
