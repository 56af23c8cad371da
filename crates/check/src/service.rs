//! A service as it was understood: what decides how often its writes run, each value with its source.

use backfire_model::back_off::{BackOff, BackOffAnnotation, SpringVersion};
use backfire_model::connection_string::ConnectionString;

use crate::build::{Family, Known, Version, Versions};
use crate::format::tree::Flaw;
use crate::setting::{Setting, Source};
use crate::source::Place;
use crate::spring::Properties;

/// A connection string and what became of it.
#[derive(Debug, Clone)]
pub struct Uri {
    /// The string, if it can be used.
    pub parsed: Option<ConnectionString>,
    /// Where it comes from.
    pub source: Source,
    /// What is said about it: level, message, cure, and the bytes of the string it is about.
    pub diagnostics: Vec<backfire_model::connection_string::Diagnostic>,
    /// The bytes of the file that hold the string, where they hold it as it is.
    pub place: Option<Place>,
}

/// The client's settings.
#[derive(Debug, Clone)]
pub struct Client {
    /// Which driver.
    pub family: Family,
    /// Its version.
    pub version: Option<Known>,
    /// The connection string.
    pub uri: Option<Uri>,
    /// `socketTimeoutMS`; 0: waits for ever.
    pub socket_timeout_ms: Setting<u64>,
    /// `timeoutMS`; `None` inside: not set.
    pub timeout_ms: Setting<Option<u64>>,
    /// `retryWrites`.
    pub retry_writes: Setting<bool>,
    /// `serverSelectionTimeoutMS`.
    pub server_selection_timeout_ms: Setting<u64>,
    /// `maxPoolSize`.
    pub max_pool_size: Setting<u64>,
    /// Whether writes are not acknowledged (`w=0`).
    pub is_unacknowledged: bool,
    /// The round trip to the server, where it is stated.
    pub rtt_ms: Option<u64>,
}

impl Client {
    /// The driver with its version, for a sentence.
    pub fn driver(&self) -> String {
        match &self.version {
            Some(known) => format!("{} {}", self.family.name(), known.version),
            None => self.family.name().to_owned(),
        }
    }

    fn version_is(&self, family: Family, holds: impl Fn(&Version) -> bool) -> bool {
        self.family == family && self.version.as_ref().is_some_and(|known| holds(&known.version))
    }

    /// Why the driver does not use `socketTimeoutMS`, if it does not (facts/client.md A3, B).
    pub fn ignores_socket_timeout(&self) -> Option<&'static str> {
        if self.version_is(Family::Go, |version| version.major() >= 2) {
            return Some("the Go driver 2 accepts socketTimeoutMS and ignores it");
        }
        if self.family == Family::Rust {
            return Some("the Rust driver refuses a connection string with socketTimeoutMS");
        }
        (self.timeout_ms.value.flatten().is_some() && self.ignores_timeout().is_none())
            .then_some("timeoutMS is set, and then socketTimeoutMS is ignored")
    }

    /// Why the driver does not use `timeoutMS`, if it does not (facts/client.md A7, B).
    pub fn ignores_timeout(&self) -> Option<&'static str> {
        let no_effect =
            |version: &Version| (version.major() == 6 && version.at_least([6, 22, 0])) || version.at_least([7, 8, 0]);
        if self.version_is(Family::Node, no_effect) {
            return Some("timeoutMS has no effect in the Node driver from 6.22 (6.x) and 7.8 on");
        }
        if self.version_is(Family::Java, |version| !version.at_least([5, 2, 0])) {
            return Some("the Java driver knows timeoutMS from 5.2 on");
        }
        if self.family == Family::Rust {
            return Some("the Rust driver has no timeoutMS and refuses the option");
        }
        None
    }

    /// What ends the client's wait for a reply.
    pub fn patience(&self) -> Patience {
        match self.timeout_ms.value.flatten() {
            Some(0) if self.ignores_timeout().is_none() => return Patience::Forever,
            Some(timeout_ms) if self.ignores_timeout().is_none() => return Patience::Operation(timeout_ms),
            _ => {}
        }
        match self.socket_timeout_ms.value {
            None => Patience::Unknown,
            Some(0) => Patience::Forever,
            Some(_) if self.ignores_socket_timeout().is_some() => Patience::Forever,
            Some(timeout_ms) => Patience::Socket(timeout_ms),
        }
    }
}

/// What ends the client's wait for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Nothing.
    Forever,
    /// `socketTimeoutMS`, after each send.
    Socket(u64),
    /// `timeoutMS`, for the operation as a whole.
    Operation(u64),
    /// It is not known.
    Unknown,
}

/// What a write is, as far as retries go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// `insertOne`, Spring's `insert`, `save` of a new document.
    Insert,
    /// `insertMany`, `saveAll`.
    InsertMany,
    /// `save` of a document with an `_id`: a replacement with upsert.
    Save,
    /// `replaceOne`.
    Replace,
    /// `updateOne`, `updateFirst`.
    Update,
    /// An update of one document with upsert.
    Upsert,
    /// `updateMany`, `updateMulti`.
    UpdateMany,
    /// `deleteOne`.
    Delete,
    /// `deleteMany`, and every `remove` of Spring Data's templates and bulks.
    DeleteMany,
    /// `findOneAnd…`, `findAndModify`.
    FindAndModify,
    /// `bulkWrite`, `bulkOps`.
    Bulk,
    /// `runCommand`, `executeCommand`.
    Command,
    /// An aggregation with `$out` or `$merge`.
    Aggregate,
}

impl Op {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::InsertMany => "insert of several documents",
            Self::Save => "save",
            Self::Replace => "replace",
            Self::Update => "update",
            Self::Upsert => "upsert",
            Self::UpdateMany => "updateMany",
            Self::Delete => "delete",
            Self::DeleteMany => "deleteMany",
            Self::FindAndModify => "findAndModify",
            Self::Bulk => "bulk",
            Self::Command => "command",
            Self::Aggregate => "aggregation that writes",
        }
    }

    /// The operation that `backfire.toml` calls so.
    pub fn from_name(name: &str) -> Option<Self> {
        let plain = name.to_ascii_lowercase().replace(['-', '_'], "");
        OPS.iter().find(|(known, _)| *known == plain).map(|(_, op)| *op)
    }

    /// Whether it touches more than one document, so that it is never resent.
    pub fn is_multi(self) -> bool {
        matches!(self, Self::UpdateMany | Self::DeleteMany)
    }
}

/// The names of operations, for `backfire.toml`.
pub const OPS: &[(&str, Op)] = &[
    ("insert", Op::Insert),
    ("insertone", Op::Insert),
    ("insertmany", Op::InsertMany),
    ("saveall", Op::InsertMany),
    ("save", Op::Save),
    ("replace", Op::Replace),
    ("replaceone", Op::Replace),
    ("update", Op::Update),
    ("updateone", Op::Update),
    ("updatefirst", Op::Update),
    ("upsert", Op::Upsert),
    ("updatemany", Op::UpdateMany),
    ("updatemulti", Op::UpdateMany),
    ("delete", Op::Delete),
    ("deleteone", Op::Delete),
    ("deletemany", Op::DeleteMany),
    ("remove", Op::DeleteMany),
    ("findandmodify", Op::FindAndModify),
    ("findoneandupdate", Op::FindAndModify),
    ("findoneandreplace", Op::FindAndModify),
    ("findoneanddelete", Op::FindAndModify),
    ("bulk", Op::Bulk),
    ("bulkwrite", Op::Bulk),
    ("bulkops", Op::Bulk),
    ("command", Op::Command),
    ("runcommand", Op::Command),
    ("aggregate", Op::Aggregate),
];

/// Whether a document has an `_id` that is the same in every execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Id {
    /// The driver makes a new one per execution.
    Generated,
    /// The application gives it.
    Own,
    /// It cannot be seen.
    Unknown,
}

/// One write of a listener.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// What it is.
    pub op: Op,
    /// For inserts: where the `_id` comes from.
    pub id: Id,
    /// For updates, upserts and saves: whether an older copy is kept from undoing newer data, by a version or an order in the filter.
    pub is_guarded: Option<bool>,
    /// What a bulk is made of, in order; empty: not known.
    pub models: Vec<Op>,
    /// Whether a bulk is ordered.
    pub is_ordered: bool,
    /// `maxTimeMS` that reaches the server.
    pub max_time_ms: Option<u64>,
    /// A `maxTime` that is set and dropped on the way, as Spring Data does for findAndModify.
    pub dropped_max_time: bool,
    /// Whether it runs in a transaction.
    pub in_transaction: bool,
    /// Whether Spring Data MongoDB makes it.
    pub by_spring_data: bool,
    /// Whether it runs any number of times in one execution: in a loop over something else than the batch's records, or as a
    /// bulk that loops over several kinds of writes.
    pub repeats: bool,
    /// The operator of its update that changes the document again in each run: `inc`, `push`.
    pub counts: Option<String>,
    /// What becomes of its failure.
    pub failure: Failure,
    /// Retries around it, within the listener, from the write outwards.
    pub layers: Vec<Layer>,
    /// The methods that lead to it, from the listener on.
    pub path: Vec<String>,
    /// Where it stands.
    pub place: Option<Place>,
}

/// What becomes of a failed write on its way to the error handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It gets there.
    Reported,
    /// It is caught and not thrown again: the record counts as done.
    Swallowed(Option<Place>),
    /// The write runs on another thread, or nobody waits for its result.
    Detached {
        /// What takes it there.
        how: String,
        /// Where.
        place: Option<Place>,
    },
}

impl Write {
    /// A write of which nothing but its kind is known.
    pub fn new(op: Op) -> Self {
        Self {
            op,
            id: Id::Unknown,
            is_guarded: None,
            models: Vec::new(),
            is_ordered: true,
            max_time_ms: None,
            dropped_max_time: false,
            in_transaction: false,
            by_spring_data: false,
            repeats: false,
            counts: None,
            failure: Failure::Reported,
            layers: Vec::new(),
            path: Vec::new(),
            place: None,
        }
    }

    /// Whether the error handler sees its failure.
    pub fn is_reported(&self) -> bool {
        self.failure == Failure::Reported
    }

    /// Whether the driver may resend its commands, `retryWrites` being on (facts/client.md A5, A6; B for the others).
    pub fn is_retryable(&self, family: Family) -> bool {
        if self.in_transaction {
            return false;
        }
        match self.op {
            Op::UpdateMany | Op::DeleteMany | Op::Command | Op::Aggregate => false,
            Op::Bulk if family == Family::Java => !self.models.iter().any(|model| model.is_multi()),
            // Other drivers judge each command; the first one is what stalls first.
            Op::Bulk => !self.models.first().is_some_and(|model| model.is_multi()),
            _ => true,
        }
    }

    /// The number of commands that one execution sends when all goes well; `None`: not known.
    pub fn commands(&self) -> Option<u64> {
        if self.repeats {
            return None;
        }
        if self.op != Op::Bulk {
            return Some(1);
        }
        if self.models.is_empty() {
            return None;
        }
        // Update and replace are different types: two commands (facts/client.md A5).
        let kind = |op: &Op| match op {
            Op::Insert | Op::InsertMany => 0,
            Op::Update | Op::Upsert | Op::UpdateMany => 1,
            Op::Replace | Op::Save => 2,
            _ => 3,
        };
        let mut kinds: Vec<i32> = self.models.iter().map(kind).collect();
        if !self.is_ordered {
            kinds.sort_unstable();
        }
        kinds.dedup();
        Some(kinds.len() as u64)
    }
}

/// How a listener gets its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerKind {
    /// One record per call.
    Single,
    /// All records of a poll per call.
    Batch,
    /// Retries through further topics (`@RetryableTopic`).
    RetryTopic,
    /// A Kafka Connect sink.
    Sink,
}

impl ListenerKind {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Batch => "batch",
            Self::RetryTopic => "retry topics",
            Self::Sink => "Kafka Connect sink",
        }
    }
}

/// How an execution is repeated.
#[derive(Debug, Clone, PartialEq)]
pub enum Retries {
    /// A `BackOff` of Spring.
    BackOff(BackOff),
    /// `@RetryableTopic` and its `@Backoff`.
    Annotation(BackOffAnnotation),
    /// So many executions, without waits.
    Times(u64),
}

/// What is done with a record whose retries are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recoverer {
    /// It is logged and dropped.
    Log,
    /// It is published to a dead-letter topic.
    DeadLetter,
    /// Something of the application's own.
    Own,
    /// A connector's task stops.
    Stop,
}

/// The error handler of a listener.
#[derive(Debug, Clone, PartialEq)]
pub struct Handler {
    /// What it repeats, and when.
    pub retries: Setting<Retries>,
    /// Whether it is Spring Kafka's default.
    pub is_default: bool,
    /// Whether another class of exception starts the series anew.
    pub resets_on_exception_change: Setting<bool>,
    /// Whether a recoverer that fails starts the series anew.
    pub resets_on_recovery_failure: Setting<bool>,
    /// What happens at the end.
    pub recoverer: Setting<Recoverer>,
    /// The longest that publishing a dead letter may take (facts/client.md D3).
    pub dead_letter_wait_ms: u64,
    /// Exceptions that are not retried, beside Spring Kafka's own list; `None`: not known.
    pub not_retryable: Option<Vec<String>>,
    /// Whether the container is paused during a wait, so that polls go on.
    pub pauses: bool,
    /// Where it stands.
    pub place: Option<Place>,
}

/// A retry layer inside the listener, such as `@Retryable` on the service it calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Its name: `@Retryable`.
    pub name: String,
    /// Executions; `None`: not known.
    pub executions: Option<u64>,
    /// The waits between them, in all.
    pub waits_ms: u64,
    /// Where it comes from.
    pub source: Source,
}

/// A listener, or a sink: something that is handed records and writes.
#[derive(Debug, Clone)]
pub struct Listener {
    /// Its name: class and method, a binding, a connector.
    pub name: String,
    /// Where it stands.
    pub place: Option<Place>,
    /// How it gets its records.
    pub kind: ListenerKind,
    /// Its error handler.
    pub handler: Handler,
    /// Retry layers inside it.
    pub layers: Vec<Layer>,
    /// Its writes; empty: none was found.
    pub writes: Vec<Write>,
    /// `max.poll.records`.
    pub max_poll_records: Setting<u64>,
    /// `max.poll.interval.ms`.
    pub max_poll_interval_ms: Setting<u64>,
    /// Consumers in one process.
    pub concurrency: Setting<u64>,
    /// How long a record takes when nothing is wrong; 0 where it is not stated.
    pub record_ms: Setting<u64>,
    /// Whether it gives back a `Mono`, a future or the like: the consumer goes on polling meanwhile.
    pub is_asynchronous: bool,
    /// Whether nothing but settings speaks for it.
    pub is_assumed: bool,
}

impl Listener {
    /// Whether its error handler sees failures of its writes; writes that are not known are assumed to be seen.
    pub fn is_reported(&self) -> bool {
        self.writes.is_empty() || self.writes.iter().any(Write::is_reported)
    }

    /// The retries inside it, each once.
    pub fn inner_layers(&self) -> Vec<&Layer> {
        let mut found: Vec<&Layer> = Vec::new();
        for layer in self.layers.iter().chain(self.writes.iter().flat_map(|write| &write.layers)) {
            if !found.contains(&layer) {
                found.push(layer);
            }
        }
        found
    }
}

/// A service.
#[derive(Debug, Clone)]
pub struct Service {
    /// Its folder, as shown.
    pub name: String,
    /// The versions of its parts.
    pub versions: Versions,
    /// Its client.
    pub client: Client,
    /// Its Spring configuration.
    pub properties: Option<Properties>,
    /// Its listeners and sinks.
    pub listeners: Vec<Listener>,
    /// How many processes consume.
    pub consumers: Setting<u64>,
    /// How many writes the server lets into its engine at once.
    pub write_tickets: Setting<u64>,
    /// How long the server stands still; `None`: longer than all retries.
    pub stall_ms: Option<Setting<u64>>,
    /// Listeners in whose code no write was found.
    pub silent: Vec<Listener>,
    /// What could not be read.
    pub flaws: Vec<Flaw>,
    /// Sources that could not be followed to the end.
    pub not_followed: Vec<Flaw>,
    /// Lines that name a storage engine without retryable writes.
    pub unsuitable_engines: Vec<Place>,
    /// What connectors' files say.
    pub sinks: Vec<crate::connect::Sink>,
    /// Spelling mistakes of Kafka's properties: message, cure, place.
    pub unbound: Vec<Unbound>,
}

/// A property that nobody reads.
#[derive(Debug, Clone)]
pub struct Unbound {
    /// Whether it is one of those that Spring Boot 4 renamed.
    pub is_renamed: bool,
    /// What is wrong.
    pub message: String,
    /// What to write.
    pub fix: String,
    /// Where.
    pub place: Option<Place>,
}

impl Client {
    /// What bounds the wait for a reply in this driver, as it is written in a connection string.
    pub fn bound(&self, timeout_ms: u64) -> String {
        match self.family {
            Family::Rust => {
                format!("a deadline of the application's own, such as tokio::time::timeout, of {timeout_ms} ms")
            }
            Family::Go if self.ignores_socket_timeout().is_some() => format!("timeoutMS={timeout_ms}"),
            _ => format!("socketTimeoutMS={timeout_ms}"),
        }
    }
}

impl Service {
    /// Whether Spring Kafka's error handler and Spring Data's exceptions apply.
    pub fn is_spring(&self) -> bool {
        self.client.family == Family::Java && self.sinks.is_empty()
    }

    /// The version of Spring Framework, as far as back-off differs.
    pub fn spring(&self) -> SpringVersion {
        let version = self.versions.spring_framework.as_ref().map(|known| known.version.to_string());
        version.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// The version of Spring Kafka; without one, that of Spring Boot 3.5's first release.
    pub fn spring_kafka(&self) -> Option<&Version> {
        self.versions.spring_kafka.as_ref().map(|known| &known.version)
    }
}
