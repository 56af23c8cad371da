//! Open cursors.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rand::{Rng, RngExt};
use tokio::time::Instant;

use crate::error::{CommandError, Result};
use crate::ops::Op;
use crate::sessions::SessionId;
use crate::storage::Value;

/// How many cursors may be open at once.
const MAX_OPEN: usize = 100_000;

/// What a bounded amount of work has brought.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<T> {
    /// Something.
    Found(T),
    /// Nothing yet.
    Nothing,
    /// The end: there is nothing more.
    End,
}

/// What happens at the end of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tails {
    /// Its cursor ends.
    No,
    /// Its cursor stays open, and can be asked again.
    Yes,
    /// The same, and `getMore` waits a while for new documents.
    AndWaits,
}

/// Where a cursor's documents come from, one after another.
pub trait DocumentSource: Send {
    /// Does a bounded amount of work.
    ///
    /// # Errors
    /// When the query cannot go on; that ends the cursor.
    fn step(&mut self) -> Result<Step<Value>>;

    /// An operation is about to read from it.
    fn begin(&mut self, _op: &Arc<Op>) {}

    /// Whether it knows without another step that there is nothing more.
    fn is_at_end(&self) -> bool {
        false
    }

    /// Whether it goes on behind its end when there are new documents.
    fn tails(&self) -> Tails {
        Tails::No
    }

    /// Whether one step can take so long that it belongs on a thread of its own.
    fn is_long(&self) -> bool {
        false
    }
}

/// Documents that are already there.
struct List(std::vec::IntoIter<Value>);

impl DocumentSource for List {
    fn step(&mut self) -> Result<Step<Value>> {
        Ok(self.0.next().map_or(Step::End, Step::Found))
    }

    fn is_at_end(&self) -> bool {
        self.0.len() == 0
    }
}

/// A cursor that is open on the server.
pub struct Cursor {
    /// Its id.
    pub id: i64,
    /// The namespace it belongs to.
    pub ns: String,
    /// The session it was opened in.
    pub lsid: Option<SessionId>,
    /// Whose it is: the digest of the user who opened it.
    pub owner: [u8; 32],
    /// The transaction it was opened in.
    pub transaction: Option<i64>,
    /// The command that opened it.
    pub originating_command: Bytes,
    /// The documents left.
    pub source: Box<dyn DocumentSource>,
    /// A document that was read and did not fit into the last batch.
    pub pushed_back: Option<Value>,
    /// Never expires by itself.
    pub no_timeout: bool,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("id", &self.id).field("ns", &self.ns).finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Slot {
    Idle {
        cursor: Box<Cursor>,
        since: Instant,
    },
    /// A getMore works on it; `killed`: it must not come back.
    InUse {
        ns: String,
        lsid: Option<SessionId>,
        owner: [u8; 32],
        transaction: Option<i64>,
        killed: bool,
    },
}

/// All open cursors.
#[derive(Debug, Default)]
pub struct Cursors {
    slots: Mutex<BTreeMap<i64, Slot>>,
    timed_out: AtomicU64,
    refused: AtomicU64,
}

/// What became of a cursor that was to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killed {
    /// It is gone, or will be when its getMore ends.
    Yes,
    /// There was none.
    NotFound,
}

fn not_found(id: i64) -> CommandError {
    CommandError::new(43, format!("cursor id {id} not found"))
}

fn of_another_transaction(id: i64, opened: Option<i64>, used: Option<i64>) -> CommandError {
    let (code, text) = match (opened, used) {
        (None, used) => {
            let used = used.unwrap_or_default();
            (50739, format!("which was not created in a transaction, in transaction {used}"))
        }
        (Some(opened), None) => (50740, format!("which was created in transaction {opened}, without a txnNumber")),
        (Some(opened), Some(used)) => {
            (50741, format!("which was created in transaction {opened}, in transaction {used}"))
        }
    };
    CommandError::new(code, format!("Cannot run getMore on cursor {id}, {text}"))
}

impl Cursors {
    /// Keeps a cursor; returns its id.
    ///
    /// # Errors
    /// When too many are open.
    pub fn add(&self, mut cursor: Cursor, rng: &Mutex<impl Rng>) -> Result<i64> {
        let mut slots = self.slots.lock();
        if slots.len() >= MAX_OPEN {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(CommandError::new(146, format!("too many open cursors: the limit is {MAX_OPEN}")));
        }
        loop {
            let id = rng.lock().random::<i64>() & i64::MAX;
            if id != 0 && !slots.contains_key(&id) {
                cursor.id = id;
                slots.insert(id, Slot::Idle { cursor: Box::new(cursor), since: Instant::now() });
                return Ok(id);
            }
        }
    }

    /// Takes a cursor for a getMore. Nobody else can have it until [`Cursors::check_in`].
    ///
    /// # Errors
    /// 43 when there is none, 143 when it is in use, 13 when it belongs to another namespace or to somebody else, 50739 to
    /// 50741 when it belongs to another transaction.
    pub fn check_out(&self, id: i64, ns: &str, owner: [u8; 32], transaction: Option<i64>) -> Result<Box<Cursor>> {
        let mut slots = self.slots.lock();
        match slots.get(&id) {
            None | Some(Slot::InUse { killed: true, .. }) => Err(not_found(id)),
            Some(Slot::InUse { .. }) => Err(CommandError::new(143, format!("cursor id {id} is already in use"))),
            Some(Slot::Idle { cursor, .. }) if cursor.ns != ns => Err(CommandError::new(
                13,
                format!(
                    "Requested getMore on namespace '{ns}', but cursor belongs to a different namespace {}",
                    cursor.ns
                ),
            )),
            Some(Slot::Idle { cursor, .. }) if cursor.owner != owner => {
                Err(CommandError::new(13, format!("cursor id {id} was not created by the authenticated user")))
            }
            Some(Slot::Idle { cursor, .. }) if cursor.transaction != transaction => {
                Err(of_another_transaction(id, cursor.transaction, transaction))
            }
            Some(Slot::Idle { cursor, .. }) => {
                let in_use = Slot::InUse {
                    ns: cursor.ns.clone(),
                    lsid: cursor.lsid,
                    owner: cursor.owner,
                    transaction: cursor.transaction,
                    killed: false,
                };
                match slots.insert(id, in_use) {
                    Some(Slot::Idle { cursor, .. }) => Ok(cursor),
                    _ => Err(not_found(id)),
                }
            }
        }
    }

    /// Gives a cursor back; it is dropped if it was killed meanwhile, or when there is nothing left (`None`).
    pub fn check_in(&self, id: i64, cursor: Option<Box<Cursor>>) {
        let mut slots = self.slots.lock();
        let killed = matches!(slots.get(&id), Some(Slot::InUse { killed: true, .. }) | None);
        match cursor {
            Some(cursor) if !killed => drop(slots.insert(id, Slot::Idle { cursor, since: Instant::now() })),
            _ => drop(slots.remove(&id)),
        }
    }

    /// Kills a cursor.
    pub fn kill(&self, id: i64) -> Killed {
        let mut slots = self.slots.lock();
        match slots.get_mut(&id) {
            None => Killed::NotFound,
            Some(Slot::InUse { killed, .. }) => {
                *killed = true;
                Killed::Yes
            }
            Some(Slot::Idle { .. }) => {
                slots.remove(&id);
                Killed::Yes
            }
        }
    }

    /// The namespace and the owner of a cursor.
    pub fn of(&self, id: i64) -> Option<(String, [u8; 32])> {
        match self.slots.lock().get(&id)? {
            Slot::Idle { cursor, .. } => Some((cursor.ns.clone(), cursor.owner)),
            Slot::InUse { ns, owner, .. } => Some((ns.clone(), *owner)),
        }
    }

    fn kill_where(&self, chosen: impl Fn(&str, Option<&SessionId>, Option<i64>) -> bool) {
        self.slots.lock().retain(|_, slot| match slot {
            Slot::Idle { cursor, .. } => !chosen(&cursor.ns, cursor.lsid.as_ref(), cursor.transaction),
            Slot::InUse { ns, lsid, transaction, killed, .. } => {
                *killed |= chosen(ns, lsid.as_ref(), *transaction);
                true
            }
        });
    }

    /// Kills the cursors that were opened in a transaction.
    pub fn kill_of_transaction(&self, session: &SessionId, number: i64) {
        self.kill_where(|_, lsid, transaction| lsid == Some(session) && transaction == Some(number));
    }

    /// Kills the cursors of these sessions.
    pub fn kill_of_sessions(&self, sessions: &HashSet<SessionId>) {
        self.kill_where(|_, lsid, _| lsid.is_some_and(|lsid| sessions.contains(lsid)));
    }

    /// Kills the cursors of the sessions that `chosen` picks.
    pub fn kill_of_sessions_where(&self, chosen: impl Fn(&SessionId) -> bool) {
        self.kill_where(|_, lsid, _| lsid.is_some_and(&chosen));
    }

    /// Kills the cursors on a namespace that is dropped.
    pub fn kill_of_namespace(&self, namespace: &str) {
        self.kill_where(|ns, _, _| ns == namespace);
    }

    /// Drops cursors that nobody has used for `idle`.
    pub fn expire(&self, idle: Duration) {
        let mut dropped = 0;
        self.slots.lock().retain(|_, slot| match slot {
            Slot::Idle { cursor, since } if !cursor.no_timeout && since.elapsed() >= idle => {
                dropped += 1;
                false
            }
            _ => true,
        });
        self.timed_out.fetch_add(dropped, Ordering::Relaxed);
    }

    /// (open, pinned by a getMore, timed out, refused).
    pub fn counts(&self) -> (usize, usize, u64, u64) {
        let slots = self.slots.lock();
        let pinned = slots.values().filter(|slot| matches!(slot, Slot::InUse { .. })).count();
        (slots.len(), pinned, self.timed_out.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// The idle cursors, of everybody or of one user, for `$currentOp` with `idleCursors`: (id, namespace, session,
    /// command).
    pub fn idle(&self, owner: Option<[u8; 32]>) -> Vec<(i64, String, Option<SessionId>, Bytes)> {
        let slots = self.slots.lock();
        slots
            .values()
            .filter_map(|slot| match slot {
                Slot::Idle { cursor, .. } => owner
                    .is_none_or(|owner| owner == cursor.owner)
                    .then(|| (cursor.id, cursor.ns.clone(), cursor.lsid, cursor.originating_command.clone())),
                Slot::InUse { .. } => None,
            })
            .collect()
    }
}

/// A list of documents as a source.
pub fn from_list(documents: Vec<Value>) -> Box<dyn DocumentSource> {
    Box::new(List(documents.into_iter()))
}

/// An [`Arc`] of a document's bytes.
pub fn value_of(document: &bson::RawDocument) -> Value {
    document.as_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::NOBODY;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn cursors() -> (Cursors, Mutex<ChaCha8Rng>) {
        (Cursors::default(), Mutex::new(ChaCha8Rng::seed_from_u64(1)))
    }

    fn cursor(ns: &str, lsid: Option<SessionId>) -> Cursor {
        Cursor {
            id: 0,
            ns: ns.into(),
            lsid,
            owner: NOBODY,
            transaction: None,
            originating_command: Bytes::new(),
            source: from_list(Vec::new()),
            pushed_back: None,
            no_timeout: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cursor_has_one_user_and_ends_when_killed_or_idle() {
        let (cursors, rng) = cursors();
        let id = cursors.add(cursor("a.b", None), &rng).unwrap();
        assert_eq!(cursors.check_out(id, "a.c", NOBODY, None).unwrap_err().code, 13);
        assert_eq!(cursors.check_out(id, "a.b", NOBODY, Some(1)).unwrap_err().code, 50739);
        let taken = cursors.check_out(id, "a.b", NOBODY, None).unwrap();
        assert_eq!(cursors.check_out(id, "a.b", NOBODY, None).unwrap_err().code, 143);
        assert_eq!(cursors.kill(id), Killed::Yes);
        cursors.check_in(id, Some(taken));
        assert_eq!(cursors.check_out(id, "a.b", NOBODY, None).unwrap_err().code, 43);
        assert_eq!(cursors.kill(id), Killed::NotFound);

        cursors.add(cursor("a.b", None), &rng).unwrap();
        tokio::time::advance(Duration::from_secs(10)).await;
        cursors.expire(Duration::from_secs(11));
        assert_eq!(cursors.counts().0, 1);
        cursors.expire(Duration::from_secs(10));
        assert_eq!(cursors.counts(), (0, 0, 1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_take_their_cursors_along() {
        let (cursors, rng) = cursors();
        let session = SessionId::of_nobody(uuid::Uuid::from_bytes([1; 16]));
        cursors.add(cursor("a.b", Some(session)), &rng).unwrap();
        cursors.add(cursor("a.b", None), &rng).unwrap();
        cursors.kill_of_sessions(&HashSet::from([session]));
        assert_eq!(cursors.counts().0, 1);
    }
}
