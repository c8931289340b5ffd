//! The passkey log of a store: bytes that are only ever appended to (G98).

use crate::keyring::KeyringError;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PasskeyLogError {
    /// Somebody else appended since the log was read.
    #[error("the passkey log has changed since it was read")]
    Changed,
    #[error("the passkey log is full")]
    Full,
    #[error(transparent)]
    File(#[from] KeyringError),
}

pub trait PasskeyLog: Send + Sync {
    /// The whole log; empty before the first key.
    fn passkey_log(&self) -> Result<Vec<u8>, PasskeyLogError>;
    /// Appends a line to the log that was read, durably. `seen_bytes` is how long it was then.
    fn append_passkey(&self, seen_bytes: u64, line: &[u8]) -> Result<(), PasskeyLogError>;
}
