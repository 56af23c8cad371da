//! Retries inside a listener, as layers (facts/client.md D2, last row).

use backfire_jvm::{ExceptionClass, Retry, RetryKind, Setting as Found, Value};

use super::exception;
use super::reader::Reader;
use crate::service::Layer;
use crate::setting::{Setting, Source};
use crate::spring::duration::{Unit, parse_ms};

/// More waits than this are not added up.
const WAITS_MAX: u64 = 10_000;

/// The layer that a retry is to what a stall raises; `None`: it does not retry that.
pub fn layer(retry: &Retry, raised: &[&'static str], reader: &Reader<'_>) -> Option<Layer> {
    let names = |classes: &[ExceptionClass]| classes.iter().map(|class| class.name.clone()).collect::<Vec<_>>();
    let (included, excluded) = (names(&retry.include), names(&retry.exclude));
    if !exception::is_retried(raised, &included, &excluded).unwrap_or(included.is_empty() || raised.is_empty()) {
        return None;
    }
    let place = reader.place(&retry.span).map_or_else(|| Source::unknown("nowhere"), Source::File);
    let mut unknown = None;
    let mut number = |setting: Option<&Found>, default: u64| match setting.map(|it| reader.setting(it, "a number", ms))
    {
        None => Some(default),
        Some(Setting { value: Some(value), .. }) => Some(value),
        Some(Setting { value: None, source }) => {
            unknown = unknown.take().or(Some(source));
            None
        }
    };
    let (name, attempts, delay_ms) = match retry.kind {
        // Without an annotation that switches it on it does nothing; that may stand in a library.
        RetryKind::SpringRetry if !reader.enables_retry => ("@Retryable, if a library has @EnableRetry", 3, 1_000),
        RetryKind::Framework if !reader.enables_retry => {
            ("@Retryable, if a library has @EnableResilientMethods", 4, 1_000)
        }
        RetryKind::SpringRetry => ("@Retryable", 3, 1_000),
        RetryKind::Framework => ("@Retryable", 4, 1_000),
        RetryKind::Template => ("RetryTemplate", 3, 0),
        RetryKind::Resilience4j => ("resilience4j retry", 3, 500),
        RetryKind::Reactor => ("retry of Reactor", 1, 0),
    };
    let configured = configured(retry, reader);
    let executions = match (&retry.max_retries, &retry.max_attempts) {
        (Some(retries), _) => number(Some(retries), 0).map(|retries| retries.saturating_add(1)),
        // Its policy is something that is not understood.
        (None, None) if !retry.complete && configured[0].is_none() && retry.kind != RetryKind::Resilience4j => None,
        (None, attempts_set) => number(attempts_set.as_ref(), configured[0].unwrap_or(attempts)),
    };
    let delay_ms = number(retry.delay_ms.as_ref(), configured[1].unwrap_or(delay_ms)).unwrap_or(0);
    let max_delay_ms = number(retry.max_delay_ms.as_ref(), u64::MAX).filter(|ms| *ms > 0).unwrap_or(u64::MAX);
    let growth = retry.multiplier.as_ref().map(|it| reader.setting(it, "a number", Value::as_f64));
    // Reactor's `backoff` doubles.
    let growth = growth.and_then(|growth| growth.value).unwrap_or(match retry.kind {
        RetryKind::Reactor => 2.0,
        _ => 1.0,
    });
    let source = match executions {
        Some(_) => place,
        None => unknown.unwrap_or_else(|| Source::Unknown {
            why: "its policy is not understood".to_owned(),
            place: place.place().cloned(),
        }),
    };
    let waits_ms = waits_ms(executions.unwrap_or(1), delay_ms, growth.max(1.0), max_delay_ms);
    Some(Layer { name: name.to_owned(), executions, waits_ms, source })
}

fn ms(value: &Value) -> Option<u64> {
    super::reader::number(value)
}

/// resilience4j's instances are configuration: attempts and wait.
fn configured(retry: &Retry, reader: &Reader<'_>) -> [Option<u64>; 2] {
    let (RetryKind::Resilience4j, Some(name), Some(properties)) = (retry.kind, &retry.name, reader.properties()) else {
        return [None, None];
    };
    let text = |key: &str| {
        let property = ["instances", "configs"]
            .iter()
            .zip([name.as_str(), "default"])
            .find_map(|(group, name)| properties.get(&format!("resilience4j.retry.{group}.{name}.{key}")))?;
        properties.resolve(property).known().map(str::to_owned)
    };
    let attempts = text("max-attempts").and_then(|text| text.trim().parse().ok());
    let wait_ms = text("wait-duration").and_then(|text| parse_ms(&text, Unit::Millis));
    [attempts, wait_ms.and_then(|ms| u64::try_from(ms).ok())]
}

fn waits_ms(executions: u64, delay_ms: u64, growth: f64, max_ms: u64) -> u64 {
    let mut total = 0_u64;
    let mut wait_ms = delay_ms.min(max_ms);
    for _ in 1..executions.min(WAITS_MAX) {
        total = total.saturating_add(wait_ms);
        wait_ms = ((wait_ms as f64 * growth) as u64).min(max_ms);
    }
    total
}
