//! `$jsonSchema`: the keywords of JSON Schema draft 4 that a mongod knows.
//!
//! A keyword only speaks about values of its type: `minimum` lets a string pass, and a property that is missing passes
//! everything but `required`.

use std::cmp::Ordering;

use bson::Bson;

use super::node::Node;
use super::parse::{Parser, TopParser, integer};
use super::regex::Regex;
use crate::error::{Result, fail};
use crate::value::decimal::Dec;
use crate::value::kinds::KindSet;
use crate::value::number::Number;
use crate::value::{ArrayView, DocView, Kind, View, compare, equal};

/// The operator of this file.
pub(crate) const TOP: &[(&str, TopParser)] = &[("$jsonSchema", json_schema)];

/// Schemas nested deeper than this are refused.
const MAX_DEPTH: usize = 100;

/// A parsed schema.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    kinds: Option<KindSet>,
    values: Option<Vec<Bson>>,
    all_of: Vec<Schema>,
    any_of: Option<Vec<Schema>>,
    one_of: Option<Vec<Schema>>,
    not: Option<Box<Schema>>,
    numbers: Numbers,
    strings: Strings,
    arrays: Arrays,
    objects: Objects,
}

#[derive(Debug, Clone, Default)]
struct Numbers {
    minimum: Option<Bson>,
    exclusive_minimum: bool,
    maximum: Option<Bson>,
    exclusive_maximum: bool,
    multiple_of: Option<Dec>,
}

#[derive(Debug, Clone, Default)]
struct Strings {
    min_length: Option<i64>,
    max_length: Option<i64>,
    pattern: Option<Regex>,
}

#[derive(Debug, Clone, Default)]
struct Arrays {
    min_items: Option<i64>,
    max_items: Option<i64>,
    unique: bool,
    items: Option<Items>,
    additional: Additional,
}

#[derive(Debug, Clone)]
enum Items {
    Each(Box<Schema>),
    Listed(Vec<Schema>),
}

#[derive(Debug, Clone, Default)]
enum Additional {
    #[default]
    Allowed,
    Refused,
    Schema(Box<Schema>),
}

#[derive(Debug, Clone, Default)]
struct Objects {
    properties: Vec<(String, Schema)>,
    required: Vec<String>,
    min_properties: Option<i64>,
    max_properties: Option<i64>,
    patterns: Vec<(Regex, Schema)>,
    additional: Additional,
    dependencies: Vec<(String, Dependency)>,
}

#[derive(Debug, Clone)]
enum Dependency {
    Names(Vec<String>),
    Schema(Box<Schema>),
}

fn json_schema(parser: &Parser<'_>, _: &str, value: View<'_>) -> Result<Option<Node>> {
    if !parser.context.features.json_schema {
        return fail(224, "$jsonSchema is not allowed in this context");
    }
    let View::Document(document) = value else { return fail(14, "$jsonSchema must be an object") };
    Ok(Some(Node::Schema(Box::new(Schema::parse(document, 0)?))))
}

fn mismatch<T>(keyword: &str, what: &str) -> Result<T> {
    fail(14, format!("$jsonSchema keyword '{keyword}' must be {what}"))
}

fn refuse<T>(keyword: &str, what: &str) -> Result<T> {
    fail(9, format!("$jsonSchema keyword '{keyword}' {what}"))
}

fn count(keyword: &str, value: View<'_>) -> Result<Option<i64>> {
    if value.number().is_none() {
        return mismatch(keyword, "a number");
    }
    let number = integer(keyword, value)?;
    if number < 0 {
        return refuse(keyword, "must be a non-negative integer");
    }
    Ok(Some(number))
}

fn flag(keyword: &str, value: View<'_>) -> Result<bool> {
    match value {
        View::Bool(value) => Ok(value),
        _ => mismatch(keyword, "a boolean"),
    }
}

fn number(keyword: &str, value: View<'_>) -> Result<Option<Bson>> {
    if value.number().is_none() {
        return mismatch(keyword, "a number");
    }
    value.to_bson().map(Some)
}

fn array<'a>(keyword: &str, value: View<'a>) -> Result<ArrayView<'a>> {
    match value {
        View::Array(array) => Ok(array),
        _ => mismatch(keyword, "an array"),
    }
}

fn object<'a>(keyword: &str, value: View<'a>) -> Result<DocView<'a>> {
    match value {
        View::Document(document) => Ok(document),
        _ => mismatch(keyword, "an object"),
    }
}

fn names(keyword: &str, value: View<'_>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for each in array(keyword, value)?.iter() {
        let View::String(name) = each else {
            let what = format!("an array of strings, but found an element of type: {}", each.type_name());
            return mismatch(keyword, &what);
        };
        if names.iter().any(|known| known == name) {
            return refuse(keyword, "array cannot contain duplicate values");
        }
        names.push(name.to_owned());
    }
    if names.is_empty() {
        return refuse(keyword, "cannot be an empty array");
    }
    Ok(names)
}

/// The names of the `type` keyword; those of `bsonType` are the aliases of `$type`.
fn json_kinds(value: View<'_>) -> Result<KindSet> {
    let mut kinds = KindSet::default();
    let mut add = |value: View<'_>| {
        let View::String(name) = value else { return mismatch("type", "either a string or an array of strings") };
        match name {
            "integer" => return fail(9, "$jsonSchema type 'integer' is not currently supported."),
            "boolean" => kinds.insert(Kind::Bool),
            "object" | "array" | "number" | "string" | "null" => kinds.insert_name(name)?,
            other => return fail(2, format!("Unknown type name alias: {other}")),
        }
        Ok(())
    };
    match value {
        View::Array(array) => array.iter().try_for_each(&mut add)?,
        other => add(other)?,
    }
    Ok(kinds)
}

fn bson_kinds(value: View<'_>) -> Result<KindSet> {
    let mut kinds = KindSet::default();
    let mut add = |value: View<'_>| match value {
        View::String(name) => kinds.insert_name(name),
        _ => mismatch("bsonType", "either a string or an array of strings"),
    };
    match value {
        View::Array(array) => array.iter().try_for_each(&mut add)?,
        other => add(other)?,
    }
    if kinds.is_empty() {
        return refuse("bsonType", "must name at least one type");
    }
    Ok(kinds)
}

impl Schema {
    fn parse(document: DocView<'_>, depth: usize) -> Result<Self> {
        if depth > MAX_DEPTH {
            return fail(9, format!("$jsonSchema is nested deeper than {MAX_DEPTH} levels"));
        }
        let mut schema = Self::default();
        let nested = |value: DocView<'_>| Self::parse(value, depth + 1);
        let list = |keyword: &str, value: View<'_>| -> Result<Vec<Self>> {
            let array = array(keyword, value)?;
            if array.is_empty() {
                return fail(2, format!("$jsonSchema keyword '{keyword}' must be a non-empty array"));
            }
            let each = |value: View<'_>| match value {
                View::Document(document) => nested(document),
                other => {
                    let what = format!("an array of objects, but found an element of type {}", other.type_name());
                    mismatch(keyword, &what)
                }
            };
            array.iter().map(each).collect()
        };
        let additional = |keyword: &str, value: View<'_>| match value {
            View::Bool(true) => Ok(Additional::Allowed),
            View::Bool(false) => Ok(Additional::Refused),
            View::Document(document) => Ok(Additional::Schema(Box::new(nested(document)?))),
            _ => mismatch(keyword, "either an object or a boolean"),
        };
        if document.get("type").is_some() && document.get("bsonType").is_some() {
            return fail(9, "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'");
        }
        for (keyword, value) in document.iter() {
            match keyword {
                "type" => schema.kinds = Some(json_kinds(value)?),
                "bsonType" => schema.kinds = Some(bson_kinds(value)?),
                "title" | "description" => {
                    if value.as_str().is_none() {
                        return mismatch(keyword, "of type string");
                    }
                }
                "enum" => {
                    let listed = array(keyword, value)?;
                    if listed.is_empty() {
                        return refuse(keyword, "cannot be an empty array");
                    }
                    schema.values = Some(listed.iter().map(View::to_bson).collect::<Result<_>>()?);
                }
                "allOf" => schema.all_of = list(keyword, value)?,
                "anyOf" => schema.any_of = Some(list(keyword, value)?),
                "oneOf" => schema.one_of = Some(list(keyword, value)?),
                "not" => schema.not = Some(Box::new(nested(object(keyword, value)?)?)),
                "minimum" => schema.numbers.minimum = number(keyword, value)?,
                "maximum" => schema.numbers.maximum = number(keyword, value)?,
                "exclusiveMinimum" => {
                    schema.numbers.exclusive_minimum = flag(keyword, value)?;
                    if document.get("minimum").is_none() {
                        return refuse("minimum", "must be a present if exclusiveMinimum is present");
                    }
                }
                "exclusiveMaximum" => {
                    schema.numbers.exclusive_maximum = flag(keyword, value)?;
                    if document.get("maximum").is_none() {
                        return refuse("maximum", "must be a present if exclusiveMaximum is present");
                    }
                }
                "multipleOf" => {
                    let Some(number) = value.number() else { return mismatch(keyword, "a number") };
                    let divisor = exact(number);
                    if divisor.compare(&Dec::ZERO) != Ordering::Greater {
                        return refuse(keyword, "must have a positive value");
                    }
                    schema.numbers.multiple_of = Some(divisor);
                }
                "minLength" => schema.strings.min_length = count(keyword, value)?,
                "maxLength" => schema.strings.max_length = count(keyword, value)?,
                "pattern" => {
                    let View::String(pattern) = value else { return mismatch(keyword, "a string") };
                    schema.strings.pattern = Some(Regex::new(pattern, "")?);
                }
                "minItems" => schema.arrays.min_items = count(keyword, value)?,
                "maxItems" => schema.arrays.max_items = count(keyword, value)?,
                "uniqueItems" => schema.arrays.unique = flag(keyword, value)?,
                "items" => {
                    schema.arrays.items = Some(match value {
                        View::Document(document) => Items::Each(Box::new(nested(document)?)),
                        View::Array(_) => Items::Listed(list(keyword, value)?),
                        _ => return mismatch(keyword, "an array or an object"),
                    });
                }
                "additionalItems" => schema.arrays.additional = additional(keyword, value)?,
                "properties" => {
                    for (name, value) in object(keyword, value)?.iter() {
                        let View::Document(inner) = value else {
                            let text = format!("Nested schema for $jsonSchema property '{name}' must be an object");
                            return fail(14, text);
                        };
                        schema.objects.properties.push((name.to_owned(), nested(inner)?));
                    }
                }
                "required" => schema.objects.required = names(keyword, value)?,
                "minProperties" => schema.objects.min_properties = count(keyword, value)?,
                "maxProperties" => schema.objects.max_properties = count(keyword, value)?,
                "patternProperties" => {
                    for (pattern, value) in object(keyword, value)?.iter() {
                        let View::Document(inner) = value else {
                            let what = format!(" has property '{pattern}' which is not an object");
                            return fail(14, format!("$jsonSchema keyword '{keyword}'{what}"));
                        };
                        schema.objects.patterns.push((Regex::new(pattern, "")?, nested(inner)?));
                    }
                }
                "additionalProperties" => schema.objects.additional = additional(keyword, value)?,
                "dependencies" => {
                    for (name, value) in object(keyword, value)?.iter() {
                        let dependency = match value {
                            View::Document(inner) => Dependency::Schema(Box::new(nested(inner)?)),
                            View::Array(_) => Dependency::Names(names(keyword, value)?),
                            _ => return mismatch(name, "either an object or an array"),
                        };
                        schema.objects.dependencies.push((name.to_owned(), dependency));
                    }
                }
                "$ref" | "$schema" | "default" | "definitions" | "format" | "id" => {
                    return refuse(keyword, "is not currently supported");
                }
                _ => return fail(9, format!("Unknown $jsonSchema keyword: {keyword}")),
            }
        }
        Ok(schema)
    }

    /// Whether a document fits the schema.
    pub(crate) fn matches(&self, document: DocView<'_>) -> bool {
        self.fits(View::Document(document))
    }

    fn fits(&self, value: View<'_>) -> bool {
        let listed = |values: &Vec<Bson>| values.iter().any(|each| same(each.into(), value));
        self.kinds.is_none_or(|kinds| kinds.contains(value.kind()))
            && self.values.as_ref().is_none_or(listed)
            && self.all_of.iter().all(|schema| schema.fits(value))
            && self.any_of.as_ref().is_none_or(|schemas| schemas.iter().any(|schema| schema.fits(value)))
            && self
                .one_of
                .as_ref()
                .is_none_or(|schemas| schemas.iter().filter(|schema| schema.fits(value)).count() == 1)
            && self.not.as_ref().is_none_or(|schema| !schema.fits(value))
            && match value {
                View::String(text) => self.strings.fit(text),
                View::Array(array) => self.arrays.fit(array),
                View::Document(document) => self.objects.fit(document),
                other => other.number().is_none_or(|number| self.numbers.fit(other, number)),
            }
    }
}

/// Equal, with documents compared as sets of fields.
fn same(left: View<'_>, right: View<'_>) -> bool {
    match (left, right) {
        (View::Document(left), View::Document(right)) => {
            left.iter().count() == right.iter().count()
                && left.iter().all(|(name, value)| right.get(name).is_some_and(|other| same(value, other)))
        }
        (View::Array(left), View::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right.iter()).all(|(left, right)| same(left, right))
        }
        _ => equal(left, right, None),
    }
}

fn exact(number: Number) -> Dec {
    match number {
        Number::Double(value) => Dec::from_f64(value),
        other => other.to_decimal(),
    }
}

impl Numbers {
    fn fit(&self, value: View<'_>, number: Number) -> bool {
        let low = |limit: &Bson| match compare(value, limit.into(), None) {
            Ordering::Less => false,
            Ordering::Equal => !self.exclusive_minimum,
            Ordering::Greater => true,
        };
        let high = |limit: &Bson| match compare(value, limit.into(), None) {
            Ordering::Less => true,
            Ordering::Equal => !self.exclusive_maximum,
            Ordering::Greater => false,
        };
        self.minimum.as_ref().is_none_or(low)
            && self.maximum.as_ref().is_none_or(high)
            && self.multiple_of.is_none_or(|divisor| exact(number).remainder(divisor).is_zero())
    }
}

impl Strings {
    fn fit(&self, text: &str) -> bool {
        let length = || text.chars().count() as i64;
        self.min_length.is_none_or(|limit| length() >= limit)
            && self.max_length.is_none_or(|limit| length() <= limit)
            && self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }
}

impl Additional {
    fn fits(&self, value: View<'_>) -> bool {
        match self {
            Self::Allowed => true,
            Self::Refused => false,
            Self::Schema(schema) => schema.fits(value),
        }
    }
}

impl Arrays {
    fn fit(&self, array: ArrayView<'_>) -> bool {
        let length = array.len() as i64;
        let unique = || {
            let values: Vec<_> = array.iter().collect();
            values.iter().enumerate().all(|(at, value)| !values[..at].iter().any(|earlier| same(*earlier, *value)))
        };
        self.min_items.is_none_or(|limit| length >= limit)
            && self.max_items.is_none_or(|limit| length <= limit)
            && (!self.unique || unique())
            && match &self.items {
                None => true,
                Some(Items::Each(schema)) => array.iter().all(|value| schema.fits(value)),
                Some(Items::Listed(schemas)) => array.iter().enumerate().all(|(at, value)| match schemas.get(at) {
                    Some(schema) => schema.fits(value),
                    None => self.additional.fits(value),
                }),
            }
    }
}

impl Objects {
    fn fit(&self, document: DocView<'_>) -> bool {
        let fields = || document.iter().count() as i64;
        let has = |name: &String| document.get(name).is_some();
        self.required.iter().all(has)
            && self.min_properties.is_none_or(|limit| fields() >= limit)
            && self.max_properties.is_none_or(|limit| fields() <= limit)
            && self.dependencies.iter().all(|(name, dependency)| {
                !has(name)
                    || match dependency {
                        Dependency::Names(names) => names.iter().all(has),
                        Dependency::Schema(schema) => schema.matches(document),
                    }
            })
            && document.iter().all(|(name, value)| self.property_fits(name, value))
    }

    fn property_fits(&self, name: &str, value: View<'_>) -> bool {
        let mut described = false;
        for (_, schema) in self.properties.iter().filter(|(known, _)| known == name) {
            described = true;
            if !schema.fits(value) {
                return false;
            }
        }
        for (_, schema) in self.patterns.iter().filter(|(pattern, _)| pattern.is_match(name)) {
            described = true;
            if !schema.fits(value) {
                return false;
            }
        }
        described || self.additional.fits(value)
    }
}
