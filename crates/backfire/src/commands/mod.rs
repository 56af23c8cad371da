//! The commands, one file each.

pub mod check;
pub mod rehearse;
pub mod serve;
pub mod sink;
