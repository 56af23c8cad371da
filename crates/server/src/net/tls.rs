//! Encrypted connections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take: who connects and says nothing must not stay.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Which of the three texts something is wrong with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPart {
    /// The server's certificate.
    Certificate,
    /// Its private key.
    Key,
    /// The certificate authorities.
    Authorities,
}

/// Why there can be no encryption.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct TlsError {
    /// What it is about.
    pub part: TlsPart,
    /// What is wrong with it.
    pub reason: String,
}

/// What a server proves who it is with, and whom it believes.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads PEM: a certificate with those that lead to its authority, its private key (PKCS #8, PKCS #1 or SEC 1, not
    /// encrypted), and the authorities of clients. With those, clients must have a certificate.
    ///
    /// # Errors
    /// When one of the texts is not that, or key and certificate do not belong together.
    pub fn from_pem(certificate: &[u8], key: &[u8], authorities: Option<&[u8]>) -> Result<Self, TlsError> {
        let chain = certificates(certificate, TlsPart::Certificate)?;
        let of = |part| move |error: &dyn fmt::Display| TlsError { part, reason: error.to_string() };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => {
                of(TlsPart::Key)(&"there is no private key in it that is not encrypted")
            }
            other => of(TlsPart::Key)(&other),
        })?;
        let provider = Arc::new(ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| of(TlsPart::Certificate)(&error))?;
        let builder = match authorities {
            None => builder.with_no_client_auth(),
            Some(text) => {
                let wrong = of(TlsPart::Authorities);
                let mut roots = RootCertStore::empty();
                for authority in certificates(text, TlsPart::Authorities)? {
                    roots.add(authority).map_err(|error| wrong(&error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| wrong(&error))?)
            }
        };
        let config = builder.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => of(TlsPart::Key)(&"it is not the key of the certificate"),
            rustls::Error::General(_) => of(TlsPart::Key)(&error),
            other => of(TlsPart::Certificate)(&other),
        })?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// When the other side does not speak TLS, has no certificate where it must, or takes too long.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> std::io::Result<TlsStream<S>> {
        match tokio::time::timeout(HANDSHAKE_MAX, self.0.accept(stream)).await {
            Ok(accepted) => accepted,
            Err(_) => Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "the handshake takes too long")),
        }
    }
}

fn certificates(text: &[u8], part: TlsPart) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match read {
        Ok(found) if found.is_empty() => Err(TlsError { part, reason: "there is no certificate in it".to_owned() }),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError { part, reason: error.to_string() }),
    }
}
