//! A server's host and port.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::DriverError;

/// The port of an address that names none.
pub const DEFAULT_PORT: u16 = 27017;

/// Where a server listens. Host names compare without regard to case, so they are kept in lower case. Every event names a
/// server, so copies share the name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerAddress {
    host: Arc<str>,
    port: u16,
}

impl ServerAddress {
    /// An address from its parts. `host` is a name or an IP address (IPv6 without brackets).
    pub fn new(host: impl AsRef<str>, port: u16) -> Self {
        Self { host: host.as_ref().to_ascii_lowercase().into(), port }
    }

    /// The host, in lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for ServerAddress {
    type Err = DriverError;

    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |why: &str| DriverError::invalid_argument(format!("server address '{text}': {why}"));
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, behind) = rest.split_once(']').ok_or_else(|| bad("the bracket is not closed"))?;
            match behind.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if behind.is_empty() => (host, None),
                None => return Err(bad("only ':port' may follow the bracket")),
            }
        } else {
            match text.split_once(':') {
                Some((_, port)) if port.contains(':') => return Err(bad("an IPv6 address needs brackets")),
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() {
            return Err(bad("the host is empty"));
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => match port.parse() {
                Ok(0) | Err(_) => return Err(bad("the port is not a number from 1 to 65535")),
                Ok(port) => port,
            },
        };
        Ok(Self::new(host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, shown) in [
            ("localhost", "localhost:27017"),
            ("DB.example.com:1", "db.example.com:1"),
            ("[::1]", "[::1]:27017"),
            ("[fe80::1]:27018", "[fe80::1]:27018"),
        ] {
            assert_eq!(text.parse::<ServerAddress>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn bad_addresses_are_errors() {
        for text in ["", ":1", "a:0", "a:65536", "a:x", "::1", "[::1", "[::1]x"] {
            assert!(text.parse::<ServerAddress>().is_err(), "{text}");
        }
    }
}
