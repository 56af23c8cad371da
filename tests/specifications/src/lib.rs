//! The MongoDB drivers' specification tests (<https://github.com/mongodb/specifications>), run with backfire's driver
//! against its lab server: two implementations that share nothing but the wire, held to what neither of them wrote.
//!
//! The files are no part of this repository; they are read in place, where they are. [`suites::SUITES`] lists what is
//! run, [`skip::Reason`] everything that may keep a test from being run. Whatever the runner does not know, be it an
//! operation, an option or an assertion, is a failure.
//!
//! `tests/specifications.rs` runs everything, on as many threads as there are processors, each file on a lab server of
//! its own, in memory and on the paused clock.

pub mod failure;
pub mod fields;
pub mod skip;
pub mod suites;
pub mod tally;
pub mod unified;
pub mod uri;
