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
