//! Time, randomness, activity and keys that are the same in every run of a test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use workrail_model::digest::Sha256;
use workrail_model::event::Activity;
use workrail_model::keyring::{Keyring, SigningKey};
use workrail_model::time::Timestamp;
use workrail_ports::environment::{ActivityCounter, Clock, Entropy, EntropyError};
use workrail_ports::keyring::{KeyringError, KeyringStore, ReplacedKeyring};
use workrail_ports::session_store::StoreError;

/// Locks even after a panic elsewhere: one failed test must not make others fail.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A clock that shows the same time until it is set.
#[derive(Debug)]
pub struct FixedClock(Mutex<Timestamp>);

impl FixedClock {
    pub fn new(now: Timestamp) -> Self {
        Self(Mutex::new(now))
    }

    pub fn set(&self, now: Timestamp) {
        *lock(&self.0) = now;
    }
}

/// The instant at which every fixed clock starts.
pub fn epoch() -> Timestamp {
    Timestamp::parse("2026-01-01T00:00:00.000Z").expect("the literal has the only valid form of a timestamp")
}

impl Default for FixedClock {
    fn default() -> Self {
        Self::new(epoch())
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        lock(&self.0).clone()
    }
}

/// Pseudo-random bytes that depend only on the seed and on how many were drawn before.
#[derive(Debug)]
pub struct SeededEntropy {
    seed: u64,
    drawn: AtomicU64,
}

impl SeededEntropy {
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: AtomicU64::new(0) }
    }

    /// The next `N` bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.draw(&mut bytes);
        bytes
    }

    /// SHA-256 in counter mode; each draw has its own stream, so that threads only change the order.
    fn draw(&self, bytes: &mut [u8]) {
        let draw = self.drawn.fetch_add(1, Ordering::Relaxed);
        for (block, chunk) in (0_u64..).zip(bytes.chunks_mut(32)) {
            let parts: [&[u8]; 4] = [
                b"workrail/testkit/entropy",
                &self.seed.to_be_bytes(),
                &draw.to_be_bytes(),
                &block.to_be_bytes(),
            ];
            chunk.copy_from_slice(&Sha256::of_parts(&parts).as_bytes()[..chunk.len()]);
        }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        self.draw(bytes);
        Ok(())
    }
}

/// Counts 1, 2, 3.
#[derive(Debug, Default)]
pub struct SequentialActivity(AtomicU64);

impl ActivityCounter for SequentialActivity {
    fn next(&self) -> Result<Activity, StoreError> {
        Ok(activity(self.0.fetch_add(1, Ordering::Relaxed) + 1))
    }
}

/// The activity with this number.
pub(crate) fn activity(number: u64) -> Activity {
    Activity::new(number).expect("a test never counts up to 2^53")
}

/// Keys derived from a seed; each rotation gives the next one of the sequence.
#[derive(Debug)]
pub struct FixedKeyring {
    entropy: SeededEntropy,
    keyring: Mutex<Keyring>,
}

impl FixedKeyring {
    pub fn new(seed: u64) -> Self {
        let entropy = SeededEntropy::new(seed);
        let current = SigningKey::new(entropy.bytes());
        Self { entropy, keyring: Mutex::new(Keyring { current, previous: None }) }
    }
}

impl KeyringStore for FixedKeyring {
    fn location(&self) -> &'static str {
        "memory"
    }

    fn load_or_create(&self) -> Result<Keyring, KeyringError> {
        Ok(lock(&self.keyring).clone())
    }

    fn peek(&self) -> Result<Option<Keyring>, KeyringError> {
        Ok(Some(lock(&self.keyring).clone()))
    }

    fn rotate(&self) -> Result<Keyring, KeyringError> {
        let mut keyring = lock(&self.keyring);
        *keyring = keyring.clone().rotated(SigningKey::new(self.entropy.bytes()));
        Ok(keyring.clone())
    }

    fn replace(&self) -> Result<ReplacedKeyring, KeyringError> {
        Err(KeyringError::Usable { path: "keyring".to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_bytes_and_draws_differ() {
        let (one, same, other) = (SeededEntropy::new(1), SeededEntropy::new(1), SeededEntropy::new(2));
        let (first, second): ([u8; 80], [u8; 80]) = (one.bytes(), one.bytes());
        assert_eq!(first, same.bytes());
        assert_ne!(first, second);
        assert_ne!(first, other.bytes());
    }

    #[test]
    fn activity_increases() {
        let counter = SequentialActivity::default();
        assert!(counter.next().unwrap() < counter.next().unwrap());
    }

    #[test]
    fn rotation_keeps_one_previous_key() {
        let store = FixedKeyring::new(7);
        let first = store.load_or_create().unwrap();
        let second = store.rotate().unwrap();
        assert_eq!(second.previous, Some(first.current));
        assert_eq!(store.load_or_create().unwrap(), second);
    }
}
