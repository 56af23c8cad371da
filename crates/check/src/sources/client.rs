//! What the sources set on MongoDB clients, over what the connection string says (facts/client.md D7, A3).

use backfire_jvm::{ClientKind, MongoClient, Setting as Found, Value};

use super::Sources;
use super::reader::Reader;
use crate::client::UriText;
use crate::connect;
use crate::kafka;
use crate::service::Client;
use crate::setting::{Setting, Source};

/// The clients whose settings hold. Spring Boot applies customizers to what it makes; it makes nothing where there is a
/// client, or settings, of the application's own.
fn in_force(clients: &[MongoClient]) -> (Option<ClientKind>, Vec<&MongoClient>) {
    let of = |kind: ClientKind| clients.iter().filter(|client| client.kind == kind).collect::<Vec<_>>();
    for kind in [ClientKind::Create, ClientKind::Configuration] {
        let found = of(kind);
        if !found.is_empty() {
            return (Some(kind), found);
        }
    }
    // Settings that are no bean are a part of something.
    let mut settings = of(ClientKind::Settings);
    settings.retain(|client| !client.names.is_empty());
    let kind = if settings.is_empty() { None } else { Some(ClientKind::Settings) };
    settings.extend(of(ClientKind::Customizer));
    (kind, settings)
}

/// The connection string that code gives. The outer `None`: configuration gives it; the inner one: the driver's default.
pub fn uri(sources: &Sources<'_>, reader: &Reader<'_>) -> Option<Option<UriText>> {
    let (kind, clients) = in_force(&sources.analysis.mongo_clients);
    let found: Vec<&Found> = clients.iter().filter_map(|client| client.connection_string.as_ref()).collect();
    let Some(first) = found.first() else {
        // A client of the application's own does not read Spring's configuration.
        return kind.map(|_| None);
    };
    let is_one = found.iter().all(|other| other.value == first.value);
    if let (Value::Property(property), Some(properties), true) = (&first.value, reader.properties(), is_one)
        && let Some(found) = properties.get(&property.key)
    {
        // What is not known of it may be a password only.
        return Some(Some(UriText::resolved(properties.resolve(found), kafka::source(&found.origin))));
    }
    let text = reader.setting(first, "a text", |value| value.as_str().map(str::to_owned));
    Some(Some(match text {
        Setting { value: Some(text), source: Source::File(place) } if is_one => {
            UriText::at(&text, connect::inside_quotes(&place))
        }
        Setting { value: Some(text), source } if is_one => {
            UriText { text, unknown: Vec::new(), source, is_verbatim: false }
        }
        Setting { source, .. } => {
            let why = match &source {
                Source::Unknown { why, .. } => {
                    why.strip_prefix("nothing says what ").and_then(|why| why.strip_suffix(" is"))
                }
                _ => None,
            };
            let name = match is_one {
                true => why.unwrap_or("the connection string of the code"),
                false => "the client that writes, of several,",
            };
            let source =
                Source::Unknown { why: format!("nothing says what {name} is"), place: reader.place(&first.span) };
            UriText { text: "${?}".to_owned(), unknown: vec![name.to_owned()], source, is_verbatim: false }
        }
    }))
}

/// Applies what code sets to the client that the connection string describes.
pub fn apply(client: &mut Client, sources: &Sources<'_>, reader: &Reader<'_>) {
    let (_, clients) = in_force(&sources.analysis.mongo_clients);
    let own: Vec<&MongoClient> =
        clients.iter().filter(|client| client.kind != ClientKind::Customizer).copied().collect();
    for one in &clients {
        for named in &one.settings {
            // Of several clients nobody knows which one writes.
            let of_others = |other: &&&MongoClient| {
                other.settings.iter().rev().find(|it| it.name == named.name).map(|it| &it.setting.value)
                    != Some(&named.setting.value)
            };
            let is_doubtful = one.kind != ClientKind::Customizer && own.iter().any(|other| of_others(&other));
            set(client, &named.name, &named.setting, is_doubtful, reader);
        }
    }
}

fn set(client: &mut Client, name: &str, found: &Found, is_doubtful: bool, reader: &Reader<'_>) {
    let doubt = |setting: Setting<u64>| match is_doubtful {
        true => reader.unknown("several clients set it differently", &found.span),
        false => setting,
    };
    match name {
        "socket.readTimeout" => client.socket_timeout_ms = doubt(reader.ms(found)),
        "timeout" => client.timeout_ms = doubt(reader.ms(found)).map(Some),
        "cluster.serverSelectionTimeout" => client.server_selection_timeout_ms = doubt(reader.ms(found)),
        "pool.maxSize" => client.max_pool_size = doubt(reader.number(found)),
        "retryWrites" => {
            client.retry_writes = match is_doubtful {
                true => reader.unknown("several clients set it differently", &found.span),
                false => reader.flag(found),
            }
        }
        "writeConcern" => {
            let is = |value: &Value| matches!(value, Value::Constant { name, .. } if &**name == "UNACKNOWLEDGED");
            client.is_unacknowledged = is(&found.value) && !is_doubtful && !found.conditional;
        }
        _ => {}
    }
}
