//! The lab server: a mongod whose write path can be held, watched and restarted.
//!
//! This room knows neither backfire's scenarios nor its command line. Start reading at [`pipeline`]: it is a command's
//! way through the server, stage by stage.

pub mod aggregate;
pub mod auth;
pub mod clock;
pub mod commands;
pub mod counters;
pub mod cursors;
pub mod error;
pub mod failpoints;
pub mod locks;
pub mod net;
pub mod ops;
pub mod params;
pub mod pipeline;
pub mod plan;
pub mod profile;
pub mod query;
pub mod reference;
pub mod server;
pub mod sessions;
pub mod stages;
pub mod stats;
pub mod storage;
pub mod tail;
pub mod topology;
pub mod ttl;
pub mod update;
pub mod value;
pub mod views;
pub mod write;

pub use server::{Server, ServerConfig};
