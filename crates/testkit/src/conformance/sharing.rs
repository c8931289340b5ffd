//! Sharing: one writer at a time, readers at any time, and all of them see the same log.

use std::sync::Barrier;
use std::thread;

use workrail_model::digest::Sha256;
use workrail_model::event::{Event, EventIndex};
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore, StoreError};

use super::{StoreUnderTest, all_events, append, committed, create, ok, refusal, session_of};
use crate::history::{History, PlanParts, Step, plans};

pub fn a_reopened_store_reads_the_same(subject: &impl StoreUnderTest) {
    let made = plans(1, &[Step::Advance, Step::AdvanceWithArtifact, Step::Blocked]);
    let session = session_of(&made[0]);
    let store = subject.open();
    create(&store, &made[0]);
    for parts in &made[1..] {
        append(&store, parts);
    }
    let before = ok(store.read(session, None));
    drop(store);

    let store = subject.open();
    assert_eq!(ok(store.read(session, None)), before);
    let locked = ok(store.lock(session));
    assert_eq!(locked.cursor(), before.cursor);
    assert_eq!(ok(locked.events_since(None)).events, before.events);
}

/// A reader asks only for what is new, so that long histories are read once (G18).
pub fn a_cursor_reads_only_what_came_since(subject: &impl StoreUnderTest) {
    let (writer, reader) = (subject.open(), subject.open());
    let made = plans(1, &[Step::Advance, Step::AdvanceWithArtifact]);
    let session = session_of(&made[0]);
    let mut cursors = vec![Cursor::start(), create(&writer, &made[0])];
    for parts in &made[1..] {
        cursors.push(append(&writer, parts));
    }
    let all: Vec<Event> = made.iter().flat_map(|parts| parts.events.clone()).collect();
    for since in &cursors {
        let slice = ok(reader.read(session, Some(since)));
        assert!(slice.continues);
        assert_eq!(slice.events, all[since.next_event_index.get() as usize..]);
        assert_eq!(Some(&slice.cursor), cursors.last());
    }
}

/// A cursor that does not match this log gets all of it, and the answer says so.
pub fn a_foreign_cursor_reads_everything_anew(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let made = plans(1, &[Step::Advance]);
    let session = session_of(&made[0]);
    let first = create(&store, &made[0]);
    let last = append(&store, &made[1]);
    let other = create(&store, &plans(2, &[])[0]);

    let past_the_end = Cursor { manifest_bytes: last.manifest_bytes + 4096, ..last };
    let other_group = Cursor { anchor: Sha256::of(b"other"), ..first };
    let whole = ok(store.read(session, None));
    for foreign in [other, past_the_end, other_group] {
        let slice = ok(store.read(session, Some(&foreign)));
        assert!(!slice.continues, "{foreign:?}");
        assert_eq!((slice.events, slice.cursor), (whole.events.clone(), whole.cursor));
    }
}

/// At most one writer, in this process or another; dropping the lock admits the next one (G15).
pub fn a_held_lock_excludes_other_writers(subject: &impl StoreUnderTest) {
    let (store, other) = (subject.open(), subject.open());
    let made = plans(1, &[Step::Advance]);
    let session = session_of(&made[0]);

    let mut creating = ok(store.create(session));
    assert_eq!(refusal(other.create(session)), StoreError::Locked { session });
    committed(ok(creating.append(made[0].plan())));
    drop(creating);

    let mut held = ok(store.lock(session));
    assert_eq!(refusal(store.lock(session)), StoreError::Locked { session });
    assert_eq!(refusal(other.lock(session)), StoreError::Locked { session });
    let error = refusal(other.create(session));
    assert!(matches!(error, StoreError::Locked { .. } | StoreError::AlreadyExists { .. }), "{error:?}");
    // Another session has another lock.
    create(&other, &plans(2, &[])[0]);
    committed(ok(held.append(made[1].plan())));
    drop(held);
    ok(other.lock(session));
}

pub fn an_unknown_session_is_not_found(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let session = SessionId::from_bits([7; 10]);
    assert_eq!(refusal(store.lock(session)), StoreError::NotFound { session });
    assert_eq!(refusal(store.read(session, None)), StoreError::NotFound { session });
    assert_eq!(store.sessions(), Ok(Vec::new()));
}

/// Nothing exists until the first append: an abandoned start leaves no session behind.
pub fn a_created_session_without_events_does_not_exist(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let parts = &plans(1, &[])[0];
    let session = session_of(parts);
    for _ in 0..2 {
        let locked = ok(store.create(session));
        assert_eq!(refusal(store.read(session, None)), StoreError::NotFound { session });
        drop(locked);
        assert_eq!(refusal(store.lock(session)), StoreError::NotFound { session });
        assert_eq!(refusal(store.read(session, None)), StoreError::NotFound { session });
        assert_eq!(store.sessions(), Ok(Vec::new()));
    }
    create(&store, parts);
}

pub fn an_existing_session_is_not_created_again(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let parts = &plans(1, &[])[0];
    let session = session_of(parts);
    create(&store, parts);
    for store in [&store, &subject.open()] {
        assert_eq!(refusal(store.create(session)), StoreError::AlreadyExists { session });
    }
    // The refused call holds no lock.
    ok(store.lock(session));
}

pub fn sessions_are_sorted_and_have_events(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let mut expected = Vec::new();
    for seed in 0..12 {
        let parts = &plans(seed, &[])[0];
        create(&store, parts);
        expected.push(session_of(parts));
    }
    let empty = SessionId::from_bits([0; 10]);
    drop(ok(store.create(empty)));
    expected.sort();
    assert_eq!(store.sessions(), Ok(expected.clone()));
    assert_eq!(subject.open().sessions(), Ok(expected));
}

/// A reader sees what is committed, even while others write (G16).
pub fn readers_do_not_wait_for_writers(subject: &impl StoreUnderTest) {
    let (store, reader) = (subject.open(), subject.open());
    let made = plans(1, &[Step::Advance]);
    let session = session_of(&made[0]);
    let first = create(&store, &made[0]);

    let mut held = ok(store.lock(session));
    for instance in [&store, &reader] {
        assert_eq!(all_events(instance, session), made[0].events);
        assert_eq!(instance.sessions(), Ok(vec![session]));
    }
    committed(ok(held.append(made[1].plan())));
    for instance in [&store, &reader] {
        let slice = ok(instance.read(session, Some(&first)));
        assert!(slice.continues);
        assert_eq!(slice.events, made[1].events);
    }
}

/// What one process appended, the other finds when it locks, and continues from there.
pub fn two_instances_take_turns(subject: &impl StoreUnderTest) {
    let stores = [subject.open(), subject.open()];
    let made = plans(1, &[Step::Advance; 6]);
    let session = session_of(&made[0]);
    let mut cursor = create(&stores[0], &made[0]);
    for (turn, parts) in made[1..].iter().enumerate() {
        let mut locked = ok(stores[(turn + 1) % 2].lock(session));
        assert_eq!(locked.cursor(), cursor);
        cursor = committed(ok(locked.append(parts.plan())));
    }
    let all: Vec<Event> = made.into_iter().flat_map(|parts| parts.events).collect();
    for store in &stores {
        assert_eq!(all_events(store, session), all);
    }
}

pub fn many_plans_with_reads_between_stay_in_order(subject: &impl StoreUnderTest) {
    let (store, reader) = (subject.open(), subject.open());
    let turns = [
        Step::Advance,
        Step::AdvanceWithArtifact,
        Step::Blocked,
        Step::Advance,
        Step::Checkpoint,
        Step::Fork,
        Step::Advance,
    ];
    let script: Vec<Step> = turns.into_iter().cycle().take(50).collect();
    let made = plans(1, &script);
    let session = session_of(&made[0]);
    create(&store, &made[0]);
    let mut seen = ok(reader.read(session, None));
    for (number, parts) in made[1..].iter().enumerate() {
        append(&store, parts);
        if number % 3 == 0 {
            let news = ok(reader.read(session, Some(&seen.cursor)));
            assert!(news.continues);
            seen.events.extend(news.events);
            seen.cursor = news.cursor;
        }
    }
    let news = ok(reader.read(session, Some(&seen.cursor)));
    seen.events.extend(news.events);
    let all: Vec<Event> = made.into_iter().flat_map(|parts| parts.events).collect();
    assert_eq!(seen.events, all);
    assert_eq!(all_events(&subject.open(), session), all);
}

/// Writers that read the end of the log under the lock never overwrite each other.
pub fn writers_of_many_threads_lose_nothing(subject: &impl StoreUnderTest) {
    const WRITERS: usize = 4;
    const PLANS_EACH: usize = 5;
    let mut history = History::new(1);
    let root = history.root();
    let store = subject.open();
    create(&store, &history.start());
    let made: Vec<PlanParts> = (0..WRITERS * PLANS_EACH).map(|_| history.checkpoint(root).0).collect();

    let begin = Barrier::new(WRITERS);
    let stores: Vec<_> = (0..WRITERS).map(|_| subject.open()).collect();
    thread::scope(|scope| {
        for (store, share) in stores.iter().zip(made.chunks(PLANS_EACH)) {
            let begin = &begin;
            scope.spawn(move || {
                begin.wait();
                for parts in share {
                    append_in_turn(store, parts);
                }
            });
        }
    });

    let events = all_events(&store, history.session());
    for (position, event) in events.iter().enumerate() {
        assert_eq!(Some(event.event_index), EventIndex::new(position as u64));
    }
    for event in made.iter().flat_map(|parts| &parts.events) {
        assert!(events.iter().any(|found| found.dedupe_key == event.dedupe_key), "{:?}", event.dedupe_key);
    }
}

fn append_in_turn(store: &impl SessionStore, parts: &PlanParts) {
    // Far more than any turn needs: a lock that is never released fails the test instead of hanging it.
    const TRIES_MAX: u32 = 1_000_000;
    for _ in 0..TRIES_MAX {
        match store.lock(session_of(parts)) {
            Ok(mut locked) => {
                let moved = parts.moved_to(locked.cursor().next_event_index);
                committed(ok(locked.append(moved.plan())));
                return;
            }
            Err(StoreError::Locked { .. }) => thread::yield_now(),
            Err(error) => panic!("the store refused: {error}"),
        }
    }
    panic!("the lock was never free");
}
