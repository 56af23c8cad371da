//! Locks and tickets: real queues with interruptible waits (facts/server.md 7).

pub mod manager;
pub mod tickets;

pub use manager::{LockManager, Resource};
pub use tickets::{Ticket, TicketPool};

/// The levels of the lock hierarchy, in the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Keeps writes out while a batch is applied.
    ParallelBatchWriterMode,
    /// Keeps the replica-set state from changing.
    ReplicationStateTransition,
    /// The whole server.
    Global,
    /// One database.
    Database,
    /// One collection.
    Collection,
}

impl Level {
    /// Its name in `$currentOp`.
    pub fn name(self) -> &'static str {
        match self {
            Level::ParallelBatchWriterMode => "ParallelBatchWriterMode",
            Level::ReplicationStateTransition => "ReplicationStateTransition",
            Level::Global => "Global",
            Level::Database => "Database",
            Level::Collection => "Collection",
        }
    }
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Some part below is read.
    IntentShared,
    /// Some part below is written.
    IntentExclusive,
    /// All of it is read.
    Shared,
    /// All of it is written.
    Exclusive,
}

impl Mode {
    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Mode::IntentShared => "IS",
            Mode::IntentExclusive => "IX",
            Mode::Shared => "S",
            Mode::Exclusive => "X",
        }
    }

    /// Its letter in `$currentOp`.
    pub fn letter(self) -> &'static str {
        match self {
            Mode::IntentShared => "r",
            Mode::IntentExclusive => "w",
            Mode::Shared => "R",
            Mode::Exclusive => "W",
        }
    }

    /// Whether both may be held at once by different operations.
    pub fn is_compatible(self, other: Mode) -> bool {
        use Mode::{Exclusive, IntentExclusive, IntentShared, Shared};
        match (self, other) {
            (Exclusive, _) | (_, Exclusive) => false,
            (Shared, IntentExclusive) | (IntentExclusive, Shared) => false,
            (IntentShared | IntentExclusive | Shared, IntentShared | IntentExclusive | Shared) => true,
        }
    }

    /// Whether who holds a lock in this mode need not ask for `other`.
    pub fn covers(self, other: Mode) -> bool {
        use Mode::{Exclusive, IntentExclusive, IntentShared, Shared};
        match (self, other) {
            (Exclusive, _) | (_, IntentShared) => true,
            (Shared, Shared) | (IntentExclusive, IntentExclusive) => true,
            (Shared | IntentExclusive | IntentShared, Shared | IntentExclusive | Exclusive) => false,
        }
    }

    /// The mode of the levels above a lock in this mode.
    pub fn intent(self) -> Mode {
        match self {
            Mode::IntentShared | Mode::Shared => Mode::IntentShared,
            Mode::IntentExclusive | Mode::Exclusive => Mode::IntentExclusive,
        }
    }
}
