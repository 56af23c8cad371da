//! What `backfire.toml` states, put in place of what was found or assumed.

use std::sync::Arc;

use crate::build::{Family, Known, Version, Versions};
use crate::service::{Client, Id, Layer, Listener, ListenerKind, Op, Recoverer, Retries, Service, Write};
use crate::setting::{Setting, Source};
use crate::source::{Place, SourceFile};
use crate::stated::{self, ListenerPart, Stated};

/// Where a statement stands.
fn stated_source<T>(file: &Arc<SourceFile>, value: &stated::Spanned<T>) -> Source {
    Source::File(Place::new(file, value.span()))
}

fn put<T: Clone>(setting: &mut Setting<T>, file: &Arc<SourceFile>, value: Option<&stated::Spanned<T>>) {
    if let Some(value) = value {
        *setting = Setting::new(value.get_ref().clone(), stated_source(file, value));
    }
}

/// Versions.
pub fn versions_of(versions: &mut Versions, file: &Arc<SourceFile>, stated: &Stated) {
    let known = |text: &stated::Spanned<String>| {
        let version = Version::parse(text.get_ref())?;
        Some(Known { version, source: stated_source(file, text), note: None })
    };
    if let Some(family) = stated.driver.family.as_ref().and_then(|name| Family::from_name(name.get_ref())) {
        if versions.family.is_some_and(|found| found != family) {
            versions.driver = None;
        }
        versions.family = Some(family);
    }
    if let Some(version) = stated.driver.version.as_ref().and_then(known) {
        versions.driver = Some(version);
    }
    if let Some(version) = stated.kafka.spring_kafka.as_ref().and_then(known) {
        versions.spring_kafka = Some(version);
    }
}

/// The client's settings.
pub fn client(client: &mut Client, file: &Arc<SourceFile>, stated: &Stated) {
    let part = &stated.client;
    put(&mut client.socket_timeout_ms, file, part.socket_timeout_ms.as_ref());
    put(&mut client.retry_writes, file, part.retry_writes.as_ref());
    if let Some(timeout_ms) = &part.timeout_ms {
        client.timeout_ms = Setting::new(Some(*timeout_ms.get_ref()), stated_source(file, timeout_ms));
    }
    client.rtt_ms = part.rtt_ms.as_ref().map(|rtt_ms| *rtt_ms.get_ref());
}

/// Everything else.
pub fn rest(service: &mut Service, file: &Arc<SourceFile>, stated: &Stated) {
    put(&mut service.consumers, file, stated.kafka.consumers.as_ref());
    put(&mut service.write_tickets, file, stated.server.write_tickets.as_ref());
    if service.stall_ms.is_none()
        && let Some(stall_ms) = &stated.server.stall_ms
    {
        service.stall_ms = Some(Setting::new(*stall_ms.get_ref(), stated_source(file, stall_ms)));
    }
    for listener in &mut service.listeners {
        put(&mut listener.max_poll_records, file, stated.kafka.max_poll_records.as_ref());
        put(&mut listener.max_poll_interval_ms, file, stated.kafka.max_poll_interval_ms.as_ref());
        put(&mut listener.concurrency, file, stated.kafka.concurrency.as_ref());
    }
    for part in &stated.listener {
        let name = part.name.get_ref();
        // A listener in whose code no write was found, and of which more is known.
        if let Some(index) = service.silent.iter().position(|listener| listener.name == *name) {
            let listener = service.silent.remove(index);
            service.listeners.push(listener);
        }
        let index = service.listeners.iter().position(|listener| listener.name == *name);
        let index = index.unwrap_or_else(|| {
            // The first that is stated takes the place of the one that was only assumed.
            match service.listeners.iter().position(|listener| listener.is_assumed && listener.layers.is_empty()) {
                Some(index) => index,
                None => {
                    let template = service.listeners.first().cloned();
                    service.listeners.extend(template);
                    service.listeners.len().saturating_sub(1)
                }
            }
        });
        if let Some(listener) = service.listeners.get_mut(index) {
            listener.name.clone_from(name);
            state_listener(listener, file, part);
        }
    }
}

fn state_listener(listener: &mut Listener, file: &Arc<SourceFile>, part: &ListenerPart) {
    listener.is_assumed = false;
    listener.place = listener.place.take().or_else(|| Some(Place::new(file, part.name.span())));
    match part.kind.as_ref().map(|kind| kind.get_ref().as_str()) {
        Some("batch") => listener.kind = ListenerKind::Batch,
        Some("retry-topic") => listener.kind = ListenerKind::RetryTopic,
        Some("single") => listener.kind = ListenerKind::Single,
        _ => {}
    }
    if let Some(back_off) = &part.back_off {
        listener.handler.retries =
            Setting::new(Retries::BackOff(back_off.get_ref().clone()), stated_source(file, back_off));
        listener.handler.is_default = false;
    }
    if let Some(executions) = &part.executions {
        listener.handler.retries = Setting::new(Retries::Times(*executions.get_ref()), stated_source(file, executions));
        listener.handler.is_default = false;
    }
    if let Some(inner) = &part.inner_executions {
        listener.layers = vec![Layer {
            name: "a retry inside the listener".to_owned(),
            executions: Some(*inner.get_ref()),
            waits_ms: 0,
            source: stated_source(file, inner),
        }];
    }
    if let Some(recoverer) = &part.recoverer {
        let value = match recoverer.get_ref().as_str() {
            "dead-letter" => Recoverer::DeadLetter,
            "own" => Recoverer::Own,
            _ => Recoverer::Log,
        };
        listener.handler.recoverer = Setting::new(value, stated_source(file, recoverer));
    }
    if let Some(names) = &part.not_retryable {
        listener.handler.not_retryable = Some(names.clone());
    }
    put(&mut listener.record_ms, file, part.record_ms.as_ref());
    if !part.write.is_empty() {
        listener.writes = part.write.iter().filter_map(|write| stated_write(file, write)).collect();
    }
}

fn stated_write(file: &Arc<SourceFile>, part: &stated::WritePart) -> Option<Write> {
    let mut write = Write::new(Op::from_name(part.op.get_ref())?);
    write.id = match part.id.as_ref().map(|id| id.get_ref().as_str()) {
        Some("generated") => Id::Generated,
        Some("own") => Id::Own,
        _ => Id::Unknown,
    };
    write.models = part.models.iter().filter_map(|model| Op::from_name(model.get_ref())).collect();
    write.is_ordered = part.ordered.unwrap_or(true);
    write.is_guarded = part.guarded;
    write.max_time_ms = part.max_time_ms;
    write.in_transaction = part.transaction;
    write.place = Some(Place::new(file, part.op.span()));
    Some(write)
}
