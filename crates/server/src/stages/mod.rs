//! The stages of a command's way, one module each; [`crate::pipeline`] calls them in order.

pub mod authorization;
pub mod checks;
pub mod deadline;
pub mod engine;
pub mod fail_point;
pub mod labels;
pub mod locks;
pub mod lookup;
pub mod read_concern;
pub mod receive;
pub mod reply;
pub mod session_checkout;
pub mod session_fields;
pub mod ticket;
pub mod write_concern;
