//! Validators: what the documents of a collection must be like.

use std::sync::Arc;

use bson::{Bson, DateTime, Document, RawDocument, doc};

use super::prepare::id_of;
use crate::error::{CommandError, Result, fail};
use crate::profile::Profile;
use crate::query::{Matcher, QueryContext};
use crate::storage::collection::Collection;
use crate::value::View;
use crate::value::view::{to_document, to_raw};

/// A collection's validator.
#[derive(Debug)]
pub struct Validator {
    filter: Document,
    matcher: Matcher,
    /// Updates of documents that were not valid before may go on.
    moderate: bool,
}

/// How deep a failed rule is taken apart.
const MAX_DEPTH: usize = 20;

impl Validator {
    /// The validator in a collection's options; `None` without one, or when nothing comes of it.
    ///
    /// # Errors
    /// When the filter is not one, or level and action are unknown.
    pub fn from_options(options: &Document) -> Result<Option<Self>> {
        let level = options.get_str("validationLevel").unwrap_or("strict");
        let action = options.get_str("validationAction").unwrap_or("error");
        if !["off", "strict", "moderate"].contains(&level) {
            return fail(2, format!("invalid validation level: {level}"));
        }
        if !["error", "warn"].contains(&action) {
            return fail(2, format!("invalid validation action: {action}"));
        }
        let filter = match options.get("validator") {
            Some(Bson::Document(filter)) if !filter.is_empty() => filter.clone(),
            _ => return Ok(None),
        };
        // Text and geospatial search have no place in it, nor has the time.
        let matcher = Matcher::parse(&to_raw(&filter)?, &QueryContext::new(DateTime::from_millis(0)))?;
        Ok((level != "off" && action != "warn").then_some(Self { filter, matcher, moderate: level == "moderate" }))
    }

    fn accepts(&self, document: &RawDocument, before: Option<&RawDocument>) -> bool {
        // A rule that fails on a document is not met by it.
        let valid = |document: &RawDocument| self.matcher.matches(document).unwrap_or(false);
        valid(document) || (self.moderate && before.is_some_and(|before| !valid(before)))
    }
}

/// Checks a document that is about to be written in place of `before`.
///
/// # Errors
/// 121, with `errInfo` where the version has it.
pub fn check(
    collection: &Collection,
    document: &RawDocument,
    before: Option<&RawDocument>,
    profile: &Profile,
) -> Result<()> {
    let Some(validator) = collection.validator() else { return Ok(()) };
    if validator.accepts(document, before) {
        return Ok(());
    }
    let error = CommandError::new(121, "Document failed validation");
    if !profile.validation_details {
        return Err(error);
    }
    Err(error.with_extra(doc! { "errInfo": info(&validator, document)? }))
}

fn info(validator: &Arc<Validator>, document: &RawDocument) -> Result<Document> {
    let decoded = to_document(document)?;
    Ok(doc! { "failingDocumentId": id_of(document), "details": details(&validator.filter, &decoded, document, 0)? })
}

/// Which part of a filter a document does not meet. Operators are told with what they were given and what they found;
/// `$jsonSchema` as a whole.
fn details(filter: &Document, decoded: &Document, document: &RawDocument, depth: usize) -> Result<Document> {
    let mut clauses = Vec::new();
    for (name, operand) in filter {
        match operand {
            Bson::Document(operators) if !name.starts_with('$') && starts_with_operator(operators) => {
                clauses.extend(operators.iter().map(|(operator, value)| doc! { name: { operator: value.clone() } }));
            }
            _ => clauses.push(doc! { name: operand.clone() }),
        }
    }
    if let [clause] = clauses.as_slice() {
        return one(clause, decoded, document, depth);
    }
    let mut failed = Vec::new();
    for (index, clause) in clauses.iter().enumerate() {
        if !matches(clause, document)? {
            let details = one(clause, decoded, document, depth + 1)?;
            failed.push(Bson::Document(doc! { "index": index as i32, "details": details }));
        }
    }
    Ok(doc! { "operatorName": "$and", "clausesNotSatisfied": failed })
}

fn starts_with_operator(document: &Document) -> bool {
    document.keys().next().is_some_and(|name| name.starts_with('$'))
}

fn matches(clause: &Document, document: &RawDocument) -> Result<bool> {
    Matcher::parse(&to_raw(clause)?, &QueryContext::new(DateTime::from_millis(0)))?.matches(document)
}

fn one(clause: &Document, decoded: &Document, document: &RawDocument, depth: usize) -> Result<Document> {
    let Some((name, operand)) = clause.iter().next() else { return Ok(doc! {}) };
    match (name.as_str(), operand) {
        ("$and" | "$or", Bson::Array(clauses)) if depth < MAX_DEPTH => {
            let mut failed = Vec::new();
            for (index, clause) in clauses.iter().enumerate() {
                if let Bson::Document(clause) = clause
                    && !matches(clause, document)?
                {
                    let details = details(clause, decoded, document, depth + 1)?;
                    failed.push(Bson::Document(doc! { "index": index as i32, "details": details }));
                }
            }
            Ok(doc! { "operatorName": name, "clausesNotSatisfied": failed })
        }
        (name, _) if name.starts_with('$') => {
            Ok(doc! { "operatorName": name, "specifiedAs": clause.clone(), "reason": "document did not match" })
        }
        (path, operand) => {
            let operator = match operand {
                Bson::Document(operators) => operators.keys().next().filter(|name| name.starts_with('$')).cloned(),
                _ => None,
            };
            let operator = operator.unwrap_or_else(|| "$eq".to_owned());
            let mut details = doc! { "operatorName": &operator, "specifiedAs": clause.clone() };
            match value_at(decoded, path) {
                None => {
                    details.insert("reason", "field was missing");
                }
                Some(value) => {
                    details.insert("reason", reason(&operator));
                    details.insert("consideredValue", value.clone());
                    if operator == "$type" {
                        details.insert("consideredType", View::from(value).type_name());
                    }
                }
            }
            Ok(details)
        }
    }
}

fn reason(operator: &str) -> &'static str {
    match operator {
        "$type" => "type did not match",
        "$in" => "no matching value found in array",
        "$nin" => "matching value found in array",
        "$regex" => "regular expression did not match",
        "$exists" => "path does exist",
        "$size" => "array length was not equal to given size",
        "$mod" => "$mod did not evaluate to expected remainder",
        _ => "comparison failed",
    }
}

fn value_at<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    let mut parts = path.split('.');
    let mut value = document.get(parts.next()?)?;
    for part in parts {
        value = value.as_document()?.get(part)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_make_a_validator() {
        let filter = doc! {"x": {"$type": "string"}};
        for (options, expected) in [
            (doc! {}, Ok(false)),
            (doc! {"validator": {}}, Ok(false)),
            (doc! {"validator": filter.clone()}, Ok(true)),
            (doc! {"validator": filter.clone(), "validationLevel": "off"}, Ok(false)),
            (doc! {"validator": filter.clone(), "validationAction": "warn"}, Ok(false)),
            (doc! {"validator": filter.clone(), "validationLevel": "high"}, Err(2)),
            (doc! {"validator": {"$x": 1}}, Err(2)),
        ] {
            let found = Validator::from_options(&options).map(|one| one.is_some()).map_err(|error| error.code);
            assert_eq!(found, expected, "{options}");
        }
    }

    #[test]
    fn moderate_validation_leaves_old_documents_alone() {
        let options = |level: &str| doc! {"validator": {"x": {"$gt": 0}}, "validationLevel": level};
        let (good, bad) = (to_raw(&doc! {"x": 1}).unwrap(), to_raw(&doc! {"x": -1}).unwrap());
        for (level, before, after, accepted) in [
            ("strict", None, &good, true),
            ("strict", Some(&bad), &bad, false),
            ("moderate", None, &bad, false),
            ("moderate", Some(&bad), &bad, true),
            ("moderate", Some(&good), &bad, false),
        ] {
            let validator = Validator::from_options(&options(level)).unwrap().unwrap();
            let before = before.map(|before| &**before);
            assert_eq!(validator.accepts(after, before), accepted, "{level} {before:?} {after:?}");
        }
    }

    #[test]
    fn a_failed_rule_is_told() {
        let decoded = doc! {"_id": 7, "x": 1, "y": 2};
        let document = to_raw(&decoded).unwrap();
        for (filter, expected) in [
            (
                doc! {"x": {"$type": "string"}},
                doc! {"operatorName": "$type", "specifiedAs": {"x": {"$type": "string"}}, "reason": "type did not match",
                "consideredValue": 1, "consideredType": "int"},
            ),
            (doc! {"z": 1}, doc! {"operatorName": "$eq", "specifiedAs": {"z": 1}, "reason": "field was missing"}),
            (
                doc! {"x": 1, "y": {"$lt": 2}},
                doc! {"operatorName": "$and", "clausesNotSatisfied": [{"index": 1, "details": {
                    "operatorName": "$lt", "specifiedAs": {"y": {"$lt": 2}}, "reason": "comparison failed",
                    "consideredValue": 2,
                }}]},
            ),
        ] {
            assert_eq!(details(&filter, &decoded, &document, 0).unwrap(), expected, "{filter}");
        }
    }
}
