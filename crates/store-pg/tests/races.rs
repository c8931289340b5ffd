//! Many writers with the same plan: one of them records it, the others find it recorded (G8).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use std::sync::Barrier;
use std::thread;

use workrail_model::event::EventIndex;
use workrail_ports::session_store::{Appended, LockedSession, SessionReader, SessionStore, StoreError};
use workrail_store_pg::PgStore;
use workrail_testkit::history::{PlanParts, Step, plans};
use workrail_testkit::postgres::ROLE;

use support::{TestDatabase, open};

const RACERS: usize = 16;
const ROUNDS: usize = 6;

/// Appends when it is this racer's turn. Every store has its own locks, like servers on other machines.
fn race(store: &PgStore, parts: &PlanParts) -> Appended {
    loop {
        match store.lock(parts.events[0].session_id) {
            Ok(mut locked) => return locked.append(parts.plan()).expect("the plan is appended"),
            Err(StoreError::Locked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn of_sixteen_racers_with_one_plan_one_records_it() {
    if let Some(database) = TestDatabase::new() {
        race_in(&database);
    }
}

/// Broke: a racer that waited for a lock saw the log as it was when its transaction began.
#[test]
fn the_isolation_level_of_the_role_does_not_matter() {
    for level in ["repeatable read", "serializable"] {
        let Some(database) = TestDatabase::new() else { return };
        let alter = format!(
            "ALTER ROLE {ROLE} IN DATABASE {} SET default_transaction_isolation = '{level}'",
            database.name
        );
        database.cluster.sql("postgres", &alter);
        race_in(&database);
    }
}

fn race_in(database: &TestDatabase) {
    let stores: Vec<PgStore> = (0..RACERS).map(|_| open(&database.address())).collect();
    let made = plans(1, &[Step::Advance; ROUNDS]);
    let session = made[0].events[0].session_id;
    stores[0].create(session).unwrap().append(made[0].plan()).unwrap();
    for parts in &made[1..] {
        let begin = Barrier::new(RACERS);
        let answers: Vec<Appended> = thread::scope(|scope| {
            let racers: Vec<_> = stores
                .iter()
                .map(|store| {
                    let begin = &begin;
                    scope.spawn(move || {
                        begin.wait();
                        race(store, parts)
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        let winners = answers.iter().filter(|answer| matches!(answer, Appended::Committed { .. })).count();
        assert_eq!(winners, 1);
    }
    let slice = open(&database.address()).read(session, None).unwrap();
    assert!(slice.health.is_healthy());
    let expected: Vec<_> = made.into_iter().flat_map(|parts| parts.events).collect();
    assert_eq!(slice.events, expected);
}

/// The lock ends with an append; a second append under the same witness must not overwrite what came between.
#[test]
fn a_witness_that_was_overtaken_after_its_append_cannot_append() {
    let Some(database) = TestDatabase::new() else { return };
    let (slow, fast) = (open(&database.address()), open(&database.address()));
    let made = plans(1, &[Step::Advance, Step::Advance]);
    let session = made[0].events[0].session_id;
    slow.create(session).unwrap().append(made[0].plan()).unwrap();

    let mut held = slow.lock(session).unwrap();
    held.append(made[1].plan()).unwrap();
    fast.lock(session).unwrap().append(made[2].plan()).unwrap();
    assert_eq!(held.append(made[2].plan()), Ok(Appended::AlreadyRecorded));
    let overtaken = plans(1, &[Step::Advance, Step::Blocked]).swap_remove(2);
    assert_eq!(overtaken.events[0].event_index, made[2].events[0].event_index);
    let refused = held.append(overtaken.plan());
    assert!(
        matches!(refused, Err(StoreError::Locked { .. } | StoreError::DedupeConflict { .. })),
        "{refused:?}"
    );
    drop(held);
    let events = slow.read(session, None).unwrap().events;
    assert_eq!(events.len(), made.iter().map(|parts| parts.events.len()).sum::<usize>());
    assert_eq!(events.last().map(|event| event.event_index.plus(1)), EventIndex::new(events.len() as u64));
}
