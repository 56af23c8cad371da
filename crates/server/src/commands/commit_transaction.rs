//! `commitTransaction`.

use super::{CommandSpec, Invocation, Reply, Run, Running, idl};
use crate::error::CommandError;
use crate::stages::engine;

/// `{commitTransaction: 1, lsid, txnNumber, autocommit: false, writeConcern}` on `admin`. It may be said again: what was
/// committed is committed, and its write concern is waited for once more.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["commitTransaction"],
    doc: "commits a multi-document transaction",
    parse: |request, _| {
        idl::only(request, "commitTransaction", &["commitTimestamp", "durableTimestamp", "recoveryToken"])?;
        Ok(Box::new(CommitTransaction))
    },
    ..CommandSpec::END_OF_TRANSACTION
};

struct CommitTransaction;

impl Invocation for CommitTransaction {
    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let Some(session) = run.session else {
                return Err(CommandError::new(125, "commitTransaction must be run within a transaction").into());
            };
            engine::commit_transaction(run.op, session).await?;
            Ok(Reply::empty())
        })
    }
}
