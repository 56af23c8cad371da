//! Stage *read concern*: which state of the data a command reads (facts/server.md 1.1 step 13).
//!
//! There is one member, and what is committed is committed everywhere: all levels but `snapshot` read what is there.

use bson::Timestamp;

use crate::commands::CommandSpec;
use crate::error::{CommandError, Result, fail};
use crate::net::Request;
use crate::ops::Op;
use crate::value::View;

/// Reads the `readConcern` field, and chooses the snapshot of a command that wants one.
///
/// # Errors
/// 9, 14 and 72 for bad contents; 72 where a snapshot cannot be had; 239 when it is not there any more.
pub fn choose(op: &Op, spec: &CommandSpec, request: &Request) -> Result<()> {
    let Some(value) = request.get("readConcern") else { return Ok(()) };
    let View::Document(document) = value else { return fail(9, "readConcern field should be an object") };
    let (mut level, mut at) = (None, None);
    for (name, value) in document.iter() {
        match (name, value) {
            ("level", View::String(name)) => level = Some(name),
            ("level", other) => return wrong_type("level", "string", other),
            ("atClusterTime", View::Timestamp { time, increment }) => at = Some(Timestamp { time, increment }),
            ("afterClusterTime", View::Timestamp { .. }) | ("afterOpTime", View::Document(_)) | ("provenance", _) => {}
            ("atClusterTime" | "afterClusterTime", other) => return wrong_type(name, "timestamp", other),
            ("afterOpTime", other) => return wrong_type(name, "object", other),
            _ => return fail(72, format!("Unrecognized option in readConcern: {name}")),
        }
    }
    match level {
        Some("snapshot") => snapshot(op, spec, at),
        None | Some("local" | "majority" | "linearizable" | "available") if at.is_some() => {
            fail(72, "atClusterTime field can be set only if level is equal to snapshot")
        }
        None | Some("local" | "majority" | "linearizable" | "available") => Ok(()),
        Some(_) => {
            fail(9, "readConcern.level must be either 'local', 'majority', 'linearizable', 'available', or 'snapshot'")
        }
    }
}

fn wrong_type(name: &str, expected: &str, found: View<'_>) -> Result<()> {
    let found = found.type_name();
    fail(14, format!("\"{name}\" had the wrong type. Expected {expected}, found {found}"))
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
