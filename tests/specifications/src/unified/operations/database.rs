//! Operations on databases.

use backfire_driver::Database;
use bson::{Bson, Document};

use super::{Arguments, Executed, Outcome, cursor, names, nothing, unknown};
use crate::failure::{Checked, fail};

/// Executes the operation called `name`.
///
/// # Errors
/// When it is not known, or an argument of it.
pub async fn run(database: &Database, name: &str, mut arguments: Arguments) -> Checked<Executed> {
    match name {
        "runCommand" => {
            let command = command(&mut arguments)?;
            arguments.execute(database.run_command(command), |reply| Outcome::Value(Bson::Document(reply))).await
        }
        "runCursorCommand" => {
            let command = command(&mut arguments)?;
            arguments.collect(database.run_cursor_command(command)).await
        }
        "createCommandCursor" => {
            let command = command(&mut arguments)?;
            arguments.execute(database.run_cursor_command(command), cursor).await
        }
        "aggregate" => {
            let pipeline: Vec<Document> = arguments.fields.required("pipeline")?;
            arguments.collect(database.aggregate(pipeline)).await
        }
        "listCollections" => arguments.collect(database.list_collections()).await,
        "listCollectionNames" => arguments.execute(database.list_collection_names(), names).await,
        "createCollection" => {
            let collection: String = arguments.fields.required("collection")?;
            let made = Box::new(database.collection(collection.clone()));
            arguments.execute(database.create_collection(collection), |()| Outcome::Collection(made)).await
        }
        "modifyCollection" => {
            let collection: String = arguments.fields.required("collection")?;
            arguments.execute(database.modify_collection(collection), nothing).await
        }
        "dropCollection" => {
            let collection: String = arguments.fields.required("collection")?;
            arguments.execute(database.drop_collection(collection), nothing).await
        }
        _ => Err(unknown()),
    }
}

/// The command; its name is given once more, for languages that do not keep the order of fields.
fn command(arguments: &mut Arguments) -> Checked<Document> {
    let command: Document = arguments.fields.required("command")?;
    let name: Option<String> = arguments.fields.optional("commandName")?;
    match (name, command.keys().next()) {
        (Some(name), Some(first)) if name != *first => fail!("the command's first field is '{first}', not '{name}'"),
        _ => Ok(command),
    }
}
