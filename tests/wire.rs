//! A client that does nothing by itself: it writes what it is told and reads what comes.

use std::time::Duration;

use backfire_driver::auth::scram::{KeyCache, ScramClient, ScramMechanism};
use backfire_wire::{Frame, FrameDecoder, MessageFlags, OpCode, OpMsg, OpMsgEncoder, compression};
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// One connection.
pub struct Wire {
    stream: DuplexStream,
    buffer: BytesMut,
    next_id: i32,
}

/// How long a reply may take, on the (usually paused) clock.
const PATIENCE: Duration = Duration::from_secs(3600);

impl Wire {
    /// A client at one end of a pipe.
    pub fn new(stream: DuplexStream) -> Self {
        Self { stream, buffer: BytesMut::new(), next_id: 1 }
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Panics
    /// When the server closes the connection.
    pub async fn run(&mut self, db: &str, command: Document) -> Document {
        self.send(db, command.clone(), &[]).await;
        self.reply().await.unwrap_or_else(|| panic!("connection closed instead of a reply to {command}"))
    }

    /// Logs in by SCRAM-SHA-256; gives the last reply, which is a refusal where the server refuses.
    ///
    /// # Panics
    /// When the server closes the connection, or its challenge is not one.
    pub async fn log_in(&mut self, db: &str, user: &str, password: &str) -> Document {
        let mut client = ScramClient::new(ScramMechanism::Sha256, user, password, "fyko+d2lbbFgONRv9qkxdawL")
            .expect("a password that SASLprep allows");
        let binary = |bytes| Binary { subtype: BinarySubtype::Generic, bytes };
        let options = doc! { "skipEmptyExchange": true };
        let payload = binary(client.first());
        let start = doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload, "options": options };
        let challenge = self.run(db, start).await;
        let Some(Bson::Binary(payload)) = challenge.get("payload") else { return challenge };
        let proof = client.prove(&payload.bytes, &KeyCache::default()).expect("a challenge");
        self.run(db, doc! { "saslContinue": 1, "conversationId": 1, "payload": binary(proof) }).await
    }

    /// Sends a command with document sequences and does not wait.
    pub async fn send(&mut self, db: &str, mut command: Document, sequences: &[(String, Vec<Document>)]) {
        if !command.contains_key("$db") {
            command.insert("$db", db);
        }
        let body = command.to_vec().expect("encodes");
        let mut encoder = OpMsgEncoder::new(MessageFlags(0), body.len()).body(&body);
        for (name, documents) in sequences {
            let documents: Vec<_> = documents.iter().map(|document| document.to_vec().expect("encodes")).collect();
            encoder = encoder.sequence(name, documents.iter().map(Vec::as_slice));
        }
        let id = self.next_id;
        self.next_id += 1;
        self.write(&encoder.finish(id, 0, false)).await;
    }

    /// Writes bytes as they are. A server that has closed is not an error here: the next read shows it.
    pub async fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Closes the client's side: the server reads what was written and then the end.
    pub async fn finish_writing(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Everything until the server closes the connection, whatever it is.
    pub async fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // An error is an end, too.
        let _ = self.stream.read_to_end(&mut bytes).await;
        bytes
    }

    /// The next reply; `None` when the server has closed the connection.
    pub async fn reply(&mut self) -> Option<Document> {
        let mut frame = self.frame().await?;
        if frame.header.op_code == OpCode::Compressed {
            frame = compression::decompress(&frame).expect("a server compresses rightly").0;
        }
        let message = OpMsg::parse(&frame).expect("a server writes valid messages");
        Some(Document::from_reader(&message.body[..]).expect("a server writes valid BSON"))
    }

    /// The next frame; `None` when the server has closed the connection.
    pub async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = FrameDecoder::default().decode(&mut self.buffer).expect("a server writes valid frames")
            {
                return Some(frame);
            }
            let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.buffer))
                .await
                .expect("no reply for an hour");
            if !matches!(read, Ok(1..)) {
                return None;
            }
        }
    }
}
