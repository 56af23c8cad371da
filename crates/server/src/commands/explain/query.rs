//! What of a command decides its plan.

use bson::{Bson, Document, doc};

use crate::value::View;

/// How deep filters are taken apart.
const MAX_DEPTH: usize = 50;
/// What a sort may hold, as it is shown.
const SORT_MEMORY_BYTES: i32 = 100 * 1024 * 1024;

/// What a command looks for, and what happens with it.
#[derive(Debug, Clone, Default)]
pub(super) struct Query {
    pub(super) filter: Document,
    pub(super) sort: Option<Document>,
    pub(super) hint: Option<Bson>,
    pub(super) collation: Option<Document>,
    pub(super) variables: Option<Document>,
    pub(super) skip: u64,
    limit: Option<u64>,
    projection: Option<Document>,
    /// The stage of a command that does not give documents.
    outermost: Option<&'static str>,
    /// What is left of a pipeline.
    pub(super) stages: Option<Vec<Bson>>,
}

fn document(from: &Document, name: &str) -> Option<Document> {
    from.get_document(name).ok().filter(|document| !document.is_empty()).cloned()
}

fn count(from: &Document, name: &str) -> Option<u64> {
    let number = View::from(from.get(name)?).number()?.to_i64_saturating();
    Some(number.unsigned_abs()).filter(|number| *number > 0)
}

impl Query {
    /// Reads a command; `None` for one that has no plan.
    pub(super) fn of(name: &str, command: &Document) -> Option<Self> {
        let first_of = |list: &str| command.get_array(list).ok()?.first()?.as_document().cloned();
        let common = |from: &Document, filter: &str| Self {
            filter: document(from, filter).unwrap_or_default(),
            sort: document(from, "sort"),
            hint: from.get("hint").cloned(),
            collation: document(from, "collation"),
            variables: document(command, "let"),
            ..Self::default()
        };
        Some(match name {
            "find" => Self {
                skip: count(command, "skip").unwrap_or(0),
                limit: count(command, "limit"),
                projection: document(command, "projection"),
                ..common(command, "filter")
            },
            "count" => Self {
                skip: count(command, "skip").unwrap_or(0),
                limit: count(command, "limit"),
                outermost: Some("COUNT"),
                sort: None,
                ..common(command, "query")
            },
            "distinct" => Self { sort: None, ..common(command, "query") },
            "update" => Self { outermost: Some("UPDATE"), ..common(&first_of("updates")?, "q") },
            "delete" => Self { outermost: Some("DELETE"), ..common(&first_of("deletes")?, "q") },
            "findAndModify" => {
                let removes = command.get("remove").is_some_and(|remove| View::from(remove).is_true());
                Self { outermost: Some(if removes { "DELETE" } else { "UPDATE" }), ..common(command, "query") }
            }
            "aggregate" => {
                let pipeline = command.get_array("pipeline").ok()?;
                let first = pipeline.first().and_then(Bson::as_document).and_then(|stage| document(stage, "$match"));
                let rest = pipeline.iter().skip(usize::from(first.is_some())).cloned().collect();
                Self { filter: first.unwrap_or_default(), sort: None, stages: Some(rest), ..common(command, "filter") }
            }
            _ => return None,
        })
    }

    /// How many documents need to be found.
    pub(super) fn most(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_add(self.skip))
    }

    /// The stages around those that read.
    pub(super) fn wrapped(&self, mut plan: Document, in_order: bool) -> Document {
        let mut around = |mut stage: Document| {
            stage.insert("inputStage", std::mem::take(&mut plan));
            plan = stage;
        };
        if let Some(sort) = self.sort.as_ref().filter(|_| !in_order) {
            let mut stage = doc! { "stage": "SORT", "sortPattern": sort.clone(), "memLimit": SORT_MEMORY_BYTES };
            if let Some(limit) = self.limit {
                stage.insert("limitAmount", crate::stats::number(limit.saturating_add(self.skip)));
            }
            stage.insert("type", "simple");
            around(stage);
        }
        if self.skip > 0 && self.outermost.is_none() {
            around(doc! { "stage": "SKIP", "skipAmount": crate::stats::number(self.skip) });
        }
        if let Some(projection) = &self.projection {
            let simple = projection.values().all(|value| View::from(value).number().is_some());
            let stage = if simple { "PROJECTION_SIMPLE" } else { "PROJECTION_DEFAULT" };
            around(doc! { "stage": stage, "transformBy": projection.clone() });
        }
        // A sort in memory keeps only as many as are wanted.
        if let Some(limit) = self.limit.filter(|_| self.outermost.is_none() && (in_order || self.sort.is_none())) {
            around(doc! { "stage": "LIMIT", "limitAmount": crate::stats::number(limit) });
        }
        if let Some(stage) = self.outermost {
            around(doc! { "stage": stage });
        }
        plan
    }
}

/// A filter as the planner shows it: one operator for each condition.
pub(super) fn parsed(filter: &Document) -> Document {
    parsed_at(filter, 0)
}

fn parsed_at(filter: &Document, depth: usize) -> Document {
    if depth > MAX_DEPTH {
        return filter.clone();
    }
    let mut clauses: Vec<Document> = Vec::new();
    for (name, operand) in filter {
        match (name.as_str(), operand) {
            ("$and", Bson::Array(list)) => {
                clauses.extend(list.iter().filter_map(Bson::as_document).map(|clause| parsed_at(clause, depth + 1)));
            }
            ("$or" | "$nor", Bson::Array(list)) => {
                let inner = list.iter().filter_map(Bson::as_document);
                let inner: Vec<Bson> = inner.map(|clause| Bson::Document(parsed_at(clause, depth + 1))).collect();
                clauses.push(doc! { name: inner });
            }
            ("$comment", _) => {}
            (name, operand) if name.starts_with('$') => clauses.push(doc! { name: operand.clone() }),
            (path, Bson::Document(operators)) if operators.keys().next().is_some_and(|key| key.starts_with('$')) => {
                clauses.extend(operators.iter().map(|(operator, value)| condition(path, operator, value)));
            }
            (path, Bson::RegularExpression(regex)) => {
                let mut shown = doc! { "$regex": regex.pattern.to_string() };
                if !regex.options.is_empty() {
                    shown.insert("$options", regex.options.to_string());
                }
                clauses.push(doc! { path: shown });
            }
            (path, value) => clauses.push(doc! { path: { "$eq": value.clone() } }),
        }
    }
    match clauses.len() {
        0 => Document::new(),
        1 => clauses.remove(0),
        _ => doc! { "$and": clauses },
    }
}

fn condition(path: &str, operator: &str, value: &Bson) -> Document {
    match operator {
        "$ne" => doc! { path: { "$not": { "$eq": value.clone() } } },
        "$nin" => doc! { path: { "$not": { "$in": value.clone() } } },
        _ => doc! { path: { operator: value.clone() } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_shown_condition_by_condition() {
        for (filter, expected) in [
            (doc! {}, doc! {}),
            (doc! {"a": 1}, doc! {"a": {"$eq": 1}}),
            (doc! {"a": {"$gt": 1, "$lt": 5}}, doc! {"$and": [{"a": {"$gt": 1}}, {"a": {"$lt": 5}}]}),
            (doc! {"a": {"$ne": 1}}, doc! {"a": {"$not": {"$eq": 1}}}),
            (doc! {"$or": [{"a": 1}, {"b": 2}]}, doc! {"$or": [{"a": {"$eq": 1}}, {"b": {"$eq": 2}}]}),
            (doc! {"a": {"b": 1}}, doc! {"a": {"$eq": {"b": 1}}}),
        ] {
            assert_eq!(parsed(&filter), expected, "{filter}");
        }
    }

    #[test]
    fn stages_stand_in_the_real_order() {
        let command = doc! {"find": "c", "sort": {"a": 1}, "skip": 2, "limit": 3, "projection": {"a": 1}};
        let query = Query::of("find", &command).unwrap();
        let names = |mut plan: Document| {
            let mut names = Vec::new();
            loop {
                names.push(plan.get_str("stage").unwrap_or_default().to_owned());
                match plan.remove("inputStage") {
                    Some(Bson::Document(inner)) => plan = inner,
                    _ => return names.join(" "),
                }
            }
        };
        let scan = || doc! {"stage": "COLLSCAN"};
        assert_eq!(names(query.wrapped(scan(), false)), "PROJECTION_SIMPLE SKIP SORT COLLSCAN");
        assert_eq!(names(query.wrapped(scan(), true)), "LIMIT PROJECTION_SIMPLE SKIP COLLSCAN");
        assert_eq!(query.most(), 5);
    }
}
