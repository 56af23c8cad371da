//! Who a client is, and what it may do: users, the SCRAM mechanisms, built-in roles.
//!
//! Invariants: a password is nowhere kept, only what SCRAM derives from it; what is secret in a command never gets to
//! `$currentOp`, an error text or a log (see [`redact`]); proofs are compared in constant time.

pub mod counters;
pub mod credentials;
pub mod login;
pub mod mechanism;
pub mod permission;
pub mod privilege;
pub mod redact;
pub mod roles;
pub mod sasl;
pub mod scram;
pub mod users;

pub use login::Login;
pub use mechanism::Mechanism;
pub use permission::{Needs, Permission};
pub use privilege::{Action, Resource};
pub use users::{User, UserName, Users};
