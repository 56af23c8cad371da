//! A simulation as text, JSON, trace and table.

pub mod chart;
pub mod json;
pub mod sweep;
pub mod text;
pub mod trace;
