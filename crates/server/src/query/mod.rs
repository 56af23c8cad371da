//! The query language: filters, projections, sort patterns.
//!
//! | file | subject |
//! | --- | --- |
//! | [`matcher`] | [`Matcher`]: a filter, parsed once and matched many times |
//! | `parse`, `node` | parsing filters, and their parsed form |
//! | `path` | where a dotted path leads, through arrays |
//! | `comparison`, `logical`, `element`, `array`, `evaluation`, `bits`, `schema`, `refused` | one family of operators each |
//! | [`regex`] | regular expressions with PCRE's syntax |
//! | `equalities`, [`bounds`] | what a filter fixes, for upserts and for indexes |
//! | [`projection`] | what is returned of a document |
//! | [`sort`] | sort patterns |

mod array;
mod bits;
pub mod bounds;
mod comparison;
mod element;
mod equalities;
mod evaluation;
mod logical;
pub mod matcher;
mod node;
mod parse;
mod path;
pub mod projection;
mod refused;
pub mod regex;
mod schema;
pub mod sort;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bson::{DateTime, Timestamp};

pub use crate::value::Collation;
pub(crate) use matcher::too_deep;
pub use matcher::{Match, Matcher};
pub use projection::Projection;
pub use sort::Sort;

use crate::aggregate::expression::{Globals, Scope, Val};

/// What a filter or a projection is parsed with.
#[derive(Debug, Clone)]
pub struct QueryContext {
    /// Collation of string comparisons.
    pub collation: Option<Collation>,
    /// What is allowed here.
    pub features: Features,
    /// `$$NOW`.
    pub now: DateTime,
    /// `$$CLUSTER_TIME`, on a member of a replica set.
    pub cluster_time: Option<Timestamp>,
    /// Starts the generator behind `$rand`.
    pub seed: u64,
    /// Variables that expressions may read.
    pub scope: Scope,
    /// The values of those variables.
    pub slots: Vec<Val>,
}

/// Parts of the filter language that not every place allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// `$expr`.
    pub expr: bool,
    /// `$jsonSchema`.
    pub json_schema: bool,
    /// `$text`.
    pub text: bool,
    /// `$where`.
    pub javascript: bool,
}

impl Features {
    /// Everything: the filter of a `find`, an update or a delete.
    pub const ALL: Self = Self { expr: true, json_schema: true, text: true, javascript: true };
    /// Nothing special: array filters, `$pull`, `$elemMatch` of a projection.
    pub const NONE: Self = Self { expr: false, json_schema: false, text: false, javascript: false };
}

impl QueryContext {
    /// A context without collation and variables.
    pub fn new(now: DateTime) -> Self {
        Self {
            collation: None,
            features: Features::ALL,
            now,
            cluster_time: None,
            seed: 0,
            scope: Scope::default(),
            slots: Vec::new(),
        }
    }

    /// The same with a collation.
    pub fn with_collation(mut self, collation: Option<Collation>) -> Self {
        self.collation = collation;
        self
    }

    /// The same without special features.
    pub(crate) fn without_features(&self) -> Self {
        Self { features: Features::NONE, ..self.clone() }
    }

    /// What expressions read.
    pub(crate) fn globals(&self) -> Arc<Globals> {
        Arc::new(Globals::new(self.now, self.cluster_time, self.collation.clone(), self.seed))
    }
}
