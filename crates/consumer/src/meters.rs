//! What a consumer measures, through the `metrics` facade: a service installs the recorder it likes, such as one for
//! Prometheus.

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::record::TopicPartition;

/// A metric: name, and what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $help:literal;)*) => {
        $($(#[$doc])* pub const $id: Metric = Metric { name: $name, help: $help };)*
        /// Every metric.
        pub const METRICS: &[Metric] = &[$($id),*];
    };
}

metrics! {
    /// Counter, label `outcome`: `ok`, `failed`.
    EXECUTIONS = "backfire_consumer_executions_total", "Executions of the work, by outcome";
    /// Histogram in seconds.
    EXECUTION_TIME = "backfire_consumer_execution_seconds", "How long an execution took";
    /// Histogram in seconds.
    WAITS = "backfire_consumer_wait_seconds", "Waits before a retry";
    /// Counter.
    DEAD_LETTERS = "backfire_consumer_dead_letters_total", "Records given up";
    /// Counter.
    RECOVERY_FAILURES = "backfire_consumer_recovery_failures_total", "Records that could not be made dead letters, tries counted";
    /// Counter.
    COMMIT_FAILURES = "backfire_consumer_commit_failures_total", "Commits that failed";
    /// Counter.
    OVER_BUDGET = "backfire_consumer_over_budget_total", "Times that an execution ran for one more budget";
    /// Counter.
    HANDED_OVER = "backfire_consumer_handed_over_total", "Records whose partition was handed over while they were executed";
    /// Counter.
    REBALANCES = "backfire_consumer_rebalances_total", "Assignments of partitions";
    /// Histogram, 1 is all of it.
    POLL_INTERVAL_USED = "backfire_consumer_poll_interval_used_ratio", "Time between two polls as a part of max.poll.interval.ms";
    /// Gauge, labels `topic` and `partition`.
    LAG = "backfire_consumer_lag_records", "Records not delivered yet";
}

/// The handles of one consumer. They are got once, so that a record costs no look-up.
#[derive(Debug)]
pub(crate) struct Meters {
    pub(crate) succeeded: Counter,
    pub(crate) failed: Counter,
    pub(crate) execution_time: Histogram,
    pub(crate) waits: Histogram,
    pub(crate) dead_letters: Counter,
    pub(crate) recovery_failures: Counter,
    pub(crate) commit_failures: Counter,
    pub(crate) over_budget: Counter,
    pub(crate) handed_over: Counter,
    pub(crate) rebalances: Counter,
    pub(crate) poll_interval_used: Histogram,
}

impl Meters {
    pub(crate) fn new() -> Self {
        let counters =
            [DEAD_LETTERS, RECOVERY_FAILURES, COMMIT_FAILURES, OVER_BUDGET, HANDED_OVER, REBALANCES, EXECUTIONS];
        counters.iter().for_each(|metric| describe_counter!(metric.name, Unit::Count, metric.help));
        [EXECUTION_TIME, WAITS].iter().for_each(|metric| describe_histogram!(metric.name, Unit::Seconds, metric.help));
        describe_histogram!(POLL_INTERVAL_USED.name, POLL_INTERVAL_USED.help);
        describe_gauge!(LAG.name, Unit::Count, LAG.help);
        Self {
            succeeded: counter!(EXECUTIONS.name, "outcome" => "ok"),
            failed: counter!(EXECUTIONS.name, "outcome" => "failed"),
            execution_time: histogram!(EXECUTION_TIME.name),
            waits: histogram!(WAITS.name),
            dead_letters: counter!(DEAD_LETTERS.name),
            recovery_failures: counter!(RECOVERY_FAILURES.name),
            commit_failures: counter!(COMMIT_FAILURES.name),
            over_budget: counter!(OVER_BUDGET.name),
            handed_over: counter!(HANDED_OVER.name),
            rebalances: counter!(REBALANCES.name),
            poll_interval_used: histogram!(POLL_INTERVAL_USED.name),
        }
    }

    /// The lag of a partition; asked for once per poll at most.
    pub(crate) fn lag(partition: &TopicPartition) -> Gauge {
        gauge!(LAG.name, "topic" => partition.topic.to_string(), "partition" => partition.partition.to_string())
    }
}
