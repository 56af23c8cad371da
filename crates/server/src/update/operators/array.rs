//! `$addToSet` and `$pop`.

use std::sync::Arc;

use bson::Bson;

use super::{At, Change, Operator, Parse};
use crate::error::{Result, fail};
use crate::query::QueryContext;
use crate::value::{Collation, View, equal, text};

/// The operators of this family.
pub(crate) const OPERATORS: &[(&str, Parse)] = &[
    ("$addToSet", |_, operand, context| parse_add_to_set(operand, context)),
    ("$pop", |path, operand, _| parse_pop(path, operand)),
];

#[derive(Debug)]
struct AddToSet {
    values: Vec<Bson>,
    collation: Option<Collation>,
}

fn parse_add_to_set(operand: &Bson, context: &QueryContext) -> Result<Arc<dyn Operator>> {
    let collation = context.collation().cloned();
    let each = match operand {
        Bson::Document(document) if document.keys().next().is_some_and(|name| name == "$each") => {
            let Some(Bson::Array(values)) = document.get("$each") else {
                let kind = document.get("$each").map_or("missing", |value| View::from(value).type_name());
                let text = "The argument to $each in $addToSet must be an array but it was of type";
                return fail(2, format!("{text} {kind}"));
            };
            if document.len() > 1 {
                let shown = text::document(document);
                return fail(2, format!("Found unexpected fields after $each in $addToSet: {shown}"));
            }
            values.clone()
        }
        one => vec![one.clone()],
    };
    let mut set = AddToSet { values: Vec::new(), collation };
    for value in each {
        if !set.contains(&set.values, &value) {
            set.values.push(value);
        }
    }
    Ok(Arc::new(set))
}

impl AddToSet {
    fn contains(&self, values: &[Bson], wanted: &Bson) -> bool {
        values.iter().any(|value| equal(value.into(), wanted.into(), self.collation.as_ref()))
    }
}

impl Operator for AddToSet {
    fn update(&self, value: &mut Bson, at: &At<'_>) -> Result<Change> {
        let Bson::Array(values) = value else {
            let kind = View::from(&*value).type_name();
            let text = format!("Cannot apply $addToSet to non-array field. Field named '{}'", at.name);
            return fail(2, format!("{text} has non-array type {kind}"));
        };
        let new: Vec<_> = self.values.iter().filter(|value| !self.contains(values, value)).cloned().collect();
        if new.is_empty() {
            return Ok(Change::None);
        }
        values.extend(new);
        Ok(Change::Set)
    }

    fn create(&self, _: &At<'_>) -> Result<Option<Bson>> {
        Ok(Some(Bson::Array(self.values.clone())))
    }
}

#[derive(Debug)]
struct Pop {
    first: bool,
}

fn parse_pop(path: &str, operand: &Bson) -> Result<Arc<dyn Operator>> {
    let shown = || text::element(path, operand.into());
    let Some(number) = View::from(operand).number() else {
        return fail(9, format!("Expected a number in: {}", shown()));
    };
    match number.as_exact_i64() {
        Some(1) => Ok(Arc::new(Pop { first: false })),
        Some(-1) => Ok(Arc::new(Pop { first: true })),
        Some(other) => fail(9, format!("$pop expects 1 or -1, found: {other}")),
        None => fail(9, format!("Expected an integer: {}", shown())),
    }
}

impl Operator for Pop {
    fn update(&self, value: &mut Bson, at: &At<'_>) -> Result<Change> {
        let Bson::Array(values) = value else {
            let kind = View::from(&*value).type_name();
            return fail(14, format!("Path '{}' contains an element of non-array type '{kind}'", at.path));
        };
        if values.is_empty() {
            return Ok(Change::None);
        }
        if self.first {
            values.remove(0);
        } else {
            values.pop();
        }
        Ok(Change::Set)
    }

    fn create(&self, _: &At<'_>) -> Result<Option<Bson>> {
        Ok(None)
    }
}
