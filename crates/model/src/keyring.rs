//! Signing keys: one current, at most one previous, wiped from memory when dropped (G33).

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::digest::Sha256;

/// 32 random bytes. Never printed.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct SigningKey([u8; 32]);

impl SigningKey {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Tells keys apart without showing them: the beginning of a digest, which leads back to no key.
    pub fn fingerprint(&self) -> String {
        Sha256::of_parts(&[b"workrail/key-fingerprint", &self.0]).hex()[..16].to_owned()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// The keys that are accepted, in the order they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyring {
    pub current: SigningKey,
    pub previous: Option<SigningKey>,
}

impl Keyring {
    /// The current key becomes the previous one; the former previous key stops being accepted.
    pub fn rotated(self, fresh: SigningKey) -> Self {
        Self { current: fresh, previous: Some(self.current) }
    }

    pub fn in_order(&self) -> impl Iterator<Item = &SigningKey> {
        std::iter::once(&self.current).chain(&self.previous)
    }
}
