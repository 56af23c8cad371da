//! How a container runs.

use std::time::Duration;

use crate::poll_budget::Expected;
use crate::retry_state::{RetrySettings, WaitMode};
use crate::spring_kafka::SpringKafkaVersion;

/// What is committed when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AckMode {
    /// Before each poll: what the records of the last one left (Spring Kafka's default, facts/client.md D1).
    #[default]
    Batch,
    /// After each record.
    Record,
    /// As `Batch`, but only what the work acknowledged.
    Manual,
    /// What the work acknowledged, as soon as it returns.
    ManualImmediate,
}

/// A container's settings. [`ContainerSettings::default`] is the mode to use; [`ContainerSettings::spring`] is for
/// showing and predicting what Spring Kafka does.
#[derive(Debug, Clone)]
pub struct ContainerSettings {
    /// Whose rules it follows.
    pub mode: Mode,
    /// When a record is tried again, and what then.
    pub retry: RetrySettings,
    /// What is committed when.
    pub ack_mode: AckMode,
    /// The most records of one poll (Kafka's `max.poll.records`).
    pub max_poll_records: usize,
    /// How long a poll waits for records.
    pub poll_timeout: Duration,
    /// Whether records carry the header `kafka_deliveryAttempt`. It costs a copy of each record.
    pub delivery_attempt_header: bool,
    /// How long executions take, as far as the application knows: with it the poll budget is computed at the start.
    pub expected: Option<Expected>,
    /// What is done about a poll budget that does not fit.
    pub over_poll_budget: OverPollBudget,
    /// How long the source may fail before the container gives up.
    pub source_patience: Duration,
}

/// What is done about a poll budget that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverPollBudget {
    /// The container does not start.
    #[default]
    Refuse,
    /// A warning in the log.
    Warn,
}

/// Whose rules a container follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Ours: it polls while it executes or waits, so that its poll interval never passes.
    Bounded(BoundedMode),
    /// Spring Kafka's.
    Spring(SpringMode),
}

/// The settings of our own mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundedMode {
    /// How often it polls while it executes, at least; it learns of a rebalance within this time.
    pub keep_alive: Duration,
    /// How long a rebalance, or a stop, is held up for an execution that runs. It has to be below the poll interval.
    pub drain_timeout: Duration,
    /// How long one execution should take at most.
    pub attempt_budget: Option<Duration>,
    /// What is done about an execution that takes longer.
    pub over_budget: OverBudget,
    /// What is done with a batch whose retries are spent and of which nobody knows which record failed.
    pub whole_batch: WholeBatch,
    /// How many partitions are executed at once, each by one execution at most. With more than one, records are also taken
    /// while lanes are executed: up to eight polls of them, or 4 MiB, are kept.
    pub partitions_at_once: usize,
}

impl Default for BoundedMode {
    /// A poll per second, 30 s to drain, executions reported that run longer than a minute, one at a time.
    fn default() -> Self {
        Self {
            keep_alive: Duration::from_secs(1),
            drain_timeout: Duration::from_secs(30),
            attempt_budget: Some(Duration::from_secs(60)),
            over_budget: OverBudget::Report,
            whole_batch: WholeBatch::OneByOne,
            partitions_at_once: 1,
        }
    }
}

/// What is done about an execution that runs longer than its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverBudget {
    /// The observer is told, once per budget; the execution goes on.
    #[default]
    Report,
    /// It is dropped and counts as failed, with the class [`ATTEMPT_BUDGET_SPENT`]. What it began on a server goes on
    /// there: a write that was sent is not taken back.
    Cancel,
}

/// The class of the failure of an execution that was dropped because its budget was spent.
pub const ATTEMPT_BUDGET_SPENT: &str = "backfire.AttemptBudgetSpentException";

/// The class of the failure of an execution that was dropped because the container was to stop and
/// [`BoundedMode::drain_timeout`] was over. Its records are not committed.
pub const STOPPED: &str = "backfire.ConsumerStoppedException";

/// What is done with a batch whose retries are spent and of which nobody knows which record failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WholeBatch {
    /// Its records are executed one by one, so that only those that fail are given up.
    #[default]
    OneByOne,
    /// All its records are given up, as in Spring Kafka.
    GiveUpAll,
}

/// The settings of a Spring Kafka container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpringMode {
    /// Which version.
    pub version: SpringKafkaVersion,
    /// `setSeekAfterError(false)`: what was polled is kept in memory after a failure instead of being fetched again.
    pub keep_records: bool,
    /// How it waits.
    pub waits: SpringWaits,
    /// `pollTimeoutWhilePaused`.
    pub poll_timeout_while_paused: Duration,
    /// `setResetStateOnExceptionChange(true)` set explicitly, which later versions apply to whole batches too (D4).
    pub batch_reset_on_exception_change: bool,
}

/// How a Spring Kafka container waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpringWaits {
    /// It sleeps on the consumer thread: no poll meanwhile (`DefaultBackOffHandler`).
    #[default]
    Sleep,
    /// It pauses and goes on polling (`ContainerPausingBackOffHandler`, since 2.9).
    PauseContainer,
}

impl Default for ContainerSettings {
    /// Our own mode, bounded retries.
    fn default() -> Self {
        Self {
            mode: Mode::Bounded(BoundedMode::default()),
            retry: RetrySettings::bounded(),
            ack_mode: AckMode::Batch,
            max_poll_records: 500,
            poll_timeout: Duration::from_secs(5),
            delivery_attempt_header: false,
            expected: None,
            over_poll_budget: OverPollBudget::Refuse,
            source_patience: Duration::from_secs(300),
        }
    }
}

impl ContainerSettings {
    /// What a version of Spring Kafka does when nothing is set but the back-off (facts/client.md D1, D4).
    pub fn spring(version: SpringKafkaVersion) -> Self {
        Self {
            mode: Mode::Spring(SpringMode {
                version,
                keep_records: false,
                waits: SpringWaits::Sleep,
                poll_timeout_while_paused: Duration::from_millis(100),
                batch_reset_on_exception_change: false,
            }),
            retry: RetrySettings {
                reset_on_exception_change: version.reset_on_exception_change,
                wait_mode: WaitMode::Slices,
                ..RetrySettings::default()
            },
            over_poll_budget: OverPollBudget::Warn,
            ..Self::default()
        }
    }
}
