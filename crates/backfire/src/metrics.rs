//! What is measured, for Prometheus: an answer to every HTTP request on an address.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// How long a request may take to come.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest request that is read; nothing of it matters.
const MAX_REQUEST_BYTES: usize = 8 * 1024;

/// How often what was measured is folded into what is shown, also when nobody asks.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Installs the recorder and listens.
///
/// # Errors
/// The address cannot be listened on, or there is a recorder already.
pub async fn listen(address: SocketAddr) -> Result<(TcpListener, PrometheusHandle), String> {
    let listener = TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {address}: {error}"))?;
    let handle = PrometheusBuilder::new().install_recorder().map_err(|error| error.to_string())?;
    Ok((listener, handle))
}

/// Answers one request after the other, for ever.
pub async fn serve(listener: TcpListener, handle: PrometheusHandle) {
    loop {
        match timeout(UPKEEP_EVERY, listener.accept()).await {
            Ok(Ok((stream, _))) => {
                // Who does not ask, or reads no answer, is not waited for.
                let _ = timeout(REQUEST_TIMEOUT, answer(stream, &handle)).await;
            }
            Ok(Err(error)) => {
                tracing::warn!("metrics: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(_) => {}
        }
        handle.run_upkeep();
    }
}

async fn answer(mut stream: TcpStream, handle: &PrometheusHandle) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST_BYTES {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let body = handle.render();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
