//! The signing keys: what is accepted, and a new one on command (G33).

use serde::Serialize;
use workrail_model::error::ErrorEnvelope;
use workrail_model::keyring::{Keyring, SigningKey};

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
    /// The keys of the store as they lie there.
    pub fn keys(&self) -> Result<Keys, Box<ErrorEnvelope>> {
        self.store.load_or_create().map(|keyring| Keys::from(&keyring)).map_err(error::keyring)
    }

    /// A fresh key for new tokens. Tokens of the key before it stay good until the next rotation.
    pub fn rotate_keys(&self) -> Result<Keys, Box<ErrorEnvelope>> {
        let keyring = self.store.rotate().map_err(error::keyring)?;
        let keys = Keys::from(&keyring);
        self.signer.adopt(keyring);
        Ok(keys)
    }
}
