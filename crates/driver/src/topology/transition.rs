//! The state machine of server discovery: a topology and one server's new description give the next topology.
//!
//! The rules are those of the SDAM specification
//! (<https://github.com/mongodb/specifications/blob/master/source/server-discovery-and-monitoring/server-discovery-and-monitoring.md#actions>).
//! Nothing here does I/O or reads a clock.

use std::sync::Arc;

use crate::connection::ServerType;
use crate::error::DriverError;
use crate::settings::{ClientSettings, ServerAddress};

use super::description::{ServerDescription, TopologyDescription, TopologyType};

/// From this wire version on, election id counts before set version (MongoDB 6.0).
const WIRE_VERSION_ELECTION_ID_FIRST: i32 = 17;

/// What is known before the settings are looked at: nothing.
pub(crate) fn nothing() -> TopologyDescription {
    TopologyDescription {
        topology_type: TopologyType::Unknown,
        set_name: None,
        max_set_version: None,
        max_election_id: None,
        servers: std::collections::BTreeMap::new(),
    }
}

/// The topology before any answer.
pub(crate) fn initial(settings: &ClientSettings) -> TopologyDescription {
    let topology_type = if settings.is_direct() {
        TopologyType::Single
    } else if settings.replica_set.is_some() {
        TopologyType::ReplicaSetNoPrimary
    } else {
        TopologyType::Unknown
    };
    let unknown = |seed: &ServerAddress| (seed.clone(), Arc::new(ServerDescription::unknown(seed.clone())));
    TopologyDescription {
        topology_type,
        set_name: settings.replica_set.clone(),
        max_set_version: None,
        max_election_id: None,
        servers: settings.seeds.iter().map(unknown).collect(),
    }
}

/// The topology after `server` was described anew. A server that does not belong to the topology changes nothing.
pub(crate) fn next(topology: &TopologyDescription, server: ServerDescription, seeds: usize) -> TopologyDescription {
    let mut next = topology.clone();
    if !next.servers.contains_key(&server.address) {
        return next;
    }
    next.servers.insert(server.address.clone(), Arc::new(server.clone()));
    match (next.topology_type, server.server_type) {
        (TopologyType::Single, _) => next.check_set_name_of_single(&server),
        (TopologyType::Unknown, ServerType::Standalone) => {
            if seeds == 1 {
                next.topology_type = TopologyType::Single;
            } else {
                next.servers.remove(&server.address);
            }
        }
        (TopologyType::Unknown, ServerType::Mongos) => next.topology_type = TopologyType::Sharded,
        (TopologyType::Sharded, ServerType::Unknown | ServerType::Mongos) => {}
        (TopologyType::Sharded, _) => drop(next.servers.remove(&server.address)),
        (
            TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary,
            ServerType::Standalone | ServerType::Mongos,
        ) => {
            next.servers.remove(&server.address);
            next.look_for_primary();
        }
        (_, ServerType::RsPrimary) => next.update_from_primary(&server),
        (
            TopologyType::ReplicaSetWithPrimary,
            ServerType::RsSecondary | ServerType::RsArbiter | ServerType::RsOther,
        ) => {
            next.update_beside_primary(&server);
        }
        (_, ServerType::RsSecondary | ServerType::RsArbiter | ServerType::RsOther) => {
            next.topology_type = TopologyType::ReplicaSetNoPrimary;
            next.update_without_primary(&server);
        }
        (TopologyType::ReplicaSetWithPrimary, ServerType::Unknown | ServerType::RsGhost) => next.look_for_primary(),
        (_, ServerType::Unknown | ServerType::RsGhost) => {}
    }
    next
}

impl TopologyDescription {
    fn mark_unknown(&mut self, address: &ServerAddress, why: &str) {
        let last_update = self.servers.get(address).and_then(|server| server.last_update);
        let error = Some(DriverError::client(why));
        let unknown = ServerDescription { error, last_update, ..ServerDescription::unknown(address.clone()) };
        self.servers.insert(address.clone(), Arc::new(unknown));
    }

    fn check_set_name_of_single(&mut self, server: &ServerDescription) {
        let Some(wanted) = self.set_name.clone() else { return };
        if server.server_type != ServerType::Unknown && server.set_name() != Some(wanted.as_str()) {
            let found = server.set_name().unwrap_or("none");
            self.mark_unknown(
                &server.address,
                &format!("replica set '{wanted}' was asked for, the server's is {found}"),
            );
        }
    }

    fn look_for_primary(&mut self) {
        self.topology_type = match self.primary() {
            Some(_) => TopologyType::ReplicaSetWithPrimary,
            None => TopologyType::ReplicaSetNoPrimary,
        };
    }

    fn add_members(&mut self, server: &ServerDescription) {
        for member in &server.hello.members {
            self.servers.entry(member.clone()).or_insert_with(|| Arc::new(ServerDescription::unknown(member.clone())));
        }
    }

    /// Whether the server calls itself by another name than we do.
    fn is_misnamed(server: &ServerDescription) -> bool {
        server.hello.me.as_ref().is_some_and(|me| *me != server.address)
    }

    fn update_without_primary(&mut self, server: &ServerDescription) {
        if self.set_name.is_none() {
            self.set_name.clone_from(&server.hello.set_name);
        } else if self.set_name != server.hello.set_name {
            self.servers.remove(&server.address);
            return;
        }
        self.add_members(server);
        if Self::is_misnamed(server) {
            self.servers.remove(&server.address);
        }
    }

    fn update_beside_primary(&mut self, server: &ServerDescription) {
        if self.set_name != server.hello.set_name || Self::is_misnamed(server) {
            self.servers.remove(&server.address);
        }
        self.look_for_primary();
    }

    fn update_from_primary(&mut self, server: &ServerDescription) {
        if self.set_name.is_none() {
            self.set_name.clone_from(&server.hello.set_name);
        } else if self.set_name != server.hello.set_name {
            self.servers.remove(&server.address);
            self.look_for_primary();
            return;
        }
        if self.is_stale_primary(server) {
            self.mark_unknown(&server.address, "primary marked stale due to electionId/setVersion mismatch");
            self.look_for_primary();
            return;
        }
        let others: Vec<_> = self
            .servers()
            .filter(|other| other.server_type == ServerType::RsPrimary && other.address != server.address)
            .map(|other| other.address.clone())
            .collect();
        for other in others {
            self.mark_unknown(&other, "primary marked stale due to discovery of newer primary");
        }
        self.add_members(server);
        self.servers.retain(|address, _| server.hello.members.contains(address));
        self.look_for_primary();
    }

    /// Compares the primary's election with the newest that was seen, and remembers the newer one.
    fn is_stale_primary(&mut self, server: &ServerDescription) -> bool {
        let (election_id, set_version) = (server.hello.election_id, server.hello.set_version);
        if server.hello.max_wire_version >= WIRE_VERSION_ELECTION_ID_FIRST {
            if (election_id, set_version) < (self.max_election_id, self.max_set_version) {
                return true;
            }
            (self.max_election_id, self.max_set_version) = (election_id, set_version);
            return false;
        }
        if set_version.is_some() && election_id.is_some() {
            let seen_both = self.max_set_version.is_some() && self.max_election_id.is_some();
            if seen_both && (self.max_set_version, self.max_election_id) > (set_version, election_id) {
                return true;
            }
            self.max_election_id = election_id;
        }
        self.max_set_version = self.max_set_version.max(set_version);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::HelloReply;
    use bson::oid::ObjectId;
    use bson::{Document, doc};
    use std::time::Duration;
    use tokio::time::Instant;

    fn settings(seeds: &str, set: Option<&str>, direct: bool) -> ClientSettings {
        let seeds = seeds.split(',').map(|seed| seed.parse().unwrap());
        let mut settings = ClientSettings::new(seeds.collect::<Vec<ServerAddress>>());
        settings.replica_set = set.map(str::to_owned);
        settings.direct_connection = Some(direct);
        settings
    }

    fn answer(address: &str, reply: Document) -> ServerDescription {
        let hello = HelloReply::from_document(&reply);
        ServerDescription::answered(address.parse().unwrap(), hello, Duration::ZERO, Duration::ZERO, Instant::now())
    }

    fn primary(hosts: &[&str], set: &str, more: Document) -> Document {
        let mut reply = doc! {"ismaster": true, "setName": set, "hosts": hosts.to_vec(), "maxWireVersion": 9};
        reply.extend(more);
        reply
    }

    fn secondary(hosts: &[&str], set: &str) -> Document {
        doc! {"secondary": true, "setName": set, "hosts": hosts.to_vec(), "maxWireVersion": 9}
    }

    /// Plays answers and shows the topology as text: type, then `address=type` for each server.
    fn check(settings: &ClientSettings, answers: Vec<(&str, Document)>, expected: &str) {
        let mut topology = initial(settings);
        for (address, reply) in answers {
            let server = if reply.is_empty() {
                let gone = DriverError::client("gone");
                ServerDescription::failed(address.parse().unwrap(), gone, None, Instant::now())
            } else {
                answer(address, reply)
            };
            topology = next(&topology, server, settings.seeds.len());
        }
        let servers: Vec<_> = topology.servers().map(|s| format!("{}={:?}", s.address.host(), s.server_type)).collect();
        assert_eq!(format!("{:?} {}", topology.topology_type, servers.join(" ")), expected);
    }

    #[test]
    fn a_replica_set_is_discovered_from_any_member() {
        let hosts = ["a", "b", "c"];
        let from_seed = settings("a", None, false);
        check(
            &from_seed,
            vec![("a", primary(&hosts, "rs", doc! {}))],
            "ReplicaSetWithPrimary a=RsPrimary b=Unknown c=Unknown",
        );
        check(
            &from_seed,
            vec![("a", secondary(&hosts, "rs")), ("b", primary(&["a", "b"], "rs", doc! {}))],
            "ReplicaSetWithPrimary a=RsSecondary b=RsPrimary",
        );
        check(
            &from_seed,
            vec![("a", primary(&hosts, "rs", doc! {})), ("a", doc! {})],
            "ReplicaSetNoPrimary a=Unknown b=Unknown c=Unknown",
        );
    }

    #[test]
    fn servers_that_do_not_belong_are_left_out() {
        let set = settings("a,b", Some("rs"), false);
        let standalone = doc! {"ismaster": true, "maxWireVersion": 9};
        check(&set, vec![("a", standalone.clone())], "ReplicaSetNoPrimary b=Unknown");
        check(&set, vec![("a", primary(&["a"], "other", doc! {}))], "ReplicaSetNoPrimary b=Unknown");
        check(&settings("a,b", None, false), vec![("a", standalone.clone())], "Unknown b=Unknown");
        check(&settings("a", None, false), vec![("a", standalone.clone())], "Single a=Standalone");
        let mongos = doc! {"ismaster": true, "msg": "isdbgrid", "maxWireVersion": 9};
        check(&settings("a,b", None, false), vec![("a", mongos), ("b", standalone)], "Sharded a=Mongos");
    }

    #[test]
    fn a_direct_connection_takes_any_member_of_the_right_set() {
        check(&settings("a", None, true), vec![("a", secondary(&["a", "b"], "rs"))], "Single a=RsSecondary");
        check(&settings("a", Some("x"), true), vec![("a", secondary(&["a"], "rs"))], "Single a=Unknown");
    }

    #[test]
    fn an_older_election_does_not_win() {
        let hosts = ["a", "b"];
        let elected = |n: u8, version: i32| doc! {"electionId": ObjectId::from_bytes([n; 12]), "setVersion": version};
        let set = settings("a,b", Some("rs"), false);
        check(
            &set,
            vec![("a", primary(&hosts, "rs", elected(2, 1))), ("b", primary(&hosts, "rs", elected(1, 1)))],
            "ReplicaSetWithPrimary a=RsPrimary b=Unknown",
        );
        check(
            &set,
            vec![("a", primary(&hosts, "rs", elected(1, 1))), ("b", primary(&hosts, "rs", elected(2, 1)))],
            "ReplicaSetWithPrimary a=Unknown b=RsPrimary",
        );
        // Before 6.0 the set version counts first, since then the election.
        let newer =
            |more: Document| primary(&hosts, "rs", doc! {"maxWireVersion": 17}).into_iter().chain(more).collect();
        check(
            &set,
            vec![("a", primary(&hosts, "rs", elected(1, 2))), ("b", primary(&hosts, "rs", elected(2, 1)))],
            "ReplicaSetWithPrimary a=RsPrimary b=Unknown",
        );
        check(
            &set,
            vec![("a", newer(elected(1, 2))), ("b", newer(elected(2, 1)))],
            "ReplicaSetWithPrimary a=Unknown b=RsPrimary",
        );
    }

    #[test]
    fn a_member_under_another_name_is_replaced_by_its_own() {
        let mut reply = secondary(&["a"], "rs");
        reply.insert("me", "a:27017");
        check(&settings("alias", Some("rs"), false), vec![("alias", reply)], "ReplicaSetNoPrimary a=Unknown");
    }
}
