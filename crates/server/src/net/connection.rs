//! One connection: reads frames, runs commands, writes replies, and notices when the client goes away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use backfire_model::{ConnectionId, RequestId};
use backfire_wire::{
    Compressor, Frame, FrameDecoder, MAX_MESSAGE_SIZE_BYTES, MessageFlags, OpCode, OpMsg, OpMsgEncoder, OpQuery,
    OpReply, ReplyFlags, compression,
};
use bson::{Document, RawDocumentBuf};
use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::limits::{Dropped, Limits};
use super::{Protocol, Request};
use crate::auth::Login;
use crate::counters::bump;
use crate::error::CommandError;
use crate::ops::Op;
use crate::pipeline::{self, Outcome};
use crate::server::Shared;

/// How much is read ahead while a command runs.
const READ_AHEAD_BYTES: usize = 64 * 1024;
/// How long the end of a connection may take.
const CLOSE_WAIT: Duration = Duration::from_secs(1);
/// The largest message of a client that has not logged in, where it must.
const MAX_BEFORE_LOGIN_BYTES: usize = 64 * 1024;
/// The read buffer of a connection at rest.
const READ_BUFFER_BYTES: usize = 2048;

/// A client's connection.
#[derive(Debug)]
pub struct Connection {
    /// Its number.
    pub id: ConnectionId,
    /// The other side's address.
    pub peer: String,
    /// `conn<number>`.
    pub description: String,
    /// When it was opened.
    pub opened: Instant,
    client: Mutex<Client>,
    login: Mutex<Login>,
    current: Mutex<Option<Arc<Op>>>,
    gone: AtomicBool,
    close: AtomicBool,
    closing: Notify,
}

/// What the client said of itself.
#[derive(Debug, Default)]
pub struct Client {
    /// Whether it has sent its first hello.
    pub greeted: bool,
    /// The `client` document of that hello.
    pub metadata: Option<Document>,
    /// `client.application.name`.
    pub app_name: Option<String>,
}

impl Connection {
    /// What the client said of itself.
    pub fn client(&self) -> parking_lot::MutexGuard<'_, Client> {
        self.client.lock()
    }

    /// Who is logged in.
    pub fn login(&self) -> parking_lot::MutexGuard<'_, Login> {
        self.login.lock()
    }

    /// The client's application name.
    pub fn app_name(&self) -> Option<String> {
        self.client.lock().app_name.clone()
    }

    /// Whether a command runs on it.
    pub fn is_active(&self) -> bool {
        self.current.lock().is_some()
    }

    /// Notes which operation runs; `None` when it has ended.
    pub fn set_current(&self, op: Option<Arc<Op>>) {
        if let Some(op) = op.as_ref().filter(|_| self.gone.load(Ordering::Acquire)) {
            op.client_gone();
        }
        *self.current.lock() = op;
    }

    fn client_gone(&self) {
        self.gone.store(true, Ordering::Release);
        if let Some(op) = &*self.current.lock() {
            op.client_gone();
        }
    }

    /// Closes it as soon as no command runs on it.
    pub fn close(&self) {
        self.close.store(true, Ordering::Release);
        self.closing.notify_waiters();
    }

    async fn close_asked(&self) {
        loop {
            let closing = self.closing.notified();
            if self.close.load(Ordering::Acquire) {
                return;
            }
            closing.await;
        }
    }
}

/// All connections of a server.
#[derive(Debug)]
pub struct Connections {
    open: Mutex<BTreeMap<ConnectionId, Arc<Connection>>>,
    max: usize,
    /// How long a client may keep its connection waiting.
    pub limits: Limits,
    /// What became of those that did.
    pub dropped: Dropped,
    next_id: AtomicI64,
    next_request: AtomicI32,
    total_created: AtomicU64,
    rejected: AtomicU64,
    changed: Notify,
}

impl Connections {
    /// Up to `max` at a time, each within `limits`.
    pub fn new(max: usize, limits: Limits) -> Self {
        Self {
            open: Mutex::default(),
            max,
            limits,
            dropped: Dropped::default(),
            next_id: AtomicI64::new(1),
            next_request: AtomicI32::new(1),
            total_created: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    fn open(&self, peer: String) -> Option<Arc<Connection>> {
        let mut open = self.open.lock();
        if open.len() >= self.max {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.total_created.fetch_add(1, Ordering::Relaxed);
        let id = ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let connection = Arc::new(Connection {
            id,
            peer,
            description: format!("conn{id}"),
            opened: Instant::now(),
            client: Mutex::default(),
            login: Mutex::default(),
            current: Mutex::new(None),
            gone: AtomicBool::new(false),
            close: AtomicBool::new(false),
            closing: Notify::new(),
        });
        open.insert(id, Arc::clone(&connection));
        Some(connection)
    }

    fn remove(&self, id: ConnectionId) {
        self.open.lock().remove(&id);
        self.changed.notify_waiters();
    }

    /// All that are open.
    pub fn all(&self) -> Vec<Arc<Connection>> {
        self.open.lock().values().cloned().collect()
    }

    /// (current, available, total created, rejected).
    pub fn counts(&self) -> (usize, usize, u64, u64) {
        let current = self.open.lock().len();
        let created = self.total_created.load(Ordering::Relaxed);
        (current, self.max.saturating_sub(current), created, self.rejected.load(Ordering::Relaxed))
    }

    /// Resolves when none is open.
    pub async fn all_closed(&self) {
        loop {
            let changed = self.changed.notified();
            if self.open.lock().is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn next_request_id(&self) -> i32 {
        self.next_request.fetch_add(1, Ordering::Relaxed) & i32::MAX
    }
}

/// Takes the connection out of the table however its task ends.
struct Open {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.connections.remove(self.connection.id);
    }
}

/// Serves one connection until either side closes it.
pub async fn serve(shared: Arc<Shared>, stream: impl AsyncRead + AsyncWrite + Send + Unpin, peer: String) {
    let Some(connection) = shared.connections.open(peer) else {
        tracing::warn!("connection refused: too many are open");
        return;
    };
    let open = Open { shared, connection };
    if open.shared.is_shutting_down() {
        return;
    }
    let Some(tls) = &open.shared.tls else { return talk(&open, stream).await };
    let accepted = tokio::select! {
        accepted = tls.accept(stream) => accepted,
        () = open.connection.close_asked() => return,
    };
    match accepted {
        Ok(stream) => talk(&open, stream).await,
        Err(error) => tracing::info!(connection = %open.connection.description, %error, "no encryption"),
    }
}

async fn talk(open: &Open, stream: impl AsyncRead + AsyncWrite + Send + Unpin) {
    let mut link = Link { stream, buffer: BytesMut::with_capacity(READ_BUFFER_BYTES), at_end: false };
    if let Err(error) = link.serve(&open.shared, &open.connection).await {
        tracing::debug!(connection = %open.connection.description, %error, "connection ended");
    }
    // What a slow reader has not taken yet is not waited for either.
    let _ = tokio::time::timeout(CLOSE_WAIT, link.stream.shutdown()).await;
}

/// Sleeps until `due`, which is `time` from now at first.
async fn until(due: &mut Option<Instant>, time: Duration) {
    tokio::time::sleep_until(*due.get_or_insert_with(|| Instant::now() + time)).await;
}

/// The largest message: of somebody who has to log in first, as much as that takes.
fn max_frame_bytes(shared: &Shared, connection: &Connection) -> usize {
    match shared.auth && connection.login().name().is_none() {
        true => MAX_BEFORE_LOGIN_BYTES,
        false => MAX_MESSAGE_SIZE_BYTES,
    }
}

/// The bytes of a connection.
struct Link<S> {
    stream: S,
    buffer: BytesMut,
    /// The client has closed its side.
    at_end: bool,
}

/// How the reply to a message must be written.
#[derive(Debug, Clone, Copy)]
struct ReplyForm {
    response_to: i32,
    protocol: Protocol,
    checksum: bool,
    compressor: Option<Compressor>,
}

/// Why a connection was closed by this side.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Frame(#[from] backfire_wire::FrameError),
    #[error("{0}")]
    Compression(#[from] backfire_wire::CompressError),
    #[error("{0}")]
    Message(#[from] backfire_wire::OpMsgError),
    #[error("{0}")]
    Query(#[from] backfire_wire::op_query::OpQueryError),
    #[error("op code {0} is not served")]
    OpCode(i32),
    #[error("a command asked for it")]
    Asked,
    #[error("a message was begun and not finished in time")]
    Unfinished,
    #[error("a reply was not taken in time")]
    SlowReader,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    async fn serve(&mut self, shared: &Arc<Shared>, connection: &Arc<Connection>) -> Result<(), Closed> {
        loop {
            let max_bytes = max_frame_bytes(shared, connection);
            let decoder = FrameDecoder::with_max_bytes(max_bytes);
            let Some(frame) = self.next_frame(&decoder, shared, connection).await? else { return Ok(()) };
            self.message(shared, connection, frame, max_bytes).await?;
        }
    }

    async fn next_frame(
        &mut self,
        decoder: &FrameDecoder,
        shared: &Shared,
        connection: &Connection,
    ) -> Result<Option<Frame>, Closed> {
        // When the rest of a message that has begun must be here.
        let mut due = None;
        loop {
            if let Some(frame) = decoder.decode(&mut self.buffer)? {
                return Ok(Some(frame));
            }
            // What a client sent before it closed its side is still worked on, as a mongod does.
            if self.at_end {
                return Ok(None);
            }
            let has_begun = !self.buffer.is_empty();
            self.buffer.reserve(READ_BUFFER_BYTES);
            let read = tokio::select! {
                biased;
                read = self.stream.read_buf(&mut self.buffer) => read?,
                () = connection.close_asked() => return Ok(None),
                () = until(&mut due, shared.connections.limits.message), if has_begun => {
                    bump(&shared.connections.dropped.unfinished_messages);
                    return Err(Closed::Unfinished);
                }
            };
            if read == 0 {
                return Ok(None);
            }
        }
    }

    async fn message(
        &mut self,
        shared: &Arc<Shared>,
        connection: &Arc<Connection>,
        frame: Frame,
        max_bytes: usize,
    ) -> Result<(), Closed> {
        shared.counters.network_request(frame.whole.len());
        let (frame, compressor) = match frame.header.op_code {
            OpCode::Compressed => {
                let (inner, compressor) = compression::decompress_within(&frame, max_bytes)?;
                (inner, Some(compressor))
            }
            _ => (frame, None),
        };
        let response_to = frame.header.request_id;
        let mut form = ReplyForm { response_to, protocol: Protocol::Msg, checksum: false, compressor };
        let request = match frame.header.op_code {
            OpCode::Msg => match OpMsg::parse(&frame) {
                Ok(message) => {
                    form.checksum = message.flags.has(MessageFlags::CHECKSUM_PRESENT);
                    Request::from_msg(RequestId(response_to), message)
                }
                Err(error) if error.closes_connection() => return Err(error.into()),
                Err(error) => {
                    let error = CommandError::new(error.code(), error.to_string());
                    let reply = pipeline::error_reply(shared, &error);
                    return self.reply(shared, form, &reply, false).await.map(drop);
                }
            },
            OpCode::Query => {
                form.protocol = Protocol::Query;
                let query = OpQuery::parse(&frame)?;
                let Some(database) = query.namespace.strip_suffix(".$cmd") else {
                    return self.write_query_failure(shared, form, &pipeline::op_query_refusal("find")).await;
                };
                let request = Request::from_query(RequestId(response_to), database, &query);
                let name = request.command_name();
                if !shared.profile.legacy_opcodes && !pipeline::allowed_as_op_query(name) {
                    return self.write_query_failure(shared, form, &pipeline::op_query_refusal(name)).await;
                }
                request
            }
            other => return Err(Closed::OpCode(other.number())),
        };
        drop(frame);
        let mut request = request;
        if shared.auth {
            request.session_owner = connection.login().session_owner();
        }
        self.command(shared, connection, request, form).await
    }

    /// Runs a command and writes its reply; for an exhaust hello, again and again.
    async fn command(
        &mut self,
        shared: &Arc<Shared>,
        connection: &Arc<Connection>,
        mut request: Request,
        mut form: ReplyForm,
    ) -> Result<(), Closed> {
        loop {
            let outcome = self.run(shared, connection, request).await?;
            match outcome {
                Outcome::Nothing => return Ok(()),
                Outcome::CloseConnection => return Err(Closed::Asked),
                Outcome::Reply { document, again: None } => {
                    self.reply(shared, form, &document, false).await?;
                    return Ok(());
                }
                Outcome::Reply { document, again: Some(next) } => {
                    form.response_to = self.reply(shared, form, &document, true).await?;
                    request = *next;
                }
            }
            if self.at_end || connection.close.load(Ordering::Acquire) || shared.is_shutting_down() {
                return Ok(());
            }
        }
    }

    /// Runs a command to its end, reading ahead meanwhile to notice when the client goes away. That alone ends only the
    /// commands that facts/server.md 6.1 lists; a write goes on.
    async fn run(
        &mut self,
        shared: &Arc<Shared>,
        connection: &Arc<Connection>,
        request: Request,
    ) -> Result<Outcome, Closed> {
        let mut running = Box::pin(pipeline::run(Arc::clone(shared), Arc::clone(connection), request));
        loop {
            let may_read = !self.at_end && self.buffer.len() < READ_AHEAD_BYTES;
            tokio::select! {
                biased;
                outcome = &mut running => return Ok(outcome),
                read = self.stream.read_buf(&mut self.buffer), if may_read => {
                    if !matches!(read, Ok(1..)) {
                        self.at_end = true;
                        connection.client_gone();
                    }
                }
            }
        }
    }

    /// Writes a reply; returns the request id it was given.
    async fn reply(
        &mut self,
        shared: &Shared,
        form: ReplyForm,
        document: &RawDocumentBuf,
        more_to_come: bool,
    ) -> Result<i32, Closed> {
        let id = shared.connections.next_request_id();
        let bytes = match form.protocol {
            Protocol::Msg => {
                let flags = MessageFlags(if more_to_come { MessageFlags::MORE_TO_COME } else { 0 });
                let body = document.as_bytes();
                OpMsgEncoder::new(flags, body.len()).body(body).finish(id, form.response_to, form.checksum)
            }
            Protocol::Query => {
                let document = bytes::Bytes::copy_from_slice(document.as_bytes());
                OpReply { flags: ReplyFlags::AWAIT_CAPABLE, document }.encode(id, form.response_to)
            }
        };
        self.write(shared, form, bytes).await?;
        Ok(id)
    }

    async fn write_query_failure(
        &mut self,
        shared: &Shared,
        form: ReplyForm,
        document: &RawDocumentBuf,
    ) -> Result<(), Closed> {
        let document = bytes::Bytes::copy_from_slice(document.as_bytes());
        let flags = ReplyFlags(ReplyFlags::QUERY_FAILURE.0 | ReplyFlags::AWAIT_CAPABLE.0);
        let bytes = OpReply { flags, document }.encode(shared.connections.next_request_id(), form.response_to);
        self.write(shared, form, bytes).await
    }

    async fn write(&mut self, shared: &Shared, form: ReplyForm, bytes: Vec<u8>) -> Result<(), Closed> {
        let bytes = match form.compressor {
            Some(compressor) => compression::compress(&bytes, compressor),
            None => bytes,
        };
        shared.counters.network_reply(bytes.len());
        let written = async {
            self.stream.write_all(&bytes).await?;
            self.stream.flush().await
        };
        match tokio::time::timeout(shared.connections.limits.reply, written).await {
            Ok(written) => Ok(written?),
            Err(_) => {
                bump(&shared.connections.dropped.slow_readers);
                Err(Closed::SlowReader)
            }
        }
    }
}
