//! The driver against a scripted server in memory, on a paused clock.

mod fake;

mod csot;
mod events;
mod handshake;
mod hostile;
mod operations;
mod pool;
mod retry;
mod sdam;
mod sessions;
