//! What the targets share: reading seeds that people can read, and a server in memory.

use std::time::Duration;

use backfire_server::server::{Server, ServerConfig};
use backfire_wire::{FrameDecoder, MessageFlags, OpMsg, OpMsgEncoder};
use bson::{Bson, Document};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// The wall time at which servers start: 2026-11-30 00:00 UTC.
const STARTED_AT_MS: i64 = 1_795_996_800_000;
/// How much a pipe holds.
const PIPE_BYTES: usize = 1024 * 1024;
/// How long, on a clock that does not wait, an answer may take. A command may be held by a fail point for good.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The values of an input: extended JSON, one value after another.
pub fn values(input: &[u8]) -> Vec<Bson> {
    let values = serde_json::Deserializer::from_slice(input).into_iter::<serde_json::Value>();
    values.map_while(Result::ok).filter_map(|value| Bson::try_from(value).ok()).collect()
}

/// The documents of an input, as [`values`].
pub fn documents(input: &[u8]) -> Vec<Document> {
    let document = |value| match value {
        Bson::Document(document) => Some(document),
        _ => None,
    };
    values(input).into_iter().filter_map(document).collect()
}

/// A runtime on a clock that does not wait.
///
/// # Panics
/// When the machine has no room for one.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

/// A new server; `auth`: whether clients must log in.
pub fn server(auth: bool) -> Server {
    let mut config = ServerConfig::new("127.0.0.1:27017", STARTED_AT_MS);
    config.auth = auth;
    Server::new(config)
}

/// A connection to a server in memory.
pub struct Connection {
    near: DuplexStream,
    buffer: BytesMut,
    serving: JoinHandle<()>,
}

impl Connection {
    /// Opens one.
    pub fn open(server: &Server) -> Self {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let server = server.clone();
        let serving = tokio::spawn(async move { server.serve(far, "127.0.0.1:50000".to_owned()).await });
        Self { near, buffer: BytesMut::new(), serving }
    }

    /// Sends the body of a command and gives the reply; `None` when the server has closed, or holds the command for good.
    ///
    /// # Panics
    /// When the reply is not one.
    pub async fn run(&mut self, body: &[u8]) -> Option<Document> {
        let frame = OpMsgEncoder::new(MessageFlags(0), body.len()).body(body).finish(1, 0, false);
        self.near.write_all(&frame).await.ok()?;
        let reply = async {
            loop {
                match FrameDecoder::default().decode(&mut self.buffer).expect("the server's frames are right") {
                    Some(frame) => return Some(frame),
                    None if self.near.read_buf(&mut self.buffer).await.is_ok_and(|read| read > 0) => {}
                    None => return None,
                }
            }
        };
        let frame = tokio::time::timeout(PATIENCE, reply).await.ok()??;
        let message = OpMsg::parse(&frame).expect("the server's messages are right");
        Some(Document::from_reader(&message.body[..]).expect("the server's documents are right"))
    }

    /// Closes.
    ///
    /// # Panics
    /// When the server panicked on it.
    pub async fn close(self) {
        drop(self.near);
        // One that is held for good stays behind; one that has ended must not have panicked.
        if let Ok(ended) = tokio::time::timeout(PATIENCE, self.serving).await {
            ended.expect("the server must not panic");
        }
    }
}

/// Sends these bodies to a new server, one after another on one connection, and gives the replies that came.
pub fn replies(bodies: &[Vec<u8>]) -> Vec<Document> {
    runtime().block_on(async {
        let mut connection = Connection::open(&server(false));
        let mut replies = Vec::new();
        for body in bodies {
            match connection.run(body).await {
                Some(reply) => replies.push(reply),
                None => break,
            }
        }
        connection.close().await;
        replies
    })
}
