//! A file of tests, as it is written down.

use bson::{Bson, Document};

use super::expect_error::ExpectedError;
use super::expect_events::ExpectedEvents;
use super::requirements::Requirement;
use crate::failure::{Checked, Failure, Within, fail};
use crate::fields::Fields;

/// The newest version of the format that this runner knows
/// (<https://github.com/mongodb/specifications/blob/master/source/unified-test-format/unified-test-format.md>).
const SCHEMA: (u64, u64) = (1, 26);

/// A file: tests and what they have in common.
#[derive(Debug)]
pub struct TestFile {
    /// Any of these must hold; none is no requirement.
    pub requirements: Vec<Requirement>,
    /// What is created before each test.
    pub entities: Vec<Document>,
    /// What is in the database before each test.
    pub initial_data: Vec<CollectionData>,
    /// The tests.
    pub tests: Vec<Test>,
}

/// A test.
#[derive(Debug)]
pub struct Test {
    /// What it is about.
    pub description: String,
    /// Any of these must hold as well; none is no requirement.
    pub requirements: Vec<Requirement>,
    /// Why the specification's authors do not want it to be run.
    pub skip_reason: Option<String>,
    /// What is done.
    pub operations: Vec<Operation>,
    /// What clients must have heard of.
    pub expect_events: Vec<ExpectedEvents>,
    /// What must be in the database in the end.
    pub outcome: Vec<CollectionData>,
}

/// The content of a collection.
#[derive(Debug)]
pub struct CollectionData {
    /// Its database.
    pub database: String,
    /// Its name.
    pub collection: String,
    /// Options for `create`.
    pub create_options: Option<Document>,
    /// Its documents.
    pub documents: Vec<Document>,
}

/// Something to do.
#[derive(Debug, Clone)]
pub struct Operation {
    /// What.
    pub name: String,
    /// With which entity, or `testRunner`.
    pub object: String,
    /// How.
    pub arguments: Document,
    /// The operation that `runOnThread` runs.
    pub inner: Option<Box<Operation>>,
    /// The operations that `withTransaction` runs.
    pub body: Vec<Operation>,
    /// What must come out.
    pub expectation: Expectation,
    /// The name under which the result is kept.
    pub save_as: Option<String>,
}

/// What must come out of an operation.
#[derive(Debug, Clone)]
pub enum Expectation {
    /// Whatever it is, it does not matter.
    Anything,
    /// No error.
    Success,
    /// No error, and this.
    Result(Bson),
    /// An error like this.
    Error(Box<ExpectedError>),
}

impl TestFile {
    /// Reads a file's text.
    ///
    /// # Errors
    /// When it is not in the format, or in a newer version of it.
    pub fn parse(text: &str) -> Checked<Self> {
        let json: serde_json::Value = serde_json::from_str(text).map_err(Failure::new)?;
        let Bson::Document(document) = Bson::try_from(json).map_err(Failure::new)? else { fail!("not an object") };
        let mut fields = Fields::new("file", document);
        fields.required::<String>("description")?;
        check_schema(&fields.required::<String>("schemaVersion")?)?;
        fields.optional::<Bson>("_yamlAnchors")?;
        let file = Self {
            requirements: Requirement::read_all(&mut fields)?,
            entities: fields.optional("createEntities")?.unwrap_or_default(),
            initial_data: CollectionData::read_all(&mut fields, "initialData")?,
            tests: fields.required::<Vec<_>>("tests")?.into_iter().map(Test::read).collect::<Checked<_>>()?,
        };
        fields.done()?;
        Ok(file)
    }
}

fn check_schema(version: &str) -> Checked {
    let mut parts = version.split('.').map(|part| part.parse::<u64>().ok());
    match (parts.next().flatten(), parts.next().unwrap_or(Some(0))) {
        (Some(major), Some(minor)) if major == SCHEMA.0 && minor <= SCHEMA.1 => Ok(()),
        _ => fail!("schema version {version} is not supported"),
    }
}

impl Test {
    fn read(document: Document) -> Checked<Self> {
        let mut fields = Fields::new("test", document);
        let description = fields.required::<String>("description")?;
        let rest = |fields: &mut Fields| -> Checked<Self> {
            Ok(Self {
                description: description.clone(),
                requirements: Requirement::read_all(fields)?,
                skip_reason: fields.optional("skipReason")?,
                operations: Operation::read_all(fields.required("operations")?)?,
                expect_events: ExpectedEvents::read_all(fields)?,
                outcome: CollectionData::read_all(fields, "outcome")?,
            })
        };
        let test = rest(&mut fields).within(|| description.clone())?;
        fields.done()?;
        Ok(test)
    }
}

impl CollectionData {
    fn read_all(fields: &mut Fields, name: &str) -> Checked<Vec<Self>> {
        let all: Option<Vec<Document>> = fields.optional(name)?;
        all.unwrap_or_default().into_iter().map(|one| Self::read(Fields::new(name, one))).collect()
    }

    fn read(mut fields: Fields) -> Checked<Self> {
        let data = Self {
            database: fields.required("databaseName")?,
            collection: fields.required("collectionName")?,
            create_options: fields.optional("createOptions")?,
            documents: fields.required("documents")?,
        };
        fields.done()?;
        Ok(data)
    }
}

impl Operation {
    fn read_all(documents: Vec<Document>) -> Checked<Vec<Self>> {
        documents.into_iter().map(Self::read).collect()
    }

    fn read(document: Document) -> Checked<Self> {
        let mut fields = Fields::new("operation", document);
        let name: String = fields.required("name")?;
        let object: String = fields.required("object")?;
        let mut arguments: Document = fields.optional("arguments")?.unwrap_or_default();
        let inner = match arguments.remove("operation") {
            Some(Bson::Document(operation)) if name == "runOnThread" => Some(Box::new(Self::read(operation)?)),
            Some(other) => fail!("operation {name}: {other} is not an operation within it"),
            None => None,
        };
        let body = match arguments.remove("callback") {
            Some(Bson::Array(operations)) if name == "withTransaction" => {
                let read = |operation: &Bson| match operation {
                    Bson::Document(operation) => Self::read(operation.clone()),
                    other => fail!("operation {name}: {other} is not an operation within it"),
                };
                operations.iter().map(read).collect::<Checked<_>>()?
            }
            Some(other) => fail!("operation {name}: {other} is not a list of operations within it"),
            None => Vec::new(),
        };
        let ignored: bool = fields.optional("ignoreResultAndError")?.unwrap_or(false);
        let result: Option<Bson> = fields.optional("expectResult")?;
        let error: Option<Document> = fields.optional("expectError")?;
        let expectation = match (ignored, result, error) {
            (true, None, None) => Expectation::Anything,
            (false, None, None) => Expectation::Success,
            (false, Some(result), None) => Expectation::Result(result),
            (false, None, Some(error)) => Expectation::Error(Box::new(ExpectedError::read(error)?)),
            _ => fail!("operation {name}: two of ignoreResultAndError, expectResult and expectError"),
        };
        let save_as: Option<String> = fields.optional("saveResultAsEntity")?;
        if save_as.is_some() && matches!(expectation, Expectation::Anything | Expectation::Error(_)) {
            fail!("operation {name}: saveResultAsEntity with ignoreResultAndError or expectError");
        }
        fields.done()?;
        Ok(Self { name, object, arguments, inner, body, expectation, save_as })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, failure: &str) {
        assert_eq!(TestFile::parse(text).expect_err(text).to_string(), failure);
    }

    #[test]
    fn files_are_read_strictly() {
        let file = |fields: &str| format!(r#"{{"description": "d", "schemaVersion": "1.26", {fields}}}"#);
        assert_eq!(TestFile::parse(&file(r#""tests": []"#)).expect("a good file").tests.len(), 0);
        check(&file(r#""tests": [], "more": 1"#), "file: unknown field 'more'");
        check(r#"{"description": "d", "schemaVersion": "1.27", "tests": []}"#, "schema version 1.27 is not supported");
        check(r#"{"description": "d", "schemaVersion": "2", "tests": []}"#, "schema version 2 is not supported");
        let test = |fields: &str| file(&format!(r#""tests": [{{"description": "t", {fields}}}]"#));
        check(&test(r#""operations": [], "more": 1"#), "test: unknown field 'more'");
        let operation = |fields: &str| test(&format!(r#""operations": [{{"name": "n", "object": "o", {fields}}}]"#));
        check(&operation(r#""more": 1"#), "t: operation: unknown field 'more'");
        check(&operation(r#""expectError": {"more": 1}"#), "t: expectError: unknown field 'more'");
        check(
            &operation(r#""expectError": {"isError": true}, "expectResult": 1"#),
            "t: operation n: two of ignoreResultAndError, expectResult and expectError",
        );
    }
}
