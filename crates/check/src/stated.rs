//! `backfire.toml`: what cannot be found can be stated.

use std::sync::Arc;

use backfire_model::back_off::BackOff;
use serde::Deserialize;

use crate::source::{Place, SourceFile};

/// A value and its bytes in the file.
pub type Spanned<T> = toml::Spanned<T>;

/// The file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stated {
    /// The driver.
    pub driver: Driver,
    /// The client's settings.
    pub client: ClientPart,
    /// The consumers.
    pub kafka: Kafka,
    /// The server.
    pub server: Server,
    /// Listeners that cannot be found, or more about those that are.
    pub listener: Vec<ListenerPart>,
    /// Findings that are not wanted.
    pub ignore: Vec<Ignore>,
}

/// `[driver]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Driver {
    /// `java`, `node`, `python`, `go` or `rust`.
    pub family: Option<Spanned<String>>,
    /// Its version.
    pub version: Option<Spanned<String>>,
}

/// `[client]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientPart {
    /// The connection string.
    pub uri: Option<Spanned<String>>,
    /// `socketTimeoutMS`, where code sets it; 0: waits for ever.
    pub socket_timeout_ms: Option<Spanned<u64>>,
    /// `timeoutMS`, where code sets it.
    pub timeout_ms: Option<Spanned<u64>>,
    /// `retryWrites`, where code sets it.
    pub retry_writes: Option<Spanned<bool>>,
    /// The round trip to the server.
    pub rtt_ms: Option<Spanned<u64>>,
}

/// `[kafka]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kafka {
    /// `max.poll.records`.
    pub max_poll_records: Option<Spanned<u64>>,
    /// `max.poll.interval.ms`.
    pub max_poll_interval_ms: Option<Spanned<u64>>,
    /// Consumers in one process.
    pub concurrency: Option<Spanned<u64>>,
    /// Processes that consume.
    pub consumers: Option<Spanned<u64>>,
    /// The version of Spring Kafka.
    pub spring_kafka: Option<Spanned<String>>,
}

/// `[server]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// How long it stands still.
    pub stall_ms: Option<Spanned<u64>>,
    /// How many writes it lets into its engine at once.
    pub write_tickets: Option<Spanned<u64>>,
}

/// `[[listener]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerPart {
    /// Its name: one that was found, or a new one.
    pub name: Spanned<String>,
    /// `single`, `batch` or `retry-topic`.
    pub kind: Option<Spanned<String>>,
    /// How it is repeated.
    pub back_off: Option<Spanned<BackOff>>,
    /// How often it runs in all, in place of `back_off`.
    pub executions: Option<Spanned<u64>>,
    /// Executions of a retry inside it.
    pub inner_executions: Option<Spanned<u64>>,
    /// `log`, `dead-letter` or `own`.
    pub recoverer: Option<Spanned<String>>,
    /// Exceptions that are not retried.
    pub not_retryable: Option<Vec<String>>,
    /// How long a record takes when nothing is wrong.
    pub record_ms: Option<Spanned<u64>>,
    /// What it writes.
    #[serde(default)]
    pub write: Vec<WritePart>,
}

/// `[[listener.write]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WritePart {
    /// The operation: `insert`, `update`, `upsert`, `update-many`, `bulk`, ...
    pub op: Spanned<String>,
    /// `generated` or `own`.
    pub id: Option<Spanned<String>>,
    /// What a bulk is made of, in order.
    #[serde(default)]
    pub models: Vec<Spanned<String>>,
    /// Whether a bulk is ordered.
    pub ordered: Option<bool>,
    /// Whether a version or an order in the filter keeps an older copy from undoing newer data.
    pub guarded: Option<bool>,
    /// `maxTimeMS`.
    pub max_time_ms: Option<u64>,
    /// Whether it runs in a transaction.
    #[serde(default)]
    pub transaction: bool,
}

/// `[[ignore]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ignore {
    /// The rule.
    pub rule: Spanned<String>,
    /// A part of the paths it holds for; all where it is not given.
    pub path: Option<String>,
    /// Why.
    pub reason: String,
}

/// Why the file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}\n  {line}")]
pub struct StatedError {
    /// File and line.
    pub place: Place,
    /// What is wrong, and the nearest name where one is unknown.
    pub message: String,
    /// The line, secrets masked.
    pub line: String,
}

fn error(file: &Arc<SourceFile>, range: std::ops::Range<usize>, message: String) -> StatedError {
    let place = Place::new(file, range);
    let line = place.shown_line().text;
    StatedError { place, message, line }
}

/// Reads the file.
///
/// # Errors
/// With its line: text that is no TOML, an unknown key or name (with the nearest known one), a value of the wrong type.
pub fn read(file: &Arc<SourceFile>) -> Result<Stated, StatedError> {
    let stated: Stated =
        toml::from_str(&file.text).map_err(|e| error(file, e.span().unwrap_or(0..1), with_nearest(e.message())))?;
    check_name(file, stated.driver.family.as_ref(), &["java", "node", "python", "go", "rust"])?;
    for listener in &stated.listener {
        check_name(file, listener.kind.as_ref(), &["single", "batch", "retry-topic"])?;
        check_name(file, listener.recoverer.as_ref(), &["log", "dead-letter", "own"])?;
        for write in &listener.write {
            check_name(file, write.id.as_ref(), &["generated", "own"])?;
            for op in std::iter::once(&write.op).chain(&write.models) {
                if crate::service::Op::from_name(op.get_ref()).is_none() {
                    let names = crate::service::OPS.iter().map(|(name, _)| *name);
                    return Err(error(file, op.span(), unknown(op.get_ref(), names)));
                }
            }
        }
    }
    Ok(stated)
}

fn check_name(file: &Arc<SourceFile>, name: Option<&Spanned<String>>, known: &[&str]) -> Result<(), StatedError> {
    match name {
        Some(name) if !known.contains(&name.get_ref().as_str()) => {
            Err(error(file, name.span(), unknown(name.get_ref(), known.iter().copied())))
        }
        _ => Ok(()),
    }
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let all = known.clone().collect::<Vec<_>>().join(", ");
    match nearest(name, known) {
        Some(nearest) => format!("there is no '{name}'; did you mean '{nearest}'? There are: {all}"),
        None => format!("there is no '{name}'. There are: {all}"),
    }
}

/// The known name that is most like another, if one is like it enough.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::osa_distance(name, known), known))
        .filter(|(distance, known)| *distance <= known.chars().count().max(3) / 2)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// "unknown field `x`, expected one of `a`, `b`" with the nearest of them.
fn with_nearest(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    match names.next().filter(|_| is_unknown).and_then(|name| nearest(name, names)) {
        Some(nearest) => format!("{message}; did you mean '{nearest}'?"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let error = read(&SourceFile::new("backfire.toml", text)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn an_unknown_key_has_its_line_and_its_neighbour() {
        check("[client]\nsocket_timeout = 5\n", "backfire.toml:2");
        check("[client]\nsocket_timeout = 5\n", "did you mean 'socket_timeout_ms'?");
        check("[driver]\nfamily = \"jave\"\n", "did you mean 'java'?");
        check("[[listener]]\nname = \"a\"\n[[listener.write]]\nop = \"insrt\"\n", "did you mean 'insert'?");
        check("[client]\nuri = \"mongodb://u:s3cret@h\n", "backfire.toml:2");
        check("x", "backfire.toml:1");
    }

    #[test]
    fn an_error_shows_no_secret() {
        let error = read(&SourceFile::new("backfire.toml", "[client]\nurl = \"mongodb://u:s3cret@h\"\n")).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }

    #[test]
    fn what_is_stated_is_read() {
        let text = "[server]\nstall_ms = 240000\n[[listener]]\nname = \"a\"\nback_off = { kind = \"fixed\", interval_ms = 0, max_retries = 3 }\n\
                    [[listener.write]]\nop = \"update-many\"\n[[ignore]]\nrule = \"BF007\"\nreason = \"x\"\n";
        let stated = read(&SourceFile::new("backfire.toml", text)).unwrap();
        assert_eq!(stated.server.stall_ms.unwrap().into_inner(), 240_000);
        assert_eq!(*stated.listener[0].back_off.as_ref().unwrap().get_ref(), BackOff::fixed(0, 3));
    }
}
