//! Encrypts the signing keys before they become rows, with a key that the database never sees (G119).
//!
//! A reader of the tables, of a backup or of the database's disk then has no key that signs tokens.

use std::fmt;

use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::address::TenantName;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// The key that encrypts the signing keys. Never printed.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct WrappingKey([u8; KEY_BYTES]);

impl fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrappingKey(..)")
    }
}

/// Which of the two keys it is, so that one cannot be swapped for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeySlot {
    Current,
    Previous,
}

impl WrappingKey {
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    pub(crate) fn wrap(
        &self,
        tenant: &TenantName,
        slot: KeySlot,
        nonce: [u8; NONCE_BYTES],
        key: &[u8],
    ) -> Option<Vec<u8>> {
        let payload = Payload { msg: key, aad: &about(tenant, slot) };
        let sealed = XChaCha20Poly1305::new(&self.0.into()).encrypt(&XNonce::from(nonce), payload).ok()?;
        Some([nonce.as_slice(), &sealed].concat())
    }

    /// `None` if it was wrapped with another key, for another tenant or slot, or was altered.
    pub(crate) fn unwrap(&self, tenant: &TenantName, slot: KeySlot, wrapped: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = wrapped.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: sealed, aad: &about(tenant, slot) };
        XChaCha20Poly1305::new(&self.0.into()).decrypt(&XNonce::from(*nonce), payload).ok()
    }
}

/// What the encryption binds a key to.
fn about(tenant: &TenantName, slot: KeySlot) -> Vec<u8> {
    let slot = match slot {
        KeySlot::Current => "current",
        KeySlot::Previous => "previous",
    };
    format!("workrail/keyring/{}/{slot}", tenant.as_str()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G119: encrypted and authenticated, bound to tenant and key slot.
    #[test]
    fn a_wrapped_key_opens_only_with_its_key_tenant_and_slot() {
        let tenant = |name: &str| TenantName::parse(name).expect("a name");
        let (one, other) = (WrappingKey::new([1; 32]), WrappingKey::new([2; 32]));
        let wrapped = one.wrap(&tenant("a"), KeySlot::Current, [7; 24], &[9; 32]).expect("it is encrypted");
        assert!(!wrapped.windows(4).any(|window| window == [9; 4]));
        assert_eq!(one.unwrap(&tenant("a"), KeySlot::Current, &wrapped), Some(vec![9; 32]));
        assert_eq!(other.unwrap(&tenant("a"), KeySlot::Current, &wrapped), None);
        assert_eq!(one.unwrap(&tenant("b"), KeySlot::Current, &wrapped), None);
        assert_eq!(one.unwrap(&tenant("a"), KeySlot::Previous, &wrapped), None);
        for at in 0..wrapped.len() {
            let mut altered = wrapped.clone();
            altered[at] ^= 1;
            assert_eq!(one.unwrap(&tenant("a"), KeySlot::Current, &altered), None);
        }
    }
}
