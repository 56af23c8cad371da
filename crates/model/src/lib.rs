//! The terms of backfire as types: ids, settings, back-off, prediction, events and the ledger.
//!
//! This room reads no clock, no socket and no file, and prints nothing.

pub mod ids;

pub use ids::{ConnectionId, Execution, Lsid, Namespace, OpId, RequestId, StmtId, TxnNumber};
