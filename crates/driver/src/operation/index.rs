//! Indexes: create, drop, list.

use bson::{Bson, Document, doc};

use backfire_model::Namespace;

use crate::cursor::Cursor;
use crate::error::{DriverError, Result};
use crate::execute::Plan;
use crate::retry::Operation;
use crate::settings::ReadPreference;
use crate::topology::Criteria;

use super::aggregate::cursor_field;
use super::count::is_missing_namespace;
use super::list::names;
use super::options::options;
use super::{Execute, Request, add_raw_data};

/// An index to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexModel {
    /// Fields and directions.
    pub keys: Document,
    /// `name`, `unique`, `expireAfterSeconds`, ... under the server's names; they are passed on as they are.
    pub options: Document,
}

impl IndexModel {
    /// An index without options.
    pub fn new(keys: Document) -> Self {
        Self { keys, options: Document::new() }
    }

    /// Its name: the given one, or the one made of fields and directions.
    pub fn name(&self) -> String {
        if let Ok(name) = self.options.get_str("name") {
            return name.to_owned();
        }
        let part = |(field, direction): (&String, &Bson)| match direction {
            Bson::String(kind) => format!("{field}_{kind}"),
            Bson::Double(number) => format!("{field}_{number}"),
            other => format!("{field}_{other}"),
        };
        self.keys.iter().map(part).collect::<Vec<_>>().join("_")
    }

    fn to_document(&self) -> Document {
        let mut document = doc! {"key": &self.keys, "name": self.name()};
        for (name, value) in self.options.iter().filter(|(name, _)| *name != "name") {
            document.insert(name, value);
        }
        document
    }
}

/// Creates one index. See [`crate::Collection::create_index`].
pub struct CreateIndex {
    pub(crate) namespace: Namespace,
    pub(crate) model: IndexModel,
}

options!(CreateIndex: comment, commit_quorum, max_time, raw_data);

impl Execute for CreateIndex {
    type Output = String;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let name = self.model.name();
        create(self.namespace, vec![self.model], request).await?;
        Ok(name)
    }
}

/// Creates indexes. See [`crate::Collection::create_indexes`].
pub struct CreateIndexes {
    pub(crate) namespace: Namespace,
    pub(crate) models: Vec<IndexModel>,
}

options!(CreateIndexes: comment, commit_quorum, max_time, raw_data);

impl Execute for CreateIndexes {
    type Output = Vec<String>;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        let names = self.models.iter().map(IndexModel::name).collect();
        create(self.namespace, self.models, request).await?;
        Ok(names)
    }
}

async fn create(namespace: Namespace, models: Vec<IndexModel>, mut request: Request) -> Result<()> {
    if models.is_empty() {
        return Err(DriverError::invalid_argument("there must be at least one index"));
    }
    let mut call = request.start()?;
    let write_concern = request.definition_write_concern();
    let Request { options, .. } = request;
    let Namespace { db, coll } = namespace;
    let indexes: Vec<_> = models.iter().map(IndexModel::to_document).collect();
    let plan = Plan::new(Operation::PlainWrite, db, Criteria::Writable, move |wire_version| {
        let mut body = doc! {"createIndexes": &coll, "indexes": indexes.clone()};
        options.copy_into(&mut body, &["commitQuorum", "comment"]);
        add_raw_data(&options, wire_version, &mut body);
        Ok(body)
    });
    plan.with_write_concern(write_concern).run(&mut call).await.map(drop)
}

/// Drops one index. See [`crate::Collection::drop_index`].
pub struct DropIndex {
    pub(crate) namespace: Namespace,
    /// A name, or the keys.
    pub(crate) index: Bson,
}

options!(DropIndex: comment, max_time, raw_data);

impl Execute for DropIndex {
    type Output = ();

    async fn execute(self, request: Request) -> Result<Self::Output> {
        drop_indexes(self.namespace, self.index, request).await
    }
}

/// Drops all indexes but the one on `_id`. See [`crate::Collection::drop_indexes`].
pub struct DropIndexes {
    pub(crate) namespace: Namespace,
}

options!(DropIndexes: comment, max_time, raw_data);

impl Execute for DropIndexes {
    type Output = ();

    async fn execute(self, request: Request) -> Result<Self::Output> {
        drop_indexes(self.namespace, Bson::String("*".into()), request).await
    }
}

async fn drop_indexes(namespace: Namespace, index: Bson, mut request: Request) -> Result<()> {
    let mut call = request.start()?;
    let write_concern = request.definition_write_concern();
    let Request { options, .. } = request;
    let Namespace { db, coll } = namespace;
    let plan = Plan::new(Operation::PlainWrite, db, Criteria::Writable, move |wire_version| {
        let mut body = doc! {"dropIndexes": &coll, "index": &index};
        options.copy_into(&mut body, &["comment"]);
        add_raw_data(&options, wire_version, &mut body);
        Ok(body)
    });
    match plan.with_write_concern(write_concern).run(&mut call).await {
        Err(error) if !is_missing_namespace(&error) => Err(error),
        _ => Ok(()),
    }
}

/// The indexes of a collection. See [`crate::Collection::list_indexes`].
pub struct ListIndexes {
    pub(crate) namespace: Namespace,
}

options!(ListIndexes: batch_size, comment, max_time, raw_data, timeout_mode);

impl Execute for ListIndexes {
    type Output = Cursor;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        list(self.namespace, request).await
    }
}

/// The names of a collection's indexes. See [`crate::Collection::list_index_names`].
pub struct ListIndexNames {
    pub(crate) namespace: Namespace,
}

options!(ListIndexNames: batch_size, comment, max_time, raw_data);

impl Execute for ListIndexNames {
    type Output = Vec<String>;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        Ok(names(list(self.namespace, request).await?.collect().await?))
    }
}

async fn list(namespace: Namespace, mut request: Request) -> Result<Cursor> {
    let (mut call, rules) = request.start_cursor(request.max_time())?;
    let Request { options, .. } = request;
    let Namespace { db, coll } = namespace;
    let primary = Criteria::Read(ReadPreference::default());
    let plan = Plan::new(Operation::Read, db, primary, move |wire_version| {
        let mut body = doc! {"listIndexes": &coll, "cursor": cursor_field(&options)};
        options.copy_into(&mut body, &["comment"]);
        add_raw_data(&options, wire_version, &mut body);
        Ok(body)
    });
    match plan.run(&mut call).await {
        Ok(reply) => Cursor::new(call, reply, rules),
        // A collection that does not exist has no indexes.
        Err(error) if is_missing_namespace(&error) => match error.server().cloned() {
            Some(server) => Ok(Cursor::empty(server, rules)),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_names_are_made_of_fields_and_directions() {
        for (keys, name) in [
            (doc! {"a": 1}, "a_1"),
            (doc! {"a": 1, "b": -1}, "a_1_b_-1"),
            (doc! {"a": "text"}, "a_text"),
            (doc! {"a": 1.0}, "a_1"),
        ] {
            assert_eq!(IndexModel::new(keys).name(), name);
        }
        let named = IndexModel { options: doc! {"name": "n", "unique": true}, ..IndexModel::new(doc! {"a": 1}) };
        assert_eq!(named.to_document(), doc! {"key": {"a": 1}, "name": "n", "unique": true});
    }
}
