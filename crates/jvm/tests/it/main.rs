//! Sources in, what they say out: each case is a few files and the text that describes the analysis.

mod describe;

mod around;
mod calls;
mod clients;
mod constants;
mod containers;
mod error_handlers;
mod listeners;
mod retries;
mod robustness;
mod samples;
mod writes;
