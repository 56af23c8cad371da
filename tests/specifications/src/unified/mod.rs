//! The unified test format: how its files are read and run
//! (<https://github.com/mongodb/specifications/blob/master/source/unified-test-format/unified-test-format.md>).
//!
//! [`mod@file`] is what is written down, [`run`] what happens with it, [`operations`] what a test can do, [`matching`] and
//! the `expect_...` files what it can assert.

pub mod client;
pub mod entities;
pub mod events;
pub mod expect_error;
pub mod expect_events;
pub mod file;
pub mod matching;
pub mod operations;
pub mod requirements;
pub mod results;
pub mod run;
pub mod thread;
