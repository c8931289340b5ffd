//! Bytes that are shared between disk images, with a digest that is computed at most once.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::OnceLock;

#[derive(Debug, Default)]
pub(super) struct SharedBytes {
    bytes: Vec<u8>,
    digest: OnceLock<u64>,
}

impl Clone for SharedBytes {
    fn clone(&self) -> Self {
        // They are cloned only to be modified, so the digest would not stay valid anyway.
        Self::new(self.bytes.clone())
    }
}

impl SharedBytes {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, digest: OnceLock::new() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        self.digest = OnceLock::new();
        &mut self.bytes
    }

    pub(super) fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| digest_of(&self.bytes))
    }
}

/// A digest that is the same in every process, for telling states apart; not for integrity.
pub(super) fn digest_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
