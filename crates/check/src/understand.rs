//! From files to services: which there are, and what holds in each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backfire_model::back_off::{BackOff, BackOffAnnotation};

use crate::build::{self, Family, Known, Version, Versions};
use crate::client::{self, UriText};
use crate::connect::{self, Maker, Sink};
use crate::discover::{Found, Kind, Tree, shown};
use crate::format::tree::Flaw;
use crate::kafka;
use crate::request::Request;
use crate::service::{Client, Handler, Id, Layer, Listener, ListenerKind, Op, Recoverer, Retries, Service, Write};
use crate::setting::{Setting, Source};
use crate::source::{Place, SourceFile};
use crate::spring::duration::{Unit, parse_ms};
use crate::spring::{Properties, files};
use crate::stated::{self, ListenerPart, Stated, StatedError};

/// The services of a tree.
///
/// # Errors
/// A `backfire.toml` that cannot be used.
pub fn services(tree: &Tree, request: &Request) -> Result<Vec<Service>, StatedError> {
    let mut statements = Vec::new();
    for found in tree.of(Kind::Stated) {
        statements.push((found.path.clone(), Arc::clone(&found.file), stated::read(&found.file)?));
    }
    let mut services = Vec::new();
    for module in service_modules(tree) {
        let stated = statements
            .iter()
            .filter(|(path, ..)| path.parent().is_some_and(|folder| module.starts_with(folder)))
            .max_by_key(|(path, ..)| path.components().count());
        services.push(service(tree, &module, stated.map(|(_, file, stated)| (file, stated)), request));
    }
    let mut flaws = Vec::new();
    for found in tree.of(Kind::Json).chain(tree.of(Kind::Properties)) {
        for sink in connect::read(found, &mut flaws) {
            services.push(sink_service(found, sink, request));
        }
    }
    if services.is_empty() && (request.uri.is_some() || !flaws.is_empty()) {
        let root = tree.roots.first().cloned().unwrap_or_else(|| PathBuf::from("."));
        services.push(service(tree, &root, None, request));
    }
    if let Some(first) = services.first_mut() {
        first.flaws.extend(flaws);
    }
    Ok(services)
}

/// The folders of services: those with Spring configuration, with a `backfire.toml`, or with a driver for another language.
fn service_modules(tree: &Tree) -> Vec<PathBuf> {
    let mut modules: Vec<PathBuf> = Vec::new();
    for found in &tree.files {
        let is_service = match found.kind {
            Kind::SpringYaml | Kind::SpringProperties => true,
            Kind::PackageJson => found.file.text.contains("\"mongodb\""),
            Kind::Requirements | Kind::PyProject => found.file.text.to_ascii_lowercase().contains("pymongo"),
            Kind::GoMod => found.file.text.contains("go.mongodb.org/mongo-driver"),
            Kind::Properties => is_consumer(&found.file),
            _ => false,
        };
        if is_service {
            modules.push(tree.module_of(&found.path));
        }
    }
    for found in tree.of(Kind::Stated) {
        let folder = found.path.parent().unwrap_or(Path::new("")).to_path_buf();
        if !modules.iter().any(|module| module.starts_with(&folder)) {
            modules.push(tree.module_of(&found.path));
        }
    }
    if modules.is_empty() {
        let mut flaws = Vec::new();
        modules = build::modules(tree)
            .into_iter()
            .filter(|module| {
                let versions = build::versions_of(tree, module, &mut flaws);
                versions.uses_spring_kafka || versions.uses_mongodb || versions.uses_binder
            })
            .collect();
    }
    modules.sort();
    modules.dedup();
    modules
}

/// Plain properties of a Kafka consumer.
fn is_consumer(file: &SourceFile) -> bool {
    !file.text.contains("connector.class") && file.text.contains("bootstrap.servers") && file.text.contains("max.poll")
}

fn stated_source<T>(file: &Arc<SourceFile>, value: &stated::Spanned<T>) -> Source {
    Source::File(Place::new(file, value.span()))
}

fn put<T: Clone>(setting: &mut Setting<T>, file: &Arc<SourceFile>, value: Option<&stated::Spanned<T>>) {
    if let Some(value) = value {
        *setting = Setting::new(value.get_ref().clone(), stated_source(file, value));
    }
}

fn service(tree: &Tree, module: &Path, stated: Option<(&Arc<SourceFile>, &Stated)>, request: &Request) -> Service {
    let mut flaws = Vec::new();
    let mut versions = build::versions_of(tree, module, &mut flaws);
    if let Some((file, stated)) = stated {
        state_versions(&mut versions, file, stated);
    }
    let mut properties = files::load(tree, module, &request.given(), &mut flaws);
    if properties.is_none() && !request.set.is_empty() {
        let mut given = Properties::default();
        files::add_given(&mut given, &request.given());
        properties = Some(given);
    }
    let uri = uri(properties.as_ref(), &versions, stated, request);
    let default_uri = if properties.is_some() { "Spring Boot" } else { "drivers" };
    let mut client = client::client(uri, &versions, default_uri);
    if let Some((file, stated)) = stated {
        state_client(&mut client, file, stated);
    }
    let mut service = Service {
        name: shown(module),
        listeners: Vec::new(),
        consumers: Setting::default_of(1, "backfire: one process"),
        write_tickets: Setting::default_of(128, "MongoDB 4.4 to 6.0"),
        stall_ms: request.stall_ms.map(|stall_ms| Setting::new(stall_ms, Source::Argument("--stall".to_owned()))),
        unsuitable_engines: unsuitable_engines(tree, module),
        sinks: Vec::new(),
        unbound: properties
            .as_ref()
            .map(|properties| kafka::unbound(properties, versions.boot.as_ref().map(|boot| &boot.version)))
            .unwrap_or_default(),
        versions,
        client,
        properties,
        flaws,
    };
    add_listeners(&mut service, tree, module);
    if let Some((file, stated)) = stated {
        state_rest(&mut service, file, stated);
    }
    service
}

fn state_versions(versions: &mut Versions, file: &Arc<SourceFile>, stated: &Stated) {
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

fn uri(
    properties: Option<&Properties>,
    versions: &Versions,
    stated: Option<(&Arc<SourceFile>, &Stated)>,
    request: &Request,
) -> Option<UriText> {
    if let Some(uri) = &request.uri {
        let source = Source::Argument("--uri".to_owned());
        return Some(UriText { text: uri.clone(), unknown: Vec::new(), source, is_verbatim: false });
    }
    if let Some((file, uri)) = stated.and_then(|(file, stated)| Some((file, stated.client.uri.as_ref()?))) {
        let place = connect::inside_quotes(&Place::new(file, uri.span()));
        return Some(UriText::at(uri.get_ref(), place));
    }
    properties.and_then(|properties| client::of_spring(properties, versions))
}

fn state_client(client: &mut Client, file: &Arc<SourceFile>, stated: &Stated) {
    let part = &stated.client;
    put(&mut client.socket_timeout_ms, file, part.socket_timeout_ms.as_ref());
    put(&mut client.retry_writes, file, part.retry_writes.as_ref());
    if let Some(timeout_ms) = &part.timeout_ms {
        client.timeout_ms = Setting::new(Some(*timeout_ms.get_ref()), stated_source(file, timeout_ms));
    }
    client.rtt_ms = part.rtt_ms.as_ref().map(|rtt_ms| *rtt_ms.get_ref());
}

/// Lines that name a storage engine without retryable writes (report R13).
fn unsuitable_engines(tree: &Tree, module: &Path) -> Vec<Place> {
    let in_module = tree.files.iter().filter(|found| tree.module_of(&found.path) == module);
    in_module
        .flat_map(|found| {
            let matches = found.file.text.match_indices("ephemeralForTest").take(5);
            matches.map(|(at, word)| Place::new(&found.file, at..at + word.len())).collect::<Vec<_>>()
        })
        .collect()
}

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

fn add_listeners(service: &mut Service, tree: &Tree, module: &Path) {
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
        is_assumed: true,
    };
    add_bindings(service, &base);
    let uses_kafka = service.versions.uses_spring_kafka
        || properties.as_ref().is_some_and(|p| !p.map("spring.kafka").is_empty())
        || plain_consumer(tree, module).is_some();
    if service.listeners.is_empty() && uses_kafka {
        let mut listener = base.clone();
        if !is_batch && let Some(retries) = retry_topic_properties(properties.as_ref()) {
            listener.kind = ListenerKind::RetryTopic;
            listener.handler.retries = retries;
            listener.handler.is_default = false;
            listener.handler.recoverer = Setting::default_of(Recoverer::DeadLetter, "Spring Kafka");
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
fn add_bindings(service: &mut Service, base: &Listener) {
    let Some(properties) = service.properties.clone() else { return };
    for binding in properties.children("spring.cloud.stream.bindings") {
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

fn state_rest(service: &mut Service, file: &Arc<SourceFile>, stated: &Stated) {
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

/// A sink as a service of its own: it has its own client.
fn sink_service(found: &Found, sink: Sink, request: &Request) -> Service {
    let mut flaws = Vec::new();
    let versions = Versions { family: Some(Family::Java), ..Versions::default() };
    let uri = match &request.uri {
        Some(uri) => {
            let source = Source::Argument("--uri".to_owned());
            Some(UriText { text: uri.clone(), unknown: Vec::new(), source, is_verbatim: false })
        }
        None => sink.uri().map(|entry| {
            // `${file:/secrets:uri}` is filled in by Kafka Connect.
            let mut text = UriText::at(&entry.value, entry.place.clone());
            if entry.value.contains("${") {
                text.unknown.push("a value of a config provider".to_owned());
            }
            text
        }),
    };
    let client = client::client(uri, &versions, "MongoDB's connector");
    let number = |key: &str, default: u64, of: &str| match sink.get(key) {
        Some(entry) => match entry.value.trim().parse() {
            Ok(value) => Setting::new(value, Source::File(entry.place.clone())),
            Err(_) => Setting::unknown(format!("{key} is no number"), Some(entry.place.clone())),
        },
        None => Setting::default_of(default, of),
    };
    // Current connectors leave retries to the driver; what old ones have for it is a finding (BF036).
    let retries = Setting::default_of(Retries::Times(1), "the connector: a failed write ends the task");
    let is_tolerant = sink.tolerance().is_some_and(|entry| entry.value.eq_ignore_ascii_case("all"));
    let recoverer = match (is_tolerant, sink.dead_letter_topic()) {
        (true, Some(entry)) => Setting::new(Recoverer::DeadLetter, Source::File(entry.place.clone())),
        (true, None) => Setting::new(
            Recoverer::Log,
            sink.tolerance()
                .map_or_else(|| Source::default_of("the connector"), |entry| Source::File(entry.place.clone())),
        ),
        (false, _) => Setting::default_of(Recoverer::Stop, "the connector"),
    };
    let handler = Handler {
        retries,
        is_default: false,
        resets_on_exception_change: Setting::default_of(false, "the connector"),
        resets_on_recovery_failure: Setting::default_of(false, "the connector"),
        recoverer,
        dead_letter_wait_ms: 0,
        not_retryable: None,
        pauses: false,
        place: None,
    };
    let listener = Listener {
        name: sink.name.clone(),
        place: Some(sink.place.clone()),
        kind: ListenerKind::Sink,
        handler,
        layers: Vec::new(),
        writes: vec![sink_write(&sink)],
        max_poll_records: number("consumer.override.max.poll.records", 500, "Kafka"),
        max_poll_interval_ms: number("consumer.override.max.poll.interval.ms", 300_000, "Kafka"),
        concurrency: number("tasks.max", 1, "Kafka Connect"),
        record_ms: Setting::default_of(0, "backfire: not stated"),
        is_assumed: false,
    };
    if sink.uri().is_none() && sink.maker == Maker::Debezium {
        let message = "the connector has no connection string".to_owned();
        flaws.push(Flaw { message, place: sink.place.clone() });
    }
    Service {
        name: found.file.path.clone(),
        versions,
        client,
        properties: None,
        listeners: vec![listener],
        consumers: Setting::default_of(1, "backfire: one process"),
        write_tickets: Setting::default_of(128, "MongoDB 4.4 to 6.0"),
        stall_ms: request.stall_ms.map(|stall_ms| Setting::new(stall_ms, Source::Argument("--stall".to_owned()))),
        flaws,
        unsuitable_engines: Vec::new(),
        sinks: vec![sink],
        unbound: Vec::new(),
    }
}

/// What a sink's strategy writes: one bulk per batch.
fn sink_write(sink: &Sink) -> Write {
    let mut write = Write::new(Op::Bulk);
    let model = match (sink.maker, sink.class("writemodel.strategy", "ReplaceOneDefaultStrategy")) {
        (Maker::Debezium, _) => Op::Upsert,
        (_, strategy) if strategy.starts_with("Insert") => Op::Insert,
        (_, strategy) if strategy.starts_with("Update") => Op::Upsert,
        (_, strategy) if strategy.starts_with("Delete") => Op::Delete,
        _ => Op::Save,
    };
    write.models = vec![model];
    write.id = if sink.makes_new_ids() { Id::Generated } else { Id::Own };
    write.is_ordered = sink.get("bulk.write.ordered").is_none_or(|entry| entry.value.trim() != "false");
    write.place = sink.get("writemodel.strategy").or_else(|| sink.get("document.id.strategy")).map(|e| e.place.clone());
    write.place = write.place.or_else(|| Some(sink.place.clone()));
    write
}
