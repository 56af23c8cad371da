//! `$redact`.

use std::sync::Arc;

use bson::{Bson, Document};

use super::{Documents, Parsing, Run, Stage};
use crate::aggregate::expression::{Expression, Frame, lent};
use crate::error::{Result, fail};
use crate::value::View;
use crate::value::view::{to_document, to_raw};

/// A stage that cuts documents by what an expression says of each level.
#[derive(Debug, Clone)]
pub(super) struct Redact {
    expression: Expression,
    current: usize,
    verdicts: [usize; 3],
}

/// The verdicts, by variable name.
const VERDICTS: [&str; 3] = ["DESCEND", "PRUNE", "KEEP"];

impl Redact {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let mut scope = parsing.query().scope.clone();
        let current = scope.define("CURRENT");
        let verdicts = VERDICTS.map(|name| scope.define(name));
        Ok(Self { expression: Expression::parse(operand, &scope)?, current, verdicts })
    }

    /// What is left of a document; `None` when nothing is.
    fn redact(&self, document: Document, frame: &mut Frame<'_>) -> Result<Option<Document>> {
        frame.set(self.current, Some(Bson::Document(document.clone())));
        let verdict = self.expression.eval(frame)?;
        match verdict.as_ref().and_then(Bson::as_str) {
            Some("keep") => Ok(Some(document)),
            Some("prune") => Ok(None),
            Some("descend") => {
                let mut kept = Document::new();
                for (name, value) in document {
                    if let Some(value) = self.redact_value(value, frame)? {
                        kept.insert(name, value);
                    }
                }
                Ok(Some(kept))
            }
            _ => {
                let text =
                    "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and";
                fail(17053, format!("{text} $$PRUNE, but returned {}", lent::shown(&verdict)))
            }
        }
    }

    fn redact_value(&self, value: Bson, frame: &mut Frame<'_>) -> Result<Option<Bson>> {
        match value {
            Bson::Document(document) => Ok(self.redact(document, frame)?.map(Bson::Document)),
            Bson::Array(values) => {
                let mut kept = Vec::new();
                for value in values {
                    kept.extend(self.redact_value(value, frame)?);
                }
                Ok(Some(Bson::Array(kept)))
            }
            other => Ok(Some(other)),
        }
    }
}

impl Stage for Redact {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        Box::new(input.filter_map(move |document| {
            let redacted = document.and_then(|document| {
                let mut frame = Frame::new((&document).into(), run.slots.clone(), &run.globals);
                for (slot, verdict) in self.verdicts.iter().zip(["descend", "prune", "keep"]) {
                    frame.set(*slot, Some(Bson::String(verdict.to_owned())));
                }
                let kept = self.redact(to_document(&document)?, &mut frame)?;
                kept.map(|kept| to_raw(&kept)).transpose()
            });
            redacted.transpose()
        }))
    }

    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        Ok(Some(Arc::new(Self { expression: self.expression.clone().optimize()?, ..self.clone() })))
    }
}
