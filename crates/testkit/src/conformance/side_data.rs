//! What is stored next to the log: keys, the activity number, the projection cache.

use workrail_model::keyring::Keyring;
use workrail_ports::cache::{CachedProjection, ProjectionCache};
use workrail_ports::environment::ActivityCounter;
use workrail_ports::keyring::{KeyringError, KeyringStore};

use super::{StoreUnderTest, append, create, ok, session_of};
use crate::history::{Step, plans};

fn keys(result: Result<Keyring, KeyringError>) -> Keyring {
    result.unwrap_or_else(|error| panic!("the keys are usable: {error}"))
}

/// Tokens survive a restart and one rotation, but not two (G33).
pub fn keys_are_made_once_and_rotate_by_one(subject: &impl StoreUnderTest) {
    let (store, other) = (subject.open(), subject.open());
    let first = keys(store.load_or_create());
    assert_eq!(first.previous, None);
    assert_eq!(keys(store.load_or_create()), first);
    assert_eq!(keys(other.load_or_create()), first);
    drop(store);

    let store = subject.open();
    assert_eq!(keys(store.load_or_create()), first);
    let second = keys(store.rotate());
    assert_ne!(second.current, first.current);
    assert_eq!(second.previous, Some(first.current.clone()));
    assert_eq!(keys(other.load_or_create()), second);

    let third = keys(other.rotate());
    assert_eq!(third.previous, Some(second.current));
    assert!(third.in_order().all(|key| *key != first.current), "the oldest key is gone");
    drop((store, other));
    assert_eq!(keys(subject.open().load_or_create()), third);
}

/// Numbers rank sessions by recency, so no number is ever given twice (G7).
pub fn activity_increases_across_instances_and_restarts(subject: &impl StoreUnderTest) {
    let mut last = None;
    let mut next = |counter: &dyn ActivityCounter| {
        let number = ok(counter.next());
        assert!(last < Some(number), "{number:?} after {last:?}");
        last = Some(number);
    };
    let (store, other) = (subject.open(), subject.open());
    for _ in 0..3 {
        next(&store);
        next(&other);
    }
    drop((store, other));
    let store = subject.open();
    next(&store);
    next(&store);
}

/// A cache may forget, but never invent (G18).
pub fn the_cache_gives_back_what_was_put_or_nothing(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let made = plans(1, &[Step::Advance]);
    let session = session_of(&made[0]);
    let cursor = create(&store, &made[0]);
    assert_eq!(store.get(session, 1), None);

    let put = |projection: &CachedProjection| {
        store.put(session, projection).unwrap_or_else(|error| panic!("{error}"));
    };
    let old = CachedProjection { version: 1, cursor, state: b"{\"old\":1}\n\x00\xff".to_vec() };
    put(&old);
    assert_eq!(store.get(session, 1), Some(old));
    assert_eq!(store.get(session, 2), None, "another version is discarded");

    let new = CachedProjection { version: 1, cursor: append(&store, &made[1]), state: Vec::new() };
    put(&new);
    assert_eq!(store.get(session, 1), Some(new.clone()));
    let reopened = subject.open();
    assert!(reopened.get(session, 1).is_none_or(|cached| cached == new));
    assert_eq!(store.get(session_of(&plans(2, &[])[0]), 1), None, "each session has its own");

    for _ in 0..2 {
        store.invalidate(session).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(store.get(session, 1), None);
    }
    assert_eq!(reopened.get(session, 1), None);
}
