//! `$inc`, `$mul`, `$bit`.

use std::sync::Arc;

use bson::Bson;

use super::{At, Change, Operator, Parse, document_shown, id_shown};
use crate::error::{Result, fail};
use crate::update::storage::identical;
use crate::value::decimal::Dec;
use crate::value::number::Number;
use crate::value::{View, text};

/// The operators of this family.
pub(crate) const OPERATORS: &[(&str, Parse)] = &[
    ("$bit", |_, operand, _| parse_bit(operand)),
    ("$inc", |path, operand, _| parse(path, operand, true)),
    ("$mul", |path, operand, _| parse(path, operand, false)),
];

#[derive(Debug)]
struct Arithmetic {
    operand: Number,
    add: bool,
}

fn parse(path: &str, operand: &Bson, add: bool) -> Result<Arc<dyn Operator>> {
    match View::from(operand).number() {
        Some(operand) => Ok(Arc::new(Arithmetic { operand, add })),
        None => {
            let verb = if add { "increment" } else { "multiply" };
            let shown = text::element(path, operand.into());
            fail(14, format!("Cannot {verb} with non-numeric argument: {{{shown}}}"))
        }
    }
}

impl Operator for Arithmetic {
    fn update(&self, value: &mut Bson, at: &At<'_>) -> Result<Change> {
        let name = if self.add { "$inc" } else { "$mul" };
        let Some(current) = View::from(&*value).number() else {
            let kind = View::from(&*value).type_name();
            let text = format!("Cannot apply {name} to a value of non-numeric type. {}", document_shown(at));
            return fail(14, format!("{text} has the field '{}' of non-numeric type {kind}", at.name));
        };
        let result = if self.add { current.checked_add(self.operand) } else { current.checked_multiply(self.operand) };
        let Some(result) = result else {
            let shown = text::safe_number(current);
            let text = format!("Failed to apply {name} operations to current value ({shown})");
            return fail(2, format!("{text} for document {}", document_shown(at)));
        };
        let result = Bson::from(result);
        if identical(value, &result) {
            return Ok(Change::None);
        }
        *value = result;
        Ok(Change::Set)
    }

    fn create(&self, _: &At<'_>) -> Result<Option<Bson>> {
        if self.add {
            return Ok(Some(self.operand.into()));
        }
        // a missing field counts as zero of the operand's type
        Ok(Some(match self.operand {
            Number::Int(_) => Bson::Int32(0),
            Number::Long(_) => Bson::Int64(0),
            Number::Double(_) => Bson::Double(0.0),
            Number::Decimal(_) => Number::Decimal(Dec::ZERO).into(),
        }))
    }
}

#[derive(Debug, Clone, Copy)]
enum BitOperator {
    And,
    Or,
    Xor,
}

#[derive(Debug)]
struct Bit {
    steps: Vec<(BitOperator, Number)>,
}

fn parse_bit(operand: &Bson) -> Result<Arc<dyn Operator>> {
    const FORMAT: &str = "{$bit: {field: {and/or/xor: #}}";
    let Bson::Document(document) = operand else {
        let kind = View::from(operand).type_name();
        let text = format!("The $bit modifier is not compatible with a {kind}. You must pass in an embedded document");
        return fail(2, format!("{text}: {FORMAT}"));
    };
    let mut steps = Vec::new();
    for (name, value) in document {
        let shown = || text::element(name, value.into());
        let operator = match name.as_str() {
            "and" => BitOperator::And,
            "or" => BitOperator::Or,
            "xor" => BitOperator::Xor,
            _ => {
                let text = format!("The $bit modifier only supports 'and', 'or', and 'xor', not '{name}'");
                return fail(2, format!("{text} which is an unknown operator: {{{}}}", shown()));
            }
        };
        match View::from(value).number() {
            Some(number @ (Number::Int(_) | Number::Long(_))) => steps.push((operator, number)),
            _ => {
                let kind = View::from(value).type_name();
                let text = format!("The $bit modifier field must be an Integer(32/64 bit); a '{kind}'");
                return fail(2, format!("{text} is not supported here: {{{}}}", shown()));
            }
        }
    }
    if steps.is_empty() {
        let text = "You must pass in at least one bitwise operation. The format is";
        return fail(2, format!("{text}: {FORMAT}"));
    }
    Ok(Arc::new(Bit { steps }))
}

impl Bit {
    fn apply(&self, start: Number) -> Number {
        self.steps.iter().fold(start, |current, (operator, operand)| {
            let apply = |left: i64, right: i64| match operator {
                BitOperator::And => left & right,
                BitOperator::Or => left | right,
                BitOperator::Xor => left ^ right,
            };
            let result = apply(current.to_i64_saturating(), operand.to_i64_saturating());
            match (current, operand) {
                (Number::Int(_), Number::Int(_)) => Number::Int(result as i32),
                _ => Number::Long(result),
            }
        })
    }
}

impl Operator for Bit {
    fn update(&self, value: &mut Bson, at: &At<'_>) -> Result<Change> {
        let current = match View::from(&*value).number() {
            Some(number @ (Number::Int(_) | Number::Long(_))) => number,
            _ => {
                let kind = View::from(&*value).type_name();
                let text = format!("Cannot apply $bit to a value of non-integral type.{}", id_shown(at.id));
                return fail(2, format!("{text} has the field {} of non-integer type {kind}", at.name));
            }
        };
        let result = Bson::from(self.apply(current));
        if identical(value, &result) {
            return Ok(Change::None);
        }
        *value = result;
        Ok(Change::Set)
    }

    fn create(&self, _: &At<'_>) -> Result<Option<Bson>> {
        Ok(Some(self.apply(Number::Int(0)).into()))
    }
}
