//! Rules about the application's retries.

use backfire_model::back_off::{BackOff, JitterRule, no_random};

use super::{Context, Rule};
use crate::finding::{Finding, Level};
use crate::service::{Listener, ListenerKind, Recoverer, Retries};
use crate::setting::shown_ms;
use crate::sources;

/// Where a listener's retries are set, or the listener itself.
fn place(listener: &Listener) -> Option<&crate::source::Place> {
    listener.handler.retries.place().or(listener.handler.place.as_ref()).or(listener.place.as_ref())
}

fn back_off(listener: &Listener) -> Option<&BackOff> {
    match &listener.handler.retries.value {
        Some(Retries::BackOff(back_off)) => Some(back_off),
        _ => None,
    }
}

const HANDLER: &str = "@Bean\nDefaultErrorHandler errorHandler(KafkaOperations<?, ?> operations) {\n    var backOff = new ExponentialBackOffWithMaxRetries(3);\n    backOff.setInitialInterval(1_000);\n    backOff.setMultiplier(2);\n    return new DefaultErrorHandler(new DeadLetterPublishingRecoverer(operations), backOff);\n}";

/// BF007.
pub const DEFAULT_HANDLER: Rule = Rule {
    id: "BF007",
    name: "default-handler",
    level: Level::Warning,
    summary: "The listener uses Spring Kafka's default error handler: ten executions, no wait between them.",
    why: "A stalled write becomes ten copies that run at once, and twenty sends with `retryWrites`. Then the record is logged and \
          dropped.",
    page: "`FixedBackOff(0, 9)` is the default since Spring Kafka 2.8; there is no property for it, only a bean (`SeekUtils`, `DefaultErrorHandler`). Give \
           a `DefaultErrorHandler` with few retries, growing waits and a dead-letter topic.",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            if listener.handler.is_default && listener.kind != ListenerKind::Sink {
                let message = format!(
                    "{}: default error handler: {}, {}, at once {} of one record's write",
                    listener.name,
                    prediction.executions.executions(),
                    prediction.sends.of("send", "sends"),
                    prediction.overlapping_copies_max.copies()
                );
                findings.push(Finding::new(message).at(place(listener)).fix(HANDLER));
            }
        }
    },
};

/// BF008.
pub const IMMEDIATE: Rule = Rule {
    id: "BF008",
    name: "immediate-back-off",
    level: Level::Warning,
    summary: "Retries follow each other without a wait.",
    why: "Each execution adds a copy the moment the one before it timed out, so all of them overlap. A wait slows the pile-up and \
          lets a short stall pass; it does not prevent copies while the server stands still.",
    page: "Use exponential back-off with a maximum number of retries (Spring Kafka, `ExponentialBackOffWithMaxRetries`).",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            let is_immediate = match back_off(listener) {
                Some(back_off @ (BackOff::Fixed(_) | BackOff::Exponential(_) | BackOff::ExponentialMaxRetries(_))) => {
                    back_off.series(context.service.spring(), no_random).is_ok_and(|series| {
                        series.take(2).fold((0, true), |(n, all), wait| (n + 1, all && wait == 0)) != (0, true)
                            && back_off
                                .series(context.service.spring(), no_random)
                                .is_ok_and(|mut s| s.next() == Some(0))
                    })
                }
                _ => false,
            };
            if is_immediate && !listener.handler.is_default && listener.is_reported() {
                let message = format!("{}: no wait between {}", listener.name, prediction.executions.executions());
                findings.push(Finding::new(message).at(place(listener)).fix(HANDLER));
            }
        }
    },
};

/// BF009.
pub const UNLIMITED: Rule = Rule {
    id: "BF009",
    name: "unlimited-back-off",
    level: Level::Error,
    summary: "The retries have no end.",
    why: "A record that cannot be written blocks its partition for ever, and every execution adds a copy. It never reaches a \
          dead-letter topic.",
    page: "`FixedBackOff()` without arguments waits 5 s and never stops; `ExponentialBackOff` has no limit unless `setMaxElapsedTime` \
           or, from Spring Framework 6.1, `setMaxAttempts` is set; its steps end at 30 s (Spring Framework, `FixedBackOff` and \
           `ExponentialBackOff`; <https://github.com/spring-projects/spring-framework/pull/27071>).",
    check: |context, findings| {
        for (listener, _) in context.listeners() {
            let Some(back_off) = back_off(listener) else { continue };
            if back_off.executions(context.service.spring()) == Ok(None) {
                let steps: Vec<String> = back_off
                    .series(context.service.spring(), no_random)
                    .map(|series| series.take(10).map(shown_ms).collect())
                    .unwrap_or_default();
                let message = format!("{}: unbounded retries; waits {}, ...", listener.name, steps.join(", "));
                findings.push(Finding::new(message).at(place(listener)).fix(HANDLER));
            }
        }
    },
};

/// BF010.
pub const EXCEPTION_CHANGE: Rule = Rule {
    id: "BF010",
    name: "exception-change-restarts",
    level: Level::Warning,
    summary: "Another class of exception starts the series of retries anew.",
    why: "A stall gives a read timeout first and, when an earlier copy has won, a duplicate key: the count starts again. Exceptions \
          that alternate never exhaust the retries.",
    page: "Since Spring Kafka 2.9 `resetStateOnExceptionChange` is true by default; a wrapper's root class counts. Spring Data gives \
           `DataAccessResourceFailureException`, `DuplicateKeyException` and `UncategorizedMongoDbException` for what one stall makes (Spring Kafka 3.3.0, `FailedRecordTracker`; Spring Data MongoDB 4.4.0, \
           `MongoExceptionTranslator`; <https://github.com/spring-projects/spring-kafka/issues/2641>). In a batch's fallback it does \
           not restart (`ErrorHandlingUtils`).",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            let retries = prediction.executions.most().is_none_or(|most| most > 1);
            let is_reset = listener.handler.resets_on_exception_change.value == Some(true);
            let counts = matches!(listener.kind, ListenerKind::Single)
                && !matches!(listener.handler.retries.value, Some(Retries::Times(1)));
            if is_reset && retries && counts && !listener.handler.is_default && context.service.is_spring() {
                let message = format!(
                    "{}: {} hold for one class of exception; a change starts them anew",
                    listener.name,
                    prediction.executions.executions()
                );
                findings.push(
                    Finding::new(message)
                        .at(listener.handler.resets_on_exception_change.place().or(place(listener)))
                        .fix("errorHandler.setResetStateOnExceptionChange(false);"),
                );
            }
        }
    },
};

/// BF011.
pub const RECOVERY_FAILURE: Rule = Rule {
    id: "BF011",
    name: "recovery-failure-restarts",
    level: Level::Warning,
    summary: "A recoverer that fails starts the whole series anew.",
    why: "While the dead-letter topic cannot be written, the record runs through all its retries again and again. The number of \
          executions then has no bound.",
    page: "`resetStateOnRecoveryFailure` is true by default; with false there is one execution per redelivery (Spring Kafka 3.3.0, \
           `FailedRecordTracker`).",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            let can_fail = matches!(listener.handler.recoverer.value, Some(Recoverer::DeadLetter | Recoverer::Own));
            let applies = matches!(listener.kind, ListenerKind::Single | ListenerKind::Batch);
            if context.service.is_spring()
                && can_fail
                && listener.is_reported()
                && applies
                && listener.handler.resets_on_recovery_failure.value == Some(true)
            {
                let message = format!(
                    "{}: {} become unbounded while the dead letter cannot be published",
                    listener.name,
                    prediction.executions.executions()
                );
                findings.push(
                    Finding::new(message)
                        .at(listener.handler.recoverer.place().or(place(listener)))
                        .fix("errorHandler.setResetStateOnRecoveryFailure(false);"),
                );
            }
        }
    },
};

/// BF012.
pub const JITTER_INEXACT: Rule = Rule {
    id: "BF012",
    name: "jitter-makes-limit-inexact",
    level: Level::Warning,
    summary: "Jitter is used with `ExponentialBackOffWithMaxRetries`.",
    why: "That class keeps its limit as a sum of waits, and jitter changes the sum. There can be several retries more than asked for.",
    page: "Use `ExponentialBackOff` with `setMaxAttempts` where jitter is wanted. The limit is a sum of waits without \
           jitter (Spring Kafka 3.3.0, `ExponentialBackOffWithMaxRetries`): 10 retries from 1 s, doubled up to 10 s, with 500 ms of jitter \
           became 11 to 15 in 2000 runs.",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            if let Some(BackOff::ExponentialMaxRetries(growing)) = back_off(listener)
                && growing.jitter_ms > 0
                && has_jitter(context)
            {
                let message = format!(
                    "{}: {} executions in place of {}",
                    listener.name,
                    prediction.executions,
                    growing.max_retries + 1
                );
                let fix = format!(
                    "var backOff = new ExponentialBackOff();\nbackOff.setMaxAttempts({});",
                    growing.max_retries
                );
                findings.push(Finding::new(message).at(place(listener)).fix(fix));
            }
        }
    },
};

fn has_jitter(context: &Context<'_>) -> bool {
    context.service.spring().row().jitter != JitterRule::None
}

/// BF013.
pub const JITTER_UNKNOWN: Rule = Rule {
    id: "BF013",
    name: "jitter-not-in-version",
    level: Level::Error,
    summary: "Jitter is asked of a version of Spring that has none.",
    why: "`ExponentialBackOff.setJitter` came with Spring Framework 7.0; with 5.3 to 6.2 the code does not compile, or fails when it \
          is called by reflection. Many consumers then retry in step.",
    page: "Spring Kafka 3.x runs on Spring Framework 6, and `setJitter` came with 7.0 (Spring Framework 7.0.0, `ExponentialBackOff`).",
    check: |context, findings| {
        for (listener, _) in context.listeners() {
            let jitter_ms = match back_off(listener) {
                Some(BackOff::Exponential(growing)) => growing.jitter_ms,
                Some(BackOff::ExponentialMaxRetries(growing)) => growing.jitter_ms,
                _ => 0,
            };
            if jitter_ms > 0 && !has_jitter(context) {
                let message = format!(
                    "{}: jitter of {jitter_ms} ms does not exist in Spring Framework {}",
                    listener.name,
                    context.service.spring()
                );
                findings
                    .push(Finding::new(message).at(place(listener)).fix("remove setJitter, or move to Spring Boot 4"));
            }
        }
    },
};

/// BF016.
pub const BATCH_FALLBACK: Rule = Rule {
    id: "BF016",
    name: "batch-fallback",
    level: Level::Warning,
    summary: "A batch listener's retry runs every record of the batch again.",
    why: "An exception that is no `BatchListenerFailedException` repeats the whole batch, also the records whose write had \
          succeeded. With inserts of generated `_id`s each of them leaves a document more.",
    page: "Throw `BatchListenerFailedException` with the record that failed: then only that record is retried \
           (Spring Kafka 3.3.0, `FailedBatchProcessor`).",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            if listener.kind == ListenerKind::Batch && prediction.executions != crate::prediction::Amount::Exact(1) {
                let records = listener.max_poll_records.shown();
                let message = format!(
                    "{}: up to {records} records, each executed {} times",
                    listener.name, prediction.executions
                );
                let fix = "throw new BatchListenerFailedException(\"write failed\", cause, record);";
                findings.push(Finding::new(message).at(listener.place.as_ref().or(place(listener))).fix(fix));
            }
        }
    },
};

/// BF020.
pub const STACKED: Rule = Rule {
    id: "BF020",
    name: "retries-stacked",
    level: Level::Warning,
    summary: "One retry stands inside another.",
    why: "Their numbers multiply: 3 attempts inside 10 deliveries are 30 executions. Nobody who set one of them had that number in \
          mind.",
    page: "Keep one of them: set the inner one to 1 attempt, or the container's to none \
           (<https://github.com/spring-cloud/spring-cloud-stream/issues/2205>).",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            for layer in listener.inner_layers() {
                let inner = layer.executions;
                if inner == Some(1) || matches!(listener.handler.retries.value, Some(Retries::Times(1))) {
                    continue;
                }
                let inner = inner.map_or_else(|| "unknown".to_owned(), |number| number.to_string());
                let message = format!(
                    "{}: {} ({inner}) inside the error handler: {} in all",
                    listener.name,
                    layer.name,
                    prediction.executions.executions()
                );
                findings.push(
                    Finding::new(message)
                        .at(layer.source.place().or(place(listener)))
                        .fix("1 attempt in the inner retry"),
                );
            }
        }
    },
};

/// What no retry cures, by the classes of Spring's data access (facts E).
const INCURABLE: &[&str] = &["DuplicateKeyException", "DataIntegrityViolationException", "ValidationException"];

/// BF021.
pub const NOT_DECLARED: Rule = Rule {
    id: "BF021",
    name: "incurable-errors-retried",
    level: Level::Warning,
    summary: "Errors that a retry cannot cure are not declared.",
    why: "A duplicate key, a deadline on the server or a failed validation fails the same way each time, and each execution is \
          load. A late copy that has won shows as a duplicate key, is retried to the end and reaches the dead-letter topic although \
          the document is there.",
    page: "No MongoDB or Spring data exception is in Spring Kafka's own list (Spring Kafka 3.3.0, `ExceptionClassifier`). Code 50 becomes \
           `UncategorizedMongoDbException` (Spring Data MongoDB 4.4.0, `MongoExceptionTranslator`).",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            let Some(declared) = &listener.handler.not_retryable else { continue };
            let retries = prediction.executions.most().is_none_or(|most| most > 1);
            let is_declared = |name: &&str| declared.iter().any(|known| sources::is_a(name, known));
            let missing: Vec<&str> = INCURABLE.iter().copied().filter(|name| !is_declared(name)).collect();
            let is_spring =
                context.service.is_spring() && !matches!(listener.handler.retries.value, Some(Retries::Times(1)));
            let has_duplicate_key = missing.contains(&"DuplicateKeyException");
            if retries && is_spring && has_duplicate_key && !listener.handler.is_default {
                let message =
                    format!("{}: {}: {} each", listener.name, missing.join(", "), prediction.executions.executions());
                let fix = match listener.kind {
                    ListenerKind::RetryTopic => {
                        "exclude = {DuplicateKeyException.class, DataIntegrityViolationException.class}"
                    }
                    _ => {
                        "errorHandler.addNotRetryableExceptions(DuplicateKeyException.class, DataIntegrityViolationException.class);"
                    }
                };
                findings.push(Finding::new(message).at(place(listener)).fix(fix));
            }
        }
    },
};

/// BF040.
pub const ZERO_RETRIES: Rule = Rule {
    id: "BF040",
    name: "zero-retries-retry-once",
    level: Level::Warning,
    summary: "`ExponentialBackOffWithMaxRetries(0)` still retries once.",
    why: "Its limit is a sum of waits, and the first wait is given before the sum is looked at. So there are two executions where one was meant.",
    page: "Use `new FixedBackOff(0, 0)` for no retry. The limit on time is that of at least one wait (Spring Kafka 3.3.0, \
           `ExponentialBackOffWithMaxRetries`).",
    check: |context, findings| {
        for (listener, prediction) in context.listeners() {
            if let Some(BackOff::ExponentialMaxRetries(growing)) = back_off(listener)
                && growing.max_retries == 0
                && growing.initial_interval_ms > 0
            {
                let message = format!("{}: 0 retries give {}", listener.name, prediction.executions.executions());
                findings.push(Finding::new(message).at(place(listener)).fix("new FixedBackOff(0, 0)"));
            }
        }
    },
};

/// BF043.
pub const BAD_BACK_OFF: Rule = Rule {
    id: "BF043",
    name: "back-off-cannot-be-used",
    level: Level::Error,
    summary: "The back-off has a value that Spring refuses, or that does not mean what it seems to.",
    why: "Spring throws when the service starts, or at the first failure. Then there is no retry at all, or one without end.",
    page: "The message names the value (Spring Framework, `FixedBackOff` and `ExponentialBackOff`).",
    check: |context, findings| {
        for (listener, _) in context.listeners() {
            let error = match &listener.handler.retries.value {
                Some(Retries::BackOff(back_off)) => back_off.validate(context.service.spring()).err(),
                Some(Retries::Annotation(annotation)) => annotation.executions().err(),
                _ => None,
            };
            if let Some(error) = error {
                if matches!(error, backfire_model::back_off::BackOffError::NotInVersion { field: "jitter_ms", .. }) {
                    continue;
                }
                findings.push(Finding::new(format!("{}: {error}", listener.name)).at(place(listener)));
            }
        }
    },
};
