//! Cursors: documents that come in batches.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bson::{Bson, Document, doc};

use crate::error::reply::number;
use crate::error::{DriverError, Result, codes};
use crate::execute::{Call, Plan, Reply};
use crate::operation::add_raw_data;
use crate::operation::options::Options;
use crate::retry::Operation;
use crate::session::ClientSession;
use crate::settings::ServerAddress;
use crate::timeout::MaxTime;
use crate::topology::Criteria;

/// What a cursor does when the documents end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CursorType {
    /// It ends.
    #[default]
    NonTailable,
    /// It stays open (capped collections).
    Tailable,
    /// It stays open, and the server waits a while for more.
    TailableAwait,
}

impl CursorType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NonTailable => "nonTailable",
            Self::Tailable => "tailable",
            Self::TailableAwait => "tailableAwait",
        }
    }

    pub(crate) fn from_options(options: &Options) -> Self {
        match options.text("cursorType") {
            Some("tailable") => Self::Tailable,
            Some("tailableAwait") => Self::TailableAwait,
            _ => Self::NonTailable,
        }
    }
}

/// What `timeoutMS` limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutMode {
    /// The command and the whole life of the cursor.
    CursorLifetime,
    /// The command, and each call on the cursor anew.
    Iteration,
}

impl TimeoutMode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CursorLifetime => "cursorLifetime",
            Self::Iteration => "iteration",
        }
    }
}

/// How a cursor is to behave: read from the options of the operation that makes it.
#[derive(Debug, Clone)]
pub(crate) struct CursorRules {
    pub(crate) cursor_type: CursorType,
    mode: TimeoutMode,
    max_await: Option<Duration>,
    batch_size: Option<i64>,
    limit: Option<i64>,
    comment: Option<Bson>,
    options: Options,
}

impl CursorRules {
    /// Reads and checks the options. `timeout` is `timeoutMS` as it holds for the operation.
    ///
    /// # Errors
    /// A timeout mode without `timeoutMS`, or one that the cursor type does not have; `maxAwaitTimeMS` that is not
    /// below `timeoutMS`.
    pub(crate) fn new(options: &Options, timeout: Option<Duration>) -> Result<Self> {
        let refuse = |what: &str| Err(DriverError::invalid_argument(what));
        let cursor_type = CursorType::from_options(options);
        let asked = match options.text("timeoutMode") {
            Some("iteration") => Some(TimeoutMode::Iteration),
            Some(_) => Some(TimeoutMode::CursorLifetime),
            None => None,
        };
        if asked.is_some() && timeout.is_none() {
            return refuse("timeoutMode goes with timeoutMS only");
        }
        if cursor_type != CursorType::NonTailable && asked == Some(TimeoutMode::CursorLifetime) {
            return refuse("tailable cursors only support the timeoutMode iteration");
        }
        let max_await = options.millis("maxAwaitTimeMS");
        if let (Some(max_await), Some(timeout)) = (max_await, timeout)
            && !timeout.is_zero()
            && max_await >= timeout
        {
            return refuse("maxAwaitTimeMS must be less than timeoutMS");
        }
        let default = match cursor_type {
            CursorType::NonTailable => TimeoutMode::CursorLifetime,
            CursorType::Tailable | CursorType::TailableAwait => TimeoutMode::Iteration,
        };
        Ok(Self {
            cursor_type,
            mode: asked.unwrap_or(default),
            max_await,
            batch_size: options.number("batchSize").filter(|size| *size > 0),
            limit: options.number("limit").filter(|limit| *limit > 0),
            comment: options.get("comment").cloned(),
            options: options.clone(),
        })
    }

    pub(crate) fn mode(&self) -> TimeoutMode {
        self.mode
    }

    /// The `maxTimeMS` of the command that makes the cursor. A timeout that is for each call is not the server's
    /// business there, except for a cursor that waits.
    pub(crate) fn first_max_time(&self, timeout: Option<Duration>, asked: Option<Duration>) -> MaxTime {
        let omitted = self.mode == TimeoutMode::Iteration && self.cursor_type != CursorType::TailableAwait;
        if timeout.is_some() && omitted { MaxTime::Omitted } else { MaxTime::Operation(asked) }
    }
}

/// Documents of a result. Dropping a cursor that is not exhausted tells the server in the background;
/// [`Cursor::close`] waits for that.
pub struct Cursor {
    /// Gone once the cursor is exhausted or closed.
    call: Option<Call>,
    rules: CursorRules,
    database: String,
    collection: String,
    id: i64,
    server: ServerAddress,
    buffer: VecDeque<Document>,
    /// Documents received so far, for `limit`.
    received: i64,
}

impl Cursor {
    /// A cursor from the reply of the command that made it.
    ///
    /// # Errors
    /// When the reply holds none.
    pub(crate) fn new(mut call: Call, reply: Reply, rules: CursorRules) -> Result<Self> {
        let no_cursor = || DriverError::client("the command's reply is not a cursor");
        let mut document = reply.document;
        let Some(Bson::Document(cursor)) = document.remove("cursor") else { return Err(no_cursor()) };
        let id = number(&cursor, "id").ok_or_else(no_cursor)?;
        let namespace = cursor.get_str("ns").map_err(|_| no_cursor())?;
        let (database, collection) = namespace.split_once('.').ok_or_else(no_cursor)?;
        let (database, collection) = (database.to_owned(), collection.to_owned());
        call.clock.set_max_time(MaxTime::Await(rules.max_await));
        call.pin(&reply.server);
        let mut made = Self {
            call: Some(call),
            rules,
            database,
            collection,
            id: 0,
            server: reply.server,
            buffer: VecDeque::new(),
            received: 0,
        };
        made.take_batch(cursor, "firstBatch", id);
        Ok(made)
    }

    /// A cursor without documents.
    pub(crate) fn empty(server: ServerAddress, rules: CursorRules) -> Self {
        Self {
            call: None,
            rules,
            database: String::new(),
            collection: String::new(),
            id: 0,
            server,
            buffer: VecDeque::new(),
            received: 0,
        }
    }

    fn take_batch(&mut self, mut cursor: Document, name: &str, id: i64) {
        self.id = id;
        if let Some(Bson::Array(batch)) = cursor.remove(name) {
            self.received += i64::try_from(batch.len()).unwrap_or(i64::MAX);
            self.buffer.extend(batch.into_iter().filter_map(|document| match document {
                Bson::Document(document) => Some(document),
                _ => None,
            }));
        }
        if self.id == 0 {
            // The implicit session goes back to its pool now, not when the last document was looked at.
            self.call = None;
        }
    }

    /// The server's number for the cursor; 0 once it is exhausted or closed.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The server that holds the cursor.
    pub fn server(&self) -> &ServerAddress {
        &self.server
    }

    /// The session it belongs to, as long as the server holds the cursor.
    pub fn session(&self) -> Option<&ClientSession> {
        self.call.as_ref().and_then(|call| call.session.as_ref())
    }

    /// The next document; waits for it as long as it takes. `None` when there are no more (a tailable cursor then has
    /// ended on the server).
    ///
    /// # Errors
    /// Those of `getMore`. With `timeoutMS`, the cursor can be asked again after a timeout.
    pub async fn next(&mut self) -> Result<Option<Document>> {
        self.begin_call();
        loop {
            if let Some(document) = self.buffer.pop_front() {
                return Ok(Some(document));
            }
            if self.id == 0 {
                return Ok(None);
            }
            self.get_more().await?;
        }
    }

    /// The next document, if one is here or comes with at most one request to the server.
    ///
    /// # Errors
    /// Those of `getMore`.
    pub async fn try_next(&mut self) -> Result<Option<Document>> {
        self.begin_call();
        if self.buffer.is_empty() && self.id != 0 {
            self.get_more().await?;
        }
        Ok(self.buffer.pop_front())
    }

    /// All remaining documents. A failure closes the cursor.
    ///
    /// # Errors
    /// Those of `getMore`.
    pub async fn collect(mut self) -> Result<Vec<Document>> {
        let mut documents = Vec::new();
        loop {
            match self.next().await {
                Ok(Some(document)) => documents.push(document),
                Ok(None) => return Ok(documents),
                Err(error) => {
                    self.close().await;
                    return Err(error);
                }
            }
        }
    }

    /// Closes the cursor on the server. `timeoutMS` counts anew for this, also when it has run out. What goes wrong is
    /// not reported: the server ends an unused cursor by itself.
    pub async fn close(&mut self) {
        let timeout = self.call.as_ref().and_then(|call| call.clock.timeout());
        self.close_within(timeout).await;
    }

    /// As [`Cursor::close`], with another `timeoutMS`.
    pub async fn close_with_timeout(&mut self, timeout: Duration) {
        self.close_within(Some(timeout)).await;
    }

    async fn close_within(&mut self, timeout: Option<Duration>) {
        if let Some(kill) = self.take_kill(timeout) {
            kill.run().await;
        }
    }

    fn take_kill(&mut self, timeout: Option<Duration>) -> Option<Kill> {
        self.buffer.clear();
        let id = std::mem::take(&mut self.id);
        let mut call = self.call.take().filter(|call| id != 0 && !call.client.is_closed())?;
        if let Some(timeout) = timeout {
            call.clock.restart_with(timeout);
        }
        call.clock.set_max_time(MaxTime::Operation(None));
        let (database, collection) = (self.database.clone(), self.collection.clone());
        Some(Kill { call, id, database, collection })
    }

    /// With a timeout for each call, the time starts now.
    fn begin_call(&mut self) {
        if self.rules.mode == TimeoutMode::Iteration
            && let Some(call) = &mut self.call
        {
            call.clock.restart();
        }
    }

    async fn get_more(&mut self) -> Result<()> {
        let Some(call) = &mut self.call else { return Ok(()) };
        let mut body = doc! {"getMore": self.id, "collection": &self.collection};
        let left = self.rules.limit.map(|limit| limit - self.received).filter(|left| *left > 0);
        if let Some(size) = [self.rules.batch_size, left].into_iter().flatten().min() {
            body.insert("batchSize", i32::try_from(size).map_or(Bson::Int64(size), Bson::Int32));
        }
        let (comment, options) = (self.rules.comment.clone(), self.rules.options.clone());
        let plan = Plan::new(Operation::PlainRead, &self.database, Criteria::Writable, move |wire_version| {
            let mut body = body.clone();
            if let Some(comment) = comment.as_ref().filter(|_| wire_version >= WIRE_VERSION_COMMENT) {
                body.insert("comment", comment);
            }
            add_raw_data(&options, wire_version, &mut body);
            Ok(body)
        });
        match plan.run(call).await {
            Ok(mut reply) => {
                let Some(Bson::Document(cursor)) = reply.document.remove("cursor") else {
                    return Err(DriverError::protocol("a getMore's reply holds no cursor"));
                };
                let id = number(&cursor, "id").unwrap_or(0);
                self.take_batch(cursor, "nextBatch", id);
                Ok(())
            }
            Err(error) => {
                if error.code() == Some(codes::CURSOR_NOT_FOUND) {
                    self.id = 0;
                    self.call = None;
                }
                Err(error)
            }
        }
    }
}

/// The first wire version whose `getMore` takes a `comment` (4.4).
const WIRE_VERSION_COMMENT: i32 = 9;

/// A cursor that is to be closed on its server.
struct Kill {
    call: Call,
    id: i64,
    database: String,
    collection: String,
}

impl Kill {
    async fn run(mut self) {
        let body = doc! {"killCursors": &self.collection, "cursors": [self.id]};
        let plan = Plan::new(Operation::PlainRead, &self.database, Criteria::Writable, move |_| Ok(body.clone()));
        if let Err(error) = plan.run(&mut self.call).await {
            tracing::debug!(%error, "cursor could not be closed");
        }
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("id", &self.id).field("server", &self.server).finish_non_exhaustive()
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let timeout = self.call.as_ref().and_then(|call| call.clock.timeout());
        if let Some(kill) = self.take_kill(timeout)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(kill.run());
        }
    }
}
