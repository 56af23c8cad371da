//! `$limit` and `$skip`.

use std::sync::Arc;

use super::{Documents, Run, Stage};
use crate::error::{Result, fail};
use crate::value::View;

/// A stage that lets the first documents pass.
#[derive(Debug)]
pub(super) struct Limit(u64);

impl Limit {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>) -> Result<Self> {
        let Some(number) = operand.number() else { return fail(15957, "the limit must be specified as a number") };
        match u64::try_from(number.to_i64_saturating()) {
            Ok(limit @ 1..) => Ok(Self(limit)),
            _ => fail(15958, "the limit must be positive"),
        }
    }
}

impl Stage for Limit {
    fn run(self: Arc<Self>, input: Documents, _: &Run) -> Documents {
        Box::new(input.take(usize::try_from(self.0).unwrap_or(usize::MAX)))
    }

    fn limit(&self) -> Option<u64> {
        Some(self.0)
    }
}

/// A stage that leaves out the first documents.
#[derive(Debug)]
pub(super) struct Skip(u64);

impl Skip {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>) -> Result<Self> {
        let Some(number) = operand.number() else { return fail(15972, "Argument to $skip must be a number") };
        match u64::try_from(number.to_i64_saturating()) {
            Ok(skip) => Ok(Self(skip)),
            Err(_) => fail(15956, "Argument to $skip cannot be negative"),
        }
    }
}

impl Stage for Skip {
    fn run(self: Arc<Self>, input: Documents, _: &Run) -> Documents {
        let mut left = self.0;
        // an error is never skipped
        Box::new(input.filter(move |document| {
            let skip = left > 0 && document.is_ok();
            left -= u64::from(skip);
            !skip
        }))
    }
}
