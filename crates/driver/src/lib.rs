//! A MongoDB client with the rules of the Java driver: what it sends again, when it gives up, and which session it
//! uses.
//!
//! It is there to rehearse what a Java service does. Everything is on tokio's clock and on randomness from one seed, so
//! with the clock paused and pipes in memory a run gives the same events each time. The room depends on `model` (ids)
//! and `wire` (frames) only, and it never decides about the application's own retries.
//!
//! ```no_run
//! # async fn example() -> backfire_driver::Result<()> {
//! use std::time::Duration;
//! use backfire_driver::{Client, ClientSettings, Event, TcpConnector};
//! use bson::doc;
//!
//! let settings = ClientSettings {
//!     socket_timeout: Duration::from_secs(30),
//!     replica_set: Some("rs0".into()),
//!     ..ClientSettings::new(["localhost:27017".parse()?])
//! };
//! let client = Client::connect(settings, TcpConnector, |event: &Event| println!("{event:?}"), 42)?;
//! let inventory = client.database("store").collection("store_inventory");
//! inventory
//!     .update_one(doc! {"productId": 1}, doc! {"$inc": {"stock": -1}})
//!     .upsert(true)
//!     .max_time(Duration::from_secs(20))
//!     .await?;
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Entry points: [`Client::connect`], [`ClientSettings`], [`Connector`], [`Listener`], [`retry::RetryState`].
//!
//! The map, from the outside in:
//!
//! - [`Client`], [`Database`], [`Collection`], [`Cursor`], [`ClientSession`]: what an application holds.
//! - [`operation`]: one file per family of operations; each builds its command and reads its reply.
//! - `bulk`: how writes become commands, and replies one result.
//! - `execute`: select a server, check out a connection, send; ask [`retry`] after a failure.
//! - [`retry`]: the decision whether a command is sent again, without I/O.
//! - `timeout`: `timeoutMS` and the limits it replaces.
//! - [`auth`]: who the client is, and how a fresh connection proves it.
//! - `topology`, `pool`, `connection`: servers, their connections, and frames on them.
//! - [`events`]: what a listener hears. [`DriverError`]: what an application sees.

pub mod auth;
mod bulk;
mod client;
mod collection;
mod connection;
mod cursor;
mod database;
pub mod error;
pub mod events;
mod execute;
pub mod operation;
mod pool;
mod random;
pub mod retry;
mod session;
pub mod settings;
mod timeout;
pub mod tls;
mod topology;
mod transport;

pub use auth::Credential;
pub use bulk::{
    BulkWriteFailure, BulkWriteModel, BulkWriteResult, ClientBulkWriteFailure, ClientBulkWriteResult, RawReplaceModel,
    ReplaceModel, Update, UpdateModel, VerboseDelete, VerboseUpdate, WriteFilter, WriteOptions,
};
pub use client::Client;
pub use collection::Collection;
pub use connection::command::SentCommand;
pub use connection::{ConnectionInfo, ServerType, TopologyVersion};
pub use cursor::{Cursor, CursorType, TimeoutMode};
pub use database::Database;
pub use error::{DriverError, ErrorKind, Result};
pub use events::{Event, Listener};
pub use operation::{Action, IndexModel, Namespaced, ReturnDocument};
pub use session::{ClientSession, SessionOptions, TransactionOptions, TransactionState, WithTransaction};
pub use settings::{ClientSettings, DriverProfile, ReadConcern, ReadMode, ReadPreference, ServerAddress, WriteConcern};
pub use tls::TlsSettings;
pub use topology::{ServerDescription, TopologyDescription, TopologyType};
pub use transport::{Connector, Stream, TcpConnector};
