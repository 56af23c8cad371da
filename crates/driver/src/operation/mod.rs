//! The operations: one file per family. Each builds its command and reads its reply; everything between is
//! the executor's.

mod aggregate;
mod bulk_write;
mod client_bulk_write;
mod collection_admin;
mod count;
mod delete;
mod distinct;
mod find;
mod find_and_modify;
mod index;
mod insert;
mod list;
pub(crate) mod options;
mod run_command;
mod update;
mod watch;

use std::future::IntoFuture;
use std::time::Duration;

use bson::Bson;
use futures_util::future::BoxFuture;

use crate::cursor::CursorRules;
use crate::error::{DriverError, Result};
use crate::execute::{Call, Scope};
use crate::session::ClientSession;
use crate::settings::{ReadPreference, WriteConcern};
use crate::timeout::MaxTime;
pub use aggregate::Aggregate;
pub use bulk_write::BulkWrite;
pub use client_bulk_write::{ClientBulkWrite, Namespaced};
pub use collection_admin::{CreateCollection, DropCollection, DropDatabase, ModifyCollection, RenameCollection};
pub use count::{Count, CountDocuments, EstimatedDocumentCount};
pub use delete::{DeleteMany, DeleteOne, DeleteResult};
pub use distinct::Distinct;
pub use find::{Find, FindOne};
pub use find_and_modify::{FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate};
pub use index::{CreateIndex, CreateIndexes, DropIndex, DropIndexes, IndexModel, ListIndexNames, ListIndexes};
pub use insert::{InsertMany, InsertManyResult, InsertOne, InsertOneResult};
pub use list::{ListCollectionNames, ListCollections, ListDatabaseNames, ListDatabases};
use options::{OptionRow, Options};
pub use run_command::{RunCommand, RunCursorCommand};
pub use update::{ReplaceOne, UpdateMany, UpdateOne, UpdateResult};
pub use watch::Watch;

pub use crate::bulk::model::BulkWriteModel;

/// An operation that is about to be executed: set its options, then `.await` it. Nothing is sent before that.
#[must_use = "an operation does nothing until it is awaited"]
pub struct Action<O> {
    operation: O,
    request: Request,
}

/// The options that an operation takes.
pub trait HasOptions {
    /// Those options.
    const OPTIONS: &'static [&'static OptionRow];
}

/// What can be executed.
pub trait Execute: HasOptions + Sized + Send + 'static {
    /// What comes out.
    type Output: Send;

    /// Executes it. Called by awaiting an [`Action`].
    fn execute(self, request: Request) -> impl Future<Output = Result<Self::Output>> + Send;
}

/// What an operation is executed with: its surroundings and the options that were set.
pub struct Request {
    pub(crate) scope: Scope,
    pub(crate) options: Options,
    session: Option<ClientSession>,
}

impl Request {
    pub(crate) fn new(scope: Scope) -> Self {
        Self { scope, options: Options::default(), session: None }
    }

    /// Starts the operation's clock. Options that replace a default of the scope are applied first.
    pub(crate) fn start(&mut self) -> Result<Call> {
        self.check_timeout()?;
        self.apply_options()?;
        Call::new(&self.scope, self.session.clone(), MaxTime::Operation(self.max_time()))
    }

    /// Starts an operation that makes a cursor; `max_time` is what its command carries if nothing else is to be sent.
    pub(crate) fn start_cursor(&mut self, max_time: Option<Duration>) -> Result<(Call, CursorRules)> {
        self.check_timeout()?;
        self.apply_options()?;
        let timeout = self.scope.timeout;
        let rules = CursorRules::new(&self.options, timeout)?;
        let call = Call::new(&self.scope, self.session.clone(), rules.first_max_time(timeout, max_time))?;
        Ok((call, rules))
    }

    /// Refuses a `timeoutMS` of its own within `with_transaction`, which has one for all of it.
    fn check_timeout(&self) -> Result<()> {
        let limited = self.session.as_ref().is_some_and(|session| session.transaction_limit().is_some());
        if limited && self.options.get("timeoutMS").is_some() {
            return Err(DriverError::invalid_argument("timeoutMS cannot be overridden within with_transaction"));
        }
        Ok(())
    }

    /// The option `maxTimeMS`.
    pub(crate) fn max_time(&self) -> Option<Duration> {
        self.options.millis("maxTimeMS")
    }

    fn apply_options(&mut self) -> Result<()> {
        if let Some(concern) = self.options.read_concern()? {
            self.scope.read_concern = concern;
        }
        if let Some(concern) = self.options.write_concern()? {
            self.scope.write_concern = concern;
        }
        if let Some(preference) = self.options.read_preference()? {
            self.scope.read_preference = preference;
        }
        if let Some(timeout) = self.options.millis("timeoutMS") {
            self.scope.timeout = Some(timeout);
        }
        Ok(())
    }

    /// The write concern as it is sent.
    pub(crate) fn write_concern(&self) -> WriteConcern {
        self.scope.effective_write_concern()
    }

    /// The write concern of a definition: one that nobody answers makes no sense there and is left out.
    pub(crate) fn definition_write_concern(&self) -> WriteConcern {
        let concern = self.write_concern();
        if concern.is_acknowledged() { concern } else { WriteConcern::default() }
    }

    pub(crate) fn read_preference(&self) -> ReadPreference {
        self.scope.read_preference.clone()
    }
}

impl<O> Action<O> {
    pub(crate) fn new(scope: Scope, operation: O) -> Self {
        Self { operation, request: Request::new(scope) }
    }

    /// Executes in this session.
    pub fn session(mut self, session: &ClientSession) -> Self {
        self.request.session = Some(session.clone());
        self
    }

    /// `timeoutMS` for this operation; zero is no limit.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set_millis("timeoutMS", timeout)
    }

    pub(crate) fn set(mut self, name: &str, value: impl Into<Bson>) -> Self {
        self.request.options.set(name, value.into());
        self
    }

    pub(crate) fn set_millis(self, name: &str, duration: Duration) -> Self {
        self.set(name, i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }
}

impl<O: HasOptions> Action<O> {
    /// Sets an option by its name in commands and the unified test format, such as `maxTimeMS` or `arrayFilters`.
    ///
    /// # Errors
    /// When the operation does not take it, or not with this value.
    pub fn option(mut self, name: &str, value: impl Into<Bson>) -> Result<Self> {
        self.request.options.set_by_name(O::OPTIONS, name, value.into())?;
        Ok(self)
    }
}

impl<O: Execute> IntoFuture for Action<O> {
    type Output = Result<O::Output>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.operation.execute(self.request))
    }
}

/// Which version of a document `findOneAnd...` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReturnDocument {
    /// As it was.
    #[default]
    Before,
    /// As it is now.
    After,
}

impl ReturnDocument {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Before => "Before",
            Self::After => "After",
        }
    }
}

/// The first wire version that knows `rawData` (8.2).
const WIRE_VERSION_RAW_DATA: i32 = 27;

/// Adds `rawData` where the server knows it; elsewhere it is left out, as the specification wants.
pub(crate) fn add_raw_data(options: &Options, wire_version: i32, body: &mut bson::Document) {
    if wire_version >= WIRE_VERSION_RAW_DATA {
        options.copy_into(body, &["rawData"]);
    }
}
