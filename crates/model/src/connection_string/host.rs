//! Hosts: names, addresses and Unix sockets.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::diagnostic::{Draft, Error, Part, Problem, quote};
use super::mask::Masked;
use super::parse::Piece;
use super::percent::{self, DecodeError};

/// The port of a host that has none.
pub const DEFAULT_PORT: u16 = 27_017;

/// What a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostKind {
    /// A name that DNS resolves.
    Hostname,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address, in brackets.
    IpLiteral,
    /// The path of a Unix domain socket.
    Unix,
}

/// One host of the list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    kind: HostKind,
    name: String,
    port: Option<u16>,
}

impl Host {
    /// What it is.
    pub fn kind(&self) -> HostKind {
        self.kind
    }

    /// The name, address (IPv6 without brackets) or path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port, if one is written.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The same host with this port, or with none; a Unix socket has none.
    pub fn with_port(self, port: Option<u16>) -> Self {
        let port = port.filter(|_| self.kind != HostKind::Unix);
        Self { port, ..self }
    }

    /// The port to connect to; `None` for a Unix socket.
    pub fn port_or_default(&self) -> Option<u16> {
        (self.kind != HostKind::Unix).then(|| self.port.unwrap_or(DEFAULT_PORT))
    }
}

impl fmt::Display for Host {
    /// As in a connection string.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            HostKind::IpLiteral => write!(f, "[{}]", self.name.replace('%', "%25"))?,
            HostKind::Hostname | HostKind::Ipv4 | HostKind::Unix => f.write_str(&percent::encode_strict(&self.name))?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Host {
    type Err = Error;

    /// Reads one host as it stands in a connection string, such as `localhost:27017` or `[::1]`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_one(&Piece { text, at: 0 }, true)
            .map_err(|draft| Error::new(draft.finish(&Masked::new(text)), Vec::new()))
    }
}

/// Reads the list of hosts. `may_quote` says that nothing of it can be a piece of a password.
pub(super) fn parse_list(list: &Piece<'_>, may_quote: bool) -> Result<Vec<Host>, Draft> {
    if list.text.is_empty() {
        let message = "there is no host; at least one is needed, such as localhost:27017";
        return Err(Draft::error(Problem::EmptyHost, Part::Host, list.span(), message));
    }
    list.split(|c| c == ',').map(|host| parse_one(&host, may_quote)).collect()
}

fn parse_one(host: &Piece<'_>, may_quote: bool) -> Result<Host, Draft> {
    if host.text.is_empty() {
        let message = "a host is empty: two commas in a row, or one at an end of the list";
        return Err(Draft::error(Problem::EmptyHost, Part::Host, host.span(), message));
    }
    if host.text.starts_with('[') {
        return ip_literal(host, may_quote);
    }
    if host.text.contains('/') {
        return Err(slash_in_host(host, may_quote));
    }
    let decoded = decode(host, Part::Host)?;
    if decoded.contains('/') {
        return unix_socket(host, decoded);
    }
    match host.text.matches(':').count() {
        0 => named(host, decoded, None),
        1 => {
            let (name, port) = host.cut(host.text.find(':').unwrap_or(0));
            let port = parse_port(&port)?;
            named(&name, decode(&name, Part::Host)?, Some(port))
        }
        _ => Err(several_colons(host, may_quote)),
    }
}

/// A text with `/`, which would otherwise end the list of hosts.
pub(super) fn slash_in_host(host: &Piece<'_>, may_quote: bool) -> Draft {
    let message = "the hosts hold an unescaped '/'; the path of a Unix socket has to be escaped";
    let help = match host.text.find(".sock") {
        Some(end) if may_quote => format!("write {}", percent::encode_strict(&host.text[..end + ".sock".len()])),
        _ => "write %2F for each '/'".to_owned(),
    };
    Draft::error(Problem::SocketSlash, Part::Host, host.span(), message).help(help)
}

fn ip_literal(host: &Piece<'_>, may_quote: bool) -> Result<Host, Draft> {
    let bad = |message: &str| Draft::error(Problem::BadHost, Part::Host, host.span(), message);
    let Some(end) = host.text.find(']') else {
        return Err(bad("a '[' without a ']'").help("an IPv6 address is written like [::1]:27017"));
    };
    let address = Piece { text: &host.text[1..end], at: host.at + 1 };
    let after = Piece { text: &host.text[end + 1..], at: host.at + end + 1 };
    let port = match after.text.strip_prefix(':') {
        Some(port) => Some(parse_port(&Piece { text: port, at: after.at + 1 })?),
        None if after.text.is_empty() => None,
        None => return Err(bad("only a port may follow the ']' of an IPv6 address")),
    };
    let name = decode(&address, Part::Host)?;
    let (plain, zone) = name.split_once('%').map_or((name.as_str(), None), |(plain, zone)| (plain, Some(zone)));
    let zone_is_bad = zone.is_some_and(|zone| zone.is_empty() || !zone.bytes().all(is_zone_byte));
    if plain.parse::<Ipv6Addr>().is_err() || zone_is_bad {
        let what = if may_quote { quote(&name) } else { "the text in brackets".to_owned() };
        return Err(bad(&format!("{what} is no IPv6 address")));
    }
    Ok(Host { kind: HostKind::IpLiteral, name, port })
}

/// A zone is an interface's name.
fn is_zone_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn unix_socket(host: &Piece<'_>, path: String) -> Result<Host, Draft> {
    if let Some(colon) = host.text.rfind(':') {
        let after = &host.text[colon + 1..];
        let span = host.at + colon..host.at + host.text.len();
        if !after.is_empty() && after.bytes().all(|byte| byte.is_ascii_digit()) {
            let message = "a Unix socket has no port";
            return Err(Draft::error(Problem::SocketPort, Part::Port, span, message).help("leave the port out"));
        }
        return Err(unescaped(Part::Host, host.at + colon, ':'));
    }
    if !path.ends_with(".sock") {
        let message = "the path of a Unix socket has to end in .sock";
        return Err(Draft::error(Problem::SocketSuffix, Part::Host, host.span(), message));
    }
    Ok(Host { kind: HostKind::Unix, name: path, port: None })
}

fn named(host: &Piece<'_>, name: String, port: Option<u16>) -> Result<Host, Draft> {
    let bad = |message: String| Draft::error(Problem::BadHost, Part::Host, host.span(), message);
    if name.is_empty() {
        return Err(bad("there is no host before the ':'".to_owned()));
    }
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || "#?@[]\\<>\"^`{}|%:,".contains(c);
    if let Some(character) = name.chars().find(|c| forbidden(*c)) {
        return Err(bad(format!("a host name cannot hold {character:?}"))
            .help("in a user name or password it has to be escaped"));
    }
    let kind = if name.parse::<Ipv4Addr>().is_ok() { HostKind::Ipv4 } else { HostKind::Hostname };
    Ok(Host { kind, name, port })
}

fn several_colons(host: &Piece<'_>, may_quote: bool) -> Draft {
    let (start, port) = host.text.rsplit_once(':').unwrap_or((host.text, ""));
    let with_port = start.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok_and(|port| port > 0);
    let whole = host.text.parse::<Ipv6Addr>().is_ok();
    let address = match (with_port, whole) {
        // `::1:8080` may be meant either way.
        (true, true) if port.len() == 4 => Some(format!("[{start}]:{port}, or [{}]", host.text)),
        (_, true) => Some(format!("[{}]", host.text)),
        (true, false) => Some(format!("[{start}]:{port}")),
        (false, false) => None,
    };
    if let Some(address) = address.filter(|_| may_quote) {
        let message = "an IPv6 address has to be in brackets";
        return Draft::error(Problem::Ipv6Brackets, Part::Host, host.span(), message).help(format!("write {address}"));
    }
    Draft::error(Problem::BadHost, Part::Host, host.span(), "a host holds more than one ':'")
        .help("an IPv6 address goes in brackets; in a user name or password write %3A")
}

fn parse_port(port: &Piece<'_>) -> Result<u16, Draft> {
    // The port is never quoted: in `user:password` without a host the password stands here.
    let bad = |message: &str| Draft::error(Problem::BadPort, Part::Port, port.span(), message);
    if port.text.is_empty() {
        return Err(bad("there is no port after the ':'").help("leave the ':' out for 27017"));
    }
    if !port.text.bytes().all(|byte| byte.is_ascii_digit()) {
        let help = "if this is a user name and a password, an '@' and a host have to follow, and special characters \
                    of the two have to be escaped";
        return Err(bad("the port is no number from 1 to 65535").help(help));
    }
    match port.text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(bad("the port is not from 1 to 65535")),
    }
}

/// Decodes a piece, or says where it cannot be.
pub(super) fn decode(piece: &Piece<'_>, part: Part) -> Result<String, Draft> {
    percent::decode(piece.text).map_err(|error| match error {
        DecodeError::BadEscape(at) => {
            let span = piece.at + at..piece.at + at + 1;
            let message = format!("the {part} holds a '%' that two hexadecimal digits do not follow");
            Draft::error(Problem::BadEscape, part, span, message).help("write %25 for the character '%'")
        }
        DecodeError::NotUtf8 => {
            let message = format!("the {part} is no UTF-8 once its escapes are decoded");
            Draft::error(Problem::NotUtf8, part, piece.span(), message)
        }
    })
}

/// A character that has to be escaped, at a place of the input.
pub(super) fn unescaped(part: Part, at: usize, character: char) -> Draft {
    let message = format!("the {part} holds an unescaped '{character}'");
    Draft::error(Problem::UnescapedCharacter, part, at..at + character.len_utf8(), message)
        .help(format!("write {}", percent::escape(character)))
}
