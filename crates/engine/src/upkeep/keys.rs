//! The signing keys: what is accepted, and a new one on command (G33).

use serde::Serialize;
use workrail_model::error::ErrorEnvelope;
use workrail_model::keyring::{Keyring, SigningKey};
use workrail_model::team::Act;

use crate::token::FirstKeys;
use crate::{Engine, Store, error};

/// The keys without the keys.
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

/// What making a fresh keyring did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewKeys {
    pub keys: Keys,
    /// Where the file that could not be used is now, in the data directory; absent when there was none.
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
    /// The keys of the store as they are; `None` for a new store, whose first write makes them.
    pub fn keys(&self) -> Result<Option<Keys>, Box<ErrorEnvelope>> {
        self.signer.refresh(FirstKeys::DoNotMake)?;
        Ok(self.signer.keyring().map(|keyring| Keys::from(&*keyring)))
    }

    /// A fresh key for new tokens. Tokens of the key before it stay good until the next rotation.
    pub fn rotate_keys(&self) -> Result<Keys, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        self.signer.refresh(FirstKeys::Make)?;
        let keyring = self.store.rotate().map_err(error::keyring)?;
        let keys = Keys::from(&keyring);
        self.signer.adopt(keyring);
        Ok(keys)
    }

    /// A fresh keyring where the one before is lost or cannot be used. Tokens that agents have are not accepted
    /// any more; the sessions stay as they are.
    pub fn new_keys(&self) -> Result<NewKeys, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        let replaced = self.store.replace().map_err(error::keyring)?;
        let keys = Keys::from(&replaced.keyring);
        self.signer.adopt(replaced.keyring);
        Ok(NewKeys { keys, moved_to: replaced.moved_to })
    }
}
