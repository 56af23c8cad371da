//! A command's way through the server: the stages, in the real server's order (facts/server.md 1.1).

use std::sync::Arc;

use backfire_model::event::Outcome as Ended;
use bson::raw::cstr;
use bson::{RawDocumentBuf, rawdoc};
use tokio::time::Instant;

use crate::commands::{CommandSpec, Invocation, Reply, Run};
use crate::counters::bump;
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::net::connection::Connection;
use crate::ops::Op;
use crate::server::Shared;
use crate::stages::{
    authorization, checks, deadline, fail_point, labels, lookup, read_concern, receive, reply, session_checkout,
    session_fields, write_concern,
};
use crate::value::view::document_with_room;

/// What the connection does after a command.
#[derive(Debug)]
pub enum Outcome {
    /// Writes a reply; with `again`, says that more is to come and runs that request next.
    Reply {
        /// The reply.
        document: RawDocumentBuf,
        /// The next round of an exhaust command.
        again: Option<Box<Request>>,
    },
    /// Writes nothing: the client wanted no reply.
    Nothing,
    /// Closes.
    CloseConnection,
}

/// Why the stages ended without a reply document.
#[derive(Debug)]
pub enum Failed {
    /// The command failed.
    Error(CommandError),
    /// A fail point closes the connection.
    CloseConnection,
}

impl From<CommandError> for Failed {
    fn from(error: CommandError) -> Self {
        Failed::Error(error)
    }
}

/// What the stages find out on the way and the reply needs, whether the command succeeds or fails.
#[derive(Debug, Default)]
pub struct Facts {
    /// The session options, once they have been read.
    pub session: session_fields::SessionFields,
    /// Labels a fail point wants instead of the computed ones.
    pub label_override: Option<Vec<String>>,
    /// What the wait for the write concern, or a fail point in its place, reports.
    pub write_concern_error: Option<bson::Document>,
    /// Whether the command ends a multi-document transaction.
    pub ends_transaction: bool,
    /// The place of the newest write when the command began to run.
    pub op_time_before: Option<bson::Timestamp>,
}

/// Runs one request to its end.
pub async fn run(shared: Arc<Shared>, connection: Arc<Connection>, request: Request) -> Outcome {
    let op = receive::register(&shared, &connection, &request);
    connection.set_current(Some(Arc::clone(&op)));
    let mut facts = Facts::default();
    let result = stages(&op, &request, &mut facts).await;
    let outcome = match result {
        _ if op.drops_reply() => {
            op.observe_end(Ended::ConnectionClosed);
            Outcome::CloseConnection
        }
        Ok((mut reply, spec)) => {
            op.observe_end(Ended::Ok);
            let labels = labels::of_success(&op, &facts);
            let again = reply.again.take();
            let document = reply::success(&shared, reply, spec, &facts, &labels);
            if request.no_reply { Outcome::Nothing } else { Outcome::Reply { document, again } }
        }
        Err(Failed::CloseConnection) => {
            op.observe_end(Ended::ConnectionClosed);
            Outcome::CloseConnection
        }
        Err(Failed::Error(error)) => {
            bump(&shared.counters.user_asserts);
            op.observe_end(Ended::Error {
                code: error.code,
                code_name: shared.profile.code_name(error.code).into_owned(),
            });
            let labels = labels::of_error(&op, &facts, &error);
            if request.no_reply && error.categories().has(crate::error::Categories::NOT_PRIMARY) {
                // An unacknowledged write that meets a node that takes no writes: the only way to tell the client
                // (facts/server.md 11.6).
                Outcome::CloseConnection
            } else if request.no_reply {
                Outcome::Nothing
            } else {
                Outcome::Reply { document: reply::failure(&shared, &error, &facts, &labels), again: None }
            }
        }
    };
    connection.set_current(None);
    outcome
}

/// receive → session fields → fail point → command checks → deadline → session checkout → ticket → locks → engine →
/// session check-in → write concern → labels → reply. Ticket, locks and engine are inside the command's run, once per
/// statement.
async fn stages(op: &Arc<Op>, request: &Request, facts: &mut Facts) -> Result<(Reply, &'static CommandSpec), Failed> {
    receive::command_size(request)?;
    let database = request.database()?;
    let spec = lookup::command(op, request)?;
    receive::observe_arrival(op, spec, request);
    facts.ends_transaction = spec.ends_transaction;
    lookup::admin_only(spec, database)?;
    authorization::logged_in(op, spec)?;
    lookup::fields(op, spec, request)?;
    let invocation = (spec.parse)(request, &op.shared)?;
    facts.session = session_fields::read(op, spec, request)?;

    fail_point::before_command(op, spec, &*invocation, facts).await?;

    checks::database_name(database)?;
    checks::session_options(spec, op.shared.profile, &facts.session, database)?;
    checks::generic_fields(request)?;
    authorization::allowed(op, spec, request)?;
    checks::primary(op, spec, request)?;

    deadline::arm(op, request)?;
    let read_concern = read_concern::choose(op, spec, &facts.session, request)?;
    op.check_interrupt()?;
    op.view().started = Some(Instant::now());
    let concern = write_concern::parse(spec, &*invocation, &facts.session, request)?;

    let mut session = session_checkout::check_out(op, spec, &facts.session, read_concern).await?;
    facts.op_time_before = Some(op.shared.topology.last_op_time());
    op.observe(|op, write| backfire_model::event::ServerEvent::Executing { op, write });
    // Within a transaction no statement is a retryable write.
    let for_command = session.as_mut().filter(|session| !session.is_in_transaction() || spec.ends_transaction);
    let result = execute(invocation, spec, op, request, for_command, &concern).await;
    if let (Some(session), Ok(Reply { ok: true, .. })) = (&mut session, &result) {
        session.keep_transaction();
    }
    drop(session);

    // The session is free again before the write concern is waited for: a resend may be answered meanwhile.
    let result = match result {
        Err(Failed::CloseConnection) => return Err(Failed::CloseConnection),
        other => other,
    };
    facts.write_concern_error = write_concern::wait(op, spec, &concern, facts, result.is_ok()).await?;
    fail_point::after_command(op, spec, database).await?;
    let reply = result?;
    fail_point::lose_reply(op, spec);
    Ok((reply, spec))
}

async fn execute(
    invocation: Box<dyn Invocation>,
    spec: &'static CommandSpec,
    op: &Arc<Op>,
    request: &Request,
    session: Option<&mut crate::sessions::CheckedOut>,
    concern: &write_concern::WriteConcern,
) -> Result<Reply, Failed> {
    if spec.dies_with_client && !invocation.writes() {
        op.mark_kill_on_client_disconnect();
    }
    fail_point::command_begins(op, spec).await?;
    invocation.run(Run { op, request, session, unacknowledged: concern.is_unacknowledged() }).await
}

/// The reply to a message that is not a command at all.
pub fn error_reply(shared: &Shared, error: &CommandError) -> RawDocumentBuf {
    reply::failure(shared, error, &Facts::default(), &[])
}

/// The answer to an `OP_QUERY` that this version does not serve; `name` is the command, or `find` for a query.
///
/// Source: `checkAllowedOpQueryCommand` of server 5.1, in which the legacy opcodes were removed.
pub fn op_query_refusal(name: &str) -> RawDocumentBuf {
    let text = format!(
        "Unsupported OP_QUERY command: {name}. The client driver may require an upgrade. For more details see \
         https://dochub.mongodb.org/core/legacy-opcode-removal"
    );
    rawdoc! { "$err": text, "code": 352, "ok": 0.0 }
}

/// Whether a command may come as `OP_QUERY` where the legacy opcodes are gone: the handshake in its spellings, and what
/// old drivers need to log in.
pub fn allowed_as_op_query(name: &str) -> bool {
    const ALLOWED: [&str; 9] = [
        "hello",
        "isMaster",
        "ismaster",
        "_isSelf",
        "authenticate",
        "buildinfo",
        "buildInfo",
        "saslContinue",
        "saslStart",
    ];
    ALLOWED.contains(&name)
}

/// `{clusterTime, signature}` as every reply of a replica-set member carries it.
pub fn cluster_time(shared: &Shared) -> Option<RawDocumentBuf> {
    static UNSIGNED: std::sync::LazyLock<RawDocumentBuf> = std::sync::LazyLock::new(|| {
        let zeros = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0; 20] };
        rawdoc! { "hash": zeros, "keyId": 0_i64 }
    });
    shared.topology.is_replica_set().then(|| {
        let mut time = document_with_room(96);
        time.append(cstr!("clusterTime"), shared.topology.last_op_time());
        time.append(cstr!("signature"), &**UNSIGNED);
        time
    })
}

/// Appends the field that replies of a replica-set member begin or end with.
pub fn append_operation_time(shared: &Shared, document: &mut RawDocumentBuf) {
    if shared.topology.is_replica_set() {
        document.append(cstr!("operationTime"), shared.topology.last_op_time());
    }
}
