//! A sink: JSON records of a topic into a collection, at least once, in bulks, in the order of their partition.
//!
//! It is the consumer and the driver put to use. A record is committed when its write is acknowledged or its dead
//! letter is. Where a write is an upsert by an identity of the record, executing it again has the same effect.
//!
//! - [`options`] is the table of everything that can be set; [`Settings`] is what came of it.
//! - [`record`] turns a record into a write; [`writer`] executes a poll's writes of a partition as one bulk.
//! - [`Sink`] runs consumers over a source; [`generated`] makes records for trying it out.

pub mod generated;
pub mod options;
mod plain_json;
pub mod record;
mod recoverer;
pub mod settings;
mod sink;
mod stats;
pub mod writer;

pub use backfire_consumer::StopHandle;
pub use options::OptionError;
pub use settings::{Delete, How, Id, Mode, Settings, Then};
pub use sink::{Sink, SinkError};
pub use stats::{Stats, Summary};
