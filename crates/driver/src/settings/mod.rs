//! Everything a client can be told, with the Java driver's defaults (facts/client.md A3).

mod address;
mod concern;
mod from_uri;
mod profile;
mod read_preference;

use std::time::Duration;

use backfire_wire::Compressor;

pub use address::{DEFAULT_PORT, ServerAddress};
pub use concern::{Acknowledgement, ReadConcern, WriteConcern};
pub use profile::DriverProfile;
pub use read_preference::{ReadMode, ReadPreference, TagSet};

use crate::auth::Credential;
use crate::error::DriverError;
use crate::tls::TlsSettings;

/// How monitors learn of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MonitoringMode {
    /// Stream where the server can.
    #[default]
    Auto,
    /// Ask every `heartbeatFrequencyMS`.
    Poll,
    /// Stream where the server can (the same as `Auto` outside of function services).
    Stream,
}

/// The stable API to declare with each command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerApi {
    /// `apiVersion`.
    pub version: String,
    /// `apiStrict`, if it is sent.
    pub strict: Option<bool>,
    /// `apiDeprecationErrors`, if it is sent.
    pub deprecation_errors: Option<bool>,
}

/// A client's settings.
///
/// A duration of zero means "no limit" wherever a connection string's 0 does: `connect_timeout`, `socket_timeout`,
/// `max_idle_time`, `max_life_time`, and `timeout` when it is set.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientSettings {
    /// The servers to start from; at least one.
    pub seeds: Vec<ServerAddress>,
    /// `directConnection`. Unset: direct when there is one seed and no `replica_set`, as in Java.
    pub direct_connection: Option<bool>,
    /// `replicaSet`: the set's name.
    pub replica_set: Option<String>,
    /// `appName`, at most 128 bytes.
    pub app_name: Option<String>,
    /// `retryWrites`.
    pub retry_writes: bool,
    /// `retryReads`.
    pub retry_reads: bool,
    /// `connectTimeoutMS`: opening a connection, and a heartbeat's silence.
    pub connect_timeout: Duration,
    /// `socketTimeoutMS`: the longest silence of a server while it is read from. Ignored while `timeout` is set.
    pub socket_timeout: Duration,
    /// `serverSelectionTimeoutMS`.
    pub server_selection_timeout: Duration,
    /// `waitQueueTimeoutMS`: the longest wait for a connection of the pool; zero is no wait at all, as in Java. Ignored
    /// while `timeout` is set.
    pub wait_queue_timeout: Duration,
    /// `heartbeatFrequencyMS`, at least 500 ms.
    pub heartbeat_frequency: Duration,
    /// The shortest time between two checks of one server.
    pub min_heartbeat_frequency: Duration,
    /// `localThresholdMS`: how much slower than the nearest a server may be.
    pub local_threshold: Duration,
    /// `maxPoolSize` per server; 0 is no limit.
    pub max_pool_size: u32,
    /// `minPoolSize` per server.
    pub min_pool_size: u32,
    /// `maxConnecting`: connections of one pool that open at the same time.
    pub max_connecting: u32,
    /// `maxIdleTimeMS`.
    pub max_idle_time: Duration,
    /// `maxLifeTimeMS`.
    pub max_life_time: Duration,
    /// How often a pool closes what is idle for too long and opens what `min_pool_size` lacks.
    pub pool_maintenance_frequency: Duration,
    /// `timeoutMS`, for whole operations (facts/client.md A7). Unset: the other limits count, each for itself.
    pub timeout: Option<Duration>,
    /// `readConcernLevel`.
    pub read_concern: ReadConcern,
    /// `w`, `journal`, `wTimeoutMS`.
    pub write_concern: WriteConcern,
    /// `readPreference` and its companions.
    pub read_preference: ReadPreference,
    /// `compressors`, the favourite first.
    pub compressors: Vec<Compressor>,
    /// `serverMonitoringMode`.
    pub monitoring_mode: MonitoringMode,
    /// `maxAdaptiveRetries`: retries of one command after an overload error, where the profile has back-pressure.
    pub max_adaptive_retries: u32,
    /// The stable API, if one is declared.
    pub server_api: Option<ServerApi>,
    /// Who the client is, where the server wants to know.
    pub credential: Option<Credential>,
    /// `tls` and its companions; `None`: connections are not encrypted.
    pub tls: Option<TlsSettings>,
    /// Whose rules to follow.
    pub profile: DriverProfile,
    /// The time that generated `_id`s start from, in seconds since 1970: a client has no wall clock of its own.
    pub object_id_epoch_s: u32,
}

impl ClientSettings {
    /// The defaults, for these seeds.
    pub fn new(seeds: impl IntoIterator<Item = ServerAddress>) -> Self {
        Self {
            seeds: seeds.into_iter().collect(),
            direct_connection: None,
            replica_set: None,
            app_name: None,
            retry_writes: true,
            retry_reads: true,
            connect_timeout: Duration::from_secs(10),
            socket_timeout: Duration::ZERO,
            server_selection_timeout: Duration::from_secs(30),
            wait_queue_timeout: Duration::from_secs(120),
            heartbeat_frequency: Duration::from_secs(10),
            min_heartbeat_frequency: Duration::from_millis(500),
            local_threshold: Duration::from_millis(15),
            max_pool_size: 100,
            min_pool_size: 0,
            max_connecting: 2,
            max_idle_time: Duration::ZERO,
            max_life_time: Duration::ZERO,
            pool_maintenance_frequency: Duration::from_secs(60),
            timeout: None,
            read_concern: ReadConcern::default(),
            write_concern: WriteConcern::default(),
            read_preference: ReadPreference::default(),
            compressors: Vec::new(),
            monitoring_mode: MonitoringMode::default(),
            max_adaptive_retries: 2,
            server_api: None,
            credential: None,
            tls: None,
            profile: DriverProfile::default(),
            object_id_epoch_s: 0,
        }
    }

    /// Whether the client talks to its one seed only, whatever that is.
    pub fn is_direct(&self) -> bool {
        self.direct_connection.unwrap_or(self.seeds.len() == 1 && self.replica_set.is_none())
    }

    /// Checks what can be checked without a server.
    ///
    /// # Errors
    /// The first setting that makes no sense, by name.
    pub fn validate(&self) -> Result<(), DriverError> {
        let wrong = |what: &str| Err(DriverError::invalid_argument(what));
        if self.seeds.is_empty() {
            return wrong("there must be at least one seed");
        }
        if self.direct_connection == Some(true) && self.seeds.len() > 1 {
            return wrong("directConnection goes with exactly one seed");
        }
        if self.app_name.as_ref().is_some_and(|name| name.len() > 128) {
            return wrong("appName must not be longer than 128 bytes");
        }
        if self.heartbeat_frequency < Duration::from_millis(500) {
            return wrong("heartbeatFrequencyMS must be at least 500");
        }
        if self.max_connecting == 0 {
            return wrong("maxConnecting must be at least 1");
        }
        if self.max_pool_size != 0 && self.min_pool_size > self.max_pool_size {
            return wrong("minPoolSize must not be above maxPoolSize");
        }
        if self.pool_maintenance_frequency.is_zero() {
            return wrong("the pool maintenance frequency must not be 0");
        }
        if let Some(credential) = &self.credential {
            credential.validate()?;
        }
        self.read_preference.validate()
    }
}

/// A limit that a duration of zero switches off.
pub(crate) fn limit(duration: Duration) -> Option<Duration> {
    (!duration.is_zero()).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed() -> ServerAddress {
        ServerAddress::new("a", 1)
    }

    #[test]
    fn defaults_are_javas() {
        let settings = ClientSettings::new([seed()]);
        assert!(settings.validate().is_ok());
        assert!(settings.retry_writes && settings.retry_reads && settings.timeout.is_none());
        assert_eq!((settings.max_pool_size, settings.max_connecting), (100, 2));
        assert_eq!(limit(settings.socket_timeout), None);
        assert_eq!(settings.profile, DriverProfile::JAVA_5_4);
    }

    #[test]
    fn one_seed_without_a_set_name_is_a_direct_connection() {
        let two = || [seed(), ServerAddress::new("b", 1)];
        for (settings, direct) in [
            (ClientSettings::new([seed()]), true),
            (ClientSettings { replica_set: Some("rs".into()), ..ClientSettings::new([seed()]) }, false),
            (ClientSettings { direct_connection: Some(false), ..ClientSettings::new([seed()]) }, false),
            (ClientSettings::new(two()), false),
        ] {
            assert_eq!(settings.is_direct(), direct);
        }
        let both = ClientSettings { direct_connection: Some(true), ..ClientSettings::new(two()) };
        assert!(both.validate().is_err());
    }
}
