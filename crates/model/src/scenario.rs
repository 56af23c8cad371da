//! A scenario: client settings, application retry, workload and stall, as a TOML file.

mod bulk;
mod gateway;
mod inner;
mod keys;
mod spring;

use std::fmt;

use serde::{Deserialize, Serialize};
use toml::Table;

use crate::back_off::{BackOff, BackOffError, SpringVersion, no_random};
use crate::budget::RetryBudget;
use crate::connection_string::{ConnectionString, Problem};
use crate::ids::Namespace;
use crate::load::{Kafka, ListenerKind, Load};
use crate::predict::{Command, CommandName, Effect, Plan, Stall, Statement};
use bulk::Rules;
use keys::Source;

pub use bulk::{Model, ModelKind};
pub use gateway::Gateway;
pub use inner::{INNER_LAYERS_MAX, Inner};

/// The built-in scenarios: name and file.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("retry-lab", include_str!("../scenarios/retry-lab.toml")),
    ("store-inventory", include_str!("../scenarios/store-inventory.toml")),
    ("default-handler", include_str!("../scenarios/default-handler.toml")),
    ("retry-writes-off", include_str!("../scenarios/retry-writes-off.toml")),
    ("max-time", include_str!("../scenarios/max-time.toml")),
    ("engine-stall", include_str!("../scenarios/engine-stall.toml")),
    ("update-many", include_str!("../scenarios/update-many.toml")),
    ("upsert-by-id", include_str!("../scenarios/upsert-by-id.toml")),
    ("ticket-queue", include_str!("../scenarios/ticket-queue.toml")),
    ("client-gone", include_str!("../scenarios/client-gone.toml")),
    ("times-one", include_str!("../scenarios/times-one.toml")),
    ("lost-reply", include_str!("../scenarios/lost-reply.toml")),
    ("late-copy", include_str!("../scenarios/late-copy.toml")),
    ("poll-interval", include_str!("../scenarios/poll-interval.toml")),
    ("retry-storm", include_str!("../scenarios/retry-storm.toml")),
];

/// More executions than this are not run: they are as good as unbounded.
const EXECUTIONS_MAX: usize = 10_000;

/// Text in a document that stands for the record, as `partition-offset`.
pub const RECORD_PLACEHOLDER: &str = "$record";

/// Text in a document that stands for the number of the execution.
pub const EXECUTION_PLACEHOLDER: &str = "$execution";

/// A scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows, in one or two sentences.
    pub summary: String,
    /// The server version that the lab server behaves like.
    #[serde(default = "default_profile")]
    pub profile: String,
    /// Client settings.
    pub client: Client,
    /// The application's retry.
    #[serde(default)]
    pub retry: Retry,
    /// What is written.
    pub workload: Workload,
    /// What keeps the server from finishing.
    pub stall: Stall,
    /// When it does.
    #[serde(default, skip_serializing_if = "Window::is_default")]
    pub window: Window,
    /// What stands between the clients and the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Gateway>,
    /// Server settings.
    #[serde(default)]
    pub server: Server,
    /// The Kafka consumers, for a simulation.
    #[serde(default, skip_serializing_if = "Kafka::is_default")]
    pub kafka: Kafka,
    /// How much there is to do, for a simulation.
    #[serde(default, skip_serializing_if = "Load::is_default")]
    pub load: Load,
}

/// When the stall begins and how long it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// When it begins.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_ms: u64,
    /// How long it lasts; without it, until the application has finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// The one command that meets it; without it, every write. Goes with `fail-command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandName>,
}

impl Window {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn default_profile() -> String {
    "4.4".to_owned()
}

/// Client settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// The connection string; its hosts are replaced by the lab server's.
    pub uri: String,
    /// `maxTimeMS` on every write. (The Java driver has no such option on most writes; backfire's has.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time_ms: Option<u64>,
    /// Whose rules the driver follows.
    #[serde(default, skip_serializing_if = "DriverRules::is_default")]
    pub driver: DriverRules,
    /// The application gives up an execution after this long, as a Go program does whose context has a deadline, or a Rust
    /// program that drops the future: the driver does not resend then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_after_ms: Option<u64>,
}

/// Whose rules a driver follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum DriverRules {
    /// Java driver 5.4.
    #[default]
    #[serde(rename = "java-5.4")]
    Java54,
    /// Java driver 5.14: the same with retries of its own where a server is overloaded.
    #[serde(rename = "java-5.14")]
    Java514,
    /// The drivers' common specifications, where they say something else than Java does.
    #[serde(rename = "specification")]
    Specification,
    /// One that resends without a limit, also while there is no primary (report R86). No official driver does.
    #[serde(rename = "unbounded")]
    Unbounded,
}

impl DriverRules {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            DriverRules::Java54 => "java-5.4",
            DriverRules::Java514 => "java-5.14",
            DriverRules::Specification => "specification",
            DriverRules::Unbounded => "unbounded",
        }
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// A replacement is a command of its own, and one multi write makes a whole bulk one that is not resent (A5). The
    /// specifications say neither.
    fn cuts_bulks_as_java(self) -> bool {
        self != DriverRules::Specification
    }

    /// Answers overload errors with sends of its own (C2).
    fn has_backpressure(self) -> bool {
        matches!(self, DriverRules::Java514 | DriverRules::Specification)
    }
}

/// The application's retry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The back-off of its error handler. The default is Spring Kafka's: `FixedBackOff(0, 9)`.
    #[serde(default)]
    pub back_off: BackOff,
    /// Whether the back-off starts over when an execution fails with another class of error than the one before. Spring
    /// Kafka does so from 2.9 on.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub reset_on_exception_change: bool,
    /// The consumer crashes when the retries are used up, and is started again after this long: the record begins anew, and
    /// is no dead letter (report R85).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_after_ms: Option<u64>,
    /// What a client and its consumers may spend on retries, the driver's resends included: a retry that it does not allow is
    /// not made, and the record is a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<RetryBudget>,
    /// Retries within one call of the listener, from the innermost layer outwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<Inner>,
    /// The version of Spring Framework whose back-off it is; `jitter_ms` came with 7.0.
    #[serde(default, with = "spring", skip_serializing_if = "spring::is_default")]
    pub spring_framework: SpringVersion,
}

fn yes() -> bool {
    true
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            back_off: BackOff::default(),
            reset_on_exception_change: true,
            restart_after_ms: None,
            budget: None,
            inner: Vec::new(),
            spring_framework: SpringVersion::default(),
        }
    }
}

/// What one execution writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// `insertOne`: `document`.
    InsertOne,
    /// `insertMany`: `documents`.
    InsertMany,
    /// `bulkWrite` of inserts: `documents`.
    BulkInsert,
    /// `bulkWrite` of any writes: `models`, `ordered`.
    BulkWrite,
    /// `updateOne`: `filter`, `update`, `upsert`.
    UpdateOne,
    /// `updateMany`: `filter`, `update`.
    UpdateMany,
    /// `findOneAndUpdate`: `filter`, `update`, `upsert`.
    FindOneAndUpdate,
}

/// What is written. In documents, the text `$execution` stands for the number of the execution, `$record` for the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// `db.collection`.
    pub namespace: String,
    /// What one execution does.
    pub operation: Operation,
    /// The document of `insert-one`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<Table>,
    /// The documents of `insert-many` and `bulk-insert`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<Table>,
    /// The writes of `bulk-write`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<Model>,
    /// Whether `bulk-write` keeps their order.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub ordered: bool,
    /// Which document is updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Table>,
    /// How it is updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Table>,
    /// Whether an update inserts the document that it does not find.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upsert: bool,
    /// Documents that are there before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seed: Vec<Table>,
    /// How many reads the client has under way beside the write; they are held at the server.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_reads: u64,
    /// The client closes its connections this long after its first send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang_up_after_ms: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Server settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// How many writes may be in the engine at once.
    #[serde(default = "default_tickets")]
    pub write_tickets: u64,
    /// How many writes one command may carry (`maxWriteBatchSize` of its `hello`).
    #[serde(default = "default_batch", skip_serializing_if = "is_default_batch")]
    pub max_write_batch_size: u64,
}

fn default_tickets() -> u64 {
    128
}

/// That of servers since 3.6 (facts/client.md A5).
fn default_batch() -> u64 {
    100_000
}

fn is_default_batch(size: &u64) -> bool {
    *size == default_batch()
}

impl Default for Server {
    fn default() -> Self {
        Self { write_tickets: default_tickets(), max_write_batch_size: default_batch() }
    }
}

/// Why a scenario file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    /// Line and column, from 1, where that can be said.
    pub at: Option<(usize, usize)>,
    /// The line itself.
    pub line: Option<String>,
    /// What is wrong, with the offending value, and what is allowed.
    pub message: String,
    /// The key it is about, such as `client.uri`.
    key: Option<&'static str>,
}

impl ScenarioError {
    fn new(message: impl Into<String>) -> Self {
        Self { at: None, line: None, message: message.into(), key: None }
    }

    /// About a key, whose place in the file can be looked up.
    fn about(key: &'static str, message: impl Into<String>) -> Self {
        Self { key: Some(key), ..Self::new(message) }
    }

    /// The same with its place in the file.
    fn located(self, source: &Source<'_>, text: &str) -> Self {
        match self.key.and_then(|key| source.offset(key)) {
            Some(offset) if self.at.is_none() => Self { key: self.key, ..Self::at(text, offset, self.message) },
            _ => self,
        }
    }

    fn at(text: &str, offset: usize, message: String) -> Self {
        let before = &text[..offset.min(text.len())];
        let line = before.matches('\n').count();
        let column = before.len() - before.rfind('\n').map_or(0, |newline| newline + 1);
        // A connection string may have a password in it.
        let shown = text.lines().nth(line).filter(|line| !line.contains("://")).map(str::to_owned);
        Self { at: Some((line + 1, column + 1)), line: shown, message, key: None }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.at {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)?;
        if let (Some((number, column)), Some(line)) = (self.at, &self.line) {
            write!(f, "\n  {number} | {line}\n  {:width$} | {:>column$}", "", "^", width = number.to_string().len())?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// The built-in scenario called `name`.
    ///
    /// # Errors
    /// When there is none; the message names the nearest.
    pub fn built_in(name: &str) -> Result<Self, ScenarioError> {
        match BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            Some((_, text)) => Self::parse(text),
            None => {
                let names = BUILT_IN.iter().map(|(name, _)| *name);
                let nearest = nearest(name, names.clone()).map(|nearest| format!("; did you mean '{nearest}'?"));
                let all = names.collect::<Vec<_>>().join(", ");
                Err(ScenarioError::new(format!(
                    "there is no scenario '{name}'{}\nThere are: {all}",
                    nearest.unwrap_or_default()
                )))
            }
        }
    }

    /// Reads a scenario file.
    ///
    /// # Errors
    /// With line and column: for TOML that is none, an unknown key (with the nearest known one), a value of the wrong
    /// type or out of range, settings that contradict each other, a key that would do nothing.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let source = Source::new(text);
        if let Some(source) = &source {
            source.check()?;
        }
        let scenario: Self = toml::from_str(text).map_err(|error| {
            let message = with_nearest(error.message());
            match error.span() {
                Some(span) => ScenarioError::at(text, span.start, message),
                None => ScenarioError::new(message),
            }
        })?;
        scenario.check().map_err(|error| match &source {
            Some(source) => error.located(source, text),
            None => error,
        })?;
        Ok(scenario)
    }

    /// What is ignored in the connection string, or does not mean what was meant; with its place in `text`, the file that
    /// the scenario was read from.
    pub fn warnings(&self, text: &str) -> Vec<String> {
        let Ok(uri) = self.connection_string() else { return Vec::new() };
        let no_effect = uri.notes().filter(|note| note.problem == Problem::NoEffect);
        let place = Source::new(text).and_then(|source| source.offset("client.uri"));
        let line = place.map(|offset| format!("line {}: ", text[..offset].matches('\n').count() + 1));
        let line = line.unwrap_or_default();
        uri.warnings().chain(no_effect).map(|diagnostic| format!("{line}client.uri: {diagnostic}")).collect()
    }

    /// Whether it can be run: values in range, and settings that do not contradict each other.
    ///
    /// # Errors
    /// The first setting that is wrong, and what is allowed.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let fail = |key: &'static str, message: String| Err(ScenarioError::about(key, message));
        let workload = &self.workload;
        if Namespace::parse(&workload.namespace).is_none() {
            return fail(
                "workload.namespace",
                format!("workload.namespace '{}' is not of the form 'database.collection'", workload.namespace),
            );
        }
        self.connection_string()?;
        let operation = workload.operation;
        let name = toml::Value::try_from(operation).map_or_else(|_| String::new(), |name| name.to_string());
        let inserts = match operation {
            Operation::InsertOne => {
                if workload.document.is_none() {
                    return fail(
                        "workload.operation",
                        "workload.operation \"insert-one\" needs workload.document".to_owned(),
                    );
                }
                workload.document.iter().collect::<Vec<_>>()
            }
            Operation::InsertMany | Operation::BulkInsert => {
                if workload.documents.is_empty() {
                    return fail("workload.operation", format!("workload.operation {name} needs workload.documents"));
                }
                workload.documents.iter().collect()
            }
            Operation::BulkWrite => {
                if workload.models.is_empty() {
                    return fail("workload.operation", format!("workload.operation {name} needs workload.models"));
                }
                bulk::check(&workload.models, &workload.seed)
                    .map_err(|message| ScenarioError::about("workload.models", message))?;
                workload.models.iter().filter_map(Model::inserted).collect()
            }
            Operation::UpdateOne | Operation::UpdateMany | Operation::FindOneAndUpdate => {
                if workload.filter.is_none() || workload.update.is_none() {
                    return fail(
                        "workload.operation",
                        format!("workload.operation {name} needs workload.filter and workload.update"),
                    );
                }
                if operation == Operation::UpdateMany && workload.upsert {
                    return fail(
                        "workload.upsert",
                        "workload.upsert goes with \"update-one\" and \"find-one-and-update\" only".to_owned(),
                    );
                }
                if workload.upsert && !workload.filter.as_ref().is_some_and(|filter| filter.contains_key("_id")) {
                    return fail(
                        "workload.filter",
                        "an upsert needs an _id in workload.filter: without one, copies may insert several documents"
                            .to_owned(),
                    );
                }
                Vec::new()
            }
        };
        if inserts.iter().any(|document| document.contains_key("_id")) {
            return fail(
                "workload",
                "an inserted document must not have an _id of its own: a second copy would fail with E11000; use \
                 \"update-one\" with upsert = true for a document that is to be written once"
                    .to_owned(),
            );
        }
        if self.workload.hang_up_after_ms.is_some() && self.stall != Stall::Engine {
            return fail(
                "workload.hang_up_after_ms",
                "workload.hang_up_after_ms needs stall.kind = \"engine\": the write must be under way".to_owned(),
            );
        }
        if self.workload.held_reads > 0 && self.workload.hang_up_after_ms.is_none() {
            return fail(
                "workload.held_reads",
                "workload.held_reads needs workload.hang_up_after_ms: nothing else ends them".to_owned(),
            );
        }
        if self.window.command.is_some() && !matches!(self.stall, Stall::FailCommand { .. }) {
            return fail("window.command", "window.command goes with stall.kind = \"fail-command\"".to_owned());
        }
        if (self.window.from_ms > 0 || self.window.for_ms.is_some()) && !self.stall.is_lifted() {
            return fail("window", "window goes with a stall that is lifted: engine, interruptible, tickets, lock, sessions, slow, step-down, freeze".to_owned());
        }
        if self.window.for_ms == Some(0) {
            return fail(
                "window.for_ms",
                "window.for_ms is 0; for no stall at all set stall.kind = \"none\"".to_owned(),
            );
        }
        if let Stall::FailCommand { times: 0, .. }
        | Stall::LostReply { times: 0 }
        | Stall::Reset { times: 0 }
        | Stall::Overload { times: 0 } = self.stall
        {
            return fail(
                "stall.times",
                "stall.times is 0; it must be 1 or more (a fail point with times: 0 still meets one command); for no stall \
                 at all set stall.kind = \"none\""
                    .to_owned(),
            );
        }
        if let Some(gateway) = &self.gateway {
            gateway.check().map_err(|(key, message)| ScenarioError::about(key, message))?;
            if !self.connection_string()?.compressors().is_empty() {
                let message =
                    "client.uri: a gateway reads commands, and cannot read compressed ones; leave compressors out";
                return fail("client.uri", message.to_owned());
            }
        }
        if self.retry.budget.is_some() && self.kafka.listener == ListenerKind::Batch {
            return fail("retry.budget", "retry.budget goes with kafka.listener = \"single\"".to_owned());
        }
        if self.client.cancel_after_ms == Some(0) {
            return fail("client.cancel_after_ms", "client.cancel_after_ms is 0; it must be 1 or more".to_owned());
        }
        if self.client.cancel_after_ms.is_some() && workload.hang_up_after_ms.is_some() {
            let message = "client.cancel_after_ms does nothing beside workload.hang_up_after_ms, which ends the client";
            return fail("client.cancel_after_ms", message.to_owned());
        }
        self.kafka.check().map_err(|message| ScenarioError::about("kafka", message))?;
        self.load.check().map_err(|message| ScenarioError::about("load", message))?;
        if self.server.write_tickets < 5 {
            return fail(
                "server.write_tickets",
                format!("server.write_tickets is {}; a server has at least 5", self.server.write_tickets),
            );
        }
        if !(1..=default_batch()).contains(&self.server.max_write_batch_size) {
            return fail(
                "server.max_write_batch_size",
                format!(
                    "server.max_write_batch_size is {}; it must be from 1 to {}",
                    self.server.max_write_batch_size,
                    default_batch()
                ),
            );
        }
        if self.retry.inner.iter().any(|inner| inner.back_off.has_jitter()) {
            return fail("retry.inner", "retry.inner: jitter_ms is for retry.back_off only".to_owned());
        }
        let runs = self
            .inner_waits_ms(1.0)?
            .iter()
            .fold(self.waits_ms(1.0)?.len() + 1, |runs, waits_ms| runs.saturating_mul(waits_ms.len() + 1));
        if runs > EXECUTIONS_MAX {
            return fail(
                "retry.inner",
                format!("the layers of retries make {runs} executions; {EXECUTIONS_MAX} at most can be run"),
            );
        }
        Ok(())
    }

    /// The list of built-in scenarios as a Markdown page.
    pub fn built_in_markdown() -> String {
        let mut text = "# Built-in scenarios\n\n| scenario | what it shows |\n| --- | --- |\n".to_owned();
        for (name, source) in BUILT_IN {
            let summary = Self::parse(source).map(|scenario| scenario.summary).unwrap_or_default();
            text.push_str(&format!("| `{name}` | {} |\n", summary.replace('|', "\\|")));
        }
        text
    }

    /// The client settings.
    ///
    /// # Errors
    /// When the connection string is not one.
    pub fn connection_string(&self) -> Result<ConnectionString, ScenarioError> {
        ConnectionString::parse(&self.client.uri)
            .map_err(|error| ScenarioError::about("client.uri", format!("client.uri: {error}")))
    }

    /// The namespace.
    pub fn namespace(&self) -> Namespace {
        // Checked when the scenario was read.
        Namespace::parse(&self.workload.namespace).unwrap_or_else(|| Namespace::new("test", "backfire"))
    }

    /// The waits between executions; with jitter, the shortest.
    ///
    /// # Errors
    /// When the back-off is not valid or never ends.
    pub fn waits_ms(&self, scale: f64) -> Result<Vec<u64>, ScenarioError> {
        self.series("retry.back_off", &self.retry.back_off, scale)
    }

    /// The waits of the retries within a call, from the innermost layer outwards; with jitter, the shortest.
    ///
    /// # Errors
    /// When a back-off is not valid or never ends, or there are too many layers.
    pub fn inner_waits_ms(&self, scale: f64) -> Result<Vec<Vec<u64>>, ScenarioError> {
        if self.retry.inner.len() > INNER_LAYERS_MAX {
            let layers = self.retry.inner.len();
            let message = format!("retry.inner has {layers} layers; it can have {INNER_LAYERS_MAX}");
            return Err(ScenarioError::about("retry.inner", message));
        }
        self.retry.inner.iter().map(|inner| self.series("retry.inner", &inner.back_off, scale)).collect()
    }

    fn series(&self, key: &'static str, back_off: &BackOff, scale: f64) -> Result<Vec<u64>, ScenarioError> {
        let bad = |what: String| ScenarioError::about(key, format!("{key}: {what}"));
        let back_off = back_off.scaled(scale);
        let series = back_off.series(self.retry.spring_framework, no_random as fn() -> f64);
        let series = series.map_err(|error| match error {
            // Leaving the limit out, as the error itself advises, gives a series without an end.
            BackOffError::Negative { field, value, .. } => bad(format!("{field} is {value}; it must be 0 or more")),
            BackOffError::NotInVersion { version, since, field } => bad(format!(
                "{field} came with Spring Framework {since}, and this is {version}; set retry.spring_framework = \"{since}\""
            )),
            other => bad(other.to_string()),
        })?;
        let waits: Vec<u64> = series.take(EXECUTIONS_MAX).collect();
        if waits.len() == EXECUTIONS_MAX {
            return Err(bad(format!(
                "it has no end (more than {EXECUTIONS_MAX} retries); give it a number of retries"
            )));
        }
        Ok(waits)
    }

    /// What decides, with every time multiplied by `scale`.
    ///
    /// # Errors
    /// When a setting is not valid.
    pub fn plan(&self, scale: f64, deadline_counts_fail_point: bool) -> Result<Plan, ScenarioError> {
        let uri = self.connection_string()?;
        let workload = &self.workload;
        Ok(Plan {
            socket_timeout_ms: Some(uri.socket_timeout_ms()).filter(|ms| *ms > 0).map(|ms| scaled(ms, scale)),
            timeout_ms: uri.timeout_ms().map(|ms| scaled(ms, scale)),
            commands: self.commands(uri.retry_writes()),
            max_time_ms: self.client.max_time_ms.map(|ms| scaled(ms, scale)),
            waits_ms: self.waits_ms(scale)?,
            retry_budget: self.retry.budget.map(|budget| RetryBudget {
                // A shorter second has as many retries.
                per_second: (budget.per_second as f64 / scale).round() as u64,
                ..budget
            }),
            starts_over: self.retry.restart_after_ms.map(|ms| (scaled(ms, scale), RESTARTS)),
            resends_without_limit: self.client.driver == DriverRules::Unbounded,
            overload_retries: match self.client.driver.has_backpressure() && uri.retry_writes() {
                true => uri.max_adaptive_retries(),
                false => 0,
            },
            cancel_after_ms: self.client.cancel_after_ms.map(|ms| scaled(ms, scale)),
            gateway: self.gateway.map(|gateway| gateway.plan(|ms| scaled(ms, scale))),
            has_jitter: self.retry.back_off.has_jitter(),
            inner_waits_ms: self.inner_waits_ms(scale)?,
            // In a batch that is executed again it does not (D4).
            resets_on_exception_change: self.retry.reset_on_exception_change
                && self.kafka.listener == ListenerKind::Single,
            stall: match self.stall {
                Stall::FailCommand { hold_ms, times } => Stall::FailCommand { hold_ms: scaled(hold_ms, scale), times },
                Stall::Slow { takes_ms, distribution } => {
                    Stall::Slow { takes_ms: scaled(takes_ms, scale), distribution }
                }
                other => other,
            },
            stall_from_ms: scaled(self.window.from_ms, scale),
            stall_for_ms: self.window.for_ms.map(|ms| scaled(ms, scale)),
            stall_command: self.window.command,
            write_tickets: self.server.write_tickets,
            ticket_slice_ms: scaled(TICKET_SLICE_MS, scale).min(TICKET_SLICE_MAX_MS),
            deadline_counts_fail_point,
            hang_up_after_ms: workload.hang_up_after_ms.map(|ms| scaled(ms, scale)),
            held_reads: workload.held_reads,
            seeded: workload.seed.len() as u64,
            seeded_documents: match workload.operation {
                Operation::BulkWrite => bulk::seeded(&workload.models, &workload.seed),
                // A single write is about the one document.
                _ if workload.seed.is_empty() => Vec::new(),
                _ => vec![0],
            },
        })
    }

    /// The commands of one execution.
    fn commands(&self, retry_writes: bool) -> Vec<Command> {
        let workload = &self.workload;
        let max_batch = usize::try_from(self.server.max_write_batch_size).unwrap_or(usize::MAX);
        let one = |name, effect, is_retryable: bool| {
            let statements = vec![Statement { effect, document: 0 }];
            vec![Command { name, resends: retry_writes && is_retryable, statements }]
        };
        let update = if workload.upsert { Effect::SameDocument } else { Effect::NoDocument };
        match workload.operation {
            Operation::InsertOne => one(CommandName::Insert, Effect::NewDocuments(1), true),
            Operation::InsertMany | Operation::BulkInsert => {
                let parts = workload.documents.chunks(max_batch.max(1));
                parts.flat_map(|part| one(CommandName::Insert, Effect::NewDocuments(part.len() as u64), true)).collect()
            }
            Operation::UpdateOne => one(CommandName::Update, update, true),
            Operation::UpdateMany => one(CommandName::Update, update, false),
            Operation::FindOneAndUpdate => one(CommandName::FindAndModify, update, true),
            Operation::BulkWrite => {
                let as_java = self.client.driver.cuts_bulks_as_java();
                let rules = Rules {
                    is_ordered: workload.ordered,
                    retry_writes,
                    max_batch,
                    replace_is_own_command: as_java,
                    multi_write_spoils_bulk: as_java,
                };
                bulk::commands(&workload.models, &rules)
            }
        }
    }
}

/// Why there is no bound with [`Retry::restart_after_ms`].
const RESTARTS: &str = "the consumer restarts when its retries are used up, and begins the record anew";

/// How long a wait for a ticket sleeps between two interrupt checks (facts/server.md 7.1).
pub const TICKET_SLICE_MS: u64 = 500;

/// The lab server sleeps no longer than this between two, however slow everything is made.
pub const TICKET_SLICE_MAX_MS: u64 = 60_000;

/// A time multiplied by the scale; never 0, because 0 often means "no limit".
pub fn scaled(time_ms: u64, scale: f64) -> u64 {
    if time_ms == 0 { 0 } else { ((time_ms as f64 * scale).round() as u64).max(1) }
}

/// The nearest of `known` to `name`, if one is near.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR: f64 = 0.75;
    known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(similarity, _)| *similarity >= NEAR)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known)
}

/// Adds the nearest known key to the text of an "unknown field" or "unknown variant" error, which lists the known ones in
/// backticks.
fn with_nearest(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let Some(unknown) = names.next().filter(|_| message.starts_with("unknown ")) else { return message.to_owned() };
    match nearest(unknown, names) {
        Some(nearest) => format!("{message}; did you mean `{nearest}`?"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::predict;

    #[test]
    fn every_built_in_scenario_is_valid_and_keeps_its_name_and_promise() {
        // executions, sends, resends, copies, most copies at once, waiting resends, documents
        let promised = [
            ("retry-lab", [4, 8, 4, 4, 4, 0, 4]),
            ("store-inventory", [4, 8, 4, 4, 4, 4, 8]),
            ("default-handler", [10, 20, 10, 10, 10, 10, 10]),
            ("retry-writes-off", [4, 4, 0, 4, 4, 0, 4]),
            ("max-time", [4, 4, 0, 4, 1, 0, 0]),
            ("engine-stall", [4, 8, 4, 4, 4, 0, 4]),
            ("update-many", [4, 4, 0, 4, 4, 0, 3]),
            ("upsert-by-id", [4, 8, 4, 4, 4, 4, 1]),
            ("ticket-queue", [8, 13, 5, 8, 6, 0, 5]),
            ("client-gone", [1, 1, 0, 1, 1, 0, 1]),
            ("times-one", [1, 2, 1, 1, 1, 0, 1]),
            ("lost-reply", [1, 2, 1, 1, 1, 0, 1]),
            ("late-copy", [2, 3, 1, 2, 2, 0, 1]),
            ("poll-interval", [4, 8, 4, 4, 4, 4, 4]),
            // One write alone is over before the stall begins.
            ("retry-storm", [1, 1, 0, 1, 1, 0, 1]),
        ];
        assert_eq!(BUILT_IN.iter().map(|row| row.0).collect::<Vec<_>>(), promised.map(|row| row.0));
        for (name, counts) in promised {
            let scenario = Scenario::built_in(name).unwrap();
            assert_eq!(scenario.name, name);
            for scale in [1.0, 0.05] {
                let prediction = predict(&scenario.plan(scale, false).unwrap()).unwrap();
                assert_eq!(prediction.counts.rows().map(|row| row.2), counts, "{name} at {scale}");
            }
        }
    }

    #[test]
    fn errors_say_where_and_what_is_allowed() {
        let good = BUILT_IN[0].1;
        let check = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            Scenario::parse(&good.replacen(from, to, 1)).unwrap_err().to_string()
        };
        for (from, to, expected) in [
            ("operation =", "operaton =", "did you mean `operation`?"),
            ("operation =", "operaton =", "operaton ="),
            ("kind = \"fail-command\"", "kind = \"fail-comand\"", "did you mean `fail-command`?"),
            ("test.retry_lab", "retry_lab", "workload.namespace 'retry_lab' is not of the form"),
            ("mongodb://", "mongo://", "client.uri:"),
            ("max_retries = 3", "max_retries = -2", "retry.back_off:"),
            ("[workload]", "[workload", "line "),
        ] {
            let error = check(from, to);
            assert!(error.contains(expected), "{error}");
        }
        let unknown = check("operation =", "operaton =");
        let line = good.lines().position(|line| line.starts_with("operation =")).unwrap() + 1;
        assert!(unknown.starts_with(&format!("line {line}, column 1: ")), "{unknown}");
        let missing = Scenario::built_in("retry-lap").unwrap_err().to_string();
        assert!(missing.contains("did you mean 'retry-lab'?"), "{missing}");
    }

    #[test]
    fn an_endless_back_off_is_refused() {
        let text = BUILT_IN[0].1.replacen(", max_retries = 3", "", 1);
        assert!(Scenario::parse(&text).unwrap_err().to_string().contains("it has no end"));
        // What is advised is not refused as well.
        let text = BUILT_IN[0].1.replacen("max_retries = 3", "max_retries = -1", 1);
        let error = Scenario::parse(&text).unwrap_err().to_string();
        assert!(error.contains("retry.back_off: max_retries is -1; it must be 0 or more\n"), "{error}");
    }

    #[test]
    fn errors_about_a_key_have_its_place_and_no_password_is_shown() {
        let good = BUILT_IN[0].1;
        let line = |key: &str| good.lines().position(|line| line.starts_with(key)).unwrap() + 1;
        let tickets = format!("{good}\n[server]\nwrite_tickets = 1\n");
        let tickets_line = tickets.lines().count();
        for (text, expected) in [
            (good.replacen("test.retry_lab", "retry_lab", 1), format!("line {}, column 1: ", line("namespace ="))),
            (
                good.replacen("times = 8", "times = 0", 1),
                format!("line {}, column 1: stall.times is 0; ", line("times =")),
            ),
            (tickets, format!("line {tickets_line}, column 1: server.write_tickets is 1")),
            (
                good.replacen("mongodb://", "mongodb://me:secret@a:x,", 1),
                format!("line {}, column 1: client.uri: ", line("uri =")),
            ),
            (good.replacen("\"mongodb://", "mongodb://me:secret@", 1), format!("line {}, column ", line("uri ="))),
        ] {
            let error = Scenario::parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(&expected) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn what_a_connection_string_loses_is_said() {
        let good = BUILT_IN[0].1;
        let line = good.lines().position(|line| line.starts_with("uri =")).unwrap() + 1;
        let warnings = |from: &str, to: &str| {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good);
            Scenario::parse(&text).unwrap().warnings(&text)
        };
        let cases = [
            (
                "retryWrites=true",
                "retryWrite=false",
                "the option \"retryWrite\" is not known and is ignored; did you mean retryWrites?",
            ),
            ("retryWrites=true", "retryWrites=flase", "retryWrites=\"flase\" "),
            ("socketTimeoutMS=5000", "socketTimoutMS=5000", "did you mean socketTimeoutMS?"),
            ("socketTimeoutMS=5000", "socketTimeoutMS=30s", "socketTimeoutMS=\"30s\" "),
            (
                "socketTimeoutMS=5000",
                "socketTimeoutMS=5000&timeoutMS=9000",
                "socketTimeoutMS has no effect, because timeoutMS is set",
            ),
        ];
        for (from, to, expected) in cases {
            let found = warnings(from, to);
            assert!(found.len() == 1 && found[0].starts_with(&format!("line {line}: client.uri: ")), "{found:?}");
            assert!(found[0].contains(expected), "{found:?}");
        }
        for (_, text) in BUILT_IN {
            assert_eq!(Scenario::parse(text).unwrap().warnings(text), [""; 0]);
        }
    }

    #[test]
    fn jitter_needs_a_version_that_has_it_and_has_no_prediction() {
        let jitter = "kind = \"exponential-max-retries\", initial_interval_ms = 1000, jitter_ms = 100, max_retries = 3";
        let text = BUILT_IN[0].1.replacen("kind = \"fixed\", interval_ms = 0, max_retries = 3", jitter, 1);
        let error = Scenario::parse(&text).unwrap_err().to_string();
        assert!(error.contains("set retry.spring_framework = \"7.0\""), "{error}");
        let text = text.replacen("[retry]", "[retry]\nspring_framework = \"7.1\"", 1);
        let scenario = Scenario::parse(&text).unwrap();
        assert_eq!(Scenario::parse(&toml::to_string(&scenario).unwrap()), Ok(scenario.clone()));
        let error = predict(&scenario.plan(1.0, false).unwrap()).unwrap_err().to_string();
        assert!(error.contains("jitter"), "{error}");
    }
}
