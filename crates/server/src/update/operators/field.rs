//! `$set`, `$setOnInsert`, `$unset`, `$currentDate`.

use std::sync::Arc;

use bson::Bson;

use super::{At, Change, Operator, Parse};
use crate::error::{Result, fail};
use crate::update::storage::identical;
use crate::value::View;

/// The operators of this family.
pub(crate) const OPERATORS: &[(&str, Parse)] = &[
    ("$currentDate", |_, operand, _| parse_current_date(operand)),
    ("$set", |_, operand, _| Ok(Arc::new(Set(operand.clone())))),
    ("$setOnInsert", |_, operand, _| Ok(Arc::new(SetOnInsert(operand.clone())))),
    ("$unset", |_, _, _| Ok(Arc::new(Unset))),
];

#[derive(Debug)]
struct Set(Bson);

impl Operator for Set {
    fn update(&self, value: &mut Bson, _: &At<'_>) -> Result<Change> {
        if identical(value, &self.0) {
            return Ok(Change::None);
        }
        *value = self.0.clone();
        Ok(Change::Set)
    }

    fn create(&self, _: &At<'_>) -> Result<Option<Bson>> {
        Ok(Some(self.0.clone()))
    }
}

#[derive(Debug)]
struct SetOnInsert(Bson);

impl Operator for SetOnInsert {
    fn update(&self, value: &mut Bson, at: &At<'_>) -> Result<Change> {
        if !at.insert || identical(value, &self.0) {
            return Ok(Change::None);
        }
        *value = self.0.clone();
        Ok(Change::Set)
    }

    fn create(&self, at: &At<'_>) -> Result<Option<Bson>> {
        Ok(at.insert.then(|| self.0.clone()))
    }
}

#[derive(Debug)]
struct Unset;

impl Operator for Unset {
    fn update(&self, _: &mut Bson, _: &At<'_>) -> Result<Change> {
        Ok(Change::Removed)
    }

    fn create(&self, _: &At<'_>) -> Result<Option<Bson>> {
        Ok(None)
    }
}

#[derive(Debug)]
struct CurrentDate {
    timestamp: bool,
}

fn parse_current_date(operand: &Bson) -> Result<Arc<dyn Operator>> {
    let timestamp = match operand {
        Bson::Boolean(_) => false,
        Bson::Document(document) => {
            let required = "The '$type' string field is required to be 'date' or 'timestamp'";
            let example = "{$currentDate: {field : {$type: 'date'}}}";
            let mut found = None;
            for (name, value) in document {
                match (name.as_str(), value) {
                    ("$type", Bson::String(kind)) if kind == "date" => found = Some(false),
                    ("$type", Bson::String(kind)) if kind == "timestamp" => found = Some(true),
                    ("$type", _) => return fail(2, format!("{required}: {example}")),
                    _ => return fail(2, format!("Unrecognized $currentDate option: {name}")),
                }
            }
            match found {
                Some(found) => found,
                None => return fail(2, format!("{required}: {example}")),
            }
        }
        other => {
            let found = View::from(other).type_name();
            let text = "is not valid type for $currentDate. Please use a boolean ('true') or a $type expression";
            return fail(2, format!("{found} {text} ({{$type: 'timestamp/date'}})."));
        }
    };
    Ok(Arc::new(CurrentDate { timestamp }))
}

impl CurrentDate {
    fn value(&self, at: &At<'_>) -> Bson {
        if self.timestamp { Bson::Timestamp(at.context.timestamp) } else { Bson::DateTime(at.context.now) }
    }
}

impl Operator for CurrentDate {
    fn update(&self, value: &mut Bson, at: &At<'_>) -> Result<Change> {
        *value = self.value(at);
        Ok(Change::Set)
    }

    fn create(&self, at: &At<'_>) -> Result<Option<Bson>> {
        Ok(Some(self.value(at)))
    }
}
