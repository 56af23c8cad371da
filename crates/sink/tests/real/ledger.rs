//! A proxy between sinks and their server that knows which writes were acknowledged.
//!
//! An acknowledgement is in the ledger before the sink can see it: what a sink has reason to commit is there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::{Bson, Document, RawDocument};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

const HEADER_BYTES: usize = 16;
const OP_MSG: i32 = 2013;

/// The acknowledged writes.
#[derive(Default)]
pub struct Ledger {
    /// For each `_id`: how often its write was acknowledged, and by which life of the server last.
    acknowledged: Mutex<BTreeMap<String, (u64, u64)>>,
    /// How often the server was started.
    life: AtomicU64,
}

/// The writes of requests without an answer, by request id.
type Open = Arc<Mutex<HashMap<i32, Vec<String>>>>;

impl Ledger {
    /// Listens; hands every connection on to `server`. Gives the port.
    pub async fn proxy(self: &Arc<Self>, server: u16) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let ledger = Arc::clone(self);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A server that is down refuses, and so does its proxy.
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let open = Open::default();
                let (asked, ledger) = (Arc::clone(&open), Arc::clone(&ledger));
                let life = ledger.life.load(Ordering::SeqCst);
                tokio::spawn(pass(from_client, to_server, move |frame| asks(&asked, frame)));
                tokio::spawn(pass(from_server, to_client, move |frame| ledger.answers(&open, life, frame)));
            }
        });
        port
    }

    /// The server was started again, with nothing in it.
    pub fn new_life(&self) {
        self.life.fetch_add(1, Ordering::SeqCst);
    }

    /// How often each write was acknowledged.
    pub fn acknowledged(&self) -> BTreeMap<String, u64> {
        self.acknowledged.lock().iter().map(|(id, (times, _))| (id.clone(), *times)).collect()
    }

    /// The writes that the server acknowledged that runs now.
    pub fn acknowledged_in_this_life(&self) -> Vec<String> {
        let life = self.life.load(Ordering::SeqCst);
        let acknowledged = self.acknowledged.lock();
        acknowledged.iter().filter(|(_, (_, last))| *last == life).map(|(id, _)| id.clone()).collect()
    }

    fn answers(&self, open: &Open, life: u64, frame: &[u8]) {
        let Some(ids) = number(frame, 8).and_then(|request| open.lock().remove(&request)) else { return };
        let Some(reply) = documents(frame).into_iter().next() else { return };
        let is_ok = matches!(reply.get("ok"), Some(Bson::Double(1.0) | Bson::Int32(1)));
        if !is_ok || reply.contains_key("writeErrors") || reply.contains_key("writeConcernError") {
            return;
        }
        let mut acknowledged = self.acknowledged.lock();
        for id in ids {
            let entry = acknowledged.entry(id).or_insert((0, life));
            *entry = (entry.0 + 1, life);
        }
    }
}

fn asks(open: &Open, frame: &[u8]) {
    let ids: Vec<String> = documents(frame)
        .iter()
        .filter_map(|update| update.get_document("q").ok()?.get_str("_id").ok().map(str::to_owned))
        .collect();
    if let (false, Some(request)) = (ids.is_empty(), number(frame, 4)) {
        open.lock().insert(request, ids);
    }
}

/// Hands frames on, each looked at first; ends when one side does.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut look: impl FnMut(&[u8])) {
    let mut frame = Vec::new();
    loop {
        frame.resize(4, 0);
        if from.read_exact(&mut frame).await.is_err() {
            break;
        }
        let length = number(&frame, 0).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        assert!(length >= HEADER_BYTES, "a frame of {length} bytes");
        frame.resize(length, 0);
        if from.read_exact(&mut frame[4..]).await.is_err() {
            break;
        }
        look(&frame);
        if to.write_all(&frame).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

fn number(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The documents of a frame: the body first, then those of its sequences. Not of an `OP_MSG`: none.
fn documents(frame: &[u8]) -> Vec<Document> {
    if number(frame, 12) != Some(OP_MSG) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut at = HEADER_BYTES + 4;
    while let Some(kind) = frame.get(at) {
        at += 1;
        let Some(length) = number(frame, at).and_then(|length| usize::try_from(length).ok()) else { break };
        let Some(section) = frame.get(at..at + length) else { break };
        let mut rest = match kind {
            0 => section,
            // Its length and its name stand before the documents.
            _ => {
                let name_bytes = section[4..].iter().position(|byte| *byte == 0).unwrap_or(0) + 1;
                &section[4 + name_bytes..]
            }
        };
        while let Some(length) = number(rest, 0).and_then(|length| usize::try_from(length).ok()) {
            let Some(document) = rest.get(..length).and_then(|bytes| RawDocument::from_bytes(bytes).ok()) else {
                break;
            };
            found.extend(expand(document));
            rest = &rest[length..];
        }
        at += length;
    }
    found
}

/// A command's own document, and the updates that are in it.
fn expand(document: &RawDocument) -> Vec<Document> {
    let Ok(document) = Document::try_from(document) else { return Vec::new() };
    let updates: Vec<Document> = document
        .get_array("updates")
        .map(|updates| updates.iter().filter_map(|update| update.as_document().cloned()).collect())
        .unwrap_or_default();
    std::iter::once(document).chain(updates).collect()
}
