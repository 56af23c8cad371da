//! What is known of each server and of all of them together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bson::Document;
use bson::oid::ObjectId;
use tokio::time::Instant;

use crate::connection::handshake::incompatibility;
use crate::connection::{HelloReply, ServerType, TopologyVersion};
use crate::error::{DriverError, ErrorKind};
use crate::settings::ServerAddress;

/// What is known of one server.
#[derive(Debug, Clone)]
pub struct ServerDescription {
    pub(crate) address: ServerAddress,
    /// The last good answer; all defaults while the server is unknown.
    pub(crate) hello: HelloReply,
    pub(crate) server_type: ServerType,
    pub(crate) topology_version: Option<TopologyVersion>,
    pub(crate) round_trip: Option<Duration>,
    pub(crate) min_round_trip: Duration,
    pub(crate) last_update: Option<Instant>,
    pub(crate) error: Option<DriverError>,
}

impl ServerDescription {
    /// A server that nothing is known of.
    pub(crate) fn unknown(address: ServerAddress) -> Self {
        Self {
            address,
            hello: HelloReply::from_document(&Document::new()),
            server_type: ServerType::Unknown,
            topology_version: None,
            round_trip: None,
            min_round_trip: Duration::ZERO,
            last_update: None,
            error: None,
        }
    }

    /// A server that is unknown because of an error. `topology_version` is the error's own, if it has one.
    pub(crate) fn failed(
        address: ServerAddress,
        error: DriverError,
        topology_version: Option<TopologyVersion>,
        now: Instant,
    ) -> Self {
        Self { topology_version, error: Some(error), last_update: Some(now), ..Self::unknown(address) }
    }

    /// A server that answered.
    pub(crate) fn answered(
        address: ServerAddress,
        hello: HelloReply,
        round_trip: Duration,
        min_round_trip: Duration,
        now: Instant,
    ) -> Self {
        Self {
            address,
            server_type: hello.server_type,
            topology_version: hello.topology_version,
            hello,
            round_trip: Some(round_trip),
            min_round_trip,
            last_update: Some(now),
            error: None,
        }
    }

    /// The server's address.
    pub fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// What kind of member it is.
    pub fn server_type(&self) -> ServerType {
        self.server_type
    }

    /// `maxWireVersion`; 0 while the server is unknown.
    pub fn max_wire_version(&self) -> i32 {
        self.hello.max_wire_version
    }

    /// The replica set's name, as the server says.
    pub fn set_name(&self) -> Option<&str> {
        self.hello.set_name.as_deref()
    }

    /// The smoothed round-trip time.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// The smallest of the last ten round trips; zero before there are two.
    pub fn min_round_trip(&self) -> Duration {
        self.min_round_trip
    }

    /// Why it is unknown.
    pub fn error(&self) -> Option<&DriverError> {
        self.error.as_ref()
    }

    /// Whether both say the same, measurements aside: then no event is due.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let error = |description: &Self| description.error.as_ref().map(ToString::to_string);
        let hello = HelloReply {
            // Not about the server's state.
            last_write_ms: other.hello.last_write_ms,
            connection_id: other.hello.connection_id,
            ..self.hello.clone()
        };
        self.server_type == other.server_type
            && self.topology_version == other.topology_version
            && hello == other.hello
            && error(self) == error(other)
    }
}

/// How the servers belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyType {
    /// One server, whatever it is.
    Single,
    /// A replica set without a known primary.
    ReplicaSetNoPrimary,
    /// A replica set with its primary.
    ReplicaSetWithPrimary,
    /// Routers of a sharded cluster.
    Sharded,
    /// Not known yet.
    Unknown,
}

/// What is known of all servers.
#[derive(Debug, Clone)]
pub struct TopologyDescription {
    pub(crate) topology_type: TopologyType,
    pub(crate) set_name: Option<String>,
    pub(crate) max_set_version: Option<i64>,
    pub(crate) max_election_id: Option<ObjectId>,
    pub(crate) servers: BTreeMap<ServerAddress, Arc<ServerDescription>>,
}

impl TopologyDescription {
    /// How the servers belong together.
    pub fn topology_type(&self) -> TopologyType {
        self.topology_type
    }

    /// The servers, in the order of their addresses.
    pub fn servers(&self) -> impl Iterator<Item = &ServerDescription> {
        self.servers.values().map(Arc::as_ref)
    }

    /// The server at an address.
    pub fn server(&self, address: &ServerAddress) -> Option<&ServerDescription> {
        self.servers.get(address).map(Arc::as_ref)
    }

    /// The primary, if it is known.
    pub fn primary(&self) -> Option<&ServerDescription> {
        self.servers().find(|server| server.server_type == ServerType::RsPrimary)
    }

    /// `logicalSessionTimeoutMinutes` of the servers with data: the smallest, `None` if one has no sessions or there
    /// is none.
    pub fn session_timeout_minutes(&self) -> Option<i64> {
        let with_data = self.servers().filter(|server| server.server_type.holds_data());
        with_data.map(|server| server.hello.session_timeout_minutes).min().flatten()
    }

    /// Why the driver cannot work with these servers, if it cannot.
    pub(crate) fn incompatibility(&self) -> Option<DriverError> {
        let known = self.servers().filter(|server| server.server_type != ServerType::Unknown);
        let mut reasons = known.filter_map(|server| incompatibility(&server.hello, &server.address));
        reasons.next().map(|why| DriverError::new(ErrorKind::IncompatibleServer(why)))
    }
}

impl fmt::Display for TopologyDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.topology_type)?;
        for (position, server) in self.servers().enumerate() {
            f.write_str(if position == 0 { " of " } else { ", " })?;
            write!(f, "{} {:?}", server.address, server.server_type)?;
            if let Some(error) = &server.error {
                write!(f, " ({error})")?;
            }
        }
        Ok(())
    }
}
