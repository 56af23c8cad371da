//! Settings from a connection string.

use std::time::Duration;

use backfire_model::ConnectionString;
use backfire_model::connection_string::{AuthMechanism, HostKind, OptionName, W};
use backfire_wire::Compressor;

use super::{Acknowledgement, ClientSettings, MonitoringMode, ReadConcern, ReadMode, ReadPreference, ServerAddress};
use crate::auth::Credential;
use crate::auth::scram::ScramMechanism;
use crate::error::DriverError;
use crate::tls::TlsSettings;

impl ClientSettings {
    /// The settings that a connection string names; everything else as the Java driver has it.
    ///
    /// # Errors
    /// For what this driver does not do: DNS look-ups of `mongodb+srv://`, Unix sockets, encrypted keys, mechanisms other than SCRAM, load
    /// balancers and proxies.
    pub fn from_connection_string(uri: &ConnectionString) -> Result<Self, DriverError> {
        let refuse = |what: &str| Err(DriverError::invalid_argument(format!("{what} is not supported by this driver")));
        if uri.needs_dns() {
            return refuse("mongodb+srv://");
        }
        if uri.tls_certificate_key_file_password().is_some() {
            return refuse("tlsCertificateKeyFilePassword");
        }
        if uri.load_balanced() {
            return refuse("loadBalanced=true");
        }
        if uri.proxy_host().is_some() {
            return refuse("proxyHost");
        }
        let mut seeds = Vec::new();
        for host in uri.hosts() {
            match (host.kind(), host.port_or_default()) {
                (HostKind::Unix, _) | (_, None) => return refuse("a Unix socket"),
                (_, Some(port)) => seeds.push(ServerAddress::new(host.name(), port)),
            }
        }
        let mut settings = Self::new(seeds);
        settings.tls = uri.tls().then(|| TlsSettings {
            ca_file: uri.tls_ca_file().map(Into::into),
            certificate_key_file: uri.tls_certificate_key_file().map(Into::into),
            allow_invalid_certificates: uri.tls_allow_invalid_certificates() || uri.tls_insecure(),
            allow_invalid_hostnames: uri.tls_allow_invalid_hostnames() || uri.tls_insecure(),
        });
        settings.credential = match uri.credential() {
            None => None,
            Some(credential) => {
                let mechanism = match credential.mechanism {
                    None => None,
                    Some(AuthMechanism::ScramSha1) => Some(ScramMechanism::Sha1),
                    Some(AuthMechanism::ScramSha256) => Some(ScramMechanism::Sha256),
                    Some(other) => return refuse(&format!("authMechanism={}", other.name())),
                };
                let (Some(user), Some(password)) = (credential.user.clone(), credential.password.clone()) else {
                    return refuse("a user without a password");
                };
                Some(Credential { user, password, source: credential.source.clone(), mechanism })
            }
        };
        settings.direct_connection = uri.value(OptionName::DirectConnection).map(|_| uri.direct_connection());
        settings.replica_set = uri.replica_set().map(str::to_owned);
        settings.app_name = uri.app_name().map(str::to_owned);
        settings.retry_writes = uri.retry_writes();
        settings.retry_reads = uri.retry_reads();
        settings.connect_timeout = Duration::from_millis(uri.connect_timeout_ms());
        settings.socket_timeout = Duration::from_millis(uri.socket_timeout_ms());
        settings.server_selection_timeout = Duration::from_millis(uri.server_selection_timeout_ms());
        settings.wait_queue_timeout = Duration::from_millis(uri.wait_queue_timeout_ms());
        settings.heartbeat_frequency = Duration::from_millis(uri.heartbeat_frequency_ms());
        settings.local_threshold = Duration::from_millis(uri.local_threshold_ms());
        settings.max_pool_size = count(uri.max_pool_size());
        settings.min_pool_size = count(uri.min_pool_size());
        settings.max_connecting = count(uri.max_connecting());
        settings.max_idle_time = Duration::from_millis(uri.max_idle_time_ms());
        settings.max_life_time = Duration::from_millis(uri.max_life_time_ms());
        settings.max_adaptive_retries = count(uri.max_adaptive_retries());
        settings.timeout = uri.timeout_ms().map(Duration::from_millis);
        settings.read_concern = uri.read_concern_level().map_or_else(ReadConcern::default, ReadConcern::level);
        settings.write_concern.w = uri.w().map(|w| match w {
            W::Nodes(nodes) => Acknowledgement::Members(i32::try_from(*nodes).unwrap_or(i32::MAX)),
            W::Tag(tag) => Acknowledgement::Named(tag.clone()),
        });
        settings.write_concern.journal = uri.journal();
        settings.write_concern.wtimeout = Some(uri.w_timeout_ms()).filter(|ms| *ms > 0).map(Duration::from_millis);
        settings.read_preference = ReadPreference {
            mode: ReadMode::from_name(uri.read_preference()).unwrap_or_default(),
            tag_sets: uri.read_preference_tags().iter().map(|set| set.iter().cloned().collect()).collect(),
            max_staleness: uri.max_staleness_seconds().map(Duration::from_secs),
        };
        settings.compressors = uri.compressors().iter().filter_map(|name| Compressor::from_name(name)).collect();
        settings.monitoring_mode = match uri.server_monitoring_mode() {
            "poll" => MonitoringMode::Poll,
            "stream" => MonitoringMode::Stream,
            _ => MonitoringMode::Auto,
        };
        Ok(settings)
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(uri: &str) -> Result<ClientSettings, String> {
        let uri = ConnectionString::parse(uri).expect("a connection string");
        ClientSettings::from_connection_string(&uri).map_err(|error| error.to_string())
    }

    #[test]
    fn a_bare_string_gives_the_defaults() {
        assert_eq!(settings("mongodb://a:1").unwrap(), ClientSettings::new([ServerAddress::new("a", 1)]));
    }

    #[test]
    fn options_are_taken_over() {
        let uri = "mongodb://a,b:2/db?replicaSet=rs&appName=x&retryWrites=false&socketTimeoutMS=5&timeoutMS=7&maxPoolSize=3\
                   &w=majority&journal=true&readPreference=nearest&readPreferenceTags=dc:ny&compressors=zstd,snappy\
                   &heartbeatFrequencyMS=600&directConnection=false";
        let settings = settings(uri).unwrap();
        assert_eq!(settings.seeds, [ServerAddress::new("a", 27017), ServerAddress::new("b", 2)]);
        assert_eq!((settings.replica_set.as_deref(), settings.app_name.as_deref()), (Some("rs"), Some("x")));
        assert_eq!((settings.retry_writes, settings.direct_connection), (false, Some(false)));
        assert_eq!((settings.socket_timeout.as_millis(), settings.timeout), (5, Some(Duration::from_millis(7))));
        assert_eq!((settings.max_pool_size, settings.heartbeat_frequency.as_millis()), (3, 600));
        assert_eq!(settings.write_concern.w, Some(Acknowledgement::Named("majority".into())));
        assert_eq!(settings.read_preference.mode, ReadMode::Nearest);
        assert_eq!(settings.read_preference.tag_sets[0]["dc"], "ny");
        assert_eq!(settings.compressors.iter().map(|one| one.name()).collect::<Vec<_>>(), ["zstd", "snappy"]);
    }

    #[test]
    fn what_it_does_not_do_is_refused_by_name() {
        for (uri, what) in [
            ("mongodb+srv://a.b.c", "mongodb+srv://"),
            ("mongodb://u:p@a/?authMechanism=PLAIN", "authMechanism=PLAIN"),
            ("mongodb://u@a", "a user without a password"),
            ("mongodb://a/?tls=true&tlsCertificateKeyFilePassword=x", "tlsCertificateKeyFilePassword"),
            ("mongodb://%2Ftmp%2Fx.sock", "a Unix socket"),
        ] {
            assert!(settings(uri).unwrap_err().contains(what), "{uri}");
        }
    }
}
