//! Retry topics: `@RetryableTopic` and `RetryTopicConfiguration` beans (facts/client.md D5).

use backfire_jvm::{ExceptionClass, Listener, RetryTopic, Setting as Found, Value};
use backfire_model::back_off::BackOffAnnotation;

use super::exception;
use super::reader::Reader;
use crate::service::{Handler, Recoverer, Retries};
use crate::setting::Setting;

/// The bean that makes retry topics for a listener's topics.
pub fn bean_for<'a>(topics: &'a [RetryTopic], listener: &Listener, reader: &Reader<'_>) -> Option<&'a RetryTopic> {
    let own = listener.topics.as_ref().map(|topics| reader.texts(topics)).unwrap_or_default();
    topics.iter().find(|topic| {
        let listed = |name: &str| -> Vec<String> {
            let settings = topic.settings.iter().filter(|named| named.name.starts_with(name));
            settings.flat_map(|named| reader.texts(&named.setting)).collect()
        };
        let names_any = |names: &[String]| names.iter().any(|name| own.contains(name));
        let (included, excluded) = (listed("includeTopic"), listed("excludeTopic"));
        (included.is_empty() || names_any(&included)) && !names_any(&excluded)
    })
}

/// What a retry topic makes of a handler. `raised`: what a stall raises.
pub fn handler(topic: &RetryTopic, default: &Handler, raised: &[&'static str], reader: &Reader<'_>) -> Handler {
    let mut handler = super::handler::of_retry_topic(default, retries(topic, raised, reader));
    handler.place = reader.place(&topic.span);
    handler.not_retryable =
        topic.include.is_empty().then(|| topic.exclude.iter().map(|class| class.name.clone()).collect());
    let strategy = topic.dlt_strategy.as_ref().and_then(|setting| match &setting.value {
        Value::Constant { name, .. } => Some(&**name),
        _ => None,
    });
    if strategy == Some("NO_DLT") {
        handler.recoverer = reader.made(Recoverer::Log, &topic.span);
    }
    handler
}

fn retries(topic: &RetryTopic, raised: &[&'static str], reader: &Reader<'_>) -> Setting<Retries> {
    let names = |classes: &[ExceptionClass]| classes.iter().map(|class| class.name.clone()).collect::<Vec<_>>();
    let (included, excluded) = (names(&topic.include), names(&topic.exclude));
    let is_retried = exception::is_retried(raised, &included, &excluded);
    if !is_retried.unwrap_or(included.is_empty() || raised.is_empty()) {
        return reader.made(Retries::Times(1), &topic.span);
    }
    let mut annotation = BackOffAnnotation::default();
    let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    let parts: [(&str, &Option<Found>, &mut i64); 3] = [
        ("attempts", &topic.attempts, &mut annotation.attempts),
        ("delay", &topic.delay_ms, &mut annotation.delay_ms),
        ("maxDelay", &topic.max_delay_ms, &mut annotation.max_delay_ms),
    ];
    for (name, setting, slot) in parts {
        let Some(setting) = setting else { continue };
        match reader.setting(setting, "a number", super::reader::number) {
            Setting { value: Some(value), .. } => *slot = signed(value),
            Setting { value: None, source } => return unknown(name, source),
        }
    }
    if let Some(setting) = &topic.multiplier {
        match reader.setting(setting, "a number", |value| match value {
            Value::Text(text) => text.trim().parse().ok(),
            value => value.as_f64(),
        }) {
            Setting { value: Some(value), .. } => annotation.multiplier = value,
            Setting { value: None, source } => return unknown("multiplier", source),
        }
    }
    reader.made(Retries::Annotation(annotation), &topic.span)
}

fn unknown(name: &str, source: crate::setting::Source) -> Setting<Retries> {
    match source {
        crate::setting::Source::Unknown { why, place } => {
            Setting::unknown(format!("{name} of the retry topics: {why}"), place)
        }
        source => Setting { value: None, source },
    }
}
