//! Stage *write concern*: parsed before the command runs, waited for after its session is free again
//! (facts/server.md 1.1 steps 15 and 20, 11.4).

use bson::{Bson, Document, doc};

use crate::commands::{CommandSpec, Invocation};
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::ops::Op;
use crate::pipeline::Facts;
use crate::stages::fail_point;
use crate::stages::session_fields::SessionFields;
use crate::value::View;

/// The largest number of members a write concern can name.
const MAX_MEMBERS: i64 = 50;

/// How many members must have a write before it is acknowledged.
#[derive(Debug, Clone, PartialEq)]
enum W {
    Members(i64),
    Mode(String),
}

/// A write concern.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteConcern {
    w: W,
    journal: bool,
    wtimeout: i64,
    /// Whether the command writes at all.
    applies: bool,
}

impl Default for WriteConcern {
    fn default() -> Self {
        Self { w: W::Members(1), journal: false, wtimeout: 0, applies: true }
    }
}

impl WriteConcern {
    /// `{w: 0}`: the client does not want to know.
    pub fn is_unacknowledged(&self) -> bool {
        self.w == W::Members(0)
    }

    fn document(&self) -> Document {
        let w = match &self.w {
            W::Members(members) => Bson::Int32(*members as i32),
            W::Mode(mode) => Bson::String(mode.clone()),
        };
        doc! { "w": w, "wtimeout": self.wtimeout as i32, "provenance": "clientSupplied" }
    }
}

/// Reads the `writeConcern` field.
///
/// # Errors
/// 72 on a command that does not write, and on all but the last one of a transaction; 9 and 14 for bad contents.
pub fn parse(
    spec: &CommandSpec,
    invocation: &dyn Invocation,
    fields: &SessionFields,
    request: &Request,
) -> Result<WriteConcern> {
    let applies = spec.write_concern || invocation.writes();
    let mut concern = WriteConcern { applies, ..WriteConcern::default() };
    let Some(value) = request.get("writeConcern") else { return Ok(concern) };
    let Some(document) = value.as_document() else {
        let found = value.type_name();
        return Err(CommandError::type_mismatch(format!(
            "\"writeConcern\" had the wrong type. Expected object, found {found}"
        )));
    };
    if !applies {
        return Err(CommandError::new(72, "Command does not support writeConcern"));
    }
    if fields.is_in_transaction() && !spec.ends_transaction {
        return Err(CommandError::new(72, "writeConcern is not allowed within a multi-statement transaction"));
    }
    for (name, value) in document.iter() {
        match name {
            "w" => concern.w = members(value)?,
            "j" | "fsync" => concern.journal |= name == "j" && value.is_true(),
            "wtimeout" => concern.wtimeout = integer(value).unwrap_or(0).clamp(0, i64::from(i32::MAX)),
            "wElectionId" | "wOpTime" | "getLastError" | "provenance" => {}
            other => return Err(CommandError::failed_to_parse(format!("unrecognized write concern field: {other}"))),
        }
    }
    Ok(concern)
}

fn members(value: View<'_>) -> Result<W> {
    match value {
        View::String(mode) => Ok(W::Mode(mode.to_owned())),
        other => match integer(other) {
            Some(number) if (0..=MAX_MEMBERS).contains(&number) => Ok(W::Members(number)),
            Some(_) => Err(CommandError::failed_to_parse("w has to be a non-negative number and not greater than 50")),
            None => Err(CommandError::failed_to_parse("w has to be a number or a string")),
        },
    }
}

fn integer(value: View<'_>) -> Option<i64> {
    match value {
        View::Int32(number) => Some(i64::from(number)),
        View::Int64(number) => Some(number),
        View::Double(number) => Some(number as i64),
        _ => None,
    }
}

/// Waits until the write is as safe as asked for, on a set of one member. Returns the `writeConcernError`.
///
/// # Errors
/// None of its own: a failed wait is reported beside the command's result.
pub async fn wait(
    op: &Op,
    spec: &'static CommandSpec,
    concern: &WriteConcern,
    facts: &mut Facts,
    succeeded: bool,
) -> Result<Option<Document>> {
    if !concern.applies {
        return Ok(None);
    }
    let namespace = op.view().ns.clone();
    if let Some(error) = fail_point::write_concern_error(op, spec, Some(&namespace), facts) {
        return Ok(Some(error));
    }
    // A command that failed without writing anything has nothing to wait for.
    if concern.is_unacknowledged() || (!succeeded && !op.has_written()) {
        return Ok(None);
    }
    if let Some(commit) = op.last_commit().filter(|_| concern.journal || matches!(concern.w, W::Mode(_))) {
        op.shared.engine.durable(commit).await;
    }
    let (code, text) = match &concern.w {
        W::Members(..=1) => return Ok(None),
        W::Mode(mode) if mode == "majority" => return Ok(None),
        W::Members(_) if !op.shared.topology.is_replica_set() => {
            (2, "cannot use 'w' > 1 when a host is not replicated".to_owned())
        }
        W::Members(_) => (100, "Not enough data-bearing nodes".to_owned()),
        W::Mode(mode) => (79, format!("No write concern mode named '{mode}' found in replica set configuration")),
    };
    let code_name = op.shared.profile.code_name(code);
    Ok(Some(
        doc! { "code": code, "codeName": &*code_name, "errmsg": text, "errInfo": { "writeConcern": concern.document() } },
    ))
}
