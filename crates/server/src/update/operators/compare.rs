//! `$min` and `$max`.

use std::cmp::Ordering;
use std::sync::Arc;

use bson::Bson;

use super::{At, Change, Operator, Parse};
use crate::error::Result;
use crate::value::{Collation, compare};

/// The operators of this family.
pub(crate) const OPERATORS: &[(&str, Parse)] = &[
    ("$max", |_, operand, context| {
        Ok(Arc::new(Extreme {
            operand: operand.clone(),
            wins: Ordering::Greater,
            collation: context.collation().cloned(),
        }))
    }),
    ("$min", |_, operand, context| {
        Ok(Arc::new(Extreme {
            operand: operand.clone(),
            wins: Ordering::Less,
            collation: context.collation().cloned(),
        }))
    }),
];

#[derive(Debug)]
struct Extreme {
    operand: Bson,
    /// How the operand must compare with the value to take its place.
    wins: Ordering,
    collation: Option<Collation>,
}

impl Operator for Extreme {
    fn update(&self, value: &mut Bson, _: &At<'_>) -> Result<Change> {
        if compare((&self.operand).into(), (&*value).into(), self.collation.as_ref()) != self.wins {
            return Ok(Change::None);
        }
        *value = self.operand.clone();
        Ok(Change::Set)
    }

    fn create(&self, _: &At<'_>) -> Result<Option<Bson>> {
        Ok(Some(self.operand.clone()))
    }
}
