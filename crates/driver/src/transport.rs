//! How bytes get to a server: TCP, or whatever the caller gives.

use std::io;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::settings::ServerAddress;

/// A byte stream in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens streams to servers. A TLS layer, or a pipe in memory, is another `Connector`.
pub trait Connector: Send + Sync + 'static {
    /// Opens a stream to `address`. The caller limits the time; the future may be dropped at any moment.
    fn connect(&self, address: &ServerAddress) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;
}

/// Plain TCP with `TCP_NODELAY`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect(&self, address: &ServerAddress) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let target = (address.host().to_owned(), address.port());
        Box::pin(async move {
            let stream = TcpStream::connect(target).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn tcp_reaches_a_listener_and_reports_that_there_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = ServerAddress::new("127.0.0.1", listener.local_addr().unwrap().port());
        let (stream, accepted) = tokio::join!(TcpConnector.connect(&address), listener.accept());
        let (mut stream, (mut peer, _)) = (stream.unwrap(), accepted.unwrap());
        stream.write_all(b"ping").await.unwrap();
        let mut bytes = [0; 4];
        peer.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ping");
        drop((peer, listener));
        assert!(TcpConnector.connect(&address).await.is_err());
    }
}
