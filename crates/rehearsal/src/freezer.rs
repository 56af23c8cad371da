//! A server that stands still as a whole: what its clients send lies unread, and nothing is answered (facts/client.md A4.8,
//! F15).

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::watch;

/// How much is passed on at once.
const PIECE_BYTES: usize = 16 * 1024;

/// Lets a server in memory stand still.
#[derive(Debug, Clone)]
pub(crate) struct Freezer(watch::Sender<bool>);

impl Freezer {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Whether the server stands still from now on.
    pub(crate) fn set(&self, stands_still: bool) {
        self.0.send_replace(stands_still);
    }

    /// Passes everything on between a client and the server while that does not stand still, until one of them has gone.
    pub(crate) async fn between(self, client: DuplexStream, server: DuplexStream) {
        let ((from_client, to_client), (from_server, to_server)) = (tokio::io::split(client), tokio::io::split(server));
        let there = pass(self.0.subscribe(), from_client, to_server);
        let back = pass(self.0.subscribe(), from_server, to_client);
        // What a client sent before it went away is read by the server all the same.
        let _ = tokio::join!(there, back);
    }
}

async fn pass(
    mut still: watch::Receiver<bool>,
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = from.read(&mut piece).await?;
        // The sender lives as long as the server.
        if still.wait_for(|still| !still).await.is_err() {
            return Ok(());
        }
        match length {
            0 => return to.shutdown().await,
            _ => to.write_all(&piece[..length]).await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn what_is_sent_meanwhile_is_read_later() {
        let (mut client, near) = tokio::io::duplex(64);
        let (far, mut server) = tokio::io::duplex(64);
        let freezer = Freezer::new();
        tokio::spawn(freezer.clone().between(near, far));
        let mut bytes = [0; 4];
        client.write_all(b"ping").await.expect("written");
        server.read_exact(&mut bytes).await.expect("read");
        freezer.set(true);
        client.write_all(b"late").await.expect("written");
        assert!(timeout(Duration::from_secs(60), server.read_exact(&mut bytes)).await.is_err());
        drop(client);
        freezer.set(false);
        server.read_exact(&mut bytes).await.expect("read");
        assert_eq!((&bytes, server.read(&mut [0; 4]).await.ok()), (b"late", Some(0)));
    }
}
