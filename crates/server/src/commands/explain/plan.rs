//! The stages of a plan that read: what `winningPlan` holds at its bottom.

use bson::{Bson, Document, doc};

use super::query::parsed;
use crate::plan::{Chosen, Scan, used, used_of_wildcard};
use crate::query::Matcher;
use crate::query::bounds::{Interval, Predicate};
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
            let in_bounds = used(&index, matcher).len();
            let wild = used_of_wildcard(&index, matcher).map(|(path, _)| path);
            let bound = |name: &String| {
                wild.as_ref() == Some(name)
                    || index.pattern.fields().iter().take(in_bounds).any(|(path, _)| path == name)
            };
            let rest: Document = filter.iter().filter(|(name, _)| !bound(name)).map(owned).collect();
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
    let wild = used_of_wildcard(index, matcher).map(|(path, _)| path);
    let shown = |path: &String| match &wild {
        Some(wild) if path != "$_path" => wild.clone(),
        _ => path.clone(),
    };
    let paths: Document =
        index.pattern.fields().iter().map(|(path, _)| (shown(path), Bson::Array(Vec::new()))).collect();
    let pattern = match &wild {
        Some(_) => paths.keys().map(|path| (path.clone(), Bson::Int32(1))).collect(),
        None => index.key_pattern(),
    };
    let mut stage = doc! { "stage": "IXSCAN", "keyPattern": pattern, "indexName": &index.name };
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

/// The intervals of each field.
fn bounds(index: &Index, matcher: &Matcher) -> Document {
    if let Some((path, predicate)) = used_of_wildcard(index, matcher) {
        let at = format!("[\"{path}\", \"{path}\"]");
        return doc! { "$_path": [at], path: intervals(&[predicate]) };
    }
    let used = used(index, matcher);
    let fields = index.pattern.fields().iter().enumerate();
    fields.map(|(at, (path, _))| (path.clone(), intervals(used.get(at).map_or(&[], Vec::as_slice)).into())).collect()
}

fn intervals(predicates: &[Predicate]) -> Vec<String> {
    match predicates {
        [] => vec!["[MinKey, MaxKey]".to_owned()],
        [Predicate::Points(values), ..] => {
            values.iter().map(|value| format!("[{0}, {0}]", text::value(value.into()))).collect()
        }
        limits => {
            let of = |side: fn(&Interval) -> &Bound<Bson>| {
                let bounds = limits.iter().filter_map(|predicate| match predicate {
                    Predicate::Range(interval) => Some(side(interval)),
                    Predicate::Points(_) => None,
                });
                bounds.clone().find(|bound| of_bound(bound).is_some()).cloned().unwrap_or(Bound::Unbounded)
            };
            let (lower, upper) = (of(|interval| &interval.lower), of(|interval| &interval.upper));
            let from = match &lower {
                Bound::Included(value) => format!("[{}", text::value(value.into())),
                Bound::Excluded(value) => format!("({}", text::value(value.into())),
                Bound::Unbounded => format!("[{}", smallest(&upper)),
            };
            let to = match &upper {
                Bound::Included(value) => format!("{}]", text::value(value.into())),
                Bound::Excluded(value) => format!("{})", text::value(value.into())),
                Bound::Unbounded => largest(&lower).to_owned(),
            };
            vec![format!("{from}, {to}")]
        }
    }
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
