//! Aggregation: expressions, accumulators, stages, pipelines.

pub mod accumulator;
pub mod expression;
pub(crate) mod stages;

/// Whether `name` is a stage that this server knows.
pub(crate) fn is_stage(name: &str) -> bool {
    stages::NAMES.contains(&name)
}
