//! The client's settings: from the connection string, and what is stated beside it.

use backfire_model::connection_string::{ConnectionString, OptionName};

use crate::build::{Family, Versions};
use crate::kafka;
use crate::service::{Client, Uri};
use crate::setting::{Setting, Source};
use crate::source::Place;
use crate::spring::placeholder::Resolved;
use crate::spring::{Properties, Property};

/// A connection string before it is read.
#[derive(Debug, Clone)]
pub struct UriText {
    /// The text, placeholders resolved where they could be.
    pub text: String,
    /// The names in it that nothing is known of.
    pub unknown: Vec<String>,
    /// Where it comes from.
    pub source: Source,
    /// Whether the source's place holds exactly this text.
    pub is_verbatim: bool,
}

impl UriText {
    /// From text in a place.
    pub fn at(text: &str, place: Place) -> Self {
        let is_verbatim = place.file().text.get(place.range()) == Some(text);
        Self { text: text.to_owned(), unknown: Vec::new(), source: Source::File(place), is_verbatim }
    }

    /// From a property whose placeholders were looked at.
    pub fn resolved(resolved: Resolved, source: Source) -> Self {
        let is_verbatim = source.place().is_some_and(|p| p.file().text.get(p.range()) == Some(resolved.text.as_str()));
        Self { text: resolved.text, unknown: resolved.unknown, source, is_verbatim }
    }
}

/// What Spring's configuration says about the connection string.
pub fn of_spring(properties: &Properties, versions: &Versions) -> Option<UriText> {
    let is_4 = versions.boot.as_ref().map(|boot| boot.version.at_least([4, 0, 0]));
    let prefixes: &[&str] = match is_4 {
        Some(true) => &["spring.mongodb"],
        Some(false) => &["spring.data.mongodb"],
        None => &["spring.mongodb", "spring.data.mongodb"],
    };
    for prefix in prefixes {
        if let Some(property) = properties.get(&format!("{prefix}.uri")) {
            return Some(UriText::resolved(properties.resolve(property), kafka::source(&property.origin)));
        }
        if let Some(host) = properties.get(&format!("{prefix}.host")) {
            return Some(of_host(properties, prefix, host));
        }
    }
    None
}

/// Host, port and database as a connection string, as Spring Boot puts them together.
fn of_host(properties: &Properties, prefix: &str, host: &Property) -> UriText {
    let text = |name: &str| properties.get(&format!("{prefix}.{name}")).map(|property| properties.resolve(property));
    let resolved = properties.resolve(host);
    let port = text("port").and_then(|port| port.text.trim().parse::<u16>().ok()).unwrap_or(27_017);
    let database = text("database").map(|database| database.text).unwrap_or_else(|| "test".to_owned());
    let set = text("replica-set-name").map(|name| format!("?replicaSet={}", name.text)).unwrap_or_default();
    UriText {
        text: format!("mongodb://{}:{port}/{database}{set}", resolved.text),
        unknown: resolved.unknown,
        source: kafka::source(&host.origin),
        is_verbatim: false,
    }
}

/// What is left when placeholders that nothing is known of are taken out.
struct Readable {
    /// The text that can be read.
    text: String,
    /// The options whose value is not known.
    unknown_options: Vec<String>,
    /// Whether nothing can be said about the options.
    is_opaque: bool,
}

fn readable(text: &str) -> Readable {
    let mut result = Readable { text: String::new(), unknown_options: Vec::new(), is_opaque: false };
    if !text.contains("${") {
        result.text = text.to_owned();
        return result;
    }
    let lower = text.trim_start().to_ascii_lowercase();
    if !lower.starts_with("mongodb://") && !lower.starts_with("mongodb+srv://") {
        result.is_opaque = true;
        return result;
    }
    let without = |part: &str| {
        let mut out = String::new();
        let mut rest = part;
        while let Some(start) = rest.find("${") {
            out.push_str(&rest[..start]);
            out.push_str("unknown");
            rest = rest[start..].find('}').map_or("", |end| &rest[start + end + 1..]);
        }
        out + rest
    };
    let (before, options) = text.split_once('?').unwrap_or((text, ""));
    result.text = without(before).replace(":unknown/", "/").replace(":unknown,", ",");
    let mut kept = Vec::new();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some((name, value)) if value.contains("${") && !name.contains("${") => {
                result.unknown_options.push(name.to_ascii_lowercase());
            }
            _ if option.contains("${") => result.is_opaque = true,
            _ => kept.push(option),
        }
    }
    if !kept.is_empty() {
        result.text = format!("{}?{}", result.text, kept.join("&"));
    }
    result
}

/// Reads the client's settings.
pub fn client(uri: Option<UriText>, versions: &Versions, default_uri: &str) -> Client {
    let family = versions.family.unwrap_or(Family::Java);
    let version = versions.driver.clone();
    let driver = match &version {
        Some(known) => format!("{} {}", family.name(), known.version),
        None => family.name().to_owned(),
    };
    let uri = uri.unwrap_or_else(|| UriText {
        text: "mongodb://localhost/test".to_owned(),
        unknown: Vec::new(),
        source: Source::Default(default_uri.to_owned()),
        is_verbatim: false,
    });
    let readable = readable(uri.text.trim());
    let (parsed, diagnostics) = match readable.is_opaque {
        true => (None, Vec::new()),
        false => match ConnectionString::parse(&readable.text) {
            Ok(parsed) => {
                let diagnostics = parsed.warnings().chain(parsed.notes()).cloned().collect();
                (Some(parsed), diagnostics)
            }
            Err(error) => (None, error.errors().cloned().collect()),
        },
    };
    let place = uri.source.place().filter(|_| uri.is_verbatim && uri.unknown.is_empty()).cloned();
    let reader =
        Reader { parsed: parsed.as_ref(), uri: &uri, readable: &readable, place: place.as_ref(), driver: &driver };
    let client = Client {
        family,
        version,
        socket_timeout_ms: reader.setting(OptionName::SocketTimeoutMs, ConnectionString::socket_timeout_ms),
        timeout_ms: reader.setting(OptionName::TimeoutMs, ConnectionString::timeout_ms),
        retry_writes: reader.setting(OptionName::RetryWrites, ConnectionString::retry_writes),
        server_selection_timeout_ms: reader
            .setting(OptionName::ServerSelectionTimeoutMs, ConnectionString::server_selection_timeout_ms),
        max_pool_size: reader.setting(OptionName::MaxPoolSize, ConnectionString::max_pool_size),
        is_unacknowledged: parsed
            .as_ref()
            .is_some_and(|parsed| parsed.w() == Some(&backfire_model::connection_string::W::Nodes(0))),
        rtt_ms: None,
        uri: None,
    };
    Client { uri: Some(Uri { parsed, source: uri.source, diagnostics, place }), ..client }
}

struct Reader<'a> {
    parsed: Option<&'a ConnectionString>,
    uri: &'a UriText,
    readable: &'a Readable,
    place: Option<&'a Place>,
    driver: &'a str,
}

impl Reader<'_> {
    fn setting<T>(&self, option: OptionName, read: impl Fn(&ConnectionString) -> T) -> Setting<T> {
        let place = self.uri.source.place().cloned();
        let name = option.spec().name;
        let is_unknown = self.readable.unknown_options.iter().any(|unknown| unknown.eq_ignore_ascii_case(name));
        let Some(parsed) = self.parsed else {
            let why = match self.uri.unknown.is_empty() {
                true => "the connection string cannot be read".to_owned(),
                false => format!("nothing says what {} is", self.uri.unknown.join(", ")),
            };
            return Setting::unknown(why, place);
        };
        if is_unknown {
            return Setting::unknown(format!("{name} holds a placeholder of which nothing is known"), place);
        }
        if parsed.value(option).is_none() {
            return Setting::default_of(read(parsed), self.driver.to_owned());
        }
        let occurrence = parsed.occurrences().iter().rev().find(|occurrence| occurrence.option() == Some(option));
        let source = match (self.place, occurrence) {
            (Some(place), Some(occurrence)) => {
                let lead = self.uri.text.len() - self.uri.text.trim_start().len();
                let start = place.range().start + lead;
                Source::File(Place::new(place.file(), start + occurrence.span().start..start + occurrence.span().end))
            }
            _ => self.uri.source.clone(),
        };
        Setting::new(read(parsed), source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceFile;

    fn of(text: &str) -> Client {
        let file = SourceFile::new("a.yml", text);
        client(Some(UriText::at(text, Place::new(&file, 0..text.len()))), &Versions::default(), "x")
    }

    #[test]
    fn an_option_has_its_own_place() {
        let client = of("mongodb://h/?w=1&socketTimeoutMS=5000");
        assert_eq!(client.socket_timeout_ms.value, Some(5_000));
        assert_eq!(client.socket_timeout_ms.place().map(Place::column), Some(18));
        assert_eq!(client.retry_writes, Setting::default_of(true, "Java driver"));
    }

    #[test]
    fn placeholders_hide_only_what_they_stand_for() {
        let client = of("mongodb://${USER}:${PW}@${HOST}:${PORT}/db?socketTimeoutMS=${T}&retryWrites=false");
        assert_eq!((client.socket_timeout_ms.value, client.retry_writes.value), (None, Some(false)));
        assert_eq!(of("${URI}").retry_writes.value, None);
        assert_eq!(of("mongodb://h/?${OPTIONS}").retry_writes.value, None);
    }
}
