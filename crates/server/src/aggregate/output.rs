//! `$out` and `$merge`: the last stage of a pipeline that writes. The pipeline parses it; the caller carries it out.

use bson::{Bson, Document};

use super::expression::variables::check_write;
use super::expression::{Expression, Frame, Globals, Scope};
use crate::error::{Result, fail};
use crate::query::QueryContext;
use crate::update::{ApplyContext, Update, UpdateOptions};
use crate::value::view::to_raw;
use crate::value::{View, text};

/// Where the documents of a pipeline go.
#[derive(Debug, Clone)]
pub enum Output {
    /// `$out`: they replace a collection.
    Out {
        /// The database, when it is not the pipeline's.
        database: Option<String>,
        /// The collection.
        collection: String,
    },
    /// `$merge`: they are merged into a collection.
    Merge(Box<Merge>),
}

impl Output {
    /// The stage's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Out { .. } => "$out",
            Self::Merge(_) => "$merge",
        }
    }
}

/// A parsed `$merge`.
#[derive(Debug, Clone)]
pub struct Merge {
    /// The database, when it is not the pipeline's.
    pub database: Option<String>,
    /// The collection.
    pub collection: String,
    /// The fields that identify a document; `_id` unless given.
    pub on: Vec<String>,
    /// What happens to a document that is there already.
    pub when_matched: WhenMatched,
    /// What happens to a document that is not.
    pub when_not_matched: WhenNotMatched,
}

/// What `$merge` does with a document that is there already.
#[derive(Debug, Clone)]
pub enum WhenMatched {
    /// It is replaced.
    Replace,
    /// It stays.
    KeepExisting,
    /// The fields of the new one are set in it.
    Merge,
    /// The pipeline fails with a duplicate key.
    Fail,
    /// A pipeline computes what it becomes; the new document is `$$new`.
    Pipeline(Box<MergePipeline>),
}

/// What `$merge` does with a document that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// It is inserted.
    Insert,
    /// It is dropped.
    Discard,
    /// The pipeline fails with `MergeStageNoMatchingDocument`.
    Fail,
}

/// The `whenMatched` pipeline of a `$merge`.
#[derive(Debug, Clone)]
pub struct MergePipeline {
    stages: Bson,
    variables: Vec<(String, Expression)>,
    context: QueryContext,
}

impl MergePipeline {
    /// What `existing` becomes for the new document `incoming`.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn apply(&self, existing: &Document, incoming: &Document, now: &ApplyContext) -> Result<Document> {
        let globals = self.context.globals();
        let mut context = self.context.clone();
        let empty: &Globals = &globals;
        for (name, value) in &self.variables {
            let mut frame = Frame::new(incoming.into(), self.context.slots.clone(), empty);
            if let Some(value) = value.eval(&mut frame)? {
                context.bind(name, value)?;
            }
        }
        let update = self.parse(&context)?;
        Ok(update.apply(&to_raw(existing)?, None, now)?.document)
    }

    fn parse(&self, context: &QueryContext) -> Result<Update> {
        Update::parse(
            &self.stages,
            &UpdateOptions { multi: false, array_filters: &[], context, empty_operators: false },
        )
    }
}

impl Merge {
    /// What `existing` becomes for the new document `incoming`; `None` leaves it.
    ///
    /// `Fail` is for the caller, who knows the key: it is answered with the new document here.
    ///
    /// # Errors
    /// Those of a `whenMatched` pipeline.
    pub fn combine(&self, existing: &Document, incoming: &Document, now: &ApplyContext) -> Result<Option<Document>> {
        Ok(match &self.when_matched {
            WhenMatched::Replace | WhenMatched::Fail => {
                let mut replacement = incoming.clone();
                if let Some(id) = existing.get("_id") {
                    replacement.insert("_id", id.clone());
                }
                Some(replacement)
            }
            WhenMatched::KeepExisting => None,
            WhenMatched::Merge => {
                let mut merged = existing.clone();
                for (name, value) in incoming {
                    if name != "_id" {
                        merged.insert(name, value.clone());
                    }
                }
                Some(merged)
            }
            WhenMatched::Pipeline(pipeline) => Some(pipeline.apply(existing, incoming, now)?),
        })
    }
}

/// Parses `$out`.
pub(crate) fn parse_out(operand: View<'_>) -> Result<Output> {
    match operand {
        View::String(collection) => Ok(Output::Out { database: None, collection: collection.to_owned() }),
        View::Document(document) => {
            let (mut database, mut collection) = (None, None);
            for (name, value) in document.iter() {
                match (name, value) {
                    ("db", View::String(name)) => database = Some(name.to_owned()),
                    ("coll", View::String(name)) => collection = Some(name.to_owned()),
                    _ => {
                        let shown = text::document(document);
                        let text = "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'";
                        return fail(16994, format!("{text}, but found: {shown}"));
                    }
                }
            }
            match (database, collection) {
                (Some(database), Some(collection)) => Ok(Output::Out { database: Some(database), collection }),
                _ => fail(16994, "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'"),
            }
        }
        other => {
            fail(16990, format!("$out only supports a string or object argument, but found {}", other.type_name()))
        }
    }
}

/// Parses `$merge`.
pub(crate) fn parse_merge(operand: View<'_>, context: &QueryContext) -> Result<Output> {
    let document = match operand {
        View::String(collection) => {
            return Ok(merge_into(None, collection.to_owned()));
        }
        View::Document(document) => document,
        other => {
            let text = "$merge only supports a string or object argument, not";
            return fail(51182, format!("{text} {}", other.type_name()));
        }
    };
    let (mut target, mut on, mut matched, mut not_matched, mut variables) = (None, None, None, None, None);
    for (name, value) in document.iter() {
        match name {
            "into" => target = Some(parse_target(value)?),
            "on" => on = Some(parse_on(value)?),
            "whenMatched" => matched = Some(value),
            "whenNotMatched" => not_matched = Some(parse_not_matched(value)?),
            "let" => match value {
                View::Document(document) => variables = Some(document),
                other => {
                    let text = format!(
                        "BSON field '$merge.let' is the wrong type '{}', expected type 'object'",
                        other.type_name()
                    );
                    return fail(14, text);
                }
            },
            other => return fail(40415, format!("BSON field '$merge.{other}' is an unknown field.")),
        }
    }
    let Some((database, collection)) = target else {
        return fail(40414, "BSON field '$merge.into' is missing but a required field");
    };
    let mut bound = Vec::new();
    let mut inner = context.clone();
    if let Some(document) = variables {
        if !matches!(matched, Some(View::Array(_))) {
            return fail(51199, "Cannot use 'let' variables with 'whenMatched: merge' mode");
        }
        for (name, value) in document.iter() {
            check_write(name)?;
            bound.push((name.to_owned(), Expression::parse(value, &context.scope)?));
        }
    }
    if !bound.iter().any(|(name, _)| name == "new") {
        bound.push(("new".to_owned(), Expression::parse(View::String("$$ROOT"), &Scope::default())?));
    }
    let when_matched = match matched {
        None => WhenMatched::Merge,
        Some(View::String("replace")) => WhenMatched::Replace,
        Some(View::String("keepExisting")) => WhenMatched::KeepExisting,
        Some(View::String("merge")) => WhenMatched::Merge,
        Some(View::String("fail")) => WhenMatched::Fail,
        Some(View::String(other)) => {
            return fail(2, format!("Enumeration value '{other}' for field 'whenMatched' is not a valid value."));
        }
        Some(View::Array(stages)) => {
            let pipeline = MergePipeline {
                stages: View::Array(stages).to_bson()?,
                variables: bound.clone(),
                context: context.clone(),
            };
            for (name, _) in &bound {
                inner.bind(name, Bson::Null)?;
            }
            pipeline.parse(&inner)?;
            WhenMatched::Pipeline(Box::new(pipeline))
        }
        Some(other) => {
            let text = "$merge 'whenMatched' field  must be either a string or an array, but found";
            return fail(51191, format!("{text} {}", other.type_name()));
        }
    };
    let when_not_matched = not_matched.unwrap_or(WhenNotMatched::Insert);
    check_combination(&when_matched, when_not_matched)?;
    let on = on.unwrap_or_else(|| vec!["_id".to_owned()]);
    Ok(Output::Merge(Box::new(Merge { database, collection, on, when_matched, when_not_matched })))
}

fn merge_into(database: Option<String>, collection: String) -> Output {
    Output::Merge(Box::new(Merge {
        database,
        collection,
        on: vec!["_id".to_owned()],
        when_matched: WhenMatched::Merge,
        when_not_matched: WhenNotMatched::Insert,
    }))
}

fn parse_target(value: View<'_>) -> Result<(Option<String>, String)> {
    match value {
        View::String(collection) => Ok((None, collection.to_owned())),
        View::Document(document) => {
            let part = |name| document.get(name).and_then(View::as_str).map(str::to_owned);
            match part("coll") {
                Some(collection) => Ok((part("db"), collection)),
                None => fail(51178, "$merge 'into' field must specify a 'coll' that is not empty, null or undefined"),
            }
        }
        other => {
            let text = "$merge 'into' field  must be either a string or an object, but found";
            fail(51178, format!("{text} {}", other.type_name()))
        }
    }
}

fn parse_on(value: View<'_>) -> Result<Vec<String>> {
    match value {
        View::String(field) => Ok(vec![field.to_owned()]),
        View::Array(fields) => {
            if fields.is_empty() {
                return fail(51187, "If explicitly specifying $merge 'on', must include at least one field");
            }
            let name = |value: View<'_>| match value {
                View::String(field) => Ok(field.to_owned()),
                other => {
                    let text = "$merge 'on' array elements must be strings, but found";
                    fail(51134, format!("{text} {}", other.type_name()))
                }
            };
            fields.iter().map(name).collect()
        }
        other => {
            let text = "$merge 'on' field  must be either a string or an array of strings, but found";
            fail(51186, format!("{text} {}", other.type_name()))
        }
    }
}

fn parse_not_matched(value: View<'_>) -> Result<WhenNotMatched> {
    match value {
        View::String("insert") => Ok(WhenNotMatched::Insert),
        View::String("discard") => Ok(WhenNotMatched::Discard),
        View::String("fail") => Ok(WhenNotMatched::Fail),
        View::String(other) => {
            fail(2, format!("Enumeration value '{other}' for field 'whenNotMatched' is not a valid value."))
        }
        other => {
            let kind = other.type_name();
            fail(14, format!("BSON field '$merge.whenNotMatched' is the wrong type '{kind}', expected type 'string'"))
        }
    }
}

fn check_combination(matched: &WhenMatched, not_matched: WhenNotMatched) -> Result<()> {
    let refused = match (matched, not_matched) {
        (WhenMatched::Fail, WhenNotMatched::Discard) => Some(("fail", "discard")),
        (WhenMatched::Fail, WhenNotMatched::Fail) => Some(("fail", "fail")),
        (WhenMatched::KeepExisting, WhenNotMatched::Discard) => Some(("keepExisting", "discard")),
        (WhenMatched::KeepExisting, WhenNotMatched::Fail) => Some(("keepExisting", "fail")),
        _ => None,
    };
    match refused {
        None => Ok(()),
        Some((matched, not)) => {
            let text = format!("Combination of {{whenMatched: {matched}}} and {{whenNotMatched: {not}}}");
            fail(51189, format!("{text} is not supported"))
        }
    }
}
