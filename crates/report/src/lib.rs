//! Renders a run: a timeline and a table for people, JSON for machines.
//!
//! This room measures nothing; it shows what a ledger has counted.

pub mod json;
pub mod simulation;
pub mod table;
pub mod timeline;
