//! The options of `$currentOp` (facts/server.md 5.1). The server makes the documents.

use super::{Parsed, SourceStage, server};
use crate::aggregate::pipeline::PipelineContext;
use crate::error::{Result, fail};
use crate::value::View;

/// The options, with their defaults filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurrentOpOptions {
    /// Operations of all users, not only one's own.
    pub all_users: bool,
    /// Connections without an operation.
    pub idle_connections: bool,
    /// Sessions without an operation.
    pub idle_sessions: bool,
    /// On a mongos: its own operations, not those of the shards.
    pub local_ops: bool,
    /// Long commands are cut off.
    pub truncate_ops: bool,
    /// Cursors without an operation.
    pub idle_cursors: bool,
    /// Call stacks of waits.
    pub backtrace: bool,
}

impl Default for CurrentOpOptions {
    fn default() -> Self {
        Self {
            all_users: false,
            idle_connections: false,
            idle_sessions: true,
            local_ops: false,
            truncate_ops: false,
            idle_cursors: false,
            backtrace: false,
        }
    }
}

/// Parses the stage and checks where it is run.
pub(super) fn parse(operand: View<'_>, context: &PipelineContext) -> Result<Parsed> {
    if context.database != "admin" || context.collection.is_some() {
        return fail(73, "$currentOp must be run against the 'admin' database with {aggregate: 1}");
    }
    server(SourceStage::CurrentOp(CurrentOpOptions::parse(operand)?))
}

impl CurrentOpOptions {
    /// Parses the operand of the stage.
    ///
    /// # Errors
    /// `TypeMismatch` or `FailedToParse`, as a mongod reports them.
    pub fn parse(operand: View<'_>) -> Result<Self> {
        let View::Document(document) = operand else {
            let found = operand.type_name();
            return fail(14, format!("$currentOp options must be specified in an object, but found: {found}"));
        };
        let mut options = Self::default();
        for (name, value) in document.iter() {
            // two of the options answer a wrong type with another code than the rest
            let (slot, code) = match name {
                "allUsers" => (&mut options.all_users, 14),
                "idleConnections" => (&mut options.idle_connections, 9),
                "idleSessions" => (&mut options.idle_sessions, 9),
                "localOps" => (&mut options.local_ops, 14),
                "truncateOps" => (&mut options.truncate_ops, 9),
                "idleCursors" => (&mut options.idle_cursors, 9),
                "backtrace" => (&mut options.backtrace, 9),
                _ => return fail(9, format!("Unrecognized option '{name}' in $currentOp stage.")),
            };
            let View::Bool(value) = value else {
                let text = format!("The '{name}' parameter of the $currentOp stage must be a boolean value, but found");
                return fail(code, format!("{text}: {}", value.type_name()));
            };
            *slot = value;
        }
        Ok(options)
    }
}
