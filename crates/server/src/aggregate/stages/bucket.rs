//! `$bucket` and `$sortByCount`: a `$group` with a key of its own, then a `$sort`.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::group::{Field, Group, count_field, parse_field};
use super::sort::SortStage;
use super::{Documents, Parsed, Parsing, Run, Stage};
use crate::aggregate::expression::{Expression, lent};
use crate::error::{Result, fail};
use crate::query::Sort;
use crate::value::{View, compare};

/// Two stages in one.
#[derive(Debug)]
struct Both {
    first: Arc<dyn Stage>,
    second: Arc<dyn Stage>,
}

impl Stage for Both {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let middle = Arc::clone(&self.first).run(input, run);
        Arc::clone(&self.second).run(middle, run)
    }

    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        let first = self.first.optimized()?.unwrap_or_else(|| Arc::clone(&self.first));
        Ok(Some(Arc::new(Self { first, second: Arc::clone(&self.second) })))
    }

    fn limited_to(&self, limit: u64) -> Option<Arc<dyn Stage>> {
        let second = self.second.limited_to(limit)?;
        Some(Arc::new(Self { first: Arc::clone(&self.first), second }))
    }
}

fn both(group: Group, sort: &Document, parsing: &Parsing<'_>) -> Result<Parsed> {
    let sort = Sort::parse_view(sort.into(), parsing.query().collation().cloned())?;
    super::stage(Both { first: Arc::new(group), second: Arc::new(SortStage::by(sort)) })
}

/// The expression of `groupBy`: a path or a document.
pub(super) fn group_by(stage: &str, code: i32, value: View<'_>, parsing: &Parsing<'_>) -> Result<Expression> {
    let good = match value {
        View::String(path) => path.starts_with('$'),
        other => other.as_document().is_some(),
    };
    if !good {
        let shown = crate::value::text::element("groupBy", value);
        let text =
            format!("The {stage} 'groupBy' field must be defined as a $-prefixed path or an expression, but found");
        return fail(code, format!("{text}: {shown}."));
    }
    Expression::parse(value, &parsing.query().scope)
}

/// The fields of `output`; `count` without it.
pub(super) fn output_fields(
    stage: &str,
    code: i32,
    value: Option<View<'_>>,
    parsing: &Parsing<'_>,
) -> Result<Vec<Field>> {
    let Some(value) = value else { return Ok(vec![count_field()?]) };
    let View::Document(output) = value else {
        let kind = value.type_name();
        return fail(code, format!("The {stage} 'output' field must be an object, but found type: {kind}."));
    };
    output
        .iter()
        .map(|(name, value)| parse_field(name, value, &parsing.query().scope, parsing.query().collation()))
        .collect()
}

/// Parses `$bucket`.
pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Parsed> {
    let View::Document(spec) = operand else {
        let kind = operand.type_name();
        return fail(40201, format!("Argument to $bucket stage must be an object, but found type: {kind}."));
    };
    let collation = parsing.query().collation();
    let (mut key, mut boundaries, mut default, mut output) = (None, Vec::new(), None, None);
    for (name, value) in spec.iter() {
        match name {
            "groupBy" => key = Some(group_by("$bucket", 40202, value, parsing)?),
            "boundaries" => boundaries = parse_boundaries(value, parsing)?,
            "default" => {
                let expression = Expression::parse(value, &parsing.query().scope)?.optimize()?;
                match expression.as_constant() {
                    Some(Some(value)) => default = Some(value.clone()),
                    _ => {
                        let shown = crate::value::text::element(name, value);
                        let text = "The $bucket 'default' field must be a constant expression, but found";
                        return fail(40195, format!("{text}: {shown}."));
                    }
                }
            }
            "output" => output = Some(value),
            _ => return fail(40197, format!("Unrecognized option to $bucket: {name}.")),
        }
    }
    let (Some(key), false) = (key, boundaries.is_empty()) else {
        return fail(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.");
    };
    if let (Some(default), Some(low), Some(high)) = (&default, boundaries.first(), boundaries.last()) {
        let below = compare(default.into(), low.into(), collation).is_lt();
        let above = compare(default.into(), high.into(), collation).is_ge();
        if !below && !above {
            let text =
                "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the";
            return fail(40199, format!("{text} highest boundary."));
        }
    }
    let fields = output_fields("$bucket", 40196, output, parsing)?;
    let group = Group::by(Expression::bucket(key, boundaries, default), fields);
    both(group, &doc! { "_id": 1 }, parsing)
}

fn parse_boundaries(value: View<'_>, parsing: &Parsing<'_>) -> Result<Vec<Bson>> {
    let View::Array(array) = value else {
        let kind = value.type_name();
        return fail(40200, format!("The $bucket 'boundaries' field must be an array, but found type: {kind}."));
    };
    let mut boundaries = Vec::new();
    for value in array.iter() {
        let expression = Expression::parse(value, &parsing.query().scope)?.optimize()?;
        match expression.as_constant() {
            Some(Some(value)) => boundaries.push(value.clone()),
            _ => {
                let shown = crate::value::text::bson(value);
                let text = "The $bucket 'boundaries' field must be an array of constant values, but found value";
                return fail(40191, format!("{text}: {shown}."));
            }
        }
    }
    if boundaries.len() < 2 {
        let text = "The $bucket 'boundaries' field must have at least 2 values, but found";
        return fail(40192, format!("{text} {} value(s).", boundaries.len()));
    }
    let collation = parsing.query().collation();
    for (at, pair) in boundaries.windows(2).enumerate() {
        let (left, right) = (View::from(&pair[0]), View::from(&pair[1]));
        if left.kind().rank() != right.kind().rank() {
            let text = "All values in the the 'boundaries' option to $bucket must have the same type.";
            let kinds = format!("{} and {}", left.type_name(), right.type_name());
            return fail(40193, format!("{text} Found conflicting types {kinds}."));
        }
        if !compare(left, right, collation).is_lt() {
            let shown = |value: &Bson| lent::shown(&Some(value.clone()));
            let text = format!("elements {at} and {} are not in ascending order", at + 1);
            let values = format!("{} is not less than {}", shown(&pair[0]), shown(&pair[1]));
            return fail(40194, format!("The 'boundaries' option to $bucket must be sorted, but {text} ({values})."));
        }
    }
    Ok(boundaries)
}

/// Parses `$sortByCount`.
pub(super) fn parse_sort_by_count(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Parsed> {
    match operand {
        View::Document(document) => {
            let operator = document.iter().next().is_some_and(|(name, _)| name.starts_with('$'));
            if !operator {
                return fail(40147, "the sortByCount field must be defined as an expression inside an object");
            }
        }
        View::String(path) if path.starts_with('$') => {}
        View::String(_) => return fail(40148, "the sortByCount field must be defined as a $-prefixed path"),
        _ => return fail(40149, "the sortByCount field must be specified as a string or as an object"),
    }
    let key = Expression::parse(operand, &parsing.query().scope)?;
    both(Group::by(key, vec![count_field()?]), &doc! { "count": -1 }, parsing)
}
