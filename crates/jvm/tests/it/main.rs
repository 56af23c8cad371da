//! Sources in, what they say out: each case is a few files and the text that describes the analysis.

mod describe;

mod constants;
mod error_handlers;
mod scratch;
