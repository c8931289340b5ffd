//! The signing keys, created on first use and rotated only on command (G33).

use workrail_model::keyring::Keyring;

use crate::backup::KeysCopy;
use crate::file_system::FsError;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KeyringError {
    #[error("`{path}` is accessible to others")]
    Exposed { path: String },
    #[error("`{path}` belongs to another user")]
    ForeignOwner { path: String },
    #[error("`{path}` is not valid: {problem}")]
    Invalid { path: String, problem: String },
    #[error("the keyring `{path}` has version {version}, this build reads version 1")]
    UnknownVersion { path: String, version: u64 },
    #[error("the signing keys are encrypted, and this machine has no key for them")]
    KeyNotGiven,
    #[error("the signing keys are encrypted with another key than the one on this machine, or were altered")]
    OtherKey,
    #[error("the keyring is being changed by another process")]
    Locked,
    #[error("the keyring `{path}` can be used, so it is not replaced")]
    Usable { path: String },
    #[error(transparent)]
    Io(#[from] FsError),
}

/// A keyring that was created anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedKeyring {
    pub keyring: Keyring,
    /// Where the unusable file was moved; absent if there was none.
    pub moved_to: Option<String>,
}

pub trait KeyringStore: Send + Sync {
    /// Where the keys are, for messages: a path in the data directory, or a table.
    fn location(&self) -> &'static str;
    /// The keys; created durably if there are none yet.
    fn load_or_create(&self) -> Result<Keyring, KeyringError>;
    /// The current keys, read without waiting; `None` if they do not exist yet. They may not be durable: this only
    /// tells whether `load_or_create` would return something new.
    fn peek(&self) -> Result<Option<Keyring>, KeyringError>;
    /// Makes a new current key; the old one is accepted until the next rotation.
    fn rotate(&self) -> Result<Keyring, KeyringError>;
    /// Makes a new keyring in place of one that is lost or unusable; an existing file is moved aside first. Refuses to
    /// replace a usable keyring: that one is rotated instead.
    fn replace(&self) -> Result<ReplacedKeyring, KeyringError>;
    /// The same, and also replaces keys that exist but cannot be decrypted here. Others may be using them.
    fn replace_encrypted(&self) -> Result<ReplacedKeyring, KeyringError> {
        self.replace()
    }
}

/// Importing another store's keys, so that tokens it signed are accepted here.
pub trait KeyringImport: KeyringStore {
    /// Stores the keys durably if there are none yet; existing keys are kept.
    fn adopt(&self, keys: &Keyring) -> Result<KeysCopy, KeyringError>;
}
