//! The stages of a plan that read: what `winningPlan` holds at its bottom.

use bson::{Bson, Document, doc};

use super::query::parsed;
use crate::plan::{Chosen, Scan};
use crate::query::Matcher;
use crate::query::bounds::Predicate;
use crate::storage::Direction;
use crate::storage::collection::Index;
use crate::value::{View, text};
use std::ops::Bound;

/// `COLLSCAN`, `IDHACK`, or `FETCH` over `IXSCAN`.
pub(super) fn of(scan: &Scan, filter: &Document, matcher: &Matcher) -> Document {
    let (chosen, direction) = scan.chosen();
    let direction = match direction {
        Direction::Forward => "forward",
        Direction::Backward => "backward",
    };
    match chosen {
        Chosen::Record => doc! { "stage": "IDHACK" },
        Chosen::Collection => {
            let mut stage = doc! { "stage": "COLLSCAN" };
            if !filter.is_empty() {
                stage.insert("filter", parsed(filter));
            }
            stage.insert("direction", direction);
            stage
        }
        Chosen::Index(index) => {
            let mut fetch = doc! { "stage": "FETCH" };
            let first = index.pattern.fields().first().map(|(path, _)| path.as_str()).unwrap_or_default();
            let rest: Document = filter.iter().filter(|(name, _)| *name != first).map(owned).collect();
            if !rest.is_empty() {
                fetch.insert("filter", parsed(&rest));
            }
            fetch.insert("inputStage", index_scan(&index, matcher, direction));
            fetch
        }
    }
}

fn owned((name, value): (&String, &Bson)) -> (String, Bson) {
    (name.clone(), value.clone())
}

fn index_scan(index: &Index, matcher: &Matcher, direction: &str) -> Document {
    let flag = |name: &str| index.spec.get(name).is_some_and(|value| View::from(value).is_true());
    let paths: Document =
        index.pattern.fields().iter().map(|(path, _)| (path.clone(), Bson::Array(Vec::new()))).collect();
    let mut stage = doc! { "stage": "IXSCAN", "keyPattern": index.key_pattern(), "indexName": &index.name };
    if let Some(collation) = index.spec.get("collation") {
        stage.insert("collation", collation.clone());
    }
    stage.extend(doc! {
        "isMultiKey": index.multikey.load(std::sync::atomic::Ordering::Relaxed),
        "multiKeyPaths": paths,
        "isUnique": index.unique,
        "isSparse": flag("sparse"),
        "isPartial": index.partial.is_some(),
        "indexVersion": 2,
        "direction": direction,
        "indexBounds": bounds(index, matcher),
    });
    stage
}

/// The intervals of each field; only those of the first are used.
fn bounds(index: &Index, matcher: &Matcher) -> Document {
    let mut bounds = Document::new();
    for (at, (path, _)) in index.pattern.fields().iter().enumerate() {
        let predicates = if at == 0 { matcher.bounds_on(path) } else { Vec::new() };
        let points = predicates.iter().find(|predicate| matches!(predicate, Predicate::Points(_)));
        let shown = match points.or(predicates.first()) {
            None => vec!["[MinKey, MaxKey]".to_owned()],
            Some(Predicate::Points(values)) => {
                let point = |value: &Bson| format!("[{0}, {0}]", text::value(value.into()));
                values.iter().map(point).collect()
            }
            Some(Predicate::Range(interval)) => {
                let lower = match &interval.lower {
                    Bound::Included(value) => format!("[{}", text::value(value.into())),
                    Bound::Excluded(value) => format!("({}", text::value(value.into())),
                    Bound::Unbounded => format!("[{}", smallest(&interval.upper)),
                };
                let upper = match &interval.upper {
                    Bound::Included(value) => format!("{}]", text::value(value.into())),
                    Bound::Excluded(value) => format!("{})", text::value(value.into())),
                    Bound::Unbounded => largest(&interval.lower).to_owned(),
                };
                vec![format!("{lower}, {upper}")]
            }
        };
        bounds.insert(path, shown);
    }
    bounds
}

fn of_bound(bound: &Bound<Bson>) -> Option<&Bson> {
    match bound {
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
        Bound::Unbounded => None,
    }
}

/// The smallest value of the type on the other side.
fn smallest(other: &Bound<Bson>) -> &'static str {
    match of_bound(other) {
        Some(Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_)) => "-inf.0",
        Some(Bson::String(_) | Bson::Symbol(_)) => "\"\"",
        Some(Bson::Boolean(_)) => "false",
        Some(Bson::DateTime(_)) => "new Date(-9223372036854775808)",
        _ => "MinKey",
    }
}

/// The largest value of the type on the other side, with its bracket.
fn largest(other: &Bound<Bson>) -> &'static str {
    match of_bound(other) {
        Some(Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_)) => "inf.0]",
        Some(Bson::String(_) | Bson::Symbol(_)) => "{})",
        Some(Bson::Boolean(_)) => "true]",
        Some(Bson::DateTime(_)) => "new Date(9223372036854775807)]",
        _ => "MaxKey]",
    }
}
