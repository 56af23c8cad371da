//! Stage *session checkout*: a write with a `txnNumber` gets its session for itself (facts/server.md 1.1 steps 16, 17).

use std::sync::Arc;

use backfire_model::event::Wait;
use bson::Document;

use crate::commands::CommandSpec;
use crate::error::{CommandError, Result};
use crate::failpoints::table::STALL_IN_SESSION_CHECKOUT;
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
    stall(op).await?;
    let checked_out = checkout::check_out(op, Arc::clone(session), number).await?;
    if !op.shared.topology.is_primary() {
        return Err(CommandError::new(10107, "Not primary so we cannot begin or continue a transaction"));
    }
    op.view().txn_number = Some(number);
    Ok(Some(checked_out))
}

/// `stallInSessionCheckout`: nobody gets a session.
async fn stall(op: &Op) -> Result<()> {
    let point = op.shared.fail_points.get(STALL_IN_SESSION_CHECKOUT);
    let concerns = |data: &Document| {
        data.get_str("appName").map_or(true, |wanted| Some(wanted) == op.connection.app_name().as_deref())
    };
    if let Some(entered) = point.enter(op.shared.rng(), concerns) {
        let note = op.note_wait(Wait::Session);
        op.wait(entered.until_changed()).await?;
        note.over();
    }
    Ok(())
}
