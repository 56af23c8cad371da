//! Strict reading of objects in test files: a field that nobody asks for is a failure.

use bson::{Bson, Document};

use crate::failure::{Checked, Failure, fail};

/// The fields of an object that have not been read yet.
#[derive(Debug, Clone)]
pub struct Fields {
    owner: String,
    rest: Document,
}

/// A type that a field may have.
pub trait Kind: Sized {
    /// What it is called in failures.
    const NAME: &'static str;

    /// The value, if it has the type.
    fn from_bson(value: Bson) -> Option<Self>;
}

macro_rules! kinds {
    ($($kind:ty, $name:literal, $pattern:pat => $value:expr;)*) => {
        $(impl Kind for $kind {
            const NAME: &'static str = $name;

            fn from_bson(value: Bson) -> Option<Self> {
                match value {
                    $pattern => $value,
                    #[allow(unreachable_patterns)]
                    _ => None,
                }
            }
        })*
    };
}

kinds! {
    Bson, "a value", value => Some(value);
    bool, "a bool", Bson::Boolean(value) => Some(value);
    String, "a text", Bson::String(value) => Some(value);
    Document, "an object", Bson::Document(value) => Some(value);
    i64, "a whole number", value => as_whole(&value);
    u64, "a number from 0", value => as_whole(&value).and_then(|number| u64::try_from(number).ok());
}

impl<T: Kind> Kind for Vec<T> {
    const NAME: &'static str = "an array";

    fn from_bson(value: Bson) -> Option<Self> {
        match value {
            Bson::Array(values) => values.into_iter().map(T::from_bson).collect(),
            _ => None,
        }
    }
}

fn as_whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        _ => None,
    }
}

impl Fields {
    /// The fields of an object; `owner` is what failures call it.
    pub fn new(owner: impl Into<String>, document: Document) -> Self {
        Self { owner: owner.into(), rest: document }
    }

    /// An object with exactly one field: its name and value.
    ///
    /// # Errors
    /// When there are more, or none.
    pub fn single(owner: &str, document: Document) -> Checked<(String, Bson)> {
        let mut fields = document.into_iter();
        match (fields.next(), fields.next()) {
            (Some(field), None) => Ok(field),
            _ => fail!("{owner}: not exactly one field"),
        }
    }

    /// A field that may be absent.
    ///
    /// # Errors
    /// When it has another type.
    pub fn optional<T: Kind>(&mut self, name: &str) -> Checked<Option<T>> {
        let Some(value) = self.rest.remove(name) else { return Ok(None) };
        let text = value.to_string();
        match T::from_bson(value) {
            Some(value) => Ok(Some(value)),
            None => fail!("{}: field '{name}' is not {}: {text}", self.owner, T::NAME),
        }
    }

    /// A field that must be there.
    ///
    /// # Errors
    /// When it is absent or has another type.
    pub fn required<T: Kind>(&mut self, name: &str) -> Checked<T> {
        let missing = || Failure::new(format!("{}: field '{name}' is missing", self.owner));
        let missing = missing();
        self.optional(name)?.ok_or(missing)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// When there are fields left.
    pub fn done(self) -> Checked {
        match self.rest.keys().next() {
            None => Ok(()),
            Some(name) => fail!("{}: unknown field '{name}'", self.owner),
        }
    }

    /// What has not been read, for those who know what to do with it.
    pub fn rest(self) -> Document {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn fields_are_read_strictly() {
        let mut fields = Fields::new("x", doc! {"a": 1, "b": ["c"], "d": true, "e": 1});
        assert_eq!(fields.required::<i64>("a"), Ok(1));
        assert_eq!(fields.optional::<Vec<String>>("b"), Ok(Some(vec!["c".to_owned()])));
        assert_eq!(fields.optional::<i64>("z"), Ok(None));
        assert_eq!(fields.required::<i64>("z").unwrap_err().to_string(), "x: field 'z' is missing");
        assert_eq!(fields.required::<i64>("d").unwrap_err().to_string(), "x: field 'd' is not a whole number: true");
        assert_eq!(fields.done().unwrap_err().to_string(), "x: unknown field 'e'");
    }
}
