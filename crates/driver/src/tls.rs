//! Encrypted connections to servers.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::DriverError;
use crate::settings::ServerAddress;
use crate::transport::{Connector, Stream};

/// How connections are encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsSettings {
    /// `tlsCAFile`: the authorities to trust; without it, those of the system.
    pub ca_file: Option<PathBuf>,
    /// `tlsCertificateKeyFile`: the client's certificate and its key, which must not be encrypted.
    pub certificate_key_file: Option<PathBuf>,
    /// `tlsAllowInvalidCertificates` or `tlsInsecure`: believe every certificate.
    pub allow_invalid_certificates: bool,
    /// `tlsAllowInvalidHostnames` or `tlsInsecure`: believe a certificate that is for another host.
    pub allow_invalid_hostnames: bool,
}

impl TlsSettings {
    /// Reads the files.
    ///
    /// # Errors
    /// When a file cannot be read or is not what it should be: with its path.
    fn config(&self) -> Result<ClientConfig, DriverError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| DriverError::invalid_argument(format!("TLS: {error}")))?;
        let builder = if self.allow_invalid_certificates {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anything(provider)))
        } else {
            let roots = Arc::new(self.roots()?);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.map_err(|error| DriverError::invalid_argument(format!("TLS: {error}")))?;
            match self.allow_invalid_hostnames {
                true => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyHost(verifier))),
                false => builder.with_webpki_verifier(verifier),
            }
        };
        let Some(path) = &self.certificate_key_file else { return Ok(builder.with_no_client_auth()) };
        let text = read(path, "tlsCertificateKeyFile")?;
        let wrong = |reason: String| wrong_file(path, "tlsCertificateKeyFile", &reason);
        let chain = certificates(&text).map_err(&wrong)?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => {
                wrong("there is no private key in it that is not encrypted".to_owned())
            }
            other => wrong(other.to_string()),
        })?;
        builder.with_client_auth_cert(chain, key).map_err(|error| wrong(error.to_string()))
    }

    fn roots(&self) -> Result<RootCertStore, DriverError> {
        let mut roots = RootCertStore::empty();
        let Some(path) = &self.ca_file else {
            // Of the system's authorities, those that cannot be read are not trusted.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                let what = "TLS: this system names no certificate authorities; give them with tlsCAFile";
                return Err(DriverError::invalid_argument(what));
            }
            return Ok(roots);
        };
        let text = read(path, "tlsCAFile")?;
        let wrong = |reason: String| wrong_file(path, "tlsCAFile", &reason);
        for authority in certificates(&text).map_err(&wrong)? {
            roots.add(authority).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(roots)
    }
}

fn wrong_file(path: &Path, option: &str, reason: &str) -> DriverError {
    DriverError::invalid_argument(format!("{option} {}: {reason}", path.display()))
}

fn read(path: &Path, option: &str) -> Result<Vec<u8>, DriverError> {
    std::fs::read(path).map_err(|error| wrong_file(path, option, &error.to_string()))
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = read.map_err(|error| error.to_string())?;
    if found.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(found) }
}

/// Opens streams with another connector, and encrypts them.
pub(crate) struct TlsConnector {
    inner: Arc<dyn Connector>,
    tls: tokio_rustls::TlsConnector,
}

impl TlsConnector {
    /// # Errors
    /// Those of the files that the settings name.
    pub(crate) fn new(inner: Arc<dyn Connector>, settings: &TlsSettings) -> Result<Self, DriverError> {
        Ok(Self { inner, tls: Arc::new(settings.config()?).into() })
    }
}

impl Connector for TlsConnector {
    fn connect(&self, address: &ServerAddress) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let connecting = self.inner.connect(address);
        let tls = self.tls.clone();
        let name = ServerName::try_from(address.host().to_owned());
        Box::pin(async move {
            let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            let stream = tls.connect(name, connecting.await?).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// Believes every certificate. Who presents it must still have its key.
struct Anything(Arc<CryptoProvider>);

impl fmt::Debug for Anything {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Anything")
    }
}

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Believes a trusted certificate, whatever host it is for.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is looked at last, when everything else is right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
