//! Encryption to the database: whose certificate it is gets checked before a password or a row is sent (G116).

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What an address asks for. Encryption without a look at the certificate is not among it: it would not keep anybody
/// in between from reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    Off,
    On { check: CertificateCheck, roots: Roots },
}

/// What must be true of the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateCheck {
    /// An authority that we trust signed it: `verify-ca`.
    Signed,
    /// And it is for the host of the address: `verify-full`.
    SignedForHost,
}

/// Which authorities we trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Those of the machine.
    System,
    /// Those in a PEM file, and no others.
    File(String),
}

impl Encryption {
    /// What connections are made with; `None` for plain ones.
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

impl Roots {
    fn read(&self) -> Result<RootCertStore, String> {
        let mut store = RootCertStore::empty();
        match self {
            Self::System => {
                // One unreadable certificate among many is the machine's own affair.
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

/// Everything but the name is checked.
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
            // The name is looked at last, once everything else holds.
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
