//! Stage *fail point*: `failCommand` before the command, and the fail points around its run (facts/server.md 4).

use std::time::Duration;

use backfire_model::event::Wait;
use bson::{Bson, Document};
use tokio::time::Instant;

use crate::commands::{CommandSpec, Invocation};
use crate::error::CommandError;
use crate::failpoints::Entered;
use crate::failpoints::fail_command::{self, Action, Place, Victim};
use crate::failpoints::table::{
    FAIL_COMMAND, LOSE_REPLY, SLEEP_MILLIS_AFTER_COMMAND_EXECUTION_BEGINS, WAIT_AFTER_COMMAND_FINISHES_EXECUTION,
};
use crate::ops::Op;
use crate::pipeline::{Facts, Failed};

/// Evaluates `failCommand` before anything else is decided about the command: no deadline runs yet, no session is held.
///
/// # Errors
/// What the fail point wants the command to fail with.
pub async fn before_command(
    op: &Op,
    spec: &'static CommandSpec,
    invocation: &dyn Invocation,
    facts: &mut Facts,
) -> Result<(), Failed> {
    // What follows is asked of every command; what a fail point would compare is made only for one that is on.
    if !op.shared.fail_points.is_armed(FAIL_COMMAND) {
        return Ok(());
    }
    let namespace = invocation.namespace();
    let from_handshake = invocation.app_name().filter(|_| op.shared.profile.fail_command_reads_handshake);
    let app_name = from_handshake.map(str::to_owned).or_else(|| op.connection.app_name());
    let Some(entered) = enter(op, spec, namespace.as_deref(), app_name, Place::BeforeCommand) else { return Ok(()) };
    let action = Action::parse(&entered.data)?;
    facts.label_override = action.labels.clone();
    let profile = op.shared.profile;
    if action.close_connection && !profile.fail_command_blocks_before_close {
        return Err(Failed::CloseConnection);
    }
    if let Some(block) = action.block {
        hold(op, "AnonymousLatch", Wait::FailPoint, block).await?;
    }
    if action.close_connection {
        return Err(Failed::CloseConnection);
    }
    match action.error {
        Some((code, extra)) => {
            let mut error = CommandError::new(code, profile.fail_command_text);
            error.extra = extra.map(Box::new);
            Err(error.into())
        }
        None => Ok(()),
    }
}

/// Evaluates `failCommand` in place of the wait for the write concern.
pub fn write_concern_error(op: &Op, spec: &'static CommandSpec, facts: &mut Facts) -> Option<Document> {
    if !op.shared.fail_points.is_armed(FAIL_COMMAND) {
        return None;
    }
    let namespace = op.view().ns.clone();
    let entered = enter(op, spec, Some(&namespace), op.connection.app_name(), Place::WriteConcern)?;
    let labels = fail_command::labels(&entered.data);
    if labels.is_some() {
        facts.label_override = labels;
    }
    entered.data.get("writeConcernError").and_then(Bson::as_document).cloned()
}

fn enter(
    op: &Op,
    spec: &'static CommandSpec,
    namespace: Option<&str>,
    app_name: Option<String>,
    place: Place,
) -> Option<Entered> {
    op.shared.passes_if(FAIL_COMMAND, |data| {
        let victim = Victim {
            names: spec.names,
            namespace,
            app_name: app_name.as_deref(),
            thread_name: &op.connection.description,
        };
        fail_command::matches(data, &victim, place, op.shared.profile.fail_all_commands)
    })
}

/// Sleeps where killOp, killSessions and shutdown wake it.
async fn hold(op: &Op, latch: &'static str, wait: Wait, time: Duration) -> Result<(), CommandError> {
    let note = op.note_wait(wait);
    op.view().latch = Some((latch, Instant::now()));
    let slept = op.wait(tokio::time::sleep(time)).await;
    op.view().latch = None;
    slept?;
    note.over();
    Ok(())
}

/// `sleepMillisAfterCommandExecutionBegins {millis, commands}`.
///
/// # Errors
/// Those of an interrupt.
pub async fn command_begins(op: &Op, spec: &CommandSpec) -> Result<(), Failed> {
    if let Some(entered) =
        op.shared.passes_if(SLEEP_MILLIS_AFTER_COMMAND_EXECUTION_BEGINS, |data| names_command(data, spec))
    {
        let millis =
            entered.data.get("millis").and_then(Bson::as_i64).or(entered.data.get_i32("millis").ok().map(i64::from));
        let time = Duration::from_millis(millis.unwrap_or(0).max(0) as u64);
        hold(op, "AnonymousLatch", Wait::InterruptibleStall, time).await?;
    }
    Ok(())
}

/// `waitAfterCommandFinishesExecution {ns, commands}`: holds the reply until the fail point is turned off.
///
/// # Errors
/// Those of an interrupt.
pub async fn after_command(op: &Op, spec: &CommandSpec, database: &str) -> Result<(), Failed> {
    let entered = op.shared.passes_if(WAIT_AFTER_COMMAND_FINISHES_EXECUTION, |data| {
        let ns = data.get_str("ns").unwrap_or_default();
        let wanted = ns.is_empty() || ns == op.view().ns || ns.split('.').next() == Some(database) && !ns.contains('.');
        let any_command = !data.contains_key("commands");
        wanted && (any_command || names_command(data, spec))
    });
    if let Some(entered) = entered {
        let note = op.note_wait(Wait::InterruptibleStall);
        op.wait(entered.until_changed()).await?;
        note.over();
    }
    Ok(())
}

/// `loseReply {commands, appName}`: the command has run, and its client will not hear of it.
pub fn lose_reply(op: &Op, spec: &CommandSpec) {
    let app_name = op.connection.app_name();
    let entered = op.shared.passes_if(LOSE_REPLY, |data| {
        let of_app = data.get_str("appName").map_or(true, |wanted| Some(wanted) == app_name.as_deref());
        of_app && names_command(data, spec)
    });
    if entered.is_some() {
        op.drop_reply();
    }
}

fn names_command(data: &Document, spec: &CommandSpec) -> bool {
    let Ok(commands) = data.get_array("commands") else { return false };
    commands.iter().filter_map(Bson::as_str).any(|name| spec.names.contains(&name))
}
