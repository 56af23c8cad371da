//! Aggregation expressions.
//!
//! Operators are rows of tables, one table per family file; `table` lists the families. A row says how the operand is
//! parsed (`table::Form`) and how it is computed.

mod accumulators;
mod arithmetic;
mod array;
mod boolean;
mod comparison;
mod conditional;
mod convert;
pub(crate) mod date;
pub(crate) mod field_path;
mod higher_order;
pub(crate) mod lent;
mod object;
mod other;
mod regex;
mod set;
mod string;
pub(crate) mod table;
mod trigonometry;
pub(crate) mod variables;

use bson::{Bson, Document};

pub(crate) use field_path::FieldPath;
pub use lent::{Lent, Val};
pub(crate) use other::no_javascript;
pub use variables::{Frame, Globals, Scope};

use crate::error::{Result, fail};
use crate::query::too_deep;
use crate::value::{ArrayView, DocView, View, text};
use higher_order::{Filter, Let, Map, Reduce};
use table::{Call, Form, Operator};
use variables::Variable;

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Expression {
    node: Node,
}

#[derive(Debug, Clone)]
pub(crate) enum Node {
    Constant(Val),
    Field { variable: Variable, path: Vec<Box<str>> },
    Object(Vec<(String, Expression)>),
    Array(Vec<Expression>),
    Call { operator: &'static Operator, arguments: Vec<Expression> },
    Named { operator: &'static Operator, arguments: Vec<Option<Expression>> },
    Switch { branches: Vec<(Expression, Expression)>, default: Option<Box<Expression>> },
    Bucket { key: Box<Expression>, boundaries: Vec<Bson>, default: Option<Bson> },
    Let(Box<Let>),
    Map(Box<Map>),
    Filter(Box<Filter>),
    Reduce(Box<Reduce>),
}

/// BSON is not nested deeper than this, and neither are expressions.
const MAX_NESTING: usize = 200;

impl From<Node> for Expression {
    fn from(node: Node) -> Self {
        Self { node }
    }
}

impl Expression {
    /// Parses a value as an expression: a path for a string that starts with `$`, an operator for a document that
    /// starts with one, else a constant, an object or an array.
    ///
    /// # Errors
    /// A mongod's error for the expression.
    pub fn parse(value: View<'_>, scope: &Scope) -> Result<Self> {
        if too_deep(value, MAX_NESTING) {
            return fail(15, format!("expression exceeds the nesting limit of {MAX_NESTING}"));
        }
        Self::operand(value, scope)
    }

    /// A constant.
    pub(crate) fn constant(value: Val) -> Self {
        Node::Constant(value).into()
    }

    /// Parses what stands where a value is wanted.
    pub(crate) fn operand(value: View<'_>, scope: &Scope) -> Result<Self> {
        match value {
            View::String(text) if text.starts_with('$') => Self::field_path(text, scope),
            View::Document(document) => Self::object(document, scope),
            View::Array(array) => Self::array(array, scope),
            other => Ok(Self::constant(Some(other.to_bson()?))),
        }
    }

    fn field_path(text: &str, scope: &Scope) -> Result<Self> {
        let Some(name) = text.strip_prefix("$$") else {
            let path = &text[1..];
            if path.is_empty() {
                return fail(16872, "'$' by itself is not a valid FieldPath");
            }
            let path = FieldPath::parse(path)?;
            return Ok(Node::Field { variable: scope.current(), path: path.parts().to_vec() }.into());
        };
        let (name, rest) = match name.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (name, None),
        };
        variables::check_read(name)?;
        let variable = if name == "CURRENT" { scope.current() } else { scope.resolve(name)? };
        let path = match rest {
            Some(rest) => FieldPath::parse(rest)?.parts().to_vec(),
            None => Vec::new(),
        };
        Ok(Node::Field { variable, path }.into())
    }

    fn array(array: ArrayView<'_>, scope: &Scope) -> Result<Self> {
        let elements = array.iter().map(|value| Self::operand(value, scope)).collect::<Result<_>>()?;
        Ok(Node::Array(elements).into())
    }

    /// Parses a document: an operator with its operand, or an object of expressions.
    pub(crate) fn object(document: DocView<'_>, scope: &Scope) -> Result<Self> {
        let mut fields: Vec<(String, Expression)> = Vec::new();
        for (at, (name, value)) in document.iter().enumerate() {
            if at == 0 && name.starts_with('$') {
                if document.iter().nth(1).is_some() {
                    let shown = text::document(document);
                    let text = format!("An object representing an expression must have exactly one field: {shown}");
                    return fail(15983, text);
                }
                return Self::call(name, value, scope);
            }
            field_path::check_name(name)?;
            if fields.iter().any(|(known, _)| known == name) {
                let shown = text::document(document);
                return fail(16406, format!("duplicate field name specified in object literal: {shown}"));
            }
            fields.push((name.to_owned(), Self::operand(value, scope)?));
        }
        Ok(Node::Object(fields).into())
    }

    /// Parses an operator.
    ///
    /// # Errors
    /// `InvalidPipelineOperator` (168) for an unknown one.
    pub(crate) fn call(name: &str, operand: View<'_>, scope: &Scope) -> Result<Self> {
        match table::find(name).filter(|_| scope.has(name)) {
            Some(operator) => operator.parse(operand, scope),
            None => fail(168, format!("Unrecognized expression '{name}'")),
        }
    }

    /// The constant it is, if it is one.
    pub(crate) fn as_constant(&self) -> Option<&Val> {
        match &self.node {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The fields of an object expression.
    pub(crate) fn as_object(&self) -> Option<&[(String, Expression)]> {
        match &self.node {
            Node::Object(fields) => Some(fields),
            _ => None,
        }
    }

    /// The key of a `$bucket`: the largest boundary not above the value, or the default.
    pub(crate) fn bucket(key: Self, boundaries: Vec<Bson>, default: Option<Bson>) -> Self {
        Node::Bucket { key: Box::new(key), boundaries, default }.into()
    }

    /// The fields of the document that it reads; `None` when it may read all of them.
    pub(crate) fn root_fields(&self) -> Option<std::collections::BTreeSet<String>> {
        let mut fields = std::collections::BTreeSet::new();
        self.collect_root_fields(&mut fields).then_some(fields)
    }

    fn collect_root_fields(&self, fields: &mut std::collections::BTreeSet<String>) -> bool {
        if let Node::Field { variable: Variable::Root, path } = &self.node {
            fields.extend(path.first().map(|first| first.to_string()));
            return !path.is_empty();
        }
        self.parts().into_iter().all(|part| part.collect_root_fields(fields))
    }

    /// The expressions directly inside.
    fn parts(&self) -> Vec<&Expression> {
        match &self.node {
            Node::Constant(_) | Node::Field { .. } => Vec::new(),
            Node::Object(members) => members.iter().map(|(_, value)| value).collect(),
            Node::Array(elements) => elements.iter().collect(),
            Node::Call { arguments, .. } => arguments.iter().collect(),
            Node::Named { arguments, .. } => arguments.iter().flatten().collect(),
            Node::Switch { branches, default } => {
                branches.iter().flat_map(|(case, then)| [case, then]).chain(default.as_deref()).collect()
            }
            Node::Bucket { key, .. } => vec![key],
            Node::Let(node) => node.parts(),
            Node::Map(node) => node.parts(),
            Node::Filter(node) => node.parts(),
            Node::Reduce(node) => node.parts(),
        }
    }

    /// Computes the value; `None` is missing.
    ///
    /// Each kind of node is computed in a function of its own: expressions nest deeply, and one function for all would
    /// take the stack of the largest at every level.
    ///
    /// # Errors
    /// A mongod's error for the operands met.
    pub fn eval(&self, frame: &mut Frame<'_>) -> Result<Val> {
        match &self.node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Field { .. } => self.eval_view(frame)?.into_value(),
            Node::Object(fields) => eval_object(fields, frame),
            Node::Array(elements) => eval_array(elements, frame),
            Node::Call { operator, arguments } => eval_call(operator, arguments, frame),
            Node::Named { operator, arguments } => match operator.form {
                Form::Named { eval, .. } => eval(operator.name, arguments, frame),
                _ => Ok(None),
            },
            Node::Switch { branches, default } => conditional::switch(branches, default.as_deref(), frame),
            Node::Bucket { key, boundaries, default } => conditional::bucket(key, boundaries, default.as_ref(), frame),
            Node::Let(node) => node.eval(frame),
            Node::Map(node) => node.eval(frame),
            Node::Filter(node) => node.eval(frame),
            Node::Reduce(node) => node.eval(frame),
        }
    }

    /// Computes the value, borrowing it from the document where it can.
    ///
    /// # Errors
    /// As [`Expression::eval`].
    pub fn eval_view<'d>(&self, frame: &mut Frame<'d>) -> Result<Lent<'d>> {
        let Node::Field { variable, path } = &self.node else {
            return Ok(self.eval(frame)?.map_or(Lent::Missing, Lent::Owned));
        };
        Ok(match variable {
            Variable::Root => field_path::follow(frame.root, path),
            Variable::Remove => Lent::Missing,
            Variable::Now if path.is_empty() => Lent::Owned(Bson::DateTime(frame.globals.now)),
            Variable::ClusterTime => match frame.globals.cluster_time {
                Some(time) if path.is_empty() => Lent::Owned(Bson::Timestamp(time)),
                Some(_) => Lent::Missing,
                None => return fail(51144, "Builtin variable '$$CLUSTER_TIME' is not available"),
            },
            Variable::Now => Lent::Missing,
            Variable::Slot(slot) => match frame.get(*slot) {
                None => Lent::Missing,
                Some(value) if path.is_empty() => Lent::Owned(value.clone()),
                Some(value) => {
                    field_path::follow_value(value.into(), path).into_value()?.map_or(Lent::Missing, Lent::Owned)
                }
            },
        })
    }

    /// Computes what does not depend on the document.
    ///
    /// # Errors
    /// Those of the constants computed.
    pub fn optimize(mut self) -> Result<Self> {
        self.optimize_in_place()?;
        Ok(self)
    }

    fn optimize_in_place(&mut self) -> Result<()> {
        for part in self.parts_mut() {
            part.optimize_in_place()?;
        }
        if let Some(simpler) = self.decided() {
            *self = simpler;
        } else if self.is_foldable() {
            self.fold()?;
        }
        Ok(())
    }

    /// The operand that an operator becomes when a constant decides it.
    fn decided(&self) -> Option<Self> {
        match &self.node {
            Node::Call { operator, arguments } => conditional::short_circuit(operator, arguments),
            _ => None,
        }
    }

    /// Whether it depends on constants only.
    fn is_foldable(&self) -> bool {
        let constant = |expression: &Expression| expression.as_constant().is_some();
        match &self.node {
            Node::Call { operator, arguments } => {
                operator.foldable() && !arguments.is_empty() && arguments.iter().all(constant)
            }
            Node::Named { operator, arguments } => operator.foldable() && arguments.iter().flatten().all(constant),
            Node::Array(elements) => elements.iter().all(constant),
            _ => false,
        }
    }

    /// Becomes its own value, which depends neither on the document nor on the time nor on chance.
    fn fold(&mut self) -> Result<()> {
        let empty = Document::new();
        let globals = Globals::new(bson::DateTime::from_millis(0), None, None, 0);
        let value = self.eval(&mut Frame::new((&empty).into(), Vec::new(), &globals))?;
        *self = Expression::constant(value);
        Ok(())
    }

    /// The expressions directly inside.
    fn parts_mut(&mut self) -> Vec<&mut Expression> {
        match &mut self.node {
            Node::Constant(_) | Node::Field { .. } => Vec::new(),
            Node::Object(members) => members.iter_mut().map(|(_, value)| value).collect(),
            Node::Array(elements) => elements.iter_mut().collect(),
            Node::Call { arguments, .. } => arguments.iter_mut().collect(),
            Node::Named { arguments, .. } => arguments.iter_mut().flatten().collect(),
            Node::Switch { branches, default } => {
                branches.iter_mut().flat_map(|(case, then)| [case, then]).chain(default.as_deref_mut()).collect()
            }
            Node::Bucket { key, .. } => vec![key],
            Node::Let(node) => node.parts_mut(),
            Node::Map(node) => node.parts_mut(),
            Node::Filter(node) => node.parts_mut(),
            Node::Reduce(node) => node.parts_mut(),
        }
    }
}

fn eval_object(fields: &[(String, Expression)], frame: &mut Frame<'_>) -> Result<Val> {
    let mut document = Document::new();
    for (name, expression) in fields {
        if let Some(value) = expression.eval(frame)? {
            document.insert(name, value);
        }
    }
    Ok(Some(Bson::Document(document)))
}

fn eval_array(elements: &[Expression], frame: &mut Frame<'_>) -> Result<Val> {
    let mut values = Vec::with_capacity(elements.len());
    for element in elements {
        values.push(element.eval(frame)?.unwrap_or(Bson::Null));
    }
    Ok(Some(Bson::Array(values)))
}

fn eval_call(operator: &Operator, arguments: &[Expression], frame: &mut Frame<'_>) -> Result<Val> {
    match operator.form {
        Form::Eager { eval, .. } => {
            let mut values = Vec::with_capacity(arguments.len());
            for argument in arguments {
                values.push(argument.eval(frame)?);
            }
            eval(Call { name: operator.name, globals: frame.globals }, values)
        }
        Form::Lazy { eval, .. } => eval(arguments, frame),
        Form::Named { .. } | Form::Custom(_) => Ok(None),
    }
}
