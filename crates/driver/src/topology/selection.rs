//! Which servers suit an operation.
//!
//! The rules are those of the server selection specification
//! (<https://github.com/mongodb/specifications/blob/master/source/server-selection/server-selection.md>).

use std::time::Duration;

use tokio::time::Instant;

use crate::connection::ServerType;
use crate::error::{DriverError, Result};
use crate::settings::{ReadMode, ReadPreference, TagSet};

use super::description::{ServerDescription, TopologyDescription, TopologyType};

/// What an operation needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Criteria {
    /// A server that takes writes.
    Writable,
    /// A server that the read preference allows.
    Read(ReadPreference),
    /// As `Read`, but the primary as long as a server is older than this wire version (`$out` and `$merge`).
    ReadOrPrimaryBelow(ReadPreference, i32),
}

/// How servers are compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SelectionRules {
    pub(crate) local_threshold: Duration,
    pub(crate) heartbeat_frequency: Duration,
}

/// The smallest staleness limit that makes sense.
const SMALLEST_MAX_STALENESS: Duration = Duration::from_secs(90);
/// How often an idle primary writes a no-op.
const IDLE_WRITE_PERIOD: Duration = Duration::from_secs(10);

/// The suitable servers within the latency window, in the order of their addresses. Empty: wait for a change.
///
/// # Errors
/// When the read preference can suit no server of this topology at any time.
pub(crate) fn suitable<'a>(
    topology: &'a TopologyDescription,
    criteria: &Criteria,
    rules: SelectionRules,
) -> Result<Vec<&'a ServerDescription>> {
    let writable = ReadPreference::default();
    let preference = match criteria {
        Criteria::Writable => &writable,
        Criteria::Read(preference) => preference,
        Criteria::ReadOrPrimaryBelow(preference, wire_version) => {
            let old = topology.servers().any(|s| s.server_type.holds_data() && s.max_wire_version() < *wire_version);
            if old { &writable } else { preference }
        }
    };
    let candidates: Vec<_> = match topology.topology_type {
        TopologyType::Unknown => Vec::new(),
        TopologyType::Single => topology.servers().filter(|s| s.server_type != ServerType::Unknown).collect(),
        TopologyType::Sharded => topology.servers().filter(|s| s.server_type == ServerType::Mongos).collect(),
        TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary => {
            by_preference(topology, preference, rules)?
        }
    };
    Ok(within_latency_window(candidates, rules.local_threshold))
}

fn by_preference<'a>(
    topology: &'a TopologyDescription,
    preference: &ReadPreference,
    rules: SelectionRules,
) -> Result<Vec<&'a ServerDescription>> {
    if let Some(staleness) = preference.max_staleness {
        let least = SMALLEST_MAX_STALENESS.max(rules.heartbeat_frequency.saturating_add(IDLE_WRITE_PERIOD));
        if staleness < least {
            return Err(DriverError::invalid_argument(format!(
                "maxStalenessSeconds must be at least {} here, not {}",
                least.as_secs(),
                staleness.as_secs()
            )));
        }
    }
    let primary = || topology.primary().into_iter().collect::<Vec<_>>();
    let members = |kinds: &[ServerType]| {
        let of_kind = topology.servers().filter(|server| kinds.contains(&server.server_type));
        let fresh = of_kind.filter(|server| is_fresh(topology, server, preference.max_staleness, rules)).collect();
        by_tags(fresh, &preference.tag_sets)
    };
    let or = |first: Vec<&'a ServerDescription>, second: &dyn Fn() -> Vec<&'a ServerDescription>| {
        if first.is_empty() { second() } else { first }
    };
    let secondaries = || members(&[ServerType::RsSecondary]);
    Ok(match preference.mode {
        ReadMode::Primary => primary(),
        ReadMode::PrimaryPreferred => or(primary(), &secondaries),
        ReadMode::Secondary => secondaries(),
        ReadMode::SecondaryPreferred => or(secondaries(), &primary),
        ReadMode::Nearest => members(&[ServerType::RsPrimary, ServerType::RsSecondary]),
    })
}

/// The members that match the first tag set that any member matches.
fn by_tags<'a>(members: Vec<&'a ServerDescription>, tag_sets: &[TagSet]) -> Vec<&'a ServerDescription> {
    if tag_sets.is_empty() {
        return members;
    }
    let matches = |server: &ServerDescription, set: &TagSet| {
        set.iter().all(|(name, value)| server.hello.tags.get(name) == Some(value))
    };
    let mut matching =
        tag_sets.iter().map(|set| members.iter().copied().filter(|server| matches(server, set)).collect::<Vec<_>>());
    matching.find(|found| !found.is_empty()).unwrap_or_default()
}

/// How far a secondary lags, estimated from the last writes as the servers tell them with each heartbeat.
fn staleness_ms(topology: &TopologyDescription, server: &ServerDescription, rules: SelectionRules) -> i64 {
    let heartbeat_ms = millis(rules.heartbeat_frequency);
    let last_write = |server: &ServerDescription| server.hello.last_write_ms.unwrap_or(0);
    match topology.primary() {
        Some(primary) => {
            let updated_later_ms = signed_millis_between(primary.last_update, server.last_update);
            let behind_ms = last_write(primary).saturating_sub(last_write(server));
            updated_later_ms.saturating_add(behind_ms).saturating_add(heartbeat_ms)
        }
        None => {
            let secondaries = topology.servers().filter(|server| server.server_type == ServerType::RsSecondary);
            let newest = secondaries.map(last_write).max().unwrap_or(0);
            newest.saturating_sub(last_write(server)).saturating_add(heartbeat_ms)
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn signed_millis_between(from: Option<Instant>, to: Option<Instant>) -> i64 {
    match (from, to) {
        (Some(from), Some(to)) if to >= from => millis(to - from),
        (Some(from), Some(to)) => -millis(from - to),
        _ => 0,
    }
}

fn is_fresh(
    topology: &TopologyDescription,
    server: &ServerDescription,
    limit: Option<Duration>,
    rules: SelectionRules,
) -> bool {
    server.server_type == ServerType::RsPrimary
        || limit.is_none_or(|limit| staleness_ms(topology, server, rules) <= millis(limit))
}

fn within_latency_window(candidates: Vec<&ServerDescription>, threshold: Duration) -> Vec<&ServerDescription> {
    let round_trip = |server: &ServerDescription| server.round_trip.unwrap_or(Duration::ZERO);
    let Some(nearest) = candidates.iter().map(|server| round_trip(server)).min() else { return candidates };
    candidates.into_iter().filter(|server| round_trip(server) <= nearest.saturating_add(threshold)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::HelloReply;
    use crate::settings::{ClientSettings, ServerAddress};
    use crate::topology::transition;
    use bson::doc;

    const RULES: SelectionRules =
        SelectionRules { local_threshold: Duration::from_millis(15), heartbeat_frequency: Duration::from_secs(10) };

    /// `a` is the primary (20 ms away), `b` (5 ms, dc x) and `c` (10 ms, dc y, 120 s behind) are secondaries.
    fn set(with_primary: bool) -> TopologyDescription {
        let seeds = ["a", "b", "c"].map(|host| ServerAddress::new(host, 27017));
        let settings = ClientSettings { replica_set: Some("rs".into()), ..ClientSettings::new(seeds) };
        let mut topology = transition::initial(&settings);
        let now = Instant::now();
        for (host, rtt_ms, kind, dc, write_s) in
            [("b", 5, "secondary", "x", 1000), ("c", 10, "secondary", "y", 880), ("a", 20, "ismaster", "x", 1000)]
        {
            if host == "a" && !with_primary {
                continue;
            }
            let reply = doc! {kind: true, "setName": "rs", "hosts": ["a", "b", "c"], "tags": {"dc": dc}, "maxWireVersion": 9,
            "lastWrite": {"lastWriteDate": bson::DateTime::from_millis(write_s * 1000)}};
            let round_trip = Duration::from_millis(rtt_ms);
            let hello = HelloReply::from_document(&reply);
            let server =
                ServerDescription::answered(ServerAddress::new(host, 27017), hello, round_trip, Duration::ZERO, now);
            topology = transition::next(&topology, server, 3);
        }
        topology
    }

    fn hosts(topology: &TopologyDescription, criteria: &Criteria) -> String {
        let found = suitable(topology, criteria, RULES).unwrap();
        found.iter().map(|server| server.address.host()).collect::<Vec<_>>().join("")
    }

    #[test]
    fn each_mode_selects_its_members() {
        use ReadMode::*;
        for (mode, with_primary, without) in [
            (Primary, "a", ""),
            (PrimaryPreferred, "a", "bc"),
            (Secondary, "bc", "bc"),
            (SecondaryPreferred, "bc", "bc"),
            (Nearest, "abc", "bc"),
        ] {
            let criteria = Criteria::Read(ReadPreference::mode(mode));
            assert_eq!(
                (hosts(&set(true), &criteria), hosts(&set(false), &criteria)),
                (with_primary.into(), without.into())
            );
        }
        assert_eq!(hosts(&set(true), &Criteria::Writable), "a");
        let secondary = ReadPreference::mode(Secondary);
        assert_eq!(hosts(&set(true), &Criteria::ReadOrPrimaryBelow(secondary.clone(), 13)), "a");
        assert_eq!(hosts(&set(true), &Criteria::ReadOrPrimaryBelow(secondary, 9)), "bc");
    }

    #[test]
    fn tags_and_staleness_narrow_the_choice() {
        let tag = |dc: &str| TagSet::from([("dc".to_owned(), dc.to_owned())]);
        let with = |tag_sets, max_staleness| {
            Criteria::Read(ReadPreference { mode: ReadMode::Secondary, tag_sets, max_staleness })
        };
        for (tags, seconds, expected) in [
            (vec![tag("y")], None, "c"),
            (vec![tag("z"), tag("x")], None, "b"),
            (vec![tag("z")], None, ""),
            (vec![], Some(90), "b"),
            (vec![], Some(130), "bc"),
        ] {
            assert_eq!(hosts(&set(true), &with(tags, seconds.map(Duration::from_secs))), expected, "{seconds:?}");
        }
        assert!(suitable(&set(true), &with(vec![], Some(Duration::from_secs(89))), RULES).is_err());
    }

    #[test]
    fn a_far_member_is_left_out() {
        let narrow = SelectionRules { local_threshold: Duration::from_millis(4), ..RULES };
        let nearest = Criteria::Read(ReadPreference::mode(ReadMode::Nearest));
        let topology = set(true);
        let found = suitable(&topology, &nearest, narrow).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].address.host(), "b");
    }
}
