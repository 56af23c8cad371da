//! Stage *ticket*: one of a limited number of places in the engine (facts/server.md 7.1).

use std::sync::Arc;
use std::time::Duration;

use backfire_model::event::Wait;
use tokio::time::Instant;

use crate::error::Result;
use crate::locks::tickets::Request;
use crate::locks::{Ticket, TicketPool};
use crate::ops::Op;
use crate::params::Param;

/// Takes a ticket. The wait sleeps in slices and looks for interrupts only between them, so a deadline or a kill is
/// noticed up to one slice late, as on the real server. The wait is not shown as `waitingForLock`.
///
/// # Errors
/// Those of an interrupt.
pub async fn take(op: &Op, pool: &Arc<TicketPool>) -> Result<Ticket> {
    let mut queued = match pool.request() {
        Request::Ticket(ticket) => return Ok(ticket),
        Request::Queued(queued) => queued,
    };
    let slice_ms = (op.shared.params.get(Param::LabTicketWaitSliceMillis) as u64).max(1);
    let note = op.note_wait(Wait::Ticket);
    let began = Instant::now();
    loop {
        // Nobody looks while there is no reason to stop; when there is one, it is seen at the end of the slice.
        if let Ok(ticket) = op.wait(queued.granted()).await {
            note.over();
            return Ok(ticket);
        }
        let slices = (began.elapsed().as_millis() as u64).div_ceil(slice_ms).max(1);
        tokio::select! {
            biased;
            ticket = queued.granted() => {
                note.over();
                return Ok(ticket);
            }
            () = tokio::time::sleep_until(began + Duration::from_millis(slices * slice_ms)) => op.check_interrupt()?,
        }
    }
}
