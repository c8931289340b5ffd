//! Cuts the connection around a COMMIT: the writer's error says that the outcome is unknown, and repeating the plan finds
//! the record or writes it, once (G102).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use workrail_ports::session_store::{Appended, LockedSession, SessionReader, SessionStore, StoreError};
use workrail_store_pg::{DatabaseAddress, PgStore};
use workrail_testkit::history::{PlanParts, Step, plans};
use workrail_testkit::postgres::ROLE;
use workrail_testkit::proxy::{Cut, Proxy};

use support::{TestDatabase, open};

fn through(proxy: &Proxy, database: &TestDatabase) -> PgStore {
    let folder = proxy.folder().display();
    let address = format!("postgres://{ROLE}@/{}?host={folder}&tenant={}", database.name, database.tenant);
    open(&DatabaseAddress::parse(&address).unwrap())
}

/// Appends the second plan over a connection that is cut; returns the writer's error, and the result of sending the
/// same plan again.
fn appended_over(cut: Cut) -> Option<(StoreError, Appended)> {
    let database = TestDatabase::new()?;
    let proxy = Proxy::start(database.cluster.socket_folder());
    let store = through(&proxy, &database);
    let made: Vec<PlanParts> = plans(1, &[Step::AdvanceWithArtifact, Step::Advance]);
    let session = made[0].events[0].session_id;
    store.create(session).unwrap().append(made[0].plan()).unwrap();

    let mut held = store.lock(session).unwrap();
    proxy.arm(cut);
    let told = held.append(made[1].plan()).expect_err("the connection was cut");
    assert!(held.append(made[1].plan()).is_err(), "nothing more is attempted on this witness");
    drop(held);

    let again = loop {
        // The server may not have noticed yet that the connection, and with it the lock, is gone.
        match store.lock(session) {
            Ok(mut locked) => break locked.append(made[1].plan()).unwrap(),
            Err(StoreError::Locked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    store.lock(session).unwrap().append(made[2].plan()).unwrap();
    let slice = open(&database.address()).read(session, None).unwrap();
    assert!(slice.health.is_healthy(), "{:?}", slice.health);
    let expected: Vec<_> = made.into_iter().flat_map(|parts| parts.events).collect();
    assert_eq!(slice.events, expected);
    Some((told, again))
}

#[test]
fn cut_before_the_commit_arrives_the_outcome_is_unknown_and_nothing_was_recorded() {
    let Some((told, again)) = appended_over(Cut::BeforeCommit) else { return };
    assert!(matches!(told, StoreError::Uncertain(_)), "{told:?}");
    assert!(matches!(again, Appended::Committed { .. }), "{again:?}");
}

#[test]
fn cut_during_the_commit_the_same_plan_is_recorded_once() {
    let Some((told, again)) = appended_over(Cut::DuringCommit) else { return };
    assert!(matches!(told, StoreError::Uncertain(_)), "{told:?}");
    // The server carries out a COMMIT that it received, although nobody waits for the answer.
    assert_eq!(again, Appended::AlreadyRecorded);
}

#[test]
fn cut_after_the_commit_the_outcome_is_unknown_and_the_plan_was_recorded() {
    let Some((told, again)) = appended_over(Cut::AfterCommit) else { return };
    assert!(matches!(told, StoreError::Uncertain(_)), "{told:?}");
    assert_eq!(again, Appended::AlreadyRecorded);
}

#[test]
fn cut_before_the_writing_statement_nothing_was_recorded_for_certain() {
    let Some((told, again)) = appended_over(Cut::BeforeStatement) else { return };
    assert!(matches!(told, StoreError::Io(_)), "{told:?}");
    assert!(matches!(again, Appended::Committed { .. }), "{again:?}");
}

/// As after a restart of the server, or a firewall that drops idle connections.
#[test]
fn connections_that_died_while_idle_are_replaced_without_an_error() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    let made = plans(1, &[Step::Advance]);
    let session = made[0].events[0].session_id;
    store.create(session).unwrap().append(made[0].plan()).unwrap();
    let end = format!(
        "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE datname = '{}' AND usename = '{ROLE}'",
        database.name
    );
    assert_ne!(database.cluster.sql("postgres", &end), "0");
    store.lock(session).unwrap().append(made[1].plan()).unwrap();
    assert_eq!(store.sessions(), Ok(vec![session]));
}

/// Broke: each idle connection was tried in turn. After a failover to another machine, each is only given up after 15
/// seconds, so that one call took two minutes.
#[test]
fn after_a_failover_one_lost_connection_is_enough_to_connect_again() {
    const AT_ONCE: usize = 4;
    let Some(database) = TestDatabase::new() else { return };
    let proxy = Proxy::start(database.cluster.socket_folder());
    let store = through(&proxy, &database);
    let made: Vec<Vec<PlanParts>> = (0..AT_ONCE).map(|seed| plans(seed as u64, &[Step::Advance])).collect();
    for plans in &made {
        store.create(plans[0].events[0].session_id).unwrap().append(plans[0].plan()).unwrap();
    }
    // Held together, they use as many connections, which are idle afterwards.
    let held: Vec<_> = made.iter().map(|plans| store.lock(plans[0].events[0].session_id).unwrap()).collect();
    drop(held);
    proxy.fail_over();
    let session = made[0][0].events[0].session_id;
    let appended = store.lock(session).unwrap().append(made[0][1].plan()).unwrap();
    assert!(matches!(appended, Appended::Committed { .. }), "{appended:?}");
    assert_eq!(proxy.lost(), 1);
    assert_eq!(store.sessions().unwrap().len(), AT_ONCE);
    assert_eq!(proxy.lost(), 2, "one in each pool");
}
