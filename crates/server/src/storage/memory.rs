//! The engine in memory: persistent ordered maps, so that a snapshot is a copy of a pointer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};

use super::tree::Tree;
use super::{CommitId, Direction, Engine, Key, Snapshot, TableId, Transaction, Value, WriteConflict, Writer};

type Tables = OrdMap<TableId, Tree<Value>>;

/// An [`Engine`] that forgets everything when it is dropped.
#[derive(Debug)]
pub struct MemoryEngine {
    shared: Arc<Shared>,
}

impl Default for MemoryEngine {
    fn default() -> Self {
        let next_table = AtomicU32::new(super::catalog::FIRST_FREE_TABLE);
        Self { shared: Arc::new(Shared { next_table, ..Shared::default() }) }
    }
}

#[derive(Debug, Default)]
struct Shared {
    tables: RwLock<Tables>,
    /// Which open transaction has written which key. Who locks both this and the tables locks this first.
    intents: Mutex<HashMap<(TableId, Key), TransactionId, foldhash::fast::RandomState>>,
    next_transaction: AtomicU64,
    next_table: AtomicU32,
    /// How often the tables have changed. It changes with the tables locked.
    changes: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TransactionId(u64);

#[derive(Debug)]
struct MemorySnapshot {
    tables: Tables,
}

#[derive(Debug)]
struct MemoryTransaction {
    shared: Arc<Shared>,
    id: TransactionId,
    base: Tables,
    /// The number of changes that `base` has.
    base_changes: u64,
    writes: Writes,
    /// The base with the writes: made when it is first asked for, and kept up to date from then on.
    merged: Option<Tables>,
}

/// What a transaction sets (`Some`) and removes (`None`), by table. A transaction writes to few tables.
#[derive(Debug, Default)]
struct Writes {
    tables: Vec<(TableId, Tree<Option<Value>>)>,
}

impl Writes {
    fn of(&self, table: TableId) -> Option<&Tree<Option<Value>>> {
        self.tables.iter().find(|(id, _)| *id == table).map(|(_, writes)| writes)
    }

    fn get(&self, table: TableId, key: &[u8]) -> Option<&Option<Value>> {
        self.of(table)?.get(key)
    }

    fn insert(&mut self, table: TableId, key: Key, value: Option<Value>) {
        let at = self.tables.iter().position(|(id, _)| *id == table).unwrap_or_else(|| {
            self.tables.push((table, Tree::default()));
            self.tables.len() - 1
        });
        self.tables[at].1.insert(key, value);
    }
}

impl Engine for MemoryEngine {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(MemorySnapshot { tables: self.shared.tables.read().clone() })
    }

    fn begin(&self) -> Box<dyn Transaction> {
        let tables = self.shared.tables.read();
        Box::new(MemoryTransaction {
            shared: Arc::clone(&self.shared),
            id: TransactionId(self.shared.next_transaction.fetch_add(1, Ordering::Relaxed)),
            base: tables.clone(),
            base_changes: self.shared.changes.load(Ordering::Acquire),
            writes: Writes::default(),
            merged: None,
        })
    }

    fn allocate_table(&self) -> TableId {
        TableId(self.shared.next_table.fetch_add(1, Ordering::Relaxed))
    }

    fn drop_table(&self, table: TableId) {
        let mut tables = self.shared.tables.write();
        tables.remove(&table);
        self.shared.changes.fetch_add(1, Ordering::Release);
    }

    fn durable(&self, _commit: CommitId) -> BoxFuture<'_, ()> {
        // Nothing here survives a crash, so there is nothing to wait for.
        Box::pin(std::future::ready(()))
    }
}

impl Snapshot for MemorySnapshot {
    fn get(&self, table: TableId, key: &[u8]) -> Option<Value> {
        self.tables.get(&table)?.get(key).cloned()
    }

    fn first(
        &self,
        table: TableId,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
    ) -> Option<(Key, Value)> {
        let first = |key: &Key, value: &Value| ControlFlow::Break((key.clone(), value.clone()));
        self.tables.get(&table)?.range(lower, upper, direction, first)
    }

    fn scan(
        &self,
        table: TableId,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        limit: usize,
        out: &mut Vec<(Key, Value)>,
    ) {
        let Some(table) = self.tables.get(&table) else { return };
        let full = out.len().saturating_add(limit);
        table.range(lower, upper, direction, |key, value| {
            if out.len() == full {
                return ControlFlow::Break(());
            }
            out.push((key.clone(), value.clone()));
            ControlFlow::Continue(())
        });
    }

    fn len(&self, table: TableId) -> usize {
        self.tables.get(&table).map_or(0, Tree::len)
    }

    fn fork(&self) -> Box<dyn Snapshot> {
        Box::new(MemorySnapshot { tables: self.tables.clone() })
    }
}

/// Sets or removes a key.
fn apply(table: &mut Tree<Value>, key: Key, value: Option<Value>) {
    match value {
        Some(value) => table.insert(key, value),
        None => table.remove(&key),
    }
}

impl Writer for MemoryTransaction {
    fn get(&self, table: TableId, key: &[u8]) -> Option<Value> {
        match self.writes.get(table, key) {
            Some(written) => written.clone(),
            None => self.base.get(&table)?.get(key).cloned(),
        }
    }

    fn first_with_prefix(&self, table: TableId, prefix: &[u8]) -> Option<(Key, Value)> {
        let written = self.writes.of(table);
        let own = written
            .and_then(|written| first_with_prefix(written, prefix, |key, value| Some((key.clone(), value.clone()?))));
        let base = self.base.get(&table).and_then(|base| {
            let is_written = |key: &Key| written.is_some_and(|written| written.get(key).is_some());
            first_with_prefix(base, prefix, |key, value| (!is_written(key)).then(|| (key.clone(), value.clone())))
        });
        match (own, base) {
            (Some(own), Some(base)) => Some(if own.0 <= base.0 { own } else { base }),
            (own, base) => own.or(base),
        }
    }

    fn write(&mut self, table: TableId, key: Key, value: Option<Value>) -> Result<(), WriteConflict> {
        if self.writes.get(table, &key).is_none() {
            let mut intents = self.shared.intents.lock();
            match intents.entry((table, key.clone())) {
                Entry::Occupied(holder) if *holder.get() != self.id => return Err(WriteConflict),
                Entry::Occupied(_) => {}
                Entry::Vacant(free) => {
                    if self.is_out_of_date(table, &key) {
                        return Err(WriteConflict);
                    }
                    free.insert(self.id);
                }
            }
        }
        if let Some(merged) = &mut self.merged {
            apply(merged.entry(table).or_default(), key.clone(), value.clone());
        }
        self.writes.insert(table, key, value);
        Ok(())
    }
}

/// What `take` makes of the first entry that it takes among those whose keys begin with `prefix`.
fn first_with_prefix<V: Clone, T>(table: &Tree<V>, prefix: &[u8], take: impl Fn(&Key, &V) -> Option<T>) -> Option<T> {
    let found = table.range(Bound::Included(prefix), Bound::Unbounded, Direction::Forward, |key, value| {
        match (key.starts_with(prefix), take(key, value)) {
            (false, _) => ControlFlow::Break(None),
            (true, None) => ControlFlow::Continue(()),
            (true, taken) => ControlFlow::Break(taken),
        }
    });
    found.flatten()
}

impl Transaction for MemoryTransaction {
    fn view(&mut self) -> Box<dyn Snapshot> {
        let merged = self.merged.get_or_insert_with(|| {
            let mut merged = self.base.clone();
            for (table, writes) in &self.writes.tables {
                let table = merged.entry(*table).or_default();
                writes.clone().take_apart(|key, value| apply(table, key, value));
            }
            merged
        });
        Box::new(MemorySnapshot { tables: merged.clone() })
    }

    fn commit(mut self: Box<Self>) -> CommitId {
        let writes = std::mem::take(&mut self.writes);
        // Let go of the base first: while it is shared, every write below would copy the path to its key.
        self.base = Tables::new();
        self.merged = None;
        let mut intents = self.shared.intents.lock();
        let mut tables = self.shared.tables.write();
        for (id, writes) in writes.tables {
            let table = tables.entry(id).or_default();
            writes.take_apart(|key, value| {
                let slot = (id, key);
                intents.remove(&slot);
                apply(table, slot.1, value);
            });
        }
        CommitId(self.shared.changes.fetch_add(1, Ordering::Release))
    }
}

impl MemoryTransaction {
    /// Whether somebody has committed the key since this transaction began: then its view of it is out of date. Nobody
    /// commits while the intents are locked, as they are now.
    fn is_out_of_date(&self, table: TableId, key: &[u8]) -> bool {
        if self.shared.changes.load(Ordering::Acquire) == self.base_changes {
            return false;
        }
        let tables = self.shared.tables.read();
        let live = tables.get(&table).and_then(|live| live.get(key));
        let seen = self.base.get(&table).and_then(|base| base.get(key));
        match (live, seen) {
            (None, None) => false,
            (Some(live), Some(seen)) => !live.is_same(seen),
            _ => true,
        }
    }
}

impl Drop for MemoryTransaction {
    fn drop(&mut self) {
        let writes = std::mem::take(&mut self.writes);
        if writes.tables.is_empty() {
            return;
        }
        let mut intents = self.shared.intents.lock();
        for (table, writes) in writes.tables {
            writes.take_apart(|key, _| {
                intents.remove(&(table, key));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: TableId = TableId(7);

    fn key(text: &str) -> Key {
        Key::from_slice(text.as_bytes())
    }

    fn value(text: &str) -> Option<Value> {
        Some(text.as_bytes().into())
    }

    #[test]
    fn a_snapshot_does_not_see_later_commits_and_a_transaction_sees_its_own_writes() {
        let engine = MemoryEngine::default();
        let before = engine.snapshot();
        let mut transaction = engine.begin();
        transaction.write(TABLE, key("a"), value("1")).unwrap();
        assert_eq!(transaction.get(TABLE, b"a"), value("1"));
        assert_eq!(engine.snapshot().get(TABLE, b"a"), None);
        transaction.commit();
        assert_eq!(before.get(TABLE, b"a"), None);
        assert_eq!(engine.snapshot().get(TABLE, b"a"), value("1"));
    }

    #[test]
    fn the_second_writer_of_a_key_conflicts_until_the_first_is_gone_and_it_has_begun_again() {
        let engine = MemoryEngine::default();
        let (mut first, mut second) = (engine.begin(), engine.begin());
        first.write(TABLE, key("a"), value("1")).unwrap();
        assert_eq!(second.write(TABLE, key("a"), value("2")), Err(WriteConflict));
        first.commit();
        assert_eq!(second.write(TABLE, key("a"), value("2")), Err(WriteConflict), "its view is out of date");
        let mut third = engine.begin();
        third.write(TABLE, key("a"), value("3")).unwrap();
        drop(third);
        let mut fourth = engine.begin();
        fourth.write(TABLE, key("a"), None).unwrap();
        fourth.commit();
        assert_eq!(engine.snapshot().len(TABLE), 0);
        assert!(engine.shared.intents.lock().is_empty());
    }

    #[test]
    fn a_view_has_the_writes_so_far_and_no_others() {
        let engine = MemoryEngine::default();
        let mut before = engine.begin();
        before.write(TABLE, key("a"), value("1")).unwrap();
        before.commit();
        let (mut open, mut other) = (engine.begin(), engine.begin());
        open.write(TABLE, key("b"), value("2")).unwrap();
        other.write(TABLE, key("c"), value("3")).unwrap();
        other.commit();
        let first = open.view();
        open.write(TABLE, key("a"), None).unwrap();
        let seen = |view: &dyn Snapshot| [b"a", b"b", b"c"].map(|key| view.get(TABLE, key).is_some());
        assert_eq!(seen(&*first), [true, true, false]);
        assert_eq!(seen(&*open.view()), [false, true, false]);
        assert_eq!(seen(&*engine.snapshot()), [true, false, true]);
        open.commit();
        assert_eq!(seen(&*engine.snapshot()), [false, true, true]);
    }

    #[test]
    fn a_prefix_is_found_through_own_writes() {
        let engine = MemoryEngine::default();
        let mut transaction = engine.begin();
        transaction.write(TABLE, key("ab1"), value("1")).unwrap();
        transaction.commit();
        let mut transaction = engine.begin();
        assert_eq!(transaction.first_with_prefix(TABLE, b"ab").unwrap().0, key("ab1"));
        transaction.write(TABLE, key("ab1"), None).unwrap();
        assert_eq!(transaction.first_with_prefix(TABLE, b"ab"), None);
        transaction.write(TABLE, key("ab0"), value("0")).unwrap();
        assert_eq!(transaction.first_with_prefix(TABLE, b"ab").unwrap().0, key("ab0"));
        assert_eq!(transaction.first_with_prefix(TABLE, b"b"), None);
    }

    proptest! {
        /// Scans agree with a plain ordered map, in both directions and within any bounds.
        #[test]
        fn scans_agree_with_an_ordered_map(
            keys in proptest::collection::btree_set("[a-d]{1,3}", 0..40),
            lower in "[a-d]{0,3}", upper in "[a-d]{0,3}", limit in 0..50_usize,
        ) {
            let engine = MemoryEngine::default();
            let mut transaction = engine.begin();
            for text in &keys {
                transaction.write(TABLE, key(text), value(text)).unwrap();
            }
            transaction.commit();
            let snapshot = engine.snapshot();
            let inside: Vec<_> = keys.iter().filter(|text| **text >= lower && **text < upper).map(|text| key(text)).collect();
            for direction in [Direction::Forward, Direction::Backward] {
                let mut found = Vec::new();
                let bounds = (Bound::Included(lower.as_bytes()), Bound::Excluded(upper.as_bytes()));
                snapshot.scan(TABLE, bounds.0, bounds.1, direction, limit, &mut found);
                prop_assert_eq!(snapshot.first(TABLE, bounds.0, bounds.1, direction).map(|entry| entry.0),
                    match direction { Direction::Forward => inside.first(), Direction::Backward => inside.last() }.cloned());
                let mut expected = inside.clone();
                if direction == Direction::Backward { expected.reverse(); }
                expected.truncate(limit);
                prop_assert_eq!(found.into_iter().map(|entry| entry.0).collect::<Vec<_>>(), expected);
            }
        }
    }
}
