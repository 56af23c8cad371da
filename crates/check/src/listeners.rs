//! The listeners of a service: from its sources, from bindings of Spring Cloud Stream, or as its configuration lets expect.

use std::path::Path;

use backfire_model::back_off::{BackOff, BackOffAnnotation};

use crate::build::{Family, Versions};
use crate::discover::{Kind, Tree};
use crate::kafka;
use crate::modules::is_consumer;
use crate::service::{Handler, Layer, Listener, ListenerKind, Recoverer, Retries, Service};
use crate::setting::{Setting, Source};
use crate::sources::{self, Parts, Reader, Sources};
use crate::spring::Properties;
use crate::spring::duration::{Unit, parse_ms};

/// The default error handler of Spring Kafka (facts D1).
pub fn default_handler(properties: Option<&Properties>, versions: &Versions) -> Handler {
    if versions.family.is_some_and(|family| family != Family::Java) {
        return own_handler();
    }
    let version = versions.spring_kafka.as_ref().map(|known| &known.version);
    let name = version.map_or("Spring Kafka".to_owned(), |version| format!("Spring Kafka {version}"));
    let resets = version.is_none_or(|version| version.at_least([2, 9, 0]));
    Handler {
        retries: Setting::default_of(Retries::BackOff(BackOff::default()), name.clone()),
        is_default: true,
        resets_on_exception_change: Setting::default_of(resets, name.clone()),
        resets_on_recovery_failure: Setting::default_of(true, name.clone()),
        recoverer: Setting::default_of(Recoverer::Log, name),
        dead_letter_wait_ms: kafka::dead_letter_wait_ms(properties),
        not_retryable: Some(Vec::new()),
        pauses: false,
        place: None,
    }
}

/// The handler of a consumer without Spring: what is not stated is not known, and one execution is the least.
fn own_handler() -> Handler {
    let of = "backfire: not stated";
    Handler {
        retries: Setting::default_of(Retries::Times(1), of),
        is_default: false,
        resets_on_exception_change: Setting::default_of(false, of),
        resets_on_recovery_failure: Setting::default_of(false, of),
        recoverer: Setting::default_of(Recoverer::Own, of),
        dead_letter_wait_ms: 0,
        not_retryable: None,
        pauses: false,
        place: None,
    }
}

/// Adds them to a service. `sources`: its sources and what reads their values.
pub fn add(service: &mut Service, tree: &Tree, module: &Path, sources: Option<(&Sources<'_>, &Reader<'_>)>) {
    let properties = service.properties.clone();
    let handler = default_handler(properties.as_ref(), &service.versions);
    let (max_poll_records, max_poll_interval_ms) = match plain_consumer(tree, module) {
        Some(settings) if properties.is_none() => settings,
        _ => kafka::poll_settings(properties.as_ref(), &service.versions, None),
    };
    let get = |name: &str| properties.as_ref().and_then(|p| p.get(name).map(|property| (p, property)));
    let concurrency = match get("spring.kafka.listener.concurrency") {
        Some((properties, property)) => kafka::number(properties, property, false),
        None => Setting::default_of(1, if service.is_spring() { "Spring Kafka" } else { "backfire: not stated" }),
    };
    let text = |name: &str| get(name).and_then(|(p, property)| p.resolve(property).known().map(str::to_lowercase));
    let is_batch = text("spring.kafka.listener.type").as_deref() == Some("batch");
    let base = Listener {
        name: "any listener".to_owned(),
        place: None,
        kind: if is_batch { ListenerKind::Batch } else { ListenerKind::Single },
        handler,
        layers: Vec::new(),
        writes: Vec::new(),
        max_poll_records,
        max_poll_interval_ms,
        concurrency,
        record_ms: Setting::default_of(0, "backfire: not stated"),
        is_asynchronous: false,
        is_assumed: true,
    };
    let retry_topics = retry_topic_properties(properties.as_ref());
    let retry_topics = retry_topics.map(|retries| sources::of_retry_topic(&base.handler, retries));
    let client = service.client.clone();
    let parts = sources.map(|(sources, reader)| Parts {
        sources,
        reader,
        client: &client,
        base: &base,
        retry_topics: retry_topics.as_ref(),
    });
    add_bindings(service, &base, parts.as_ref());
    if let Some(parts) = &parts {
        add_found(service, sources::listeners(parts));
    }
    let uses_kafka = service.versions.uses_spring_kafka
        || properties.as_ref().is_some_and(|p| !p.map("spring.kafka").is_empty())
        || plain_consumer(tree, module).is_some();
    if service.listeners.is_empty() && uses_kafka {
        let mut listener = base.clone();
        if let Some(handler) = retry_topics.filter(|_| !is_batch) {
            listener.kind = ListenerKind::RetryTopic;
            listener.handler = handler;
        }
        service.listeners.push(listener);
    }
    if service.listeners.is_empty() && !service.versions.uses_binder {
        // A service without a consumer still writes: one execution unless something is stated.
        let source = Source::default_of("backfire: no consumer was found");
        let mut listener = Listener { name: "a write".to_owned(), ..base };
        listener.handler.retries = Setting::new(Retries::Times(1), source);
        listener.handler.is_default = false;
        service.listeners.push(listener);
    }
}

/// Adds what the sources show. Where some listeners write, the others are kept apart: there is nothing to predict for them.
fn add_found(service: &mut Service, found: Vec<Listener>) {
    let writes = found.iter().any(|listener| !listener.writes.is_empty());
    let (silent, writing): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|listener| writes && listener.writes.is_empty());
    service.listeners.extend(writing);
    service.silent.extend(silent);
}

/// `max.poll.*` of a plain consumer's `.properties`.
fn plain_consumer(tree: &Tree, module: &Path) -> Option<(Setting<u64>, Setting<u64>)> {
    let found =
        tree.of(Kind::Properties).find(|found| is_consumer(&found.file) && tree.module_of(&found.path) == module)?;
    let (documents, _) = crate::format::properties::read(&found.file);
    let of = |name: &str, default: u64| {
        let property = documents.iter().flatten().rev().find(|property| property.key == name);
        match property.and_then(|property| Some((property.value.trim().parse::<u64>().ok()?, property))) {
            Some((value, property)) => Setting::new(value, Source::File(property.value_place.clone())),
            None => Setting::default_of(default, "Kafka"),
        }
    };
    Some((of("max.poll.records", 500), of("max.poll.interval.ms", 300_000)))
}

/// `spring.kafka.retry.topic.*` (facts D7).
fn retry_topic_properties(properties: Option<&Properties>) -> Option<Setting<Retries>> {
    let properties = properties?;
    let enabled = properties.get("spring.kafka.retry.topic.enabled")?;
    (properties.resolve(enabled).known()?.trim() == "true").then_some(())?;
    let get = |names: &[&str]| {
        names.iter().find_map(|name| {
            let property = properties.get(&format!("spring.kafka.retry.topic.{name}"))?;
            properties.resolve(property).known().map(str::to_owned)
        })
    };
    let mut annotation = BackOffAnnotation::default();
    if let Some(attempts) = get(&["attempts"]).and_then(|text| text.trim().parse().ok()) {
        annotation.attempts = attempts;
    }
    if let Some(delay_ms) = get(&["backoff.delay", "delay"]).and_then(|text| parse_ms(&text, Unit::Millis)) {
        annotation.delay_ms = delay_ms;
    }
    if let Some(max_ms) = get(&["backoff.max-delay", "max-delay"]).and_then(|text| parse_ms(&text, Unit::Millis)) {
        annotation.max_delay_ms = max_ms;
    }
    if let Some(multiplier) = get(&["backoff.multiplier", "multiplier"]).and_then(|text| text.trim().parse().ok()) {
        annotation.multiplier = multiplier;
    }
    Some(Setting::new(Retries::Annotation(annotation), kafka::source(&enabled.origin)))
}

/// The consumers of Spring Cloud Stream: the binder's own attempts stand inside the container's (report R89).
fn add_bindings(service: &mut Service, base: &Listener, parts: Option<&Parts<'_>>) {
    let properties = service.properties.clone().unwrap_or_default();
    let mut bindings = properties.children("spring.cloud.stream.bindings");
    // A functional bean has a binding, configured or not.
    for function in parts.into_iter().flat_map(Parts::functions).filter(|_| service.versions.uses_binder) {
        let name = format!("{function}-in-0");
        if !bindings.contains(&name)
            && properties.get(&format!("spring.cloud.stream.function.bindings.{name}")).is_none()
        {
            bindings.push(name);
        }
    }
    for binding in bindings {
        let prefix = format!("spring.cloud.stream.bindings.{binding}");
        let has_consumer = !properties.map(&format!("{prefix}.consumer")).is_empty();
        let is_input = binding.contains("-in-") || has_consumer || properties.get(&format!("{prefix}.group")).is_some();
        if !is_input {
            continue;
        }
        let consumer = |name: &str| {
            let own = properties.get(&format!("{prefix}.consumer.{name}"));
            own.or_else(|| properties.get(&format!("spring.cloud.stream.default.consumer.{name}")))
        };
        let number = |name: &str, default: u64| match consumer(name) {
            Some(property) => kafka::number(&properties, property, false),
            None => Setting::default_of(default, "Spring Cloud Stream"),
        };
        let attempts = number("max-attempts", 3);
        let waits_ms = binder_waits_ms(
            attempts.value.unwrap_or(1),
            number("back-off-initial-interval", 1_000).value.unwrap_or(1_000),
            number("back-off-max-interval", 10_000).value.unwrap_or(10_000),
        );
        let mut listener = base.clone();
        listener.name = binding.clone();
        let first = properties.map(&prefix).into_iter().next();
        listener.place = first.and_then(|(_, property)| kafka::source(&property.origin).place().cloned());
        listener.concurrency = number("concurrency", 1);
        let is_true = |property: Option<&crate::spring::Property>| {
            property
                .is_some_and(|property| properties.resolve(property).known().is_some_and(|text| text.trim() == "true"))
        };
        if is_true(consumer("batch-mode")) {
            listener.kind = ListenerKind::Batch;
        }
        if let Some(parts) = parts {
            parts.bound(&binding, &mut listener);
        }
        let (records, interval) = kafka::poll_settings(Some(&properties), &service.versions, Some(&binding));
        (listener.max_poll_records, listener.max_poll_interval_ms) = (records, interval);
        let name = "Spring Cloud Stream max-attempts".to_owned();
        listener.layers.push(Layer { name, executions: attempts.value, waits_ms, source: attempts.source });
        let dlq = properties.get(&format!("spring.cloud.stream.kafka.bindings.{binding}.consumer.enable-dlq"));
        if is_true(dlq) {
            // The binder publishes the dead letter itself, so the container sees no failure.
            let source = dlq.map(|property| kafka::source(&property.origin));
            let source = source.unwrap_or_else(|| Source::default_of("Spring Cloud Stream"));
            listener.handler.retries = Setting::new(Retries::Times(1), source.clone());
            listener.handler.is_default = false;
            listener.handler.recoverer = Setting::new(Recoverer::DeadLetter, source);
        }
        service.listeners.push(listener);
    }
}

/// The waits of the binder's retry: growing by 2.
fn binder_waits_ms(attempts: u64, initial_ms: u64, max_ms: u64) -> u64 {
    let mut total = 0_u64;
    let mut wait_ms = initial_ms.min(max_ms);
    for _ in 1..attempts.min(10_000) {
        total = total.saturating_add(wait_ms);
        wait_ms = wait_ms.saturating_mul(2).min(max_ms);
    }
    total
}
