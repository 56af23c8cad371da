//! A gateway between a client and the lab server: it passes frames on, and sends a write again whose connection broke behind
//! it, without the client knowing (report R60; facts/server.md 10 for mongos).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backfire_driver::{Connector, ServerAddress, Stream};
use backfire_model::predict::Gateway;
use bson::RawDocument;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::client_events::WRITES;

/// How much a pipe between the client and the gateway holds.
const PIPE_BYTES: usize = 256 * 1024;
/// The largest frame that it passes on.
const FRAME_MAX_BYTES: usize = 48_000_000;
/// Length, request id, id that is answered, opcode.
const HEADER_BYTES: usize = 16;
/// `OP_MSG`.
const OP_MSG: i32 = 2013;
/// A flag of `OP_MSG`: nothing is answered, or more answers follow.
const MORE_TO_COME: u32 = 1 << 1;

/// The writes that gateways hold: they go on with them when their clients have gone.
#[derive(Debug, Default)]
pub(crate) struct Held {
    writes: AtomicU64,
    changed: Notify,
}

impl Held {
    /// Resolves when no gateway holds a write.
    pub(crate) async fn until_none(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.writes.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Whether no gateway holds a write.
    pub(crate) fn is_none(&self) -> bool {
        self.writes.load(Ordering::Acquire) == 0
    }
}

/// A write that is held, until it is dropped.
struct Holding(Arc<Held>);

impl Holding {
    fn new(held: &Arc<Held>) -> Self {
        held.writes.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(held))
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.writes.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}

/// Reaches the server through a gateway.
pub(crate) struct GatewayConnector<C> {
    settings: Gateway,
    server: Arc<C>,
    held: Arc<Held>,
}

impl<C: Connector> GatewayConnector<C> {
    /// A gateway in front of what `server` reaches; `held` counts the writes that it holds.
    pub(crate) fn new(settings: Gateway, server: C, held: Arc<Held>) -> Self {
        Self { settings, server: Arc::new(server), held }
    }
}

impl<C: Connector> Connector for GatewayConnector<C> {
    fn connect(&self, address: &ServerAddress) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let (near, client) = tokio::io::duplex(PIPE_BYTES);
        let link = Link {
            settings: self.settings,
            server: Arc::clone(&self.server),
            held: Arc::clone(&self.held),
            address: address.clone(),
            client,
            hello: None,
            upstream: None,
        };
        // It ends with its client, or when it has nothing to answer: the client sees a closed connection then.
        tokio::spawn(async move { drop(link.serve().await) });
        Box::pin(std::future::ready(Ok(Box::new(near) as Box<dyn Stream>)))
    }
}

/// One client's connection.
struct Link<C> {
    settings: Gateway,
    server: Arc<C>,
    held: Arc<Held>,
    address: ServerAddress,
    client: DuplexStream,
    /// The client's handshake, with which each connection to the server begins.
    hello: Option<Vec<u8>>,
    upstream: Option<Box<dyn Stream>>,
}

impl<C: Connector> Link<C> {
    async fn serve(mut self) -> io::Result<()> {
        loop {
            let request = read_frame(&mut self.client).await?;
            if is_held(&self.settings, &request) {
                let reply = self.hold(&request).await?;
                self.client.write_all(&reply).await?;
            } else {
                self.pass(&request).await?;
            }
            self.hello.get_or_insert(request);
        }
    }

    /// Sends a write until there is an answer, or its time or its retries are over.
    async fn hold(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        let _holding = Holding::new(&self.held);
        let arrived = Instant::now();
        let mut retry = 0;
        loop {
            let error = match self.exchange(request).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            self.upstream = None;
            retry += 1;
            let held_ms = u64::try_from(arrived.elapsed().as_millis()).unwrap_or(u64::MAX);
            let Some(wait_ms) = self.settings.wait_ms(retry, held_ms) else { return Err(error) };
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    async fn upstream(&mut self) -> io::Result<&mut Box<dyn Stream>> {
        let stream = match self.upstream.take() {
            Some(stream) => stream,
            None => {
                let mut stream = self.server.connect(&self.address).await?;
                if let Some(hello) = &self.hello {
                    stream.write_all(hello).await?;
                    read_frame(&mut stream).await?;
                }
                stream
            }
        };
        Ok(self.upstream.insert(stream))
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        let upstream = self.upstream().await?;
        upstream.write_all(request).await?;
        read_frame(upstream).await
    }

    /// Passes on a command that it does not hold, and all its answers.
    async fn pass(&mut self, request: &[u8]) -> io::Result<()> {
        self.upstream().await?.write_all(request).await?;
        if flags(request) & MORE_TO_COME != 0 {
            return Ok(());
        }
        loop {
            let reply = read_frame(self.upstream().await?).await?;
            self.client.write_all(&reply).await?;
            if flags(&reply) & MORE_TO_COME == 0 {
                return Ok(());
            }
        }
    }
}

/// Reads one frame, its header included.
async fn read_frame(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEADER_BYTES];
    stream.read_exact(&mut frame).await?;
    let length = usize::try_from(number(&frame, 0)).unwrap_or(0);
    if !(HEADER_BYTES..=FRAME_MAX_BYTES).contains(&length) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    frame.resize(length, 0);
    stream.read_exact(&mut frame[HEADER_BYTES..]).await?;
    Ok(frame)
}

/// The number at `offset` of a frame; 0 behind its end.
fn number(frame: &[u8], offset: usize) -> i32 {
    let bytes = frame.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, i32::from_le_bytes)
}

/// The flags of an `OP_MSG`; 0 for another frame.
fn flags(frame: &[u8]) -> u32 {
    if number(frame, 12) == OP_MSG { number(frame, HEADER_BYTES) as u32 } else { 0 }
}

/// The body of an `OP_MSG`, if that is its first section.
fn body(frame: &[u8]) -> Option<&RawDocument> {
    let start = HEADER_BYTES + 5;
    let is_first = number(frame, 12) == OP_MSG && frame.get(start - 1) == Some(&0);
    let length = usize::try_from(number(frame, start)).ok().filter(|_| is_first)?;
    RawDocument::from_bytes(frame.get(start..start.checked_add(length)?)?).ok()
}

/// Whether the gateway holds this command: an acknowledged write, with a number where it asks for one.
fn is_held(settings: &Gateway, frame: &[u8]) -> bool {
    let Some(body) = body(frame).filter(|_| flags(frame) & MORE_TO_COME == 0) else { return false };
    let name = body.iter().next().and_then(Result::ok).map(|(name, _)| name.as_str().to_owned());
    let is_write = name.is_some_and(|name| WRITES.contains(&name.as_str()));
    is_write && (!settings.numbered_only || matches!(body.get("txnNumber"), Ok(Some(_))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, doc};

    fn frame(flags: u32, body: &Document) -> Vec<u8> {
        let body = bson::RawDocumentBuf::try_from(body).expect("BSON").into_bytes();
        let length = (HEADER_BYTES + 5 + body.len()) as i32;
        let head = [length, 1, 0, OP_MSG].map(i32::to_le_bytes).concat();
        [head, flags.to_le_bytes().to_vec(), vec![0], body].concat()
    }

    #[test]
    fn acknowledged_writes_are_held() {
        let all = Gateway { hold_ms: 1, first_wait_ms: 1, longest_wait_ms: 1, retries: None, numbered_only: false };
        let numbered = Gateway { numbered_only: true, ..all };
        let insert = doc! { "insert": "c", "$db": "test" };
        let resendable = doc! { "insert": "c", "txnNumber": 1_i64 };
        for (settings, flags, body, expected) in [
            (all, 0, &insert, true),
            (all, MORE_TO_COME, &insert, false),
            (all, 0, &doc! { "find": "insert" }, false),
            (numbered, 0, &insert, false),
            (numbered, 0, &resendable, true),
        ] {
            assert_eq!(is_held(&settings, &frame(flags, body)), expected, "{body}");
        }
        for cut in 0..40 {
            is_held(&all, &frame(0, &insert)[..cut]);
        }
    }
}
