//! `$unwind`.

use std::sync::Arc;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};

use super::{Documents, Run, Stage};
use crate::aggregate::expression::FieldPath;
use crate::error::{Result, fail};
use crate::value::view::{to_document, to_raw};
use crate::value::{DocView, View};

/// A stage that gives a document for each element of an array.
#[derive(Debug)]
pub(super) struct Unwind {
    path: FieldPath,
    preserve: bool,
    index: Option<FieldPath>,
}

impl Unwind {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>) -> Result<Self> {
        let mut path = None;
        let mut preserve = false;
        let mut index = None;
        match operand {
            View::String(text) => path = Some(text),
            View::Document(spec) => {
                for (name, value) in spec.iter() {
                    let kind = value.type_name();
                    match (name, value) {
                        ("path", View::String(text)) => path = Some(text),
                        ("path", _) => {
                            return fail(28808, format!("expected a string as the path for $unwind stage, got {kind}"));
                        }
                        ("preserveNullAndEmptyArrays", View::Bool(value)) => preserve = value,
                        ("preserveNullAndEmptyArrays", _) => {
                            let text = "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage";
                            return fail(28809, format!("{text}, got {kind}"));
                        }
                        ("includeArrayIndex", View::String(text)) if !text.is_empty() => index = Some(text),
                        ("includeArrayIndex", _) => {
                            let text = "expected a non-empty string for the includeArrayIndex  option to $unwind stage";
                            return fail(28810, format!("{text}, got {kind}"));
                        }
                        _ => return fail(28811, format!("unrecognized option to $unwind stage: {name}")),
                    }
                }
            }
            other => {
                let text = "expected either a string or an object as specification for $unwind stage, got";
                return fail(15981, format!("{text} {}", other.type_name()));
            }
        }
        let Some(path) = path else { return fail(28812, "no path specified to $unwind stage") };
        let Some(path) = path.strip_prefix('$') else {
            return fail(28818, format!("path option to $unwind stage should be prefixed with a '$': {path}"));
        };
        if let Some(index) = index.filter(|index| index.starts_with('$')) {
            let text = "includeArrayIndex option to $unwind stage should not be prefixed with a '$'";
            return fail(28822, format!("{text}: {index}"));
        }
        Ok(Self { path: FieldPath::parse(path)?, preserve, index: index.map(FieldPath::parse).transpose()? })
    }

    fn unwind(&self, document: RawDocumentBuf) -> Result<Vec<RawDocumentBuf>> {
        let mut value = Some(View::Document(DocView::from(&document)));
        for part in self.path.parts() {
            value = match value {
                Some(View::Document(inner)) => inner.get(part),
                _ => None,
            };
        }
        match value {
            Some(View::Array(array)) if !array.is_empty() => {
                let base = to_document(&document)?;
                let each = |(at, element): (usize, View<'_>)| {
                    let mut copy = base.clone();
                    set(&mut copy, self.path.parts(), Some(element.to_bson()?));
                    self.set_index(&mut copy, Bson::Int64(at as i64));
                    to_raw(&copy)
                };
                array.iter().enumerate().map(each).collect()
            }
            None | Some(View::Null | View::Undefined | View::Array(_)) => {
                if !self.preserve {
                    return Ok(Vec::new());
                }
                let empty = matches!(value, Some(View::Array(_)));
                if !empty && self.index.is_none() {
                    return Ok(vec![document]);
                }
                let mut copy = to_document(&document)?;
                if empty {
                    set(&mut copy, self.path.parts(), None);
                }
                self.set_index(&mut copy, Bson::Null);
                Ok(vec![to_raw(&copy)?])
            }
            Some(_) if self.index.is_none() => Ok(vec![document]),
            Some(_) => {
                let mut copy = to_document(&document)?;
                self.set_index(&mut copy, Bson::Null);
                Ok(vec![to_raw(&copy)?])
            }
        }
    }

    fn set_index(&self, document: &mut Document, index: Bson) {
        if let Some(path) = &self.index {
            set(document, path.parts(), Some(index));
        }
    }
}

/// Sets or removes the value at a path, making documents on the way.
pub(super) fn set(document: &mut Document, parts: &[Box<str>], value: Option<Bson>) {
    let Some((first, rest)) = parts.split_first() else { return };
    if rest.is_empty() {
        match value {
            Some(value) => document.insert(first.to_string(), value),
            None => document.remove(first),
        };
        return;
    }
    if value.is_none() && !matches!(document.get(first), Some(Bson::Document(_))) {
        return;
    }
    let inner = document.entry(first.to_string()).or_insert_with(|| Bson::Document(Document::new()));
    if !matches!(inner, Bson::Document(_)) {
        *inner = Bson::Document(Document::new());
    }
    if let Bson::Document(inner) = inner {
        set(inner, rest, value);
    }
}

impl Stage for Unwind {
    fn run(self: Arc<Self>, input: Documents, _: &Run) -> Documents {
        Box::new(input.flat_map(move |document| match document.and_then(|document| self.unwind(document)) {
            Ok(documents) => documents.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        }))
    }
}
