//! Options, hosts and scheme that do not go together.
//!
//! Which options exclude or need each other is in their rows ([`super::OPTIONS`]); the rules that look at values
//! are here. Sources: the [URI options specification](https://github.com/mongodb/specifications/blob/master/source/uri-options/uri-options.md)
//! and those it names: initial DNS seedlist discovery, load balancers, SOCKS5, server selection, read and write
//! concern.

use super::Scheme;
use super::diagnostic::{Draft, Part, Problem};
use super::host::HostKind;
use super::options::{DefaultValue, OPTIONS, OptionName};
use super::resolve::Resolved;
use super::value::{Value, W};

/// Every conflict, as errors in `drafts`.
pub(super) fn check(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) {
    rows(resolved, drafts);
    hosts(resolved, drafts);
    srv_max_hosts(resolved, drafts);
    pool_sizes(resolved, drafts);
    read_preference(resolved, drafts);
    write_concern(resolved, drafts);
    lengths(resolved, drafts);
}

fn conflict(resolved: &Resolved<'_>, option: OptionName, message: impl Into<String>) -> Draft {
    Draft::error(Problem::Conflict, Part::OptionName, resolved.span_of(option), message).option(option)
}

/// What the rows say: exclusions, needs, and options for SRV only.
fn rows(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) {
    let mut before: Vec<OptionName> = Vec::new();
    for option in resolved.parts.occurrences.iter().filter_map(|occurrence| occurrence.option) {
        if before.contains(&option) {
            continue;
        }
        let spec = option.spec();
        for other in before.iter().filter(|other| spec.excludes.contains(other)) {
            let message = format!("{} and {other} must not be given together, whatever their values", spec.name);
            drafts.push(conflict(resolved, option, message));
        }
        if spec.srv_only && resolved.parts.scheme == Scheme::Mongodb {
            drafts.push(conflict(resolved, option, format!("{} is for mongodb+srv:// only", spec.name)));
        }
        before.push(option);
    }
    for spec in OPTIONS.iter().filter(|spec| resolved.settings.contains_key(&spec.id)) {
        for needed in spec.needs.iter().filter(|needed| !resolved.settings.contains_key(needed)) {
            drafts.push(conflict(resolved, spec.id, format!("{} needs {needed} too", spec.name)));
        }
    }
}

/// How many hosts and of what kind, by scheme, `directConnection` and `loadBalanced`.
fn hosts(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) {
    let parts = resolved.parts;
    let is_srv = parts.scheme == Scheme::MongodbSrv;
    let on_hosts = |message: &str| Draft::error(Problem::Conflict, Part::Host, parts.hosts_span.clone(), message);
    if is_srv {
        if parts.hosts.len() > 1 {
            drafts.push(on_hosts("mongodb+srv:// takes one host, whose DNS record names the others"));
        }
        if parts.hosts.iter().any(|host| host.port().is_some()) {
            drafts.push(on_hosts("mongodb+srv:// takes no port; the DNS record has it"));
        }
        if parts.hosts.iter().any(|host| host.kind() != HostKind::Hostname) {
            drafts.push(on_hosts("mongodb+srv:// needs a name that DNS can look up, not an address or a socket"));
        }
    }
    let direct = resolved.is_true(OptionName::DirectConnection);
    let balanced = resolved.is_true(OptionName::LoadBalanced);
    if direct && is_srv {
        let message = "directConnection=true does not go with mongodb+srv://, which may name several hosts";
        drafts.push(conflict(resolved, OptionName::DirectConnection, message));
    }
    if direct && parts.hosts.len() > 1 {
        let message = "directConnection=true needs exactly one host";
        drafts.push(conflict(resolved, OptionName::DirectConnection, message));
    }
    if balanced && parts.hosts.len() > 1 {
        drafts.push(conflict(resolved, OptionName::LoadBalanced, "loadBalanced=true needs exactly one host"));
    }
    if balanced && direct {
        let message = "loadBalanced=true and directConnection=true do not go together";
        drafts.push(conflict(resolved, OptionName::LoadBalanced, message));
    }
    if balanced && resolved.settings.contains_key(&OptionName::ReplicaSet) {
        let message = "loadBalanced=true and replicaSet do not go together";
        drafts.push(conflict(resolved, OptionName::LoadBalanced, message));
    }
}

fn srv_max_hosts(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) {
    if resolved.int(OptionName::SrvMaxHosts).is_none_or(|hosts| hosts == 0) {
        return;
    }
    for other in [OptionName::ReplicaSet, OptionName::LoadBalanced] {
        let is_set = resolved.text(other).is_some() || resolved.is_true(other);
        if is_set {
            let message = format!("srvMaxHosts above 0 and {other} do not go together");
            drafts.push(conflict(resolved, OptionName::SrvMaxHosts, message));
        }
    }
}

fn pool_sizes(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) {
    let size = |option: OptionName| match (resolved.int(option), option.spec().default) {
        (Some(size), _) | (None, DefaultValue::Int(size)) => size,
        (None, _) => 0,
    };
    let (min, max) = (size(OptionName::MinPoolSize), size(OptionName::MaxPoolSize));
    if max != 0 && min > max {
        let message =
            format!("minPoolSize is {min} and maxPoolSize is {max}; the least must not be more than the most");
        drafts.push(conflict(resolved, OptionName::MinPoolSize, message));
    }
}

/// Tags and staleness choose among secondaries, so they need a mode that reads from them.
fn read_preference(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) {
    if resolved.text(OptionName::ReadPreference).is_some_and(|mode| mode != "primary") {
        return;
    }
    let has_tags = match resolved.settings.get(&OptionName::ReadPreferenceTags) {
        Some(Value::TagSets(sets)) => sets.iter().any(|set| !set.is_empty()),
        _ => false,
    };
    let has_staleness = resolved.int(OptionName::MaxStalenessSeconds).is_some_and(|seconds| seconds != -1);
    for (option, is_set) in
        [(OptionName::ReadPreferenceTags, has_tags), (OptionName::MaxStalenessSeconds, has_staleness)]
    {
        if is_set {
            let message = format!("{option} needs a readPreference other than primary");
            drafts.push(conflict(resolved, option, message).help("such as readPreference=secondaryPreferred"));
        }
    }
}

fn write_concern(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) {
    let unacknowledged = resolved.settings.get(&OptionName::W) == Some(&Value::W(W::Nodes(0)));
    if unacknowledged && resolved.is_true(OptionName::Journal) {
        let message = "w=0 asks for no acknowledgement and journal=true for one";
        drafts.push(conflict(resolved, OptionName::Journal, message));
    }
}

/// Limits on texts: the handshake's on `appName`, SOCKS5's on user name and password.
fn lengths(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) {
    let limits = [(OptionName::AppName, 128), (OptionName::ProxyUsername, 255), (OptionName::ProxyPassword, 255)];
    for (option, most) in limits {
        let length = match resolved.settings.get(&option) {
            Some(Value::Text(text)) => text.len(),
            Some(Value::Secret(secret)) => secret.expose().len(),
            _ => 0,
        };
        if length > most {
            let message = format!("{option} is longer than {most} bytes");
            let span = resolved.span_of(option);
            drafts.push(Draft::error(Problem::BadValue, Part::OptionValue, span, message).option(option));
        }
    }
}
