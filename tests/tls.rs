//! Encrypted connections, from both ends.

use std::path::PathBuf;
use std::time::Duration;

use backfire_driver::{Client, ClientSettings, DriverError};
use backfire_model::ConnectionString;
use backfire_server::net::Tls;
use backfire_server::net::tls::TlsPart;
use backfire_server::profile::V7_0;
use backfire_tests::Lab;
use bson::doc;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

/// Certificates by an authority of one's own, in files and as text.
struct Certificates {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let folder = tempfile::tempdir().expect("a folder");
        let own = Self { folder, authority };
        own.file("ca.pem", &own.authority.pem());
        own
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("writable");
    }

    /// A certificate for `host`, and its key.
    fn issue(&self, host: &str) -> (String, String) {
        let params = CertificateParams::new([host.to_owned()]).expect("a host");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.authority).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    fn tls(&self, host: &str, asks_clients: bool) -> Tls {
        let (certificate, key) = self.issue(host);
        let authority = self.authority.pem();
        let authorities = asks_clients.then_some(authority.as_bytes());
        Tls::from_pem(certificate.as_bytes(), key.as_bytes(), authorities).expect("what TLS needs")
    }

    /// `name` in a connection string.
    fn option(&self, option: &str, name: &str) -> String {
        format!("{option}={}", self.path(name).display().to_string().replace('/', "%2F"))
    }
}

fn lab(tls: Tls) -> Lab {
    Lab::with(|config| {
        config.profile = &V7_0;
        config.tls = Some(tls);
    })
}

/// What becomes of a command of a client at `host`, with these options.
async fn find(lab: &Lab, host: &str, options: &str) -> Result<(), DriverError> {
    let uri = format!("mongodb://{host}/?serverSelectionTimeoutMS=300&heartbeatFrequencyMS=500&{options}");
    let uri = ConnectionString::parse(&uri).expect("a connection string");
    let settings = ClientSettings::from_connection_string(&uri)?;
    let client = Client::connect(settings, lab.connector(Duration::ZERO), (), 1)?;
    let found = client.database("test").run_command(doc! { "find": "c" }).await.map(drop);
    client.close().await;
    found
}

#[tokio::test]
async fn a_client_believes_whom_it_should() {
    let certificates = Certificates::new();
    let other = Certificates::new();
    let lab = lab(certificates.tls("localhost", false));
    let ca = certificates.option("tlsCAFile", "ca.pem");
    let foreign = other.option("tlsCAFile", "ca.pem");
    for (host, options, expected) in [
        ("localhost", format!("tls=true&{ca}"), None),
        ("localhost", format!("tls=true&{ca}&compressors=snappy"), None),
        ("127.0.0.1", format!("tls=true&{ca}"), Some("not valid for name")),
        ("127.0.0.1", format!("tls=true&{ca}&tlsAllowInvalidHostnames=true"), None),
        ("localhost", format!("tls=true&{foreign}"), Some("invalid peer certificate")),
        ("localhost", format!("tls=true&{foreign}&tlsAllowInvalidHostnames=true"), Some("invalid peer certificate")),
        ("localhost", format!("tls=true&{foreign}&tlsAllowInvalidCertificates=true"), None),
        ("127.0.0.1", format!("tls=true&{foreign}&tlsInsecure=true"), None),
        // Without encryption the server closes the connection.
        ("localhost", String::new(), Some("")),
    ] {
        let found = find(&lab, host, &options).await;
        match (expected, found) {
            (None, found) => assert!(found.is_ok(), "{host} {options}: {found:?}"),
            (Some(part), Ok(())) => panic!("{host} {options}: it should fail with '{part}'"),
            (Some(part), Err(error)) => assert!(error.to_string().contains(part), "{host} {options}: {error}"),
        }
    }
    lab.finish().await;
}

#[tokio::test]
async fn a_server_with_authorities_asks_for_a_certificate() {
    let certificates = Certificates::new();
    let other = Certificates::new();
    let lab = lab(certificates.tls("localhost", true));
    let ca = certificates.option("tlsCAFile", "ca.pem");
    for (from, works) in [(Some(&certificates), true), (Some(&other), false), (None, false)] {
        let own = from.map_or_else(String::new, |from| {
            let (certificate, key) = from.issue("client");
            from.file("client.pem", &format!("{certificate}{key}"));
            from.option("&tlsCertificateKeyFile", "client.pem")
        });
        let found = find(&lab, "localhost", &format!("tls=true&{ca}{own}")).await;
        assert_eq!(found.is_ok(), works, "{own}: {found:?}");
    }
    lab.finish().await;
}

#[tokio::test]
async fn files_that_are_wrong_are_named() {
    let certificates = Certificates::new();
    let lab = lab(certificates.tls("localhost", false));
    certificates.file("empty.pem", "");
    certificates.file("damaged.pem", "-----BEGIN CERTIFICATE-----\n~\n-----END CERTIFICATE-----\n");
    certificates.file(
        "locked.pem",
        &format!(
            "{}-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            certificates.issue("a").0
        ),
    );
    for (option, name, part) in [
        ("tlsCAFile", "none.pem", "none.pem: No such file"),
        ("tlsCAFile", "empty.pem", "empty.pem: there is no certificate in it"),
        ("tlsCAFile", "damaged.pem", "damaged.pem: "),
        ("tlsCertificateKeyFile", "empty.pem", "empty.pem: there is no certificate in it"),
        ("tlsCertificateKeyFile", "locked.pem", "locked.pem: there is no private key in it that is not encrypted"),
    ] {
        let options = format!("tls=true&tlsAllowInvalidHostnames=true&{}", certificates.option(option, name));
        let error = find(&lab, "localhost", &options).await.expect_err(name).to_string();
        assert!(error.contains(option) && error.contains(part), "{error}");
    }
    let (certificate, key) = certificates.issue("a");
    let (_, another) = certificates.issue("a");
    let part = |certificate: &str, key: &str, authorities: Option<&str>| {
        Tls::from_pem(certificate.as_bytes(), key.as_bytes(), authorities.map(str::as_bytes))
            .map_err(|error| error.part)
    };
    assert_eq!(part("", &key, None).err(), Some(TlsPart::Certificate));
    assert_eq!(part(&certificate, "", None).err(), Some(TlsPart::Key));
    assert_eq!(part(&certificate, &another, None).err(), Some(TlsPart::Key));
    assert_eq!(part(&certificate, &key, Some("")).err(), Some(TlsPart::Authorities));
    assert_eq!(part(&certificate, &key, None).err(), None);
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_or_the_wrong_thing_is_not_waited_for() {
    let certificates = Certificates::new();
    let lab = lab(certificates.tls("localhost", false));
    let began = tokio::time::Instant::now();
    let mut silent = lab.connect();
    assert!(silent.read_to_end().await.is_empty());
    assert_eq!(began.elapsed().as_secs(), 10);
    let mut plain = lab.connect();
    plain.send("admin", doc! { "ping": 1 }, &[]).await;
    plain.read_to_end().await;
    assert_eq!(began.elapsed().as_secs(), 10, "at once");
    // A server that stops does not wait for handshakes.
    let mut late = lab.connect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    lab.finish().await;
    late.read_to_end().await;
    assert_eq!(began.elapsed().as_secs(), 10);
}
