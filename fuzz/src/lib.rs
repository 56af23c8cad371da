//! What the targets share: reading seeds that people can read, and a server in memory.

use std::time::Duration;

use backfire_server::server::{Server, ServerConfig};
use backfire_wire::{FrameDecoder, MessageFlags, OpMsg, OpMsgEncoder};
use bson::{Bson, Document};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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

/// Sends these bodies to a new server, one after another on one connection, and gives the replies that came.
pub fn replies(bodies: &[Vec<u8>]) -> Vec<Document> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let server = Server::new(ServerConfig::new("127.0.0.1:27017", STARTED_AT_MS));
        let (mut near, far) = tokio::io::duplex(PIPE_BYTES);
        let serving = tokio::spawn(async move { server.serve(far, "127.0.0.1:50000".to_owned()).await });
        let (mut replies, mut buffer) = (Vec::new(), BytesMut::new());
        for body in bodies {
            let frame = OpMsgEncoder::new(MessageFlags(0), body.len()).body(body).finish(1, 0, false);
            if near.write_all(&frame).await.is_err() {
                break;
            }
            let reply = tokio::time::timeout(PATIENCE, async {
                loop {
                    match FrameDecoder::default().decode(&mut buffer).expect("the server's frames are right") {
                        Some(frame) => return Some(frame),
                        None if near.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) => {}
                        None => return None,
                    }
                }
            });
            let Ok(Some(frame)) = reply.await else { break };
            let message = OpMsg::parse(&frame).expect("the server's messages are right");
            replies.push(Document::from_reader(&message.body[..]).expect("the server's documents are right"));
        }
        drop(near);
        // One that is held for good stays behind; one that has ended must not have panicked.
        if let Ok(ended) = tokio::time::timeout(PATIENCE, serving).await {
            ended.expect("the server must not panic");
        }
        replies
    })
}
