//! The store's passkey log: append-only bytes (G98).

use crate::keyring::KeyringError;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PasskeyLogError {
    /// Another process has appended since the log was read.
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
    /// The whole log; empty before the first passkey is added.
    pub log: Vec<u8>,
    /// Digest of the last line, kept in a separate file: a truncated log lacks that line.
    pub head: Option<Vec<u8>>,
}

pub trait PasskeyReader: Send + Sync {
    fn passkey_log(&self) -> Result<StoredPasskeys, PasskeyLogError>;
}

pub trait PasskeyLog: PasskeyReader {
    /// Appends a line if the log is still the one that was read. The line is durable when this returns, or, if this thread
    /// holds a session, with the session's next write, or not at all if there is none.
    fn append_passkey(&self, seen: &StoredPasskeys, line: &[u8]) -> Result<(), PasskeyLogError>;
    /// Moves a damaged log aside and starts a new one with its intact part and a new line.
    fn replace_passkeys(
        &self,
        damaged: &StoredPasskeys,
        sound_bytes: usize,
        line: &[u8],
    ) -> Result<(), PasskeyLogError>;
}
