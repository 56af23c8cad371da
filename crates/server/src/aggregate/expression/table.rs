//! The table of expression operators.

use super::lent::Val;
use super::variables::{Frame, Globals, Scope};
use super::{
    Expression, Node, accumulators, arithmetic, array, boolean, comparison, conditional, convert, date, higher_order,
    object, other, regex, set, string, trigonometry,
};
use crate::error::{Result, fail};
use crate::value::{View, text};

/// One operator.
#[derive(Debug)]
pub(crate) struct Operator {
    /// With its dollar sign.
    pub(crate) name: &'static str,
    /// How it is parsed and computed.
    pub(crate) form: Form,
}

/// What an operator's function learns besides its operands.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// The operator's name.
    pub(crate) name: &'static str,
    /// Time, collation, chance.
    pub(crate) globals: &'a Globals,
}

/// Computes from values.
pub(crate) type Eager = fn(Call<'_>, Vec<Val>) -> Result<Val>;
/// Computes from expressions, in its own order.
pub(crate) type Lazy = fn(&[Expression], &mut Frame<'_>) -> Result<Val>;
/// Computes from named operands.
pub(crate) type Named = fn(&'static str, &[Option<Expression>], &mut Frame<'_>) -> Result<Val>;
/// Parses a form of its own.
pub(crate) type Custom = fn(View<'_>, &Scope) -> Result<Expression>;

/// How an operator takes its operands.
#[derive(Debug)]
pub(crate) enum Form {
    /// A list, all computed first.
    Eager { least: usize, most: usize, eval: Eager },
    /// A list, computed as needed.
    Lazy { least: usize, most: usize, eval: Lazy },
    /// A document of named operands.
    Named { parameters: &'static Parameters, eval: Named },
    /// Anything else.
    Custom(Custom),
}

/// The named operands of an operator and the errors for wrong ones.
#[derive(Debug)]
pub(crate) struct Parameters {
    /// Names, in the order in which the function gets them.
    pub(crate) names: &'static [&'static str],
    /// Those that must be there, with the error for a missing one.
    pub(crate) required: &'static [(&'static str, i32, &'static str)],
    /// The error for an operand that is no document; `{}` stands for the type found.
    pub(crate) not_object: (i32, &'static str),
    /// The error for an unknown name; `{}` stands for the name.
    pub(crate) unknown: (i32, &'static str),
}

/// Any number of operands.
pub(crate) const ANY: usize = usize::MAX;

/// A row for an operator on values.
pub(crate) const fn eager(name: &'static str, least: usize, most: usize, eval: Eager) -> Operator {
    Operator { name, form: Form::Eager { least, most, eval } }
}

/// A row for an operator on expressions.
pub(crate) const fn lazy(name: &'static str, least: usize, most: usize, eval: Lazy) -> Operator {
    Operator { name, form: Form::Lazy { least, most, eval } }
}

/// A row for an operator with named operands.
pub(crate) const fn named(name: &'static str, parameters: &'static Parameters, eval: Named) -> Operator {
    Operator { name, form: Form::Named { parameters, eval } }
}

/// A row for an operator with its own parser.
pub(crate) const fn custom(name: &'static str, parse: Custom) -> Operator {
    Operator { name, form: Form::Custom(parse) }
}

/// The families.
static FAMILIES: [&[Operator]; 16] = [
    accumulators::OPERATORS,
    arithmetic::OPERATORS,
    array::OPERATORS,
    boolean::OPERATORS,
    comparison::OPERATORS,
    conditional::OPERATORS,
    convert::OPERATORS,
    date::OPERATORS,
    date::arithmetic::OPERATORS,
    higher_order::OPERATORS,
    object::OPERATORS,
    other::OPERATORS,
    regex::OPERATORS,
    set::OPERATORS,
    string::OPERATORS,
    trigonometry::OPERATORS,
];

/// The operator called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Operator> {
    FAMILIES.iter().flat_map(|family| family.iter()).find(|operator| operator.name == name)
}

/// The names of all operators.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().flat_map(|family| family.iter()).map(|operator| operator.name)
}

impl Operator {
    /// Whether constant operands give a constant.
    pub(crate) fn foldable(&self) -> bool {
        !matches!(self.name, "$rand" | "$meta" | "$sampleRate")
    }

    /// Parses its operand.
    pub(crate) fn parse(&'static self, operand: View<'_>, scope: &Scope) -> Result<Expression> {
        match &self.form {
            Form::Eager { least, most, .. } | Form::Lazy { least, most, .. } => {
                let arguments = match operand {
                    View::Array(array) => {
                        array.iter().map(|value| Expression::operand(value, scope)).collect::<Result<Vec<_>>>()?
                    }
                    one => vec![Expression::operand(one, scope)?],
                };
                self.check_count(arguments.len(), *least, *most)?;
                Ok(Node::Call { operator: self, arguments }.into())
            }
            Form::Named { parameters, .. } => {
                let arguments = parameters.parse(operand, scope)?;
                Ok(Node::Named { operator: self, arguments }.into())
            }
            Form::Custom(parse) => parse(operand, scope),
        }
    }

    fn check_count(&self, count: usize, least: usize, most: usize) -> Result<()> {
        if (least..=most).contains(&count) {
            return Ok(());
        }
        let name = self.name;
        if least == most {
            return fail(16020, format!("Expression {name} takes exactly {least} arguments. {count} were passed in."));
        }
        let text = format!("Expression {name} takes at least {least} arguments, and at most {most}");
        fail(28667, format!("{text}, but {count} were passed in."))
    }
}

impl Parameters {
    fn parse(&self, operand: View<'_>, scope: &Scope) -> Result<Vec<Option<Expression>>> {
        let View::Document(document) = operand else {
            let (code, text) = self.not_object;
            return fail(code, text.replace("{}", operand.type_name()));
        };
        let mut arguments: Vec<Option<Expression>> = self.names.iter().map(|_| None).collect();
        for (name, value) in document.iter() {
            let Some(at) = self.names.iter().position(|known| *known == name) else {
                let (code, text) = self.unknown;
                return fail(code, text.replace("{}", name).replace("{element}", &text::element(name, value)));
            };
            arguments[at] = Some(Expression::operand(value, scope)?);
        }
        for (name, code, text) in self.required {
            let at = self.names.iter().position(|known| known == name);
            if at.is_none_or(|at| arguments[at].is_none()) {
                return fail(*code, text.replace("{}", &text::document(document)));
            }
        }
        Ok(arguments)
    }
}

/// The value of a named operand; missing when it was not given.
pub(crate) fn optional(argument: Option<&Option<Expression>>, frame: &mut Frame<'_>) -> Result<Val> {
    match argument {
        Some(Some(expression)) => expression.eval(frame),
        _ => Ok(None),
    }
}
