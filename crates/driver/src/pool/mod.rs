//! A server's connection pool.
//!
//! The rules are those of the CMAP specification
//! (<https://github.com/mongodb/specifications/blob/master/source/connection-monitoring-and-pooling/connection-monitoring-and-pooling.md>)
//! as the Java driver applies them: a paused pool refuses at once, a cleared pool fails all that wait, and a connection
//! whose reply did not come is closed and frees its slot, so `maxPoolSize` does not bound what still runs on the
//! server (facts/client.md A4.5).

mod maintenance;

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::connection::handshake::{OpenLimits, Opener, Purpose};
use crate::connection::{Connection, ConnectionInfo, ReadLimit};
use crate::error::{DriverError, ErrorKind, Result};
use crate::events::{CheckOutFailure, CloseReason, Event, Listener, PoolEvent};
use crate::settings::{ClientSettings, ServerAddress, limit};
use crate::timeout::later;

/// Waiting operations a pool takes; more are refused (Java's `maxWaitQueueSize` of old; here a safety limit).
const MAX_WAITING: usize = 100_000;

/// A pool. Shared by the operations, the monitor and its own maintenance task.
pub(crate) struct Pool {
    address: ServerAddress,
    settings: Arc<ClientSettings>,
    listener: Arc<dyn Listener>,
    opener: Arc<Opener>,
    state: Mutex<State>,
    /// Wakes the maintenance task before its time.
    wake_maintenance: Notify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Paused,
    Ready,
    Closed,
}

struct State {
    phase: Phase,
    generation: u64,
    /// Why the pool is paused, for those who ask.
    cleared_by: Option<DriverError>,
    /// Unused connections; the last one back is the first one out.
    idle: Vec<Idle>,
    /// All connections: idle, in use, opening.
    total: u32,
    /// Connections that are being opened.
    opening: u32,
    /// Those who wait, the first one first.
    waiting: VecDeque<oneshot::Sender<Grant>>,
}

struct Idle {
    connection: Connection,
    generation: u64,
    opened: Instant,
    returned: Instant,
}

/// What a waiting operation is given. Dropping a grant gives it back, so an operation that stops waiting at the same
/// moment loses nothing.
enum Grant {
    Connection(Box<PooledConnection>),
    Slot(OpeningSlot),
    Refused(DriverError),
}

/// The right to open one connection; it counts as a connection until it is dropped.
struct OpeningSlot {
    pool: Arc<Pool>,
    generation: u64,
    done: bool,
}

impl Drop for OpeningSlot {
    fn drop(&mut self) {
        if !self.done {
            let mut state = self.pool.state.lock();
            state.opening -= 1;
            state.total -= 1;
            self.pool.serve_waiting(&mut state);
        }
    }
}

/// How long a check-out may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckOutLimits {
    /// When waiting ends.
    pub(crate) wait_until: Instant,
    /// Whether `wait_until` is the operation's own deadline (`timeoutMS`).
    pub(crate) is_operation_deadline: bool,
    /// For opening a connection.
    pub(crate) open: OpenLimits,
}

/// Why there is no connection.
pub(crate) enum CheckOutError {
    /// Opening failed; the topology must hear of it, with the generation that the attempt belonged to.
    Open { error: DriverError, generation: u64 },
    /// Anything else.
    Other(DriverError),
}

impl Pool {
    /// A paused pool and its maintenance task, which ends when the pool is closed. `failed` hears of connections that
    /// the task could not open.
    pub(crate) fn start(
        address: ServerAddress,
        settings: Arc<ClientSettings>,
        listener: Arc<dyn Listener>,
        opener: Arc<Opener>,
        failed: impl Fn(DriverError, u64) + Send + Sync + 'static,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let pool = Arc::new(Self {
            address,
            settings,
            listener,
            opener,
            state: Mutex::new(State {
                phase: Phase::Paused,
                generation: 0,
                cleared_by: None,
                idle: Vec::new(),
                total: 0,
                opening: 0,
                waiting: VecDeque::new(),
            }),
            wake_maintenance: Notify::new(),
        });
        pool.emit(PoolEvent::PoolCreated { address: pool.address.clone() });
        let task = tokio::spawn(maintenance::run(pool.clone(), failed));
        (pool, task)
    }

    fn emit(&self, event: PoolEvent) {
        self.listener.event(&Event::Pool(event));
    }

    pub(crate) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// Lets connections be opened.
    pub(crate) fn ready(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Paused {
            state.phase = Phase::Ready;
            state.cleared_by = None;
            self.emit(PoolEvent::PoolReady { address: self.address.clone() });
            self.wake_maintenance.notify_one();
        }
    }

    /// Makes all connections stale and pauses; those who wait get a retryable error.
    pub(crate) fn clear(&self, cause: &DriverError) {
        let mut state = self.state.lock();
        if state.phase == Phase::Closed {
            return;
        }
        state.generation += 1;
        if state.phase == Phase::Ready {
            state.phase = Phase::Paused;
            state.cleared_by = Some(cause.clone());
            self.emit(PoolEvent::PoolCleared { address: self.address.clone() });
        }
        for sender in std::mem::take(&mut state.waiting) {
            // A receiver that is gone has stopped waiting.
            let _ = sender.send(Grant::Refused(self.cleared(&state)));
        }
        self.close_idle(&mut state, |_| Some(CloseReason::Stale));
    }

    /// Ends the pool: idle connections are closed, those in use when they come back.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Closed {
            return;
        }
        state.phase = Phase::Closed;
        for sender in std::mem::take(&mut state.waiting) {
            let _ = sender.send(Grant::Refused(DriverError::closed("the connection pool is closed")));
        }
        self.close_idle(&mut state, |_| Some(CloseReason::PoolClosed));
        self.emit(PoolEvent::PoolClosed { address: self.address.clone() });
        self.wake_maintenance.notify_one();
    }

    fn cleared(&self, state: &State) -> DriverError {
        let what = format!("the connection pool for {} was cleared and is paused", self.address);
        let error = DriverError::new(ErrorKind::PoolCleared(what)).at(&self.address);
        match &state.cleared_by {
            Some(cause) => error.with_cause(cause.clone()),
            None => error,
        }
    }

    /// Closes the idle connections that `reason` names one for.
    fn close_idle(&self, state: &mut State, reason: impl Fn(&Idle) -> Option<CloseReason>) {
        for idle in std::mem::take(&mut state.idle) {
            match reason(&idle) {
                None => state.idle.push(idle),
                Some(reason) => {
                    state.total -= 1;
                    self.emit(PoolEvent::ConnectionClosed { connection: idle.connection.info().clone(), reason });
                }
            }
        }
    }

    /// Why an idle connection should be closed now, if it should.
    fn perished(&self, idle: &Idle, generation: u64, now: Instant) -> Option<CloseReason> {
        let older = |since: Instant, most: Duration| limit(most).is_some_and(|most| now >= later(since, most));
        if idle.generation != generation {
            Some(CloseReason::Stale)
        } else if older(idle.returned, self.settings.max_idle_time) || older(idle.opened, self.settings.max_life_time) {
            Some(CloseReason::Idle)
        } else {
            None
        }
    }

    fn may_open(&self, state: &State) -> bool {
        let max = self.settings.max_pool_size;
        (max == 0 || state.total < max) && state.opening < self.settings.max_connecting
    }

    /// Gives what there is to those who wait, in order.
    fn serve_waiting(self: &Arc<Self>, state: &mut State) {
        while let Some(sender) = state.waiting.pop_front() {
            if sender.is_closed() {
                continue;
            }
            match self.grant(state) {
                Some(grant) => {
                    if let Err(unused) = sender.send(grant) {
                        self.take_back(state, unused);
                    }
                }
                None => {
                    state.waiting.push_front(sender);
                    return;
                }
            }
        }
    }

    /// An idle connection, or the right to open one.
    fn grant(self: &Arc<Self>, state: &mut State) -> Option<Grant> {
        let now = Instant::now();
        let generation = state.generation;
        while let Some(idle) = state.idle.pop() {
            match self.perished(&idle, generation, now) {
                None => return Some(Grant::Connection(Box::new(PooledConnection::new(self, idle)))),
                Some(reason) => {
                    state.total -= 1;
                    self.emit(PoolEvent::ConnectionClosed { connection: idle.connection.info().clone(), reason });
                }
            }
        }
        if !self.may_open(state) {
            return None;
        }
        state.total += 1;
        state.opening += 1;
        Some(Grant::Slot(OpeningSlot { pool: self.clone(), generation, done: false }))
    }

    /// Undoes a grant without letting its `Drop` take the lock that is held here.
    fn take_back(&self, state: &mut State, grant: Grant) {
        match grant {
            Grant::Connection(mut connection) => {
                if let Some(idle) = connection.inner.take() {
                    state.idle.push(idle);
                }
            }
            Grant::Slot(mut slot) => {
                slot.done = true;
                state.opening -= 1;
                state.total -= 1;
            }
            Grant::Refused(_) => {}
        }
    }

    /// Takes a connection out of the pool, opening one if need be.
    ///
    /// # Errors
    /// See [`CheckOutError`].
    pub(crate) async fn check_out(self: &Arc<Self>, limits: CheckOutLimits) -> Result<PooledConnection, CheckOutError> {
        let started = Instant::now();
        self.emit(PoolEvent::CheckOutStarted { address: self.address.clone() });
        let failed = |reason, error: &DriverError| {
            self.emit(PoolEvent::CheckOutFailed {
                address: self.address.clone(),
                reason,
                error: error.clone(),
                duration: started.elapsed(),
            });
        };
        let granted = match self.wait_for_grant(limits).await {
            Ok(granted) => granted,
            Err((reason, error)) => {
                failed(reason, &error);
                return Err(CheckOutError::Other(error));
            }
        };
        let mut connection = match granted {
            Grant::Connection(connection) => *connection,
            Grant::Slot(slot) => {
                let generation = slot.generation;
                match self.open(slot, limits.open).await {
                    Ok(connection) => connection,
                    Err(error) => {
                        failed(CheckOutFailure::ConnectionError, &error);
                        return Err(CheckOutError::Open { error, generation });
                    }
                }
            }
            Grant::Refused(error) => {
                let closed = matches!(error.kind(), ErrorKind::Closed(_));
                failed(if closed { CheckOutFailure::PoolClosed } else { CheckOutFailure::ConnectionError }, &error);
                return Err(CheckOutError::Other(error));
            }
        };
        connection.announced = true;
        self.emit(PoolEvent::CheckedOut { connection: connection.info().clone(), duration: started.elapsed() });
        Ok(connection)
    }

    async fn wait_for_grant(self: &Arc<Self>, limits: CheckOutLimits) -> Result<Grant, (CheckOutFailure, DriverError)> {
        let receiver = {
            let mut state = self.state.lock();
            match state.phase {
                Phase::Closed => {
                    return Err((CheckOutFailure::PoolClosed, DriverError::closed("the connection pool is closed")));
                }
                Phase::Paused => return Err((CheckOutFailure::ConnectionError, self.cleared(&state))),
                Phase::Ready => {}
            }
            if state.waiting.len() >= MAX_WAITING {
                state.waiting.retain(|sender| !sender.is_closed());
            }
            if state.waiting.len() >= MAX_WAITING {
                let full = DriverError::client(format!("{MAX_WAITING} operations wait for a connection already"));
                return Err((CheckOutFailure::ConnectionError, full));
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back(sender);
            self.serve_waiting(&mut state);
            receiver
        };
        let gone = |_| (CheckOutFailure::PoolClosed, DriverError::closed("the connection pool is closed"));
        match timeout_at(limits.wait_until, receiver).await {
            Ok(grant) => grant.map_err(gone),
            Err(_) => {
                let what = format!("timed out while waiting for a connection to {}", self.address);
                let error = DriverError::new(ErrorKind::WaitQueueTimeout(what)).at(&self.address);
                let error = if limits.is_operation_deadline { error.into_operation_timeout() } else { error };
                Err((CheckOutFailure::Timeout, error))
            }
        }
    }

    async fn open(self: &Arc<Self>, mut slot: OpeningSlot, limits: OpenLimits) -> Result<PooledConnection> {
        let id = self.opener.next_id();
        let started = Instant::now();
        let created = ConnectionInfo { address: self.address.clone(), id, server_id: None };
        self.emit(PoolEvent::ConnectionCreated { connection: created.clone() });
        // Closing is reported whichever way this future ends, also when it is dropped half-way.
        let mut closing = ReportClosed { pool: self, info: Some(created) };
        let opened = self.opener.open(&self.address, id, limits, Purpose::Operations).await?;
        closing.info = None;
        let mut state = self.state.lock();
        slot.done = true;
        state.opening -= 1;
        let now = Instant::now();
        let idle = Idle { connection: opened.connection, generation: slot.generation, opened: now, returned: now };
        self.emit(PoolEvent::ConnectionReady {
            connection: idle.connection.info().clone(),
            duration: started.elapsed(),
        });
        let connection = PooledConnection::new(self, idle);
        self.serve_waiting(&mut state);
        Ok(connection)
    }

    fn check_in(self: &Arc<Self>, mut idle: Idle, announced: bool) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let info = idle.connection.info().clone();
        if announced {
            self.emit(PoolEvent::CheckedIn { connection: info.clone() });
        }
        let reason = if state.phase == Phase::Closed {
            Some(CloseReason::PoolClosed)
        } else if idle.connection.is_broken() || idle.connection.more_to_come() {
            Some(CloseReason::Error)
        } else {
            idle.returned = now;
            self.perished(&idle, state.generation, now)
        };
        match reason {
            None => state.idle.push(idle),
            Some(reason) => {
                state.total -= 1;
                self.emit(PoolEvent::ConnectionClosed { connection: info, reason });
            }
        }
        self.serve_waiting(&mut state);
    }
}

/// Reports a connection that was created and never became ready.
struct ReportClosed<'a> {
    pool: &'a Pool,
    info: Option<ConnectionInfo>,
}

impl Drop for ReportClosed<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.info.take() {
            self.pool.emit(PoolEvent::ConnectionClosed { connection, reason: CloseReason::Error });
        }
    }
}

/// A connection out of its pool. Dropping it gives it back; one that has a reply due is closed.
pub(crate) struct PooledConnection {
    pool: Arc<Pool>,
    inner: Option<Idle>,
    /// Whether the listener knows that it is checked out.
    announced: bool,
}

impl PooledConnection {
    fn new(pool: &Arc<Pool>, idle: Idle) -> Self {
        Self { pool: pool.clone(), inner: Some(idle), announced: false }
    }

    /// The pool's generation when the connection was opened.
    pub(crate) fn generation(&self) -> u64 {
        self.idle().generation
    }

    fn idle(&self) -> &Idle {
        self.inner.as_ref().expect("only dropping takes the connection out")
    }
}

impl Deref for PooledConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.idle().connection
    }
}

impl DerefMut for PooledConnection {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.inner.as_mut().expect("only dropping takes the connection out").connection
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if let Some(idle) = self.inner.take() {
            self.pool.check_in(idle, self.announced);
        }
    }
}

impl Pool {
    /// Limits for connections that the pool opens on its own account.
    ///
    /// The specification wants `timeoutMS` for their handshakes, but its tests have pools that fill although a handshake
    /// takes longer; `connectTimeoutMS` serves both.
    fn background_limits(&self) -> OpenLimits {
        let silence = match self.settings.timeout {
            Some(_) => self.settings.connect_timeout,
            None => self.settings.socket_timeout,
        };
        OpenLimits { connect: self.settings.connect_timeout, read: ReadLimit::silence(silence), deadline: None }
    }
}
