//! What a scenario writes, before it is about time: the documents that are there before, and whether the write works at all.

use std::sync::Arc;

use backfire_driver::{Client, DriverError};
use backfire_model::Execution;
use backfire_model::scenario::Scenario;
use bson::{Document, doc};

use crate::application::{THE_RECORD, Write};
use crate::documents::document;
use crate::rehearse::RehearsalError;

/// The documents that are there before.
///
/// # Errors
/// What the server says.
pub(crate) async fn seed(scenario: &Scenario, control: &Client) -> Result<(), DriverError> {
    let namespace = scenario.namespace();
    let database = control.database(&namespace.db);
    let seed: Vec<Document> =
        scenario.workload.seed.iter().map(|table| document(table, THE_RECORD, Execution(0))).collect();
    if seed.is_empty() {
        // The collection exists before the first write, so that every write meets the same locks.
        database.create_collection(&namespace.coll).await
    } else {
        database.collection(&namespace.coll).insert_many(seed).await.map(drop)
    }
}

/// Runs the write once while nothing stalls, and takes back what it wrote: one that the server refuses anyway shows
/// nothing about stalls.
///
/// # Errors
/// The server's refusal of the write.
pub(crate) async fn try_write(scenario: &Arc<Scenario>, control: &Client) -> Result<(), RehearsalError> {
    seed(scenario, control).await?;
    let write = Write::new(Arc::clone(scenario), control, None, None);
    write.execute(THE_RECORD, Execution(1)).await.map_err(RehearsalError::Write)?;
    let namespace = scenario.namespace();
    control.database(&namespace.db).run_command(doc! { "drop": &namespace.coll }).await?;
    Ok(())
}
