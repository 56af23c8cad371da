//! Frames by hand: an `OP_MSG` that is encoded once, and a connection that sends it.

use mongodb::bson::Document;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The size of a message's header.
pub const HEADER_BYTES: usize = 16;

/// An `OP_MSG` with one body section.
pub fn message(command: &Document) -> Vec<u8> {
    let body = command.to_vec().expect("encodes");
    let mut frame = Vec::with_capacity(HEADER_BYTES + 5 + body.len());
    frame.extend_from_slice(&((HEADER_BYTES + 5 + body.len()) as i32).to_le_bytes());
    for number in [1, 0, 2013, 0] {
        frame.extend_from_slice(&i32::to_le_bytes(number));
    }
    frame.push(0);
    frame.extend_from_slice(&body);
    frame
}

/// One connection.
pub struct Connection {
    stream: TcpStream,
    reply: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server takes connections");
        stream.set_nodelay(true).expect("nodelay");
        Self { stream, reply: vec![0; 64 * 1024] }
    }

    /// Sends a frame and reads the reply's; gives it.
    pub async fn exchange(&mut self, frame: &[u8]) -> &[u8] {
        self.stream.write_all(frame).await.expect("sent");
        let (mut have, mut want) = (0, 4);
        while have < want {
            if self.reply.len() < want {
                self.reply.resize(want, 0);
            }
            let read = self.stream.read(&mut self.reply[have..]).await.expect("a reply");
            assert!(read > 0, "the server closed the connection");
            have += read;
            if have >= 4 {
                want = i32::from_le_bytes([self.reply[0], self.reply[1], self.reply[2], self.reply[3]]) as usize;
            }
        }
        &self.reply[..want]
    }

    /// Runs a command, which must succeed.
    pub async fn run(&mut self, command: &Document) -> Document {
        let reply = self.exchange(&message(command)).await;
        let reply = Document::from_reader(&reply[HEADER_BYTES + 5..]).expect("a document");
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command}: {reply}");
        reply
    }
}
