//! Server parameters: `getParameter` and `setParameter`, one row each.

use std::sync::atomic::{AtomicI64, Ordering};

use bson::Bson;

use crate::error::{CommandError, Result};

/// Where a parameter may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settable {
    /// While the server runs.
    Runtime,
    /// Only when it starts.
    Startup,
}

/// What kind of value a parameter has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An int.
    Int,
    /// A bool, stored as 0 or 1.
    Bool,
}

/// One parameter.
#[derive(Debug)]
pub struct ParamRow {
    /// Which one it is, in code.
    pub id: Param,
    /// Its name.
    pub name: &'static str,
    /// Its default.
    pub default: i64,
    /// The smallest and largest value.
    pub range: (i64, i64),
    /// Int or bool.
    pub kind: Kind,
    /// When it may be set.
    pub settable: Settable,
    /// What it does.
    pub doc: &'static str,
}

/// The parameters that code asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Documented in the table, which help and reference are made from.
pub enum Param {
    WriteTickets,
    ReadTickets,
    SessionTimeoutMinutes,
    SessionRefreshMillis,
    TransactionRecordMinimumLifetimeMinutes,
    MaxSessions,
    EnableTestCommands,
    CursorTimeoutMillis,
    TtlMonitorSleepSecs,
    TtlMonitorEnabled,
    TransactionLifetimeSecs,
    TransactionLockTimeoutMillis,
    LabSessionTimeoutMillis,
    LabTicketWaitSliceMillis,
    LabRetryHistoryMax,
    LabMaxWriteBatchSize,
}

const fn row(
    id: Param,
    name: &'static str,
    default: i64,
    range: (i64, i64),
    settable: Settable,
    doc: &'static str,
) -> ParamRow {
    ParamRow { id, name, default, range, kind: Kind::Int, settable, doc }
}

/// All parameters. The order is that of [`Param`].
pub const PARAMS: &[ParamRow] = &[
    row(
        Param::WriteTickets,
        "wiredTigerConcurrentWriteTransactions",
        128,
        (5, 1_000_000),
        Settable::Runtime,
        "how many writes may be in the engine at once",
    ),
    row(
        Param::ReadTickets,
        "wiredTigerConcurrentReadTransactions",
        128,
        (5, 1_000_000),
        Settable::Runtime,
        "how many reads may be in the engine at once",
    ),
    row(
        Param::SessionTimeoutMinutes,
        "localLogicalSessionTimeoutMinutes",
        30,
        (1, 1_000_000),
        Settable::Startup,
        "how long an unused session lives",
    ),
    row(
        Param::SessionRefreshMillis,
        "logicalSessionRefreshMillis",
        300_000,
        (1, i32::MAX as i64),
        Settable::Startup,
        "how often expired sessions are looked for",
    ),
    row(
        Param::TransactionRecordMinimumLifetimeMinutes,
        "TransactionRecordMinimumLifetimeMinutes",
        30,
        (1, 1_000_000),
        Settable::Startup,
        "how long the retry history of a session is kept at least",
    ),
    row(
        Param::MaxSessions,
        "maxSessions",
        1_000_000,
        (1, 10_000_000),
        Settable::Startup,
        "how many sessions the cache holds; one more is refused with 261",
    ),
    ParamRow {
        id: Param::EnableTestCommands,
        name: "enableTestCommands",
        default: 1,
        range: (0, 1),
        kind: Kind::Bool,
        settable: Settable::Startup,
        doc: "whether configureFailPoint exists",
    },
    row(
        Param::CursorTimeoutMillis,
        "cursorTimeoutMillis",
        600_000,
        (1, i32::MAX as i64),
        Settable::Runtime,
        "how long an idle cursor lives",
    ),
    row(
        Param::TtlMonitorSleepSecs,
        "ttlMonitorSleepSecs",
        60,
        (1, i32::MAX as i64),
        Settable::Startup,
        "how often expired documents are looked for, in seconds",
    ),
    ParamRow {
        id: Param::TtlMonitorEnabled,
        name: "ttlMonitorEnabled",
        default: 1,
        range: (0, 1),
        kind: Kind::Bool,
        settable: Settable::Runtime,
        doc: "whether documents expire",
    },
    row(
        Param::TransactionLifetimeSecs,
        "transactionLifetimeLimitSeconds",
        60,
        (1, i32::MAX as i64),
        Settable::Runtime,
        "how long a multi-document transaction may be open",
    ),
    row(
        Param::TransactionLockTimeoutMillis,
        "maxTransactionLockRequestTimeoutMillis",
        5,
        (-1, i32::MAX as i64),
        Settable::Runtime,
        "how long a command of a multi-document transaction waits for a lock; -1: as long as it takes",
    ),
    row(
        Param::LabSessionTimeoutMillis,
        "labSessionTimeoutMillis",
        0,
        (0, i32::MAX as i64),
        Settable::Runtime,
        "backfire's own: the session timeout in milliseconds, over localLogicalSessionTimeoutMinutes; 0: not set",
    ),
    row(
        Param::LabTicketWaitSliceMillis,
        "labTicketWaitSliceMillis",
        500,
        (1, 60_000),
        Settable::Runtime,
        "backfire's own: how long a wait for a ticket sleeps between two interrupt checks",
    ),
    row(
        Param::LabRetryHistoryMax,
        "labRetryHistoryMax",
        1_000_000,
        (1, 100_000_000),
        Settable::Runtime,
        "backfire's own: how many statements the retry history holds; the oldest session's are dropped beyond it",
    ),
    row(
        Param::LabMaxWriteBatchSize,
        "labMaxWriteBatchSize",
        100_000,
        (1, 100_000),
        Settable::Runtime,
        "backfire's own: the maxWriteBatchSize of hello, by which drivers cut bulks into commands",
    ),
];

/// The values of one server.
#[derive(Debug)]
pub struct Params {
    values: Vec<AtomicI64>,
}

impl Default for Params {
    fn default() -> Self {
        Self { values: PARAMS.iter().map(|row| AtomicI64::new(row.default)).collect() }
    }
}

impl Params {
    /// The value of `param`.
    pub fn get(&self, param: Param) -> i64 {
        self.values[param as usize].load(Ordering::Relaxed)
    }

    /// Sets `param` without asking whether it may be set at runtime.
    pub fn force(&self, param: Param, value: i64) {
        self.values[param as usize].store(value, Ordering::Relaxed);
    }

    /// The row called `name`.
    pub fn find(name: &str) -> Option<&'static ParamRow> {
        PARAMS.iter().find(|row| row.name == name)
    }

    /// A value as `getParameter` shows it.
    pub fn show(&self, row: &ParamRow) -> Bson {
        match (row.kind, self.get(row.id)) {
            (Kind::Bool, value) => Bson::Boolean(value != 0),
            (Kind::Int, value) => i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32),
        }
    }

    /// Sets a parameter as `setParameter` does; returns the value it had.
    ///
    /// # Errors
    /// When it may only be set at startup, or the value has the wrong type or is out of range.
    pub fn set(&self, row: &ParamRow, value: &Bson) -> Result<Bson> {
        if row.settable == Settable::Startup {
            return Err(CommandError::new(20, format!("not allowed to change [{}] at runtime", row.name)));
        }
        let number = match value {
            Bson::Int32(number) => i64::from(*number),
            Bson::Int64(number) => *number,
            Bson::Double(number) if number.fract() == 0.0 => *number as i64,
            Bson::Boolean(flag) if row.kind == Kind::Bool => i64::from(*flag),
            other => {
                return Err(CommandError::bad_value(format!("Invalid value for parameter {}: {other}", row.name)));
            }
        };
        let (min, max) = row.range;
        if number < min && matches!(row.id, Param::WriteTickets | Param::ReadTickets) {
            return Err(CommandError::bad_value(format!("Minimum value for semaphore is {min}; given {number}")));
        }
        if !(min..=max).contains(&number) {
            return Err(CommandError::bad_value(format!(
                "Invalid value for parameter {}: {number} is not from {min} to {max}",
                row.name
            )));
        }
        let was = self.show(row);
        self.force(row.id, number);
        Ok(was)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_index() {
        for (at, row) in PARAMS.iter().enumerate() {
            assert_eq!(row.id as usize, at, "{}", row.name);
        }
    }

    #[test]
    fn values_are_checked() {
        let params = Params::default();
        let set =
            |name: &str, value: Bson| params.set(Params::find(name).unwrap(), &value).map_err(|error| error.message);
        assert_eq!(set("wiredTigerConcurrentWriteTransactions", 7.into()), Ok(128.into()));
        assert_eq!(
            set("wiredTigerConcurrentWriteTransactions", 3.into()),
            Err("Minimum value for semaphore is 5; given 3".into())
        );
        assert_eq!(set("maxSessions", 3.into()), Err("not allowed to change [maxSessions] at runtime".into()));
        assert!(set("cursorTimeoutMillis", "x".into()).unwrap_err().contains("Invalid value"));
        assert_eq!(params.get(Param::WriteTickets), 7);
    }
}
