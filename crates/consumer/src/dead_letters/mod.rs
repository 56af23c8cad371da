//! Where records go that are given up: how a dead letter is made, published, parked and replayed.

mod destination;
mod letter;
mod list;
mod parking;
mod publisher;
mod recoverer;
mod replay;

pub use destination::Destination;
pub use letter::{MAX_HEADER_BYTES, dead_letter};
pub use list::{DeadLetters, DeadLettersFull};
pub use parking::FileParking;
pub use publisher::{PublishError, Publisher};
pub use recoverer::{DeadLetterRecoverer, Discard, RecoverError, Recovered, Recoverer};
pub use replay::{Replay, ReplayError, Replayed};
