//! Writes: how a list of them becomes commands, and how their replies become one result.
//!
//! Every insert, update, replace and delete goes this way, alone or in a list (facts/client.md A2).

pub(crate) mod batch;
pub(crate) mod model;
pub(crate) mod result;
pub(crate) mod run;

pub use model::{BulkWriteModel, RawReplaceModel, ReplaceModel, Update, UpdateModel, WriteFilter, WriteOptions};
pub use result::{
    BulkWriteFailure, BulkWriteResult, ClientBulkWriteFailure, ClientBulkWriteResult, VerboseDelete, VerboseUpdate,
};
