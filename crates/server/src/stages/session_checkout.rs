//! Stage *session checkout*: a write with a `txnNumber` gets its session for itself (facts/server.md 1.1 steps 16, 17).

use std::sync::Arc;

use crate::commands::CommandSpec;
use crate::error::{CommandError, Result};
use crate::ops::Op;
use crate::sessions::CheckedOut;
use crate::sessions::checkout;
use crate::stages::session_fields::SessionFields;

/// Waits for the session and compares the number. Commands without a `txnNumber` go on without.
///
/// # Errors
/// Those of an interrupt during the wait; 10107 when this node has stopped being primary; 225 for an old number.
pub async fn check_out(op: &Op, spec: &CommandSpec, fields: &SessionFields) -> Result<Option<CheckedOut>> {
    let (Some(session), Some(number)) = (&fields.session, fields.txn_number) else { return Ok(None) };
    debug_assert!(spec.retryable_write, "checked by an earlier stage");
    let checked_out = checkout::check_out(op, Arc::clone(session), number).await?;
    if !op.shared.topology.is_primary() {
        return Err(CommandError::new(10107, "Not primary so we cannot begin or continue a transaction"));
    }
    op.view().txn_number = Some(number);
    Ok(Some(checked_out))
}
