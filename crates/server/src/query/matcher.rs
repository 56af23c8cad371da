//! A filter, parsed once and matched many times.

use bson::Bson;
use bson::raw::RawDocument;

use super::QueryContext;
use super::bounds::{self, Predicate};
use super::equalities;
use super::node::Node;
use super::parse::Parser;
use crate::aggregate::expression::Val;
use crate::error::{Result, fail};
use crate::value::view::SingleField;
use crate::value::{Collation, DocView, View};

/// A parsed filter.
#[derive(Debug, Clone)]
pub struct Matcher {
    root: Node,
    collation: Option<Collation>,
    slots: Vec<Val>,
}

/// How a document matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Match {
    /// The array position that the positional operator `$` stands for.
    pub array_position: Option<usize>,
}

/// BSON is not nested deeper than this.
const MAX_NESTING: usize = 200;

/// Whether a value is nested deeper than `limit`.
pub(crate) fn too_deep(value: View<'_>, limit: usize) -> bool {
    let Some(limit) = limit.checked_sub(1) else { return true };
    match value {
        View::Document(document) => document.iter().any(|(_, value)| too_deep(value, limit)),
        View::Array(array) => array.iter().any(|value| too_deep(value, limit)),
        _ => false,
    }
}

impl Matcher {
    /// Parses a filter.
    ///
    /// # Errors
    /// A mongod's error for the filter.
    pub fn parse(filter: &RawDocument, context: &QueryContext) -> Result<Self> {
        Self::parse_view(filter.into(), context)
    }

    /// Parses a filter, raw or decoded.
    ///
    /// # Errors
    /// A mongod's error for the filter.
    pub fn parse_view(filter: DocView<'_>, context: &QueryContext) -> Result<Self> {
        if too_deep(View::Document(filter), MAX_NESTING) {
            return fail(15, format!("filter exceeds the nesting limit of {MAX_NESTING}"));
        }
        let root = Parser::new(context).document(filter)?;
        Ok(Self { root, collation: context.collation().cloned(), slots: context.slots.clone() })
    }

    /// The filter that matches everything.
    pub fn all() -> Self {
        Self { root: Node::And(Vec::new()), collation: None, slots: Vec::new() }
    }

    /// Whether the filter has no condition.
    pub fn is_empty(&self) -> bool {
        matches!(&self.root, Node::And(children) if children.is_empty())
    }

    /// Whether `document` matches.
    ///
    /// # Errors
    /// Those of expressions below `$expr`.
    #[inline]
    pub fn matches(&self, document: &RawDocument) -> Result<bool> {
        self.root.matches(document.into(), &self.slots, &mut None)
    }

    /// Whether a raw or decoded document matches.
    ///
    /// # Errors
    /// Those of expressions below `$expr`.
    pub fn matches_view(&self, document: DocView<'_>) -> Result<bool> {
        self.root.matches(document, &self.slots, &mut None)
    }

    /// Whether a document matches with other values of the variables.
    pub(crate) fn matches_with(&self, document: DocView<'_>, slots: &[Val]) -> Result<bool> {
        self.root.matches(document, slots, &mut None)
    }

    /// Matches and reports the array position for the positional operator.
    ///
    /// # Errors
    /// Those of expressions below `$expr`.
    pub fn find_match(&self, document: &RawDocument) -> Result<Option<Match>> {
        let mut array_position = None;
        Ok(self.root.matches(document.into(), &self.slots, &mut array_position)?.then_some(Match { array_position }))
    }

    /// Matches a value on its own, as the only field of a document that is called `name`.
    ///
    /// # Errors
    /// Those of expressions below `$expr`.
    pub fn matches_as_field(&self, name: &str, value: View<'_>) -> Result<bool> {
        self.root.matches(DocView::Single(&SingleField { name, value }), &self.slots, &mut None)
    }

    /// The collation of its string comparisons.
    pub fn collation(&self) -> Option<&Collation> {
        self.collation.as_ref()
    }

    /// The values that the filter fixes, in order: what an upsert starts its document with.
    ///
    /// # Errors
    /// `NotSingleValueField` (54) when a path is fixed twice, or a path and one below it.
    pub fn equalities(&self) -> Result<Vec<(String, Bson)>> {
        equalities::collect(&self.root)
    }

    /// The equalities of a filter that asks for nothing else.
    pub fn only_equalities(&self) -> Option<Vec<(String, Bson)>> {
        if equalities::is_all(&self.root) { self.equalities().ok() } else { None }
    }

    /// The value that the filter demands of `_id`, when it is one plain equality: the fast path of every find by id.
    pub fn id_equality(&self) -> Option<&Bson> {
        bounds::id_equality(&self.root)
    }

    /// The paths that have conditions which hold for every match.
    pub fn bounded_paths(&self) -> Vec<&str> {
        bounds::paths(&self.root)
    }

    /// The conditions on `path` that hold for every match: what an index on that path can use.
    pub fn bounds_on(&self, path: &str) -> Vec<Predicate> {
        bounds::predicates(&self.root, path)
    }
}
