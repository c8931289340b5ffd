//! Signing keys: one current, at most one previous, wiped from memory when dropped (G33). Also the secret of the
//! HTTP transport (G75).

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
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

    /// Distinguishes keys without revealing them: the beginning of a one-way digest.
    pub fn fingerprint(&self) -> String {
        Sha256::of_parts(&[b"workrail/key-fingerprint", &self.0]).hex()[..16].to_owned()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// The accepted keys, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyring {
    pub current: SigningKey,
    pub previous: Option<SigningKey>,
}

impl Keyring {
    /// The current key becomes the previous one; the old previous key is no longer accepted.
    pub fn rotated(self, fresh: SigningKey) -> Self {
        Self { current: fresh, previous: Some(self.current) }
    }

    /// Detects a damaged key in a stored keyring: a truncated digest of both keys, from which neither can be derived.
    pub fn check(&self) -> [u8; 8] {
        let previous: &[u8] = self.previous.as_ref().map_or(&[], |key| key.bytes());
        let digest = Sha256::of_parts(&[b"workrail/keyring-check", self.current.bytes(), previous]);
        *digest.as_bytes().first_chunk().expect("a digest has 32 bytes")
    }

    pub fn in_order(&self) -> impl Iterator<Item = &SigningKey> {
        std::iter::once(&self.current).chain(&self.previous)
    }
}

/// What a client of the HTTP transport sends to prove that it belongs to this user: 32 random bytes in base64url.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct HttpSecret(String);

impl HttpSecret {
    pub fn new(mut bytes: [u8; 32]) -> Self {
        let text = BASE64URL_NOPAD.encode(&bytes);
        bytes.zeroize();
        Self(text)
    }

    /// Parses the secret; `None` for anything that is not 32 bytes in base64url.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self::new)
    }

    /// The secret itself: for the client's settings and for the one command that shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Constant-time comparison, so that the time taken reveals nothing about the secret.
    pub fn is(&self, sent: &str) -> bool {
        let (own, sent) = (self.0.as_bytes(), sent.as_bytes());
        let differences = own.iter().zip(sent).fold(0, |seen, (a, b)| std::hint::black_box(seen | (a ^ b)));
        own.len() == sent.len() && differences == 0
    }
}

impl fmt::Debug for HttpSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_secret_is_only_itself() {
        let secret = HttpSecret::new([7; 32]);
        assert_eq!(HttpSecret::parse(secret.reveal()), Some(secret.clone()));
        assert!(secret.is(secret.reveal()));
        for other in [
            "",
            "x",
            &secret.reveal()[1..],
            &format!("{}A", secret.reveal()),
            HttpSecret::new([8; 32]).reveal(),
        ] {
            assert!(!secret.is(other), "{other:?}");
        }
        for bad in ["", "x", "not base64!", "QUJD"] {
            assert_eq!(HttpSecret::parse(bad), None, "{bad:?}");
        }
        assert_eq!(format!("{secret:?}"), "HttpSecret(..)");
    }
}
