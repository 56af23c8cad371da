//! Helpers of the integration tests: a lab server in memory on the paused clock, and a bare client that sees the wire.

pub mod lab;
pub mod shared;
pub mod wire;

pub use lab::Lab;
pub use wire::Wire;
