//! Whether a consumer polls often enough to stay in its group, computed from its settings before it starts.
//!
//! Two answers: the rule of thumb that is on the safe side (facts/mission, "What the product advises"), and the exact
//! longest time between two polls for this kind of work, version and way of waiting (facts/client.md D4, D6).

use std::fmt;
use std::time::Duration;

use backfire_model::back_off::UnitRandom;

use crate::bounds::SplitMix64;
use crate::container::{BoundedMode, ContainerSettings, Mode, SpringMode, SpringWaits};
use crate::retry_state::RetrySettings;
use crate::spring_kafka::BatchRetryPolls;
use crate::work::WorkKind;

/// How long things take, as far as the application knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// A usual execution for one record, in milliseconds.
    pub normal_ms: u64,
    /// The longest execution for one record, in milliseconds: for a write with a socket timeout and a driver that sends
    /// twice, two socket timeouts.
    pub longest_ms: u64,
    /// The longest wait for a dead letter to be acknowledged, in milliseconds.
    pub dead_letter_ms: u64,
    /// Whether the work of a batch names the record that failed (`true`), never does (`false`), or may do both (`None`).
    pub names_failed_record: Option<bool>,
}

/// One part of the time between two polls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// What it is.
    pub name: &'static str,
    /// How it is computed.
    pub text: String,
    /// The time, in milliseconds; `None`: without a bound.
    pub ms: Option<u64>,
}

/// A rule, applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Which rule.
    pub name: String,
    /// The parts that add up.
    pub terms: Vec<Term>,
    /// `max.poll.interval.ms`.
    pub allowed_ms: u64,
}

impl Rule {
    /// The longest time between two polls, in milliseconds; `None`: without a bound.
    pub fn needed_ms(&self) -> Option<u64> {
        self.terms.iter().try_fold(0_u64, |sum, term| Some(sum.saturating_add(term.ms?)))
    }

    /// Whether the consumer stays in its group: the time is below the interval.
    pub fn fits(&self) -> bool {
        self.needed_ms().is_some_and(|needed_ms| needed_ms < self.allowed_ms)
    }

    /// The part that goes over the interval, when the parts before it are counted.
    pub fn breaks(&self) -> Option<&Term> {
        let mut sum = 0_u64;
        self.terms.iter().find(|term| match term.ms {
            None => true,
            Some(ms) => {
                sum = sum.saturating_add(ms);
                sum >= self.allowed_ms
            }
        })
    }

    /// The arithmetic on one line: `499 x 10 ms + 60000 ms = 64990 ms < 300000 ms`.
    pub fn arithmetic(&self) -> String {
        let terms: Vec<&str> = self.terms.iter().map(|term| term.text.as_str()).collect();
        let needed = self.needed_ms().map_or("no bound".to_owned(), |ms| format!("{ms} ms"));
        let relation = if self.fits() { "<" } else { ">=" };
        format!("{} = {needed} {relation} {} ms", terms.join(" + "), self.allowed_ms)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.arithmetic())?;
        match self.breaks() {
            Some(term) => write!(f, " (over the interval with: {})", term.name),
            None => Ok(()),
        }
    }
}

/// The answers for one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollBudget {
    /// The rule of thumb, on the safe side.
    pub safe: Rule,
    /// The exact rules that apply; a batch has one for each way it may fail.
    pub exact: Vec<Rule>,
    /// The largest `max.poll.records` that fits the rule of thumb; `None`: none does.
    pub largest_max_poll_records: Option<u64>,
}

impl PollBudget {
    /// Computes it. `kind` is what the work takes.
    pub fn new(settings: &ContainerSettings, kind: WorkKind, expected: Expected, interval: Duration) -> Self {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let records = settings.max_poll_records.max(1) as u64;
        let plan = Plan::of(&settings.retry);
        let (safe, largest_max_poll_records) = safe(records, expected, plan, interval_ms);
        let exact = match &settings.mode {
            Mode::Bounded(bounded) => vec![pause_and_poll(bounded, interval_ms)],
            Mode::Spring(spring) => spring_rules(spring, kind, records, expected, plan, interval_ms),
        };
        Self { safe, exact, largest_max_poll_records }
    }

    /// Whether all exact rules are kept.
    pub fn fits(&self) -> bool {
        self.exact.iter().all(Rule::fits)
    }
}

/// The retries of a record, counted.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// `None`: without a bound.
    executions: Option<u64>,
    /// The sum of the waits; `None`: without a bound.
    sum_ms: Option<u64>,
    longest_wait_ms: u64,
}

/// Series with more waits than this count as without a bound.
const MOST_WAITS: u64 = 100_000;

/// The longest draw, so that jitter counts in full.
struct Longest;

impl UnitRandom for Longest {
    fn next_unit(&mut self) -> f64 {
        1.0_f64.next_down()
    }
}

impl Plan {
    fn of(retry: &RetrySettings) -> Self {
        let mut series = retry.back_off.series(retry.spring, Longest).ok();
        let (mut sum_ms, mut longest_wait_ms, mut retries) = (0_u64, 0_u64, 0_u64);
        // Jitter of the bounds only shortens.
        let mut random = SplitMix64::new(0);
        let no_jitter = crate::bounds::Bounds { jitter: 0.0, ..retry.bounds };
        loop {
            let wait_ms = match &retry.custom {
                Some(custom) => custom.wait_ms(retries + 1),
                None => series.as_mut().and_then(Iterator::next),
            };
            let executions = u32::try_from(retries + 1).unwrap_or(u32::MAX);
            let wait_ms = wait_ms
                .map(|wait_ms| retry.wait_mode.takes_ms(no_jitter.spread(wait_ms, &mut random)))
                .filter(|wait_ms| no_jitter.spent(executions, sum_ms, *wait_ms).is_none());
            let Some(wait_ms) = wait_ms else {
                return Self { executions: Some(retries + 1), sum_ms: Some(sum_ms), longest_wait_ms };
            };
            sum_ms = sum_ms.saturating_add(wait_ms);
            longest_wait_ms = longest_wait_ms.max(wait_ms);
            retries += 1;
            if retries > MOST_WAITS {
                return Self { executions: None, sum_ms: None, longest_wait_ms };
            }
        }
    }
}

fn term(name: &'static str, text: String, ms: impl Into<Option<u64>>) -> Term {
    Term { name, text, ms: ms.into() }
}

fn safe(records: u64, expected: Expected, plan: Plan, allowed_ms: u64) -> (Rule, Option<u64>) {
    let per_record = plan
        .executions
        .zip(plan.sum_ms)
        .map(|(executions, sum_ms)| expected.longest_ms.saturating_mul(executions).saturating_add(sum_ms));
    let text = match plan.executions.zip(plan.sum_ms) {
        Some((executions, sum)) => format!("{records} x ({} ms x {executions} + {sum} ms)", expected.longest_ms),
        None => format!("{records} x ({} ms x executions without a bound)", expected.longest_ms),
    };
    let needed = per_record.map(|per_record| per_record.saturating_mul(records));
    let name = "max.poll.records x (longest execution x executions + sum of waits)".to_owned();
    let largest = match per_record {
        None => None,
        Some(0) => Some(u64::MAX),
        Some(per_record) => Some(allowed_ms.saturating_sub(1) / per_record).filter(|records| *records > 0),
    };
    (
        Rule { name, terms: vec![term("all records of a poll with all their retries", text, needed)], allowed_ms },
        largest,
    )
}

fn pause_and_poll(bounded: &BoundedMode, allowed_ms: u64) -> Rule {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (keep_alive, drain) = (ms(bounded.keep_alive), ms(bounded.drain_timeout));
    let terms =
        vec![term("draining before a rebalance", format!("max({keep_alive} ms, {drain} ms)"), keep_alive.max(drain))];
    Rule { name: "pause and poll".to_owned(), terms, allowed_ms }
}

fn spring_rules(
    spring: &SpringMode,
    kind: WorkKind,
    records: u64,
    expected: Expected,
    plan: Plan,
    allowed_ms: u64,
) -> Vec<Rule> {
    let Expected { normal_ms, longest_ms, dead_letter_ms, .. } = expected;
    let sleeps = spring.waits == SpringWaits::Sleep;
    let wait_ms = plan.longest_wait_ms;
    let others = term(
        "records handled before in this poll",
        format!("{} x {normal_ms} ms", records - 1),
        (records - 1).saturating_mul(normal_ms),
    );
    let execution = term("one execution", format!("{longest_ms} ms"), longest_ms);
    let wait = term("the longest wait", format!("{wait_ms} ms"), wait_ms);
    let letter = term("the dead letter", format!("{dead_letter_ms} ms"), dead_letter_ms);
    let waits = sleeps.then(|| wait.clone());
    let one_failed = |name: &str| Rule {
        name: format!("{name}, {}", if sleeps { "the wait is slept between two polls" } else { "paused for the wait" }),
        terms: [others.clone(), execution.clone()].into_iter().chain(waits.clone()).chain([letter.clone()]).collect(),
        allowed_ms,
    };
    if kind == WorkKind::Record {
        return vec![one_failed("record listener")];
    }
    let letters = term(
        "a dead letter for each record",
        format!("{records} x {dead_letter_ms} ms"),
        records.saturating_mul(dead_letter_ms),
    );
    let call = [others.clone(), execution.clone(), letters];
    let call_ms = call.iter().filter_map(|term| term.ms).fold(0_u64, u64::saturating_add);
    let (name, terms) = match spring.version.batch_retry_polls {
        BatchRetryPolls::BeforeWait => ("the wait and the next execution", [vec![wait], call.to_vec()].concat()),
        BatchRetryPolls::AroundWait if wait_ms > call_ms => ("the wait alone", vec![wait]),
        BatchRetryPolls::AroundWait | BatchRetryPolls::WhileWaiting => ("one execution", call.to_vec()),
    };
    let whole =
        Rule { name: format!("batch listener, whole batch again: {name} between two polls"), terms, allowed_ms };
    let index = one_failed("batch listener, failed record named");
    match expected.names_failed_record {
        Some(true) => vec![index],
        Some(false) => vec![whole],
        None => vec![index, whole],
    }
}

#[cfg(test)]
mod tests;
