//! Runs a scenario: a lab server, a client with the driver's rules, and the application's error handler, together.
//!
//! The same code runs over TCP on the real clock and over pipes in memory on a paused one. It prints nothing and decides
//! nothing about counts: events go to a [`recorder::Recorder`], whose ledger counts them.

pub mod app;
pub mod application;
mod budget;
pub mod client_events;
pub mod documents;
mod freezer;
mod gateway;
mod inner;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod lab;
pub mod recorder;
pub mod rehearse;
pub mod simulate;
mod stall;
pub mod through_topic;
mod workload;

pub use app::{AppOptions, rehearse_app};
pub use rehearse::{Options, RehearsalError, Transport, rehearse};
pub use simulate::{SimulateOptions, simulate};
pub use through_topic::{Through, rehearse_through};
