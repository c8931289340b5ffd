//! Limits how many callers whose credential is not known yet are looked up at once, so that strangers who send random
//! tokens take neither the threads nor the store's connections of a server's members (G115).
//!
//! A credential that was accepted lately needs no slot: its owner never waits behind strangers. It is still looked up on
//! every request, so a revoked one is refused at once.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use workrail_model::digest::Sha256;

use crate::slots::{HolderSlot, HolderSlots};

/// Fewer than the connections that a database store has for reading, and far fewer than a server's threads.
const UNKNOWN_AT_ONCE_MAX: usize = 6;
/// How long an unknown credential waits until it is looked up. After a restart all members' are unknown, and few clients
/// send a refused call again.
pub const UNKNOWN_WAIT: Duration = Duration::from_secs(3);
/// How often to look whether there is room.
pub const UNKNOWN_POLL: Duration = Duration::from_millis(10);
/// More than a store's usable tokens with a few logins each.
const KNOWN_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// The tokens and logins that one server checks.
#[derive(Clone, Debug)]
pub struct CredentialChecks {
    unknown: HolderSlots<()>,
    /// Digests of credentials that were accepted lately, never the credentials themselves.
    known: Arc<Mutex<LruCache<Sha256, ()>>>,
}

/// The lookup of one request, counted until this is dropped.
#[derive(Debug)]
pub struct CredentialCheck {
    checks: CredentialChecks,
    _slot: Option<HolderSlot<()>>,
}

impl Default for CredentialChecks {
    fn default() -> Self {
        Self {
            unknown: HolderSlots::new(UNKNOWN_AT_ONCE_MAX),
            known: Arc::new(Mutex::new(LruCache::new(KNOWN_MAX))),
        }
    }
}

impl CredentialChecks {
    /// Begins the lookup of a request with these credentials; `None` if too many unknown ones are being looked up.
    pub fn begin<'a>(&self, credentials: impl IntoIterator<Item = &'a str>) -> Option<CredentialCheck> {
        let is_known = credentials.into_iter().any(|credential| self.is_known(credential));
        let slot = if is_known { None } else { Some(self.unknown.take(())?) };
        Some(CredentialCheck { checks: self.clone(), _slot: slot })
    }

    fn is_known(&self, credential: &str) -> bool {
        self.known().contains(&digest(credential))
    }

    fn known(&self) -> MutexGuard<'_, LruCache<Sha256, ()>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CredentialCheck {
    /// The store accepted this credential.
    pub fn accepted(&self, credential: &str) {
        self.checks.known().put(digest(credential), ());
    }

    /// The store refused it: from now on it is as unknown as any other.
    pub fn refused(&self, credential: &str) {
        self.checks.known().pop(&digest(credential));
    }
}

fn digest(credential: &str) -> Sha256 {
    Sha256::of(credential.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(checks: &CredentialChecks) -> Vec<CredentialCheck> {
        (0..UNKNOWN_AT_ONCE_MAX).map(|n| checks.begin([format!("random {n}").as_str()]).unwrap()).collect()
    }

    #[test]
    fn so_many_unknown_credentials_are_checked_at_once() {
        let checks = CredentialChecks::default();
        let mut running = unknown(&checks);
        assert!(checks.begin(["another"]).is_none(), "above the limit");
        running.pop();
        let last = checks.begin(["another"]);
        assert!(last.is_some(), "just below the limit, one that ended makes room");
        assert!(checks.begin(["a third"]).is_none(), "at the limit again");
    }

    #[test]
    fn a_credential_that_was_accepted_does_not_wait_behind_unknown_ones() {
        let checks = CredentialChecks::default();
        checks.begin(["good"]).unwrap().accepted("good");
        let running = unknown(&checks);
        let again = checks.begin(["good"]);
        assert!(again.is_some() && checks.begin(["random", "good"]).is_some());
        // Revoked meanwhile.
        again.unwrap().refused("good");
        assert!(checks.begin(["good"]).is_none());
        drop(running);
        assert!(checks.begin(["good"]).is_some());
    }

    #[test]
    fn the_number_of_known_credentials_is_bounded() {
        let checks = CredentialChecks::default();
        for n in 0..=KNOWN_MAX.get() {
            let credential = n.to_string();
            checks.begin([credential.as_str()]).unwrap().accepted(&credential);
        }
        assert_eq!(checks.known().len(), KNOWN_MAX.get());
        assert!(!checks.is_known("0") && checks.is_known("1"), "the least recent is forgotten first");
    }
}
