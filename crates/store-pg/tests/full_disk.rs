//! The database's disk is full: what cannot be recorded is refused, and what was acknowledged stays (G102).

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use workrail_ports::session_store::{Appended, LockedSession, SessionReader, SessionStore, StoreError};
use workrail_store_pg::DatabaseAddress;
use workrail_testkit::history::{Step, plans};
use workrail_testkit::postgres::{Cluster, ROLE};

use support::open;

const STEPS: usize = 200;

#[test]
fn a_full_disk_refuses_without_loss_and_with_space_the_same_plan_is_recorded() {
    let settings = ["max_wal_size=32MB", "min_wal_size=32MB", "autovacuum=off"];
    let Some(cluster) = Cluster::start_on_disk_of("160m", &settings) else { return };
    let database = cluster.database();
    let address = DatabaseAddress::parse(&cluster.address(&database, ROLE, "here")).unwrap();
    let store = open(&address);
    let made = plans(1, &[Step::AdvanceWithArtifact; STEPS]);
    let session = made[0].events[0].session_id;
    store.create(session).unwrap().append(made[0].plan()).unwrap();
    cluster.fill_disk(&database);

    // Half-empty pages still take some rows.
    let refused = made[1..].iter().position(|parts| {
        match store.lock(session).and_then(|mut locked| locked.append(parts.plan())) {
            Ok(Appended::Committed { .. }) => false,
            Ok(Appended::AlreadyRecorded) => panic!("nothing was sent twice"),
            Err(StoreError::Io(_)) => true,
            Err(error) => panic!("{error:?}"),
        }
    });
    let refused = refused.expect("the disk is full") + 1;
    let slice = store.read(session, None).unwrap();
    assert!(slice.health.is_healthy(), "{:?}", slice.health);
    let acknowledged: Vec<_> = made[..refused].iter().flat_map(|parts| parts.events.clone()).collect();
    assert_eq!(slice.events, acknowledged);

    cluster.free_disk();
    // The refused plan, and all plans after it.
    for parts in &made[refused..] {
        let appended = store.lock(session).unwrap().append(parts.plan()).unwrap();
        assert!(matches!(appended, Appended::Committed { .. }), "{appended:?}");
    }
    let slice = open(&address).read(session, None).unwrap();
    assert!(slice.health.is_healthy(), "{:?}", slice.health);
    let all: Vec<_> = made.iter().flat_map(|parts| parts.events.clone()).collect();
    assert_eq!(slice.events, all);
    println!(
        "{refused} appends acknowledged around a full disk, {} after it, none lost",
        made.len() - refused
    );
}
