//! `listDatabases` and `listCollections`.

use bson::{Bson, Document, doc};

use crate::cursor::Cursor;
use crate::error::Result;
use crate::execute::Plan;
use crate::retry::Operation;
use crate::settings::ReadPreference;
use crate::topology::Criteria;

use super::aggregate::cursor_field;
use super::options::options;
use super::{Execute, Request, add_raw_data};

/// All databases. See [`crate::Client::list_databases`].
pub struct ListDatabases;

options!(ListDatabases: authorized, comment, filter, max_time);

impl Execute for ListDatabases {
    type Output = Vec<Document>;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        list_databases(false, request).await
    }
}

/// The names of all databases. See [`crate::Client::list_database_names`].
pub struct ListDatabaseNames;

options!(ListDatabaseNames: authorized, comment, filter, max_time);

impl Execute for ListDatabaseNames {
    type Output = Vec<String>;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        Ok(names(list_databases(true, request).await?))
    }
}

async fn list_databases(name_only: bool, mut request: Request) -> Result<Vec<Document>> {
    let mut call = request.start()?;
    let Request { options, .. } = request;
    let primary = Criteria::Read(ReadPreference::default());
    let plan = Plan::new(Operation::Read, "admin", primary, move |_| {
        let mut body = doc! {"listDatabases": 1};
        if name_only {
            body.insert("nameOnly", true);
        }
        options.copy_into(&mut body, &["filter", "authorizedDatabases", "comment"]);
        Ok(body)
    });
    let mut reply = plan.run(&mut call).await?;
    Ok(documents(reply.document.remove("databases")))
}

/// The collections of a database. See [`crate::Database::list_collections`].
pub struct ListCollections {
    pub(crate) database: String,
}

options!(ListCollections: authorized_collections, batch_size, comment, filter, max_time, raw_data, timeout_mode);

impl Execute for ListCollections {
    type Output = Cursor;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        list_collections(self.database, false, request).await
    }
}

/// The names of a database's collections. See [`crate::Database::list_collection_names`].
pub struct ListCollectionNames {
    pub(crate) database: String,
}

options!(ListCollectionNames: authorized_collections, batch_size, comment, filter, max_time, raw_data);

impl Execute for ListCollectionNames {
    type Output = Vec<String>;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        // A filter on something else than the name needs the rest of the entries.
        let by_name = request.options.document("filter").is_none_or(|filter| filter.keys().all(|key| key == "name"));
        Ok(names(list_collections(self.database, by_name, request).await?.collect().await?))
    }
}

async fn list_collections(database: String, name_only: bool, mut request: Request) -> Result<Cursor> {
    let (mut call, rules) = request.start_cursor(request.max_time())?;
    let Request { options, .. } = request;
    let primary = Criteria::Read(ReadPreference::default());
    let plan = Plan::new(Operation::Read, database, primary, move |wire_version| {
        let mut body = doc! {"listCollections": 1, "cursor": cursor_field(&options)};
        if name_only {
            body.insert("nameOnly", true);
        }
        options.copy_into(&mut body, &["filter", "authorizedCollections", "comment"]);
        add_raw_data(&options, wire_version, &mut body);
        Ok(body)
    });
    let reply = plan.run(&mut call).await?;
    Cursor::new(call, reply, rules)
}

fn documents(value: Option<Bson>) -> Vec<Document> {
    let Some(Bson::Array(values)) = value else { return Vec::new() };
    values
        .into_iter()
        .filter_map(|value| match value {
            Bson::Document(document) => Some(document),
            _ => None,
        })
        .collect()
}

/// The `name` of each entry.
pub(super) fn names(entries: Vec<Document>) -> Vec<String> {
    entries.iter().filter_map(|entry| entry.get_str("name").ok()).map(str::to_owned).collect()
}
