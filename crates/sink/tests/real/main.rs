//! Sinks as processes between a real broker and a lab server.
//!
//! `BACKFIRE_KAFKA_BROKERS` names the broker and `BACKFIRE_BIN` the binary; `clients/kafka/run` sets both.
#![cfg(feature = "kafka")]

mod kill_nine;
mod ledger;
mod server_gone;
mod speed;
mod stage;
