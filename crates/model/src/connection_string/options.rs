//! Every option of a connection string: one row each.
//!
//! Parsing, the rules about conflicts, the typed accessors and the reference documentation all read this slice.
//! Sources: the [URI options specification](https://github.com/mongodb/specifications/blob/master/source/uri-options/uri-options.md)
//! for names and values; the Java driver 5.4 for defaults (facts/client.md A3, D7) and for the options that only it
//! has.

use std::fmt;

use super::value::ValueKind;

/// A default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// `true` or `false`.
    Bool(bool),
    /// A number, in the option's unit.
    Int(i64),
    /// A text.
    Text(&'static str),
    /// Nothing is set.
    Unset,
}

/// What an option acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// How often a command is sent.
    Retry,
    /// How long the client waits, or lets the server run.
    Timeout,
    /// How many connections there are.
    Pool,
    /// How the client finds a server and watches it.
    Monitoring,
    /// What kind of deployment it is.
    Topology,
    /// When a write counts as done.
    WriteConcern,
    /// What a read sees, and where it goes.
    Read,
    /// Who the client is.
    Authentication,
    /// Encryption of the connection.
    Tls,
    /// Compression of messages.
    Compression,
    /// A SOCKS5 proxy in between.
    Proxy,
    /// Discovery through DNS.
    Srv,
    /// Names and encodings; nothing that changes when or how often a write is sent.
    Other,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Retry => "Retries",
            Self::Timeout => "Timeouts",
            Self::Pool => "Connection pool",
            Self::Monitoring => "Server selection and monitoring",
            Self::Topology => "Topology",
            Self::WriteConcern => "Write concern",
            Self::Read => "Read concern and read preference",
            Self::Authentication => "Authentication",
            Self::Tls => "TLS",
            Self::Compression => "Compression",
            Self::Proxy => "Proxy",
            Self::Srv => "DNS",
            Self::Other => "Other",
        })
    }
}

/// Whether the Java driver knows an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JavaSupport {
    /// 5.4 does.
    Yes,
    /// A later version does; 5.4 ignores the option.
    Since(&'static str),
    /// No version does.
    No,
}

/// What happens when an option occurs more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// The last one applies, with a warning.
    LastWins,
    /// Each adds to a list.
    List,
    /// All have to say the same.
    MustAgree,
    /// An error.
    Refused,
}

/// Another name for an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alias {
    /// The name.
    pub name: &'static str,
    /// Whether it is out of use; then it is ignored where the present name occurs too.
    pub deprecated: bool,
}

const fn alias(name: &'static str) -> Alias {
    Alias { name, deprecated: false }
}

const fn old(name: &'static str) -> Alias {
    Alias { name, deprecated: true }
}

/// An option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptionSpec {
    /// Its identity.
    pub id: OptionName,
    /// Its name, in the usual spelling; case does not matter.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [Alias],
    /// What values it allows.
    pub kind: ValueKind,
    /// What applies when it is not set.
    pub default: DefaultValue,
    /// What that default means, where the value alone does not say it.
    pub default_means: &'static str,
    /// What it acts on.
    pub effect: Effect,
    /// What several of it mean.
    pub repeat: Repeat,
    /// Options that must not occur together with it, whatever the values.
    pub excludes: &'static [OptionName],
    /// Options without which it must not occur.
    pub needs: &'static [OptionName],
    /// Whether it is for `mongodb+srv://` only.
    pub srv_only: bool,
    /// What the specifications recommend in its place.
    pub deprecated_by: Option<&'static str>,
    /// Whether the Java driver knows it.
    pub java: JavaSupport,
    /// What it does, in a sentence.
    pub doc: &'static str,
}

impl OptionSpec {
    /// Whether its value must not be shown as it is.
    pub(super) fn hides_value(&self) -> bool {
        matches!(self.kind, ValueKind::Secret | ValueKind::Properties)
    }

    /// What applies when the option is not set, as part of a sentence.
    pub fn default_text(&self) -> String {
        let value = match self.default {
            DefaultValue::Bool(value) => value.to_string(),
            DefaultValue::Int(value) => value.to_string(),
            DefaultValue::Text(value) => value.to_owned(),
            DefaultValue::Unset => "not set".to_owned(),
        };
        if self.default_means.is_empty() { value } else { format!("{value} ({})", self.default_means) }
    }
}

macro_rules! options {
    ($($id:ident { name: $name:literal, $($field:ident: $value:expr),+ $(,)? })+) => {
        /// The identity of an option; each is described by its row in [`OPTIONS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum OptionName {
            $(#[doc = concat!("`", $name, "`.")] $id,)+
        }

        /// Every option, in the order of the reference documentation.
        pub const OPTIONS: &[OptionSpec] = &[
            $(OptionSpec { id: OptionName::$id, name: $name, $($field: $value,)+ ..BLANK },)+
        ];
    };
}

/// What a row has unless it says otherwise.
const BLANK: OptionSpec = OptionSpec {
    id: OptionName::RetryWrites,
    name: "",
    aliases: &[],
    kind: ValueKind::Text,
    default: DefaultValue::Unset,
    default_means: "",
    effect: Effect::Other,
    repeat: Repeat::LastWins,
    excludes: &[],
    needs: &[],
    srv_only: false,
    deprecated_by: None,
    java: JavaSupport::Yes,
    doc: "",
};

/// Most numbers are 32-bit in drivers.
const INT_MAX: i64 = i32::MAX as i64;

const fn millis(min: i64, max: i64) -> ValueKind {
    ValueKind::Int { min, max, also: None, unit: "ms" }
}

const fn number(min: i64) -> ValueKind {
    ValueKind::Int { min, max: INT_MAX, also: None, unit: "" }
}

options! {
    RetryWrites {
        name: "retryWrites",
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(true),
        effect: Effect::Retry,
        doc: "Whether the driver sends a single-document write once more, with the same `lsid` and `txnNumber`, after \
              a network error or a retryable error label.",
    }
    RetryReads {
        name: "retryReads",
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(true),
        effect: Effect::Retry,
        doc: "Whether the driver sends a read once more after such an error.",
    }
    MaxAdaptiveRetries {
        name: "maxAdaptiveRetries",
        kind: number(0),
        default: DefaultValue::Int(2),
        effect: Effect::Retry,
        java: JavaSupport::Since("5.12"),
        doc: "How often the driver sends a command again that the server refused because it is overloaded.",
    }
    EnableOverloadRetargeting {
        name: "enableOverloadRetargeting",
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(false),
        effect: Effect::Retry,
        java: JavaSupport::Since("5.12"),
        doc: "Whether a retry after an overload error goes to another server where there is one.",
    }
    TimeoutMs {
        name: "timeoutMS",
        kind: millis(0, i64::MAX),
        default_means: "no limit on an operation as a whole",
        effect: Effect::Timeout,
        doc: "The time an operation may take with all its retries; each command carries what is left as `maxTimeMS`. \
              0 is no limit. When set, `socketTimeoutMS`, `waitQueueTimeoutMS` and `wTimeoutMS` are ignored. Java: \
              5.2 and later, alpha.",
    }
    SocketTimeoutMs {
        name: "socketTimeoutMS",
        kind: millis(0, INT_MAX),
        default: DefaultValue::Int(0),
        default_means: "waits for ever",
        effect: Effect::Timeout,
        deprecated_by: Some("timeoutMS"),
        doc: "How long the driver waits for the server to say anything before it gives up the connection. The \
              operation on the server goes on.",
    }
    ConnectTimeoutMs {
        name: "connectTimeoutMS",
        kind: millis(0, INT_MAX),
        default: DefaultValue::Int(10_000),
        effect: Effect::Timeout,
        doc: "How long opening a connection may take, and how long a heartbeat waits for its reply. 0 is no limit.",
    }
    ServerSelectionTimeoutMs {
        name: "serverSelectionTimeoutMS",
        kind: millis(0, INT_MAX),
        default: DefaultValue::Int(30_000),
        effect: Effect::Timeout,
        doc: "How long an operation waits for a server that suits it.",
    }
    WaitQueueTimeoutMs {
        name: "waitQueueTimeoutMS",
        kind: millis(0, INT_MAX),
        default: DefaultValue::Int(120_000),
        effect: Effect::Timeout,
        deprecated_by: Some("timeoutMS"),
        doc: "How long an operation waits for a connection of the pool. Java: 0 does not wait.",
    }
    MaxPoolSize {
        name: "maxPoolSize",
        kind: number(0),
        default: DefaultValue::Int(100),
        effect: Effect::Pool,
        doc: "The most connections to one server; 0 is no limit. It does not bound the copies of a write that still \
              run on the server, as a connection given up frees its place.",
    }
    MinPoolSize {
        name: "minPoolSize",
        kind: number(0),
        default: DefaultValue::Int(0),
        effect: Effect::Pool,
        doc: "How many connections the pool keeps open to one server.",
    }
    MaxConnecting {
        name: "maxConnecting",
        kind: number(1),
        default: DefaultValue::Int(2),
        effect: Effect::Pool,
        doc: "How many connections of a pool may be opening at the same time.",
    }
    MaxIdleTimeMs {
        name: "maxIdleTimeMS",
        kind: millis(0, INT_MAX),
        default: DefaultValue::Int(0),
        default_means: "no limit",
        effect: Effect::Pool,
        doc: "How long a connection may stay unused before it is closed.",
    }
    MaxLifeTimeMs {
        name: "maxLifeTimeMS",
        kind: millis(0, INT_MAX),
        default: DefaultValue::Int(0),
        default_means: "no limit",
        effect: Effect::Pool,
        doc: "How long a connection may live before it is closed. Java only.",
    }
    HeartbeatFrequencyMs {
        name: "heartbeatFrequencyMS",
        kind: millis(500, INT_MAX),
        default: DefaultValue::Int(10_000),
        effect: Effect::Monitoring,
        doc: "How often the driver asks a server for its state.",
    }
    ServerMonitoringMode {
        name: "serverMonitoringMode",
        kind: ValueKind::OneOf(&["auto", "stream", "poll"]),
        default: DefaultValue::Text("auto"),
        effect: Effect::Monitoring,
        doc: "Whether servers report changes of state by themselves (`stream`), are asked (`poll`), or what fits \
              (`auto`).",
    }
    LocalThresholdMs {
        name: "localThresholdMS",
        kind: millis(0, INT_MAX),
        default: DefaultValue::Int(15),
        effect: Effect::Monitoring,
        doc: "How much slower than the nearest server another may answer and still be chosen.",
    }
    ServerSelectionTryOnce {
        name: "serverSelectionTryOnce",
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(true),
        effect: Effect::Monitoring,
        java: JavaSupport::No,
        doc: "Whether a single-threaded driver looks at the servers only once when it finds none that suits.",
    }
    ReplicaSet {
        name: "replicaSet",
        effect: Effect::Topology,
        doc: "The name of the replica set the hosts belong to.",
    }
    DirectConnection {
        name: "directConnection",
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(false),
        effect: Effect::Topology,
        doc: "Whether to talk to the one host given and to no other member of its replica set.",
    }
    LoadBalanced {
        name: "loadBalanced",
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(false),
        effect: Effect::Topology,
        doc: "Whether the host is a load balancer in front of mongos.",
    }
    W {
        name: "w",
        kind: ValueKind::NodesOrTag,
        default_means: "the server's default write concern",
        effect: Effect::WriteConcern,
        doc: "How many members have a write before it is acknowledged, `majority`, or the name of a custom write \
              concern. With 0 a write is not acknowledged, and never sent again.",
    }
    WTimeoutMs {
        name: "wTimeoutMS",
        aliases: &[old("wtimeout")],
        kind: millis(0, i64::MAX),
        default: DefaultValue::Int(0),
        default_means: "no limit",
        effect: Effect::WriteConcern,
        deprecated_by: Some("timeoutMS"),
        doc: "How long the server waits for the members that `w` asks for. The write stays when it runs out.",
    }
    Journal {
        name: "journal",
        aliases: &[old("j")],
        kind: ValueKind::Bool,
        default_means: "the server decides",
        effect: Effect::WriteConcern,
        doc: "Whether a write is acknowledged only once it is in the journal on disk.",
    }
    Safe {
        name: "safe",
        kind: ValueKind::Bool,
        effect: Effect::WriteConcern,
        deprecated_by: Some("w"),
        doc: "Whether writes are acknowledged, where `w`, `wTimeoutMS` and `journal` are not set. Java only.",
    }
    ReadConcernLevel {
        name: "readConcernLevel",
        default_means: "the server's default read concern",
        effect: Effect::Read,
        doc: "How durable the data must be that a read returns, such as `local` or `majority`.",
    }
    ReadPreference {
        name: "readPreference",
        kind: ValueKind::OneOf(&["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"]),
        default: DefaultValue::Text("primary"),
        effect: Effect::Read,
        doc: "Which members of a replica set a read may go to.",
    }
    ReadPreferenceTags {
        name: "readPreferenceTags",
        kind: ValueKind::Tags,
        default_means: "any member",
        effect: Effect::Read,
        repeat: Repeat::List,
        doc: "A set of tags that a member must have; several are tried in order, and an empty one suits any member.",
    }
    MaxStalenessSeconds {
        name: "maxStalenessSeconds",
        kind: ValueKind::Int { min: 90, max: INT_MAX, also: Some(-1), unit: "s" },
        default: DefaultValue::Int(-1),
        default_means: "no limit",
        effect: Effect::Read,
        doc: "How far a secondary may lag behind and still be read from.",
    }
    AuthMechanism {
        name: "authMechanism",
        kind: ValueKind::OneOf(super::credential::MECHANISM_NAMES),
        default_means: "SCRAM-SHA-256 or SCRAM-SHA-1, as the server offers",
        effect: Effect::Authentication,
        doc: "How the client proves who it is.",
    }
    AuthSource {
        name: "authSource",
        default_means: "the database after the hosts, or what the mechanism says",
        effect: Effect::Authentication,
        doc: "The database that holds the user.",
    }
    AuthMechanismProperties {
        name: "authMechanismProperties",
        kind: ValueKind::Properties,
        effect: Effect::Authentication,
        doc: "More settings of the mechanism, as `NAME:value` pairs with commas between. A value with a comma cannot \
              be given here.",
    }
    GssapiServiceName {
        name: "gssapiServiceName",
        effect: Effect::Authentication,
        deprecated_by: Some("authMechanismProperties=SERVICE_NAME:..."),
        doc: "The service name for GSSAPI. Java only.",
    }
    Tls {
        name: "tls",
        aliases: &[alias("ssl")],
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(false),
        default_means: "true with mongodb+srv://",
        effect: Effect::Tls,
        repeat: Repeat::MustAgree,
        doc: "Whether connections are encrypted.",
    }
    TlsInsecure {
        name: "tlsInsecure",
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(false),
        effect: Effect::Tls,
        excludes: &[
            OptionName::TlsAllowInvalidCertificates,
            OptionName::TlsAllowInvalidHostnames,
            OptionName::TlsDisableOcspEndpointCheck,
            OptionName::TlsDisableCertificateRevocationCheck,
        ],
        doc: "Whether to relax the checks of certificates as far as possible. Java: the host name's only.",
    }
    TlsAllowInvalidCertificates {
        name: "tlsAllowInvalidCertificates",
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(false),
        effect: Effect::Tls,
        excludes: &[
            OptionName::TlsInsecure,
            OptionName::TlsDisableOcspEndpointCheck,
            OptionName::TlsDisableCertificateRevocationCheck,
        ],
        java: JavaSupport::No,
        doc: "Whether to accept a certificate that is not valid.",
    }
    TlsAllowInvalidHostnames {
        name: "tlsAllowInvalidHostnames",
        aliases: &[old("sslInvalidHostNameAllowed")],
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(false),
        effect: Effect::Tls,
        excludes: &[OptionName::TlsInsecure],
        doc: "Whether to accept a certificate that is for another host.",
    }
    TlsCaFile {
        name: "tlsCAFile",
        effect: Effect::Tls,
        java: JavaSupport::No,
        doc: "The file with the certificate authorities to trust.",
    }
    TlsCertificateKeyFile {
        name: "tlsCertificateKeyFile",
        effect: Effect::Tls,
        java: JavaSupport::No,
        doc: "The file with the client's certificate and key.",
    }
    TlsCertificateKeyFilePassword {
        name: "tlsCertificateKeyFilePassword",
        effect: Effect::Tls,
        kind: ValueKind::Secret,
        java: JavaSupport::No,
        doc: "The password of that file.",
    }
    TlsDisableOcspEndpointCheck {
        name: "tlsDisableOCSPEndpointCheck",
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(false),
        effect: Effect::Tls,
        excludes: &[
            OptionName::TlsInsecure,
            OptionName::TlsAllowInvalidCertificates,
            OptionName::TlsDisableCertificateRevocationCheck,
        ],
        java: JavaSupport::No,
        doc: "Whether not to ask an OCSP responder about a certificate.",
    }
    TlsDisableCertificateRevocationCheck {
        name: "tlsDisableCertificateRevocationCheck",
        kind: ValueKind::Bool,
        default: DefaultValue::Bool(false),
        effect: Effect::Tls,
        excludes: &[
            OptionName::TlsInsecure,
            OptionName::TlsAllowInvalidCertificates,
            OptionName::TlsDisableOcspEndpointCheck,
        ],
        java: JavaSupport::No,
        doc: "Whether not to check if a certificate was revoked.",
    }
    Compressors {
        name: "compressors",
        kind: ValueKind::ListOf(&["snappy", "zlib", "zstd"]),
        default_means: "no compression",
        effect: Effect::Compression,
        doc: "The compressors to offer to the server, in order of preference, with commas between.",
    }
    ZlibCompressionLevel {
        name: "zlibCompressionLevel",
        kind: ValueKind::Int { min: -1, max: 9, also: None, unit: "" },
        default: DefaultValue::Int(-1),
        default_means: "the library's default",
        effect: Effect::Compression,
        doc: "How hard zlib tries: 0 not at all, 1 fastest, 9 smallest.",
    }
    ProxyHost {
        name: "proxyHost",
        default_means: "no proxy",
        effect: Effect::Proxy,
        repeat: Repeat::Refused,
        doc: "The SOCKS5 proxy to connect through.",
    }
    ProxyPort {
        name: "proxyPort",
        kind: ValueKind::Int { min: 0, max: 65_535, also: None, unit: "" },
        default: DefaultValue::Int(1_080),
        effect: Effect::Proxy,
        repeat: Repeat::Refused,
        needs: &[OptionName::ProxyHost],
        doc: "The proxy's port.",
    }
    ProxyUsername {
        name: "proxyUsername",
        effect: Effect::Proxy,
        repeat: Repeat::Refused,
        needs: &[OptionName::ProxyHost, OptionName::ProxyPassword],
        doc: "The user name for the proxy.",
    }
    ProxyPassword {
        name: "proxyPassword",
        effect: Effect::Proxy,
        repeat: Repeat::Refused,
        needs: &[OptionName::ProxyHost, OptionName::ProxyUsername],
        kind: ValueKind::Secret,
        doc: "The password for the proxy.",
    }
    SrvMaxHosts {
        name: "srvMaxHosts",
        kind: number(0),
        default: DefaultValue::Int(0),
        default_means: "all of them",
        effect: Effect::Srv,
        srv_only: true,
        doc: "How many of the hosts that DNS names to use.",
    }
    SrvServiceName {
        name: "srvServiceName",
        default: DefaultValue::Text("mongodb"),
        effect: Effect::Srv,
        srv_only: true,
        doc: "The service name of the DNS record, without the leading underscore.",
    }
    AppName {
        name: "appName",
        doc: "The name that the client tells the server; it is in logs and `$currentOp`, and fail points can select \
              by it. At most 128 bytes.",
    }
    UuidRepresentation {
        name: "uuidRepresentation",
        kind: ValueKind::OneOf(&["unspecified", "standard", "javaLegacy", "csharpLegacy", "pythonLegacy"]),
        default: DefaultValue::Text("unspecified"),
        doc: "How a UUID is written to BSON. Java and Python.",
    }
}

impl OptionName {
    /// The option's row.
    pub fn spec(self) -> &'static OptionSpec {
        &OPTIONS[self as usize]
    }
}

impl fmt::Display for OptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spec().name)
    }
}

/// The option with this name or alias, in any case, and the alias if it is one.
pub fn find(name: &str) -> Option<(&'static OptionSpec, Option<&'static Alias>)> {
    OPTIONS.iter().find_map(|spec| {
        if spec.name.eq_ignore_ascii_case(name) {
            return Some((spec, None));
        }
        let alias = spec.aliases.iter().find(|alias| alias.name.eq_ignore_ascii_case(name))?;
        Some((spec, Some(alias)))
    })
}

/// The known name that is most like an unknown one, if one is like it enough to be meant.
pub fn nearest(name: &str) -> Option<&'static str> {
    /// Longer text is no misspelled name, and comparing it would take long.
    const LONGEST: usize = 64;
    let plain = |text: &str| text.replace(['_', '-', '.', ' '], "").to_ascii_lowercase();
    let wanted = plain(name);
    if wanted.is_empty() || wanted.len() > LONGEST {
        return None;
    }
    if let Some((spec, _)) = find(&format!("{wanted}ms")).or_else(|| find(&wanted)) {
        return Some(spec.name);
    }
    OPTIONS
        .iter()
        .flat_map(|spec| std::iter::once(spec.name).chain(spec.aliases.iter().map(|alias| alias.name)))
        .map(|known| (strsim::osa_distance(&wanted, &plain(known)), known))
        .filter(|(distance, _)| *distance <= wanted.chars().count() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_found_by_its_identity_and_by_all_its_names() {
        for (index, spec) in OPTIONS.iter().enumerate() {
            assert_eq!(spec.id as usize, index, "{}", spec.name);
            assert_eq!(find(&spec.name.to_uppercase()).unwrap().0.id, spec.id);
            for alias in spec.aliases {
                assert_eq!(find(&alias.name.to_lowercase()), Some((spec, Some(alias))));
            }
            assert!(spec.doc.ends_with('.') && !spec.doc.contains("  "), "{}", spec.name);
        }
    }

    #[test]
    fn exclusions_are_mutual() {
        for spec in OPTIONS {
            for other in spec.excludes {
                assert!(other.spec().excludes.contains(&spec.id), "{} and {other}", spec.name);
            }
        }
    }

    #[test]
    fn a_default_is_an_allowed_value() {
        for spec in OPTIONS {
            let is_allowed = match spec.default {
                DefaultValue::Bool(_) => spec.kind == ValueKind::Bool,
                DefaultValue::Int(value) => spec.kind.parse(&value.to_string()).bad.is_none(),
                DefaultValue::Text(value) => spec.kind.parse(value).bad.is_none(),
                DefaultValue::Unset => true,
            };
            assert!(is_allowed, "{}", spec.name);
        }
    }

    #[test]
    fn unknown_names_have_a_neighbour_where_one_is_likely() {
        let cases = [
            ("socketTimeout", Some("socketTimeoutMS")),
            ("sockettimeotms", Some("socketTimeoutMS")),
            ("retryWrite", Some("retryWrites")),
            ("retry_writes", Some("retryWrites")),
            ("connectionTimeoutMS", Some("connectTimeoutMS")),
            ("timeout", Some("timeoutMS")),
            ("socket_timeout_ms", Some("socketTimeoutMS")),
            ("tlsCertificateKeyPassword", Some("tlsCertificateKeyFilePassword")),
            ("foo", None),
            ("x", None),
            ("", None),
            ("fsync", None),
        ];
        for (name, neighbour) in cases {
            assert_eq!(nearest(name), neighbour, "{name}");
        }
    }
}
