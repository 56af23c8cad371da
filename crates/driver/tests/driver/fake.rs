//! A server made of a script: it answers `hello` by itself, and every other command as its next step says.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bson::{Bson, Document, doc};
use bytes::BytesMut;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use backfire_driver::events::CommandEvent;
use backfire_driver::{Client, ClientSettings, Connector, Event, ServerAddress, Stream};
use backfire_wire::op_query::{OpReply, ReplyFlags};
use backfire_wire::{Compressor, FrameDecoder, MessageFlags, OpCode, OpMsg, OpMsgEncoder, OpQuery, compression};

/// What a pipe holds before its writer has to wait.
pub const PIPE_BYTES: usize = 64 * 1024;

/// What the server does with a command.
#[derive(Debug, Clone)]
pub enum Step {
    /// Answers at once.
    Reply(Document),
    /// Answers after some milliseconds.
    ReplyAfter(u64, Document),
    /// Never answers; the connection stays open.
    Stall,
    /// Answers, and never reads from the connection again.
    ReplyAndGoDeaf(Document),
    /// Answers with these bytes, whatever they are.
    Raw(Vec<u8>),
    /// Closes the connection.
    Reset,
}

/// A command that arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Milliseconds since the start.
    pub at_ms: u64,
    pub node: String,
    pub connection: u64,
    pub name: String,
    pub command: Document,
    pub compressed: bool,
    pub is_query: bool,
}

impl Seen {
    pub fn lsid(&self) -> Option<Document> {
        self.command.get_document("lsid").ok().cloned()
    }

    pub fn txn(&self) -> Option<i64> {
        self.command.get_i64("txnNumber").ok()
    }

    /// The parts of the command that are not the driver's.
    pub fn own_fields(&self) -> Document {
        let added = ["$db", "lsid", "$clusterTime", "txnNumber", "$readPreference"];
        self.command.clone().into_iter().filter(|(name, _)| !added.contains(&name.as_str())).collect()
    }
}

/// How a node treats new connections and `hello`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Answers.
    Well,
    /// Takes connections, says nothing to `hello`.
    HelloStalls,
    /// Closes the connection on `hello`.
    HelloResets,
    /// Answers an awaitable `hello` at once.
    NeverWaits,
    /// Refuses connections.
    Refuses,
    /// Never completes a connection.
    ConnectHangs,
}

struct Node {
    hello: Document,
    mood: Mood,
    script: VecDeque<Step>,
    changed: Arc<Notify>,
    latency_ms: u64,
}

struct State {
    start: Instant,
    nodes: BTreeMap<ServerAddress, Node>,
    seen: Vec<Seen>,
    hellos: Vec<Seen>,
    connections: u64,
    open: u64,
    log: Vec<(u64, Event)>,
}

/// The whole deployment; also the connector that reaches it.
#[derive(Clone)]
pub struct Fake(Arc<Mutex<State>>);

/// What a primary alone in its replica set says.
pub fn primary() -> Document {
    doc! {
        "ismaster": true, "secondary": false, "setName": "rs", "hosts": ["a:27017"], "me": "a:27017",
        "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
        "logicalSessionTimeoutMinutes": 30, "connectionId": 1, "minWireVersion": 0, "maxWireVersion": 9,
        "readOnly": false, "ok": 1.0,
    }
}

pub fn topology_version(counter: i64) -> Document {
    doc! {"processId": bson::oid::ObjectId::from_bytes([1; 12]), "counter": counter}
}

/// A primary that streams.
pub fn streaming_primary() -> Document {
    with(primary(), doc! {"topologyVersion": topology_version(1)})
}

pub fn with(mut document: Document, more: Document) -> Document {
    document.extend(more);
    document
}

pub fn ok() -> Document {
    doc! {"n": 1, "ok": 1.0}
}

pub fn error(code: i32, name: &str, labels: &[&str]) -> Document {
    doc! {"ok": 0.0, "errmsg": name, "code": code, "codeName": name, "errorLabels": labels.to_vec()}
}

pub fn cursor(id: i64, batch: Vec<Document>) -> Document {
    doc! {"cursor": {"id": id, "ns": "db.c", "firstBatch": batch}, "ok": 1.0}
}

pub fn more(id: i64, batch: Vec<Document>) -> Document {
    doc! {"cursor": {"id": id, "ns": "db.c", "nextBatch": batch}, "ok": 1.0}
}

impl Fake {
    /// One node `a` that says `hello`.
    pub fn single(hello: Document) -> Self {
        Self::new([("a", hello)])
    }

    pub fn new<const N: usize>(nodes: [(&str, Document); N]) -> Self {
        let node = |(host, hello): (&str, Document)| {
            let node =
                Node { hello, mood: Mood::Well, script: VecDeque::new(), changed: Arc::default(), latency_ms: 0 };
            (ServerAddress::new(host, 27017), node)
        };
        Self(Arc::new(Mutex::new(State {
            start: Instant::now(),
            nodes: nodes.into_iter().map(node).collect(),
            seen: Vec::new(),
            hellos: Vec::new(),
            connections: 0,
            open: 0,
            log: Vec::new(),
        })))
    }

    /// The settings that most tests start from: the replica set `rs` by node `a`.
    pub fn settings() -> ClientSettings {
        ClientSettings { replica_set: Some("rs".into()), ..ClientSettings::new([ServerAddress::new("a", 27017)]) }
    }

    pub fn client(&self, settings: ClientSettings) -> Client {
        let state = self.0.clone();
        let listener = move |event: &Event| {
            let mut state = state.lock();
            let at_ms = millis(state.start.elapsed());
            state.log.push((at_ms, event.clone()));
        };
        Client::connect(settings, self.clone(), listener, 42).expect("settings are good")
    }

    fn node<T>(&self, host: &str, change: impl FnOnce(&mut Node) -> T) -> T {
        change(self.0.lock().nodes.get_mut(&ServerAddress::new(host, 27017)).expect("a node of that name"))
    }

    /// Adds steps for node `a`. After the last one, commands get a plain answer.
    pub fn script(&self, steps: impl IntoIterator<Item = Step>) -> &Self {
        self.node("a", |node| node.script.extend(steps));
        self
    }

    pub fn script_on(&self, host: &str, steps: impl IntoIterator<Item = Step>) {
        self.node(host, |node| node.script.extend(steps));
    }

    pub fn mood(&self, host: &str, mood: Mood) {
        self.node(host, |node| node.mood = mood);
    }

    /// Each answer takes this long.
    pub fn latency(&self, host: &str, latency_ms: u64) {
        self.node(host, |node| node.latency_ms = latency_ms);
    }

    /// Changes what a node says, and wakes those who wait for that.
    pub fn hello(&self, host: &str, hello: Document) {
        self.node(host, |node| {
            node.hello = hello;
            node.changed.notify_waiters();
        });
    }

    /// All commands but `hello`.
    pub fn seen(&self) -> Vec<Seen> {
        self.0.lock().seen.clone()
    }

    /// The `hello`s.
    pub fn hellos(&self) -> Vec<Seen> {
        self.0.lock().hellos.clone()
    }

    /// How many connections the client holds.
    pub fn open(&self) -> u64 {
        self.0.lock().open
    }

    /// Milliseconds since the start.
    pub fn now_ms(&self) -> u64 {
        millis(self.0.lock().start.elapsed())
    }

    /// The events so far, with their times.
    pub fn log(&self) -> Vec<(u64, Event)> {
        self.0.lock().log.clone()
    }

    pub fn command_events(&self) -> Vec<CommandEvent> {
        let command = |(_, event)| match event {
            Event::Command(event) => Some(event),
            _ => None,
        };
        self.log().into_iter().filter_map(command).collect()
    }

    fn next_step(&self, address: &ServerAddress, seen: &Seen) -> Step {
        let mut state = self.0.lock();
        state.seen.push(seen.clone());
        let node = state.nodes.get_mut(address).expect("a known node");
        node.script.pop_front().unwrap_or_else(|| Step::Reply(plain_answer(&seen.command)))
    }

    async fn serve(self, address: ServerAddress, connection: u64, mut stream: DuplexStream) {
        // An error is how the script closes a connection.
        let _ = self.converse(&address, connection, &mut stream).await;
    }

    /// Ends with an error when the connection is to be closed.
    async fn converse(&self, address: &ServerAddress, connection: u64, stream: &mut DuplexStream) -> io::Result<()> {
        let (decoder, mut buffer) = (FrameDecoder::default(), BytesMut::new());
        loop {
            let frame = loop {
                if let Some(frame) = decoder.decode(&mut buffer).expect("good frames") {
                    break frame;
                }
                if stream.read_buf(&mut buffer).await? == 0 {
                    return Ok(());
                }
            };
            let (frame, compressor) = match frame.header.op_code {
                OpCode::Compressed => {
                    let (frame, compressor) = compression::decompress(&frame).expect("good compression");
                    (frame, Some(compressor))
                }
                _ => (frame, None),
            };
            let request_id = frame.header.request_id;
            let is_query = frame.header.op_code == OpCode::Query;
            let (command, flags) = read_command(&frame);
            let name = command.keys().next().cloned().unwrap_or_default();
            let at_ms = self.now_ms();
            let node = address.host().to_owned();
            let compressed = compressor.is_some();
            let seen = Seen { at_ms, node, connection, name: name.clone(), command, compressed, is_query };
            let latency_ms = self.node(address.host(), |node| node.latency_ms);
            let mut deaf = false;
            let reply = if matches!(name.as_str(), "hello" | "isMaster") && !seen.command.contains_key("lsid") {
                self.answer_hello(address, &seen).await?
            } else {
                let step = self.next_step(address, &seen);
                if flags.has(MessageFlags::MORE_TO_COME) {
                    continue;
                }
                match step {
                    Step::Reply(reply) => reply,
                    Step::ReplyAfter(ms, reply) => {
                        sleep(Duration::from_millis(ms)).await;
                        reply
                    }
                    Step::Stall => {
                        // Until the client gives up.
                        while stream.read_buf(&mut buffer).await? > 0 {}
                        return Ok(());
                    }
                    Step::ReplyAndGoDeaf(reply) => {
                        deaf = true;
                        reply
                    }
                    Step::Raw(bytes) => {
                        stream.write_all(&bytes).await?;
                        continue;
                    }
                    Step::Reset => return Err(io::ErrorKind::ConnectionReset.into()),
                }
            };
            sleep(Duration::from_millis(latency_ms)).await;
            stream.write_all(&encode_reply(&reply, request_id, is_query, compressor)).await?;
            if deaf {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn answer_hello(&self, address: &ServerAddress, seen: &Seen) -> io::Result<Document> {
        self.0.lock().hellos.push(seen.clone());
        let (mood, changed) = self.node(address.host(), |node| (node.mood, node.changed.clone()));
        match mood {
            Mood::HelloStalls => std::future::pending().await,
            Mood::HelloResets => return Err(io::ErrorKind::ConnectionReset.into()),
            Mood::Well | Mood::NeverWaits | Mood::Refuses | Mood::ConnectHangs => {}
        }
        if let (Ok(known), Ok(wait_ms)) =
            (seen.command.get_document("topologyVersion"), seen.command.get_i64("maxAwaitTimeMS"))
        {
            let same = self.node(address.host(), |node| node.hello.get_document("topologyVersion").ok() == Some(known));
            if same && mood != Mood::NeverWaits {
                let _ = timeout(Duration::from_millis(wait_ms as u64), changed.notified()).await;
            }
        }
        let mut hello = self.node(address.host(), |node| node.hello.clone());
        hello.insert("connectionId", seen.connection as i64);
        if seen.command.contains_key("helloOk") && hello.get_i32("maxWireVersion").is_ok_and(|version| version > 9) {
            hello.insert("helloOk", true);
        }
        if let Ok(names) = seen.command.get_array("compression") {
            hello.insert("compression", names.clone());
        }
        Ok(hello)
    }
}

impl Connector for Fake {
    fn connect(&self, address: &ServerAddress) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let (fake, address) = (self.clone(), address.clone());
        Box::pin(async move {
            let mood = fake.0.lock().nodes.get(&address).map_or(Mood::Refuses, |node| node.mood);
            match mood {
                Mood::Refuses => return Err(io::ErrorKind::ConnectionRefused.into()),
                Mood::ConnectHangs => std::future::pending().await,
                Mood::Well | Mood::NeverWaits | Mood::HelloStalls | Mood::HelloResets => {}
            }
            let (ours, theirs) = duplex(PIPE_BYTES);
            let connection = {
                let mut state = fake.0.lock();
                state.connections += 1;
                state.open += 1;
                state.connections
            };
            tokio::spawn(fake.clone().serve(address, connection, theirs));
            Ok(Box::new(Counted { pipe: ours, fake }) as Box<dyn Stream>)
        })
    }
}

/// The client's end of a pipe, counted as long as it exists.
struct Counted {
    pipe: DuplexStream,
    fake: Fake,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.fake.0.lock().open -= 1;
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

fn read_command(frame: &backfire_wire::Frame) -> (Document, MessageFlags) {
    let read = |bytes: &[u8]| Document::from_reader(bytes).expect("good BSON");
    if frame.header.op_code == OpCode::Query {
        return (read(&OpQuery::parse(frame).expect("a good query").query), MessageFlags(0));
    }
    let message = OpMsg::parse(frame).expect("a good message");
    let mut command = read(&message.body);
    for sequence in &message.sequences {
        let documents: Vec<Bson> = sequence.iter().map(|bytes| Bson::Document(read(&bytes))).collect();
        command.insert(&sequence.name, documents);
    }
    (command, message.flags)
}

fn encode_reply(reply: &Document, request_id: i32, is_query: bool, compressor: Option<Compressor>) -> Vec<u8> {
    let document = reply.to_vec().expect("good BSON");
    if is_query {
        return OpReply { flags: ReplyFlags::AWAIT_CAPABLE, document: document.into() }.encode(0, request_id);
    }
    let message = OpMsgEncoder::new(MessageFlags(0), 0).body(&document).finish(0, request_id, false);
    match compressor {
        Some(compressor) => compression::compress(&message, compressor),
        None => message,
    }
}

/// A good answer to a command that the script says nothing of.
fn plain_answer(command: &Document) -> Document {
    let count = |name: &str| command.get_array(name).map_or(0, |list| list.len() as i32);
    match command.keys().next().map(String::as_str) {
        Some("insert") => doc! {"n": count("documents"), "ok": 1.0},
        Some("update") => doc! {"n": count("updates"), "nModified": count("updates"), "ok": 1.0},
        Some("delete") => doc! {"n": count("deletes"), "ok": 1.0},
        Some("findAndModify") => doc! {"lastErrorObject": {"n": 1}, "value": {"_id": 1}, "ok": 1.0},
        Some("find" | "aggregate" | "listCollections" | "listIndexes") => cursor(0, vec![]),
        Some("getMore") => more(0, vec![]),
        Some("distinct") => doc! {"values": [], "ok": 1.0},
        Some("listDatabases") => doc! {"databases": [], "ok": 1.0},
        _ => doc! {"n": 0, "ok": 1.0},
    }
}
