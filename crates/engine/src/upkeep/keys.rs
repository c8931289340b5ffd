//! The signing keys: which are accepted, and making a new one on command (G33).

use serde::Serialize;
use workrail_model::error::ErrorEnvelope;
use workrail_model::keyring::{Keyring, SigningKey};
use workrail_model::team::Act;
use workrail_ports::keyring::ReplacedKeyring;

use crate::token::KeyUse;
use crate::{Engine, Store, error};

/// Facts about the keys, without the keys themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Keys {
    pub current: KeyFacts,
    /// Absent until the first rotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<KeyFacts>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyFacts {
    pub fingerprint: String,
}

/// The result of making a new keyring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewKeys {
    pub keys: Keys,
    /// Where the unusable file is now, in the data directory; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
}

impl From<&SigningKey> for KeyFacts {
    fn from(key: &SigningKey) -> Self {
        Self { fingerprint: key.fingerprint() }
    }
}

impl From<&Keyring> for Keys {
    fn from(keyring: &Keyring) -> Self {
        Self { current: (&keyring.current).into(), previous: keyring.previous.as_ref().map(KeyFacts::from) }
    }
}

impl<S: Store> Engine<S> {
    /// The store's current keys; `None` for a new store, whose first write makes them.
    pub fn keys(&self) -> Result<Option<Keys>, Box<ErrorEnvelope>> {
        self.signer.refresh(KeyUse::Existing)?;
        Ok(self.signer.keyring().map(|keyring| Keys::from(&*keyring)))
    }

    /// Makes a new key for new tokens. Tokens of the previous key stay valid until the next rotation.
    pub fn rotate_keys(&self) -> Result<Keys, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        self.signer.refresh(KeyUse::CreateIfNew)?;
        let keyring = self.store.rotate().map_err(error::keyring)?;
        let keys = Keys::from(&keyring);
        self.signer.adopt(keyring);
        Ok(keys)
    }

    /// Makes a new keyring where the previous one is lost or unusable. Tokens that agents have are no longer
    /// accepted; the sessions are unchanged. Keys that exist but cannot be decrypted here are not replaced.
    pub fn new_keys(&self) -> Result<NewKeys, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        self.store.replace().map(|replaced| self.adopt_new(replaced)).map_err(error::keyring)
    }

    /// The same, and also replaces keys that cannot be decrypted here: every other machine loses them.
    pub fn new_keys_for_encrypted(&self) -> Result<NewKeys, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        self.store.replace_encrypted().map(|replaced| self.adopt_new(replaced)).map_err(error::keyring)
    }

    fn adopt_new(&self, replaced: ReplacedKeyring) -> NewKeys {
        let keys = Keys::from(&replaced.keyring);
        self.signer.adopt(replaced.keyring);
        NewKeys { keys, moved_to: replaced.moved_to }
    }
}
