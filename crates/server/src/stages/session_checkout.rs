//! Stage *session checkout*: a command with a `txnNumber` gets its session for itself (facts/server.md 1.1 steps 16, 17).

use std::sync::Arc;

use backfire_model::event::Wait;
use bson::Document;

use crate::commands::CommandSpec;
use crate::error::{Result, fail};
use crate::failpoints::table::STALL_IN_SESSION_CHECKOUT;
use crate::ops::Op;
use crate::sessions::CheckedOut;
use crate::sessions::checkout;
use crate::sessions::phase::Claim;
use crate::stages::read_concern::ReadConcern;
use crate::stages::session_fields::SessionFields;

/// Waits for the session and compares the number. Commands without a `txnNumber` go on without.
///
/// # Errors
/// Those of an interrupt during the wait; 10107 when this node has stopped being primary; 225 for an old number; what a
/// transaction has against the command; 72 for a read concern that comes too late, which aborts the transaction.
pub async fn check_out(
    op: &Arc<Op>,
    spec: &CommandSpec,
    fields: &SessionFields,
    read_concern: ReadConcern,
) -> Result<Option<CheckedOut>> {
    let (Some(session), Some(number)) = (&fields.session, fields.txn_number) else { return Ok(None) };
    let claim = match (fields.is_in_transaction(), fields.starts_transaction) {
        (false, _) => Claim::Write,
        (true, true) => Claim::Begins,
        (true, false) if spec.name() == "commitTransaction" => Claim::Commits,
        (true, false) => Claim::Continues,
    };
    stall(op).await?;
    let checked_out = checkout::check_out(op, Arc::clone(session), number, claim, read_concern.level).await?;
    op.view().txn_number = Some(number);
    if read_concern.is_given && claim == Claim::Continues {
        return fail(72, "Only the first command in a transaction may specify a readConcern");
    }
    Ok(Some(checked_out))
}

/// `stallInSessionCheckout`: nobody gets a session.
async fn stall(op: &Op) -> Result<()> {
    let concerns = |data: &Document| {
        data.get_str("appName").map_or(true, |wanted| Some(wanted) == op.connection.app_name().as_deref())
    };
    if let Some(entered) = op.shared.passes_if(STALL_IN_SESSION_CHECKOUT, concerns) {
        let note = op.note_wait(Wait::Session);
        op.wait(entered.until_changed()).await?;
        note.over();
    }
    Ok(())
}
