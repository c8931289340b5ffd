//! The files of a server's certificate and key, as an administrator or a renewal program writes them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::bounded;

const BYTES_MAX: u64 = 1024 * 1024;

/// Why a file cannot be used. Never repeats its content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFileError {
    #[error("`{path}` cannot be read: {detail}")]
    Unreadable { path: Utf8PathBuf, detail: String },
    #[error("`{path}` is not a regular file")]
    NotAFile { path: Utf8PathBuf },
    #[error(
        "`{path}` holds a private key and no certificate; `--tls-cert` names the certificate, `--tls-key` the key"
    )]
    KeyAsCertificate { path: Utf8PathBuf },
    #[error(
        "`{path}` holds a certificate and no private key; `--tls-key` names the key, `--tls-cert` the certificate"
    )]
    CertificateAsKey { path: Utf8PathBuf },
    #[error("the key in `{path}` can be read by other users; run `chmod 600 {path}`")]
    Exposed { path: Utf8PathBuf },
}

/// Two files in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: Utf8PathBuf,
    pub key: Utf8PathBuf,
}

impl TlsFiles {
    pub fn read_certificate(&self) -> Result<Vec<u8>, TlsFileError> {
        let bytes = read(&self.certificate)?;
        match (contains(&bytes, CERTIFICATE), contains(&bytes, KEY)) {
            (false, true) => Err(TlsFileError::KeyAsCertificate { path: self.certificate.clone() }),
            (true, _) | (false, false) => Ok(bytes),
        }
    }

    /// A key that only its owner can read; one owned by root may be group-readable, as certificate programs make them.
    pub fn read_key(&self) -> Result<Vec<u8>, TlsFileError> {
        let facts = self.key.metadata().map_err(|error| unreadable(&self.key, &error))?;
        if !facts.is_file() {
            return Err(TlsFileError::NotAFile { path: self.key.clone() });
        }
        let bytes = read(&self.key)?;
        // Before its mode is: a certificate may be read by everyone.
        if contains(&bytes, CERTIFICATE) && !contains(&bytes, KEY) {
            return Err(TlsFileError::CertificateAsKey { path: self.key.clone() });
        }
        let forbidden = if facts.uid() == 0 { 0o037 } else { 0o077 };
        match facts.mode() & forbidden {
            0 => Ok(bytes),
            _ => Err(TlsFileError::Exposed { path: self.key.clone() }),
        }
    }

    /// Differs when either file has been written or replaced.
    pub fn stamp(&self) -> Option<Vec<u64>> {
        let of = |path: &Utf8Path| path.metadata().ok().map(|facts| stamp(&facts));
        Some([of(&self.certificate)?, of(&self.key)?].concat())
    }
}

/// How the parts of a PEM file are named in their first lines.
const CERTIFICATE: &[u8] = b"CERTIFICATE-----";
const KEY: &[u8] = b"PRIVATE KEY-----";

fn contains(bytes: &[u8], name: &[u8]) -> bool {
    bytes.windows(name.len()).any(|part| part == name)
}

fn stamp(facts: &Metadata) -> Vec<u64> {
    let number = |part: i64| u64::from_ne_bytes(part.to_ne_bytes());
    vec![
        facts.ino(),
        facts.size(),
        number(facts.mtime()),
        number(facts.mtime_nsec()),
        u64::from(facts.mode()),
    ]
}

fn read(path: &Utf8Path) -> Result<Vec<u8>, TlsFileError> {
    // The user named it, so it may be a link, as mounted secrets and renewed certificates are.
    let real = path.canonicalize_utf8().map_err(|error| unreadable(path, &error))?;
    bounded::read(&real, BYTES_MAX).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Utf8Path, error: &std::io::Error) -> TlsFileError {
    TlsFileError::Unreadable { path: path.to_owned(), detail: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_that_others_can_read_is_refused_and_a_change_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Utf8PathBuf::from(folder.path().join(name).to_str().unwrap());
        let files = TlsFiles { certificate: path("cert.pem"), key: path("key.pem") };
        assert_eq!(files.stamp(), None);
        fs::write(&files.certificate, "cert").unwrap();
        fs::write(&files.key, "key").unwrap();
        let mode = |mode| fs::set_permissions(&files.key, Permissions::from_mode(mode)).unwrap();
        mode(0o604);
        let exposed = TlsFileError::Exposed { path: files.key.clone() };
        assert_eq!(files.read_key(), Err(exposed));
        mode(0o600);
        assert_eq!(files.read_key(), Ok(b"key".to_vec()));
        let before = files.stamp();
        let pem = |name: &str| format!("-----BEGIN {name}-----\n");
        fs::write(&files.key, pem("CERTIFICATE")).unwrap();
        fs::write(&files.certificate, pem("EC PRIVATE KEY")).unwrap();
        mode(0o644);
        let swapped = TlsFileError::CertificateAsKey { path: files.key.clone() };
        assert_eq!(files.read_key(), Err(swapped));
        let swapped = TlsFileError::KeyAsCertificate { path: files.certificate.clone() };
        assert_eq!(files.read_certificate(), Err(swapped));
        let folder = TlsFiles { key: path("."), ..files.clone() };
        assert!(matches!(folder.read_key(), Err(TlsFileError::NotAFile { .. })));
        fs::write(&files.certificate, "renewed").unwrap();
        assert_ne!(files.stamp(), before);
    }
}
