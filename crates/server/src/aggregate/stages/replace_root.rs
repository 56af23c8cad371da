//! `$replaceRoot` and `$replaceWith`.

use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};

use super::{Documents, Run, Stage};
use crate::aggregate::expression::{Expression, Frame, Globals, Val, lent};
use crate::error::{Result, fail};
use crate::query::QueryContext;
use crate::value::view::to_raw;
use crate::value::{DocView, View, text};

/// A stage that puts another document in the place of each.
#[derive(Debug, Clone)]
pub(crate) struct ReplaceRoot {
    /// How error texts name what was computed.
    opener: &'static str,
    root: Expression,
    globals: Arc<Globals>,
}

impl ReplaceRoot {
    /// Parses `$replaceRoot`.
    pub(crate) fn parse(operand: View<'_>, context: &QueryContext) -> Result<Self> {
        let View::Document(spec) = operand else {
            let text = "expected an object as specification for $replaceRoot stage, got";
            return fail(40229, format!("{text} {}", operand.type_name()));
        };
        let mut root = None;
        for (name, value) in spec.iter() {
            if name != "newRoot" {
                let text = format!("unrecognized option to $replaceRoot stage: {name}");
                return fail(40230, format!("{text}, only valid option is 'newRoot'."));
            }
            root = Some(Expression::parse(value, &context.scope)?);
        }
        match root {
            Some(root) => Ok(Self { opener: "'newRoot' expression", root, globals: context.globals() }),
            None => fail(40231, "no newRoot specified for the $replaceRoot stage"),
        }
    }

    /// Parses `$replaceWith`.
    pub(crate) fn parse_with(operand: View<'_>, context: &QueryContext) -> Result<Self> {
        let root = Expression::parse(operand, &context.scope)?;
        Ok(Self { opener: "'replacement document'", root, globals: context.globals() })
    }

    /// Replaces one document.
    pub(crate) fn apply(&self, document: &RawDocument, slots: &[Val]) -> Result<RawDocumentBuf> {
        let mut frame = Frame::new(document.into(), slots.to_vec(), &self.globals);
        let root = self.root.eval_view(&mut frame)?;
        match root.view() {
            Some(View::Document(DocView::Raw(raw))) => Ok(raw.to_owned()),
            Some(View::Document(other)) => to_raw(&other.to_document()?),
            other => {
                let kind = other.map_or("missing", View::type_name);
                let shown = other.map_or_else(|| "MISSING".to_owned(), text::value);
                let text = format!("{} must evaluate to an object, but resulting value was: {shown}", self.opener);
                let input = self.input_shown(document)?;
                fail(40228, format!("{text}. Type of resulting value: '{kind}'. Input document: {input}"))
            }
        }
    }

    /// The input as far as the expression reads it: a mongod fetches no more of it.
    fn input_shown(&self, document: &RawDocument) -> Result<String> {
        let mut document = DocView::from(document).to_document()?;
        if let Some(names) = self.root.root_fields() {
            let unread: Vec<_> = document.keys().filter(|name| !names.contains(*name)).cloned().collect();
            unread.iter().for_each(|name| {
                document.remove(name);
            });
        }
        Ok(lent::shown(&Some(bson::Bson::Document(document))))
    }
}

impl Stage for ReplaceRoot {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let slots = run.slots.clone();
        super::map(input, move |document| self.apply(&document, &slots))
    }

    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        Ok(Some(Arc::new(Self { root: self.root.clone().optimize()?, ..self.clone() })))
    }
}
