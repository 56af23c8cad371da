//! How an operation is executed: select a server, check out a connection, send, and ask the retry rules after a
//! failure.

mod plan;
mod scope;
mod send;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::client::ClientInner;
use crate::error::{DriverError, ErrorKind, Result, TRANSIENT_TRANSACTION_ERROR};
use crate::pool::PooledConnection;
use crate::retry::{Decision, Operation, RetryRules, RetryState, Stage};
use crate::session::ClientSession;
use crate::settings::{ReadPreference, ServerAddress, WriteConcern};
use crate::timeout::{MaxTime, OperationClock};
use crate::topology::{Criteria, Selected};
pub(crate) use plan::{Plan, Reply, without_numbers};
pub(crate) use scope::Scope;
pub(crate) use send::SendOptions;

/// One operation in progress: all its attempts and, for a cursor, all its commands.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) client: Arc<ClientInner>,
    pub(crate) session: Option<ClientSession>,
    pub(crate) clock: OperationClock,
    pub(crate) operation_id: u64,
    /// The server to use without selection.
    pinned: Option<ServerAddress>,
}

impl Call {
    /// Starts the operation's clock.
    ///
    /// # Errors
    /// When the client is closed, or the session is not the client's.
    pub(crate) fn new(scope: &Scope, session: Option<ClientSession>, max_time: MaxTime) -> Result<Self> {
        if scope.client.is_closed() {
            return Err(DriverError::closed("the client is closed"));
        }
        if session.as_ref().is_some_and(|session| !session.belongs_to(&scope.client)) {
            return Err(DriverError::invalid_argument("the session belongs to another client"));
        }
        let session = session.unwrap_or_else(|| ClientSession::implicit(&scope.client));
        session.begin_operation();
        let mut call = Self::bare(scope, max_time);
        if let Some((timeout, deadline)) = session.transaction_limit() {
            call.clock = OperationClock::within(timeout, deadline, max_time);
        }
        call.session = Some(session);
        Ok(call)
    }

    /// For the end of a session's transaction.
    pub(crate) fn of_transaction(scope: &Scope, session: &ClientSession, clock: OperationClock) -> Result<Self> {
        if scope.client.is_closed() {
            return Err(DriverError::closed("the client is closed"));
        }
        Ok(Self { session: Some(session.clone()), clock, ..Self::bare(scope, MaxTime::Omitted) })
    }

    /// Whether its commands are part of a transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.session.as_ref().is_some_and(ClientSession::is_in_transaction)
    }

    /// For `endSessions`, which belongs to no session, and runs while the client closes.
    pub(crate) fn without_session(scope: &Scope) -> Self {
        Self::bare(scope, MaxTime::Operation(None))
    }

    fn bare(scope: &Scope, max_time: MaxTime) -> Self {
        Self {
            client: scope.client.clone(),
            session: None,
            clock: OperationClock::start(scope.timeout, max_time),
            operation_id: scope.client.next_operation_id(),
            pinned: None,
        }
    }

    /// Uses this server from now on, without selection: for the rest of a cursor.
    pub(crate) fn pin(&mut self, server: &ServerAddress) {
        self.pinned = Some(server.clone());
    }

    /// The retry rules of an operation here.
    pub(crate) fn rules(&self, operation: Operation) -> RetryRules {
        let in_transaction = self.is_in_transaction();
        RetryRules::new(operation, &self.client.settings, in_transaction, self.clock.timeout().is_some())
    }

    /// Refuses what Java refuses: a write nobody answers, in a session that the application holds.
    pub(crate) fn check_write_concern(&self, write_concern: &WriteConcern) -> Result<()> {
        let explicit = self.session.as_ref().is_some_and(|session| !session.is_implicit());
        if explicit && !write_concern.is_acknowledged() {
            return Err(DriverError::client("unacknowledged writes are not supported when using an explicit session"));
        }
        Ok(())
    }

    /// A server and a connection to it, within one limit for both.
    async fn acquire(&mut self, criteria: &Criteria) -> Result<(Selected, PooledConnection)> {
        let settings = self.client.settings.clone();
        let topology = self.client.topology.clone();
        let until = self.clock.begin_selection(&settings);
        let selected = match &self.pinned {
            Some(server) => topology.pinned(server),
            None => topology.select(criteria, until).await,
        };
        let selected = selected.map_err(|error| self.limited(error))?;
        self.clock.set_min_round_trip(selected.min_round_trip);
        let limits = self.clock.check_out_limits(&settings);
        let connection = topology.check_out(&selected.server, limits).await.map_err(|error| self.limited(error))?;
        Ok((selected, connection))
    }

    /// With `timeoutMS`, any running out of time is that timeout.
    fn limited(&self, error: DriverError) -> DriverError {
        let is_timeout = matches!(error.kind(), ErrorKind::ServerSelectionTimeout(_) | ErrorKind::WaitQueueTimeout(_));
        if is_timeout && self.clock.timeout().is_some() { error.into_operation_timeout() } else { error }
    }
}

/// One attempt of an operation on a connection.
pub(crate) struct Attempt<'a> {
    pub(crate) call: &'a mut Call,
    pub(crate) selected: &'a Selected,
    pub(crate) connection: &'a mut PooledConnection,
    pub(crate) state: &'a mut RetryState,
}

impl Attempt<'_> {
    /// Whether a write with this write concern may carry a transaction number here (facts/client.md A6).
    pub(crate) fn may_number(&self, write_concern: &WriteConcern) -> bool {
        let in_transaction = self.call.is_in_transaction();
        !in_transaction
            && self.call.client.settings.retry_writes
            && write_concern.is_acknowledged()
            && self.takes_numbers()
    }

    fn takes_numbers(&self) -> bool {
        plan::takes_numbers(self.connection.hello(), self.selected.server_type)
    }
}

/// What an operation does on a connection, once for each attempt.
pub(crate) trait Steps: Send {
    /// What comes out.
    type Output: Send;

    /// Runs the operation, or what is left of it.
    fn attempt<'a>(&'a mut self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<Self::Output>>;

    /// The last word on an error that is raised.
    fn give_up(&mut self, error: DriverError) -> DriverError;
}

/// On a paused clock an attempt may take no time at all. With `timeoutMS` attempts are not counted, so if none of them
/// took time, the timeout would never come: after this many in a row, a retry waits.
const TIMELESS_RETRIES: u32 = 3;
const TIMELESS_WAIT: Duration = Duration::from_millis(1);

/// Runs an operation until it is done or its rules give up.
pub(crate) async fn run<S: Steps>(
    call: &mut Call,
    criteria: &Criteria,
    rules: RetryRules,
    steps: &mut S,
) -> Result<S::Output> {
    let mut state = RetryState::new(rules);
    let mut timeless = 0;
    let primary = Criteria::Read(ReadPreference::default());
    let criteria = match (rules.in_transaction, criteria) {
        // Whatever preference a read inherited: a transaction is on the primary.
        (true, Criteria::Read(_) | Criteria::ReadOrPrimaryBelow(..)) => &primary,
        _ => criteria,
    };
    loop {
        let started = Instant::now();
        let (stage, error) = match call.acquire(criteria).await {
            Err(error) => (Stage::BeforeSend, error),
            Ok((selected, mut connection)) => {
                let wire_version = connection.hello().max_wire_version;
                let attempt = Attempt { call, selected: &selected, connection: &mut connection, state: &mut state };
                let takes_numbers = attempt.takes_numbers();
                let connected = attempt.state.connected(wire_version, takes_numbers);
                connected.map_err(|error| labelled(rules, steps.give_up(error)))?;
                match steps.attempt(attempt).await {
                    Ok(output) => return Ok(output),
                    Err(error) => (Stage::OnConnection, error),
                }
            }
        };
        let client = call.client.clone();
        let (jitter, allowed) = (|| client.random.jitter(), || client.listener.allows_retry());
        let decision = state.attempt_failed(stage, error, Instant::now(), call.clock.deadline(), jitter, allowed);
        match decision {
            Decision::Retry(wait) if wait.is_zero() => {
                timeless = if started.elapsed().is_zero() { timeless + 1 } else { 0 };
                if timeless >= TIMELESS_RETRIES {
                    sleep(TIMELESS_WAIT).await;
                }
            }
            Decision::Retry(wait) => sleep(wait).await,
            Decision::GiveUp(error) => return Err(labelled(rules, steps.give_up(error))),
        }
    }
}

/// Adds what the driver knows of an error in a transaction: if a command of it met no server, all of it may be tried again.
fn labelled(rules: RetryRules, mut error: DriverError) -> DriverError {
    let met_no_server =
        |error: &DriverError| error.is_network() || matches!(error.kind(), ErrorKind::ServerSelectionTimeout(_));
    let is_command = rules.in_transaction && rules.operation != Operation::EndTransaction;
    if is_command && (met_no_server(&error) || matches!(error.kind(), ErrorKind::PoolCleared(_))) {
        error.add_label(TRANSIENT_TRANSACTION_ERROR);
    }
    error
}
