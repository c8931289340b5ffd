//! Limits how many callers whose credential is not known yet are looked up at once, so that strangers who send random
//! tokens take neither the threads nor the store's connections of a server's members (G115).
//!
//! A credential that was accepted lately needs no slot: its owner never waits behind strangers. It is still looked up on
//! every request, so a revoked one is refused at once.

use std::fmt;
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
const UNKNOWN_WAIT_MAX: Duration = Duration::from_secs(3);
/// How often to look whether there is room.
const UNKNOWN_POLL: Duration = Duration::from_millis(10);
/// Several times the length of a token or a login. A longer credential is neither hashed nor looked up.
const CREDENTIAL_BYTES_MAX: usize = 512;
/// More than a store's usable tokens with a few logins each.
const KNOWN_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// A token or login that a request sent. It is hashed once, however long it waits.
#[derive(Clone, PartialEq, Eq)]
pub struct SentCredential {
    text: String,
    digest: Sha256,
}

impl SentCredential {
    /// `None` if it is longer than any token or login.
    pub fn parse(text: &str) -> Option<Self> {
        let is_short = text.len() <= CREDENTIAL_BYTES_MAX;
        is_short.then(|| Self { text: text.to_owned(), digest: Sha256::of(text.as_bytes()) })
    }

    /// The credential itself, for its lookup.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for SentCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SentCredential(..)")
    }
}

/// The tokens and logins that one server checks.
#[derive(Clone, Debug)]
pub struct CredentialChecks {
    unknown: HolderSlots<()>,
    unknown_wait: Duration,
    /// Digests of credentials that were accepted lately, never the credentials themselves.
    known: Arc<Mutex<LruCache<Sha256, ()>>>,
}

/// Whether a request's credentials are looked up now.
#[derive(Debug)]
pub enum CheckStart {
    Begun(CredentialCheck),
    /// Too many unknown ones are being looked up: try again after this time.
    Wait(Duration),
}

/// A request waited too long for the lookup of its credentials. A response to it carries this as an extension, so that
/// the server can count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyUnknown;

/// The lookup of one request, counted until this is dropped.
#[derive(Debug)]
pub struct CredentialCheck {
    checks: CredentialChecks,
    _slot: Option<HolderSlot<()>>,
}

impl Default for CredentialChecks {
    fn default() -> Self {
        Self::waiting(UNKNOWN_WAIT_MAX)
    }
}

impl CredentialChecks {
    /// Unknown credentials wait at most this long.
    pub fn waiting(unknown_wait: Duration) -> Self {
        Self {
            unknown: HolderSlots::new(UNKNOWN_AT_ONCE_MAX),
            unknown_wait,
            known: Arc::new(Mutex::new(LruCache::new(KNOWN_MAX))),
        }
    }

    /// Begins the lookup of a request with these credentials, of which one is enough. `waited` is how long
    /// the request has waited already.
    pub fn begin(
        &self,
        credentials: &[SentCredential],
        waited: Duration,
    ) -> Result<CheckStart, TooManyUnknown> {
        let begun = |slot| CheckStart::Begun(CredentialCheck { checks: self.clone(), _slot: slot });
        if self.has_known(credentials) {
            return Ok(begun(None));
        }
        match self.unknown.take(()) {
            Some(slot) => Ok(begun(Some(slot))),
            None if waited < self.unknown_wait => Ok(CheckStart::Wait(UNKNOWN_POLL)),
            None => Err(TooManyUnknown),
        }
    }

    fn has_known(&self, credentials: &[SentCredential]) -> bool {
        let known = self.known();
        credentials.iter().any(|credential| known.contains(&credential.digest))
    }

    fn known(&self) -> MutexGuard<'_, LruCache<Sha256, ()>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CredentialCheck {
    /// The store accepted this credential.
    pub fn accepted(&self, credential: &SentCredential) {
        self.checks.known().put(credential.digest, ());
    }

    /// The store refused it: from now on it is as unknown as any other.
    pub fn refused(&self, credential: &SentCredential) {
        self.checks.known().pop(&credential.digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(text: &str) -> SentCredential {
        SentCredential::parse(text).unwrap()
    }

    /// The lookup of a request that does not wait.
    fn begin(checks: &CredentialChecks, credentials: &[&str]) -> Option<CredentialCheck> {
        let credentials: Vec<_> = credentials.iter().map(|credential| sent(credential)).collect();
        match checks.begin(&credentials, UNKNOWN_WAIT_MAX) {
            Ok(CheckStart::Begun(check)) => Some(check),
            Ok(CheckStart::Wait(_)) => panic!("it has waited"),
            Err(TooManyUnknown) => None,
        }
    }

    fn unknown(checks: &CredentialChecks) -> Vec<CredentialCheck> {
        (0..UNKNOWN_AT_ONCE_MAX).map(|n| begin(checks, &[&format!("random {n}")]).unwrap()).collect()
    }

    #[test]
    fn so_many_unknown_credentials_are_checked_at_once() {
        let checks = CredentialChecks::default();
        let mut running = unknown(&checks);
        assert!(begin(&checks, &["another"]).is_none(), "above the limit");
        running.pop();
        let last = begin(&checks, &["another"]);
        assert!(last.is_some(), "just below the limit, one that ended makes room");
        assert!(begin(&checks, &["a third"]).is_none(), "at the limit again");
    }

    #[test]
    fn an_unknown_credential_waits_for_so_long() {
        let checks = CredentialChecks::default();
        let _running = unknown(&checks);
        let after = |waited| checks.begin(&[sent("another")], waited);
        for waited in [Duration::ZERO, UNKNOWN_WAIT_MAX - Duration::from_nanos(1)] {
            assert!(matches!(after(waited), Ok(CheckStart::Wait(UNKNOWN_POLL))), "{waited:?}");
        }
        assert!(matches!(after(UNKNOWN_WAIT_MAX), Err(TooManyUnknown)));
    }

    #[test]
    fn a_credential_that_was_accepted_does_not_wait_behind_unknown_ones() {
        let checks = CredentialChecks::default();
        begin(&checks, &["good"]).unwrap().accepted(&sent("good"));
        let running = unknown(&checks);
        let again = begin(&checks, &["good"]);
        assert!(again.is_some() && begin(&checks, &["random", "good"]).is_some());
        // Revoked meanwhile.
        again.unwrap().refused(&sent("good"));
        assert!(begin(&checks, &["good"]).is_none());
        drop(running);
        assert!(begin(&checks, &["good"]).is_some());
    }

    #[test]
    fn the_number_of_known_credentials_is_bounded() {
        let checks = CredentialChecks::default();
        for n in 0..=KNOWN_MAX.get() {
            let credential = n.to_string();
            begin(&checks, &[&credential]).unwrap().accepted(&sent(&credential));
        }
        assert_eq!(checks.known().len(), KNOWN_MAX.get());
        assert!(
            !checks.has_known(&[sent("0")]) && checks.has_known(&[sent("1")]),
            "the least recent goes first"
        );
    }

    /// Broke: a header of hundreds of kilobytes was hashed every 10 ms, while all others waited for the lock.
    #[test]
    fn what_is_longer_than_any_credential_is_refused_and_no_debug_output_shows_one() {
        let longest = "x".repeat(CREDENTIAL_BYTES_MAX);
        assert_eq!(sent(&longest).reveal(), longest);
        assert_eq!(SentCredential::parse(&format!("{longest}x")), None);
        assert_eq!(format!("{:?}", sent("secret")), "SentCredential(..)");
    }
}
