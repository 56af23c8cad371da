//! `$group` and `$count`.
//!
//! Groups are found by the order-preserving bytes of their key, so `1` and `1.0` are one group. Keys and summed fields
//! are read from the raw document where the expressions are plain paths. Groups come out in the order in which their
//! first documents came in.

use std::collections::HashMap;
use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::{Documents, Parsing, Run, Stage, check_memory, deferred, listed};
use crate::aggregate::accumulator::{Accumulator, Kind, approximate_bytes};
use crate::aggregate::choice;
use crate::aggregate::expression::{Expression, Frame, Lent, Scope, Val, no_javascript};
use crate::error::{CommandError, Result, fail};
use crate::value::key_string::{Direction, KeyBuilder};
use crate::value::view::to_raw;
use crate::value::{Collation, View};

/// A stage that groups.
#[derive(Debug, Clone)]
pub(super) struct Group {
    id: Id,
    fields: Vec<Field>,
    /// Whether the key is left out of the result (`$count`).
    hide_id: bool,
}

/// The key of the groups.
#[derive(Debug, Clone)]
enum Id {
    One(Expression),
    /// A document of expressions; a missing one is not null.
    Parts(Vec<(String, Expression)>),
}

/// One accumulated field.
#[derive(Debug, Clone)]
pub(super) struct Field {
    name: String,
    kind: Kind,
    argument: Expression,
}

impl Field {
    /// The field's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its accumulator.
    pub(super) fn kind(&self) -> Kind {
        self.kind.clone()
    }

    /// What is accumulated.
    pub(super) fn argument(&self) -> &Expression {
        &self.argument
    }
}

/// Parses `name: { $accumulator: argument }`.
pub(super) fn parse_field(name: &str, value: View<'_>, scope: &Scope, collation: Option<&Collation>) -> Result<Field> {
    let document = match value {
        View::Document(document) if !document.is_empty() => document,
        _ => return fail(40234, format!("The field '{name}' must be an accumulator object")),
    };
    if name.contains('.') {
        return fail(40235, format!("The field name '{name}' cannot contain '.'"));
    }
    if name.starts_with('$') {
        return fail(40236, format!("The field name '{name}' cannot be an operator name"));
    }
    let mut operators = document.iter();
    let (Some((operator, argument)), None) = (operators.next(), operators.next()) else {
        return fail(40238, format!("The field '{name}' must specify one accumulator"));
    };
    if operator == "$accumulator" {
        return no_javascript();
    }
    if operator == "$count" {
        return match argument {
            View::Document(document) if document.is_empty() => {
                Ok(Field { name: name.to_owned(), kind: Kind::Count, argument: Expression::constant(None) })
            }
            _ => fail(14, "$count takes no arguments, i.e. $count:{}"),
        };
    }
    if let Some((choice, argument)) = choice::parse(operator, argument, scope, collation)? {
        return Ok(Field { name: name.to_owned(), kind: Kind::Several(Arc::new(choice)), argument });
    }
    let Some(kind) = Kind::by_name(operator) else {
        return fail(15952, format!("unknown group operator '{operator}'"));
    };
    if let View::Array(array) = argument
        && array.len() != 1
    {
        return fail(40237, format!("The {operator} accumulator is a unary operator"));
    }
    let argument = match argument {
        View::Array(array) => array.get(0).unwrap_or(View::Null),
        one => one,
    };
    Ok(Field { name: name.to_owned(), kind, argument: Expression::parse(argument, scope)? })
}

impl Group {
    /// Parses `$group`.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let scope = &parsing.query().scope;
        let View::Document(spec) = operand else {
            return fail(15947, "a group's fields must be specified in an object");
        };
        let mut id = None;
        let mut fields = Vec::new();
        for (name, value) in spec.iter() {
            if name == "_id" {
                if id.is_some() {
                    return fail(15948, "a group's _id may only be specified once");
                }
                id = Some(Id::parse(value, scope)?);
            } else {
                fields.push(parse_field(name, value, scope, parsing.query().collation())?);
            }
        }
        match id {
            Some(id) => Ok(Self { id, fields, hide_id: false }),
            None => fail(15955, "a group specification must include an _id"),
        }
    }

    /// Parses `$count`.
    pub(super) fn parse_count(operand: View<'_>, _: &Parsing<'_>) -> Result<Self> {
        let View::String(name) = operand else { return fail(40156, "the count field must be a non-empty string") };
        if name.is_empty() {
            return fail(40157, "the count field must be a non-empty string");
        }
        if name.starts_with('$') {
            return fail(40158, "the count field cannot be a $-prefixed path");
        }
        if name.contains('\0') {
            return fail(40159, "the count field cannot contain a null byte");
        }
        if name.contains('.') {
            return fail(40160, "the count field cannot contain '.'");
        }
        let field = Field { name: name.to_owned(), kind: Kind::Count, argument: Expression::constant(None) };
        let id = Id::One(Expression::constant(Some(Bson::Null)));
        Ok(Self { id, fields: vec![field], hide_id: true })
    }

    /// A group by one expression with accumulated fields.
    pub(super) fn by(id: Expression, fields: Vec<Field>) -> Self {
        Self { id: Id::One(id), fields, hide_id: false }
    }

    fn group(&self, input: Documents, run: &Run) -> Result<Documents> {
        let collation = run.globals.collation.as_ref();
        let mut groups: Vec<(Val, Vec<Accumulator>)> = Vec::new();
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut key = KeyBuilder::new();
        let mut bytes = 0;
        for document in input {
            let document = document?;
            let mut frame = Frame::new((&document).into(), run.slots.clone(), &run.globals);
            key.clear();
            let values = self.id.eval(&mut frame, &mut key, collation)?;
            let place = match places.get(key.bytes()) {
                Some(place) => *place,
                None => {
                    let id = self.id.finish(values)?;
                    bytes += key.bytes().len() + 2 * id.as_ref().map_or(8, approximate_bytes) + 64 * self.fields.len();
                    check_memory(run, bytes, |_| {
                        let text = "Exceeded memory limit for $group, but didn't allow external sort.";
                        CommandError::new(16945, format!("{text} Pass allowDiskUse:true to opt in."))
                    })?;
                    let accumulator = |field: &Field| Accumulator::new(field.kind.clone(), collation.cloned());
                    groups.push((id, self.fields.iter().map(accumulator).collect()));
                    places.insert(key.bytes().to_vec(), groups.len() - 1);
                    groups.len() - 1
                }
            };
            for (accumulator, field) in groups[place].1.iter_mut().zip(&self.fields) {
                add(accumulator, &field.argument, &mut frame)?;
            }
        }
        let finish = |(id, accumulators): (Val, Vec<Accumulator>)| {
            let mut document = Document::new();
            if !self.hide_id {
                document.insert("_id", id.unwrap_or(Bson::Null));
            }
            for (accumulator, field) in accumulators.into_iter().zip(&self.fields) {
                document.insert(&field.name, accumulator.finish()?.unwrap_or(Bson::Null));
            }
            to_raw(&document)
        };
        Ok(listed(groups.into_iter().map(finish).collect::<Result<_>>()?))
    }
}

/// Adds one document to an accumulator.
fn add(accumulator: &mut Accumulator, argument: &Expression, frame: &mut Frame<'_>) -> Result<()> {
    if accumulator.is_settled() {
        return Ok(());
    }
    let value = match argument.as_constant() {
        Some(constant) => {
            if accumulator.add_number(constant.as_ref().map(Into::into)) {
                return Ok(());
            }
            return accumulator.add(constant.clone());
        }
        None => argument.eval_view(frame)?,
    };
    if accumulator.add_number(value.view()) {
        return Ok(());
    }
    accumulator.add(value.into_value()?)
}

impl Id {
    fn parse(value: View<'_>, scope: &Scope) -> Result<Self> {
        let expression = Expression::parse(value, scope)?;
        Ok(match expression.as_object() {
            Some(fields) if !fields.is_empty() => Self::Parts(fields.to_vec()),
            _ => Self::One(expression),
        })
    }

    /// Computes the key's values and its bytes.
    fn eval<'d>(
        &self,
        frame: &mut Frame<'d>,
        key: &mut KeyBuilder,
        collation: Option<&Collation>,
    ) -> Result<Vec<Lent<'d>>> {
        let single = |expression: &Expression, frame: &mut Frame<'d>, key: &mut KeyBuilder| {
            let value = expression.eval_view(frame)?;
            key.push(value.view().unwrap_or(View::Null), Direction::Ascending, collation);
            Ok(vec![value])
        };
        match self {
            Self::One(expression) => single(expression, frame, key),
            Self::Parts(parts) => match parts.as_slice() {
                [(_, one)] => single(one, frame, key),
                parts => {
                    let part = |(_, expression): &(String, Expression)| {
                        let value = expression.eval_view(frame)?;
                        match value.view() {
                            Some(view) => key.push(view, Direction::Ascending, collation),
                            None => key.push_missing(),
                        }
                        Ok(value)
                    };
                    parts.iter().map(part).collect()
                }
            },
        }
    }

    /// The `_id` of a new group.
    fn finish(&self, values: Vec<Lent<'_>>) -> Result<Val> {
        let mut values = values.into_iter().map(Lent::into_value);
        match self {
            Self::One(_) => values.next().unwrap_or(Ok(None)),
            Self::Parts(parts) => {
                let mut document = Document::new();
                for ((name, _), value) in parts.iter().zip(values) {
                    document.insert(name, value?.unwrap_or(Bson::Null));
                }
                Ok(Some(Bson::Document(document)))
            }
        }
    }

    fn optimized(&self) -> Result<Self> {
        Ok(match self {
            Self::One(expression) => Self::One(expression.clone().optimize()?),
            Self::Parts(parts) => Self::Parts(
                parts.iter().map(|(name, each)| Ok((name.clone(), each.clone().optimize()?))).collect::<Result<_>>()?,
            ),
        })
    }
}

impl Stage for Group {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        deferred(move || self.group(input, &run))
    }

    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        let field = |field: &Field| Ok(Field { argument: field.argument.clone().optimize()?, ..field.clone() });
        let fields = self.fields.iter().map(field).collect::<Result<_>>()?;
        Ok(Some(Arc::new(Self { id: self.id.optimized()?, fields, hide_id: self.hide_id })))
    }
}

/// The field `count: { $sum: 1 }`.
pub(super) fn count_field() -> Result<Field> {
    let one = doc! { "$sum": 1 };
    parse_field("count", (&one).into(), &Scope::default(), None)
}
