//! Shows that the crash proof can fail: the same kill of PostgreSQL, once with normal appends and once with
//! `synchronous_commit = off` injected into every transaction (G102).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod proxy;
#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use workrail_ports::session_store::{Appended, LockedSession, SessionReader, SessionStore};
use workrail_store_pg::DatabaseAddress;
use workrail_testkit::history::{Step, plans};
use workrail_testkit::postgres::{Cluster, ROLE};

use proxy::{Bytes, Proxy};
use support::open;

const APPENDS: usize = 20;

/// How many acknowledged events are lost when the server is killed right after the last acknowledgement.
fn lost_by(bytes: Bytes) -> Option<u64> {
    // Only a commit writes to the disk.
    let cluster = Cluster::start(&["wal_writer_delay=10s"])?;
    let database = cluster.database();
    let proxy = Proxy::start_with(cluster.socket_folder(), bytes);
    let direct = DatabaseAddress::parse(&cluster.address(&database, ROLE, "here")).unwrap();
    let through = format!("postgres://{ROLE}@/{database}?host={}&tenant=here", proxy.folder().display());
    let made = plans(1, &[Step::Advance; APPENDS]);
    let session = made[0].events[0].session_id;
    open(&direct).create(session).unwrap().append(made[0].plan()).unwrap();
    let store = open(&DatabaseAddress::parse(&through).unwrap());
    let mut acknowledged = made[0].events.len() as u64;
    for parts in &made[1..] {
        let appended = store.lock(session).unwrap().append(parts.plan()).unwrap();
        assert!(matches!(appended, Appended::Committed { .. }));
        acknowledged += parts.events.len() as u64;
    }
    cluster.kill();
    cluster.restart();
    let slice = open(&direct).read(session, None).unwrap();
    assert!(slice.health.is_healthy(), "{:?}", slice.health);
    Some(acknowledged - slice.events.len() as u64)
}

#[test]
fn a_kill_loses_nothing_acknowledged() {
    let Some(lost) = lost_by(Bytes::AsTheyAre) else { return };
    assert_eq!(lost, 0);
}

#[test]
fn without_synchronous_commit_the_same_kill_loses_acknowledged_events() {
    let Some(lost) = lost_by(Bytes::Sabotaged) else { return };
    assert_ne!(lost, 0, "the kill came too late to show anything");
}
