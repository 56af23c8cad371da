//! Whether a value is what a test expects, with the format's special operators.

use bson::spec::ElementType;
use bson::{Bson, Document};

use super::entities::Entities;
use crate::failure::{Checked, Within, fail};

/// Compares values; knows the entities that operators may name.
#[derive(Clone, Copy)]
pub struct Matcher<'a> {
    /// The test's entities.
    pub entities: &'a Entities,
}

impl Matcher<'_> {
    /// Matches a value that may have more fields than expected, if it is a document.
    ///
    /// # Errors
    /// When it does not match.
    pub fn root(&self, expected: &Bson, actual: Option<&Bson>) -> Checked {
        self.matches(expected, actual, true)
    }

    /// Matches documents of a result, each of which may have more fields than expected.
    ///
    /// # Errors
    /// When there are more or less, or one does not match.
    pub fn roots(&self, expected: &Bson, actual: &[Document]) -> Checked {
        let as_bson = || Bson::Array(actual.iter().cloned().map(Bson::Document).collect());
        match expected {
            Bson::Array(expected) => {
                if expected.len() != actual.len() {
                    fail!("{} documents instead of {}: {}", actual.len(), expected.len(), as_bson());
                }
                for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                    self.root(expected, Some(&Bson::Document(actual.clone()))).within(|| format!("[{index}]"))?;
                }
                Ok(())
            }
            other => self.matches(other, Some(&as_bson()), false),
        }
    }

    fn matches(&self, expected: &Bson, actual: Option<&Bson>, is_root: bool) -> Checked {
        match (expected, actual) {
            (Bson::Document(expected), _) => match operator(expected) {
                Some((name, operand)) => self.operator(name, operand, actual, is_root),
                None => self.documents(expected, actual, is_root),
            },
            (_, None) => fail!("nothing instead of {expected}"),
            (Bson::Array(expected), Some(Bson::Array(actual))) => {
                if expected.len() != actual.len() {
                    fail!("{} elements instead of {}: {actual:?}", actual.len(), expected.len());
                }
                for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                    self.matches(expected, Some(actual), false).within(|| format!("[{index}]"))?;
                }
                Ok(())
            }
            (_, Some(actual)) if equal(expected, actual) => Ok(()),
            (_, Some(actual)) => fail!("{actual} instead of {expected}"),
        }
    }

    fn documents(&self, expected: &Document, actual: Option<&Bson>, is_root: bool) -> Checked {
        let Some(Bson::Document(actual)) = actual else {
            fail!("{} instead of {expected}", actual.map_or("nothing".to_owned(), Bson::to_string));
        };
        for (name, expected) in expected {
            self.matches(expected, actual.get(name), false).within(|| name.clone())?;
        }
        // A field that must not exist, or need not, is none of the expected ones.
        match actual.keys().find(|name| !expected.contains_key(*name)) {
            Some(name) if !is_root => fail!("unexpected field '{name}' in {actual}"),
            _ => Ok(()),
        }
    }

    fn operator(&self, name: &str, operand: &Bson, actual: Option<&Bson>, is_root: bool) -> Checked {
        let found = || actual.map_or("nothing".to_owned(), Bson::to_string);
        match (name, operand) {
            ("$$exists", Bson::Boolean(expected)) if actual.is_some() == *expected => Ok(()),
            ("$$exists", Bson::Boolean(false)) => fail!("{} instead of nothing", found()),
            ("$$exists", Bson::Boolean(true)) => fail!("nothing instead of something"),
            ("$$type", operand) => {
                let names = match operand {
                    Bson::Array(names) => names.as_slice(),
                    name => std::slice::from_ref(name),
                };
                let Some(actual) = actual else { fail!("nothing instead of a {operand}") };
                for name in names {
                    if has_type(actual, name)? {
                        return Ok(());
                    }
                }
                fail!("{actual} is not of type {operand}")
            }
            ("$$unsetOrMatches", expected) => match actual {
                None => Ok(()),
                actual => self.matches(expected, actual, is_root),
            },
            ("$$matchesEntity", Bson::String(id)) => self.matches(&self.entities.value(id)?, actual, is_root),
            ("$$sessionLsid", Bson::String(id)) => {
                let lsid = self.entities.lsid(id)?;
                match actual {
                    Some(Bson::Document(actual)) if *actual == lsid => Ok(()),
                    _ => fail!("{} is not {id}'s lsid", found()),
                }
            }
            ("$$lte", most) => match (as_number(most), actual.and_then(as_number)) {
                (Some(most), Some(number)) if number <= most => Ok(()),
                _ => fail!("{} is not at most {most}", found()),
            },
            ("$$matchAsDocument", expected) => {
                let Some(Bson::String(text)) = actual else { fail!("{} is not JSON in a string", found()) };
                let json: serde_json::Value = serde_json::from_str(text).within(|| text.clone())?;
                let document = Bson::try_from(json).within(|| text.clone())?;
                self.matches(expected, Some(&document), false)
            }
            ("$$matchAsRoot", expected) => self.matches(expected, actual, true),
            _ => fail!("the operator {name}: {operand} is not known"),
        }
    }
}

/// The special operator that a document is, if it is one.
fn operator(document: &Document) -> Option<(&str, &Bson)> {
    let (name, operand) = document.iter().next()?;
    (document.len() == 1 && name.starts_with("$$")).then_some((name.as_str(), operand))
}

/// Whether scalar values are equal; of numbers only the value counts.
fn equal(expected: &Bson, actual: &Bson) -> bool {
    match (as_number(expected), as_number(actual)) {
        (Some(expected), Some(actual)) => expected == actual,
        _ => expected == actual,
    }
}

/// The value of a number that is not a decimal.
fn as_number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        _ => None,
    }
}

fn has_type(value: &Bson, name: &Bson) -> Checked<bool> {
    const NAMES: [(&str, &[ElementType]); 21] = [
        ("double", &[ElementType::Double]),
        ("string", &[ElementType::String]),
        ("object", &[ElementType::EmbeddedDocument]),
        ("array", &[ElementType::Array]),
        ("binData", &[ElementType::Binary]),
        ("undefined", &[ElementType::Undefined]),
        ("objectId", &[ElementType::ObjectId]),
        ("bool", &[ElementType::Boolean]),
        ("date", &[ElementType::DateTime]),
        ("null", &[ElementType::Null]),
        ("regex", &[ElementType::RegularExpression]),
        ("javascript", &[ElementType::JavaScriptCode]),
        ("symbol", &[ElementType::Symbol]),
        ("javascriptWithScope", &[ElementType::JavaScriptCodeWithScope]),
        ("int", &[ElementType::Int32]),
        ("timestamp", &[ElementType::Timestamp]),
        ("long", &[ElementType::Int64]),
        ("decimal", &[ElementType::Decimal128]),
        ("minKey", &[ElementType::MinKey]),
        ("maxKey", &[ElementType::MaxKey]),
        ("number", &[ElementType::Int32, ElementType::Int64, ElementType::Double, ElementType::Decimal128]),
    ];
    match NAMES.iter().find(|(known, _)| name.as_str() == Some(known)) {
        Some((_, types)) => Ok(types.contains(&value.element_type())),
        None => fail!("{name} is not the name of a type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::bson;

    fn check(expected: Bson, actual: Option<Bson>, good: bool) {
        let entities = Entities::default();
        let result = Matcher { entities: &entities }.root(&expected, actual.as_ref());
        assert_eq!(result.is_ok(), good, "{expected} against {actual:?}: {result:?}");
    }

    #[test]
    fn more_fields_are_allowed_at_the_root_only() {
        check(bson!({"x": 1}), Some(bson!({"x": 1, "y": 1})), true);
        check(bson!({"x": 1, "y": 1}), Some(bson!({"x": 1})), false);
        check(bson!({"x": {"y": 1}}), Some(bson!({"x": {"y": 1, "z": 1}})), false);
        check(bson!({"x": {"$$matchAsRoot": {"y": 1}}}), Some(bson!({"x": {"y": 1, "z": 1}})), true);
        check(bson!([{"x": 1}]), Some(bson!([{"x": 1, "y": 1}])), false);
        check(bson!({"x": 1, "y": 2}), Some(bson!({"y": 2, "x": 1})), true);
    }

    #[test]
    fn of_numbers_only_the_value_counts() {
        check(bson!(1), Some(bson!(1.0)), true);
        check(bson!(1), Some(bson!(1_i64)), true);
        check(bson!(1), Some(bson!(1.5)), false);
        check(bson!(1), Some(bson!(true)), false);
        check(bson!([1, 2]), Some(bson!([1])), false);
    }

    #[test]
    fn operators() {
        for (expected, actual, good) in [
            (bson!({"$$exists": true}), Some(bson!(null)), true),
            (bson!({"$$exists": true}), None, false),
            (bson!({"$$exists": false}), None, true),
            (bson!({"$$type": "int"}), Some(bson!(1)), true),
            (bson!({"$$type": ["int", "long"]}), Some(bson!(1_i64)), true),
            (bson!({"$$type": "number"}), Some(bson!("1")), false),
            (bson!({"$$type": "number"}), None, false),
            (bson!({"$$type": "nothing"}), Some(bson!(1)), false),
            (bson!({"$$unsetOrMatches": 1}), None, true),
            (bson!({"$$unsetOrMatches": 1}), Some(bson!(2)), false),
            (bson!({"$$lte": 5}), Some(bson!(5.0)), true),
            (bson!({"$$lte": 5}), Some(bson!(6)), false),
            (bson!({"$$lte": 5}), None, false),
            (bson!({"$$matchAsDocument": {"x": 1}}), Some(bson!("{\"x\": 1}")), true),
            (bson!({"$$matchAsDocument": {"x": 1}}), Some(bson!("{\"x\": 1, \"y\": 2}")), false),
            (bson!({"$$matchesEntity": "nobody"}), Some(bson!(1)), false),
            (bson!({"$$sessionLsid": "nobody"}), Some(bson!({"id": 1})), false),
            (bson!({"$$unknown": 1}), Some(bson!(1)), false),
        ] {
            check(
                bson!({"v": expected}),
                Some(bson::Bson::Document(actual.map(|v| ("v".to_owned(), v)).into_iter().collect())),
                good,
            );
        }
    }
}
