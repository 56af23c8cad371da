//! The lab server of a rehearsal, and how clients reach it.

use std::io;
use std::net::Ipv4Addr;

use backfire_driver::{Client, ClientSettings, Connector, DriverError, Listener, ServerAddress, Stream, TcpConnector};
use backfire_model::connection_string::{ConnectionString, Host};
use backfire_server::{Server, ServerConfig};
use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::rehearse::Transport;

/// How much a pipe in memory holds.
const PIPE_BYTES: usize = 256 * 1024;

/// What a connection string loses, beside its hosts, when it is used for a lab server: one sentence each.
pub fn changes(uri: &ConnectionString) -> Vec<String> {
    let set_name = ServerConfig::new("", 0).set_name;
    let moved = "localhost".parse::<Host>().and_then(|host| uri.moved_to(&host, set_name.as_deref()));
    moved.map(|moved| moved.changes).unwrap_or_default()
}

/// A running lab server.
pub struct Lab {
    server: Server,
    address: ServerAddress,
    connector: LabConnector,
    /// Serves TCP connections, or the housekeeping of a server in memory.
    task: JoinHandle<()>,
}

/// Reaches the lab server.
#[derive(Clone)]
enum LabConnector {
    Tcp(TcpConnector),
    Memory(Server),
}

impl Connector for LabConnector {
    fn connect(&self, address: &ServerAddress) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        match self {
            LabConnector::Tcp(tcp) => tcp.connect(address),
            LabConnector::Memory(server) => {
                let (near, far) = tokio::io::duplex(PIPE_BYTES);
                let server = server.clone();
                tokio::spawn(async move { server.serve(far, "127.0.0.1:1".to_owned()).await });
                Box::pin(std::future::ready(Ok(Box::new(near) as Box<dyn Stream>)))
            }
        }
    }
}

impl Lab {
    /// Starts a server: on a free port of the loopback interface, or in memory.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start(mut config: ServerConfig, transport: Transport) -> io::Result<Self> {
        match transport {
            Transport::Tcp => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                let port = listener.local_addr()?.port();
                config.address = format!("127.0.0.1:{port}");
                let server = Server::new(config);
                let serving = server.clone();
                let task = tokio::spawn(async move {
                    if let Err(error) = serving.run(listener, std::future::pending()).await {
                        tracing::error!(%error, "the lab server cannot take connections any more");
                    }
                });
                let connector = LabConnector::Tcp(TcpConnector);
                Ok(Self { server, address: ServerAddress::new("127.0.0.1", port), connector, task })
            }
            Transport::Memory => {
                config.address = "127.0.0.1:27017".to_owned();
                let server = Server::new(config);
                let task = server.spawn_housekeeping();
                let connector = LabConnector::Memory(server.clone());
                Ok(Self { server, address: ServerAddress::new("127.0.0.1", 27017), connector, task })
            }
        }
    }

    /// The connection string for this server, without what the server does not have; [`changes`] says what that is.
    ///
    /// # Errors
    /// When the result is no valid connection string.
    pub fn uri(&self, uri: &ConnectionString) -> Result<ConnectionString, backfire_model::connection_string::Error> {
        let host: Host = self.address.to_string().parse()?;
        Ok(uri.moved_to(&host, self.server.shared().topology.set_name())?.uri)
    }

    /// A client of this server.
    ///
    /// # Errors
    /// When the settings make no sense.
    pub fn client(&self, uri: &ConnectionString, listener: impl Listener, seed: u64) -> Result<Client, DriverError> {
        let mut settings = ClientSettings::from_connection_string(uri)?;
        settings.seeds = vec![self.address.clone()];
        settings.object_id_epoch_s = (self.server.shared().clock.now_ms() / 1000) as u32;
        Client::connect(settings, self.connector.clone(), listener, seed)
    }

    /// Stops it.
    pub async fn stop(self) {
        self.server.stop().await;
        self.task.abort();
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }
}
