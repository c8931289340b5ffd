//! Activity numbers in a database: drawn without waiting, and above every earlier one after an upgrade, an import and a
//! restored backup (G7).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use workrail_model::event::Activity;
use workrail_ports::archive::SessionImport;
use workrail_ports::environment::ActivityCounter;
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore};
use workrail_store_pg::PgStore;
use workrail_testkit::history::{PlanParts, Step, plans};
use workrail_testkit::postgres::ROLE;

use support::{TestDatabase, open};

/// The schema before numbers came from a sequence.
const SCHEMA_5: [&str; 5] = [
    include_str!("../src/schema/0001.sql"),
    include_str!("../src/schema/0002.sql"),
    include_str!("../src/schema/0003.sql"),
    include_str!("../src/schema/0004.sql"),
    include_str!("../src/schema/0005.sql"),
];

fn next(store: &PgStore) -> u64 {
    store.next().unwrap().get()
}

fn newest(store: &PgStore) -> u64 {
    store.newest_activity().unwrap().get()
}

fn raise(store: &PgStore, at_least: u64) {
    store.raise_activity(Activity::new(at_least).unwrap()).unwrap();
}

/// A session with everything but its last plan.
fn begun(store: &PgStore, seed: u64) -> (Vec<PlanParts>, PlanParts) {
    let mut made = plans(seed, &[Step::Advance; 2]);
    let last = made.pop().unwrap();
    let mut locked = store.create(last.events[0].session_id).unwrap();
    made.iter().for_each(|parts| drop(locked.append(parts.plan()).unwrap()));
    (made, last)
}

#[test]
fn holders_of_sessions_draw_numbers_without_waiting_for_each_other() {
    let Some(database) = TestDatabase::new() else { return };
    let (store, other) = (open(&database.address()), open(&database.address()));
    let (_, last) = begun(&store, 1);
    let (_, others_last) = begun(&other, 2);
    let before = newest(&store);
    let mut locked = store.lock(last.events[0].session_id).unwrap();
    let mut others = other.lock(others_last.events[0].session_id).unwrap();
    assert_eq!(newest(&store), before, "a lock draws none");
    let first = next(&store);
    let second = next(&other);
    assert!(before < first && first < second, "{before} {first} {second}");
    // The second to draw is the first to commit.
    others.append(others_last.plan()).unwrap();
    locked.append(last.plan()).unwrap();
    drop((locked, others));
    assert!(next(&store) > second);
}

#[test]
fn a_number_of_a_call_that_recorded_nothing_is_not_drawn_again() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    let (_, last) = begun(&store, 1);
    let locked = store.lock(last.events[0].session_id).unwrap();
    let drawn = next(&store);
    drop(locked);
    assert!(next(&store) > drawn);
}

#[test]
fn a_raised_counter_continues_above_and_is_never_lowered() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    let other = open(&database.of_tenant("elsewhere").address());
    assert_eq!(newest(&store), 0);
    assert_eq!(next(&store), 1);
    raise(&store, 1000);
    assert_eq!(newest(&store), 1000);
    assert_eq!(next(&store), 1001);
    raise(&store, 500);
    raise(&store, 1001);
    assert_eq!(next(&store), 1002);
    assert!(next(&other) < 1000, "the other tenant imported nothing");
    raise(&other, 2);
    assert!(next(&store) > 1002);
}

#[test]
fn a_database_of_the_previous_schema_is_upgraded_with_its_numbers_and_sessions() {
    let Some(database) = TestDatabase::new() else { return };
    let (cluster, name) = (database.cluster, &database.name);
    let schema = "CREATE SCHEMA workrail; \
                  CREATE TABLE workrail.schema_version (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())";
    let versions = "INSERT INTO workrail.schema_version (version) SELECT generate_series(1, 5)";
    let steps = [&[schema], SCHEMA_5.as_slice(), &[versions]].concat().join(";\n");
    cluster.sql(name, &format!("SET ROLE {ROLE}; {steps}"));
    cluster.sql(name, "INSERT INTO workrail.activity (tenant, number) VALUES ('here', 41), ('elsewhere', 7)");
    // A session as the previous version has written it: no table of sessions has changed since.
    let made = rows_of_a_session(&database);

    let store = open(&database.address());
    assert_eq!(store.server().schema, 6);
    assert_eq!(newest(&store), 41);
    assert_eq!(next(&store), 42);
    assert_eq!(next(&open(&database.of_tenant("elsewhere").address())), 7 + 2);
    assert_eq!(next(&open(&database.of_tenant("new").address())), 3);
    let session = made[0].events[0].session_id;
    assert_eq!(store.read(session, None).unwrap().events, made[0].events);
    store.lock(session).unwrap().append(made[1].plan()).unwrap();
}

/// Copies the rows of a session from another database.
fn rows_of_a_session(target: &TestDatabase) -> Vec<PlanParts> {
    let source = TestDatabase::new().unwrap();
    let store = open(&source.address());
    let made = plans(1, &[Step::Advance]);
    store.create(made[0].events[0].session_id).unwrap().append(made[0].plan()).unwrap();
    let cluster = source.cluster;
    for table in ["content", "session", "segment", "event_key"] {
        let rows = cluster.sql(&source.name, &format!("COPY workrail.{table} TO STDOUT"));
        cluster.copy_in(&target.name, &format!("workrail.{table}"), rows.lines().map(str::to_owned));
    }
    made
}

#[test]
fn a_restored_backup_continues_above_its_numbers() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    raise(&store, 1000);
    let last = (0..3).map(|_| next(&store)).last().unwrap();
    let name = database.cluster.restored(&database.cluster.dump(&database.name));
    let restored = open(&TestDatabase { name, ..database }.address());
    assert_eq!((newest(&restored), next(&restored)), (last, last + 1));
}
