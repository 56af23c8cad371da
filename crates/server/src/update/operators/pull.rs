//! `$pull` and `$pullAll`.

use std::sync::Arc;

use bson::{Bson, Document};

use super::{At, Change, Operator, Parse};
use crate::error::{Result, fail};
use crate::query::{Matcher, QueryContext};
use crate::value::{Collation, DocView, View, equal};

/// The operators of this family.
pub(crate) const OPERATORS: &[(&str, Parse)] = &[
    ("$pull", |_, operand, context| parse_pull(operand, context)),
    ("$pullAll", |_, operand, context| parse_pull_all(operand, context)),
];

/// Which elements go.
#[derive(Debug)]
enum Pull {
    /// Documents that match a filter.
    Documents(Matcher),
    /// Values that match a condition.
    Condition(Matcher),
    /// Values equal to one of these.
    Equal { values: Vec<Bson>, collation: Option<Collation> },
}

fn parse_pull(operand: &Bson, context: &QueryContext) -> Result<Arc<dyn Operator>> {
    let context = context.without_features();
    let pull = match operand {
        Bson::Document(document) if document.keys().next().is_some_and(|name| name.starts_with('$')) => {
            Pull::Condition(condition(operand, &context)?)
        }
        Bson::Document(document) => Pull::Documents(Matcher::parse_view(document.into(), &context)?),
        Bson::RegularExpression(_) => Pull::Condition(condition(operand, &context)?),
        one => Pull::Equal { values: vec![one.clone()], collation: context.collation().cloned() },
    };
    Ok(Arc::new(pull))
}

/// A condition on a value alone.
fn condition(operand: &Bson, context: &QueryContext) -> Result<Matcher> {
    if let Bson::Document(document) = operand
        && document.keys().next().is_some_and(|name| matches!(name.as_str(), "$and" | "$or" | "$nor"))
    {
        // a filter on documents that starts with a logical operator
        return Matcher::parse_view(document.into(), context);
    }
    let filter = Document::from_iter([(String::new(), operand.clone())]);
    Matcher::parse_view((&filter).into(), context)
}

fn parse_pull_all(operand: &Bson, context: &QueryContext) -> Result<Arc<dyn Operator>> {
    match operand {
        Bson::Array(values) => {
            Ok(Arc::new(Pull::Equal { values: values.clone(), collation: context.collation().cloned() }))
        }
        other => {
            let kind = View::from(other).type_name();
            fail(2, format!("$pullAll requires an array argument but was given a {kind}"))
        }
    }
}

impl Pull {
    fn takes(&self, value: &Bson) -> Result<bool> {
        match self {
            Self::Documents(filter) => match value {
                Bson::Document(document) => filter.matches_view(DocView::Decoded(document)),
                _ => Ok(false),
            },
            Self::Condition(filter) => match value {
                Bson::Document(document) if filter.matches_view(DocView::Decoded(document))? => Ok(true),
                other => filter.matches_as_field("", other.into()),
            },
            Self::Equal { values, collation } => {
                Ok(values.iter().any(|each| equal(each.into(), value.into(), collation.as_ref())))
            }
        }
    }
}

impl Operator for Pull {
    fn update(&self, value: &mut Bson, _: &At<'_>) -> Result<Change> {
        let Bson::Array(values) = value else { return fail(2, "Cannot apply $pull to a non-array value") };
        let mut kept = Vec::with_capacity(values.len());
        for value in values.iter() {
            if !self.takes(value)? {
                kept.push(value.clone());
            }
        }
        if kept.len() == values.len() {
            return Ok(Change::None);
        }
        *values = kept;
        Ok(Change::Set)
    }

    fn create(&self, _: &At<'_>) -> Result<Option<Bson>> {
        Ok(None)
    }
}
