//! A typed accessor for every option: what is set, or the default of the Java driver 5.4.

use super::credential::AuthMechanism;
use super::options::{DefaultValue, OptionName};
use super::secret::Secret;
use super::value::{Property, TagSet, Value, W};
use super::{ConnectionString, Scheme};

macro_rules! accessors {
    ($($(#[$doc:meta])+ $name:ident: $type:ty = $read:ident($option:ident);)+) => {
        impl ConnectionString {
            $($(#[$doc])+ pub fn $name(&self) -> $type {
                self.$read(OptionName::$option)
            })+
        }

        #[cfg(test)]
        const READ: &[OptionName] = &[$(OptionName::$option),+];
    };
}

accessors! {
    /// `retryWrites`.
    retry_writes: bool = bool(RetryWrites);
    /// `retryReads`.
    retry_reads: bool = bool(RetryReads);
    /// `maxAdaptiveRetries`; drivers without client backpressure do not have it.
    max_adaptive_retries: u64 = unsigned(MaxAdaptiveRetries);
    /// `enableOverloadRetargeting`.
    enable_overload_retargeting: bool = bool(EnableOverloadRetargeting);
    /// `timeoutMS`; `None`: not set, and then the older timeouts apply. 0: set, and no limit.
    timeout_ms: Option<u64> = set_unsigned(TimeoutMs);
    /// `socketTimeoutMS`; 0: waits for ever. Without effect where [`ConnectionString::timeout_ms`] is set.
    socket_timeout_ms: u64 = unsigned(SocketTimeoutMs);
    /// `connectTimeoutMS`; 0: no limit.
    connect_timeout_ms: u64 = unsigned(ConnectTimeoutMs);
    /// `serverSelectionTimeoutMS`.
    server_selection_timeout_ms: u64 = unsigned(ServerSelectionTimeoutMs);
    /// `waitQueueTimeoutMS`; 0: does not wait. Without effect where [`ConnectionString::timeout_ms`] is set.
    wait_queue_timeout_ms: u64 = unsigned(WaitQueueTimeoutMs);
    /// `maxPoolSize`; 0: no limit.
    max_pool_size: u64 = unsigned(MaxPoolSize);
    /// `minPoolSize`.
    min_pool_size: u64 = unsigned(MinPoolSize);
    /// `maxConnecting`.
    max_connecting: u64 = unsigned(MaxConnecting);
    /// `maxIdleTimeMS`; 0: no limit.
    max_idle_time_ms: u64 = unsigned(MaxIdleTimeMs);
    /// `maxLifeTimeMS`; 0: no limit.
    max_life_time_ms: u64 = unsigned(MaxLifeTimeMs);
    /// `heartbeatFrequencyMS`.
    heartbeat_frequency_ms: u64 = unsigned(HeartbeatFrequencyMs);
    /// `serverMonitoringMode`: `auto`, `stream` or `poll`.
    server_monitoring_mode: &str = text(ServerMonitoringMode);
    /// `localThresholdMS`.
    local_threshold_ms: u64 = unsigned(LocalThresholdMs);
    /// `serverSelectionTryOnce`; single-threaded drivers only.
    server_selection_try_once: bool = bool(ServerSelectionTryOnce);
    /// `replicaSet`.
    replica_set: Option<&str> = set_text(ReplicaSet);
    /// `directConnection`.
    direct_connection: bool = bool(DirectConnection);
    /// `loadBalanced`.
    load_balanced: bool = bool(LoadBalanced);
    /// `w`; `None`: the server's default.
    w: Option<&W> = set_w(W);
    /// `wTimeoutMS`; 0: no limit. Without effect where [`ConnectionString::timeout_ms`] is set.
    w_timeout_ms: u64 = unsigned(WTimeoutMs);
    /// `journal`; `None`: the server decides.
    journal: Option<bool> = set_bool(Journal);
    /// `safe`.
    safe: Option<bool> = set_bool(Safe);
    /// `readConcernLevel`; `None`: the server's default.
    read_concern_level: Option<&str> = set_text(ReadConcernLevel);
    /// `readPreference`: `primary`, `primaryPreferred`, `secondary`, `secondaryPreferred` or `nearest`.
    read_preference: &str = text(ReadPreference);
    /// `readPreferenceTags`, in the order of the string; an empty set suits any member.
    read_preference_tags: &[TagSet] = tag_sets(ReadPreferenceTags);
    /// `maxStalenessSeconds`; `None`: no limit.
    max_staleness_seconds: Option<u64> = set_unsigned(MaxStalenessSeconds);
    /// `authMechanism`.
    auth_mechanism: Option<AuthMechanism> = mechanism(AuthMechanism);
    /// `authSource` as written; [`ConnectionString::credential`] has the database that applies.
    auth_source: Option<&str> = set_text(AuthSource);
    /// `authMechanismProperties` as written.
    auth_mechanism_properties: &[Property] = properties(AuthMechanismProperties);
    /// `gssapiServiceName`.
    gssapi_service_name: Option<&str> = set_text(GssapiServiceName);
    /// `tls`, also as `ssl`; without it, true for `mongodb+srv://`.
    tls: bool = encrypted(Tls);
    /// `tlsInsecure`.
    tls_insecure: bool = bool(TlsInsecure);
    /// `tlsAllowInvalidCertificates`.
    tls_allow_invalid_certificates: bool = bool(TlsAllowInvalidCertificates);
    /// `tlsAllowInvalidHostnames`.
    tls_allow_invalid_hostnames: bool = bool(TlsAllowInvalidHostnames);
    /// `tlsCAFile`.
    tls_ca_file: Option<&str> = set_text(TlsCaFile);
    /// `tlsCertificateKeyFile`.
    tls_certificate_key_file: Option<&str> = set_text(TlsCertificateKeyFile);
    /// `tlsCertificateKeyFilePassword`.
    tls_certificate_key_file_password: Option<&Secret> = set_secret(TlsCertificateKeyFilePassword);
    /// `tlsDisableOCSPEndpointCheck`.
    tls_disable_ocsp_endpoint_check: bool = bool(TlsDisableOcspEndpointCheck);
    /// `tlsDisableCertificateRevocationCheck`.
    tls_disable_certificate_revocation_check: bool = bool(TlsDisableCertificateRevocationCheck);
    /// `compressors`, in order of preference.
    compressors: &[String] = list(Compressors);
    /// `zlibCompressionLevel`; -1: the library's default.
    zlib_compression_level: i64 = int(ZlibCompressionLevel);
    /// `proxyHost`.
    proxy_host: Option<&str> = set_text(ProxyHost);
    /// `proxyPort`.
    proxy_port: u64 = unsigned(ProxyPort);
    /// `proxyUsername`.
    proxy_username: Option<&str> = set_text(ProxyUsername);
    /// `proxyPassword`.
    proxy_password: Option<&Secret> = set_secret(ProxyPassword);
    /// `srvMaxHosts`; 0: all.
    srv_max_hosts: u64 = unsigned(SrvMaxHosts);
    /// `srvServiceName`.
    srv_service_name: &str = text(SrvServiceName);
    /// `appName`.
    app_name: Option<&str> = set_text(AppName);
    /// `uuidRepresentation`.
    uuid_representation: &str = text(UuidRepresentation);
}

impl ConnectionString {
    fn set_bool(&self, option: OptionName) -> Option<bool> {
        match self.value(option) {
            Some(Value::Bool(value)) => Some(*value),
            _ => None,
        }
    }

    fn bool(&self, option: OptionName) -> bool {
        self.set_bool(option).unwrap_or(option.spec().default == DefaultValue::Bool(true))
    }

    fn encrypted(&self, option: OptionName) -> bool {
        self.set_bool(option).unwrap_or(self.scheme() == Scheme::MongodbSrv)
    }

    fn int(&self, option: OptionName) -> i64 {
        match (self.value(option), option.spec().default) {
            (Some(Value::Int(value)), _) => *value,
            (None, DefaultValue::Int(value)) => value,
            _ => 0,
        }
    }

    /// Numbers below 0 are refused, except -1 for "no limit" in `maxStalenessSeconds`.
    fn unsigned(&self, option: OptionName) -> u64 {
        u64::try_from(self.int(option)).unwrap_or(0)
    }

    fn set_unsigned(&self, option: OptionName) -> Option<u64> {
        match self.value(option) {
            Some(Value::Int(value)) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    fn set_text(&self, option: OptionName) -> Option<&str> {
        match self.value(option) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn text(&self, option: OptionName) -> &str {
        self.set_text(option).unwrap_or(match option.spec().default {
            DefaultValue::Text(text) => text,
            _ => "",
        })
    }

    fn set_secret(&self, option: OptionName) -> Option<&Secret> {
        match self.value(option) {
            Some(Value::Secret(secret)) => Some(secret),
            _ => None,
        }
    }

    fn set_w(&self, option: OptionName) -> Option<&W> {
        match self.value(option) {
            Some(Value::W(w)) => Some(w),
            _ => None,
        }
    }

    fn list(&self, option: OptionName) -> &[String] {
        match self.value(option) {
            Some(Value::List(values)) => values,
            _ => &[],
        }
    }

    fn tag_sets(&self, option: OptionName) -> &[TagSet] {
        match self.value(option) {
            Some(Value::TagSets(sets)) => sets,
            _ => &[],
        }
    }

    fn properties(&self, option: OptionName) -> &[Property] {
        match self.value(option) {
            Some(Value::Properties(properties)) => properties,
            _ => &[],
        }
    }

    fn mechanism(&self, option: OptionName) -> Option<AuthMechanism> {
        self.set_text(option).and_then(AuthMechanism::from_name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::OPTIONS;
    use super::*;

    #[test]
    fn every_option_has_an_accessor() {
        let all: Vec<OptionName> = OPTIONS.iter().map(|spec| spec.id).collect();
        assert_eq!(READ, all);
    }

    #[test]
    fn without_options_the_defaults_of_the_java_driver_apply() {
        let plain: ConnectionString = "mongodb://h".parse().unwrap();
        assert!(plain.retry_writes() && plain.retry_reads() && !plain.tls() && !plain.direct_connection());
        assert_eq!((plain.timeout_ms(), plain.socket_timeout_ms()), (None, 0));
        assert_eq!((plain.connect_timeout_ms(), plain.server_selection_timeout_ms()), (10_000, 30_000));
        assert_eq!((plain.wait_queue_timeout_ms(), plain.heartbeat_frequency_ms()), (120_000, 10_000));
        assert_eq!((plain.max_pool_size(), plain.min_pool_size(), plain.max_connecting()), (100, 0, 2));
        assert_eq!((plain.read_preference(), plain.srv_service_name()), ("primary", "mongodb"));
        assert_eq!((plain.w(), plain.journal(), plain.max_staleness_seconds()), (None, None, None));
        assert_eq!((plain.zlib_compression_level(), plain.proxy_port(), plain.local_threshold_ms()), (-1, 1_080, 15));
    }

    #[test]
    fn what_is_set_is_read_in_its_type() {
        let text = "mongodb://h/?timeoutMS=0&w=2&journal=false&compressors=zstd,zlib&readPreference=nearest\
                    &readPreferenceTags=dc:ny,rack:1&readPreferenceTags=&maxStalenessSeconds=90&proxyHost=p\
                    &proxyUsername=u&proxyPassword=s&authMechanism=GSSAPI&ssl=true";
        let set: ConnectionString = text.replace("//h", "//u@h").parse().unwrap();
        assert_eq!((set.timeout_ms(), set.w(), set.journal()), (Some(0), Some(&W::Nodes(2)), Some(false)));
        assert_eq!(set.compressors(), ["zstd", "zlib"]);
        let tags = vec![("dc".to_owned(), "ny".to_owned()), ("rack".to_owned(), "1".to_owned())];
        assert_eq!(set.read_preference_tags(), [tags, vec![]]);
        assert_eq!((set.max_staleness_seconds(), set.read_preference()), (Some(90), "nearest"));
        assert_eq!(set.proxy_password().map(Secret::expose), Some("s"));
        assert_eq!((set.auth_mechanism(), set.tls()), (Some(AuthMechanism::Gssapi), true));
        assert!("mongodb+srv://a.b.c".parse::<ConnectionString>().unwrap().tls());
    }
}
