//! The table of running operations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use backfire_model::OpId;
use parking_lot::Mutex;

use super::Op;

/// How many parts the table has, each with a lock of its own.
const SHARDS: usize = 16;

/// All running operations, by id.
#[derive(Debug, Default)]
pub struct OpRegistry {
    next_id: AtomicI32,
    running: AtomicU64,
    shards: [Mutex<BTreeMap<OpId, Arc<Op>>>; SHARDS],
}

/// Keeps an operation in the table until dropped.
#[derive(Debug)]
pub struct Registered {
    op: Arc<Op>,
}

impl std::ops::Deref for Registered {
    type Target = Arc<Op>;

    fn deref(&self) -> &Arc<Op> {
        &self.op
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let registry = &self.op.shared.ops;
        registry.shard(self.op.id).lock().remove(&self.op.id);
        registry.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OpRegistry {
    fn shard(&self, id: OpId) -> &Mutex<BTreeMap<OpId, Arc<Op>>> {
        &self.shards[id.0 as usize % SHARDS]
    }

    /// Registers the operation that `make` builds for the id it is given.
    pub fn register(&self, make: impl FnOnce(OpId) -> Op) -> Registered {
        // Ids are positive 32-bit numbers; after two billion operations they begin again.
        let id = OpId(self.next_id.fetch_add(1, Ordering::Relaxed) & i32::MAX);
        let op = Arc::new(make(id));
        self.shard(id).lock().insert(id, Arc::clone(&op));
        self.running.fetch_add(1, Ordering::Relaxed);
        Registered { op }
    }

    /// The operation with this id.
    pub fn find(&self, id: OpId) -> Option<Arc<Op>> {
        self.shard(id).lock().get(&id).cloned()
    }

    /// All operations, by id.
    pub fn all(&self) -> Vec<Arc<Op>> {
        let mut all: Vec<_> =
            self.shards.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>()).collect();
        all.sort_unstable_by_key(|op| op.id);
        all
    }

    /// How many operations run.
    pub fn running(&self) -> u64 {
        self.running.load(Ordering::Relaxed)
    }
}
