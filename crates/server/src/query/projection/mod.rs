//! Projections: of `find`, and of the stages `$project`, `$addFields`, `$set` and `$unset`.

mod additions;
mod apply;
mod parse;

use bson::raw::{RawDocument, RawDocumentBuf};

use super::QueryContext;
use super::matcher::{Match, Matcher};
use crate::aggregate::expression::{Expression, Frame, Scope, Val};
use crate::error::Result;
use crate::value::DocView;

/// What a projection does with the fields that it does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They are left out.
    Inclusion,
    /// They are kept.
    Exclusion,
    /// They are kept, and the named ones are computed (`$addFields`).
    Addition,
}

/// The named fields of one document, in the order in which they were named.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    children: Vec<(String, Child)>,
    /// Whether a field here or below is computed.
    computed: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Child {
    Include,
    Exclude,
    Compute(Expression),
    Inner(Tree),
    /// `$slice` of `find`.
    Slice {
        skip: Option<i64>,
        limit: i64,
    },
    /// `$elemMatch` of `find`.
    ElementMatch(Box<Matcher>),
    /// The positional operator.
    Position,
}

/// A parsed projection.
#[derive(Debug, Clone)]
pub struct Projection {
    mode: Mode,
    tree: Tree,
    /// Fields whose values are changed after everything else: slices, matches, positions; each by its parts.
    late: Vec<(Vec<String>, Child)>,
    slots: Vec<Val>,
    globals: std::sync::Arc<crate::aggregate::expression::Globals>,
}

impl Projection {
    /// Parses the projection of a `find` or the `fields` of a `findAndModify`; `None` for an empty one.
    ///
    /// # Errors
    /// A mongod's error for the projection.
    pub fn parse(spec: &RawDocument, context: &QueryContext) -> Result<Option<Self>> {
        if spec.is_empty() {
            return Ok(None);
        }
        parse::parse(spec.into(), context, parse::Policy::FIND).map(Some)
    }

    /// Parses the operand of `$project`.
    ///
    /// # Errors
    /// A mongod's error for the projection.
    pub(crate) fn parse_stage(spec: DocView<'_>, context: &QueryContext) -> Result<Self> {
        parse::parse(spec, context, parse::Policy::PROJECT)
    }

    /// Parses the operand of `$addFields`.
    ///
    /// # Errors
    /// A mongod's error for the fields.
    pub(crate) fn parse_additions(spec: DocView<'_>, context: &QueryContext) -> Result<Self> {
        additions::parse(spec, context)
    }

    /// Computes what does not depend on the document.
    ///
    /// # Errors
    /// Those of the constants computed.
    pub(crate) fn optimize(&mut self) -> Result<()> {
        self.tree.optimize()
    }

    /// Whether it has a positional operator, so that a document can only be projected with how it matched.
    pub fn needs_match(&self) -> bool {
        self.late.iter().any(|(_, child)| matches!(child, Child::Position))
    }

    /// Projects a document. `how` is how the document matched the filter, for the positional operator.
    ///
    /// # Errors
    /// Those of expressions; 51246 for a positional operator without an array position.
    pub fn apply(&self, document: &RawDocument, how: Match) -> Result<RawDocumentBuf> {
        self.apply_with(document, how, &self.slots)
    }

    /// Projects a document with the values of outer variables.
    pub(crate) fn apply_with(&self, document: &RawDocument, how: Match, slots: &[Val]) -> Result<RawDocumentBuf> {
        let mut frame = Frame::new(document.into(), slots.to_vec(), &self.globals);
        apply::apply(self, document, how, &mut frame)
    }
}

impl Tree {
    fn optimize(&mut self) -> Result<()> {
        for (_, child) in &mut self.children {
            match child {
                Child::Compute(expression) => {
                    let taken = std::mem::replace(expression, Expression::constant(None));
                    *expression = taken.optimize()?;
                }
                Child::Inner(tree) => tree.optimize()?,
                _ => {}
            }
        }
        Ok(())
    }

    fn child(&self, name: &str) -> Option<&Child> {
        self.children.iter().find(|(known, _)| known == name).map(|(_, child)| child)
    }
}

/// The scope of the expressions of a context.
fn scope_of(context: &QueryContext) -> &Scope {
    &context.scope
}
