//! From files to services: which there are, and what holds in each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::build::{self, Family, Versions};
use crate::client::{self, UriText};
use crate::connect::{self, Maker, Sink};
use crate::discover::{Found, Kind, Tree, shown};
use crate::format::tree::Flaw;
use crate::kafka;
use crate::listeners;
use crate::modules::Modules;
use crate::request::Request;
use crate::service::{Handler, Id, Listener, ListenerKind, Op, Recoverer, Retries, Service, Write};
use crate::setting::{Setting, Source};
use crate::source::{Place, SourceFile};
use crate::sources::{self, Reader, Sources};
use crate::spring::{Properties, files};
use crate::stated::{self, Stated, StatedError};
use crate::statements;

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
    let modules = Modules::of(tree);
    for module in &modules.services {
        let stated = statements
            .iter()
            .filter(|(path, ..)| path.parent().is_some_and(|folder| module.starts_with(folder)))
            .max_by_key(|(path, ..)| path.components().count());
        let place = ModulePlace { folder: module, sources: modules.of_service(module) };
        services.push(service(tree, &place, stated.map(|(_, file, stated)| (file, stated)), request));
    }
    let mut flaws = Vec::new();
    for found in tree.of(Kind::Json).chain(tree.of(Kind::Properties)) {
        for sink in connect::read(found, &mut flaws) {
            services.push(sink_service(found, sink, request));
        }
    }
    if services.is_empty() && (request.uri.is_some() || !flaws.is_empty()) {
        let root = tree.roots.first().cloned().unwrap_or_else(|| PathBuf::from("."));
        let place = ModulePlace { folder: &root, sources: BTreeSet::new() };
        services.push(service(tree, &place, None, request));
    }
    if let Some(first) = services.first_mut() {
        first.flaws.extend(flaws);
    }
    Ok(services)
}

/// A service's folder, and the modules that its sources are in.
struct ModulePlace<'a> {
    folder: &'a Path,
    sources: BTreeSet<PathBuf>,
}

fn service(
    tree: &Tree,
    place: &ModulePlace<'_>,
    stated: Option<(&Arc<SourceFile>, &Stated)>,
    request: &Request,
) -> Service {
    let module = place.folder;
    let mut flaws = Vec::new();
    let mut versions = build::versions_of(tree, module, &mut flaws);
    if let Some((file, stated)) = stated {
        statements::versions_of(&mut versions, file, stated);
    }
    let mut properties = files::load(tree, module, &request.given(), &mut flaws);
    if properties.is_none() && !request.set.is_empty() {
        let mut given = Properties::default();
        files::add_given(&mut given, &request.given());
        properties = Some(given);
    }
    let is_jvm = versions.family.is_none_or(|family| family == Family::Java);
    let sources = if is_jvm { Sources::read(tree, &place.sources, properties.as_ref()) } else { None };
    let configuration = properties.clone();
    let read = sources.as_ref().map(|sources| (sources, Reader::new(sources, configuration.as_ref())));
    let read = read.as_ref().map(|(sources, reader)| (*sources, reader));
    let by_code = read.and_then(|(sources, reader)| sources::uri(sources, reader));
    let default_uri = match (&by_code, &properties) {
        (None, Some(_)) => "Spring Boot",
        _ => "drivers",
    };
    let shows_listeners = read.is_some_and(|(sources, _)| sources.has_listeners());
    let mut uri = uri(properties.as_ref(), &versions, by_code.clone(), stated, request);
    if uri.is_none() && by_code.is_none() && properties.is_none() && shows_listeners {
        // Sources alone: what configures them is somewhere else.
        uri = Some(UriText::unknown("the connection string"));
    }
    let mut client = client::client(uri, &versions, default_uri);
    if let Some((sources, reader)) = read {
        sources::apply_clients(&mut client, sources, reader);
    }
    if let Some((file, stated)) = stated {
        statements::client(&mut client, file, stated);
    }
    let mut service = Service {
        name: shown(module),
        listeners: Vec::new(),
        silent: Vec::new(),
        not_followed: read.map(|(sources, reader)| sources.flaws(reader)).unwrap_or_default(),
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
    listeners::add(&mut service, tree, module, read);
    if let Some((file, stated)) = stated {
        statements::rest(&mut service, file, stated);
    }
    service
}

fn uri(
    properties: Option<&Properties>,
    versions: &Versions,
    by_code: Option<Option<UriText>>,
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
    match by_code {
        Some(uri) => uri,
        None => properties.and_then(|properties| client::of_spring(properties, versions)),
    }
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
        is_asynchronous: false,
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
        silent: Vec::new(),
        not_followed: Vec::new(),
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
