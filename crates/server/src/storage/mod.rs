//! Storage: an ordered key-value engine, and collections with indexes on top of it.
//!
//! [`Engine`] is what the write path needs and no more: snapshots, transactions that notice conflicts when they write,
//! one atomic commit over all tables, and a wait for durability that one fsync can answer for many. The memory engine
//! is the first of its implementations.
//!
//! Invariant: data, index entries and the retry history of a statement are written by one commit.

pub mod capped;
pub mod catalog;
pub mod collection;
mod key;
pub mod memory;
pub mod record;
pub mod snapshots;
mod tree;
mod value;

use std::ops::Bound;

use futures_util::future::BoxFuture;

pub use key::Key;
pub use value::Value;

/// A table: an ordered set of keys with a value each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// The number of a commit; a later commit has a higher number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub u64);

/// Another transaction has written the key and has not committed, or has committed since this one began. The way out is
/// to begin again (facts/server.md 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write conflict")]
pub struct WriteConflict;

/// Which way a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key.
    Forward,
    /// From the largest key.
    Backward,
}

/// An ordered key-value store.
pub trait Engine: Send + Sync + std::fmt::Debug {
    /// The state as of now, over all tables. Cheap, and unaffected by later commits.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// Begins a transaction on the state as of now.
    fn begin(&self) -> Box<dyn Transaction>;

    /// A table id that was never used before.
    fn allocate_table(&self) -> TableId;

    /// Forgets all keys of a table. Snapshots keep seeing them.
    fn drop_table(&self, table: TableId);

    /// Resolves when `commit` and everything before it would survive a crash of the process.
    fn durable(&self, commit: CommitId) -> BoxFuture<'_, ()>;
}

/// A consistent view over all tables.
pub trait Snapshot: Send + Sync + std::fmt::Debug {
    /// The value of `key`.
    fn get(&self, table: TableId, key: &[u8]) -> Option<Value>;

    /// The first entry within the bounds, in `direction`. A scan is a loop over this with a moving bound, so that it can
    /// pause anywhere.
    fn first(
        &self,
        table: TableId,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
    ) -> Option<(Key, Value)>;

    /// Up to `limit` entries within the bounds, in `direction`, appended to `out`.
    fn scan(
        &self,
        table: TableId,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        limit: usize,
        out: &mut Vec<(Key, Value)>,
    );

    /// How many keys the table has.
    fn len(&self, table: TableId) -> usize;

    /// A copy of this view.
    fn fork(&self) -> Box<dyn Snapshot>;
}

/// What a statement reads and writes documents through.
pub trait Writer: Send + std::fmt::Debug {
    /// The value of `key`, with this transaction's own writes.
    fn get(&self, table: TableId, key: &[u8]) -> Option<Value>;

    /// Whether a key that starts with `prefix` exists, with this transaction's own writes; returns the first.
    fn first_with_prefix(&self, table: TableId, prefix: &[u8]) -> Option<(Key, Value)>;

    /// Sets (`Some`) or removes (`None`) a key.
    ///
    /// # Errors
    /// When another transaction has it.
    fn write(&mut self, table: TableId, key: Key, value: Option<Value>) -> Result<(), WriteConflict>;
}

/// Writes that become visible together, or not at all. Dropping it undoes it. It may stay open from one command to the next:
/// from its first write of a key to its end, nobody else can write that key.
pub trait Transaction: Writer {
    /// What this transaction sees: the state in which it began, with its own writes so far. Unaffected by later ones.
    fn view(&mut self) -> Box<dyn Snapshot>;

    /// Makes the writes visible, all at once.
    fn commit(self: Box<Self>) -> CommitId;
}
