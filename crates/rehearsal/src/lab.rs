//! The lab server of a rehearsal, and how clients reach it.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use backfire_driver::{
    Client, ClientSettings, Connector, DriverError, DriverProfile, Listener, ServerAddress, Stream, TcpConnector,
};
use backfire_model::connection_string::{ConnectionString, Host};
use backfire_model::predict::Gateway;
use backfire_model::scenario::DriverRules;
use backfire_server::{Server, ServerConfig};
use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::freezer::Freezer;
use crate::gateway::{GatewayConnector, Held};
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
    /// How the client that sets up and counts reaches it.
    control: LabConnector,
    connector: LabConnector,
    held: Arc<Held>,
    /// Serves TCP connections, or the housekeeping of a server in memory.
    task: JoinHandle<()>,
}

/// Reaches the lab server.
#[derive(Clone)]
enum LabConnector {
    Tcp(TcpConnector),
    Memory(Server),
    /// The same, where the server may stand still.
    Freezable(Server, Freezer),
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
            LabConnector::Freezable(server, freezer) => {
                let (near, far) = tokio::io::duplex(PIPE_BYTES);
                let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
                let server = server.clone();
                tokio::spawn(async move { server.serve(theirs, "127.0.0.1:1".to_owned()).await });
                tokio::spawn(freezer.clone().between(far, ours));
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
                let address = ServerAddress::new("127.0.0.1", port);
                Ok(Self { server, address, control: connector.clone(), connector, held: Arc::default(), task })
            }
            Transport::Memory => {
                config.address = "127.0.0.1:27017".to_owned();
                let server = Server::new(config);
                let task = server.spawn_housekeeping();
                let connector = LabConnector::Memory(server.clone());
                let address = ServerAddress::new("127.0.0.1", 27017);
                Ok(Self { server, address, control: connector.clone(), connector, held: Arc::default(), task })
            }
        }
    }

    /// Starts a server in memory that may stand still as a whole, but for the client that sets up and counts.
    ///
    /// # Errors
    /// None so far.
    pub(crate) async fn start_freezable(config: ServerConfig) -> io::Result<Self> {
        let lab = Self::start(config, Transport::Memory).await?;
        let connector = LabConnector::Freezable(lab.server.clone(), Freezer::new());
        Ok(Self { connector, ..lab })
    }

    /// What lets it stand still, if it may.
    pub(crate) fn freezer(&self) -> Option<&Freezer> {
        match &self.connector {
            LabConnector::Freezable(_, freezer) => Some(freezer),
            LabConnector::Tcp(_) | LabConnector::Memory(_) => None,
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

    /// A client of this server that reaches it always, by the default rules.
    ///
    /// # Errors
    /// When the settings make no sense.
    pub fn client(&self, uri: &ConnectionString, listener: impl Listener, seed: u64) -> Result<Client, DriverError> {
        Client::connect(self.settings(uri)?, self.control.clone(), listener, seed)
    }

    fn settings(&self, uri: &ConnectionString) -> Result<ClientSettings, DriverError> {
        let mut settings = ClientSettings::from_connection_string(uri)?;
        settings.seeds = vec![self.address.clone()];
        settings.object_id_epoch_s = (self.server.shared().clock.now_ms() / 1000) as u32;
        Ok(settings)
    }

    /// A client of this server that follows these rules, through this gateway.
    ///
    /// # Errors
    /// When the settings make no sense.
    pub fn client_by(
        &self,
        rules: DriverRules,
        gateway: Option<Gateway>,
        uri: &ConnectionString,
        listener: impl Listener,
        seed: u64,
    ) -> Result<Client, DriverError> {
        let mut settings = self.settings(uri)?;
        settings.profile = match rules {
            DriverRules::Java54 => DriverProfile::JAVA_5_4,
            DriverRules::Java514 => DriverProfile::JAVA_5_14,
            DriverRules::Specification => DriverProfile::SPECIFICATION,
            DriverRules::Unbounded => DriverProfile::UNBOUNDED,
        };
        match gateway {
            None => Client::connect(settings, self.connector.clone(), listener, seed),
            Some(gateway) => {
                let held = Arc::clone(&self.held);
                Client::connect(settings, GatewayConnector::new(gateway, self.connector.clone(), held), listener, seed)
            }
        }
    }

    /// The writes that gateways in front of it hold.
    pub(crate) fn held(&self) -> &Held {
        &self.held
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
