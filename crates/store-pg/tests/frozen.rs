//! PostgreSQL or a writer freezes for longer than every limit: no caller waits forever, nothing acknowledged is lost,
//! nothing is recorded twice (G118).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use workrail_ports::session_store::{Appended, LockedSession, SessionReader, SessionStore, StoreError};
use workrail_store_pg::{DatabaseAddress, PgStore};
use workrail_testkit::history::{PlanParts, Step, plans};
use workrail_testkit::postgres::{Cluster, ROLE};

use support::{TestDatabase, open};

/// A store that gives up after a second.
fn impatient(cluster: &Cluster, database: &str) -> PgStore {
    let address = format!("{}&timeout=1", cluster.address(database, ROLE, "here"));
    open(&DatabaseAddress::parse(&address).unwrap())
}

fn is_io(error: &StoreError) -> bool {
    matches!(error, StoreError::Io(_) | StoreError::Uncertain(_) | StoreError::Locked { .. })
}

fn events_of(made: Vec<PlanParts>) -> Vec<workrail_model::event::Event> {
    made.into_iter().flat_map(|parts| parts.events).collect()
}

/// Appends until it is acknowledged, like an agent that repeats the call.
fn append_at_last(store: &PgStore, parts: &PlanParts) -> Appended {
    loop {
        let session = parts.events[0].session_id;
        match store.lock(session).and_then(|mut locked| locked.append(parts.plan())) {
            Ok(appended) => return appended,
            Err(error) if is_io(&error) || error == StoreError::Busy => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Frozen before the append, while a session is locked, and while a client connects.
#[test]
fn a_frozen_server_is_given_up_and_used_again_once_it_continues() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let database = cluster.database();
    let store = impatient(&cluster, &database);
    let made = plans(1, &[Step::AdvanceWithArtifact, Step::Advance, Step::Advance]);
    let session = made[0].events[0].session_id;
    store.create(session).unwrap().append(made[0].plan()).unwrap();

    let mut held = store.lock(session).unwrap();
    cluster.freeze();
    let told = held.append(made[1].plan()).expect_err("nobody answers");
    assert!(is_io(&told), "{told:?}");
    assert!(store.read(session, None).is_err(), "readers do not wait for ever either");
    let refused = PgStore::open(
        &DatabaseAddress::parse(&format!("{}&timeout=1", cluster.address(&database, ROLE, "here"))).unwrap(),
        None,
        Box::new(workrail_testkit::fixed::SeededEntropy::new(9)),
    );
    assert!(refused.is_err());
    drop(held);
    cluster.thaw();
    append_at_last(&store, &made[1]);
    append_at_last(&store, &made[2]);

    // Frozen between a writer's lock and COMMIT: whatever it was told, repeating the plan records it once.
    let told = std::thread::scope(|scope| {
        let writer = scope.spawn(|| store.lock(session).and_then(|mut locked| locked.append(made[3].plan())));
        cluster.freeze();
        writer.join().unwrap()
    });
    cluster.thaw();
    let again = append_at_last(&store, &made[3]);
    if let Ok(Appended::Committed { .. }) = told {
        assert_eq!(again, Appended::AlreadyRecorded, "what was acknowledged is there");
    }
    let slice = impatient(&cluster, &database).read(session, None).unwrap();
    assert!(slice.health.is_healthy(), "{:?}", slice.health);
    assert_eq!(slice.events, events_of(made));
}

/// A writer that stops while it holds a session's lock, as a suspended server does, loses the lock. When it
/// continues, it overwrites nothing that others wrote.
#[test]
fn a_frozen_writer_loses_its_lock_and_overwrites_nothing() {
    let Some(database) = TestDatabase::new() else { return };
    let slow = impatient(database.cluster, &database.name);
    let made = plans(1, &[Step::Advance, Step::Advance]);
    let session = made[0].events[0].session_id;
    slow.create(session).unwrap().append(made[0].plan()).unwrap();
    let mut held = slow.lock(session).unwrap();
    // It does nothing from here on; the others wait until the server ends its transaction.
    let other = open(&database.address());
    assert!(matches!(append_at_last(&other, &made[1]), Appended::Committed { .. }));
    let told = held.append(made[1].plan()).expect_err("its connection is gone");
    assert!(is_io(&told), "{told:?}");
    drop(held);
    assert_eq!(append_at_last(&slow, &made[1]), Appended::AlreadyRecorded);
    append_at_last(&slow, &made[2]);
    assert_eq!(other.read(session, None).unwrap().events, events_of(made));
}
