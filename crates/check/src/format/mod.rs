//! Readers of text formats that keep the place of every key and value.

pub mod json;
pub mod properties;
pub mod tree;
pub mod yaml;
