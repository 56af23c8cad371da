//! Stage *read concern*: which state of the data a command reads (facts/server.md 1.1 step 13).
//!
//! There is one member, and what is committed is committed everywhere: all levels but `snapshot` read what is there.

use bson::Timestamp;

use crate::commands::CommandSpec;
use crate::error::{CommandError, Result, fail};
use crate::net::Request;
use crate::ops::Op;
use crate::stages::session_fields::SessionFields;
use crate::value::View;

/// What a command's read concern says of a transaction that it begins or belongs to.
#[derive(Debug, Clone, Default)]
pub struct ReadConcern {
    /// Whether the field says anything.
    pub is_given: bool,
    /// Its level.
    pub level: Option<String>,
}

/// Reads the `readConcern` field, and chooses the snapshot of a command that wants one.
///
/// # Errors
/// 9, 14 and 72 for bad contents; 72 where a snapshot cannot be had; 239 or 246 when it is not there any more.
pub fn choose(op: &Op, spec: &CommandSpec, fields: &SessionFields, request: &Request) -> Result<ReadConcern> {
    let Some(value) = request.get("readConcern") else { return Ok(ReadConcern::default()) };
    let View::Document(document) = value else { return fail(9, "readConcern field should be an object") };
    let (mut level, mut at) = (None, None);
    let is_given = !document.is_empty();
    for (name, value) in document.iter() {
        match (name, value) {
            ("level", View::String(name)) => level = Some(name),
            ("level", other) => return Err(wrong_type("level", "string", other)),
            ("atClusterTime", View::Timestamp { time, increment }) => at = Some(Timestamp { time, increment }),
            ("afterClusterTime", View::Timestamp { .. }) | ("afterOpTime", View::Document(_)) | ("provenance", _) => {}
            ("atClusterTime" | "afterClusterTime", other) => return Err(wrong_type(name, "timestamp", other)),
            ("afterOpTime", other) => return Err(wrong_type(name, "object", other)),
            _ => return fail(72, format!("Unrecognized option in readConcern: {name}")),
        }
    }
    let told = ReadConcern { is_given, level: level.map(str::to_owned) };
    if fields.is_in_transaction() {
        if fields.starts_transaction {
            of_transaction(op, level, at)?;
        }
        return Ok(told);
    }
    match level {
        Some("snapshot") => snapshot(op, spec, at).map(|()| told),
        None | Some("local" | "majority" | "linearizable" | "available") if at.is_some() => {
            fail(72, "atClusterTime field can be set only if level is equal to snapshot")
        }
        None | Some("local" | "majority" | "linearizable" | "available") => Ok(told),
        Some(_) => {
            fail(9, "readConcern.level must be either 'local', 'majority', 'linearizable', 'available', or 'snapshot'")
        }
    }
}

fn wrong_type(name: &str, expected: &str, found: View<'_>) -> CommandError {
    let found = found.type_name();
    CommandError::new(14, format!("\"{name}\" had the wrong type. Expected {expected}, found {found}"))
}

/// The read concern of a transaction's first command. The transaction sees the state as of its beginning, whatever the level.
fn of_transaction(op: &Op, level: Option<&str>, at: Option<Timestamp>) -> Result<()> {
    match (level, at) {
        (None | Some("local" | "majority" | "snapshot"), None) => Ok(()),
        (Some("snapshot"), Some(time)) if time == op.shared.topology.last_op_time() => Ok(()),
        (Some("snapshot"), Some(_)) => fail(246, "Unable to read from a snapshot of an earlier time in a transaction"),
        (None | Some("local" | "majority"), Some(_)) => {
            fail(72, "atClusterTime field can be set only if level is equal to snapshot")
        }
        (Some(_), _) => {
            let text = "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in \
                        a transaction";
            fail(72, text)
        }
    }
}

fn snapshot(op: &Op, spec: &CommandSpec, at: Option<Timestamp>) -> Result<()> {
    let shared = &op.shared;
    if !shared.profile.snapshot_reads {
        return fail(72, "readConcern level snapshot is only valid in multi-statement transactions");
    }
    if !spec.snapshot_reads {
        return fail(
            72,
            format!(
                "Command {} does not support {{ readConcern: {{ level: \"snapshot\", provenance: \"clientSupplied\" }} }} \
                 :: caused by :: read concern not supported",
                spec.name()
            ),
        );
    }
    let now = shared.topology.last_op_time();
    let snapshot = match at {
        None => shared.snapshots.at_newest(now, || shared.engine.snapshot()),
        Some(time) if time == now => shared.snapshots.at_newest(now, || shared.engine.snapshot()),
        Some(time) => shared.snapshots.at(time).ok_or_else(|| {
            let Timestamp { time, increment } = time;
            CommandError::new(
                239,
                format!("Read timestamp Timestamp({time}, {increment}) is older than the oldest available timestamp."),
            )
        })?,
    };
    op.read_at(at.unwrap_or(now), snapshot);
    Ok(())
}
