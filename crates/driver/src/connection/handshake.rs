//! Opening a connection, in steps: connect, greet, and, where there are credentials, log in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use bytes::BytesMut;
use tokio::time::{Instant, timeout_at};

use backfire_model::ConnectionId;
use backfire_wire::OpQuery;

use super::command::{encode, encode_message};
use super::{Connection, ConnectionInfo, HelloReply, ReadLimit, RequestIds, ServerType};
use crate::auth::{Authenticator, Exchange};
use crate::error::reply::{command_error, is_ok};
use crate::error::{DriverError, NetworkStage, Result};
use crate::random::Random;
use crate::settings::{ClientSettings, ServerAddress, limit};
use crate::timeout::later;
use crate::transport::Connector;

/// The time that opening may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenLimits {
    /// For the transport's connection: `connectTimeoutMS`, 0 for no limit.
    pub(crate) connect: Duration,
    /// For each reply of the handshake.
    pub(crate) read: ReadLimit,
    /// When the operation that needs the connection gives up, if `timeoutMS` is set.
    pub(crate) deadline: Option<Instant>,
}

/// What a connection is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The application's operations: somebody has to be logged in, where there are credentials.
    Operations,
    /// To watch the server.
    Monitoring,
}

/// Opens connections for one client.
pub(crate) struct Opener {
    settings: Arc<ClientSettings>,
    connector: Arc<dyn Connector>,
    request_ids: Arc<RequestIds>,
    connection_ids: AtomicU64,
    random: Arc<Random>,
    authenticator: Option<Authenticator>,
}

/// A fresh connection and how long its `hello` took.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) round_trip: Duration,
    pub(crate) reply: Document,
}

impl Opener {
    pub(crate) fn new(
        settings: Arc<ClientSettings>,
        connector: Arc<dyn Connector>,
        request_ids: Arc<RequestIds>,
        random: Arc<Random>,
    ) -> Self {
        let authenticator = settings.credential.clone().map(Authenticator::new);
        Self { settings, connector, request_ids, connection_ids: AtomicU64::new(0), random, authenticator }
    }

    pub(crate) fn request_ids(&self) -> &RequestIds {
        &self.request_ids
    }

    /// The number of the next connection.
    pub(crate) fn next_id(&self) -> u64 {
        self.connection_ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Runs all steps.
    ///
    /// # Errors
    /// Network errors, timeouts (as the operation's timeout when its deadline was the limit), a refused `hello`, wire
    /// versions that do not meet, a log-in that fails.
    pub(crate) async fn open(
        &self,
        address: &ServerAddress,
        id: u64,
        limits: OpenLimits,
        purpose: Purpose,
    ) -> Result<Opened> {
        let mut connection = self.connect(address, id, limits).await?;
        let started = Instant::now();
        let mut greeting = self.greeting();
        let authenticator = self.authenticator.as_ref().filter(|_| purpose == Purpose::Operations);
        let speculation = authenticator.and_then(|authenticator| authenticator.speculate(&mut greeting, &self.random));
        let greeted = self.greet(&mut connection, greeting, limits.read).await;
        let reply = greeted.map_err(|error| error.at(address))?;
        let round_trip = started.elapsed();
        // An arbiter has no users.
        if let Some(authenticator) = authenticator.filter(|_| connection.hello.server_type != ServerType::RsArbiter) {
            let mut exchange = Exchange {
                connection: &mut connection,
                settings: &self.settings,
                request_ids: &self.request_ids,
                limit: limits.read,
            };
            let logged_in = authenticator.log_in(&mut exchange, &reply, speculation, &self.random).await;
            logged_in.map_err(|error| error.in_login().at(address))?;
        }
        Ok(Opened { connection, round_trip, reply })
    }

    /// Step 1: the transport.
    async fn connect(&self, address: &ServerAddress, id: u64, limits: OpenLimits) -> Result<Connection> {
        let started = Instant::now();
        let connecting = self.connector.connect(address);
        let own_limit = limit(limits.connect).map(|connect| later(started, connect));
        let by_operation = limits.deadline.filter(|deadline| own_limit.is_none_or(|own_limit| *deadline < own_limit));
        let stream = match by_operation.or(own_limit) {
            None => connecting.await,
            Some(until) => timeout_at(until, connecting).await.map_err(|_| {
                let waited = until.saturating_duration_since(started).as_millis();
                let late = DriverError::network(NetworkStage::Open, format_args!("not connected within {waited} ms"));
                let late = if by_operation.is_some() { late.into_operation_timeout() } else { late };
                late.at(address)
            })?,
        };
        let stream = stream.map_err(|error| DriverError::network(NetworkStage::Open, error).at(address))?;
        Ok(Connection {
            info: ConnectionInfo { address: address.clone(), id, server_id: None },
            stream,
            buffer: BytesMut::new(),
            hello: HelloReply::from_document(&Document::new()),
            compressor: None,
            awaited: 0,
            more_to_come: false,
            broken: false,
        })
    }

    /// Step 2: `hello` in its oldest form, which every server answers, with what the client is and can do.
    async fn greet(&self, connection: &mut Connection, greeting: Document, read: ReadLimit) -> Result<Document> {
        let request_id = self.request_ids.next();
        // With a declared API the server must know `hello`, and takes the declaration in an OP_MSG only.
        let message = if self.settings.server_api.is_some() {
            let mut body = greeting;
            body.insert("$db", "admin");
            encode_message(&body, &[], 0, request_id.0)?
        } else {
            OpQuery::encode_command("admin", &encode(&greeting)?, request_id.0)
        };
        connection.send(message, request_id, false, read).await?;
        let reply = connection.receive(read).await?;
        if !is_ok(&reply) {
            return Err(command_error(reply));
        }
        let hello = HelloReply::from_document(&reply);
        check_wire_versions(&hello, &connection.info.address)?;
        connection.info.server_id = hello.connection_id.map(ConnectionId);
        connection.compressor = hello
            .compressors
            .first()
            .and_then(|chosen| self.settings.compressors.iter().find(|own| own.id() == chosen.id()))
            .copied();
        connection.hello = hello;
        Ok(reply)
    }

    fn greeting(&self) -> Document {
        let name = if self.settings.server_api.is_some() { "hello" } else { "isMaster" };
        let mut greeting = doc! {name: 1, "helloOk": true, "client": self.metadata()};
        if !self.settings.compressors.is_empty() {
            let names: Vec<&str> = self.settings.compressors.iter().map(|compressor| compressor.name()).collect();
            greeting.insert("compression", names);
        }
        if self.settings.profile.client_backpressure {
            greeting.insert("backpressure", true);
        }
        add_server_api(&self.settings, &mut greeting);
        greeting
    }

    fn metadata(&self) -> Document {
        let mut metadata = Document::new();
        if let Some(name) = self.settings.app_name.as_ref().filter(|name| !name.is_empty()) {
            metadata.insert("application", doc! {"name": name});
        }
        metadata.insert("driver", doc! {"name": "backfire-driver", "version": env!("CARGO_PKG_VERSION")});
        metadata.insert("os", doc! {"type": std::env::consts::OS, "architecture": std::env::consts::ARCH});
        metadata.insert("platform", format!("rules of {}", self.settings.profile.name));
        metadata
    }
}

/// Adds the declared API's fields.
pub(crate) fn add_server_api(settings: &ClientSettings, body: &mut Document) {
    if let Some(api) = &settings.server_api {
        body.insert("apiVersion", &api.version);
        if let Some(strict) = api.strict {
            body.insert("apiStrict", strict);
        }
        if let Some(deprecation_errors) = api.deprecation_errors {
            body.insert("apiDeprecationErrors", deprecation_errors);
        }
    }
}

/// The oldest wire version that this driver speaks (3.6: OP_MSG and sessions).
pub(crate) const MIN_WIRE_VERSION: i32 = 6;
/// The newest that it knows (8.2).
pub(crate) const MAX_WIRE_VERSION: i32 = 27;

/// Why driver and server cannot talk; `None` when they can.
pub(crate) fn incompatibility(hello: &HelloReply, address: &ServerAddress) -> Option<String> {
    if hello.server_type == ServerType::RsGhost {
        return None;
    }
    if hello.max_wire_version < MIN_WIRE_VERSION {
        Some(format!(
            "server at {address} reports wire version {}, but this driver requires at least {MIN_WIRE_VERSION} (MongoDB 3.6)",
            hello.max_wire_version
        ))
    } else if hello.min_wire_version > MAX_WIRE_VERSION {
        Some(format!(
            "server at {address} requires wire version {}, but this driver only supports up to {MAX_WIRE_VERSION}",
            hello.min_wire_version
        ))
    } else {
        None
    }
}

fn check_wire_versions(hello: &HelloReply, address: &ServerAddress) -> Result<()> {
    match incompatibility(hello, address) {
        Some(why) => Err(DriverError::new(crate::error::ErrorKind::IncompatibleServer(why))),
        None => Ok(()),
    }
}
