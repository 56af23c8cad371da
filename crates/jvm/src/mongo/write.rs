//! The writes that a listener's record can cause.

use serde::Serialize;

use crate::analysis::{PathStep, Setting};
use crate::span::Span;
use crate::value::Value;

/// One place that writes to MongoDB.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Write {
    /// The method: `insert`, `updateFirst`, `saveAll`, `bulkWrite`, ...; of a fluent chain its terms: `update.all`.
    pub operation: String,
    /// Whose method it is.
    pub api: Api,
    /// What goes to the server.
    pub command: Command,
    /// The entity's class, as a simple name.
    pub entity: Option<String>,
    /// The collection, where the call names it or the entity's `@Document` does.
    pub collection: Option<Value>,
    /// What is known of the `_id` of what is written.
    pub id: Identity,
    /// Whether it inserts where nothing matches; for `save` of an entity with an id that is so too.
    pub upsert: bool,
    /// The fields that its filter names; empty where there is no filter or it is not understood.
    pub filter: Vec<String>,
    /// The operators of its update: `set`, `inc`, ...; empty where there is none or it is not understood.
    pub update: Vec<String>,
    /// Whether the entity has a `@Version` field, which Spring Data checks.
    pub versioned: bool,
    /// What a bulk holds.
    pub bulk: Option<Bulk>,
    /// A time limit that was set on it.
    pub max_time: Option<MaxTime>,
    /// It runs only if some condition holds.
    pub conditional: bool,
    /// What stands around it, from the listener inwards.
    pub around: Vec<Around>,
    /// The calls that lead to it, from the listener inwards; each with the place of the call.
    pub path: Vec<PathStep>,
    /// The call itself.
    pub span: Span,
}

impl Write {
    /// The loops around it.
    pub fn loops(&self) -> impl Iterator<Item = &Around> {
        self.around.iter().filter(|around| matches!(around.kind, AroundKind::Loop { .. }))
    }

    /// What keeps its failure from the error handler.
    pub fn swallowed(&self) -> Option<&Around> {
        self.around.iter().find(|around| matches!(around.kind, AroundKind::Swallow { .. }))
    }

    /// The indices of the retries around it.
    pub fn retries(&self) -> impl Iterator<Item = usize> + '_ {
        self.around.iter().filter_map(|around| match around.kind {
            AroundKind::Retry { retry } => Some(retry),
            _ => None,
        })
    }

    /// The transaction around it.
    pub fn transaction(&self) -> Option<&Around> {
        self.around.iter().find(|around| matches!(around.kind, AroundKind::Transaction { .. }))
    }

    /// Whether one call of it writes several documents.
    pub fn is_multi(&self) -> bool {
        matches!(self.command, Command::InsertMany | Command::UpdateMany | Command::DeleteMany | Command::SaveAll)
    }
}

/// Whose method writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// Spring Data's `MongoTemplate` or `MongoOperations`.
    Template,
    /// Spring Data's `ReactiveMongoTemplate`.
    ReactiveTemplate,
    /// A Spring Data repository.
    Repository,
    /// A reactive or coroutine Spring Data repository.
    ReactiveRepository,
    /// The driver's `MongoCollection`.
    Driver,
}

/// What goes to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Command {
    /// One document is inserted.
    Insert,
    /// Several documents are inserted by one command.
    InsertMany,
    /// `save`: an insert where the entity has no id, else a replacement by `_id` that inserts where there is none.
    Save,
    /// `saveAll`: one insert of many where all are new, else one `save` for each.
    SaveAll,
    /// An update of one document.
    Update,
    /// An update of all that match; never resent by the driver (facts/client.md A6).
    UpdateMany,
    /// A replacement of one document.
    Replace,
    /// A delete of one document.
    Delete,
    /// A delete of all that match; never resent by the driver (A6).
    DeleteMany,
    /// A `findAndModify` command.
    FindAndModify,
    /// A bulk; see [`Write::bulk`].
    Bulk,
    /// A hand-written command; never resent by the driver (A6).
    RunCommand {
        /// The command's name, where the document shows it.
        command: Option<String>,
    },
    /// An aggregation that writes: `$out` or `$merge`; never resent by the driver (A6).
    Aggregate,
}

/// What is known of the `_id` of a document that is written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Identity {
    /// How it comes about.
    pub kind: IdKind,
    /// The entity's id field.
    pub field: Option<String>,
    /// Where it is set.
    pub span: Option<Span>,
}

/// How a `_id` comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdKind {
    /// Nothing sets it: the driver or Spring Data makes one for each execution.
    Generated,
    /// The application makes it anew for each execution: `UUID.randomUUID()`, `new ObjectId()`.
    Fresh,
    /// The application sets it to a value of the record, a constant or the like.
    Own,
    /// The document was read from the database before.
    Loaded,
    /// The entity comes from the record or from code that is not in the sources: its id may be set there.
    Carried,
    /// It cannot be told.
    Unknown,
    /// The operation addresses documents by a filter.
    ByFilter,
}

/// What a bulk holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bulk {
    /// Ordered or not; `None` where it cannot be told.
    pub ordered: Option<bool>,
    /// Its operations in order, as far as they are known.
    pub operations: Vec<BulkOperation>,
    /// Whether operations may be missing from the list.
    pub complete: bool,
}

/// One operation of a bulk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BulkOperation {
    /// The method or model: `updateOne`, `DeleteManyModel`.
    pub operation: String,
    /// What it does at the server.
    pub command: Command,
    /// Whether it inserts where nothing matches.
    pub upsert: bool,
    /// Whether it stands for any number of operations of this kind.
    pub repeated: bool,
    /// What is known of the `_id`.
    pub id: Identity,
    /// The fields that its filter names.
    pub filter: Vec<String>,
    /// The operators of its update.
    pub update: Vec<String>,
    /// The entity's class.
    pub entity: Option<String>,
    /// The call or model.
    pub span: Span,
}

/// A time limit on an operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MaxTime {
    /// The limit.
    pub limit: Setting,
    /// Whether it goes to the server; Spring Data drops it on writes (facts/client.md E).
    pub sent: bool,
}

/// Something that stands around a write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Around {
    /// What it is.
    pub kind: AroundKind,
    /// Where it is.
    pub span: Span,
}

/// What can stand around a write.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AroundKind {
    /// It runs once for each element of something.
    Loop {
        /// What is iterated over, as text.
        over: String,
        /// Whether those are the records of the listener's batch.
        records: bool,
    },
    /// Exceptions end here and do not reach the error handler: nothing is retried (the record counts as done).
    Swallow {
        /// The classes that are caught.
        exceptions: Vec<String>,
        /// Whether every failed write is among them; else only some kinds of failure.
        all_failures: bool,
        /// Whether none is thrown again.
        certain: bool,
    },
    /// A transaction.
    Transaction {
        /// The annotation, method or class that begins it.
        how: String,
    },
    /// A retry inside the listener.
    Retry {
        /// Its index in [`crate::Analysis::retries`].
        retry: usize,
    },
    /// It runs on another thread, or its result is not waited for: its failure does not reach the error handler.
    Detached {
        /// What takes it there.
        how: String,
    },
    /// It is in one of several implementations of an interface.
    OneOfSeveral,
}
