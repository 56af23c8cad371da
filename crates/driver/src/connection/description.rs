//! What a server says about itself in its answer to `hello`.

use bson::oid::ObjectId;
use bson::{Bson, Document};

use backfire_wire::Compressor;

use crate::error::reply::number;
use crate::settings::{ServerAddress, TagSet};

/// What kind of member answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerType {
    /// Not reached yet, or not any more.
    Unknown,
    /// A mongod outside of a replica set.
    Standalone,
    /// A mongos.
    Mongos,
    /// The primary of a replica set.
    RsPrimary,
    /// A secondary.
    RsSecondary,
    /// An arbiter: holds no data.
    RsArbiter,
    /// A member in another state, or a hidden one.
    RsOther,
    /// A member without a configuration.
    RsGhost,
}

impl ServerType {
    /// Whether it can execute commands on data.
    pub fn holds_data(self) -> bool {
        matches!(self, Self::Standalone | Self::Mongos | Self::RsPrimary | Self::RsSecondary)
    }
}

/// `topologyVersion`: how new a server's statement about itself is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopologyVersion {
    /// The server process.
    pub process_id: ObjectId,
    /// Goes up with every change that the process sees.
    pub counter: i64,
}

impl TopologyVersion {
    /// Reads `{processId, counter}`.
    pub fn from_document(document: &Document) -> Option<Self> {
        Some(Self { process_id: document.get_object_id("processId").ok()?, counter: number(document, "counter")? })
    }

    /// As it is sent with an awaitable `hello`.
    pub fn to_document(self) -> Document {
        bson::doc! {"processId": self.process_id, "counter": self.counter}
    }

    /// Whether a statement of version `other` says nothing new against one of this version. Versions of two processes
    /// cannot be compared: then the other one counts.
    pub fn is_as_new_as(self, other: Self) -> bool {
        self.process_id == other.process_id && self.counter >= other.counter
    }

    /// Whether this version is newer than `other`.
    pub fn is_newer_than(self, other: Self) -> bool {
        self.process_id == other.process_id && self.counter > other.counter
    }
}

/// The fields of a `hello` reply that a driver uses.
#[derive(Debug, Clone, PartialEq)]
pub struct HelloReply {
    /// The kind of member.
    pub server_type: ServerType,
    /// `setName`.
    pub set_name: Option<String>,
    /// `setVersion`.
    pub set_version: Option<i64>,
    /// `electionId`.
    pub election_id: Option<ObjectId>,
    /// `hosts`, `passives` and `arbiters` together.
    pub members: Vec<ServerAddress>,
    /// `me`.
    pub me: Option<ServerAddress>,
    /// `primary`.
    pub primary: Option<ServerAddress>,
    /// `tags`.
    pub tags: TagSet,
    /// `lastWrite.lastWriteDate`, in milliseconds of the server's clock.
    pub last_write_ms: Option<i64>,
    /// `minWireVersion`.
    pub min_wire_version: i32,
    /// `maxWireVersion`.
    pub max_wire_version: i32,
    /// `logicalSessionTimeoutMinutes`; `None` where there are no sessions.
    pub session_timeout_minutes: Option<i64>,
    /// `topologyVersion`.
    pub topology_version: Option<TopologyVersion>,
    /// `helloOk`: the server knows `hello`.
    pub hello_ok: bool,
    /// `maxBsonObjectSize` in bytes.
    pub max_document_size_bytes: usize,
    /// `maxMessageSizeBytes`.
    pub max_message_size_bytes: usize,
    /// `maxWriteBatchSize`.
    pub max_write_batch_size: usize,
    /// `connectionId`: the server's number for the connection.
    pub connection_id: Option<i64>,
    /// The compressors that the server accepts, in its order.
    pub compressors: Vec<Compressor>,
}

/// What a server that states no limits has (facts/client.md A5).
const DEFAULT_MAX_DOCUMENT_SIZE_BYTES: usize = 16 * 1024 * 1024;
const DEFAULT_MAX_MESSAGE_SIZE_BYTES: usize = 32 * 1024 * 1024;
const DEFAULT_MAX_WRITE_BATCH_SIZE: usize = 512;

impl HelloReply {
    /// Reads a reply with `ok: 1`. Fields of a wrong type count as absent.
    pub fn from_document(reply: &Document) -> Self {
        let flag = |name: &str| reply.get_bool(name).unwrap_or(false);
        let text = |name: &str| reply.get_str(name).ok();
        let size = |name: &str, default: usize| {
            number(reply, name).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0).unwrap_or(default)
        };
        let wire_version = |name: &str| number(reply, name).and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
        let address = |name: &str| text(name).and_then(|text| text.parse().ok());
        let members = ["hosts", "passives", "arbiters"]
            .into_iter()
            .filter_map(|name| reply.get_array(name).ok())
            .flatten()
            .filter_map(|host| host.as_str()?.parse().ok())
            .collect();
        let tags = reply.get_document("tags").map_or_else(
            |_| TagSet::new(),
            |tags| tags.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        );
        let last_write =
            reply.get_document("lastWrite").ok().and_then(|write| write.get_datetime("lastWriteDate").ok());
        let compressors = reply.get_array("compression").into_iter().flatten();
        Self {
            server_type: Self::server_type(reply),
            set_name: text("setName").map(str::to_owned),
            set_version: number(reply, "setVersion"),
            election_id: reply.get_object_id("electionId").ok(),
            members,
            me: address("me"),
            primary: address("primary"),
            tags,
            last_write_ms: last_write.map(|date| date.timestamp_millis()),
            min_wire_version: wire_version("minWireVersion"),
            max_wire_version: wire_version("maxWireVersion"),
            session_timeout_minutes: number(reply, "logicalSessionTimeoutMinutes"),
            topology_version: reply.get_document("topologyVersion").ok().and_then(TopologyVersion::from_document),
            hello_ok: flag("helloOk"),
            max_document_size_bytes: size("maxBsonObjectSize", DEFAULT_MAX_DOCUMENT_SIZE_BYTES),
            max_message_size_bytes: size("maxMessageSizeBytes", DEFAULT_MAX_MESSAGE_SIZE_BYTES),
            max_write_batch_size: size("maxWriteBatchSize", DEFAULT_MAX_WRITE_BATCH_SIZE),
            connection_id: number(reply, "connectionId"),
            compressors: compressors.filter_map(|name| Compressor::from_name(name.as_str()?)).collect(),
        }
    }

    fn server_type(reply: &Document) -> ServerType {
        let flag = |name: &str| reply.get_bool(name).unwrap_or(false);
        if flag("isreplicaset") {
            ServerType::RsGhost
        } else if reply.contains_key("setName") {
            if flag("hidden") {
                ServerType::RsOther
            } else if flag("isWritablePrimary") || flag("ismaster") {
                ServerType::RsPrimary
            } else if flag("secondary") {
                ServerType::RsSecondary
            } else if flag("arbiterOnly") {
                ServerType::RsArbiter
            } else {
                ServerType::RsOther
            }
        } else if reply.get("msg").and_then(Bson::as_str) == Some("isdbgrid") {
            ServerType::Mongos
        } else {
            ServerType::Standalone
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn server_types_are_told_apart() {
        for (reply, expected) in [
            (doc! {"isreplicaset": true}, ServerType::RsGhost),
            (doc! {"setName": "rs", "ismaster": true}, ServerType::RsPrimary),
            (doc! {"setName": "rs", "isWritablePrimary": true}, ServerType::RsPrimary),
            (doc! {"setName": "rs", "secondary": true}, ServerType::RsSecondary),
            (doc! {"setName": "rs", "secondary": true, "hidden": true}, ServerType::RsOther),
            (doc! {"setName": "rs", "arbiterOnly": true}, ServerType::RsArbiter),
            (doc! {"setName": "rs"}, ServerType::RsOther),
            (doc! {"ismaster": true, "msg": "isdbgrid"}, ServerType::Mongos),
            (doc! {"ismaster": true}, ServerType::Standalone),
        ] {
            assert_eq!(HelloReply::from_document(&reply).server_type, expected, "{reply}");
        }
    }

    #[test]
    fn topology_versions_compare_within_a_process_only() {
        let version =
            |process: u8, counter| TopologyVersion { process_id: ObjectId::from_bytes([process; 12]), counter };
        for (own, other, as_new, newer) in [
            (version(1, 2), version(1, 1), true, true),
            (version(1, 2), version(1, 2), true, false),
            (version(1, 1), version(1, 2), false, false),
            (version(1, 9), version(2, 0), false, false),
        ] {
            assert_eq!((own.is_as_new_as(other), own.is_newer_than(other)), (as_new, newer), "{own:?} {other:?}");
        }
    }
}
