//! Running operations: what each is doing, how long it may take, and how it is told to stop.
//!
//! Invariant: `$currentOp` and `killOp` read this registry and nothing else; every interruptible wait goes through
//! [`Op::wait`].

pub mod current_op;
pub mod registry;
pub mod view;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use backfire_model::event::{Outcome, ServerEvent, Wait, What, WriteId};
use backfire_model::{Namespace, OpId, RequestId};
use bson::{Document, Timestamp};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::{CommandError, Result};
use crate::net::connection::Connection;
use crate::server::Shared;
use crate::sessions::transaction::OpenTransaction;
use crate::storage::collection::Collection;
use crate::storage::{CommitId, Snapshot};

pub use registry::OpRegistry;
pub use view::{LockView, OpKind, OpView};

/// One running operation. It is registered for as long as it runs.
#[derive(Debug)]
pub struct Op {
    /// Its number.
    pub id: OpId,
    /// The server it runs on.
    pub shared: Arc<Shared>,
    /// The connection it came from.
    pub connection: Arc<Connection>,
    /// The message's `requestID`.
    pub request_id: RequestId,
    /// The command as sent, without its secrets: the body section only (facts/server.md 5.3).
    pub command: Bytes,
    /// When the command was read.
    pub received: Instant,
    view: Mutex<OpView>,
    write: Mutex<WriteId>,
    deadline: Mutex<Option<Instant>>,
    /// The code of a pending kill, or 0.
    kill_code: AtomicI32,
    kill_on_disconnect: AtomicBool,
    disconnected: AtomicBool,
    /// Whether events tell of it.
    observed: AtomicBool,
    /// Close the connection instead of answering.
    drop_reply: AtomicBool,
    last_commit: Mutex<Option<CommitId>>,
    /// What it reads, when that is not simply what is there.
    read_at: Mutex<Option<(Timestamp, Arc<dyn Snapshot>)>>,
    /// Whether it is part of a multi-document transaction.
    in_transaction: AtomicBool,
    /// That transaction, until it is aborted or committed.
    transaction: Mutex<Option<Box<OpenTransaction>>>,
    wake: Notify,
}

impl Op {
    /// An operation that has just been read; the registry gives it its id.
    pub(crate) fn new(
        id: OpId,
        shared: Arc<Shared>,
        connection: Arc<Connection>,
        request_id: RequestId,
        command: Bytes,
        ns: String,
    ) -> Self {
        Self {
            id,
            shared,
            connection,
            request_id,
            command,
            received: Instant::now(),
            view: Mutex::new(OpView::new(ns)),
            write: Mutex::default(),
            deadline: Mutex::new(None),
            kill_code: AtomicI32::new(0),
            kill_on_disconnect: AtomicBool::new(false),
            disconnected: AtomicBool::new(false),
            observed: AtomicBool::new(false),
            drop_reply: AtomicBool::new(false),
            last_commit: Mutex::new(None),
            read_at: Mutex::new(None),
            in_transaction: AtomicBool::new(false),
            transaction: Mutex::new(None),
            wake: Notify::new(),
        }
    }

    /// What `$currentOp` shows of it.
    pub fn view(&self) -> MutexGuard<'_, OpView> {
        self.view.lock()
    }

    /// The identity of its command, for events.
    pub fn write_id(&self) -> WriteId {
        *self.write.lock()
    }

    /// `<session>:<number>` for error texts.
    pub fn write_identity(&self) -> String {
        let view = self.view();
        let session = view.lsid.map(|lsid| lsid.to_string()).unwrap_or_default();
        format!("{session}:{}", view.txn_number.unwrap_or(-1))
    }

    /// Remembers the identity of its command.
    pub fn set_write_id(&self, write: WriteId) {
        *self.write.lock() = write;
    }

    /// Arms the deadline of `maxTimeMS`.
    pub fn set_deadline(&self, deadline: Instant) {
        *self.deadline.lock() = Some(deadline);
    }

    /// The deadline, if it has one.
    pub fn deadline(&self) -> Option<Instant> {
        *self.deadline.lock()
    }

    /// Tells it to stop with `code` at its next interrupt point. The first kill counts.
    pub fn kill(&self, code: i32) {
        let _ = self.kill_code.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        self.wake.notify_waiters();
    }

    /// Whether a kill is pending.
    pub fn is_killed(&self) -> bool {
        self.kill_code.load(Ordering::Acquire) != 0
    }

    /// From now on the operation ends when its client goes away (facts/server.md 6.1: a fixed list of commands).
    pub fn mark_kill_on_client_disconnect(&self) {
        self.kill_on_disconnect.store(true, Ordering::Release);
    }

    /// Its client has gone away.
    pub fn client_gone(&self) {
        self.disconnected.store(true, Ordering::Release);
        self.wake.notify_waiters();
    }

    /// Lets a wait look again for reasons to stop.
    pub fn wake(&self) {
        self.wake.notify_waiters();
    }

    /// Whether its client has gone away.
    pub fn is_client_gone(&self) -> bool {
        self.disconnected.load(Ordering::Acquire)
    }

    /// An interrupt point. The order of the checks is facts/server.md 3.2: shutdown, deadline, kill, disconnect.
    ///
    /// # Errors
    /// 11600, 50, the code of the kill, or 279.
    pub fn check_interrupt(&self) -> Result<()> {
        if self.shared.is_shutting_down() {
            return Err(CommandError::new(11600, "interrupted at shutdown"));
        }
        if self.deadline_expired() {
            return Err(CommandError::new(50, "operation exceeded time limit"));
        }
        match self.kill_code.load(Ordering::Acquire) {
            0 => {}
            code => return Err(CommandError::new(code, "operation was interrupted")),
        }
        if self.kill_on_disconnect.load(Ordering::Acquire) && self.is_client_gone() {
            return Err(CommandError::new(279, "operation was interrupted because a client disconnected"));
        }
        Ok(())
    }

    fn deadline_expired(&self) -> bool {
        let Some(deadline) = self.deadline() else { return false };
        use crate::failpoints::table::{MAX_TIME_ALWAYS_TIME_OUT, MAX_TIME_NEVER_TIME_OUT};
        if self.shared.passes(MAX_TIME_NEVER_TIME_OUT).is_some() {
            return false;
        }
        self.shared.passes(MAX_TIME_ALWAYS_TIME_OUT).is_some() || Instant::now() >= deadline
    }

    /// Waits for `future`, or for the first reason to stop. An expired deadline or a kill is noticed at once, before
    /// the wait as well as during it.
    ///
    /// # Errors
    /// Those of [`Op::check_interrupt`].
    pub async fn wait<F: Future>(&self, future: F) -> Result<F::Output> {
        self.check_interrupt()?;
        let mut future = std::pin::pin!(future);
        loop {
            let woken = self.wake.notified();
            self.check_interrupt()?;
            let deadline = self.deadline();
            let expiry = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                output = &mut future => return Ok(output),
                () = woken => {}
                () = expiry => {}
            }
        }
    }

    /// Waits for `future` whatever happens: for the engine stall, and for what must not be torn apart.
    pub async fn wait_uninterruptibly<F: Future>(&self, future: F) -> F::Output {
        future.await
    }

    /// Records that the operation waits for something; the guard records that it goes on, if it does.
    pub fn note_wait(&self, wait: Wait) -> WaitNote<'_> {
        self.observe(|op, write| ServerEvent::Waiting { op, write, wait });
        WaitNote { op: self, wait }
    }

    /// From now on events tell of this operation.
    pub fn begin_observing(&self) {
        self.observed.store(true, Ordering::Relaxed);
    }

    /// Records an event of this operation, if anybody observes.
    pub fn observe(&self, event: impl FnOnce(OpId, WriteId) -> ServerEvent) {
        if let Some(observer) = self.shared.observer.as_ref().filter(|_| self.observed.load(Ordering::Relaxed)) {
            observer.record(What::Server(event(self.id, self.write_id())));
        }
    }

    /// From now on it reads this snapshot.
    pub fn read_at(&self, time: Timestamp, snapshot: Arc<dyn Snapshot>) {
        *self.read_at.lock() = Some((time, snapshot));
    }

    /// From now on it is part of this transaction.
    pub fn join_transaction(&self, transaction: Option<Box<OpenTransaction>>) {
        self.in_transaction.store(true, Ordering::Relaxed);
        *self.transaction.lock() = transaction;
    }

    /// Gives back the transaction that it is part of. `None` when it is part of none, or that is over.
    pub fn leave_transaction(&self) -> Option<Box<OpenTransaction>> {
        self.transaction.lock().take()
    }

    /// Whether it is part of a multi-document transaction.
    pub fn is_in_transaction(&self) -> bool {
        self.in_transaction.load(Ordering::Relaxed)
    }

    /// The number of the transaction that it is part of, while that is open.
    pub fn transaction_number(&self) -> Option<i64> {
        self.with_transaction(|open| open.number())
    }

    /// Looks at, or changes, the transaction that it is part of.
    pub fn with_transaction<T>(&self, with: impl FnOnce(&mut OpenTransaction) -> T) -> Option<T> {
        self.transaction.lock().as_deref_mut().map(with)
    }

    /// The collection called `ns` as this operation sees it.
    ///
    /// # Errors
    /// 246 when it is younger than the transaction.
    pub fn collection(&self, ns: &Namespace) -> Result<Option<Arc<Collection>>> {
        if let Some(created) = self.with_transaction(|open| open.created(ns)).flatten() {
            return Ok(Some(created));
        }
        let Some(collection) = self.shared.catalog.get(ns) else { return Ok(None) };
        self.with_transaction(|open| open.check_age(&collection)).transpose()?;
        Ok(Some(collection))
    }

    /// The same, and creates it if it is not there. In a transaction, nobody else sees it then before the commit.
    ///
    /// # Errors
    /// As [`Op::collection`], and when it cannot be created.
    pub fn collection_or_create(&self, ns: &Namespace) -> Result<Arc<Collection>> {
        if !self.is_in_transaction() {
            return self.shared.catalog.get_or_create(ns, || self.shared.new_uuid());
        }
        match self.collection(ns)? {
            Some(collection) => Ok(collection),
            None => self.create_in_transaction(ns, Document::new()),
        }
    }

    /// Creates a collection in the transaction that this operation is part of.
    ///
    /// # Errors
    /// 48 when there is one of that name; when the options are not valid.
    pub fn create_in_transaction(&self, ns: &Namespace, options: Document) -> Result<Arc<Collection>> {
        if self.collection(ns)?.is_some() {
            return Err(CommandError::new(48, format!("Collection already exists. NS: {ns}")));
        }
        let collection = self.shared.catalog.prepare(ns, options, self.shared.new_uuid())?;
        self.with_transaction(|open| open.create(Arc::clone(&collection)));
        Ok(collection)
    }

    /// What it reads: its transaction's state, the snapshot it was told to read, or the state as of now.
    pub fn snapshot(&self) -> Box<dyn Snapshot> {
        if let Some(view) = self.with_transaction(OpenTransaction::view) {
            return view;
        }
        match &*self.read_at.lock() {
            Some((_, snapshot)) => snapshot.fork(),
            None => self.shared.engine.snapshot(),
        }
    }

    /// The time of the snapshot that it was told to read.
    pub fn read_time(&self) -> Option<Timestamp> {
        self.read_at.lock().as_ref().map(|(time, _)| *time)
    }

    /// A storage transaction of this operation has been committed.
    pub fn note_commit(&self, commit: CommitId) {
        *self.last_commit.lock() = Some(commit);
    }

    /// The newest commit of this operation.
    pub fn last_commit(&self) -> Option<CommitId> {
        *self.last_commit.lock()
    }

    /// Whether it has written anything.
    pub fn has_written(&self) -> bool {
        self.last_commit.lock().is_some()
    }

    /// The connection is to be closed when the operation has ended, and no reply sent.
    pub fn drop_reply(&self) {
        self.drop_reply.store(true, Ordering::Relaxed);
    }

    /// See [`Op::drop_reply`].
    pub fn drops_reply(&self) -> bool {
        self.drop_reply.load(Ordering::Relaxed)
    }

    /// Records the end of the operation.
    pub fn observe_end(&self, outcome: Outcome) {
        let client_there = !self.is_client_gone();
        self.observe(|op, write| ServerEvent::Ended { op, write, outcome, client_there });
    }
}

/// A wait that is under way; see [`Op::note_wait`].
#[derive(Debug)]
#[must_use]
pub struct WaitNote<'a> {
    op: &'a Op,
    wait: Wait,
}

impl WaitNote<'_> {
    /// The wait is over and the operation goes on.
    pub fn over(self) {
        let wait = self.wait;
        self.op.observe(|op, write| ServerEvent::Resumed { op, write, wait });
    }
}
