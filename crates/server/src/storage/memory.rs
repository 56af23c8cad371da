//! The engine in memory: persistent ordered maps, so that a snapshot is a copy of a pointer.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};

use super::{CommitId, Direction, Engine, Key, Snapshot, TableId, Transaction, Value, WriteConflict, Writer};

type Tables = imbl::OrdMap<TableId, OrdMap<Key, Value>>;

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
    /// Which open transaction has written which key.
    intents: Mutex<HashMap<(TableId, Key), TransactionId>>,
    next_transaction: AtomicU64,
    next_table: AtomicU32,
    commits: AtomicU64,
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
    writes: BTreeMap<(TableId, Key), Option<Value>>,
    /// The base with the writes: made when it is first asked for, and kept up to date from then on.
    merged: Option<Tables>,
}

impl Engine for MemoryEngine {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(MemorySnapshot { tables: self.shared.tables.read().clone() })
    }

    fn begin(&self) -> Box<dyn Transaction> {
        Box::new(MemoryTransaction {
            shared: Arc::clone(&self.shared),
            id: TransactionId(self.shared.next_transaction.fetch_add(1, Ordering::Relaxed)),
            base: self.shared.tables.read().clone(),
            writes: BTreeMap::new(),
            merged: None,
        })
    }

    fn allocate_table(&self) -> TableId {
        TableId(self.shared.next_table.fetch_add(1, Ordering::Relaxed))
    }

    fn drop_table(&self, table: TableId) {
        self.shared.tables.write().remove(&table);
    }

    fn durable(&self, _commit: CommitId) -> BoxFuture<'_, ()> {
        // Nothing here survives a crash, so there is nothing to wait for.
        Box::pin(std::future::ready(()))
    }
}

fn range<'a>(
    table: &'a OrdMap<Key, Value>,
    lower: Bound<&'a [u8]>,
    upper: Bound<&'a [u8]>,
) -> impl DoubleEndedIterator<Item = (&'a Key, &'a Value)> {
    // An ordered map's range may panic on bounds the wrong way round; here they select nothing.
    let empty = match (lower, upper) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    };
    (!empty).then(|| table.range::<_, [u8]>((lower, upper))).into_iter().flatten()
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
        let mut range = range(self.tables.get(&table)?, lower, upper);
        let (key, value) = match direction {
            Direction::Forward => range.next()?,
            Direction::Backward => range.next_back()?,
        };
        Some((key.clone(), value.clone()))
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
        let range = range(table, lower, upper);
        let copy = |(key, value): (&Key, &Value)| (key.clone(), value.clone());
        match direction {
            Direction::Forward => out.extend(range.take(limit).map(copy)),
            Direction::Backward => out.extend(range.rev().take(limit).map(copy)),
        }
    }

    fn len(&self, table: TableId) -> usize {
        self.tables.get(&table).map_or(0, OrdMap::len)
    }

    fn fork(&self) -> Box<dyn Snapshot> {
        Box::new(MemorySnapshot { tables: self.tables.clone() })
    }
}

/// Sets or removes a key.
fn apply(tables: &mut Tables, table: TableId, key: &Key, value: Option<&Value>) {
    let table = tables.entry(table).or_default();
    match value {
        Some(value) => drop(table.insert(key.clone(), Value::clone(value))),
        None => drop(table.remove(key)),
    }
}

impl Writer for MemoryTransaction {
    fn get(&self, table: TableId, key: &[u8]) -> Option<Value> {
        match self.writes.get(&(table, Key::from_slice(key))) {
            Some(written) => written.clone(),
            None => self.base.get(&table)?.get(key).cloned(),
        }
    }

    fn first_with_prefix(&self, table: TableId, prefix: &[u8]) -> Option<(Key, Value)> {
        let own = self
            .writes
            .range((table, Key::from_slice(prefix))..)
            .take_while(|((written_in, key), _)| *written_in == table && key.starts_with(prefix))
            .find_map(|((_, key), value)| value.clone().map(|value| (key.clone(), value)));
        let base = self.base.get(&table).and_then(|base| {
            range(base, Bound::Included(prefix), Bound::Unbounded)
                .take_while(|(key, _)| key.starts_with(prefix))
                .find(|(key, _)| !self.writes.contains_key(&(table, (*key).clone())))
                .map(|(key, value)| (key.clone(), value.clone()))
        });
        match (own, base) {
            (Some(own), Some(base)) => Some(if own.0 <= base.0 { own } else { base }),
            (own, base) => own.or(base),
        }
    }

    fn write(&mut self, table: TableId, key: Key, value: Option<Value>) -> Result<(), WriteConflict> {
        let slot = (table, key);
        if !self.writes.contains_key(&slot) {
            let mut intents = self.shared.intents.lock();
            if intents.get(&slot).is_some_and(|holder| *holder != self.id) {
                return Err(WriteConflict);
            }
            // Somebody may have committed the key since this transaction began: then its view of it is out of date.
            let live = self.shared.tables.read().get(&table).and_then(|live| live.get(&slot.1).cloned());
            let seen = self.base.get(&table).and_then(|base| base.get(&slot.1));
            let unchanged = match (&live, seen) {
                (None, None) => true,
                (Some(live), Some(seen)) => Arc::ptr_eq(live, seen),
                _ => false,
            };
            if !unchanged {
                return Err(WriteConflict);
            }
            intents.insert(slot.clone(), self.id);
        }
        if let Some(merged) = &mut self.merged {
            apply(merged, slot.0, &slot.1, value.as_ref());
        }
        self.writes.insert(slot, value);
        Ok(())
    }
}

impl Transaction for MemoryTransaction {
    fn view(&mut self) -> Box<dyn Snapshot> {
        let merged = self.merged.get_or_insert_with(|| {
            let mut merged = self.base.clone();
            for ((table, key), value) in &self.writes {
                apply(&mut merged, *table, key, value.as_ref());
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
        let mut tables = self.shared.tables.write();
        for ((table, key), value) in &writes {
            apply(&mut tables, *table, key, value.as_ref());
        }
        let commit = CommitId(self.shared.commits.fetch_add(1, Ordering::Relaxed));
        drop(tables);
        self.release(writes.into_keys());
        commit
    }
}

impl MemoryTransaction {
    fn release(&self, slots: impl Iterator<Item = (TableId, Key)>) {
        let mut intents = self.shared.intents.lock();
        for slot in slots {
            intents.remove(&slot);
        }
    }
}

impl Drop for MemoryTransaction {
    fn drop(&mut self) {
        if !self.writes.is_empty() {
            let writes = std::mem::take(&mut self.writes);
            self.release(writes.into_keys());
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
