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
//! | [`distinct`] | the distinct values of a path |

mod array;
mod bits;
pub mod bounds;
mod comparison;
pub mod distinct;
mod element;
mod equalities;
pub(crate) mod evaluation;
mod logical;
pub mod matcher;
mod node;
mod parse;
pub(crate) mod path;
pub mod projection;
mod refused;
pub mod regex;
mod schema;
pub mod sort;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bson::{Bson, DateTime, Document};

pub use crate::value::Collation;
pub use distinct::Distinct;
pub(crate) use matcher::too_deep;
pub use matcher::{Match, Matcher};
pub use projection::Projection;
pub use sort::Sort;

use crate::aggregate::expression::variables::check_write;
use crate::aggregate::expression::{Expression, Frame, Globals, Scope, Val};
use crate::error::{Result, fail};

/// What a filter or a projection is parsed with.
#[derive(Debug, Clone)]
pub struct QueryContext {
    /// What is allowed here.
    pub features: Features,
    /// Time, collation and chance.
    globals: Arc<Globals>,
    /// Variables that expressions may read.
    pub(crate) scope: Scope,
    /// The values of those variables.
    pub(crate) slots: Vec<Val>,
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
    /// A context without collation and variables. `now` is `$$NOW`.
    pub fn new(now: DateTime) -> Self {
        Self::with_globals(Globals::new(now, None, None, 0))
    }

    /// A context with the collation, the logical time and the random seed of a command.
    pub fn with_globals(globals: Globals) -> Self {
        Self { features: Features::ALL, globals: Arc::new(globals), scope: Scope::default(), slots: Vec::new() }
    }

    /// The same without these stages, operators and accumulators.
    pub fn without(mut self, missing: &'static [&'static [&'static str]]) -> Self {
        self.scope = self.scope.without(missing);
        self
    }

    /// The same with a collation.
    pub fn with_collation(mut self, collation: Option<Collation>) -> Self {
        self.globals = Arc::new(self.globals.with_collation(collation));
        self
    }

    /// Binds a variable that expressions may read as `$$name` (the `let` option of a command).
    ///
    /// # Errors
    /// 16866 to 16868 for a name that a user may not bind.
    pub fn bind(&mut self, name: &str, value: Bson) -> Result<()> {
        check_write(name)?;
        let slot = self.scope.define(name);
        self.slots.resize(slot, None);
        self.slots.push(Some(value));
        Ok(())
    }

    /// Binds the variables of a command's `let` option. Their values are expressions, in which no document is known;
    /// all of them see only what was bound before.
    ///
    /// # Errors
    /// Those of [`Self::bind`], those of an expression, and 4890500 for one that reads a field.
    pub fn bind_all(&mut self, variables: &Document) -> Result<()> {
        let before = self.clone();
        for (name, value) in variables {
            check_write(name)?;
            let expression = Expression::parse(value.into(), &before.scope)?.optimize()?;
            if expression.root_fields().is_none_or(|fields| !fields.is_empty()) {
                let text = "Command let Expression tried to access a field, but this is not allowed because command let \
                            expressions run before the query examines any documents.";
                return fail(4890500, text);
            }
            let empty = Document::new();
            let value = expression.eval(&mut Frame::new((&empty).into(), before.slots.clone(), &before.globals))?;
            let slot = self.scope.define(name);
            self.slots.resize(slot, None);
            self.slots.push(value);
        }
        Ok(())
    }

    /// The collation of string comparisons.
    pub fn collation(&self) -> Option<&Collation> {
        self.globals.collation.as_ref()
    }

    /// The same without special features.
    pub(crate) fn without_features(&self) -> Self {
        Self { features: Features::NONE, ..self.clone() }
    }

    /// What expressions read.
    pub(crate) fn globals(&self) -> Arc<Globals> {
        Arc::clone(&self.globals)
    }
}
