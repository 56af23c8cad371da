//! One connection: frames in and out, with limits on the time each takes.

pub(crate) mod command;
mod description;
pub(crate) mod handshake;

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bson::Document;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use backfire_model::{ConnectionId, RequestId};
use backfire_wire::{Compressor, Frame, FrameDecoder, MessageFlags, OpCode, OpMsg, OpReply, compression};

use crate::error::{DriverError, ErrorKind, NetworkStage, Result};
use crate::settings::ServerAddress;
use crate::transport::Stream;
pub(crate) use description::HelloReply;
pub use description::{ServerType, TopologyVersion};

/// How long a reply may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadLimit {
    /// For ever.
    Unlimited,
    /// Each single read may wait so long: the server's silence counts, not the whole reply (facts/client.md A3).
    Silence(Duration),
    /// Everything must be there by then: `timeoutMS`.
    Deadline(Instant),
}

impl ReadLimit {
    /// A limit on silence, where a duration of zero is none.
    pub(crate) fn silence(duration: Duration) -> Self {
        if duration.is_zero() { Self::Unlimited } else { Self::Silence(duration) }
    }
}

/// Gives each message of a client its own `requestID`, from 1.
#[derive(Debug, Default)]
pub(crate) struct RequestIds(AtomicI32);

impl RequestIds {
    pub(crate) fn next(&self) -> RequestId {
        RequestId(self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }
}

/// Which connection: the client's own number for it, and the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The server.
    pub address: ServerAddress,
    /// The client's number, from 1, unique within the client.
    pub id: u64,
    /// The server's number, once the handshake has told it.
    pub server_id: Option<ConnectionId>,
}

/// An open connection behind its handshake.
pub(crate) struct Connection {
    info: ConnectionInfo,
    stream: Box<dyn Stream>,
    buffer: BytesMut,
    hello: HelloReply,
    /// What requests are compressed with.
    compressor: Option<Compressor>,
    /// The request whose reply is awaited.
    awaited: i32,
    /// The last reply said that another one follows without a request.
    more_to_come: bool,
    /// Set while a message is half written or a reply is due; a connection that is dropped or fails in that state
    /// cannot be used again.
    broken: bool,
}

/// How much is read at a time.
const READ_STEP_BYTES: usize = 16 * 1024;

impl Connection {
    pub(crate) fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    pub(crate) fn hello(&self) -> &HelloReply {
        &self.hello
    }

    /// Whether it must be closed instead of being used again.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether replies keep coming without a request.
    pub(crate) fn more_to_come(&self) -> bool {
        self.more_to_come
    }

    /// Sends an encoded message. `compress` is for messages that carry no secrets and are no `hello`.
    pub(crate) async fn send(
        &mut self,
        message: Vec<u8>,
        request_id: RequestId,
        compress: bool,
        limit: ReadLimit,
    ) -> Result<()> {
        let message = match self.compressor {
            Some(compressor) if compress => compression::compress(&message, compressor),
            _ => message,
        };
        self.broken = true;
        let write = async {
            self.stream.write_all(&message).await?;
            self.stream.flush().await
        };
        // Java sets no limit on writes but `timeoutMS` (facts/client.md A3: the read timeout bounds reads).
        let written = match limit {
            ReadLimit::Deadline(deadline) => match timeout_at(deadline, write).await {
                Ok(written) => written,
                Err(_) => {
                    let late = DriverError::network(NetworkStage::Write, "the peer takes no more bytes");
                    return Err(late.into_operation_timeout().at(&self.info.address));
                }
            },
            ReadLimit::Unlimited | ReadLimit::Silence(_) => write.await,
        };
        written.map_err(|error| DriverError::network(NetworkStage::Write, error).at(&self.info.address))?;
        self.awaited = request_id.0;
        Ok(())
    }

    /// Declares that the last message gets no reply.
    pub(crate) fn expect_no_reply(&mut self) {
        self.broken = false;
    }

    /// Receives the reply to the last message, or the next of a stream of replies.
    pub(crate) async fn receive(&mut self, limit: ReadLimit) -> Result<Document> {
        self.receive_as(limit, |body| backfire_wire::decode(body).map_err(DriverError::protocol)).await
    }

    /// Receives a reply of which only its coming counts: it is checked and not decoded.
    pub(crate) async fn receive_unread(&mut self, limit: ReadLimit) -> Result<()> {
        self.receive_as(limit, |_| Ok(())).await
    }

    async fn receive_as<T>(&mut self, limit: ReadLimit, decode: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        self.broken = true;
        let reply = match self.read_frame(limit).await {
            Ok(frame) => self.parse_reply(frame).and_then(|body| decode(&body)),
            Err(error) => Err(error),
        };
        match reply {
            Ok(reply) => {
                self.broken = false;
                Ok(reply)
            }
            Err(error) => Err(error.at(&self.info.address)),
        }
    }

    async fn read_frame(&mut self, limit: ReadLimit) -> Result<Frame> {
        let decoder = FrameDecoder::default();
        let started = Instant::now();
        loop {
            if let Some(frame) = decoder.decode(&mut self.buffer).map_err(DriverError::protocol)? {
                return Ok(frame);
            }
            self.buffer.reserve(READ_STEP_BYTES);
            let read = self.stream.read_buf(&mut self.buffer);
            let silent = |silence| DriverError::new(ErrorKind::SocketReadTimeout { silence });
            let count = match limit {
                ReadLimit::Unlimited => read.await,
                ReadLimit::Silence(silence) => timeout(silence, read).await.map_err(|_| silent(silence))?,
                ReadLimit::Deadline(deadline) => timeout_at(deadline, read)
                    .await
                    .map_err(|_| silent(deadline.saturating_duration_since(started)).into_operation_timeout())?,
            };
            match count {
                Ok(0) => return Err(DriverError::network(NetworkStage::Read, "the peer closed the connection")),
                Ok(_) => {}
                Err(error) => return Err(DriverError::network(NetworkStage::Read, error)),
            }
        }
    }

    /// The reply's document, valid BSON.
    fn parse_reply(&mut self, frame: Frame) -> Result<Bytes> {
        let frame = if frame.header.op_code == OpCode::Compressed {
            compression::decompress(&frame).map_err(DriverError::protocol)?.0
        } else {
            frame
        };
        if frame.header.response_to != self.awaited {
            return Err(DriverError::protocol(format_args!(
                "reply to request {} while the one to {} is due",
                frame.header.response_to, self.awaited
            )));
        }
        let (bytes, more_to_come) = match frame.header.op_code {
            OpCode::Msg => {
                let message = OpMsg::parse(&frame).map_err(DriverError::protocol)?;
                (message.body, message.flags.has(MessageFlags::MORE_TO_COME))
            }
            OpCode::Reply => (OpReply::parse(&frame).map_err(DriverError::protocol)?.document, false),
            other => return Err(DriverError::protocol(format_args!("unexpected op code {}", other.number()))),
        };
        self.more_to_come = more_to_come;
        if more_to_come {
            self.awaited = frame.header.request_id;
        }
        Ok(bytes)
    }
}
