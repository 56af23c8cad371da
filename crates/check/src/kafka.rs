//! Consumer settings: in every place and spelling in which Spring Boot and Spring Cloud Stream read them (facts D7, report R67).

use crate::build::{Version, Versions};
use crate::service::Unbound;
use crate::setting::{Setting, Source};
use crate::spring::duration::{Unit, parse_ms};
use crate::spring::{Origin, Properties, Property};

/// Kafka's names that are looked at for misspellings.
const NAMES: &[&str] = &[
    "max.poll.records",
    "max.poll.interval.ms",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "enable.auto.commit",
    "group.instance.id",
    "partition.assignment.strategy",
    "delivery.timeout.ms",
];

/// A consumer property of Kafka.
#[derive(Debug, Clone, Copy)]
struct Known {
    name: &'static str,
    /// The key of its own that Spring Boot has for it below `spring.kafka.consumer`.
    own: Option<&'static str>,
    is_duration: bool,
    default: u64,
}

const MAX_POLL_RECORDS: Known =
    Known { name: "max.poll.records", own: Some("max-poll-records"), is_duration: false, default: 500 };
const MAX_POLL_INTERVAL: Known =
    Known { name: "max.poll.interval.ms", own: Some("max-poll-interval"), is_duration: true, default: 300_000 };

const HEARTBEAT_INTERVAL: Known =
    Known { name: "heartbeat.interval.ms", own: Some("heartbeat-interval"), is_duration: true, default: 3_000 };
const SESSION_TIMEOUT: Known = Known { name: "session.timeout.ms", own: None, is_duration: false, default: 45_000 };

/// Where a property's value comes from.
pub fn source(origin: &Origin) -> Source {
    match origin {
        Origin::File { value, .. } => Source::File(crate::connect::inside_quotes(value)),
        Origin::Argument => Source::Argument("--set".to_owned()),
        Origin::Environment(name) => Source::Environment(name.clone()),
    }
}

/// The value of a property as a number.
pub fn number(properties: &Properties, property: &Property, is_duration: bool) -> Setting<u64> {
    let resolved = properties.resolve(property);
    let source = source(&property.origin);
    let place = source.place().cloned();
    let Some(text) = resolved.known() else {
        return Setting::unknown(format!("nothing says what {} is", resolved.unknown.join(", ")), place);
    };
    let value = match is_duration {
        true => parse_ms(text, Unit::Millis).and_then(|ms| u64::try_from(ms).ok()),
        false => text.trim().replace('_', "").parse().ok(),
    };
    match value {
        Some(value) => Setting::new(value, source),
        None => Setting::unknown(format!("{} has a value that is no number", property.key), place),
    }
}

/// `max.poll.records` and `max.poll.interval.ms` of listeners, or of one binding of Spring Cloud Stream.
pub fn poll_settings(
    properties: Option<&Properties>,
    versions: &Versions,
    binding: Option<&str>,
) -> (Setting<u64>, Setting<u64>) {
    let of = |known| poll_setting(properties, versions, binding, known);
    (of(MAX_POLL_RECORDS), of(MAX_POLL_INTERVAL))
}

/// `heartbeat.interval.ms` and `session.timeout.ms` of listeners. Kafka's clients before 3.0 had a session of 10 s. `None`:
/// with `group.protocol=consumer` the broker says both.
pub fn heartbeat_settings(properties: &Properties, versions: &Versions) -> Option<(Setting<u64>, Setting<u64>)> {
    let maps = ["spring.kafka.consumer.properties", "spring.kafka.properties"];
    let mut protocols =
        maps.iter().flat_map(|prefix| properties.map(prefix)).filter(|(key, _)| key == "group.protocol");
    if protocols.any(|(_, property)| property.value.trim().eq_ignore_ascii_case("consumer")) {
        return None;
    }
    let is_old = versions.kafka_clients.as_ref().is_some_and(|known| !known.version.at_least([3, 0, 0]));
    let session = Known { default: if is_old { 10_000 } else { SESSION_TIMEOUT.default }, ..SESSION_TIMEOUT };
    let of = |known| poll_setting(Some(properties), versions, None, known);
    Some((of(HEARTBEAT_INTERVAL), of(session)))
}

fn poll_setting(
    properties: Option<&Properties>,
    versions: &Versions,
    binding: Option<&str>,
    known: Known,
) -> Setting<u64> {
    let version =
        versions.kafka_clients.as_ref().map_or("Kafka".to_owned(), |known| format!("Kafka {}", known.version));
    let default = Setting::default_of(known.default, version);
    let Some(properties) = properties else { return default };
    let in_map = |prefix: &str| {
        let entries = properties.map(prefix);
        entries.into_iter().rev().find(|(key, _)| key == known.name).map(|(_, property)| property)
    };
    if let Some(binding) = binding {
        let prefixes = [
            format!("spring.cloud.stream.kafka.bindings.{binding}.consumer.configuration"),
            "spring.cloud.stream.kafka.default.consumer.configuration".to_owned(),
            "spring.cloud.stream.kafka.binder.consumer-properties".to_owned(),
            "spring.cloud.stream.kafka.binder.configuration".to_owned(),
        ];
        if let Some(property) = prefixes.iter().find_map(|prefix| in_map(prefix)) {
            return number(properties, property, false);
        }
    }
    if let Some(property) = in_map("spring.kafka.consumer.properties") {
        return number(properties, property, false);
    }
    let own = known.own.filter(|own| *own != "max-poll-interval" || has_poll_interval_key(versions));
    if let Some(property) = own.and_then(|own| properties.get(&format!("spring.kafka.consumer.{own}"))) {
        return number(properties, property, known.is_duration);
    }
    match in_map("spring.kafka.properties") {
        Some(property) => number(properties, property, false),
        None => default,
    }
}

/// Spring Boot 3.5 has `spring.kafka.consumer.max-poll-interval`.
fn has_poll_interval_key(versions: &Versions) -> bool {
    versions.boot.as_ref().is_none_or(|boot| boot.version.at_least([3, 5, 0]))
}

/// What publishing a dead letter may take: `delivery.timeout.ms` and 5 s, at least 30 s (facts D3).
pub fn dead_letter_wait_ms(properties: Option<&Properties>) -> u64 {
    let timeout_ms = properties.and_then(|properties| {
        ["spring.kafka.producer.properties", "spring.kafka.properties"].iter().find_map(|prefix| {
            let entries = properties.map(prefix);
            let (_, property) = entries.into_iter().find(|(key, _)| key == "delivery.timeout.ms")?;
            number(properties, property, false).value
        })
    });
    (timeout_ms.unwrap_or(120_000).saturating_add(5_000)).max(30_000)
}

/// Children of `spring.data.mongodb` that Spring Boot 4 reads below `spring.mongodb` (facts D7).
const MOVED: &[&str] = &[
    "uri",
    "host",
    "port",
    "database",
    "username",
    "password",
    "authenticationdatabase",
    "additionalhosts",
    "replicasetname",
    "protocol",
    "ssl",
];

/// Properties that look as if they did something, and do not.
pub fn unbound(properties: &Properties, boot: Option<&Version>) -> Vec<Unbound> {
    let mut found = Vec::new();
    let is_4 = boot.is_some_and(|boot| boot.at_least([4, 0, 0]));
    for property in properties.iter() {
        let canonical = property.key.canonical();
        let place = match &property.origin {
            Origin::File { key, .. } => Some(key.clone()),
            Origin::Argument | Origin::Environment(_) => None,
        };
        let mut add = |is_renamed: bool, message: String, fix: String| {
            found.push(Unbound { is_renamed, message, fix, place: place.clone() });
        };
        if let Some(rest) = canonical.strip_prefix("spring.data.mongodb.")
            && MOVED.contains(&rest.split('.').next().unwrap_or_default())
            && let (true, Some(boot)) = (is_4, boot)
        {
            let key = property.key.to_string();
            let name = key.rsplit_once("mongodb.").map_or(rest, |(_, name)| name);
            add(
                true,
                format!("Spring Boot {boot} does not bind {key}: the service uses mongodb://localhost/test instead"),
                format!("spring.mongodb.{name}"),
            );
        }
        if let Some(rest) = canonical.strip_prefix("spring.mongodb.")
            && MOVED.contains(&rest.split('.').next().unwrap_or_default())
            && let (false, Some(boot)) = (is_4, boot)
        {
            add(
                true,
                format!("Spring Boot {boot} does not bind {}; Spring Boot 4 does", property.key),
                format!("spring.data.mongodb.{rest}"),
            );
        }
        if let Some(rest) = canonical.strip_prefix("spring.kafka.consumer.")
            && !rest.starts_with("properties.")
        {
            let plain = plain(rest);
            if plain == "maxpollintervalms" {
                let fix = own_or_property(boot);
                add(false, format!("Spring Boot has no key {}; it is not bound", property.key), fix);
            } else if plain == "maxpollinterval" && boot.is_some_and(|boot| !boot.at_least([3, 5, 0])) {
                let boot = boot.map(Version::to_string).unwrap_or_default();
                add(
                    false,
                    format!("Spring Boot {boot} has no key {}; it came with 3.5", property.key),
                    "spring.kafka.consumer.properties.max.poll.interval.ms".to_owned(),
                );
            } else if plain == "maxpollrecords" && rest.contains('.') {
                add(
                    false,
                    format!("{} is not bound", property.key),
                    "spring.kafka.consumer.max-poll-records".to_owned(),
                );
            }
        }
    }
    let mut maps = vec!["spring.kafka.consumer.properties".to_owned(), "spring.kafka.properties".to_owned()];
    maps.push("spring.cloud.stream.kafka.binder.consumer-properties".to_owned());
    maps.push("spring.cloud.stream.kafka.binder.configuration".to_owned());
    for binding in properties.children("spring.cloud.stream.kafka.bindings") {
        maps.push(format!("spring.cloud.stream.kafka.bindings.{binding}.consumer.configuration"));
    }
    for prefix in maps {
        for (key, property) in properties.map(&prefix) {
            let known = NAMES.iter().find(|name| plain(name) == plain(&key) && **name != key);
            if let (Some(name), Origin::File { key: place, .. }) = (known, &property.origin) {
                found.push(Unbound {
                    is_renamed: false,
                    message: format!(
                        "below {prefix} only Kafka's own names count; '{key}' is handed to Kafka as it is, and ignored"
                    ),
                    fix: format!("{prefix}.{name}"),
                    place: Some(place.clone()),
                });
            }
        }
    }
    found
}

fn own_or_property(boot: Option<&Version>) -> String {
    match boot.is_some_and(|boot| boot.at_least([3, 5, 0])) {
        true => "spring.kafka.consumer.max-poll-interval".to_owned(),
        false => "spring.kafka.consumer.properties.max.poll.interval.ms".to_owned(),
    }
}

fn plain(name: &str) -> String {
    name.replace(['.', '-', '_'], "").to_lowercase()
}
