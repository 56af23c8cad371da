//! `abortTransaction`.

use super::{CommandSpec, Reply, idl, immediate};
use crate::error::CommandError;

/// `{abortTransaction: 1, lsid, txnNumber, autocommit: false, writeConcern}` on `admin`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["abortTransaction"],
    doc: "undoes a multi-document transaction",
    parse: |request, _| {
        idl::only(request, "abortTransaction", &["recoveryToken"])?;
        immediate(|run| {
            let Some(session) = run.session else {
                return Err(CommandError::new(125, "abortTransaction must be run within a transaction"));
            };
            session.abort_transaction()?;
            Ok(Reply::empty())
        })
    },
    ..CommandSpec::END_OF_TRANSACTION
};
