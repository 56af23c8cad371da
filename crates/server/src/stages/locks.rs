//! Stage *locks*: the ticket and the lock hierarchy around work in the engine (facts/server.md 7).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backfire_model::Namespace;
use backfire_model::event::Wait;

use crate::error::{CommandError, Result};
use crate::locks::manager::{Acquire, Held};
use crate::locks::{Level, Mode, Resource, Ticket};
use crate::ops::Op;
use crate::stages::ticket;
use crate::views;

/// What the work in the engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads a collection.
    Read,
    /// Writes documents of a collection.
    Write,
    /// Changes the collection itself.
    ChangeCollection,
    /// Changes the database.
    ChangeDatabase,
}

impl Access {
    /// The modes on database and collection.
    fn modes(self) -> (Mode, Option<Mode>) {
        match self {
            Access::Read => (Mode::IntentShared, Some(Mode::IntentShared)),
            Access::Write => (Mode::IntentExclusive, Some(Mode::IntentExclusive)),
            Access::ChangeCollection => (Mode::IntentExclusive, Some(Mode::Exclusive)),
            Access::ChangeDatabase => (Mode::Exclusive, None),
        }
    }

    fn reads(self) -> bool {
        self == Access::Read
    }
}

/// Ticket and locks of an operation, until dropped.
#[derive(Debug)]
pub struct Inside {
    op: Arc<Op>,
    access: Access,
    // Fields drop in this order: locks before the ticket.
    held: Vec<Held>,
    _ticket: Ticket,
}

fn active(op: &Op, access: Access) -> &AtomicU64 {
    if access.reads() { &op.shared.counters.active_readers } else { &op.shared.counters.active_writers }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.op.view().locks.held.clear();
        active(&self.op, self.access).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes a ticket and the locks for `access` to `ns`. Every lock is an interrupt point, also when it is granted at once.
///
/// # Errors
/// Those of an interrupt; 189 when this node has stopped being primary.
pub async fn enter(op: &Arc<Op>, ns: &Namespace, access: Access) -> Result<Inside> {
    let (database, collection) = access.modes();
    let intent = database.intent();
    let mut held = Vec::with_capacity(5);
    if !access.reads() {
        held.push(lock(op, Level::ParallelBatchWriterMode, Resource::ParallelBatchWriter, Mode::IntentShared).await?);
    }
    held.push(lock(op, Level::ReplicationStateTransition, Resource::ReplicationState, Mode::IntentExclusive).await?);
    let pool = if access.reads() { &op.shared.read_tickets } else { &op.shared.write_tickets };
    let ticket = ticket::take(op, pool).await?;
    active(op, access).fetch_add(1, Ordering::Relaxed);
    let mut inside = Inside { op: Arc::clone(op), access, held, _ticket: ticket };
    inside.held.push(lock(op, Level::Global, Resource::Global, intent).await?);
    inside.held.push(lock(op, Level::Database, Resource::Database(Arc::from(ns.db.as_str())), database).await?);
    if let Some(mode) = collection {
        inside.held.push(lock(op, Level::Collection, Resource::Collection(Arc::from(ns.to_string())), mode).await?);
    }
    if access == Access::Write && op.shared.catalog.is_view(ns) {
        return Err(views::refused(ns));
    }
    if !access.reads() && !op.shared.topology.is_primary() {
        return Err(CommandError::new(189, format!("Not primary while writing to {ns}")));
    }
    Ok(inside)
}

async fn lock(op: &Arc<Op>, level: Level, resource: Resource, mode: Mode) -> Result<Held> {
    let result = lock_interruptibly(op, level, resource, mode).await;
    let mut view = op.view();
    match &result {
        Ok(_) => {
            view.locks.held.insert(level, mode);
            *view.locks.acquired.entry((level, mode)).or_default() += 1;
        }
        Err(_) => view.locks.held.clear(),
    }
    result
}

async fn lock_interruptibly(op: &Arc<Op>, level: Level, resource: Resource, mode: Mode) -> Result<Held> {
    match op.shared.locks.acquire(resource, mode) {
        Acquire::Held(held) => {
            op.check_interrupt()?;
            Ok(held)
        }
        Acquire::Pending(pending) => {
            let note = op.note_wait(Wait::Lock);
            {
                let mut view = op.view();
                view.locks.waiting = true;
                *view.locks.waited.entry((level, mode)).or_default() += 1;
            }
            let granted = op.wait(pending.granted()).await;
            op.view().locks.waiting = false;
            let held = granted?;
            note.over();
            Ok(held)
        }
    }
}
