//! The passkey log of a store: bytes that are only ever appended to (G98).

use crate::keyring::KeyringError;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PasskeyLogError {
    /// Another process appended since the log was read.
    #[error("the passkey log has changed since it was read")]
    Changed,
    #[error("the passkey log is full")]
    Full,
    #[error(transparent)]
    File(#[from] KeyringError),
}

/// The log as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredPasskeys {
    /// The whole log; empty before the first key.
    pub log: Vec<u8>,
    /// The digest of its last line, from a file of its own: a log that was cut off lacks that line.
    pub head: Option<Vec<u8>>,
}

pub trait PasskeyReader: Send + Sync {
    fn passkey_log(&self) -> Result<StoredPasskeys, PasskeyLogError>;
}

pub trait PasskeyLog: PasskeyReader {
    /// Appends a line to the log that was read, durably.
    fn append_passkey(&self, seen: &StoredPasskeys, line: &[u8]) -> Result<(), PasskeyLogError>;
    /// Sets a damaged log aside, and begins another one with the part of it that is sound and a line.
    fn replace_passkeys(
        &self,
        damaged: &StoredPasskeys,
        sound_bytes: usize,
        line: &[u8],
    ) -> Result<(), PasskeyLogError>;
}
