//! `$mergeObjects`, `$objectToArray`, and of later releases `$getField`, `$setField`, `$unsetField`.

use bson::{Bson, Document, doc};

use super::lent::{Val, nullish, shown, type_name};
use super::table::{ANY, Call, Operator, Parameters, custom, eager, named, optional};
use super::variables::{Frame, Scope};
use super::{Expression, Node};
use crate::error::{Result, fail};
use crate::value::View;

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    eager("$mergeObjects", 0, ANY, merge),
    eager("$objectToArray", 1, 1, to_array),
    custom("$getField", parse_get_field),
    named("$setField", &SET_FIELD, set_field),
    named("$unsetField", &UNSET_FIELD, set_field),
];

fn merge(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    let mut merged = Document::new();
    let lone = values.len() == 1 && matches!(values.first(), Some(Some(Bson::Array(_))));
    let values = if lone { flatten(values) } else { values };
    for value in values {
        match value {
            Some(Bson::Document(document)) => merged.extend(document),
            value if nullish(&value) => {}
            other => {
                let text = format!("$mergeObjects requires object inputs, but input {}", shown(&other));
                return fail(40400, format!("{text} is of type {}", type_name(&other)));
            }
        }
    }
    Ok(Some(Bson::Document(merged)))
}

fn flatten(values: Vec<Val>) -> Vec<Val> {
    values
        .into_iter()
        .flat_map(|value| match value {
            Some(Bson::Array(array)) => array.into_iter().map(Some).collect(),
            other => vec![other],
        })
        .collect()
}

fn to_array(_: Call<'_>, values: Vec<Val>) -> Result<Val> {
    match values.into_iter().next().flatten() {
        Some(Bson::Document(document)) => {
            let pair = |(name, value): (String, Bson)| Bson::Document(doc! { "k": name, "v": value });
            Ok(Some(Bson::Array(document.into_iter().map(pair).collect())))
        }
        value if nullish(&value) => Ok(Some(Bson::Null)),
        other => fail(40390, format!("$objectToArray requires a document input, found: {}", type_name(&other))),
    }
}

static GET_FIELD: Parameters = Parameters {
    names: &["field", "input"],
    required: &[
        ("field", 3041702, "$getField requires 'field' to be specified"),
        ("input", 3041703, "$getField requires 'input' to be specified"),
    ],
    not_object: (3041701, "$getField requires an object as an argument, found: {}"),
    unknown: (3041701, "$getField found an unknown argument: {}"),
};

fn parse_get_field(operand: View<'_>, scope: &Scope) -> Result<Expression> {
    static OPERATOR: Operator = named("$getField", &GET_FIELD, get_field);
    let full = operand
        .as_document()
        .is_some_and(|document| document.get("field").is_some() || document.get("input").is_some());
    if full {
        return OPERATOR.parse(operand, scope);
    }
    // the short form reads the current document
    let field = Expression::operand(operand, scope)?;
    let input = Expression::operand(View::String("$$CURRENT"), scope)?;
    Ok(Node::Named { operator: &OPERATOR, arguments: vec![Some(field), Some(input)] }.into())
}

fn field_name(name: &str, value: Val) -> Result<String> {
    match value {
        Some(Bson::String(name)) => Ok(name),
        other => {
            let text = format!("{name} requires 'field' to evaluate to type String, but got {}", type_name(&other));
            fail(3041704, text)
        }
    }
}

fn get_field(name: &'static str, arguments: &[Option<Expression>], frame: &mut Frame<'_>) -> Result<Val> {
    let field = optional(arguments.first(), frame)?;
    let field = field_name(name, field)?;
    match optional(arguments.get(1), frame)? {
        Some(Bson::Document(mut document)) => Ok(document.remove(&field)),
        value if nullish(&value) => Ok(value.map(|_| Bson::Null)),
        _ => Ok(None),
    }
}

static SET_FIELD: Parameters = Parameters {
    names: &["field", "input", "value"],
    required: &[
        ("field", 4161102, "$setField requires 'field' to be specified"),
        ("input", 4161103, "$setField requires 'input' to be specified"),
        ("value", 4161104, "$setField requires 'value' to be specified"),
    ],
    not_object: (4161100, "$setField requires an object as an argument, found: {}"),
    unknown: (4161101, "$setField found an unknown argument: {}"),
};

static UNSET_FIELD: Parameters = Parameters {
    names: &["field", "input"],
    required: &[
        ("field", 4161102, "$unsetField requires 'field' to be specified"),
        ("input", 4161103, "$unsetField requires 'input' to be specified"),
    ],
    not_object: (4161100, "$unsetField requires an object as an argument, found: {}"),
    unknown: (4161101, "$unsetField found an unknown argument: {}"),
};

fn set_field(name: &'static str, arguments: &[Option<Expression>], frame: &mut Frame<'_>) -> Result<Val> {
    let field = optional(arguments.first(), frame)?;
    let field = field_name(name, field)?;
    let input = optional(arguments.get(1), frame)?;
    let value = optional(arguments.get(2), frame)?;
    match input {
        Some(Bson::Document(mut document)) => {
            match value {
                Some(value) => document.insert(field, value),
                None => document.remove(&field),
            };
            Ok(Some(Bson::Document(document)))
        }
        input if nullish(&input) => Ok(Some(Bson::Null)),
        other => {
            fail(4161105, format!("{name} requires 'input' to evaluate to type Object, but got {}", type_name(&other)))
        }
    }
}
