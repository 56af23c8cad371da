//! Operations of the runner itself: fail points, threads, assertions.

use std::sync::Arc;
use std::time::Duration;

use backfire_driver::Event;
use backfire_driver::events::CommandEvent;
use bson::{Bson, Document, doc};

use super::execute_on_entity;
use crate::failure::{Checked, Failure, Within, fail};
use crate::fields::Fields;
use crate::unified::expect_events::ExpectedEvent;
use crate::unified::file::{Expectation, Operation};
use crate::unified::matching::Matcher;
use crate::unified::run::Context;

/// How long `waitForEvent` waits.
const LIMIT: Duration = Duration::from_secs(10);

/// Executes the operation.
///
/// # Errors
/// When it is not known, or an argument of it, or when what it asserts does not hold.
pub async fn run(context: &Arc<Context>, operation: &Operation) -> Checked {
    if !matches!(operation.expectation, Expectation::Success) || operation.save_as.is_some() {
        fail!("an operation of the runner has no result");
    }
    let mut fields = Fields::new("arguments", operation.arguments.clone());
    match operation.name.as_str() {
        "createEntities" => {
            let entities: Vec<Document> = fields.required("entities")?;
            fields.done()?;
            context.create_entities(&entities).await
        }
        "failPoint" => {
            let client: String = fields.required("client")?;
            let fail_point: Document = fields.required("failPoint")?;
            fields.done()?;
            context.set_fail_point(&client, fail_point).await
        }
        "runOnThread" => {
            let thread = context.entities.thread(&fields.required::<String>("thread")?)?;
            fields.done()?;
            let Some(inner) = operation.inner.clone() else { fail!("there is no operation to run") };
            let context = Arc::clone(context);
            thread.run(async move { execute_on_entity(&context.entities, &inner).await });
            Ok(())
        }
        "waitForThread" => {
            let thread = context.entities.thread(&fields.required::<String>("thread")?)?;
            fields.done()?;
            thread.join().await
        }
        "wait" => {
            let ms: u64 = fields.required("ms")?;
            fields.done()?;
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(())
        }
        "waitForEvent" => events(context, fields, true).await,
        "assertEventCount" => events(context, fields, false).await,
        "assertNumberConnectionsCheckedOut" => {
            let client = context.entities.client(&fields.required::<String>("client")?)?;
            let expected: i64 = fields.required("connections")?;
            fields.done()?;
            match client.recorder.checked_out() {
                found if found == expected => Ok(()),
                found => fail!("{found} connections are checked out instead of {expected}"),
            }
        }
        "assertSameLsidOnLastTwoCommands" => last_two_lsids(context, fields, true),
        "assertDifferentLsidOnLastTwoCommands" => last_two_lsids(context, fields, false),
        "assertSessionDirty" => is_dirty(context, fields, true),
        "assertSessionNotDirty" => is_dirty(context, fields, false),
        "assertSessionTransactionState" => {
            let session = context.entities.session(&fields.required::<String>("session")?)?;
            let expected: String = fields.required("state")?;
            fields.done()?;
            match session.session.transaction_state().name() {
                found if found == expected => Ok(()),
                found => fail!("the state of the transaction is {found}"),
            }
        }
        "assertCollectionExists" => collection_exists(context, fields, true).await,
        "assertCollectionNotExists" => collection_exists(context, fields, false).await,
        "assertIndexExists" => index_exists(context, fields, true).await,
        "assertIndexNotExists" => index_exists(context, fields, false).await,
        _ => fail!("there is no such operation"),
    }
}

/// Waits for at least so many events, or asserts that there are exactly so many.
async fn events(context: &Context, mut fields: Fields, wait: bool) -> Checked {
    let client = context.entities.client(&fields.required::<String>("client")?)?;
    let expected = ExpectedEvent::read(fields.required("event")?)?;
    let count = fields.required::<u64>("count")? as usize;
    fields.done()?;
    let matcher = Matcher { entities: &context.entities };
    let found = |events: &[Event]| events.iter().filter(|event| expected.check(event, &matcher).is_ok()).count();
    if wait {
        return client.recorder.wait_until(LIMIT, |events| found(events) >= count).await;
    }
    match found(&client.recorder.events()) {
        number if number == count => Ok(()),
        number => fail!("there are {number} such events instead of {count}"),
    }
}

fn last_two_lsids(context: &Context, mut fields: Fields, same: bool) -> Checked {
    let client = context.entities.client(&fields.required::<String>("client")?)?;
    fields.done()?;
    let lsid = |event: &Event| match event {
        Event::Command(CommandEvent::Started(event)) => Some(event.command.body().get("lsid").cloned()),
        _ => None,
    };
    let lsids: Vec<Option<Bson>> = client.recorder.events().iter().filter_map(lsid).collect();
    match lsids.as_slice() {
        [.., Some(one), Some(other)] if (one == other) == same => Ok(()),
        other => fail!("the lsids of the commands so far are {other:?}"),
    }
}

fn is_dirty(context: &Context, mut fields: Fields, expected: bool) -> Checked {
    let session = context.entities.session(&fields.required::<String>("session")?)?;
    fields.done()?;
    match session.session.is_dirty() {
        dirty if dirty == expected => Ok(()),
        dirty => fail!("the session's dirtiness is {dirty}"),
    }
}

async fn collection_exists(context: &Context, mut fields: Fields, expected: bool) -> Checked {
    let database: String = fields.required("databaseName")?;
    let collection: String = fields.required("collectionName")?;
    fields.done()?;
    let command = doc! {"listCollections": 1, "filter": {"name": &collection}};
    let reply = context.run(&database, command).await?;
    is_there(&first_batch(&reply)?, &collection, expected)
}

async fn index_exists(context: &Context, mut fields: Fields, expected: bool) -> Checked {
    let database: String = fields.required("databaseName")?;
    let collection: String = fields.required("collectionName")?;
    let index: String = fields.required("indexName")?;
    fields.done()?;
    let indexes = match context.indexes(&database, &collection).await? {
        Some(reply) => first_batch(&reply)?,
        None => Vec::new(),
    };
    is_there(&indexes, &index, expected)
}

fn first_batch(reply: &Document) -> Checked<Vec<Document>> {
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let batch = batch.map_err(Failure::new).within(|| reply.to_string())?;
    Ok(batch.iter().filter_map(Bson::as_document).cloned().collect())
}

fn is_there(entries: &[Document], name: &str, expected: bool) -> Checked {
    match entries.iter().any(|entry| entry.get_str("name").ok() == Some(name)) {
        found if found == expected => Ok(()),
        found => fail!("that it exists is {found}"),
    }
}
