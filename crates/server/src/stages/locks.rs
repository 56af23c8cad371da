//! Stage *locks*: the ticket and the lock hierarchy around work in the engine (facts/server.md 7).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backfire_model::Namespace;
use backfire_model::event::Wait;
use smallvec::{SmallVec, smallvec};

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

/// At most two groups, those before the ticket and those after, unless some had to be waited for.
type HeldLocks = SmallVec<[Held; 2]>;

/// What is locked at which level.
type Locks = SmallVec<[(Level, Resource, Mode); 3]>;

/// Ticket and locks of an operation, until dropped.
#[derive(Debug)]
pub struct Inside {
    op: Arc<Op>,
    access: Access,
    // Fields drop in this order: locks before the ticket.
    held: HeldLocks,
    _ticket: Ticket,
}

fn active(op: &Op, access: Access) -> &AtomicU64 {
    if access.reads() { &op.shared.counters.active_readers } else { &op.shared.counters.active_writers }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.op.view().locks.released();
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
    let mut held = HeldLocks::new();
    let mut wanted = Locks::new();
    if !access.reads() {
        wanted.push((Level::ParallelBatchWriterMode, Resource::ParallelBatchWriter, Mode::IntentShared));
    }
    wanted.push((Level::ReplicationStateTransition, Resource::ReplicationState, Mode::IntentExclusive));
    lock(op, wanted, &mut held).await?;
    let pool = if access.reads() { &op.shared.read_tickets } else { &op.shared.write_tickets };
    let ticket = ticket::take(op, pool).await?;
    active(op, access).fetch_add(1, Ordering::Relaxed);
    let mut inside = Inside { op: Arc::clone(op), access, held, _ticket: ticket };
    let mut wanted: Locks = smallvec![
        (Level::Global, Resource::Global, intent),
        (Level::Database, Resource::Database(Arc::from(ns.db.as_str())), database),
    ];
    if let Some(mode) = collection {
        wanted.push((Level::Collection, Resource::Collection(Arc::from(ns.to_string())), mode));
    }
    lock(op, wanted, &mut inside.held).await?;
    if access == Access::Write && op.shared.catalog.is_view(ns) {
        return Err(views::refused(ns));
    }
    if !access.reads() && !op.shared.topology.is_primary() {
        return Err(CommandError::new(189, format!("Not primary while writing to {ns}")));
    }
    Ok(inside)
}

/// Takes locks in their order; `held` gets them.
async fn lock(op: &Arc<Op>, wanted: Locks, held: &mut HeldLocks) -> Result<()> {
    let result = lock_interruptibly(op, wanted, held).await;
    if result.is_err() {
        op.view().locks.released();
    }
    result
}

async fn lock_interruptibly(op: &Arc<Op>, wanted: Locks, held: &mut HeldLocks) -> Result<()> {
    // Most often there is nothing to wait for. Then one look at the queues is enough.
    let together = wanted.iter().map(|(_, resource, mode)| (resource.clone(), *mode)).collect();
    if let Ok(all) = op.shared.locks.acquire_together(together) {
        held.push(all);
        for (level, _, mode) in wanted {
            op.check_interrupt()?;
            op.view().locks.granted(level, mode);
        }
        return Ok(());
    }
    for (level, resource, mode) in wanted {
        held.push(lock_one(op, level, resource, mode).await?);
        op.view().locks.granted(level, mode);
    }
    Ok(())
}

async fn lock_one(op: &Arc<Op>, level: Level, resource: Resource, mode: Mode) -> Result<Held> {
    match op.shared.locks.acquire(resource, mode) {
        Acquire::Held(held) => {
            op.check_interrupt()?;
            Ok(held)
        }
        Acquire::Pending(pending) => {
            let note = op.note_wait(Wait::Lock);
            op.view().locks.begin_wait(level, mode);
            let granted = op.wait(pending.granted()).await;
            op.view().locks.waiting = false;
            let held = granted?;
            note.over();
            Ok(held)
        }
    }
}
