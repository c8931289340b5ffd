//! TLS of a team's server: the certificate that it shows, taken from its files again when they change (G116).
//!
//! The files are looked at when a connection is accepted, so that a renewed certificate needs no restart. Files that
//! cannot be used, such as a certificate whose key is not written yet, leave the certificate that was shown so far.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What two PEM files hold: the server's certificate with those that lead to its authority, and its key.
pub struct Pem {
    pub certificates: Vec<u8>,
    pub key: Vec<u8>,
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pem(..)")
    }
}

/// Where the certificate and its key are.
pub trait CertificateFiles: Send + Sync + 'static {
    /// Differs when the files do; `None` while they cannot be looked at.
    fn stamp(&self) -> Option<Vec<u64>>;
    fn read(&self) -> Result<Pem, String>;
}

/// What connections are encrypted with.
pub struct Tls {
    files: Box<dyn CertificateFiles>,
    loaded: Mutex<Loaded>,
}

#[derive(Clone)]
struct Loaded {
    /// Of the files that were tried last, whether they could be used or not.
    stamp: Option<Vec<u64>>,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

impl Tls {
    /// Refuses files that cannot be used.
    pub fn load(files: Box<dyn CertificateFiles>) -> Result<Self, String> {
        // Looked at first: files that change while they are read are read again.
        let stamp = files.stamp();
        let config = config(&files.read()?)?;
        Ok(Self { files, loaded: Mutex::new(Loaded { stamp, config }) })
    }

    /// What the next connection is encrypted with. Looks at files, so it is asked on a thread that may wait.
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
        return Err("the certificate file holds no certificate".to_owned());
    }
    // What is wrong with a key is not repeated: the message may quote it.
    let key = PrivateKeyDer::from_pem_slice(&pem.key)
        .map_err(|_| "the key file holds no unencrypted private key in PEM".to_owned())?;
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
