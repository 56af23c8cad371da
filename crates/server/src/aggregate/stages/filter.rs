//! `$match`.

use std::sync::Arc;

use super::{Documents, Parsing, Run, Stage};
use crate::error::{Result, fail};
use crate::query::Matcher;
use crate::query::evaluation::EXPR_CONTEXT;
use crate::value::View;

/// A stage that lets documents pass that match a filter.
#[derive(Debug)]
pub(super) struct Filter {
    matcher: Matcher,
}

impl Filter {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let View::Document(filter) = operand else {
            return fail(15959, "the match filter must be an expression in an object");
        };
        let matcher = Matcher::parse_view(filter, parsing.query()).map_err(|error| {
            // A find folds the constants of `$expr` when it reads the filter, a pipeline when it is optimized.
            match error.message.starts_with(EXPR_CONTEXT) {
                true => error.caused_by("Failed to optimize pipeline"),
                false => error,
            }
        })?;
        Ok(Self { matcher })
    }
}

impl Stage for Filter {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let slots = run.slots.clone();
        Box::new(input.filter_map(move |document| {
            let document = match document {
                Ok(document) => document,
                Err(error) => return Some(Err(error)),
            };
            match self.matcher.matches_with((&document).into(), &slots) {
                Ok(true) => Some(Ok(document)),
                Ok(false) => None,
                Err(error) => Some(Err(error)),
            }
        }))
    }
}
