//! What can be done with entities: one file for each kind.

mod client;
mod collection;
mod cursor;
mod database;
mod session;
mod test_runner;
mod write_model;

use std::sync::Arc;

use backfire_driver::operation::{Action, Execute};
use backfire_driver::{ClientSession, Collection, Cursor, DriverError};
use bson::{Bson, Document};
use futures_util::future::BoxFuture;

use super::entities::{Entities, Entity};
use super::file::{Expectation, Operation};
use super::matching::Matcher;
use super::run::Context;
use crate::failure::{Checked, Failure, Within, fail};
use crate::fields::Fields;

/// What an operation gave.
pub enum Outcome {
    /// It has no result.
    Nothing,
    /// A value; a document may have more fields than expected.
    Value(Bson),
    /// What a cursor gave, to its end; each document may have more fields than expected.
    Documents(Vec<Document>),
    /// A cursor to be kept.
    Cursor(Box<Cursor>),
    /// A collection to be kept.
    Collection(Box<Collection>),
}

/// What came of an operation. The error is the driver's; what is wrong with the test itself is a [`Failure`] around it.
pub type Executed = Result<Outcome, DriverError>;

/// Executes an operation and compares what comes of it with what is expected.
///
/// # Errors
/// When it cannot be executed, or something else comes of it.
pub async fn execute(context: &Arc<Context>, operation: &Operation) -> Checked {
    let result = match operation.object.as_str() {
        "testRunner" => test_runner::run(context, operation).await,
        _ => execute_on_entity(&context.entities, operation).await,
    };
    result.within(|| format!("{} on {}", operation.name, operation.object))
}

async fn execute_on_entity(entities: &Entities, operation: &Operation) -> Checked {
    execute_and_tell(entities, operation).await.map(drop)
}

/// The same, and tells of the driver's error that was expected.
fn execute_and_tell<'a>(
    entities: &'a Entities,
    operation: &'a Operation,
) -> BoxFuture<'a, Checked<Option<DriverError>>> {
    Box::pin(async move {
        let executed = execute_with_driver(entities, operation).await?;
        let error = executed.as_ref().err().cloned();
        judge(entities, operation, executed)?;
        Ok(error)
    })
}

async fn execute_with_driver(entities: &Entities, operation: &Operation) -> Checked<Executed> {
    let name = operation.name.as_str();
    let arguments = Arguments::new(operation, entities)?;
    match entities.get(&operation.object)? {
        Entity::Client(client) => client::run(&client.client, name, arguments).await,
        Entity::Database(database) => database::run(&database, name, arguments).await,
        Entity::Collection(collection) => collection::run(&collection, name, arguments).await,
        Entity::Session(session) => session::run(&session, operation, arguments, entities).await,
        Entity::Cursor(cursor) => cursor::run(&mut *cursor.lock().await, name, arguments).await,
        Entity::Thread(_) | Entity::Value(_) | Entity::Bucket => Err(unknown()),
    }
}

fn judge(entities: &Entities, operation: &Operation, executed: Executed) -> Checked {
    let matcher = Matcher { entities };
    match (&operation.expectation, executed) {
        (Expectation::Anything, _) => Ok(()),
        (Expectation::Error(expected), Err(error)) => expected.check(&error, &matcher),
        (Expectation::Error(_), Ok(_)) => fail!("succeeded, but an error is expected"),
        (Expectation::Success | Expectation::Result(_), Err(error)) => fail!("failed: {error:?}"),
        (expectation, Ok(outcome)) => {
            if let Expectation::Result(expected) = expectation {
                check_result(expected, &outcome, &matcher).within(|| "result".into())?;
            }
            match &operation.save_as {
                Some(id) => save(entities, id.clone(), outcome),
                None => Ok(()),
            }
        }
    }
}

fn check_result(expected: &Bson, outcome: &Outcome, matcher: &Matcher<'_>) -> Checked {
    match outcome {
        Outcome::Nothing => matcher.root(expected, None),
        Outcome::Value(value) => matcher.root(expected, Some(value)),
        Outcome::Documents(documents) => matcher.roots(expected, documents),
        Outcome::Cursor(_) => fail!("a cursor is no value"),
        Outcome::Collection(_) => fail!("a collection is no value"),
    }
}

fn save(entities: &Entities, id: String, outcome: Outcome) -> Checked {
    let entity = match outcome {
        Outcome::Nothing => fail!("there is no result to be kept as '{id}'"),
        Outcome::Value(value) => Entity::Value(value),
        Outcome::Documents(documents) => Entity::Value(documents.into()),
        Outcome::Cursor(cursor) => Entity::Cursor(Arc::new((*cursor).into())),
        Outcome::Collection(collection) => Entity::Collection(*collection),
    };
    entities.add(id, entity)
}

/// The failure of a test that wants something unheard of.
fn unknown() -> Failure {
    Failure::new("there is no such operation")
}

/// An operation's arguments, with the session among them found already.
pub struct Arguments {
    fields: Fields,
    session: Option<ClientSession>,
}

impl Arguments {
    fn new(operation: &Operation, entities: &Entities) -> Checked<Self> {
        let mut fields = Fields::new("arguments", operation.arguments.clone());
        let session: Option<String> = fields.optional("session")?;
        Ok(Self { fields, session: session.map(|id| entities.session(&id)).transpose()?.map(|entity| entity.session) })
    }

    /// The arguments of an operation that takes no session.
    fn without_session(self) -> Checked<Fields> {
        match self.session {
            None => Ok(self.fields),
            Some(_) => fail!("the operation takes no session"),
        }
    }

    /// Sets everything that is left as options of the driver's operation, executes it, and makes a result of what it
    /// gives. An option that the operation does not take is the test's failure, not an error of the operation.
    async fn execute<O: Execute>(
        self,
        mut action: Action<O>,
        outcome: impl FnOnce(O::Output) -> Outcome,
    ) -> Checked<Executed> {
        if let Some(session) = &self.session {
            action = action.session(session);
        }
        for (name, value) in self.fields.rest() {
            action = action.option(&name, value).map_err(Failure::new)?;
        }
        Ok(action.await.map(outcome))
    }

    /// As [`Arguments::execute`], for what gives a cursor: it is read to its end.
    async fn collect<O: Execute<Output = Cursor>>(self, action: Action<O>) -> Checked<Executed> {
        match self.execute(action, |cursor| Outcome::Cursor(Box::new(cursor))).await? {
            Ok(Outcome::Cursor(cursor)) => Ok(cursor.collect().await.map(Outcome::Documents)),
            other => Ok(other),
        }
    }
}

fn nothing((): ()) -> Outcome {
    Outcome::Nothing
}

fn documents(documents: Vec<Document>) -> Outcome {
    Outcome::Documents(documents)
}

fn names(names: Vec<String>) -> Outcome {
    Outcome::Value(names.into())
}

fn text(text: String) -> Outcome {
    Outcome::Value(text.into())
}

fn number(number: u64) -> Outcome {
    Outcome::Value(Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX)))
}

fn document_or_null(document: Option<Document>) -> Outcome {
    Outcome::Value(document.map_or(Bson::Null, Bson::Document))
}

fn cursor(cursor: Cursor) -> Outcome {
    Outcome::Cursor(Box::new(cursor))
}
