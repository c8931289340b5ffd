//! SHA-256 digests as `sha256:<64 hex>`, and the typed references made of them (G3).

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;

/// A string that is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be `sha256:` and 64 lowercase hexadecimal digits")]
pub struct DigestError;

/// The SHA-256 of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The digest of several parts, each preceded by its length so that no two splits collide.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = sha2::Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix("sha256:").ok_or(DigestError)?;
        Self::from_hex(hex)
    }

    /// From 64 lowercase hexadecimal digits, the form used in file names.
    pub fn from_hex(hex: &str) -> Result<Self, DigestError> {
        let mut bytes = [0; 32];
        if hex.len() != 64 || data_encoding::HEXLOWER.decode_mut(hex.as_bytes(), &mut bytes).is_err() {
            return Err(DigestError);
        }
        Ok(Self(bytes))
    }

    pub fn hex(&self) -> String {
        data_encoding::HEXLOWER.encode(&self.0)
    }

    /// From the result of `as_bytes`.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// An incremental digest, for bytes that arrive in pieces.
#[derive(Clone, Debug, Default)]
pub struct Sha256Stream {
    hasher: sha2::Sha256,
    bytes: u64,
}

impl Sha256Stream {
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The digest of everything so far, and its length in bytes.
    pub fn finish(self) -> (Sha256, u64) {
        (Sha256(self.hasher.finalize().into()), self.bytes)
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Sha256 {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Sha256".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^sha256:[0-9a-f]{64}$" })
    }
}

macro_rules! typed_digest {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(inline)]
        pub struct $name(Sha256);

        impl $name {
            pub fn new(digest: Sha256) -> Self {
                Self(digest)
            }

            pub fn of(bytes: &[u8]) -> Self {
                Self(Sha256::of(bytes))
            }

            pub fn digest(&self) -> Sha256 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

typed_digest!(/// Names an execution snapshot by its canonical bytes.
    SnapshotRef);
typed_digest!(/// Names a compiled workflow by its canonical bytes; the execution authority of a run.
    WorkflowHash);
typed_digest!(/// Names an artifact, a stored reply or a long note by its bytes.
    BlobRef);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_vector() {
        assert_eq!(
            Sha256::of(b"abc").to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn upper_case_and_wrong_length_are_refused() {
        let good = Sha256::of(b"x").to_string();
        assert_eq!(Sha256::parse(&good), Ok(Sha256::of(b"x")));
        assert_eq!(Sha256::parse(&good.to_uppercase()), Err(DigestError));
        assert_eq!(Sha256::parse(&good[..70]), Err(DigestError));
        assert_eq!(Sha256::parse("sha256:"), Err(DigestError));
    }

    #[test]
    fn parts_do_not_collide_when_split_elsewhere() {
        assert_ne!(Sha256::of_parts(&[b"ab", b"c"]), Sha256::of_parts(&[b"a", b"bc"]));
    }
}
