//! `$push` with `$each`, `$position`, `$slice`, `$sort`.

use std::sync::Arc;

use bson::{Bson, Document};

use super::{At, Change, Operator, Parse, document_shown};
use crate::error::{Result, fail};
use crate::query::{QueryContext, Sort};
use crate::update::storage::identical;
use crate::value::{Collation, DocView, View, compare};

/// The operator of this file.
pub(crate) const OPERATORS: &[(&str, Parse)] = &[("$push", |_, operand, context| parse(operand, context))];

#[derive(Debug)]
struct Push {
    values: Vec<Bson>,
    position: Option<i64>,
    slice: Option<i64>,
    sort: Option<Order>,
    collation: Option<Collation>,
}

/// How the array is sorted after the values were added.
#[derive(Debug)]
enum Order {
    /// Whole elements, ascending or descending.
    Whole { descending: bool },
    /// By fields of documents.
    Fields(Box<Sort>),
}

fn parse(operand: &Bson, context: &QueryContext) -> Result<Arc<dyn Operator>> {
    let collation = context.collation().cloned();
    let mut push = Push { values: Vec::new(), position: None, slice: None, sort: None, collation };
    let Bson::Document(document) = operand else {
        push.values.push(operand.clone());
        return Ok(Arc::new(push));
    };
    let Some(each) = document.get("$each") else {
        push.values.push(operand.clone());
        return Ok(Arc::new(push));
    };
    let Bson::Array(values) = each else {
        let kind = View::from(each).type_name();
        return fail(2, format!("The argument to $each in $push must be an array but it was of type: {kind}"));
    };
    push.values = values.clone();
    for (name, value) in document {
        let kind = View::from(value).type_name();
        let whole = || View::from(value).number().and_then(|number| number.as_exact_i64());
        match name.as_str() {
            "$each" => {}
            "$slice" => match whole() {
                Some(slice) => push.slice = Some(slice),
                None => {
                    return fail(
                        2,
                        format!("The value for $slice must be an integer value but was given type: {kind}"),
                    );
                }
            },
            "$position" => match whole() {
                Some(position) => push.position = Some(position),
                None => {
                    return fail(2, format!("The value for $position must be an integer value, not of type: {kind}"));
                }
            },
            "$sort" => push.sort = Some(parse_sort(value, &push.collation)?),
            _ => return fail(2, format!("Unrecognized clause in $push: {name}")),
        }
    }
    Ok(Arc::new(push))
}

fn direction(value: &Bson) -> Result<bool> {
    match View::from(value).number().and_then(|number| number.as_exact_i64()) {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => fail(2, "The $sort element value must be either 1 or -1"),
    }
}

fn parse_sort(value: &Bson, collation: &Option<Collation>) -> Result<Order> {
    match value {
        Bson::Document(pattern) => {
            if pattern.is_empty() {
                return fail(2, "The $sort pattern is empty when it should be a set of fields.");
            }
            for (name, value) in pattern {
                direction(value)?;
                if name.is_empty() {
                    return fail(2, "The $sort field cannot be empty");
                }
                if name.split('.').any(str::is_empty) {
                    return fail(2, format!("The $sort field is a dotted field but has an empty part: {name}"));
                }
            }
            Ok(Order::Fields(Box::new(Sort::parse_view(pattern.into(), collation.clone())?)))
        }
        number if View::from(number).number().is_some() => Ok(Order::Whole { descending: direction(number)? }),
        _ => {
            let text = "use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields";
            fail(2, format!("The $sort is invalid: {text}"))
        }
    }
}

impl Push {
    /// Where the values go in an array of `length`.
    fn place(&self, length: usize) -> usize {
        match self.position {
            None => length,
            Some(position) if position >= 0 => usize::try_from(position).map_or(length, |at| at.min(length)),
            Some(position) => length.saturating_sub(position.unsigned_abs() as usize),
        }
    }

    fn arrange(&self, values: &mut Vec<Bson>) -> Result<()> {
        match &self.sort {
            None => {}
            Some(Order::Whole { descending }) => values.sort_by(|left, right| {
                let order = compare(left.into(), right.into(), self.collation.as_ref());
                if *descending { order.reverse() } else { order }
            }),
            Some(Order::Fields(sort)) => {
                let empty = Document::new();
                let mut keyed = Vec::with_capacity(values.len());
                for value in values.drain(..) {
                    let document = match &value {
                        Bson::Document(document) => DocView::from(document),
                        _ => DocView::from(&empty),
                    };
                    keyed.push((sort.key_of(document)?, value));
                }
                keyed.sort_by(|left, right| left.0.cmp(&right.0));
                values.extend(keyed.into_iter().map(|(_, value)| value));
            }
        }
        if let Some(slice) = self.slice {
            let keep = usize::try_from(slice.unsigned_abs()).unwrap_or(usize::MAX);
            if slice >= 0 {
                values.truncate(keep);
            } else {
                values.drain(..values.len().saturating_sub(keep));
            }
        }
        Ok(())
    }
}

impl Operator for Push {
    fn update(&self, value: &mut Bson, at: &At<'_>) -> Result<Change> {
        let Bson::Array(values) = &mut *value else {
            let kind = View::from(&*value).type_name();
            let text = format!("The field '{}' must be an array but is of type {kind}", at.path);
            return fail(2, format!("{text} in document {}", document_shown(at)));
        };
        let before = values.clone();
        let place = self.place(values.len());
        values.splice(place..place, self.values.iter().cloned());
        self.arrange(values)?;
        let same = before.len() == values.len() && before.iter().zip(&*values).all(|(old, new)| identical(old, new));
        if same {
            return Ok(Change::None);
        }
        let plain = self.sort.is_none() && self.slice.is_none() && place == before.len();
        Ok(if plain { Change::Appended(before.len()) } else { Change::Set })
    }

    fn create(&self, _: &At<'_>) -> Result<Option<Bson>> {
        let mut values = self.values.clone();
        self.arrange(&mut values)?;
        Ok(Some(Bson::Array(values)))
    }
}
