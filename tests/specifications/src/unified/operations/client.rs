//! Operations on clients.

use backfire_driver::Client;
use bson::Document;

use super::{Arguments, Executed, Outcome, documents, names, unknown, write_model};
use crate::failure::Checked;
use crate::unified::results;

/// Executes the operation called `name`.
///
/// # Errors
/// When it is not known, or an argument of it.
pub async fn run(client: &Client, name: &str, mut arguments: Arguments) -> Checked<Executed> {
    match name {
        "listDatabases" => arguments.execute(client.list_databases(), documents).await,
        "listDatabaseNames" => arguments.execute(client.list_database_names(), names).await,
        "clientBulkWrite" => {
            let models: Vec<Document> = arguments.fields.required("models")?;
            let models: Vec<_> = models.into_iter().map(write_model::namespaced).collect::<Checked<_>>()?;
            let value = |result| Outcome::Value(results::client_bulk_write(&result));
            arguments.execute(client.bulk_write(models), value).await
        }
        "close" => {
            arguments.without_session()?.done()?;
            client.close().await;
            Ok(Ok(Outcome::Nothing))
        }
        _ => Err(unknown()),
    }
}
