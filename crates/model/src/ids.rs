//! Identifiers, each a type of its own.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// A logical session id, `lsid.id` on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lsid(pub Uuid);

impl fmt::Display for Lsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

number_id! {
    /// `txnNumber`: with the [`Lsid`], the identity of one write command over all its sends.
    TxnNumber(i64)
}
number_id! {
    /// A statement's number within a write command; what the server remembers per ([`Lsid`], [`TxnNumber`]).
    StmtId(i32)
}
number_id! {
    /// The number of a run of the application's write, from 1 (facts/mission: an execution is the first run or a retry).
    Execution(u32)
}
number_id! {
    /// A running operation's `opid`.
    OpId(i32)
}
number_id! {
    /// A connection's number at the server, as in `conn12`.
    ConnectionId(i64)
}
number_id! {
    /// The `requestID` of a message, chosen by its sender.
    RequestId(i32)
}

number_id! {
    /// A consumer of a group, from 1.
    ConsumerId(u32)
}

/// A record of a topic: what one logical write comes from. Its text is `partition-offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RecordId {
    /// The partition.
    pub partition: u32,
    /// The place in the partition.
    pub offset: u64,
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.partition, self.offset)
    }
}

impl From<RecordId> for String {
    fn from(record: RecordId) -> Self {
        record.to_string()
    }
}

impl TryFrom<String> for RecordId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.split_once('-').and_then(|(partition, offset)| {
            Some(Self { partition: partition.parse().ok()?, offset: offset.parse().ok()? })
        });
        parts.ok_or_else(|| format!("'{text}' is no record: it is a partition and an offset, such as 3-17"))
    }
}

/// A database and a collection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Namespace {
    /// The database's name.
    pub db: String,
    /// The collection's name; may hold dots.
    pub coll: String,
}

impl Namespace {
    /// A namespace from its two parts.
    pub fn new(db: impl Into<String>, coll: impl Into<String>) -> Self {
        Self { db: db.into(), coll: coll.into() }
    }

    /// Splits `db.coll` at the first dot; `None` when a part is missing.
    pub fn parse(text: &str) -> Option<Self> {
        let (db, coll) = text.split_once('.')?;
        (!db.is_empty() && !coll.is_empty()).then(|| Self::new(db, coll))
    }

    /// `db.coll`: the same text as that of [`fmt::Display`], made with less work.
    pub fn joined(&self) -> String {
        [&self.db, ".", &self.coll].concat()
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.db, self.coll)
    }
}
