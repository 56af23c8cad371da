//! `$sample`.

use std::sync::Arc;

use super::{Documents, Run, Stage, deferred, listed};
use crate::error::{Result, fail};
use crate::value::View;

/// A stage that draws documents at random.
#[derive(Debug)]
pub(super) struct Sample {
    size: usize,
}

impl Sample {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>) -> Result<Self> {
        let View::Document(spec) = operand else {
            return fail(28745, "the $sample stage specification must be an object");
        };
        let mut size = None;
        for (name, value) in spec.iter() {
            if name != "size" {
                return fail(28748, format!("unrecognized option to $sample: {name}"));
            }
            let Some(number) = value.number() else { return fail(28746, "size argument to $sample must be a number") };
            match usize::try_from(number.to_i64_saturating()) {
                Ok(number) => size = Some(number),
                Err(_) => return fail(28747, "size argument to $sample must not be negative"),
            }
        }
        match size {
            Some(size) => Ok(Self { size }),
            None => fail(28749, "$sample stage must specify a size"),
        }
    }
}

impl Stage for Sample {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        deferred(move || {
            // a reservoir: each document has the same chance to stay
            let mut kept = Vec::new();
            for (seen, document) in input.enumerate() {
                let document = document?;
                if kept.len() < self.size {
                    kept.push(document);
                } else {
                    let at = (run.globals.random() * (seen + 1) as f64) as usize;
                    if let Some(slot) = kept.get_mut(at) {
                        *slot = document;
                    }
                }
            }
            // and no order
            for at in (1..kept.len()).rev() {
                kept.swap(at, (run.globals.random() * (at + 1) as f64) as usize);
            }
            Ok(listed(kept))
        })
    }
}
