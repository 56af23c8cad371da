//! What an error must be like: `expectError`.

use backfire_driver::error::WriteFailure;
use backfire_driver::{ClientBulkWriteFailure, DriverError, ErrorKind};
use bson::{Bson, Document, doc};

use super::matching::Matcher;
use super::results;
use crate::failure::{Checked, Failure, Within, fail};
use crate::fields::Fields;

/// Assertions about an error.
#[derive(Debug, Clone, Default)]
pub struct ExpectedError {
    is_client_error: Option<bool>,
    is_timeout_error: Option<bool>,
    contains: Option<String>,
    code: Option<i64>,
    code_name: Option<String>,
    labels_contain: Vec<String>,
    labels_omit: Vec<String>,
    write_errors: Option<Document>,
    write_concern_errors: Option<Vec<Document>>,
    response: Option<Document>,
    result: Option<Bson>,
}

impl ExpectedError {
    /// Reads the object.
    ///
    /// # Errors
    /// When there is something in it that is not known.
    pub fn read(document: Document) -> Checked<Self> {
        let mut fields = Fields::new("expectError", document);
        let is_error: Option<bool> = fields.optional("isError")?;
        if is_error == Some(false) {
            fail!("expectError: isError must not be false");
        }
        let expected = Self {
            is_client_error: fields.optional("isClientError")?,
            is_timeout_error: fields.optional("isTimeoutError")?,
            contains: fields.optional("errorContains")?,
            code: fields.optional("errorCode")?,
            code_name: fields.optional("errorCodeName")?,
            labels_contain: fields.optional("errorLabelsContain")?.unwrap_or_default(),
            labels_omit: fields.optional("errorLabelsOmit")?.unwrap_or_default(),
            write_errors: fields.optional("writeErrors")?,
            write_concern_errors: fields.optional("writeConcernErrors")?,
            response: fields.optional("errorResponse")?,
            result: fields.optional("expectResult")?,
        };
        fields.done()?;
        Ok(expected)
    }

    /// Compares an error with all assertions.
    ///
    /// # Errors
    /// When one does not hold.
    pub fn check(&self, error: &DriverError, matcher: &Matcher<'_>) -> Checked {
        self.check_all(error, matcher).within(|| format!("the error is not as expected ({error:?})"))
    }

    fn check_all(&self, error: &DriverError, matcher: &Matcher<'_>) -> Checked {
        let flag = |what: &str, expected: Option<bool>, found: bool| match expected {
            Some(expected) if expected != found => Err(Failure::new(format!("{what} is {found}"))),
            _ => Ok(()),
        };
        flag("isClientError", self.is_client_error, error.is_client_side())?;
        flag("isTimeoutError", self.is_timeout_error, error.is_operation_timeout())?;
        if let Some(part) = &self.contains
            && !error.to_string().to_lowercase().contains(&part.to_lowercase())
        {
            fail!("its text does not contain '{part}'");
        }
        if let Some(code) = self.code
            && error.code().map(i64::from) != Some(code)
        {
            fail!("its code is {:?} instead of {code}", error.code());
        }
        if let Some(name) = &self.code_name
            && !code_names(error).iter().any(|found| found.eq_ignore_ascii_case(name))
        {
            fail!("its code names are {:?} instead of {name}", code_names(error));
        }
        if let Some(label) = self.labels_contain.iter().find(|label| !error.has_label(label)) {
            fail!("it does not have the label {label}");
        }
        if let Some(label) = self.labels_omit.iter().find(|label| error.has_label(label)) {
            fail!("it has the label {label}");
        }
        self.check_client_bulk_write(error, matcher)?;
        if let Some(expected) = &self.response {
            let found = error.response().cloned().map(Bson::Document);
            matcher.root(&Bson::Document(expected.clone()), found.as_ref()).within(|| "errorResponse".into())?;
        }
        if let Some(expected) = &self.result {
            matcher.root(expected, partial_result(error).as_ref()).within(|| "its result".into())?;
        }
        Ok(())
    }

    fn check_client_bulk_write(&self, error: &DriverError, matcher: &Matcher<'_>) -> Checked {
        if self.write_errors.is_none() && self.write_concern_errors.is_none() {
            return Ok(());
        }
        let Some(failure) = client_bulk_write(error) else { fail!("it is not the error of a client bulk write") };
        if let Some(expected) = &self.write_errors {
            let found: Document =
                failure.write_errors.iter().map(|(index, error)| (index.to_string(), as_document(error))).collect();
            if expected.len() != found.len() {
                fail!("writeErrors are {found}");
            }
            for (index, expected) in expected {
                matcher.root(expected, found.get(index)).within(|| format!("write error {index}"))?;
            }
        }
        if let Some(expected) = &self.write_concern_errors {
            let found: Vec<_> = failure
                .write_concern_errors
                .iter()
                .map(|error| Bson::Document(doc! {"code": error.code, "message": &error.message}))
                .collect();
            if expected.len() != found.len() {
                fail!("writeConcernErrors are {found:?}");
            }
            for (expected, found) in expected.iter().zip(&found) {
                let expected = Bson::Document(expected.clone());
                matcher.root(&expected, Some(found)).within(|| "a write concern error".into())?;
            }
        }
        Ok(())
    }
}

fn as_document(error: &WriteFailure) -> Bson {
    let mut document = doc! {"code": error.code, "message": &error.message};
    if let Some(details) = &error.details {
        document.insert("details", details);
    }
    Bson::Document(document)
}

/// The names of all errors that a bulk gathers; of a single one its name. Write errors come without their names.
fn code_names(error: &DriverError) -> Vec<String> {
    match error.kind() {
        ErrorKind::BulkWrite(failure) => {
            failure.write_concern_errors.iter().map(|error| error.code_name.clone()).collect()
        }
        _ => error.code_name().map(str::to_owned).into_iter().collect(),
    }
}

fn client_bulk_write(error: &DriverError) -> Option<&ClientBulkWriteFailure> {
    match error.kind() {
        ErrorKind::ClientBulkWrite(failure) => Some(failure),
        // The end of `timeoutMS` is put around it.
        _ => error.cause().and_then(client_bulk_write),
    }
}

fn partial_result(error: &DriverError) -> Option<Bson> {
    match client_bulk_write(error) {
        Some(failure) => failure.partial_result.as_ref().map(results::client_bulk_write),
        None => error.bulk_result().map(results::bulk_write),
    }
}
