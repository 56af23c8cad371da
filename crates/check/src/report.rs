//! What a check found, as values; [`crate::output`] makes text of it.

use crate::finding::{Finding, Level};
use crate::prediction::Prediction;
use crate::rules::{self, Context};
use crate::service::{Id, Listener, ListenerKind, Recoverer, Retries, Service, Write};
use crate::setting::{Setting, Source, counted};
use crate::source::masked;

/// A setting that decides, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingRow {
    /// Its name.
    pub name: String,
    /// Its value; `unknown` where it is not known.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
    /// What has to be said about it.
    pub note: Option<String>,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceReport {
    /// Its folder.
    pub name: String,
    /// The settings that decide.
    pub settings: Vec<SettingRow>,
    /// The prediction for each listener.
    pub predictions: Vec<Prediction>,
    /// What is worth knowing, such as profiles that were not looked at.
    pub notes: Vec<String>,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The services.
    pub services: Vec<ServiceReport>,
    /// The findings, the worst first in each file.
    pub findings: Vec<Finding>,
    /// How many findings a comment or `backfire.toml` ignores.
    pub ignored: usize,
    /// How many findings the baseline knows.
    pub in_baseline: usize,
    /// How many files were read.
    pub files: usize,
    /// The level from which a finding makes the check fail.
    pub fail_on: Level,
}

impl Report {
    /// Whether a finding makes the check fail: exit code 1.
    pub fn fails(&self) -> bool {
        self.findings.iter().any(|finding| finding.level >= self.fail_on)
    }

    /// How many findings there are of a level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

/// Predicts and applies the rules.
pub fn of_service(service: &Service) -> (ServiceReport, Vec<Finding>) {
    let predictions: Vec<Prediction> =
        service.listeners.iter().map(|listener| crate::prediction::predict(service, listener)).collect();
    let findings = rules::run(&Context { service, predictions: &predictions });
    let report =
        ServiceReport { name: service.name.clone(), settings: settings(service), predictions, notes: notes(service) };
    (report, findings)
}

fn notes(service: &Service) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(properties) = &service.properties {
        let left: Vec<&str> = properties
            .profiles_seen
            .iter()
            .filter(|seen| !properties.profiles.contains(seen))
            .map(String::as_str)
            .collect();
        if !left.is_empty() {
            notes.push(format!(
                "profiles: {} active; not looked at: {} (--profile NAME)",
                properties.profiles.join(", "),
                left.join(", ")
            ));
        }
    }
    if !service.silent.is_empty() {
        let names: Vec<&str> = service.silent.iter().map(|listener| listener.name.as_str()).collect();
        notes.push(format!("no write to MongoDB was found in {}: nothing is predicted for them", names.join(", ")));
    }
    for listener in service.listeners.iter().filter(|listener| !listener.is_assumed && listener.writes.is_empty()) {
        if listener.kind != ListenerKind::Sink && listener.place.is_some() {
            notes.push(format!("{}: no write to MongoDB was found in it; any is assumed", listener.name));
        }
    }
    for listener in service.listeners.iter().filter(|listener| listener.is_assumed) {
        notes.push(format!("{}: no listener was found; this is what the settings mean for one", listener.name));
    }
    notes
}

fn row<T>(name: impl Into<String>, setting: &Setting<T>, shown: impl Fn(&T) -> String) -> SettingRow {
    let value = setting.value.as_ref().map_or_else(|| "unknown".to_owned(), shown);
    SettingRow { name: name.into(), value, source: setting.source.clone(), note: None }
}

fn settings(service: &Service) -> Vec<SettingRow> {
    let mut rows = Vec::new();
    let versions = &service.versions;
    for (name, known) in [
        ("Spring Boot", &versions.boot),
        (service.client.family.name(), &versions.driver),
        ("Spring Kafka", &versions.spring_kafka),
        ("Spring Data MongoDB", &versions.spring_data),
    ] {
        if let Some(known) = known {
            let (value, source, note) = (known.version.to_string(), known.source.clone(), known.note.clone());
            rows.push(SettingRow { name: name.to_owned(), value, source, note });
        }
    }
    let client = &service.client;
    if let Some(uri) = &client.uri {
        let value = uri.parsed.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        rows.push(SettingRow { name: "connection string".to_owned(), value, source: uri.source.clone(), note: None });
    }
    let time = |ms: &u64| if *ms == 0 { "0 (waits for ever)".to_owned() } else { format!("{ms} ms") };
    let mut socket = row("socketTimeoutMS", &client.socket_timeout_ms, time);
    if client.socket_timeout_ms.source.is_set() {
        socket.note = client.ignores_socket_timeout().map(str::to_owned);
    }
    rows.push(socket);
    let mut timeout =
        row("timeoutMS", &client.timeout_ms, |ms| ms.map_or_else(|| "not set".to_owned(), |ms| format!("{ms} ms")));
    if client.timeout_ms.source.is_set() {
        timeout.note = client.ignores_timeout().map(str::to_owned);
    }
    rows.push(timeout);
    rows.push(row("retryWrites", &client.retry_writes, ToString::to_string));
    rows.extend(of_listeners(service));
    rows.retain(|row| !row.value.is_empty());
    for row in &mut rows {
        row.value = masked(&row.value);
    }
    rows
}

/// What decides for each listener; what is the same for all of them once, without a listener's name before it.
fn of_listeners(service: &Service) -> Vec<SettingRow> {
    let each: Vec<Vec<SettingRow>> = service.listeners.iter().map(of_listener).collect();
    let [first, others @ ..] = each.as_slice() else { return Vec::new() };
    if others.is_empty() {
        return first.clone();
    }
    let once = |rows: &[SettingRow], row: &SettingRow| rows.iter().filter(|other| other.name == row.name).count() == 1;
    let is_everywhere = |row: &&SettingRow| others.iter().all(|rows| once(rows, row) && rows.contains(row));
    let shared: Vec<SettingRow> = first.iter().filter(|row| once(first, row)).filter(is_everywhere).cloned().collect();
    let mut all = shared.clone();
    for (listener, rows) in service.listeners.iter().zip(&each) {
        for row in rows.iter().filter(|row| !shared.contains(row)) {
            all.push(SettingRow { name: format!("{}: {}", listener.name, row.name), ..row.clone() });
        }
    }
    all
}

fn of_listener(listener: &Listener) -> Vec<SettingRow> {
    let mut rows = vec![row("listener", &Setting::new(listener.kind, listener_source(listener)), |kind| {
        format!("{} ({})", listener.name, kind.name())
    })];
    rows.push(row("retries", &listener.handler.retries, shown_retries));
    rows.push(row("after the retries", &listener.handler.recoverer, |recoverer| {
        match recoverer {
            Recoverer::Log => "logged and dropped",
            Recoverer::DeadLetter => "dead-letter topic",
            Recoverer::Own => "a recoverer of the application",
            Recoverer::Stop => "it stops, and the record comes back with the next start",
        }
        .to_owned()
    }));
    for layer in listener.inner_layers() {
        let value =
            layer.executions.map_or_else(|| "unknown".to_owned(), |number| counted(number, "execution", "executions"));
        rows.push(SettingRow { name: layer.name.clone(), value, source: layer.source.clone(), note: None });
    }
    for write in &listener.writes {
        let source = write.place.clone().map_or_else(|| Source::unknown("nowhere"), Source::File);
        let note = (write.path.len() > 1).then(|| format!("via {}", write.path.join(" > ")));
        rows.push(SettingRow { name: "write".to_owned(), value: shown_write(write), source, note });
    }
    rows.push(row("max.poll.records", &listener.max_poll_records, ToString::to_string));
    rows.push(row("max.poll.interval.ms", &listener.max_poll_interval_ms, ToString::to_string));
    rows.push(row("concurrency", &listener.concurrency, ToString::to_string));
    rows
}

/// A write as one reads it.
fn shown_write(write: &Write) -> String {
    let mut text = write.op.name().to_owned();
    if !write.models.is_empty() {
        let models: Vec<&str> = write.models.iter().take(6).map(|model| model.name()).collect();
        let more = if write.models.len() > models.len() { ", ..." } else { "" };
        text = format!("{text} of {}{more}", models.join(", "));
    }
    let parts = [
        (write.id == Id::Generated, "a new _id each time"),
        (write.repeats, "any number of times"),
        (write.in_transaction, "in a transaction"),
        (write.is_guarded == Some(true), "guarded"),
        (!write.is_reported(), "its failure is not seen"),
    ];
    for (holds, what) in parts {
        if holds {
            text = format!("{text}, {what}");
        }
    }
    text
}

fn listener_source(listener: &crate::service::Listener) -> Source {
    match &listener.place {
        Some(place) => Source::File(place.clone()),
        None => Source::default_of("backfire: assumed"),
    }
}

/// Retries as one reads them.
pub fn shown_retries(retries: &Retries) -> String {
    use backfire_model::back_off::BackOff;
    let limit = |limit: Option<i64>| limit.map_or_else(|| "no limit".to_owned(), |number| number.to_string());
    match retries {
        Retries::Times(number) => counted(number, "execution", "executions"),
        Retries::Annotation(annotation) => {
            format!("@RetryableTopic attempts {}, delay {} ms", annotation.attempts, annotation.delay_ms)
        }
        Retries::BackOff(BackOff::None) => "none".to_owned(),
        Retries::BackOff(BackOff::Fixed(fixed)) => {
            format!("FixedBackOff({}, {})", fixed.interval_ms, limit(fixed.max_retries))
        }
        Retries::BackOff(BackOff::Exponential(growing)) => format!(
            "ExponentialBackOff({} ms x {}, at most {} ms; maxElapsedTime {}, maxAttempts {})",
            growing.initial_interval_ms,
            growing.multiplier,
            growing.max_interval_ms,
            limit(growing.max_elapsed_ms),
            limit(growing.max_attempts)
        ),
        Retries::BackOff(BackOff::ExponentialMaxRetries(growing)) => format!(
            "ExponentialBackOffWithMaxRetries({}; {} ms x {}, at most {} ms)",
            growing.max_retries, growing.initial_interval_ms, growing.multiplier, growing.max_interval_ms
        ),
    }
}
