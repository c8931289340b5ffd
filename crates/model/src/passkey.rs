//! Passkeys: the keys that a person enrolled, and what a decision stores of the one that signed it (G63, G97, G98).
//!
//! Everything that a later check needs is part of the record: the signed bytes, the nonce, and the public key with the
//! digest of its enrolment. So a record can be checked offline, even in another store.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv4Addr;

use data_encoding::BASE64URL_NOPAD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::Sha256;
use crate::id::{RunId, SessionId};
use crate::limits::PASSKEY_NAME_BYTES_MAX;
use crate::name::PrincipalName;
use crate::preferences::{PreferenceChange, Preferences};
use crate::public_url::{PublicUrl, Scheme};
use crate::text::BoundedText;
use crate::time::Timestamp;

/// The name that a browser ties passkeys to: the host of the console's origin, without its port, so the exact origin is
/// checked as well. A console on one machine is at `http://localhost:PORT`, a team's at `https://HOST`. `None` for
/// anything that cannot be a console.
pub fn relying_party(origin: &str) -> Option<&str> {
    let url: PublicUrl = origin.parse().ok().filter(|url: &PublicUrl| url.to_string() == origin)?;
    let host = origin.split_once("://")?.1;
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    let is_console = match url.scheme() {
        Scheme::Http => host == "localhost",
        // Browsers support passkeys only for names, not addresses.
        Scheme::Https => !host.starts_with('[') && host.parse::<Ipv4Addr>().is_err(),
    };
    is_console.then_some(host)
}

/// Bytes as base64url without padding, between 1 and `MAX` of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binary<const MAX: usize>(Vec<u8>);

/// The text or bytes are invalid or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {max} bytes in base64url without padding")]
pub struct BinaryError {
    max: usize,
}

impl<const MAX: usize> Binary<MAX> {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, BinaryError> {
        let bytes = bytes.into();
        match (1..=MAX).contains(&bytes.len()) {
            true => Ok(Self(bytes)),
            false => Err(BinaryError { max: MAX }),
        }
    }

    pub fn parse(text: &str) -> Result<Self, BinaryError> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| BinaryError { max: MAX })?;
        Self::new(bytes)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: usize> fmt::Display for Binary<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64URL_NOPAD.encode(&self.0))
    }
}

impl<const MAX: usize> fmt::Debug for Binary<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<const MAX: usize> Serialize for Binary<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Binary<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl<const MAX: usize> JsonSchema for Binary<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Binary{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[A-Za-z0-9_-]+$",
            "description": format!("Base64url without padding, at most {MAX} bytes."),
        })
    }
}

/// The id that an authenticator gives a key. WebAuthn allows up to 1,023 bytes.
pub type CredentialId = Binary<1023>;
/// An uncompressed P-256 point: 65 bytes.
pub type PublicKey = Binary<65>;
/// Drawn by the console for one decision and accepted once.
pub type Nonce = Binary<32>;
pub type KeyName = BoundedText<PASSKEY_NAME_BYTES_MAX>;
/// `http://localhost:PORT`, or the public address of a team's server: a host name has at most 253 bytes.
pub type OriginText = BoundedText<268>;

/// What an authenticator returned, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Assertion {
    pub credential_id: CredentialId,
    pub authenticator_data: Binary<1024>,
    #[serde(rename = "clientDataJSON")]
    pub client_data_json: Binary<4096>,
    /// ECDSA over P-256 with SHA-256, in DER.
    pub signature: Binary<80>,
}

/// An assertion with what its challenge was made of, next to what the person decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignedChallenge {
    pub assertion: Assertion,
    pub nonce: Nonce,
    /// The console that asked, with its port.
    pub origin: OriginText,
}

/// The key that signed, as it was enrolled in the store where the decision was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyOrigin {
    pub name: KeyName,
    pub public_key: PublicKey,
    /// The entry of that store's passkey log that enrolled it.
    pub enrolment: Sha256,
    /// How often all keys of that store had been reset before the decision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resets: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What an event keeps of the passkey that signed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PasskeyProof {
    pub signed: SignedChallenge,
    /// The run as it was called when it was signed: an import may call it otherwise.
    pub run: RunId,
    pub key: KeyOrigin,
}

/// What an event keeps of the passkey that let a run go further on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreferenceProof {
    pub signed: SignedChallenge,
    /// The session as it was called when it was signed: an import may call it otherwise.
    pub session: SessionId,
    /// What was agreed to, for every open run of the session.
    #[schemars(length(min = 1, max = 2))]
    pub changes: Vec<PreferenceChange>,
    pub key: KeyOrigin,
}

/// Preferences that a person asked for, and the passkey that agreed to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPreferences {
    pub preferences: Preferences,
    pub proof: Option<PreferenceProof>,
}

/// One line of a store's passkey log, which is only ever appended to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasskeyEntry {
    pub v: u32,
    /// The digest of the line before this one; absent in the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Sha256>,
    /// For display only (G6).
    pub at: Timestamp,
    #[serde(flatten)]
    pub change: PasskeyChange,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PasskeyChange {
    /// A key was enrolled. The first one of its owner, and the first after a reset, is trusted because nobody else is there
    /// to ask.
    #[serde(rename_all = "camelCase")]
    Enrolled {
        name: KeyName,
        /// The member of a team whose key it is; absent for the keys of a machine's user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<PrincipalName>,
        credential_id: CredentialId,
        public_key: PublicKey,
        /// What the authenticator had counted when it made the key.
        #[serde(default, skip_serializing_if = "is_zero")]
        counter: u32,
        /// The key that it takes the place of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<CredentialId>,
        /// An enrolled key agreed; absent where none was enrolled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        authorized_by: Option<SignedChallenge>,
    },
    #[serde(rename_all = "camelCase")]
    Removed { credential_id: CredentialId, authorized_by: SignedChallenge },
    /// An assertion was accepted for something that is recorded elsewhere.
    #[serde(rename_all = "camelCase")]
    Used { credential_id: CredentialId, challenge: Sha256, counter: u32 },
    /// All keys were removed at a terminal, without any of them.
    Reset {
        /// The digest of a damaged log that was set aside with it; what was sound in it comes before this line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        damaged: Option<Sha256>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_relying_party_is_the_host_of_a_console() {
        for (origin, party) in [
            ("http://localhost", "localhost"),
            ("http://localhost:4717", "localhost"),
            ("https://workrail.example.com", "workrail.example.com"),
            ("https://workrail.example.com:8443", "workrail.example.com"),
            ("https://localhost:8443", "localhost"),
        ] {
            assert_eq!(relying_party(origin), Some(party), "{origin}");
        }
        for none in [
            "http://workrail.example.com",
            "http://localhost.evil.example",
            "http://localhost:04717",
            "http://localhost:+4717",
            "http://localhost:80",
            "http://localhost:",
            "http://localhost:99999",
            "http://localhost:4717/",
            "http://127.0.0.1:4717",
            "https://workrail.example.com:443",
            "https://Workrail.example.com",
            "https://10.0.0.7",
            "https://[::1]:4717",
            "https://",
            "",
        ] {
            assert_eq!(relying_party(none), None, "{none}");
        }
    }

    #[test]
    fn bytes_round_trip_and_are_bounded() {
        let bytes = Binary::<4>::new([0xff, 0, 1]).unwrap();
        assert_eq!(serde_json::to_string(&bytes).unwrap(), "\"_wAB\"");
        assert_eq!(Binary::<4>::parse("_wAB"), Ok(bytes));
        for refused in ["", "_wAB_wAB", "_wA=", "+/AB", "_wAB\n"] {
            assert!(Binary::<4>::parse(refused).is_err(), "{refused:?}");
        }
    }
}
