//! A collection.

use std::fmt;
use std::time::Duration;

use bson::{Bson, Document};

use backfire_model::Namespace;

use crate::bulk::Update;
use crate::execute::Scope;
use crate::operation::{
    Action, Aggregate, BulkWrite, BulkWriteModel, Count, CountDocuments, CreateIndex, CreateIndexes, DeleteMany,
    DeleteOne, Distinct, DropCollection, DropIndex, DropIndexes, EstimatedDocumentCount, Find, FindOne,
    FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate, IndexModel, InsertMany, InsertOne, ListIndexNames,
    ListIndexes, RenameCollection, ReplaceOne, UpdateMany, UpdateOne, Watch,
};
use crate::settings::{ReadConcern, ReadPreference, WriteConcern};

/// A collection and the defaults for what is done in it. Cheap to clone.
#[derive(Clone)]
pub struct Collection {
    scope: Scope,
    namespace: Namespace,
}

impl Collection {
    pub(crate) fn new(scope: Scope, namespace: Namespace) -> Self {
        Self { scope, namespace }
    }

    /// Database and name.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The same collection with another read concern.
    pub fn with_read_concern(mut self, read_concern: ReadConcern) -> Self {
        self.scope.read_concern = read_concern;
        self
    }

    /// The same collection with another write concern.
    pub fn with_write_concern(mut self, write_concern: WriteConcern) -> Self {
        self.scope.write_concern = write_concern;
        self
    }

    /// The same collection with another read preference.
    pub fn with_read_preference(mut self, read_preference: ReadPreference) -> Self {
        self.scope.read_preference = read_preference;
        self
    }

    /// The same collection with another `timeoutMS`; zero is no limit.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.scope.timeout = Some(timeout);
        self
    }

    fn action<O>(&self, make: impl FnOnce(Namespace) -> O) -> Action<O> {
        Action::new(self.scope.clone(), make(self.namespace.clone()))
    }

    /// Inserts a document; it gets an `_id` if it has none.
    pub fn insert_one(&self, document: Document) -> Action<InsertOne> {
        self.action(|namespace| InsertOne { namespace, document })
    }

    /// Inserts documents; each gets an `_id` if it has none.
    pub fn insert_many(&self, documents: impl IntoIterator<Item = Document>) -> Action<InsertMany> {
        let documents = documents.into_iter().collect();
        self.action(|namespace| InsertMany { namespace, documents })
    }

    /// Updates the first matching document.
    pub fn update_one(&self, filter: Document, update: impl Into<Update>) -> Action<UpdateOne> {
        self.action(|namespace| UpdateOne { namespace, filter, update: update.into() })
    }

    /// Updates all matching documents. The driver never resends this.
    pub fn update_many(&self, filter: Document, update: impl Into<Update>) -> Action<UpdateMany> {
        self.action(|namespace| UpdateMany { namespace, filter, update: update.into() })
    }

    /// Replaces the first matching document.
    pub fn replace_one(&self, filter: Document, replacement: Document) -> Action<ReplaceOne> {
        self.action(|namespace| ReplaceOne { namespace, filter, replacement })
    }

    /// Deletes the first matching document.
    pub fn delete_one(&self, filter: Document) -> Action<DeleteOne> {
        self.action(|namespace| DeleteOne { namespace, filter })
    }

    /// Deletes all matching documents. The driver never resends this.
    pub fn delete_many(&self, filter: Document) -> Action<DeleteMany> {
        self.action(|namespace| DeleteMany { namespace, filter })
    }

    /// Executes a list of writes, with one command for each run (ordered) or kind (unordered) of them.
    pub fn bulk_write(&self, models: impl IntoIterator<Item = BulkWriteModel>) -> Action<BulkWrite> {
        let models = models.into_iter().collect();
        self.action(|namespace| BulkWrite { namespace, models })
    }

    /// Updates a document and returns it.
    pub fn find_one_and_update(&self, filter: Document, update: impl Into<Update>) -> Action<FindOneAndUpdate> {
        self.action(|namespace| FindOneAndUpdate { namespace, filter, update: update.into() })
    }

    /// Replaces a document and returns it.
    pub fn find_one_and_replace(&self, filter: Document, replacement: Document) -> Action<FindOneAndReplace> {
        self.action(|namespace| FindOneAndReplace { namespace, filter, replacement })
    }

    /// Deletes a document and returns it.
    pub fn find_one_and_delete(&self, filter: Document) -> Action<FindOneAndDelete> {
        self.action(|namespace| FindOneAndDelete { namespace, filter })
    }

    /// Finds documents.
    pub fn find(&self, filter: Document) -> Action<Find> {
        self.action(|namespace| Find { namespace, filter })
    }

    /// Finds one document.
    pub fn find_one(&self, filter: Document) -> Action<FindOne> {
        self.action(|namespace| FindOne { namespace, filter })
    }

    /// Runs a pipeline. One that ends in `$out` or `$merge` is a write and gives no documents.
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Action<Aggregate> {
        let pipeline = pipeline.into_iter().collect();
        self.action(|Namespace { db, coll }| Aggregate { database: db, collection: Some(coll), pipeline })
    }

    /// A change stream over the collection, without resuming.
    pub fn watch(&self, pipeline: impl IntoIterator<Item = Document>) -> Action<Watch> {
        let pipeline = pipeline.into_iter().collect();
        self.action(|Namespace { db, coll }| Watch::new(db, Some(coll), pipeline))
    }

    /// Counts matching documents exactly.
    pub fn count_documents(&self, filter: Document) -> Action<CountDocuments> {
        self.action(|namespace| CountDocuments { namespace, filter })
    }

    /// Counts all documents from metadata.
    pub fn estimated_document_count(&self) -> Action<EstimatedDocumentCount> {
        self.action(|namespace| EstimatedDocumentCount { namespace })
    }

    /// The old `count` command, with a filter.
    pub fn count(&self, filter: Document) -> Action<Count> {
        self.action(|namespace| Count { namespace, filter })
    }

    /// The different values of a field.
    pub fn distinct(&self, field: impl Into<String>, filter: Document) -> Action<Distinct> {
        self.action(|namespace| Distinct { namespace, field: field.into(), filter })
    }

    /// Creates an index; gives its name.
    pub fn create_index(&self, model: IndexModel) -> Action<CreateIndex> {
        self.action(|namespace| CreateIndex { namespace, model })
    }

    /// Creates indexes; gives their names.
    pub fn create_indexes(&self, models: impl IntoIterator<Item = IndexModel>) -> Action<CreateIndexes> {
        let models = models.into_iter().collect();
        self.action(|namespace| CreateIndexes { namespace, models })
    }

    /// Drops an index, by name or keys.
    pub fn drop_index(&self, index: impl Into<Bson>) -> Action<DropIndex> {
        self.action(|namespace| DropIndex { namespace, index: index.into() })
    }

    /// Drops all indexes but the one on `_id`.
    pub fn drop_indexes(&self) -> Action<DropIndexes> {
        self.action(|namespace| DropIndexes { namespace })
    }

    /// The indexes.
    pub fn list_indexes(&self) -> Action<ListIndexes> {
        self.action(|namespace| ListIndexes { namespace })
    }

    /// The names of the indexes.
    pub fn list_index_names(&self) -> Action<ListIndexNames> {
        self.action(|namespace| ListIndexNames { namespace })
    }

    /// Drops the collection; one that does not exist is dropped already.
    pub fn drop(&self) -> Action<DropCollection> {
        self.action(|namespace| DropCollection { namespace })
    }

    /// Renames the collection.
    pub fn rename(&self, to: Namespace) -> Action<RenameCollection> {
        self.action(|from| RenameCollection { from, to })
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Collection").field(&self.namespace).finish()
    }
}
