//! How a test is run
//! (<https://github.com/mongodb/specifications/blob/master/source/unified-test-format/unified-test-format.md#executing-a-test>).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backfire_tests::Lab;
use bson::{Bson, Document, doc};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::client::ClientEntity;
use super::entities::{Entities, Entity};
use super::file::{CollectionData, Test, TestFile};
use super::matching::Matcher;
use super::operations;
use crate::failure::{Checked, Failure, Within, fail};
use crate::fields::Fields;

/// How long a test may take, on the paused clock.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs one test.
///
/// # Errors
/// When it does not pass.
pub async fn run(lab: &Arc<Lab>, file: &TestFile, test: &Test) -> Checked {
    for data in &file.initial_data {
        set_up(lab, data).await.within(|| format!("initial data of {}.{}", data.database, data.collection))?;
    }
    let context = Arc::new(Context::new(Arc::clone(lab)));
    let result = timeout(LIMIT, context.operate(file, test)).await.unwrap_or_else(|_| fail!("it does not end"));
    // Whatever came of it, the next test finds a clean server.
    let cleaned = context.clean_up().await;
    let result = result.and(cleaned);
    let result = match result {
        Ok(()) => context.judge(test).await,
        Err(failure) => Err(failure),
    };
    context.close().await;
    result
}

async fn set_up(lab: &Lab, data: &CollectionData) -> Checked {
    let CollectionData { database, collection, create_options, documents } = data;
    let majority = doc! {"w": "majority"};
    let reply = lab.run(database, doc! {"drop": collection, "writeConcern": &majority}).await;
    // 4.4 does not drop what does not exist.
    if reply.get_f64("ok").ok() != Some(1.0) && reply.get_i32("code").ok() != Some(26) {
        fail!("drop: {reply}");
    }
    if create_options.is_some() || documents.is_empty() {
        let mut command = doc! {"create": collection};
        command.extend(create_options.clone().unwrap_or_default());
        command.insert("writeConcern", &majority);
        run_command(lab, database, command).await?;
    }
    if !documents.is_empty() {
        let command = doc! {"insert": collection, "documents": documents.clone(), "writeConcern": majority};
        let reply = run_command(lab, database, command).await?;
        if reply.contains_key("writeErrors") {
            fail!("insert: {reply}");
        }
    }
    Ok(())
}

async fn run_command(lab: &Lab, database: &str, command: Document) -> Checked<Document> {
    let reply = lab.run(database, command.clone()).await;
    match reply.get_f64("ok") {
        Ok(1.0) => Ok(reply),
        _ => fail!("{command}: {reply}"),
    }
}

/// A test that runs.
pub struct Context {
    /// Its entities.
    pub entities: Entities,
    lab: Arc<Lab>,
    /// The names of the fail points that it has set.
    fail_points: Mutex<BTreeSet<String>>,
    clients: AtomicU64,
}

impl Context {
    fn new(lab: Arc<Lab>) -> Self {
        Self { entities: Entities::default(), lab, fail_points: Mutex::default(), clients: AtomicU64::new(0) }
    }

    /// Makes entities, in their order.
    ///
    /// # Errors
    /// When one of them is not known in all its parts.
    pub async fn create_entities(&self, entities: &[Document]) -> Checked {
        for entity in entities {
            let (kind, fields) = Fields::single("an entity", entity.clone())?;
            let Bson::Document(fields) = fields else { fail!("{kind}: {fields}") };
            let fields = Fields::new(&kind, fields);
            if kind == "client" {
                let seed = self.clients.fetch_add(1, Ordering::Relaxed);
                let (id, client) = ClientEntity::create(fields, &self.lab, seed).await?;
                self.entities.add(id, Entity::Client(Arc::new(client)))?;
            } else {
                self.entities.create(&kind, fields)?;
            }
        }
        Ok(())
    }

    /// Sets a fail point with a client of the test; it is turned off after the test.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn set_fail_point(&self, client: &str, command: Document) -> Checked {
        let client = self.entities.client(client)?;
        let name = command.get_str("configureFailPoint").map_err(Failure::new)?.to_owned();
        self.fail_points.lock().insert(name);
        client.client.database("admin").run_command(command).await.map_err(Failure::new)?;
        Ok(())
    }

    /// Runs a command that must succeed, without any client of the test.
    ///
    /// # Errors
    /// When it fails.
    pub async fn run(&self, database: &str, command: Document) -> Checked<Document> {
        run_command(&self.lab, database, command).await
    }

    /// The server's indexes of a collection; none when there is no such collection.
    ///
    /// # Errors
    /// When it cannot list them.
    pub async fn indexes(&self, database: &str, collection: &str) -> Checked<Option<Document>> {
        let reply = self.lab.run(database, doc! {"listIndexes": collection}).await;
        match (reply.get_f64("ok"), reply.get_i32("code")) {
            (Ok(1.0), _) => Ok(Some(reply)),
            (_, Ok(26)) => Ok(None),
            _ => fail!("listIndexes: {reply}"),
        }
    }

    async fn operate(self: &Arc<Self>, file: &TestFile, test: &Test) -> Checked {
        self.create_entities(&file.entities).await?;
        for (index, operation) in test.operations.iter().enumerate() {
            operations::execute(self, operation).await.within(|| format!("operation {index}"))?;
        }
        Ok(())
    }

    /// Ends listening and turns fail points off.
    async fn clean_up(&self) -> Checked {
        for entity in self.entities.all() {
            if let Entity::Client(client) = entity {
                client.recorder.stop();
            }
        }
        let fail_points = std::mem::take(&mut *self.fail_points.lock());
        for name in fail_points {
            self.run("admin", doc! {"configureFailPoint": name, "mode": "off"}).await?;
        }
        // A transaction that was left open would keep the next test from dropping its collections.
        self.run("admin", doc! {"killAllSessions": []}).await?;
        Ok(())
    }

    /// Compares events and data with what is expected.
    async fn judge(&self, test: &Test) -> Checked {
        let matcher = Matcher { entities: &self.entities };
        test.expect_events.iter().try_for_each(|expected| expected.check(&matcher))?;
        for data in &test.outcome {
            self.check_outcome(data).await.within(|| format!("outcome of {}.{}", data.database, data.collection))?;
        }
        Ok(())
    }

    async fn check_outcome(&self, data: &CollectionData) -> Checked {
        if data.create_options.is_some() {
            fail!("an outcome has no createOptions");
        }
        let batch_size = i64::try_from(data.documents.len() + 100).unwrap_or(i64::MAX);
        let command = doc! {
            "find": &data.collection,
            "sort": {"_id": 1},
            "batchSize": batch_size,
            "readConcern": {"level": "local"},
        };
        let reply = self.run(&data.database, command).await?;
        let found = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let found = found.map_err(Failure::new)?;
        let expected: Vec<_> = data.documents.iter().cloned().map(Bson::Document).collect();
        let same = found.len() == expected.len() && found.iter().zip(&expected).all(|(one, other)| same(one, other));
        if same { Ok(()) } else { fail!("{} instead of {}", Bson::Array(found.clone()), Bson::Array(expected)) }
    }

    /// Ends everything that the entities keep running.
    async fn close(&self) {
        let entities = self.entities.all();
        for entity in &entities {
            match entity {
                Entity::Cursor(cursor) => cursor.lock().await.close().await,
                Entity::Session(session) => session.end(),
                _ => {}
            }
        }
        for entity in &entities {
            if let Entity::Client(client) = entity {
                client.client.close().await;
            }
        }
    }
}

/// Whether two values are the same, but for the order of fields.
fn same(one: &Bson, other: &Bson) -> bool {
    match (one, other) {
        (Bson::Document(one), Bson::Document(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| same(value, other)))
        }
        (Bson::Array(one), Bson::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        _ => one == other,
    }
}
