//! Applying projections.

use bson::raw::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Bson, Document};

use super::{Child, Mode, Projection, Tree};
use crate::aggregate::expression::Frame;
use crate::error::{Result, fail};
use crate::query::matcher::{Match, Matcher};
use crate::value::View;
use crate::value::view::{invalid_bson, to_document, to_raw};

/// Projects one document.
pub(super) fn apply(
    projection: &Projection,
    document: &RawDocument,
    how: Match,
    frame: &mut Frame<'_>,
) -> Result<RawDocumentBuf> {
    let mode = projection.mode;
    let fields = match mode {
        Mode::Inclusion | Mode::Exclusion => Some(select(&projection.tree, mode, document)?),
        Mode::Addition => None,
    };
    if !projection.tree.computed && projection.late.is_empty() {
        return Ok(fields.unwrap_or_else(|| document.to_owned()));
    }
    let mut result = match &fields {
        Some(fields) => to_document(fields)?,
        None => to_document(document)?,
    };
    compute(&projection.tree, &mut result, frame, mode)?;
    for (path, child) in &projection.late {
        late(&mut result, path, child, document, how)?;
    }
    to_raw(&result)
}

/// Copies what is included or not excluded.
fn select(tree: &Tree, mode: Mode, document: &RawDocument) -> Result<RawDocumentBuf> {
    let mut out = RawDocumentBuf::new();
    for element in document.iter_elements() {
        let element = element.map_err(|error| invalid_bson(&error))?;
        let name = element.key();
        match (tree.child(name.as_str()), mode) {
            (Some(Child::Include), _) | (None, Mode::Exclusion | Mode::Addition) => {
                out.append(name, element.value().map_err(|error| invalid_bson(&error))?);
            }
            (Some(Child::Inner(inner)), _) => {
                match element.value().map_err(|error| invalid_bson(&error))? {
                    RawBsonRef::Document(nested) => out.append(name, &*select(inner, mode, nested)?),
                    RawBsonRef::Array(array) => out.append(name, &*select_each(inner, mode, array)?),
                    // a scalar has no fields to include, and none to exclude
                    scalar if mode == Mode::Exclusion => out.append(name, scalar),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Ok(out)
}

fn select_each(tree: &Tree, mode: Mode, array: &RawArray) -> Result<RawArrayBuf> {
    let mut out = RawArrayBuf::new();
    for element in array.iter_elements() {
        let value = element.and_then(|element| element.value()).map_err(|error| invalid_bson(&error))?;
        match value {
            RawBsonRef::Document(nested) => out.push(&*select(tree, mode, nested)?),
            RawBsonRef::Array(nested) => out.push(&*select_each(tree, mode, nested)?),
            scalar if mode == Mode::Exclusion => out.push(scalar),
            _ => {}
        }
    }
    Ok(out)
}

/// Sets the computed fields, in the order in which they were named.
fn compute(tree: &Tree, document: &mut Document, frame: &mut Frame<'_>, mode: Mode) -> Result<()> {
    if !tree.computed {
        return Ok(());
    }
    for (name, child) in &tree.children {
        match child {
            Child::Compute(expression) => match expression.eval(frame)? {
                Some(value) => {
                    document.insert(name, value);
                }
                None => {
                    document.remove(name);
                }
            },
            Child::Inner(inner) if inner.computed => {
                let value = compute_value(inner, document.remove_in_place(name), frame, mode)?;
                document.insert(name, value);
            }
            _ => {}
        }
    }
    Ok(())
}

trait TakeValue {
    /// Takes a value and leaves null in its place, so that the field keeps its position.
    fn remove_in_place(&mut self, name: &str) -> Option<Bson>;
}

impl TakeValue for Document {
    fn remove_in_place(&mut self, name: &str) -> Option<Bson> {
        self.get_mut(name).map(|value| std::mem::replace(value, Bson::Null))
    }
}

fn compute_value(tree: &Tree, value: Option<Bson>, frame: &mut Frame<'_>, mode: Mode) -> Result<Bson> {
    match value {
        Some(Bson::Document(mut document)) => {
            compute(tree, &mut document, frame, mode)?;
            Ok(Bson::Document(document))
        }
        Some(Bson::Array(array)) => {
            let each = |value: Bson| compute_value(tree, Some(value), frame, mode);
            array.into_iter().map(each).collect::<Result<_>>().map(Bson::Array)
        }
        // a scalar gives way to a document of the computed fields
        _ => {
            let mut document = Document::new();
            compute(tree, &mut document, frame, mode)?;
            Ok(Bson::Document(document))
        }
    }
}

fn late(result: &mut Document, path: &[String], child: &Child, original: &RawDocument, how: Match) -> Result<()> {
    match child {
        Child::Slice { skip, limit } => {
            slice_at(result, path, *skip, *limit);
            Ok(())
        }
        Child::Position => position_at(result, path, how),
        Child::ElementMatch(matcher) => element_match(result, path, matcher, original),
        _ => Ok(()),
    }
}

fn slice_at(document: &mut Document, path: &[String], skip: Option<i64>, limit: i64) {
    let Some((first, rest)) = path.split_first() else { return };
    if let Some(value) = document.get_mut(first) {
        slice_value(value, rest, skip, limit);
    }
}

fn slice_value(value: &mut Bson, rest: &[String], skip: Option<i64>, limit: i64) {
    match value {
        Bson::Array(array) if rest.is_empty() => slice(array, skip, limit),
        Bson::Array(array) => {
            for element in array.iter_mut() {
                if let Bson::Document(document) = element {
                    slice_at(document, rest, skip, limit);
                }
            }
        }
        Bson::Document(document) => slice_at(document, rest, skip, limit),
        _ => {}
    }
}

fn slice(array: &mut Vec<Bson>, skip: Option<i64>, limit: i64) {
    let length = array.len() as i64;
    let (start, count) = match skip {
        Some(skip) if skip < 0 => ((length + skip).max(0), limit),
        Some(skip) => (skip.min(length), limit),
        None if limit < 0 => ((length + limit).max(0), length),
        None => (0, limit),
    };
    let end = start.saturating_add(count).min(length);
    array.truncate(end as usize);
    array.drain(..(start as usize).min(array.len()));
}

/// Leaves of the first array on the path only the element that matched.
fn position_at(document: &mut Document, path: &[String], how: Match) -> Result<()> {
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    match document.get_mut(first) {
        Some(Bson::Array(array)) => {
            let text = "Executor error during find command :: caused by :: positional operator '.$'";
            let Some(position) = how.array_position else {
                return fail(51246, format!("{text} couldn't find a matching element in the array"));
            };
            if position >= array.len() {
                return fail(51247, format!("{text} element mismatch"));
            }
            *array = vec![array.swap_remove(position)];
            Ok(())
        }
        Some(Bson::Document(inner)) => position_at(inner, rest, how),
        _ => Ok(()),
    }
}

fn element_match(result: &mut Document, path: &[String], matcher: &Matcher, original: &RawDocument) -> Result<()> {
    let Some(name) = path.first() else { return Ok(()) };
    let found = matcher.find_match(original)?.and_then(|how| how.array_position);
    let value = crate::value::DocView::from(original).get(name);
    let element = match (found, value) {
        (Some(position), Some(View::Array(array))) => array.get(position),
        _ => None,
    };
    match element {
        Some(element) => result.insert(name, Bson::Array(vec![element.to_bson()?])),
        None => result.remove(name),
    };
    Ok(())
}
