//! The lock manager: one first-come-first-served queue per resource.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use tokio::sync::oneshot;

use super::{Level, Mode};

/// What can be locked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Batches of writes that must not mix with others.
    ParallelBatchWriter,
    /// The replica-set state.
    ReplicationState,
    /// The whole server.
    Global,
    /// A database.
    Database(Arc<str>),
    /// A collection, by its full name.
    Collection(Arc<str>),
}

impl Resource {
    /// The level it is on.
    pub fn level(&self) -> Level {
        match self {
            Resource::ParallelBatchWriter => Level::ParallelBatchWriterMode,
            Resource::ReplicationState => Level::ReplicationStateTransition,
            Resource::Global => Level::Global,
            Resource::Database(_) => Level::Database,
            Resource::Collection(_) => Level::Collection,
        }
    }

    /// Its name; empty where there is only one.
    pub fn name(&self) -> &str {
        match self {
            Resource::Database(name) | Resource::Collection(name) => name,
            Resource::ParallelBatchWriter | Resource::ReplicationState | Resource::Global => "",
        }
    }
}

/// All locks of a server.
#[derive(Debug, Default)]
pub struct LockManager {
    queues: Mutex<Queues>,
}

/// The queues, by resource.
#[derive(Debug, Default)]
struct Queues {
    /// Those of the three resources that every operation locks; they are always there.
    fixed: [Queue; 3],
    /// Those of databases and collections, while they are used and for a while after.
    named: HashMap<Resource, Queue, foldhash::fast::RandomState>,
    /// At so many the unused ones are looked for.
    tidy_at: usize,
}

/// So many queues of databases and collections are kept, used or not, because most are used again at once.
const NAMED_KEPT: usize = 1024;

impl Queues {
    fn of(&mut self, resource: &Resource) -> &mut Queue {
        match resource {
            Resource::ParallelBatchWriter => &mut self.fixed[0],
            Resource::ReplicationState => &mut self.fixed[1],
            Resource::Global => &mut self.fixed[2],
            Resource::Database(_) | Resource::Collection(_) => self.named.entry(resource.clone()).or_default(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Queue> {
        self.fixed.iter().chain(self.named.values())
    }

    /// Forgets unused queues when there are many more than after the last time.
    fn tidy(&mut self) {
        if self.named.len() > self.tidy_at.max(NAMED_KEPT) {
            self.named.retain(|_, queue| !queue.is_unused());
            self.tidy_at = 2 * self.named.len();
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// How many hold it, by mode.
    granted: [u32; 4],
    waiting: VecDeque<Waiter>,
    next_waiter: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    mode: Mode,
    granted: oneshot::Sender<()>,
}

/// Locks that somebody wants or holds together.
pub type Wanted = SmallVec<[(Resource, Mode); 3]>;

/// Locks that are held until dropped.
#[derive(Debug)]
pub struct Held {
    manager: Arc<LockManager>,
    locks: Wanted,
}

/// A place in a queue. Dropping it leaves the queue, or gives back a lock that was granted meanwhile.
#[derive(Debug)]
pub struct Pending {
    manager: Arc<LockManager>,
    resource: Option<Resource>,
    mode: Mode,
    number: u64,
    granted: oneshot::Receiver<()>,
}

/// The answer to a request for a lock.
#[derive(Debug)]
pub enum Acquire {
    /// Granted at once.
    Held(Held),
    /// Somebody else holds it, or was there before.
    Pending(Pending),
}

impl Queue {
    /// Whether a new request is granted at once.
    fn is_free_for(&self, mode: Mode) -> bool {
        self.waiting.is_empty() && self.can_grant(mode)
    }

    fn can_grant(&self, mode: Mode) -> bool {
        Mode::ALL.iter().zip(self.granted).all(|(held, count)| count == 0 || held.is_compatible(mode))
    }

    /// Grants from the front of the queue for as long as it is possible. A waiter that has given up is passed over.
    fn grant_waiting(&mut self) {
        while let Some(first) = self.waiting.front() {
            if !self.can_grant(first.mode) {
                return;
            }
            let first = self.waiting.pop_front().expect("there is a front");
            self.granted[first.mode as usize] += 1;
            if first.granted.send(()).is_err() {
                self.granted[first.mode as usize] -= 1;
            }
        }
    }

    fn is_unused(&self) -> bool {
        self.waiting.is_empty() && self.granted == [0; 4]
    }
}

impl LockManager {
    /// Asks for `resource` in `mode`. Requests are served in order, so a waiting exclusive request is not overtaken.
    pub fn acquire(self: &Arc<Self>, resource: Resource, mode: Mode) -> Acquire {
        let mut queues = self.queues.lock();
        let queue = queues.of(&resource);
        if queue.is_free_for(mode) {
            queue.granted[mode as usize] += 1;
            return Acquire::Held(Held { manager: Arc::clone(self), locks: smallvec![(resource, mode)] });
        }
        let (sender, granted) = oneshot::channel();
        let number = queue.next_waiter;
        queue.next_waiter += 1;
        queue.waiting.push_back(Waiter { number, mode, granted: sender });
        Acquire::Pending(Pending { manager: Arc::clone(self), resource: Some(resource), mode, number, granted })
    }

    /// Takes all of `wanted`, if none of them has to be waited for. Otherwise takes none and gives them back, to be asked
    /// for one after the other.
    ///
    /// # Errors
    /// What was wanted.
    pub fn acquire_together(self: &Arc<Self>, wanted: Wanted) -> Result<Held, Wanted> {
        let mut queues = self.queues.lock();
        let mut grant = |(resource, mode): &(Resource, Mode)| {
            let queue = queues.of(resource);
            let is_free = queue.is_free_for(*mode);
            queue.granted[*mode as usize] += u32::from(is_free);
            is_free
        };
        let Some(first_taken) = wanted.iter().position(|one| !grant(one)) else {
            return Ok(Held { manager: Arc::clone(self), locks: wanted });
        };
        for (resource, mode) in &wanted[..first_taken] {
            queues.of(resource).granted[*mode as usize] -= 1;
        }
        Err(wanted)
    }

    /// How many wait for any lock, as (readers, writers).
    pub fn waiting(&self) -> (u64, u64) {
        let queues = self.queues.lock();
        queues.all().flat_map(|queue| &queue.waiting).fold((0, 0), |(readers, writers), waiter| match waiter.mode {
            Mode::IntentShared | Mode::Shared => (readers + 1, writers),
            Mode::IntentExclusive | Mode::Exclusive => (readers, writers + 1),
        })
    }

    fn change(&self, resource: &Resource, change: impl FnOnce(&mut Queue)) {
        let mut queues = self.queues.lock();
        let queue = queues.of(resource);
        change(queue);
        queue.grant_waiting();
        queues.tidy();
    }
}

impl Held {
    /// What is locked, and how.
    pub fn locks(&self) -> &[(Resource, Mode)] {
        &self.locks
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut queues = self.manager.queues.lock();
        for (resource, mode) in &self.locks {
            let queue = queues.of(resource);
            queue.granted[*mode as usize] -= 1;
            queue.grant_waiting();
        }
        queues.tidy();
    }
}

impl Pending {
    /// The name of what is waited for; empty where there is only one.
    pub fn name(&self) -> &str {
        self.resource.as_ref().map_or("", Resource::name)
    }

    /// Waits for the lock.
    pub async fn granted(mut self) -> Held {
        // The sender lives in the queue until it is used, so this cannot fail while `self` is queued.
        let _ = (&mut self.granted).await;
        let resource = self.resource.take().expect("taken only here");
        Held { manager: Arc::clone(&self.manager), locks: smallvec![(resource, self.mode)] }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(resource) = self.resource.take() else { return };
        let (number, mode) = (self.number, self.mode);
        let was_granted = self.granted.try_recv().is_ok();
        self.manager.change(&resource, |queue| {
            if was_granted {
                queue.granted[mode as usize] -= 1;
            } else {
                queue.waiting.retain(|waiter| waiter.number != number);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Exclusive, IntentExclusive, IntentShared, Shared};
    use proptest::prelude::*;

    fn held(acquire: Acquire) -> Held {
        match acquire {
            Acquire::Held(held) => held,
            Acquire::Pending(_) => panic!("not granted at once"),
        }
    }

    fn pending(acquire: Acquire) -> Pending {
        match acquire {
            Acquire::Held(_) => panic!("granted at once"),
            Acquire::Pending(pending) => pending,
        }
    }

    fn mode(held: &Held) -> Mode {
        held.locks[0].1
    }

    #[test]
    fn locks_are_taken_together_or_not_at_all() {
        let manager = Arc::new(LockManager::default());
        let collection = || Resource::Collection("db.c".into());
        let both = |mode| smallvec![(Resource::Global, IntentExclusive), (collection(), mode)];
        let first = manager.acquire_together(both(IntentExclusive)).expect("free");
        let refused = manager.acquire_together(both(Exclusive)).expect_err("somebody holds one of them");
        assert_eq!(refused.len(), 2);
        drop(first);
        drop(manager.acquire_together(both(Exclusive)).expect("free again"));
        assert!(manager.queues.lock().all().all(Queue::is_unused));
    }

    #[test]
    fn unused_queues_are_forgotten_when_there_are_many() {
        let manager = Arc::new(LockManager::default());
        for number in 0..10 * NAMED_KEPT {
            let resource = Resource::Collection(format!("db.c{number}").into());
            drop(held(manager.acquire(resource, IntentShared)));
        }
        assert!(manager.queues.lock().named.len() <= NAMED_KEPT);
    }

    #[tokio::test]
    async fn requests_are_served_in_order() {
        let manager = Arc::new(LockManager::default());
        let ask = |mode| manager.acquire(Resource::Global, mode);
        let (first, second) = (held(ask(IntentExclusive)), held(ask(IntentShared)));
        let exclusive = pending(ask(Exclusive));
        let late = pending(ask(IntentShared));
        assert_eq!(manager.waiting(), (1, 1));
        drop((first, second));
        let exclusive = exclusive.granted().await;
        assert_eq!(manager.waiting(), (1, 0));
        drop(exclusive);
        drop(late.granted().await);
        assert!(manager.queues.lock().all().all(Queue::is_unused));
    }

    #[tokio::test]
    async fn leaving_the_queue_lets_the_next_one_in() {
        let manager = Arc::new(LockManager::default());
        let first = held(manager.acquire(Resource::Global, IntentShared));
        let exclusive = pending(manager.acquire(Resource::Global, Exclusive));
        let behind = pending(manager.acquire(Resource::Global, IntentShared));
        drop(exclusive);
        drop(behind.granted().await);
        drop(first);
        assert!(manager.queues.lock().all().all(Queue::is_unused));
    }

    proptest! {
        /// Whatever is asked for, granted, given up and given back: holders are always compatible, and in the end
        /// nothing is left over.
        #[test]
        fn holders_are_always_compatible(steps in proptest::collection::vec((0..4_u8, 0..8_usize), 1..60)) {
            let manager = Arc::new(LockManager::default());
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let mut holding: Vec<Held> = Vec::new();
                let mut queued: Vec<Pending> = Vec::new();
                for (action, pick) in steps {
                    match action {
                        0 | 1 => match manager.acquire(Resource::Global, [IntentShared, IntentExclusive, Shared, Exclusive][pick % 4]) {
                            Acquire::Held(held) => holding.push(held),
                            Acquire::Pending(pending) => queued.push(pending),
                        },
                        2 if !holding.is_empty() => drop(holding.swap_remove(pick % holding.len())),
                        3 if !queued.is_empty() => drop(queued.remove(pick % queued.len())),
                        _ => {}
                    }
                    // Those that were granted meanwhile hold it now.
                    let mut still = Vec::new();
                    for pending in queued.drain(..) {
                        if pending.granted.is_empty() { still.push(pending) } else { holding.push(pending.granted().await) }
                    }
                    queued = still;
                    for (at, one) in holding.iter().enumerate() {
                        for other in &holding[at + 1..] {
                            assert!(mode(one).is_compatible(mode(other)), "{one:?} with {other:?}");
                        }
                    }
                }
                drop((queued, holding));
                assert!(manager.queues.lock().all().all(Queue::is_unused));
            });
        }
    }
}
