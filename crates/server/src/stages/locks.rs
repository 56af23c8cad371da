//! Stage *locks*: the ticket and the lock hierarchy around work in the engine (facts/server.md 7).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backfire_model::Namespace;
use backfire_model::event::Wait;
use smallvec::{SmallVec, smallvec};

use crate::error::{CommandError, Result, fail};
use crate::locks::manager::{Acquire, Held, Wanted};
use crate::locks::{Level, Mode, Resource, Ticket};
use crate::ops::Op;
use crate::params::Param;
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
    let (mut held, mut wanted) = (HeldLocks::new(), Wanted::new());
    if !access.reads() {
        wanted.push((Resource::ParallelBatchWriter, Mode::IntentShared));
    }
    wanted.push((Resource::ReplicationState, Mode::IntentExclusive));
    if let Some(wanted) = lock_together(op, wanted, &mut held)? {
        lock(op, wanted, &mut held).await?;
    }
    let pool = if access.reads() { &op.shared.read_tickets } else { &op.shared.write_tickets };
    let ticket = ticket::take(op, pool).await?;
    active(op, access).fetch_add(1, Ordering::Relaxed);
    let mut inside = Inside { op: Arc::clone(op), access, held, _ticket: ticket };
    let mut wanted: Wanted =
        smallvec![(Resource::Global, intent), (Resource::Database(Arc::from(ns.db.as_str())), database)];
    if let Some(mode) = collection {
        wanted.push((Resource::Collection(Arc::from(ns.joined())), mode));
    }
    if let Some(wanted) = lock_together(op, wanted, &mut inside.held)? {
        lock(op, wanted, &mut inside.held).await?;
    }
    if access == Access::Write && op.shared.catalog.is_view(ns) {
        return Err(views::refused(ns));
    }
    if !access.reads() && !op.shared.topology.is_primary() {
        return Err(CommandError::new(189, format!("Not primary while writing to {ns}")));
    }
    Ok(inside)
}

/// Creates the collection that a write needs and that is not there.
///
/// # Errors
/// As [`enter`], and when it cannot be created.
pub async fn create(op: &Arc<Op>, ns: &Namespace) -> Result<()> {
    if op.is_in_transaction() && !op.shared.profile.creates_in_transactions {
        return fail(263, format!("Cannot create namespace {ns} in multi-document transaction."));
    }
    // In a transaction it is created where nobody else sees it, so nobody need be kept out.
    let access = if op.is_in_transaction() { Access::Write } else { Access::ChangeCollection };
    let inside = enter(op, ns, access).await?;
    op.collection_or_create(ns)?;
    drop(inside);
    Ok(())
}

/// Takes locks at once, if nobody has to be waited for, which is so most often: one look at the queues is enough then.
/// `held` gets them. Otherwise gives back what is wanted, for [`lock`].
fn lock_together(op: &Op, wanted: Wanted, held: &mut HeldLocks) -> Result<Option<Wanted>> {
    if op.is_in_transaction() {
        return Ok(Some(wanted));
    }
    let all = match op.shared.locks.acquire_together(wanted) {
        Ok(all) => all,
        Err(wanted) => return Ok(Some(wanted)),
    };
    let interrupt = op.check_interrupt();
    let mut view = op.view();
    if let Err(interrupt) = interrupt {
        view.locks.released();
        return Err(interrupt);
    }
    for (resource, mode) in all.locks() {
        view.locks.granted(resource.level(), *mode);
    }
    held.push(all);
    Ok(None)
}

/// Takes locks one after the other, in their order; `held` gets them.
async fn lock(op: &Arc<Op>, wanted: Wanted, held: &mut HeldLocks) -> Result<()> {
    for (resource, mode) in wanted {
        match lock_one(op, resource, mode).await {
            Ok(lock) => held.extend(lock),
            Err(error) => {
                op.view().locks.released();
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Takes a lock. One that belongs to a multi-document transaction is kept by it until its end, and not taken twice: then there
/// is nothing for the caller to hold.
async fn lock_one(op: &Arc<Op>, resource: Resource, mode: Mode) -> Result<Option<Held>> {
    let level = resource.level();
    let lasts = op.is_in_transaction() && level >= Level::Global;
    if lasts && op.with_transaction(|open| open.holds(&resource, mode)) == Some(true) {
        op.check_interrupt()?;
        op.view().locks.held_already(level, mode);
        return Ok(None);
    }
    let held = lock_interruptibly(op, level, resource, mode).await?;
    op.view().locks.granted(level, mode);
    if !lasts {
        return Ok(Some(held));
    }
    op.with_transaction(|open| open.keep(held));
    Ok(None)
}

async fn lock_interruptibly(op: &Arc<Op>, level: Level, resource: Resource, mode: Mode) -> Result<Held> {
    match op.shared.locks.acquire(resource, mode) {
        Acquire::Held(held) => {
            op.check_interrupt()?;
            Ok(held)
        }
        Acquire::Pending(pending) => {
            let note = op.note_wait(Wait::Lock);
            let name = pending.name().to_owned();
            op.view().locks.begin_wait(level, mode);
            let granted = op.wait(within(patience(op), pending.granted())).await;
            op.view().locks.waiting = false;
            let Some(held) = granted? else { return Err(too_late(op, level, &name, mode)) };
            note.over();
            Ok(held)
        }
    }
}

/// How long an operation waits for a lock, if not as long as it takes. One that holds locks already, because it is part of a
/// multi-document transaction, waits a short time only: whoever it waits for may be waiting for it.
fn patience(op: &Op) -> Option<Duration> {
    let limit = op.shared.params.get(Param::TransactionLockTimeoutMillis);
    u64::try_from(limit).ok().filter(|_| op.is_in_transaction()).map(Duration::from_millis)
}

async fn within<T>(limit: Option<Duration>, granted: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, granted).await.ok(),
        None => Some(granted.await),
    }
}

fn too_late(op: &Op, level: Level, name: &str, mode: Mode) -> CommandError {
    let limit_ms = op.shared.params.get(Param::TransactionLockTimeoutMillis);
    let (mode, level) = (mode.name(), level.name());
    CommandError::new(24, format!("Unable to acquire {mode} lock on '{{{level}, {name}}}' within {limit_ms}ms."))
}
