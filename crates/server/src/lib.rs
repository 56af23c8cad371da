//! The lab server: a mongod whose write path can be held, watched and restarted.
//!
//! This room knows neither backfire's scenarios nor its command line.

pub mod aggregate;
pub mod error;
pub mod query;
pub mod update;
pub mod value;
