//! Renders a run or a recording: a timeline and a table for people, a page, a chart, traces and JSON.
//!
//! This room measures nothing; it shows what a ledger has counted. Everything in it is a pure function: the same input gives the
//! same bytes.

pub mod context;
pub mod explain;
pub mod format;
pub mod group;
pub mod headline;
pub mod input;
pub mod json;
pub mod numbers;
pub mod otlp;
pub mod page;
pub mod palette;
pub mod perfetto;
pub mod scenario;
pub mod simulation;
pub mod story;
pub mod svg;
pub mod table;
pub mod text;
pub mod timeline;

pub use context::Context;
pub use format::Format;
pub use input::Recording;

#[cfg(test)]
mod sample;
