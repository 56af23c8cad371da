//! Parsing a filter document.
//!
//! Operators are rows of tables, one table per family file: those that stand where a field name could stand
//! (`$and`, `$expr`, ...) and those below a field (`$gt`, `$size`, ...).

use super::node::{Node, Test};
use super::path::Path;
use super::{QueryContext, array, bits, comparison, element, evaluation, logical, refused, schema};
use crate::error::{CommandError, Result, fail};
use crate::value::{DocView, View};

/// Nesting beyond this is refused; BSON itself is not nested deeper.
const MAX_DEPTH: usize = 200;

/// Where in a filter the parser is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// The filter itself.
    Top,
    /// Matches whole documents, inside `$and` and the like.
    Document,
    /// Matches embedded documents, inside `$elemMatch`.
    Embedded,
}

/// State of one parse.
#[derive(Clone, Copy)]
pub(crate) struct Parser<'c> {
    pub(crate) context: &'c QueryContext,
    pub(crate) level: Level,
    pub(crate) depth: usize,
}

/// One operator below a field.
pub(crate) struct FieldOperand<'a> {
    /// The field's path.
    pub(crate) path: &'a str,
    /// The operator with its dollar sign.
    pub(crate) name: &'a str,
    /// Its operand.
    pub(crate) value: View<'a>,
    /// All operators of the field.
    pub(crate) all: DocView<'a>,
}

impl FieldOperand<'_> {
    /// `$name: value`, as error texts show it.
    pub(crate) fn shown(&self) -> String {
        crate::value::text::element(self.name, self.value)
    }

    /// A leaf at the field's path.
    pub(crate) fn leaf(&self, test: Test) -> Node {
        Node::Leaf { path: Path::new(self.path), test }
    }
}

/// Parses an operator below a field. `None` is an operator that another one reads (`$options`).
pub(crate) type FieldParser = fn(&Parser<'_>, &FieldOperand<'_>) -> Result<Option<Node>>;
/// Parses an operator in the place of a field name. `None` is an operator without effect (`$comment`).
pub(crate) type TopParser = fn(&Parser<'_>, &str, View<'_>) -> Result<Option<Node>>;

/// The families of operators below a field.
const FIELD_FAMILIES: [&[(&str, FieldParser)]; 7] =
    [comparison::FIELD, element::FIELD, array::FIELD, evaluation::FIELD, bits::FIELD, logical::FIELD, refused::FIELD];

/// The families of operators in the place of a field name.
const TOP_FAMILIES: [&[(&str, TopParser)]; 4] = [logical::TOP, evaluation::TOP, schema::TOP, refused::TOP];

fn field_parser(name: &str) -> Option<FieldParser> {
    FIELD_FAMILIES.iter().flat_map(|family| family.iter()).find(|(known, _)| *known == name).map(|row| row.1)
}

fn top_parser(name: &str) -> Option<TopParser> {
    TOP_FAMILIES.iter().flat_map(|family| family.iter()).find(|(known, _)| *known == name).map(|row| row.1)
}

/// Whether `name` is an operator below a field.
pub(crate) fn is_field_operator(name: &str) -> bool {
    field_parser(name).is_some()
}

/// Whether `name` is an operator in the place of a field name.
pub(crate) fn is_top_operator(name: &str) -> bool {
    top_parser(name).is_some()
}

/// Whether a value is a document of operators (`{ $lt: 5 }`) and not a value to compare with. A reference to a
/// document (`{ $ref, $id }`) is a value; with `incomplete`, any of its three fields makes it one.
pub(crate) fn is_operators(value: View<'_>, incomplete: bool) -> bool {
    let View::Document(document) = value else { return false };
    if !document.iter().next().is_some_and(|(name, _)| name.starts_with('$')) {
        return false;
    }
    let has = |wanted| document.get(wanted).is_some();
    let reference = if incomplete { has("$ref") || has("$id") || has("$db") } else { has("$ref") && has("$id") };
    !reference
}

impl<'c> Parser<'c> {
    /// A parser for a whole filter.
    pub(crate) fn new(context: &'c QueryContext) -> Self {
        Self { context, level: Level::Top, depth: 0 }
    }

    /// The parser for what stands one step deeper.
    ///
    /// # Errors
    /// `BadValue` beyond the depth limit.
    pub(crate) fn deeper(&self) -> Result<Self> {
        if self.depth >= MAX_DEPTH {
            return Err(CommandError::bad_value(format!("exceeded maximum query tree depth of {MAX_DEPTH}")));
        }
        Ok(Self { depth: self.depth + 1, ..*self })
    }

    /// Parses a document of conditions.
    pub(crate) fn document(&self, filter: DocView<'_>) -> Result<Node> {
        let inner = self.deeper()?;
        let next = if self.level == Level::Top { Level::Document } else { self.level };
        let mut children = Vec::new();
        for (name, value) in filter.iter() {
            if name.starts_with('$') {
                let Some(parse) = top_parser(name) else {
                    return fail(2, format!("unknown top level operator: {name}"));
                };
                children.extend(parse(&inner, name, value)?);
            } else if is_operators(value, false) {
                let View::Document(operators) = value else { continue };
                children.extend(Parser { level: next, ..inner }.field(name, operators)?);
            } else if let View::Regex { pattern, options } = value {
                let test = Test::Regex(super::regex::from_parts(pattern, options)?);
                children.push(Node::Leaf { path: Path::new(name), test });
            } else {
                let operand = FieldOperand { path: name, name: "$eq", value, all: filter };
                children.extend(comparison::equality(&inner, &operand)?);
            }
        }
        Ok(match children.len() {
            1 => children.swap_remove(0),
            _ => Node::And(children),
        })
    }

    /// Parses the operators of one field.
    pub(crate) fn field(&self, path: &str, operators: DocView<'_>) -> Result<Vec<Node>> {
        let inner = self.deeper()?;
        let mut nodes = Vec::new();
        for (name, value) in operators.iter() {
            let operand = FieldOperand { path, name, value, all: operators };
            match field_parser(name) {
                Some(parse) => nodes.extend(parse(&inner, &operand)?),
                None if name == "$where" => return fail(2, "$where cannot be applied to a field"),
                None => return fail(2, format!("unknown operator: {name}")),
            }
        }
        Ok(nodes)
    }
}

/// A whole number, as several operators take it.
///
/// # Errors
/// `FailedToParse`, naming the field.
pub(crate) fn integer(name: &str, value: View<'_>) -> Result<i64> {
    let shown = || crate::value::text::element(name, value);
    let Some(number) = value.number() else {
        return Err(CommandError::failed_to_parse(format!("Expected a number in: {}", shown())));
    };
    let why = match value {
        View::Double(value) if value.is_nan() => "Expected an integer, but found NaN in",
        View::Double(value) if value.abs() >= 9_223_372_036_854_775_808.0 => "Cannot represent as a 64-bit integer",
        View::Double(_) => "Expected an integer",
        _ => "Cannot represent as a 64-bit integer",
    };
    number.as_exact_i64().ok_or_else(|| CommandError::failed_to_parse(format!("{why}: {}", shown())))
}

/// A whole number that is not negative.
///
/// # Errors
/// `FailedToParse`, naming the field.
pub(crate) fn non_negative(name: &str, value: View<'_>) -> Result<i64> {
    let number = integer(name, value)?;
    if number < 0 {
        let shown = crate::value::text::element(name, value);
        return fail(9, format!("Expected a positive number in: {shown}"));
    }
    Ok(number)
}
