//! The signing keys, created on first use and rotated only on command (G33).

use workrail_model::keyring::Keyring;

use crate::backup::KeysCopy;
use crate::file_system::FsError;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KeyringError {
    #[error("`{path}` can be used by other users")]
    Exposed { path: String },
    #[error("`{path}` belongs to another user")]
    ForeignOwner { path: String },
    #[error("the keyring `{path}` is not valid: {problem}")]
    Invalid { path: String, problem: String },
    #[error("the keyring `{path}` has version {version}, this build reads version 1")]
    UnknownVersion { path: String, version: u64 },
    #[error("the keyring is being changed by another process")]
    Locked,
    #[error("the keyring `{path}` can be used, so it is not replaced")]
    Usable { path: String },
    #[error(transparent)]
    Io(#[from] FsError),
}

/// A keyring that was made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedKeyring {
    pub keyring: Keyring,
    /// Where the unusable file is now; absent when there was none.
    pub moved_to: Option<String>,
}

pub trait KeyringStore: Send + Sync {
    /// The keys; made, durably, when there are none yet.
    fn load_or_create(&self) -> Result<Keyring, KeyringError>;
    /// The keys as they are there, read without waiting for anybody; `None` before they were made. What is read
    /// may not be durable yet: it tells whether `load_or_create` has news.
    fn peek(&self) -> Result<Option<Keyring>, KeyringError>;
    /// A fresh current key; the old one is accepted until the next rotation.
    fn rotate(&self) -> Result<Keyring, KeyringError>;
    /// A fresh keyring in place of one that is lost or unusable; a file that is there is moved aside first. A
    /// keyring that can be used is refused: it is rotated, not replaced.
    fn replace(&self) -> Result<ReplacedKeyring, KeyringError>;
}

/// Taking over the keys of another store, so that the tokens that it signed are accepted here.
pub trait KeyringImport: KeyringStore {
    /// Stores the keys, durably, where there are none yet; other keys stay.
    fn adopt(&self, keys: &Keyring) -> Result<KeysCopy, KeyringError>;
}
