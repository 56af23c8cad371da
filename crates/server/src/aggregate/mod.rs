//! Aggregation: expressions, accumulators, stages, pipelines.
//!
//! | file | subject |
//! | --- | --- |
//! | [`pipeline`] | [`Pipeline`]: parsed once, run over a stream of documents |
//! | [`environment`] | what a pipeline asks of the server: other collections, source stages |
//! | [`output`] | `$out` and `$merge`, which the caller carries out |
//! | `stages` | one file per stage or family of stages |
//! | [`expression`] | expressions, one file per family of operators |
//! | `accumulator` | accumulators |

pub(crate) mod accumulator;
mod choice;
pub mod environment;
pub mod expression;
pub mod output;
pub mod pipeline;
pub(crate) mod stages;
#[cfg(test)]
mod tests;

pub use environment::{Documents, Environment, SourceStage};
pub use output::Output;
pub use pipeline::{Pipeline, PipelineContext};
pub use stages::current_op::CurrentOpOptions;
pub(crate) use stages::is_stage;
