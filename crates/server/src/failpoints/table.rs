//! Which fail points exist.

/// One fail point.
#[derive(Debug)]
pub struct FailPointRow {
    /// Its name in `configureFailPoint`.
    pub name: &'static str,
    /// What it does when it fires.
    pub doc: &'static str,
}

const fn row(name: &'static str, doc: &'static str) -> FailPointRow {
    FailPointRow { name, doc }
}

/// Fails, delays or drops commands before their session is checked out (facts/server.md 4.1).
pub const FAIL_COMMAND: &str = "failCommand";
/// Commits a retryable write and closes the connection instead of answering (facts/server.md 2.10).
pub const ON_PRIMARY_TRANSACTIONAL_WRITE: &str = "onPrimaryTransactionalWrite";
/// Holds an insert before its locks, at a place that checks for interrupts.
pub const HANG_DURING_BATCH_INSERT: &str = "hangDuringBatchInsert";
/// Holds an insert with ticket and locks, without checking for interrupts.
pub const HANG_WITH_LOCK_DURING_BATCH_INSERT: &str = "hangWithLockDuringBatchInsert";
/// Holds a find before its first batch, at a place that checks for interrupts.
pub const WAIT_IN_FIND_BEFORE_MAKING_BATCH: &str = "waitInFindBeforeMakingBatch";
/// Makes every operation with a `maxTimeMS` fail at its next interrupt point.
pub const MAX_TIME_ALWAYS_TIME_OUT: &str = "maxTimeAlwaysTimeOut";
/// Makes deadlines never expire.
pub const MAX_TIME_NEVER_TIME_OUT: &str = "maxTimeNeverTimeOut";
/// Holds a command after it ran and before it answers.
pub const WAIT_AFTER_COMMAND_FINISHES_EXECUTION: &str = "waitAfterCommandFinishesExecution";
/// Delays a command at the beginning of its run.
pub const SLEEP_MILLIS_AFTER_COMMAND_EXECUTION_BEGINS: &str = "sleepMillisAfterCommandExecutionBegins";
/// Fails a getMore after it took its cursor.
pub const FAIL_GET_MORE_AFTER_CURSOR_CHECKOUT: &str = "failGetMoreAfterCursorCheckout";
/// backfire's own: a command runs, and its answer is lost with its connection.
pub const LOSE_REPLY: &str = "loseReply";
/// backfire's own: a retryable write leaves no retry history.
pub const FORGET_RETRY_HISTORY: &str = "forgetRetryHistory";
/// backfire's own: a write stands still in the storage engine, with ticket and lock, deaf to interrupts.
pub const STALL_IN_ENGINE: &str = "stallInEngine";
/// backfire's own: a write stands still before its engine work, with ticket and lock, and does check for interrupts.
pub const STALL_INTERRUPTIBLE: &str = "stallInterruptible";
/// backfire's own: no session is given out.
pub const STALL_IN_SESSION_CHECKOUT: &str = "stallInSessionCheckout";
/// backfire's own: work in the engine takes time.
pub const SLOW_ENGINE: &str = "slowEngine";

/// All fail points.
pub const FAIL_POINTS: &[FailPointRow] = &[
    row(FAIL_COMMAND, "fails, delays or drops matching commands before their session is checked out"),
    row(
        ON_PRIMARY_TRANSACTIONAL_WRITE,
        "commits a write that has a txnNumber and closes the connection instead of answering",
    ),
    row(HANG_DURING_BATCH_INSERT, "holds an insert before its locks; maxTimeMS, killOp and killSessions end it"),
    row(HANG_WITH_LOCK_DURING_BATCH_INSERT, "holds an insert that has ticket and locks; nothing ends it"),
    row(WAIT_IN_FIND_BEFORE_MAKING_BATCH, "holds a find; maxTimeMS, killOp and killSessions end it"),
    row(MAX_TIME_ALWAYS_TIME_OUT, "every operation with a maxTimeMS fails at its next interrupt point"),
    row(MAX_TIME_NEVER_TIME_OUT, "deadlines never expire"),
    row(WAIT_AFTER_COMMAND_FINISHES_EXECUTION, "holds a command after it ran; data: {ns, commands}"),
    row(SLEEP_MILLIS_AFTER_COMMAND_EXECUTION_BEGINS, "delays a command as its run begins; data: {millis, commands}"),
    row(FAIL_GET_MORE_AFTER_CURSOR_CHECKOUT, "fails a getMore; data: {errorCode}"),
    row(
        LOSE_REPLY,
        "backfire's own: a command runs to its end, commitTransaction for example, and its connection closes instead of \
         answering; data: {commands, appName}",
    ),
    row(
        FORGET_RETRY_HISTORY,
        "backfire's own: a retryable write commits and leaves nothing in the retry history, so that a resend of it is \
         executed again, as after the server bugs SERVER-55305, SERVER-54626 and SERVER-89529",
    ),
    row(
        STALL_IN_ENGINE,
        "backfire's own: a write stands still in the engine with its ticket and locks, and neither maxTimeMS nor killOp \
         ends it; data: {namespace, appName, blockTimeMS}",
    ),
    row(
        STALL_INTERRUPTIBLE,
        "backfire's own: a write stands still with its ticket and locks at a place where maxTimeMS and killOp end it; \
         data: {namespace, appName, blockTimeMS}",
    ),
    row(
        STALL_IN_SESSION_CHECKOUT,
        "backfire's own: a write with a txnNumber waits for its session, whoever has it; maxTimeMS, killOp and killSessions \
         end it; data: {appName}",
    ),
    row(
        SLOW_ENGINE,
        "backfire's own: a write takes time in the engine, with its ticket and locks, deaf to interrupts; with tickets that \
         is a model of the server's capacity; data: {namespace, appName, meanMS, distribution: \"fixed\" or \
         \"exponential\"}",
    ),
];
