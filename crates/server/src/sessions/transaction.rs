//! An open multi-document transaction: what it has written and holds from one command to the next.

use std::sync::Arc;
use std::time::Duration;

use backfire_model::Namespace;
use bson::{Bson, Document, Timestamp, doc};
use tokio::time::Instant;

use crate::error::{CommandError, Result};
use crate::locks::Mode;
use crate::locks::manager::{Held, Resource};
use crate::net::connection::Connection;
use crate::ops::{LockView, Op};
use crate::params::{Param, Params};
use crate::storage::collection::Collection;
use crate::storage::{Key, Snapshot, TableId, Transaction, Value, WriteConflict, Writer};
use crate::value::text;

/// A transaction between its first command and its end. While a command of it runs, the operation has it; between two
/// commands, the session has it. Dropping it undoes everything.
#[derive(Debug)]
pub struct OpenTransaction {
    number: i64,
    storage: Box<dyn Transaction>,
    /// Collections that came into being in it. Nobody else sees them before the commit.
    created: Vec<Arc<Collection>>,
    /// Tables from this one on are younger than what it sees.
    younger: TableId,
    locks: Vec<Held>,
    read_concern: Option<String>,
    read_time: Timestamp,
    /// Who sent the last command.
    pub client: Arc<Connection>,
    started: Instant,
    started_at_ms: i64,
    /// Time that commands took, without the one that runs.
    active: Duration,
    /// When the command that runs, or the pause, began.
    since: Instant,
    runs: bool,
    documents: u32,
    first_id: Bson,
}

/// What a transaction that is committed leaves.
#[derive(Debug)]
pub struct Ended {
    /// Its storage.
    pub storage: Box<dyn Transaction>,
    /// The collections that it created.
    pub created: Vec<Arc<Collection>>,
    /// How many documents it has written.
    pub documents: u32,
    /// `_id` of the first.
    pub first_id: Bson,
    /// They are kept until the commit is done.
    pub locks: Vec<Held>,
}

impl OpenTransaction {
    /// Begins: from now on it sees the state as of now.
    pub fn begin(op: &Op, number: i64, read_concern: Option<String>) -> Self {
        let shared = &op.shared;
        let is_snapshot = read_concern.as_deref() == Some("snapshot");
        Self {
            number,
            // Table numbers only rise, so this one tells old from young.
            younger: shared.engine.allocate_table(),
            storage: shared.engine.begin(),
            created: Vec::new(),
            locks: Vec::new(),
            read_concern,
            read_time: if is_snapshot { shared.topology.last_op_time() } else { Timestamp { time: 0, increment: 0 } },
            client: Arc::clone(&op.connection),
            started: Instant::now(),
            started_at_ms: shared.clock.now_ms(),
            active: Duration::ZERO,
            since: Instant::now(),
            runs: true,
            documents: 0,
            first_id: Bson::Null,
        }
    }

    /// Its number.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// A command of it begins to run.
    pub fn resume(&mut self, client: &Arc<Connection>) {
        self.client = Arc::clone(client);
        self.since = Instant::now();
        self.runs = true;
    }

    /// The command is over, and the transaction waits for the next.
    pub fn pause(&mut self) {
        self.active += self.since.elapsed();
        self.since = Instant::now();
        self.runs = false;
    }

    /// What it sees now.
    pub fn view(&mut self) -> Box<dyn Snapshot> {
        self.storage.view()
    }

    /// A statement has written documents.
    pub fn wrote(&mut self, documents: u32, first_id: Bson) {
        if self.documents == 0 {
            self.first_id = first_id;
        }
        self.documents += documents;
    }

    /// Whether it has a lock that is as good as `mode`.
    pub fn holds(&self, resource: &Resource, mode: Mode) -> bool {
        self.locks.iter().any(|held| held.resource() == resource && held.mode().covers(mode))
    }

    /// Keeps a lock until the end.
    pub fn keep(&mut self, lock: Held) {
        self.locks.push(lock);
    }

    /// A collection that came into being in it.
    pub fn created(&self, ns: &Namespace) -> Option<Arc<Collection>> {
        self.created.iter().find(|collection| collection.ns == *ns).cloned()
    }

    /// A collection has come into being in it.
    pub fn create(&mut self, collection: Arc<Collection>) {
        self.created.push(collection);
    }

    /// Checks that a collection, and its indexes, are not younger than what the transaction sees: it would find nothing in
    /// them.
    ///
    /// # Errors
    /// 246.
    pub fn check_age(&self, collection: &Collection) -> Result<()> {
        let indexes = collection.indexes();
        if collection.records < self.younger && indexes.iter().all(|index| index.table < self.younger) {
            return Ok(());
        }
        Err(CommandError::new(
            246,
            "Unable to read from a snapshot due to pending collection catalog changes; please retry the operation.",
        ))
    }

    /// Takes it apart, to commit it.
    pub fn end(self) -> Ended {
        let Self { storage, created, documents, first_id, locks, .. } = self;
        Ended { storage, created, documents, first_id, locks }
    }

    /// The locks that it holds, for `$currentOp`.
    pub fn lock_view(&self) -> LockView {
        let mut view = LockView::default();
        for held in &self.locks {
            let strongest = view.held.entry(held.resource().level()).or_insert(held.mode());
            if held.mode().covers(*strongest) {
                *strongest = held.mode();
            }
        }
        view
    }

    /// The `transaction` field of `$currentOp`.
    pub fn report(&self, limit_s: i64) -> Document {
        let mut parameters = doc! { "txnNumber": self.number, "autocommit": false };
        if let Some(level) = &self.read_concern {
            parameters.insert("readConcern", doc! { "level": level, "provenance": "clientSupplied" });
        }
        let (open, current) = (self.started.elapsed(), self.since.elapsed());
        let active = self.active + if self.runs { current } else { Duration::ZERO };
        let iso = |ms: i64| text::iso_date(ms).replace('Z', "+00:00");
        doc! {
            "parameters": parameters,
            "readTimestamp": self.read_time,
            "startWallClockTime": iso(self.started_at_ms),
            "timeOpenMicros": open.as_micros() as i64,
            "timeActiveMicros": active.as_micros() as i64,
            "timeInactiveMicros": open.saturating_sub(active).as_micros() as i64,
            "expiryTime": iso(self.started_at_ms.saturating_add(limit_s.saturating_mul(1000))),
        }
    }
}

impl Writer for OpenTransaction {
    fn get(&self, table: TableId, key: &[u8]) -> Option<Value> {
        self.storage.get(table, key)
    }

    fn first_with_prefix(&self, table: TableId, prefix: &[u8]) -> Option<(Key, Value)> {
        self.storage.first_with_prefix(table, prefix)
    }

    fn write(&mut self, table: TableId, key: Key, value: Option<Value>) -> Result<(), WriteConflict> {
        self.storage.write(table, key, value)
    }
}

/// How long a transaction may be open.
pub fn lifetime(params: &Params) -> Duration {
    Duration::from_secs(params.get(Param::TransactionLifetimeSecs) as u64)
}
