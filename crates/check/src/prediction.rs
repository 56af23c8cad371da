//! The prediction for a listener: executions, sends, copies, the time to the dead letter, and the poll budget.
//!
//! Source of the rules: facts/client.md A2, A5, A6, B, D1 to D6, F1 to F14, and their corrections Y1, Y2, Y4. The worst case is
//! meant: every execution meets the stall, until it ends or the retries do.

use std::fmt;

use backfire_model::back_off::no_random;
use serde_json::{Value, json};

use crate::build::Version;
use crate::service::{Client, Listener, ListenerKind, Op, Patience, Recoverer, Retries, Service, Write};
use crate::setting::{counted, shown_ms};
use crate::situations::{self, Situation};

/// More waits than this are not added up.
const WAITS_MAX: usize = 10_000;

/// A number, as exactly as it can be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amount {
    /// Exactly this.
    Exact(u64),
    /// Something from one number to another.
    Range {
        /// The least.
        from: u64,
        /// The most.
        to: u64,
        /// Why it is not exact.
        why: String,
    },
    /// There is no bound.
    Unbounded {
        /// Why not.
        why: String,
    },
    /// It cannot be said.
    Unknown {
        /// Why not.
        why: String,
    },
}

impl Amount {
    fn unbounded(why: impl Into<String>) -> Self {
        Self::Unbounded { why: why.into() }
    }

    fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into() }
    }

    /// From `from` to `to`; exact where they are the same.
    pub fn range(from: u64, to: u64, why: impl Into<String>) -> Self {
        if from == to { Self::Exact(from) } else { Self::Range { from, to, why: why.into() } }
    }

    /// The most; `None`: no bound, or not known.
    pub fn most(&self) -> Option<u64> {
        match self {
            Self::Exact(number) | Self::Range { to: number, .. } => Some(*number),
            Self::Unbounded { .. } | Self::Unknown { .. } => None,
        }
    }

    /// The least; `None`: not known.
    pub fn least(&self) -> Option<u64> {
        match self {
            Self::Exact(number) | Self::Range { from: number, .. } => Some(*number),
            Self::Unbounded { .. } | Self::Unknown { .. } => None,
        }
    }

    /// Whether there is no bound.
    pub fn is_unbounded(&self) -> bool {
        matches!(self, Self::Unbounded { .. })
    }

    /// Why it is not exact.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Exact(_) => None,
            Self::Range { why, .. } | Self::Unbounded { why } | Self::Unknown { why } => Some(why),
        }
    }

    /// The number with what it counts: `1 execution`, `4 to 6 executions`, `executions without bound`.
    pub fn of(&self, one: &str, many: &str) -> String {
        match self {
            Self::Exact(number) => counted(number, one, many),
            Self::Range { from, to, .. } => format!("{from} to {to} {many}"),
            Self::Unbounded { .. } => format!("{many} without bound"),
            Self::Unknown { .. } => format!("an unknown number of {many}"),
        }
    }

    /// The number of executions.
    pub fn executions(&self) -> String {
        self.of("execution", "executions")
    }

    /// The number of copies.
    pub fn copies(&self) -> String {
        self.of("copy", "copies")
    }

    fn with(self, other: &Self, apply: impl Fn(u64, u64) -> u64) -> Self {
        match (self, other) {
            (Self::Unknown { why }, _) => Self::Unknown { why },
            (_, Self::Unknown { why }) => Self::unknown(why.clone()),
            (Self::Unbounded { why }, _) => Self::Unbounded { why },
            (_, Self::Unbounded { why }) => Self::unbounded(why.clone()),
            (one, other) => {
                let why = one.why().or(other.why()).unwrap_or_default().to_owned();
                let bounds = |amount: &Self| (amount.least().unwrap_or(0), amount.most().unwrap_or(0));
                let ((a, b), (c, d)) = (bounds(&one), bounds(other));
                Self::range(apply(a, c), apply(b, d), why)
            }
        }
    }

    pub(crate) fn times(self, other: &Self) -> Self {
        self.with(other, u64::saturating_mul)
    }

    fn plus(self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// As JSON: a number, or an object that says what is known and why not more.
    pub fn json(&self) -> Value {
        match self {
            Self::Exact(number) => json!(number),
            Self::Range { from, to, why } => json!({ "from": from, "to": to, "why": why }),
            Self::Unbounded { why } => json!({ "unbounded": true, "why": why }),
            Self::Unknown { why } => json!({ "unknown": true, "why": why }),
        }
    }

    /// As a time.
    pub fn shown_as_time(&self) -> String {
        match self {
            Self::Exact(ms) => shown_ms(*ms),
            Self::Range { from, to, .. } => format!("{} to {}", shown_ms(*from), shown_ms(*to)),
            Self::Unbounded { .. } => "no bound".to_owned(),
            Self::Unknown { .. } => "unknown".to_owned(),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(number) => write!(f, "{number}"),
            Self::Range { from, to, .. } => write!(f, "{from} to {to}"),
            Self::Unbounded { .. } => f.write_str("no bound"),
            Self::Unknown { .. } => f.write_str("unknown"),
        }
    }
}

/// A poll budget: what the time between two polls may be, and what it may need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// What is needed at most, in milliseconds.
    pub needed_ms: Amount,
    /// `max.poll.interval.ms`; `None`: not known.
    pub allowed_ms: Option<u64>,
    /// The rule, in words.
    pub rule: String,
    /// The rule with the numbers in it.
    pub arithmetic: String,
}

impl Budget {
    /// Whether it is exceeded; `None`: it cannot be said.
    pub fn is_exceeded(&self) -> Option<bool> {
        let allowed_ms = self.allowed_ms?;
        match &self.needed_ms {
            Amount::Unbounded { .. } => Some(true),
            amount => amount.most().map(|needed_ms| needed_ms >= allowed_ms),
        }
    }
}

/// What the settings promise for one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prediction {
    /// The listener's name.
    pub listener: String,
    /// The stall's length; `None`: longer than all retries.
    pub stall_ms: Option<u64>,
    /// How long one execution lasts when the server stands still.
    pub execution_ms: Amount,
    /// Sends of one execution's stalled command.
    pub sends_per_execution: Amount,
    /// Executions of one record.
    pub executions: Amount,
    /// Sends for one record.
    pub sends: Amount,
    /// Copies of one record's write.
    pub copies: Amount,
    /// The most copies of it at once.
    pub overlapping_copies_max: Amount,
    /// The most copies at once of all consumers' records that meet the same stall.
    pub overlapping_copies_all: Amount,
    /// From the first execution to the dead-letter topic, or to what else happens at the end.
    pub dead_letter_ms: Amount,
    /// mission.md's rule, on the safe side.
    pub safe_budget: Budget,
    /// The rule of this kind of listener and this version.
    pub exact_budget: Budget,
    /// How many records per poll fit the exact rule; `None`: none, or it cannot be said.
    pub largest_poll_records: Option<u64>,
    /// What becomes of a record in other situations than this stall.
    pub situations: Vec<Situation>,
}

/// The waits between executions.
struct Waits {
    executions: Amount,
    /// As they come, up to a limit.
    waits_ms: Vec<u64>,
    is_endless: bool,
}

fn waits(service: &Service, listener: &Listener) -> Waits {
    let Some(retries) = &listener.handler.retries.value else {
        let executions = Amount::unknown(listener.handler.retries.source.to_string());
        return Waits { executions, waits_ms: Vec::new(), is_endless: false };
    };
    let spring = service.spring();
    let bad = |error: String| Waits { executions: Amount::unknown(error), waits_ms: Vec::new(), is_endless: false };
    match retries {
        Retries::Times(executions) => {
            let count = usize::try_from(executions.saturating_sub(1)).unwrap_or(WAITS_MAX).min(WAITS_MAX);
            Waits { executions: Amount::Exact(*executions), waits_ms: vec![0; count], is_endless: false }
        }
        Retries::Annotation(annotation) => match (annotation.executions(), annotation.series()) {
            (Ok(executions), Ok(series)) => Waits {
                executions: executions.map_or_else(|| Amount::unbounded("no limit on attempts"), Amount::Exact),
                waits_ms: series.take(WAITS_MAX).collect(),
                is_endless: executions.is_none(),
            },
            (Err(error), _) | (_, Err(error)) => bad(error.to_string()),
        },
        Retries::BackOff(back_off) => {
            match (back_off.fewest_executions(spring), back_off.executions(spring), back_off.series(spring, no_random))
            {
                (Ok(fewest), Ok(most), Ok(series)) => Waits {
                    executions: match (fewest, most) {
                        (Some(fewest), Some(most)) => {
                            Amount::range(fewest, most, "jitter makes a limit on time inexact")
                        }
                        _ => Amount::unbounded("the back-off has no limit on retries"),
                    },
                    waits_ms: series.take(WAITS_MAX).collect(),
                    is_endless: most.is_none(),
                },
                (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => bad(error.to_string()),
            }
        }
    }
}

/// Sends of one command that meets a stall, within one execution.
pub fn sends_of_command(client: &Client, write: Option<&Write>) -> Amount {
    match client.patience() {
        // The command would not be sent at all (facts A7: too little time left).
        Patience::Operation(timeout_ms) if client.rtt_ms.is_some_and(|rtt_ms| rtt_ms >= timeout_ms) => Amount::Exact(0),
        Patience::Forever | Patience::Operation(_) => Amount::Exact(1),
        Patience::Unknown => Amount::range(1, 2, "the connection string is not known"),
        Patience::Socket(_) => match (client.retry_writes.value, write) {
            (Some(false), _) => Amount::Exact(1),
            _ if client.is_unacknowledged => Amount::Exact(1),
            (_, Some(write)) if !write.is_retryable(client.family) => Amount::Exact(1),
            (None, _) => Amount::range(1, 2, "retryWrites is not known"),
            (Some(true), Some(write)) if write.op == Op::Bulk && write.models.is_empty() => {
                Amount::range(1, 2, "it is not known whether the bulk holds a multi-document write")
            }
            (Some(true), Some(_)) => Amount::Exact(2),
            (Some(true), None) => Amount::range(1, 2, "the kind of write is not known"),
        },
    }
}

/// How long one command waits that meets a stall.
fn command_ms(client: &Client, sends: &Amount, write: Option<&Write>, stall_ms: Option<u64>) -> Amount {
    match client.patience() {
        Patience::Forever => match stall_ms {
            Some(stall_ms) => Amount::Exact(stall_ms),
            None => Amount::unbounded("the client waits for ever"),
        },
        Patience::Unknown => Amount::unknown("the socket timeout is not known"),
        Patience::Operation(timeout_ms) => Amount::Exact(timeout_ms),
        Patience::Socket(timeout_ms) => {
            let all = Amount::Exact(timeout_ms).times(sends);
            match write.and_then(|write| write.max_time_ms).filter(|max_time_ms| *max_time_ms < timeout_ms) {
                Some(max_time_ms) => Amount::range(
                    max_time_ms,
                    all.most().unwrap_or(max_time_ms),
                    "maxTimeMS ends it first only where the server checks for interrupts",
                ),
                None => all,
            }
        }
    }
}

/// The write that decides: one whose failure gets to the error handler, and of those the one whose commands are sent most often.
pub fn decisive<'a>(client: &Client, listener: &'a Listener) -> Option<&'a Write> {
    listener.writes.iter().max_by_key(|write| {
        let inner = layers(listener, Some(write)).0.most().unwrap_or(u64::MAX);
        let sends = sends_of_command(client, Some(write)).most().unwrap_or(u64::MAX);
        (write.is_reported(), inner.saturating_mul(sends))
    })
}

/// Executions within one of the handler's, and the waits between them: of retries around the listener's work, and around the write.
fn layers(listener: &Listener, write: Option<&Write>) -> (Amount, u64) {
    let around_all = listener.layers.iter().filter(|_| write.is_none_or(Write::is_reported));
    let mut executions = Amount::Exact(1);
    let mut waits_ms = 0_u64;
    for layer in around_all.chain(write.into_iter().flat_map(|write| &write.layers)) {
        let own = match layer.executions {
            Some(number) => Amount::Exact(number.max(1)),
            None => Amount::unknown(format!("the attempts of {} are not known", layer.name)),
        };
        executions = executions.times(&own);
        waits_ms = waits_ms.saturating_add(layer.waits_ms);
    }
    (executions, waits_ms)
}

/// Whether polls go on while a batch waits (facts/client.md D4): 3.3.16 and 4.0.8.
fn polls_in_batch_waits(version: Option<&Version>) -> bool {
    version.is_some_and(|version| match (version.major(), version.minor()) {
        (3, 3) => version.at_least([3, 3, 16]),
        (4, 0) => version.at_least([4, 0, 8]),
        _ => version.at_least([4, 1, 0]),
    })
}

/// Whether a batch's wait stands between two polls, and not one after the other with its execution (report R69).
fn polls_around_batch_waits(version: Option<&Version>) -> bool {
    version.is_none_or(|version| match (version.major(), version.minor()) {
        (2, 9) => version.at_least([2, 9, 5]),
        (3, 0) => version.at_least([3, 0, 2]),
        _ => version.at_least([3, 1, 0]),
    })
}

/// Predicts one listener of a service.
pub fn predict(service: &Service, listener: &Listener) -> Prediction {
    let client = &service.client;
    let stall_ms = service.stall_ms.as_ref().and_then(|setting| setting.value);
    let decisive = decisive(client, listener);
    let sends_per_command = sends_of_command(client, decisive);
    let command_ms = command_ms(client, &sends_per_command, decisive, stall_ms);
    let (inner, inner_waits_ms) = layers(listener, decisive);
    let execution_ms = command_ms.clone().times(&inner).plus(&Amount::Exact(inner_waits_ms));
    let waits = match decisive {
        // The error handler sees no failure of it.
        Some(write) if !write.is_reported() => {
            Waits { executions: Amount::Exact(1), waits_ms: Vec::new(), is_endless: false }
        }
        _ => waits(service, listener),
    };
    let sums = Sums::new(&waits, &execution_ms);
    let exact_budget = exact_budget(service, listener, &execution_ms, &waits);
    let safe_budget = safe_budget(listener, &execution_ms, &waits, &sums);

    let mut executions = waits.executions.clone().times(&inner);
    let mut overlapping = executions.clone();
    let mut stalled_sends = None;
    if let Some(stall_ms) = stall_ms {
        let commands = commands(client, &sends_per_command, decisive);
        let [all, sends, at_once] = match client.patience() {
            Patience::Forever => waited_out(stall_ms, listener),
            _ => within(stall_ms, &waits, &commands, &inner, inner_waits_ms),
        };
        (executions, overlapping, stalled_sends) = (all, at_once, Some(sends));
    } else if client.patience() == Patience::Forever && listener.is_asynchronous {
        executions = Amount::Exact(1);
        overlapping = executions.clone();
    } else if client.patience() == Patience::Forever {
        executions = Amount::unbounded(
            "the client waits for ever: one execution until max.poll.interval.ms has passed, then one more with each hand-over",
        );
        overlapping = executions.clone();
    }
    let allowed_ms = listener.max_poll_interval_ms.value;
    // A slow dead letter is another fault than a stalled server; it has a rule of its own.
    let gap_ms = exact_budget.needed_ms.most().map(|needed_ms| needed_ms - dead_letter_ms(listener).min(needed_ms));
    let hands_over = listener.kind != ListenerKind::Sink
        && gap_ms.is_some_and(|gap_ms| allowed_ms.is_some_and(|allowed_ms| gap_ms >= allowed_ms));
    let outlives = stall_ms.is_none_or(|stall_ms| allowed_ms.is_some_and(|allowed_ms| stall_ms > allowed_ms));
    if hands_over && outlives && !executions.is_unbounded() {
        executions = Amount::unbounded(
            "the time between polls exceeds max.poll.interval.ms: the partition moves, the offset is not committed, and the \
             record comes back",
        );
        overlapping = executions.clone();
        stalled_sends = None;
    }
    let has_deadline = matches!(client.patience(), Patience::Operation(_))
        || decisive.is_some_and(|write| write.max_time_ms.is_some());
    if let Some(most) = overlapping.most().filter(|_| has_deadline) {
        overlapping = Amount::range(
            1.min(most),
            most,
            "one at a time where the stalled place checks for interrupts, all where it does not",
        );
    }
    let sends = sends(client, listener, &executions, &sends_per_command, stalled_sends);
    let consumers = Amount::Exact(service.consumers.value.unwrap_or(1))
        .times(&Amount::Exact(listener.concurrency.value.unwrap_or(1).max(1)));
    let mut prediction = Prediction {
        listener: listener.name.clone(),
        stall_ms,
        execution_ms,
        sends_per_execution: sends_per_command.times(&inner),
        sends,
        copies: copies(client, listener, &executions),
        overlapping_copies_all: overlapping.clone().times(&consumers),
        overlapping_copies_max: overlapping,
        executions,
        dead_letter_ms: sums.total_ms,
        largest_poll_records: largest_poll_records(listener, &exact_budget),
        safe_budget,
        exact_budget,
        situations: Vec::new(),
    };
    prediction.situations = situations::of_prediction(service, listener, &prediction);
    prediction
}

/// A client without a timeout waits until the stall ends; only a hand-over makes a second execution.
fn waited_out(stall_ms: u64, listener: &Listener) -> [Amount; 3] {
    let hand_overs = match listener.max_poll_interval_ms.value {
        Some(allowed_ms) if listener.kind != ListenerKind::Sink && !listener.is_asynchronous => {
            stall_ms / allowed_ms.max(1)
        }
        _ => 0,
    };
    let why = "one more with each max.poll.interval.ms that passes, where another consumer takes the partition";
    let executions = Amount::range(1, hand_overs.saturating_add(1), why);
    [executions.clone(), executions.clone(), executions]
}

/// The longest wait for publishing, to the dead-letter topic or the next retry topic.
fn dead_letter_ms(listener: &Listener) -> u64 {
    match (listener.kind, listener.handler.recoverer.value) {
        (ListenerKind::RetryTopic, _) | (_, Some(Recoverer::DeadLetter)) => listener.handler.dead_letter_wait_ms,
        _ => 0,
    }
}

/// What waits add up to.
struct Sums {
    waits_ms: Amount,
    total_ms: Amount,
}

impl Sums {
    fn new(waits: &Waits, execution_ms: &Amount) -> Self {
        let sum: u64 = waits.waits_ms.iter().fold(0, |sum, wait_ms| sum.saturating_add(*wait_ms));
        let waits_ms = match &waits.executions {
            _ if waits.is_endless => Amount::unbounded("the retries have no end"),
            Amount::Unknown { why } => Amount::unknown(why.clone()),
            _ => Amount::Exact(sum),
        };
        let total_ms = execution_ms.clone().times(&waits.executions).plus(&waits_ms);
        Self { waits_ms, total_ms }
    }
}

/// What is counted until a stall ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    executions: u64,
    sends: u64,
    /// Executions that began before the stall's end: their copies run at its end, all at once.
    overlapping: u64,
}

/// How one command behaves: how long each send waits, and how many sends there are.
type Command = (u64, u64);

/// The behaviours that are possible; more than one where something is not known.
fn commands(client: &Client, sends: &Amount, write: Option<&Write>) -> Vec<Command> {
    match client.patience() {
        Patience::Forever | Patience::Unknown => Vec::new(),
        Patience::Operation(timeout_ms) => vec![(timeout_ms, sends.most().unwrap_or(1))],
        Patience::Socket(timeout_ms) => {
            let counts = [sends.least(), sends.most()].into_iter().flatten();
            let mut found: Vec<Command> = counts.map(|count| (timeout_ms, count)).collect();
            let max_time_ms = write.and_then(|write| write.max_time_ms);
            found.extend(
                max_time_ms.filter(|max_time_ms| *max_time_ms < timeout_ms).map(|max_time_ms| (max_time_ms, 1)),
            );
            found.dedup();
            found
        }
    }
}

/// Counts until the stall ends or the retries do. `inner` executions run within each of the handler's, `inner_wait_ms` apart.
fn walk(stall_ms: u64, waits_ms: &[u64], (send_ms, sends): Command, inner: u64, inner_wait_ms: u64) -> Run {
    let mut run = Run { executions: 0, sends: 0, overlapping: 0 };
    let mut now_ms = 0_u64;
    let mut waits = waits_ms.iter();
    loop {
        for index in 0..inner {
            run.executions += 1;
            run.overlapping += u64::from(now_ms < stall_ms);
            for _ in 0..sends {
                run.sends += 1;
                now_ms = now_ms.saturating_add(send_ms);
                // The send that waits when the stall ends is answered, and so is one that comes after it.
                if now_ms > stall_ms {
                    return run;
                }
            }
            if index + 1 < inner {
                now_ms = now_ms.saturating_add(inner_wait_ms);
            }
        }
        match waits.next() {
            Some(wait_ms) => now_ms = now_ms.saturating_add(*wait_ms),
            None => return run,
        }
    }
}

/// Executions, sends and overlapping copies for a stall of this length.
fn within(stall_ms: u64, waits: &Waits, commands: &[Command], inner: &Amount, inner_waits_ms: u64) -> [Amount; 3] {
    let all = |why: &str| [Amount::unknown(why), Amount::unknown(why), Amount::unknown(why)];
    if let Amount::Unknown { why } = &waits.executions {
        return all(why);
    }
    let Some(inner) = inner.most() else { return all("the attempts of an inner retry are not known") };
    let inner = inner.clamp(1, WAITS_MAX as u64);
    let inner_wait_ms = inner_waits_ms / inner.saturating_sub(1).max(1);
    let runs: Vec<Run> =
        commands.iter().map(|command| walk(stall_ms, &waits.waits_ms, *command, inner, inner_wait_ms)).collect();
    let is_cut = waits.waits_ms.len() == WAITS_MAX;
    let over = |count: fn(&Run) -> u64| match (runs.iter().map(count).min(), runs.iter().map(count).max()) {
        (Some(from), Some(to)) if !(is_cut && to >= WAITS_MAX as u64) => {
            Amount::range(from, to, "the kind of write, its retries or its deadline are not certain")
        }
        (Some(_), Some(_)) => Amount::unbounded(format!("more than {WAITS_MAX} executions before the stall ends")),
        _ => Amount::unknown("the socket timeout is not known"),
    };
    [over(|run| run.executions), over(|run| run.sends), over(|run| run.overlapping)]
}

/// All sends for one record. A bulk of several commands may send each of them in every execution (facts F7).
fn sends(
    client: &Client,
    listener: &Listener,
    executions: &Amount,
    per_command: &Amount,
    counted: Option<Amount>,
) -> Amount {
    let stalled = counted.unwrap_or_else(|| executions.clone().times(per_command));
    let commands: Option<Vec<(u64, u64)>> = listener
        .writes
        .iter()
        .map(|write| Some((write.commands()?, sends_of_command(client, Some(write)).most()?)))
        .collect();
    match commands {
        Some(commands) => {
            let most: u64 = commands.iter().map(|(count, sends)| count * sends).sum();
            let all: u64 = commands.iter().map(|(count, _)| count).sum();
            match (&stalled, executions.most()) {
                (_, Some(times)) if all > 1 => Amount::range(
                    stalled.least().unwrap_or(0),
                    times.saturating_mul(most),
                    format!(
                        "{all} commands in each execution: the fewest when the first stalls, the most when each stalls once and recovers"
                    ),
                ),
                _ => stalled,
            }
        }
        None => match stalled.least() {
            Some(least) => {
                Amount::unknown(format!("at least {least}; how many commands one execution sends is not known"))
            }
            None => stalled,
        },
    }
}

/// All copies for one record: of the commands of a bulk, a finished one is sent again by every execution, as another write
/// (facts F7, F8). Resends of one command are the same copy.
fn copies(client: &Client, listener: &Listener, executions: &Amount) -> Amount {
    let commands: Option<u64> = listener.writes.iter().map(Write::commands).sum();
    // A client that waits for ever never gets beyond the command that stands still.
    match commands.filter(|commands| *commands > 1 && client.patience() != Patience::Forever) {
        Some(commands) => executions.clone().times(&Amount::range(
            1,
            commands,
            format!("{commands} commands in each execution, each a copy of its own: the fewest when the first stalls"),
        )),
        None => executions.clone(),
    }
}

/// mission.md: `max.poll.records x (longest execution x executions + sum of waits)`.
fn safe_budget(listener: &Listener, execution_ms: &Amount, waits: &Waits, sums: &Sums) -> Budget {
    let records = poll_records(listener);
    let each = execution_ms.clone().plus(&Amount::Exact(listener.record_ms.value.unwrap_or(0)));
    let needed_ms = records.clone().times(&each.clone().times(&waits.executions).plus(&sums.waits_ms));
    let arithmetic = format!(
        "{records} x ({} x {} + {}) = {}",
        each.shown_as_time(),
        waits.executions,
        sums.waits_ms.shown_as_time(),
        needed_ms.shown_as_time(),
    );
    let rule = "max.poll.records x (longest execution x executions + sum of waits) < max.poll.interval.ms".to_owned();
    Budget { needed_ms, allowed_ms: listener.max_poll_interval_ms.value, rule, arithmetic }
}

fn poll_records(listener: &Listener) -> Amount {
    match listener.max_poll_records.value {
        Some(records) => Amount::Exact(records),
        None => Amount::unknown("max.poll.records is not known"),
    }
}

/// The longest time between two polls, of this kind of listener and this version (facts D6, D4; report R69).
fn exact_budget(service: &Service, listener: &Listener, execution_ms: &Amount, waits: &Waits) -> Budget {
    let version = service.spring_kafka();
    let record_ms = listener.record_ms.value.unwrap_or(0);
    let longest_wait_ms = waits.waits_ms.iter().copied().max().unwrap_or(0);
    let dead_letter_ms = dead_letter_ms(listener);
    let earlier = poll_records(listener).with(&Amount::Exact(1), u64::saturating_sub).times(&Amount::Exact(record_ms));
    let execution = execution_ms.clone().with(&Amount::Exact(record_ms), u64::max);
    let wait = |name: &str, ms: u64| (name.to_owned(), Amount::Exact(ms));
    let mut terms = vec![("earlier records".to_owned(), earlier), ("one execution".to_owned(), execution)];
    let rule = match listener.kind {
        ListenerKind::Single | ListenerKind::RetryTopic if listener.is_asynchronous => {
            terms.clear();
            if listener.kind == ListenerKind::Single && !listener.handler.pauses {
                terms.push(wait("longest wait", longest_wait_ms));
            }
            "longest wait + dead letter: the listener gives back what is not done yet, and polls go on"
        }
        ListenerKind::Single if listener.handler.pauses => {
            "(max.poll.records - 1) x normal time + one execution + dead letter; the container is paused for the wait"
        }
        ListenerKind::Single => {
            terms.push(wait("longest wait", longest_wait_ms));
            "(max.poll.records - 1) x normal time + one execution + longest wait + dead letter: a failure ends the poll"
        }
        ListenerKind::Batch if polls_in_batch_waits(version) => {
            "(max.poll.records - 1) x normal time + one execution + dead letter: this version polls during the wait"
        }
        ListenerKind::Batch if polls_around_batch_waits(version) => {
            let execution = terms.iter().fold(Amount::Exact(0), |sum, (_, amount)| sum.plus(amount));
            if execution.most().is_some_and(|most| most < longest_wait_ms) {
                terms = vec![wait("longest wait", longest_wait_ms)];
            }
            "the longer of the batch's execution and the longest wait, + dead letter: this version polls before and after the wait"
        }
        ListenerKind::Batch => {
            terms.push(wait("longest wait", longest_wait_ms));
            "(max.poll.records - 1) x normal time + one execution + longest wait + dead letter: this version polls only before the wait"
        }
        ListenerKind::RetryTopic => {
            "(max.poll.records - 1) x normal time + one execution + publishing to the next topic"
        }
        ListenerKind::Sink => "max.poll.records x normal time + one execution: put() runs between two polls",
    };
    if dead_letter_ms > 0 {
        terms.push(wait("dead letter", dead_letter_ms));
    }
    let needed_ms = terms.iter().fold(Amount::Exact(0), |sum, (_, amount)| sum.plus(amount));
    let parts: Vec<String> =
        terms.iter().map(|(name, amount)| format!("{} ({name})", amount.shown_as_time())).collect();
    let arithmetic = format!("{} = {}", parts.join(" + "), needed_ms.shown_as_time());
    Budget { needed_ms, allowed_ms: listener.max_poll_interval_ms.value, rule: rule.to_owned(), arithmetic }
}

/// How many records per poll fit: what one record more costs is its normal time.
fn largest_poll_records(listener: &Listener, budget: &Budget) -> Option<u64> {
    let record_ms = listener.record_ms.value.filter(|record_ms| *record_ms > 0)?;
    let records = listener.max_poll_records.value?;
    let rest_ms = budget.needed_ms.most()?.saturating_sub(records.saturating_sub(1).saturating_mul(record_ms));
    let free_ms = budget.allowed_ms?.checked_sub(rest_ms + 1)?;
    Some(free_ms / record_ms + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// facts/client.md F3 for constant waits: the most sends at the server at once when each takes the stall's time by itself is
    /// another question; here the stall ends for all at one instant. Checked against counting instant by instant.
    fn brute(stall_ms: u64, waits_ms: &[u64], (send_ms, sends): Command, inner: u64, inner_wait_ms: u64) -> Run {
        let mut run = Run { executions: 0, sends: 0, overlapping: 0 };
        // What happens next, as (time, what): a list of all sends there would be without an answer.
        let mut planned: Vec<(u64, bool)> = Vec::new();
        let mut start_ms = 0;
        for handler in 0..=waits_ms.len() {
            for index in 0..inner {
                for send in 0..sends {
                    planned.push((start_ms + send * send_ms, send == 0));
                }
                start_ms += sends * send_ms + if index + 1 < inner { inner_wait_ms } else { 0 };
            }
            start_ms += waits_ms.get(handler).copied().unwrap_or(0);
        }
        // A send is answered when the stall ends while it waits, or has ended before.
        let answered = planned.iter().position(|(at_ms, _)| at_ms + send_ms > stall_ms);
        for (at_ms, is_first) in &planned[..answered.map_or(planned.len(), |index| index + 1)] {
            run.sends += 1;
            run.executions += u64::from(*is_first);
            run.overlapping += u64::from(*is_first && *at_ms < stall_ms);
        }
        run
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, cases: 10_000, ..Default::default() })]

        #[test]
        fn counting_within_a_stall(
            stall_ms in 0u64..400,
            waits_ms in proptest::collection::vec(0u64..50, 0..12),
            send_ms in 1u64..60,
            sends in 1u64..3,
            inner in 1u64..4,
            inner_wait_ms in 0u64..20,
        ) {
            let command = (send_ms, sends);
            let run = walk(stall_ms, &waits_ms, command, inner, inner_wait_ms);
            proptest::prop_assert_eq!(run, brute(stall_ms, &waits_ms, command, inner, inner_wait_ms));
            proptest::prop_assert!(run.sends <= run.executions * sends && run.overlapping <= run.executions);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// The prediction of scenarios counts the same for a stall that outlives the application.
        #[test]
        fn as_the_model_predicts(
            waits_ms in proptest::collection::vec(0u64..50_000, 0..12),
            send_ms in 1u64..60_000,
            resends in proptest::bool::ANY,
        ) {
            use backfire_model::predict::{Command, CommandName, Effect, Plan, Stall, Statement, predict};
            let statements = vec![Statement { effect: Effect::NewDocuments(1), document: 0 }];
            let plan = Plan {
                socket_timeout_ms: Some(send_ms),
                timeout_ms: None,
                commands: vec![Command { name: CommandName::Insert, resends, statements }],
                max_time_ms: None,
                has_jitter: false,
                inner_waits_ms: Vec::new(),
                retry_budget: None,
                starts_over: None,
                resends_without_limit: false,
                overload_retries: 0,
                cancel_after_ms: None,
                gateway: None,
                resets_on_exception_change: true,
                waits_ms: waits_ms.clone(),
                stall: Stall::Engine,
                stall_from_ms: 0,
                stall_for_ms: None,
                stall_command: None,
                write_tickets: 128,
                ticket_slice_ms: 500,
                deadline_counts_fail_point: false,
                hang_up_after_ms: None,
                held_reads: 0,
                seeded: 0,
                seeded_documents: Vec::new(),
            };
            let counts = predict(&plan).map(|prediction| prediction.counts);
            let run = walk(u64::MAX, &waits_ms, (send_ms, if resends { 2 } else { 1 }), 1, 0);
            let same = counts.map(|counts| (counts.executions, counts.sends, counts.overlapping_copies_max));
            proptest::prop_assert_eq!(same, Ok((run.executions, run.sends, run.overlapping)));
        }
    }

    #[test]
    fn a_stall_that_outlives_the_retries_gives_the_published_numbers() {
        let run = walk(u64::MAX, &[0, 0, 0], (30_000, 2), 1, 0);
        assert_eq!(run, Run { executions: 4, sends: 8, overlapping: 4 });
    }

    #[test]
    fn amounts_add_and_multiply_with_what_is_not_known() {
        let range = Amount::range(1, 2, "r");
        assert_eq!(range.clone().times(&Amount::Exact(3)), Amount::range(3, 6, "r"));
        assert!(Amount::Exact(1).plus(&Amount::unbounded("u")).is_unbounded());
        assert_eq!(Amount::unknown("x").times(&range).why(), Some("x"));
        assert_eq!(range.executions(), "1 to 2 executions");
        assert_eq!(Amount::Exact(1).copies(), "1 copy");
    }
}
