//! The terms of backfire as types: ids, settings, back-off, prediction, events and the ledger.
//!
//! This room reads no clock, no socket and no file, and prints nothing.

pub mod back_off;
pub mod budget;
pub mod connection_string;
pub mod counts;
pub mod dial;
pub mod event;
pub mod ids;
pub mod ledger;
pub mod load;
pub mod predict;
pub mod run;
pub mod scenario;
pub mod simulated;
pub mod tally;

pub use back_off::{BackOff, BackOffError, SpringVersion};
pub use connection_string::ConnectionString;
pub use ids::{ConnectionId, ConsumerId, Execution, Lsid, Namespace, OpId, RecordId, RequestId, StmtId, TxnNumber};
