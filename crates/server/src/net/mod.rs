//! Connections: from bytes to requests, and from replies to bytes.
//!
//! Invariant: a connection runs one command at a time, in the order in which they arrive.

pub mod connection;
pub mod limits;
pub mod request;
pub mod tls;

use std::sync::Arc;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpListener;

use crate::server::Shared;

pub use limits::Limits;
pub use request::{Protocol, Request};
pub use tls::Tls;

/// Takes connections until the listener fails for good. Each runs in a task of its own.
///
/// # Errors
/// When the listener cannot accept any more.
pub async fn accept(shared: &Arc<Shared>, listener: TcpListener) -> std::io::Result<()> {
    let keep_alive = TcpKeepalive::new().with_time(shared.connections.limits.keep_alive);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_passing(&error) => {
                tracing::warn!(%error, "cannot take a connection; trying again");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        // A reply is one small message: waiting to fill a segment would only delay it.
        let _ = stream.set_nodelay(true);
        // One whose other side has vanished would stay open for good.
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keep_alive);
        tokio::spawn(connection::serve(Arc::clone(shared), stream, peer.to_string()));
    }
}

/// Whether an error of `accept` concerns one connection, or a limit that may be lifted again, and not the listener.
fn is_passing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    const TOO_MANY_FILES: [i32; 2] = [23, 24];
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
        || error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code))
}
