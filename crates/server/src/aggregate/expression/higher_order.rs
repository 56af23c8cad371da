//! `$let`, `$map`, `$filter`, `$reduce`: operators that bind variables.

use bson::Bson;

use super::lent::{Val, nullish, type_name};
use super::table::{Operator, custom};
use super::variables::{Frame, Scope, check_write};
use super::{Expression, Node};
use crate::error::{Result, fail};
use crate::value::{DocView, View};

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    custom("$filter", parse_filter),
    custom("$let", parse_let),
    custom("$map", parse_map),
    custom("$reduce", parse_reduce),
];

/// `$let`.
#[derive(Debug, Clone)]
pub(crate) struct Let {
    variables: Vec<(usize, Expression)>,
    body: Expression,
}

/// `$map`.
#[derive(Debug, Clone)]
pub(crate) struct Map {
    input: Expression,
    slot: usize,
    body: Expression,
}

/// `$filter`.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    input: Expression,
    slot: usize,
    condition: Expression,
    limit: Option<Expression>,
}

/// `$reduce`.
#[derive(Debug, Clone)]
pub(crate) struct Reduce {
    input: Expression,
    initial: Expression,
    this: usize,
    value: usize,
    body: Expression,
}

fn object<'a>(operand: View<'a>, code: i32, text: &str) -> Result<DocView<'a>> {
    match operand {
        View::Document(document) => Ok(document),
        _ => fail(code, text),
    }
}

fn parse_let(operand: View<'_>, scope: &Scope) -> Result<Expression> {
    let document = object(operand, 16874, "$let only supports an object as its argument")?;
    let (mut vars, mut body) = (None, None);
    for (name, value) in document.iter() {
        match name {
            "vars" => vars = Some(value),
            "in" => body = Some(value),
            _ => return fail(16875, format!("Unrecognized parameter to $let: {name}")),
        }
    }
    let Some(vars) = vars else { return fail(16876, "Missing 'vars' parameter to $let") };
    let Some(body) = body else { return fail(16877, "Missing 'in' parameter to $let") };
    let vars = object(vars, 10065, "invalid parameter: expected an object (vars)")?;
    let mut inner = scope.clone();
    let mut variables = Vec::new();
    for (name, value) in vars.iter() {
        check_write(name)?;
        // a variable does not see its siblings
        let value = Expression::operand(value, scope)?;
        variables.push((inner.define(name), value));
    }
    let body = Expression::operand(body, &inner)?;
    Ok(Node::Let(Box::new(Let { variables, body })).into())
}

impl Let {
    /// The expressions inside.
    pub(crate) fn parts(&self) -> Vec<&Expression> {
        self.variables.iter().map(|(_, value)| value).chain([&self.body]).collect()
    }

    /// The expressions inside, to change.
    pub(crate) fn parts_mut(&mut self) -> Vec<&mut Expression> {
        self.variables.iter_mut().map(|(_, value)| value).chain([&mut self.body]).collect()
    }

    /// Binds the variables and computes the body.
    pub(crate) fn eval(&self, frame: &mut Frame<'_>) -> Result<Val> {
        let values =
            self.variables.iter().map(|(slot, value)| Ok((*slot, value.eval(frame)?))).collect::<Result<Vec<_>>>()?;
        values.into_iter().for_each(|(slot, value)| frame.set(slot, value));
        self.body.eval(frame)
    }
}

fn parse_map(operand: View<'_>, scope: &Scope) -> Result<Expression> {
    let document = object(operand, 16878, "$map only supports an object as its argument")?;
    let (mut input, mut name, mut body) = (None, None, None);
    for (field, value) in document.iter() {
        match field {
            "input" => input = Some(value),
            "as" => name = Some(value),
            "in" => body = Some(value),
            _ => return fail(16879, format!("Unrecognized parameter to $map: {field}")),
        }
    }
    let Some(input) = input else { return fail(16880, "Missing 'input' parameter to $map") };
    let Some(body) = body else { return fail(16882, "Missing 'in' parameter to $map") };
    let input = Expression::operand(input, scope)?;
    let mut inner = scope.clone();
    let slot = inner.define(variable_name(name)?);
    let body = Expression::operand(body, &inner)?;
    Ok(Node::Map(Box::new(Map { input, slot, body })).into())
}

fn variable_name<'a>(name: Option<View<'a>>) -> Result<&'a str> {
    match name {
        None => Ok("this"),
        Some(View::String(name)) => {
            check_write(name)?;
            Ok(name)
        }
        Some(_) => fail(16866, "empty variable names are not allowed"),
    }
}

impl Map {
    /// The expressions inside.
    pub(crate) fn parts(&self) -> Vec<&Expression> {
        vec![&self.input, &self.body]
    }

    /// The expressions inside, to change.
    pub(crate) fn parts_mut(&mut self) -> Vec<&mut Expression> {
        vec![&mut self.input, &mut self.body]
    }

    /// Computes the body for each element.
    pub(crate) fn eval(&self, frame: &mut Frame<'_>) -> Result<Val> {
        let input = self.input.eval(frame)?;
        if nullish(&input) {
            return Ok(Some(Bson::Null));
        }
        let Some(Bson::Array(array)) = input else {
            return fail(16883, format!("input to $map must be an array not {}", type_name(&input)));
        };
        let mut mapped = Vec::with_capacity(array.len());
        for element in array {
            frame.set(self.slot, Some(element));
            mapped.push(self.body.eval(frame)?.unwrap_or(Bson::Null));
        }
        Ok(Some(Bson::Array(mapped)))
    }
}

fn parse_filter(operand: View<'_>, scope: &Scope) -> Result<Expression> {
    let document = object(operand, 28646, "$filter only supports an object as its argument")?;
    let (mut input, mut name, mut condition, mut limit) = (None, None, None, None);
    for (field, value) in document.iter() {
        match field {
            "input" => input = Some(value),
            "as" => name = Some(value),
            "cond" => condition = Some(value),
            "limit" => limit = Some(value),
            _ => return fail(28647, format!("Unrecognized parameter to $filter: {field}")),
        }
    }
    let Some(input) = input else { return fail(28648, "Missing 'input' parameter to $filter") };
    let Some(condition) = condition else { return fail(28650, "Missing 'cond' parameter to $filter") };
    let input = Expression::operand(input, scope)?;
    let limit = limit.map(|value| Expression::operand(value, scope)).transpose()?;
    let mut inner = scope.clone();
    let slot = inner.define(variable_name(name)?);
    let condition = Expression::operand(condition, &inner)?;
    Ok(Node::Filter(Box::new(Filter { input, slot, condition, limit })).into())
}

impl Filter {
    /// The expressions inside.
    pub(crate) fn parts(&self) -> Vec<&Expression> {
        [&self.input, &self.condition].into_iter().chain(&self.limit).collect()
    }

    /// The expressions inside, to change.
    pub(crate) fn parts_mut(&mut self) -> Vec<&mut Expression> {
        [&mut self.input, &mut self.condition].into_iter().chain(&mut self.limit).collect()
    }

    /// Keeps the elements for which the condition is true.
    pub(crate) fn eval(&self, frame: &mut Frame<'_>) -> Result<Val> {
        let input = self.input.eval(frame)?;
        if nullish(&input) {
            return Ok(Some(Bson::Null));
        }
        let Some(Bson::Array(array)) = input else {
            return fail(28651, format!("input to $filter must be an array not {}", type_name(&input)));
        };
        let limit = match &self.limit {
            None => usize::MAX,
            Some(limit) => {
                let value = limit.eval(frame)?;
                let whole = super::arithmetic::number(&value).and_then(|number| number.as_exact_i32());
                match whole.filter(|limit| *limit > 0) {
                    Some(limit) => limit as usize,
                    None if nullish(&value) => usize::MAX,
                    None => return fail(327392, "$filter: limit must be greater than 0"),
                }
            }
        };
        let mut kept = Vec::new();
        for element in array {
            if kept.len() >= limit {
                break;
            }
            frame.set(self.slot, Some(element));
            if self.condition.eval_view(frame)?.is_true() {
                kept.extend(frame.get(self.slot).cloned());
            }
        }
        Ok(Some(Bson::Array(kept)))
    }
}

fn parse_reduce(operand: View<'_>, scope: &Scope) -> Result<Expression> {
    let View::Document(document) = operand else {
        return fail(40075, format!("$reduce requires an object as an argument, found: {}", operand.type_name()));
    };
    let mut inner = scope.clone();
    let this = inner.define("this");
    let value = inner.define("value");
    let (mut input, mut initial, mut body) = (None, None, None);
    for (name, operand) in document.iter() {
        match name {
            "input" => input = Some(Expression::operand(operand, scope)?),
            "initialValue" => initial = Some(Expression::operand(operand, scope)?),
            "in" => body = Some(Expression::operand(operand, &inner)?),
            _ => return fail(40076, format!("$reduce found an unknown argument: {name}")),
        }
    }
    let Some(input) = input else { return fail(40077, "$reduce requires 'input' to be specified") };
    let Some(initial) = initial else { return fail(40078, "$reduce requires 'initialValue' to be specified") };
    let Some(body) = body else { return fail(40079, "$reduce requires 'in' to be specified") };
    Ok(Node::Reduce(Box::new(Reduce { input, initial, this, value, body })).into())
}

impl Reduce {
    /// The expressions inside.
    pub(crate) fn parts(&self) -> Vec<&Expression> {
        vec![&self.input, &self.initial, &self.body]
    }

    /// The expressions inside, to change.
    pub(crate) fn parts_mut(&mut self) -> Vec<&mut Expression> {
        vec![&mut self.input, &mut self.initial, &mut self.body]
    }

    /// Folds the elements into one value.
    pub(crate) fn eval(&self, frame: &mut Frame<'_>) -> Result<Val> {
        let input = self.input.eval(frame)?;
        if nullish(&input) {
            return Ok(Some(Bson::Null));
        }
        let Some(Bson::Array(array)) = input else {
            return fail(
                40080,
                format!("$reduce requires that 'input' be an array, found: {}", super::lent::shown(&input)),
            );
        };
        let mut result = self.initial.eval(frame)?;
        for element in array {
            frame.set(self.this, Some(element));
            frame.set(self.value, result);
            result = self.body.eval(frame)?;
        }
        Ok(result)
    }
}
