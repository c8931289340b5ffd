//! The idempotency keys with which a run is being started in this process.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use workrail_model::digest::Sha256;

/// Lets one start at a time use a key; starts with other keys do not wait for it.
#[derive(Debug, Default)]
pub(crate) struct KeyedStarts {
    /// Digests of the keys.
    in_use: Mutex<BTreeSet<Sha256>>,
    freed: Condvar,
}

/// A key that no other start of this process uses until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldKey<'a> {
    starts: &'a KeyedStarts,
    key: Sha256,
}

impl KeyedStarts {
    /// Waits until no other start uses the key.
    pub(crate) fn hold(&self, key: Sha256) -> HeldKey<'_> {
        let mut in_use = self
            .freed
            .wait_while(self.in_use(), |in_use| in_use.contains(&key))
            .unwrap_or_else(PoisonError::into_inner);
        in_use.insert(key);
        HeldKey { starts: self, key }
    }

    /// A poisoned lock is fine: a set of digests is never half changed.
    fn in_use(&self) -> MutexGuard<'_, BTreeSet<Sha256>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldKey<'_> {
    fn drop(&mut self) {
        self.starts.in_use().remove(&self.key);
        self.starts.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn key(text: &str) -> Sha256 {
        Sha256::of(text.as_bytes())
    }

    /// Broke: one lock was held for all keys, so a start waited for every other one that had a key.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a second start at the same time")]
    fn a_key_is_held_by_one_start_and_others_do_not_wait_for_it() {
        let starts = KeyedStarts::default();
        let first = starts.hold(key("a"));
        drop(starts.hold(key("b")));
        let (sender, order) = mpsc::channel();
        std::thread::scope(|threads| {
            let waits = sender.clone();
            let starts = &starts;
            threads.spawn(move || {
                let _held = starts.hold(key("a"));
                waits.send("second").unwrap();
            });
            sender.send("first").unwrap();
            drop(first);
        });
        assert_eq!(order.iter().take(2).collect::<Vec<_>>(), ["first", "second"]);
        drop(starts.hold(key("a")));
    }
}
