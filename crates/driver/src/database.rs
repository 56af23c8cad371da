//! A database.

use std::fmt;
use std::time::Duration;

use bson::Document;

use backfire_model::Namespace;

use crate::collection::Collection;
use crate::execute::Scope;
use crate::operation::{
    Action, Aggregate, CreateCollection, DropCollection, DropDatabase, ListCollectionNames, ListCollections,
    ModifyCollection, RunCommand, RunCursorCommand, Watch,
};
use crate::settings::{ReadConcern, ReadPreference, WriteConcern};

/// A database and the defaults for what is done in it. Cheap to clone.
#[derive(Clone)]
pub struct Database {
    scope: Scope,
    name: String,
}

impl Database {
    pub(crate) fn new(scope: Scope, name: String) -> Self {
        Self { scope, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same database with another read concern.
    pub fn with_read_concern(mut self, read_concern: ReadConcern) -> Self {
        self.scope.read_concern = read_concern;
        self
    }

    /// The same database with another write concern.
    pub fn with_write_concern(mut self, write_concern: WriteConcern) -> Self {
        self.scope.write_concern = write_concern;
        self
    }

    /// The same database with another read preference.
    pub fn with_read_preference(mut self, read_preference: ReadPreference) -> Self {
        self.scope.read_preference = read_preference;
        self
    }

    /// The same database with another `timeoutMS`; zero is no limit.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.scope.timeout = Some(timeout);
        self
    }

    /// A collection. Nothing is sent.
    pub fn collection(&self, name: impl Into<String>) -> Collection {
        Collection::new(self.scope.clone(), self.namespace(name))
    }

    fn namespace(&self, collection: impl Into<String>) -> Namespace {
        Namespace::new(self.name.clone(), collection)
    }

    /// Runs a command as it is given.
    pub fn run_command(&self, command: Document) -> Action<RunCommand> {
        Action::new(self.scope.clone(), RunCommand { database: self.name.clone(), command })
    }

    /// Runs a command whose reply is a cursor.
    pub fn run_cursor_command(&self, command: Document) -> Action<RunCursorCommand> {
        Action::new(self.scope.clone(), RunCursorCommand { database: self.name.clone(), command })
    }

    /// Runs a pipeline that begins without a collection, such as `$currentOp`.
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Action<Aggregate> {
        let pipeline = pipeline.into_iter().collect();
        Action::new(self.scope.clone(), Aggregate { database: self.name.clone(), collection: None, pipeline })
    }

    /// A change stream over the database, without resuming.
    pub fn watch(&self, pipeline: impl IntoIterator<Item = Document>) -> Action<Watch> {
        let pipeline = pipeline.into_iter().collect();
        Action::new(self.scope.clone(), Watch::new(self.name.clone(), None, pipeline))
    }

    /// `listCollections`.
    pub fn list_collections(&self) -> Action<ListCollections> {
        Action::new(self.scope.clone(), ListCollections { database: self.name.clone() })
    }

    /// The names of the collections.
    pub fn list_collection_names(&self) -> Action<ListCollectionNames> {
        Action::new(self.scope.clone(), ListCollectionNames { database: self.name.clone() })
    }

    /// Creates a collection or view.
    pub fn create_collection(&self, name: impl Into<String>) -> Action<CreateCollection> {
        Action::new(self.scope.clone(), CreateCollection { namespace: self.namespace(name) })
    }

    /// Changes a collection's definition (`collMod`).
    pub fn modify_collection(&self, name: impl Into<String>) -> Action<ModifyCollection> {
        Action::new(self.scope.clone(), ModifyCollection { namespace: self.namespace(name) })
    }

    /// Drops a collection; one that does not exist is dropped already.
    pub fn drop_collection(&self, name: impl Into<String>) -> Action<DropCollection> {
        Action::new(self.scope.clone(), DropCollection { namespace: self.namespace(name) })
    }

    /// Drops the database.
    pub fn drop(&self) -> Action<DropDatabase> {
        Action::new(self.scope.clone(), DropDatabase { database: self.name.clone() })
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.name).finish()
    }
}
