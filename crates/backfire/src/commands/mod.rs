//! The commands, one file each.

pub mod rehearse;
pub mod serve;
