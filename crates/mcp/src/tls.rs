//! TLS of a team's server: the certificate it presents, reloaded from its files when they change (G116).
//!
//! The files are checked when a connection is accepted, so that a renewed certificate needs no restart. If they are
//! unusable, such as a certificate whose key is not written yet, the previous certificate stays in use.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The contents of two PEM files: the server's certificate with its chain, and its key.
pub struct Pem {
    pub certificates: Vec<u8>,
    pub key: Vec<u8>,
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pem(..)")
    }
}

/// The certificate and key files.
pub trait CertificateFiles: Send + Sync + 'static {
    /// Changes when the files do; `None` while they cannot be checked.
    fn stamp(&self) -> Option<Vec<u64>>;
    fn read(&self) -> Result<Pem, String>;
}

/// The TLS configuration of connections.
pub struct Tls {
    files: Box<dyn CertificateFiles>,
    loaded: Mutex<LoadedCertificate>,
}

#[derive(Clone)]
struct LoadedCertificate {
    /// The stamp of the files that were tried last, whether usable or not.
    stamp: Option<Vec<u64>>,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

impl Tls {
    /// Fails if the files are unusable.
    pub fn load(files: Box<dyn CertificateFiles>) -> Result<Self, String> {
        // Taken first: files that change while they are read are read again.
        let stamp = files.stamp();
        let config = config(&files.read()?)?;
        Ok(Self { files, loaded: Mutex::new(LoadedCertificate { stamp, config }) })
    }

    /// The configuration for the next connection. Checks files, so it must be called on a thread that may block.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        let stamp = self.files.stamp();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if stamp.is_some() && stamp != loaded.stamp {
            match self.files.read().and_then(|pem| config(&pem)) {
                Ok(config) => {
                    tracing::info!("the certificate was loaded again");
                    loaded.config = config;
                }
                Err(problem) => tracing::error!("the changed certificate is not used: {problem}"),
            }
            loaded.stamp = stamp;
        }
        Arc::clone(&loaded.config)
    }
}

fn config(pem: &Pem) -> Result<Arc<ServerConfig>, String> {
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem.certificates)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the certificate file is not valid PEM: {error}"))?;
    if certificates.is_empty() {
        return Err("the certificate file contains no certificate".to_owned());
    }
    // The error of a key is not repeated: its message may quote the key.
    let key = PrivateKeyDer::from_pem_slice(&pem.key)
        .map_err(|_| "the key file contains no unencrypted private key in PEM".to_owned())?;
    let versions = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions();
    let mut config = versions
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| format!("the certificate and the key cannot be used together: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
