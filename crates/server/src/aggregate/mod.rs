//! Aggregation: expressions, accumulators, stages, pipelines.

pub mod accumulator;
pub mod expression;
