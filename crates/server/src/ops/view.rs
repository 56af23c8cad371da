//! What `$currentOp` shows of an operation, kept up to date by the stages it passes (facts/server.md 5.2, 5.3).

use bson::{Document, doc};
use bytes::Bytes;
use tokio::time::Instant;

use crate::locks::{Level, Mode};
use crate::sessions::SessionId;

/// The `op` field: what kind of work it is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// Any command, and every write until its statements run.
    Command,
    /// `find`.
    Query,
    /// `getMore`.
    GetMore,
    /// An insert's statements.
    Insert,
    /// An update's statements.
    Update,
    /// A delete's statements.
    Remove,
}

impl OpKind {
    /// Its name in `$currentOp`.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Command => "command",
            OpKind::Query => "query",
            OpKind::GetMore => "getmore",
            OpKind::Insert => "insert",
            OpKind::Update => "update",
            OpKind::Remove => "remove",
        }
    }
}

/// Locks held and waited for.
#[derive(Debug, Clone, Default)]
pub struct LockView {
    /// Held at the moment, by level.
    held: [Option<Mode>; Level::ALL.len()],
    /// Whether it waits in the lock manager. A wait for a ticket is not one (facts/server.md 7.1).
    pub waiting: bool,
    /// How often each was acquired.
    acquired: Counts,
    /// How often it had to wait for each.
    waited: Counts,
}

/// Numbers by level and mode. Every operation has them, so they are a plain array.
type Counts = [[u32; Mode::ALL.len()]; Level::ALL.len()];

/// The changing part of an operation that others may look at.
#[derive(Debug, Clone)]
pub struct OpView {
    /// `op`.
    pub kind: OpKind,
    /// `ns`.
    pub ns: String,
    /// Shown instead of the command as sent: a statement's own `{q, u, …}`.
    pub statement: Option<Bytes>,
    /// Since when `secs_running` counts; absent while held in `failCommand`.
    pub started: Option<Instant>,
    /// The session.
    pub lsid: Option<SessionId>,
    /// Set once the session is checked out: `transaction.parameters.txnNumber`.
    pub txn_number: Option<i64>,
    /// `planSummary`.
    pub plan_summary: Option<&'static str>,
    /// `msg`: the fail point it hangs in.
    pub msg: Option<&'static str>,
    /// The latch it waits for, and since when.
    pub latch: Option<(&'static str, Instant)>,
    /// How often it gave up its locks for others.
    pub yields: i32,
    /// How often a write conflicted.
    pub write_conflicts: i64,
    /// Locks.
    pub locks: LockView,
    /// The id of the cursor a getMore works on.
    pub cursor: Option<i64>,
}

impl OpView {
    /// The view of an operation that has just been read.
    pub fn new(ns: String) -> Self {
        Self {
            kind: OpKind::Command,
            ns,
            statement: None,
            started: None,
            lsid: None,
            txn_number: None,
            plan_summary: None,
            msg: None,
            latch: None,
            yields: 0,
            write_conflicts: 0,
            locks: LockView::default(),
            cursor: None,
        }
    }
}

impl LockView {
    /// A lock was granted.
    pub fn granted(&mut self, level: Level, mode: Mode) {
        self.held[level as usize] = Some(mode);
        self.acquired[level as usize][mode as usize] += 1;
    }

    /// It holds a lock that was granted to its transaction before.
    pub fn held_already(&mut self, level: Level, mode: Mode) {
        self.held[level as usize] = Some(mode);
    }

    /// It begins to wait for a lock.
    pub fn begin_wait(&mut self, level: Level, mode: Mode) {
        self.waiting = true;
        self.waited[level as usize][mode as usize] += 1;
    }

    /// How it holds this level at the moment.
    pub fn held_at(&self, level: Level) -> Option<Mode> {
        self.held[level as usize]
    }

    /// It has given up all its locks.
    pub fn released(&mut self) {
        self.held = Default::default();
    }

    /// The `locks` field.
    pub fn held_document(&self) -> Document {
        let held = Level::ALL.iter().zip(self.held);
        held.filter_map(|(level, mode)| Some((level.name().to_owned(), mode?.letter().into()))).collect()
    }

    /// The `lockStats` field.
    pub fn stats_document(&self) -> Document {
        let mut stats = Document::new();
        for (field, counts) in [("acquireCount", &self.acquired), ("acquireWaitCount", &self.waited)] {
            for (level, counts) in Level::ALL.iter().zip(counts) {
                for (mode, count) in Mode::ALL.iter().zip(counts).filter(|(_, count)| **count > 0) {
                    let entry = stats.entry(level.name().to_owned()).or_insert_with(|| doc! {}.into());
                    if let bson::Bson::Document(entry) = entry {
                        let modes = entry.entry(field.to_owned()).or_insert_with(|| doc! {}.into());
                        if let bson::Bson::Document(modes) = modes {
                            modes.insert(mode.letter(), i64::from(*count));
                        }
                    }
                }
            }
        }
        stats
    }
}
