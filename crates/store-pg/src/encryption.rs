//! Encryption to the database: the certificate is verified before a password or a row is sent (G116).

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What an address asks for. Encryption without verification is not offered: anyone in between could still read
/// everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    Off,
    On { check: CertificateCheck, roots: TrustedRoots },
}

/// What must be true of the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateCheck {
    /// A trusted authority signed it: `verify-ca`.
    Signed,
    /// It was also issued for the host of the address: `verify-full`.
    SignedForHost,
}

/// Which authorities we trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrustedRoots {
    /// Those of the machine.
    System,
    /// Only those in a PEM file.
    File(String),
}

impl Encryption {
    /// The connector for encrypted connections; `None` for plain ones.
    pub(crate) fn connector(&self) -> Result<Option<MakeRustlsConnect>, String> {
        let Self::On { check, roots } = self else { return Ok(None) };
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots.read()?), Arc::clone(&provider))
                .build()
                .map_err(|error| error.to_string())?;
        let verifier: Arc<dyn ServerCertVerifier> = match check {
            CertificateCheck::SignedForHost => verifier,
            CertificateCheck::Signed => Arc::new(AnyHost(verifier)),
        };
        Ok(Some(MakeRustlsConnect::new(client(provider, verifier)?)))
    }
}

fn client(
    provider: Arc<CryptoProvider>,
    verifier: Arc<dyn ServerCertVerifier>,
) -> Result<ClientConfig, String> {
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.map_err(|error| error.to_string())?;
    Ok(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

impl TrustedRoots {
    fn read(&self) -> Result<RootCertStore, String> {
        let mut store = RootCertStore::empty();
        match self {
            Self::System => {
                // An unreadable certificate among many does not matter.
                store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if store.is_empty() {
                    return Err("this machine has no certificates of authorities".to_owned());
                }
            }
            Self::File(path) => {
                let unusable = |problem: String| format!("the certificates in `{path}`: {problem}");
                let certificates = CertificateDer::pem_file_iter(path);
                for certificate in certificates.map_err(|error| unusable(error.to_string()))? {
                    let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                    store.add(certificate).map_err(|error| unusable(error.to_string()))?;
                }
                if store.is_empty() {
                    return Err(unusable("there are none in the file".to_owned()));
                }
            }
        }
        Ok(store)
    }
}

/// Verifies everything but the host name.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(certificate, intermediates, host, ocsp, now) {
            // The host name is checked last, once everything else is valid.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
