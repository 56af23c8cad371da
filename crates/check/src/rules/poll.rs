//! Rules about the time between two polls.

use super::Rule;
use crate::finding::{Finding, Level};
use crate::kafka;
use crate::prediction::{Amount, Prediction};
use crate::service::{Listener, ListenerKind, Patience};
use crate::setting::shown_ms;

fn place(listener: &Listener) -> Option<&crate::source::Place> {
    listener.max_poll_interval_ms.place().or(listener.max_poll_records.place()).or(listener.place.as_ref())
}

/// An interval that fits, rounded up to half a minute.
fn fitting_interval_ms(needed_ms: u64) -> u64 {
    needed_ms.saturating_add(1).div_ceil(30_000).saturating_mul(30_000)
}

fn fix(listener: &Listener, prediction: &Prediction) -> String {
    let interval =
        prediction.exact_budget.needed_ms.most().map(|ms| format!("max.poll.interval.ms={}", fitting_interval_ms(ms)));
    let records = prediction
        .largest_poll_records
        .filter(|records| listener.max_poll_records.value.is_some_and(|now| *records < now))
        .map(|records| format!("max.poll.records={records}"));
    [records, interval].into_iter().flatten().collect::<Vec<_>>().join(", or ")
}

/// BF014.
pub const BUDGET: Rule = Rule {
    id: "BF014",
    name: "poll-budget-exceeded",
    level: Level::Error,
    summary: "The time between two polls can exceed `max.poll.interval.ms`.",
    why: "The consumer then leaves its group and its commit fails, while its listener call goes on. Another consumer runs the same \
          record beside it.",
    page: "Two budgets are shown. The first is on the safe side: max.poll.records x (longest execution x executions + sum of waits). \
           The second is exact for the kind of listener and the version: a record listener polls after each failure, a batch \
           listener waits within one poll or between polls (Spring Kafka 3.3.0, `SeekUtils`, `DefaultBackOffHandler`, \
           `ErrorHandlingUtils`; <https://github.com/spring-projects/spring-kafka/issues/2542>). An error is what exceeds the second; \
           what exceeds the first alone is a note.",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            let Some(allowed_ms) = listener.max_poll_interval_ms.value else { continue };
            let is_forever = context.service.client.patience() == Patience::Forever;
            let exact = &prediction.exact_budget;
            let safe = &prediction.safe_budget;
            if exact.is_exceeded() == Some(true) && !(is_forever && prediction.stall_ms.is_none()) {
                let without_dead_letter = dead_letter_ms(listener)
                    .and_then(|ms| Some(exact.needed_ms.most()?.saturating_sub(ms) < allowed_ms))
                    .unwrap_or(false);
                if without_dead_letter {
                    continue;
                }
                let message = format!(
                    "{}: {} between two polls, {} allowed: {}",
                    listener.name,
                    exact.needed_ms.shown_as_time(),
                    shown_ms(allowed_ms),
                    exact.arithmetic
                );
                findings.push(Finding::new(message).at(place(listener)).fix(fix(listener, prediction)));
            } else if safe.is_exceeded() == Some(true)
                && exact.is_exceeded() == Some(false)
                && listener.kind != ListenerKind::Sink
            {
                let message = format!(
                    "{}: the safe budget is exceeded, the exact one is not: {}",
                    listener.name, safe.arithmetic
                );
                let finding = Finding::new(message).at(place(listener)).level(Level::Note);
                findings.push(finding.fix("a smaller max.poll.records, so that a poll ends soon whatever happens"));
            }
        }
    },
};

/// What publishing a dead letter adds.
fn dead_letter_ms(listener: &Listener) -> Option<u64> {
    let publishes = listener.handler.recoverer.value == Some(crate::service::Recoverer::DeadLetter);
    (publishes && listener.handler.dead_letter_wait_ms > 0).then_some(listener.handler.dead_letter_wait_ms)
}

/// BF015.
pub const DEAD_LETTER: Rule = Rule {
    id: "BF015",
    name: "dead-letter-longer-than-budget",
    level: Level::Warning,
    summary: "Publishing the dead letter can take longer than the poll budget leaves.",
    why: "The recoverer waits for the send on the consumer's thread: `delivery.timeout.ms` and 5 s, 125 s with defaults. A broker that \
          is slow at the same time makes the consumer leave its group, and the record comes back.",
    page: "Lower `delivery.timeout.ms` of the producer that publishes dead letters (Spring Kafka 3.3.0, `DeadLetterPublishingRecoverer` and \
           `KafkaUtils`: it waits for that time and 5 s more).",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            let (Some(allowed_ms), Some(dead_letter_ms)) =
                (listener.max_poll_interval_ms.value, dead_letter_ms(listener))
            else {
                continue;
            };
            let Some(needed_ms) = prediction.exact_budget.needed_ms.most() else { continue };
            if needed_ms >= allowed_ms && needed_ms - dead_letter_ms < allowed_ms {
                let message = format!(
                    "{}: with {} for the dead letter there are {} between two polls, {} allowed",
                    listener.name,
                    shown_ms(dead_letter_ms),
                    shown_ms(needed_ms),
                    shown_ms(allowed_ms)
                );
                findings.push(
                    Finding::new(message)
                        .at(listener.handler.recoverer.place().or(place(listener)))
                        .fix("spring.kafka.producer.properties.delivery.timeout.ms=30000"),
                );
            }
        }
    },
};

/// BF030.
pub const NO_BOUND: Rule = Rule {
    id: "BF030",
    name: "execution-longer-than-poll-interval",
    level: Level::Error,
    summary: "One execution can last longer than `max.poll.interval.ms`: executions have no bound.",
    why: "The partition moves and the offset is never committed: each consumer counts its own attempts, and after the dead letter the \
          record comes back. One consumer alone is enough; with two, the record runs in both at once.",
    page: "Measured with two consumers: 9 executions and two dead letters, and it went on. Bound the execution with a \
           socket timeout or `timeoutMS` well below the interval.",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            let Some(allowed_ms) = listener.max_poll_interval_ms.value else { continue };
            if matches!(listener.handler.retries.value, Some(crate::service::Retries::Times(1))) && listener.is_assumed
            {
                continue;
            }
            let is_longer = match &prediction.execution_ms {
                Amount::Unbounded { .. } => {
                    context.has_client() && context.service.client.uri.as_ref().is_some_and(|uri| uri.parsed.is_some())
                }
                amount => amount.most().is_some_and(|most_ms| most_ms >= allowed_ms),
            };
            if is_longer && listener.kind != ListenerKind::Sink && !listener.is_asynchronous {
                let message = format!(
                    "{}: one execution can last {}, max.poll.interval.ms is {}: no bound on executions",
                    listener.name,
                    match &prediction.execution_ms {
                        Amount::Unbounded { .. } => "for ever".to_owned(),
                        amount => amount.shown_as_time(),
                    },
                    shown_ms(allowed_ms)
                );
                let client = &context.service.client;
                findings.push(
                    Finding::new(message)
                        .at(client.socket_timeout_ms.place().or(place(listener)))
                        .fix(client.bound((allowed_ms / 10).clamp(1_000, 30_000))),
                );
            }
        }
    },
};

/// BF048.
pub const HEARTBEAT: Rule = Rule {
    id: "BF048",
    name: "heartbeats-too-far-apart",
    level: Level::Warning,
    summary: "`heartbeat.interval.ms` is more than a third of `session.timeout.ms`.",
    why: "One or two heartbeats that are late, as in a long pause of the garbage collector, put the consumer out of its group. Its \
          partitions move, and the record that it executes runs in another consumer beside it.",
    page: "Three heartbeats should fit into a session (<https://kafka.apache.org/documentation/#consumerconfigs_heartbeat.interval.ms>). \
           An interval that is not below the session's timeout is refused by the client at its start: that is an error. With \
           `group.protocol=consumer` the broker says both.",
    check: |context, findings| {
        let service = context.service;
        let Some(properties) = &service.properties else { return };
        let Some((heartbeat, session)) = kafka::heartbeat_settings(properties, &service.versions) else { return };
        let (Some(heartbeat_ms), Some(session_ms)) = (heartbeat.value, session.value) else { return };
        if heartbeat_ms.saturating_mul(3) <= session_ms {
            return;
        }
        let (level, what) = match heartbeat_ms < session_ms {
            true => (Level::Warning, "fewer than three fit into"),
            false => (Level::Error, "the consumer does not start: it is not below"),
        };
        let message = format!(
            "a heartbeat every {}: {what} session.timeout.ms, {}",
            shown_ms(heartbeat_ms),
            shown_ms(session_ms)
        );
        findings.push(
            Finding::new(message)
                .level(level)
                .at(heartbeat.place().or(session.place()))
                .fix(format!("heartbeat.interval.ms={}", session_ms / 3)),
        );
    },
};
