//! What the write commands share: their batches, their results, and the reply made of them.

pub mod prepare;
pub mod results;
pub mod update;
pub mod validation;

pub use results::{WriteKind, WriteResults};
