//! Renders a run or a recording: a timeline and a table for people, a page, a chart, traces and JSON.
//!
//! This room measures nothing; it shows what a ledger has counted. Everything in it is a pure function: the same input gives the
//! same bytes.

pub mod context;
pub mod group;
pub mod headline;
pub mod input;
pub mod json;
pub mod numbers;
pub mod palette;
pub mod story;
pub mod table;
pub mod text;
pub mod timeline;

pub use context::Context;
pub use input::Recording;

#[cfg(test)]
mod sample;
