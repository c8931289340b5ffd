//! Shows that the crash proof can fail: the same kill of PostgreSQL, once with normal appends and once with
//! `synchronous_commit = off` injected into every transaction (G102).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use std::thread;

use workrail_model::id::SessionId;
use workrail_ports::session_store::{Appended, LockedSession, SessionReader, SessionStore};
use workrail_store_pg::DatabaseAddress;
use workrail_testkit::history::{Step, plans};
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::proxy::{Bytes, Proxy};

use support::open;

const WRITERS: u64 = 8;
const APPENDS: usize = 20;

/// How many acknowledged events are lost when the server is killed right after the last acknowledgement to writers that
/// append at the same time.
fn lost_by(bytes: Bytes) -> Option<u64> {
    // Only a commit writes to the disk.
    let cluster = Cluster::start(&["wal_writer_delay=10s", "autovacuum=off"])?;
    let database = cluster.database();
    let proxy = Proxy::start_with(cluster.socket_folder(), bytes);
    let direct = DatabaseAddress::parse(&cluster.address(&database, ROLE, "here")).unwrap();
    let through = format!("postgres://{ROLE}@/{database}?host={}&tenant=here", proxy.folder().display());
    let through = DatabaseAddress::parse(&through).unwrap();
    drop(open(&direct));
    let write = &|seed: u64| -> (SessionId, u64) {
        let made = plans(seed, &[Step::Advance; APPENDS]);
        let session = made[0].events[0].session_id;
        let store = open(&through);
        let mut acknowledged = 0;
        for (number, parts) in made.iter().enumerate() {
            let locked = if number == 0 { store.create(session) } else { store.lock(session) };
            let appended = locked.unwrap().append(parts.plan()).unwrap();
            assert!(matches!(appended, Appended::Committed { .. }));
            acknowledged += parts.events.len() as u64;
        }
        (session, acknowledged)
    };
    let written: Vec<(SessionId, u64)> = thread::scope(|scope| {
        let writers: Vec<_> = (1..=WRITERS).map(|seed| scope.spawn(move || write(seed))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    cluster.kill();
    cluster.restart();
    let store = open(&direct);
    let lost = |(session, acknowledged): (SessionId, u64)| {
        let slice = store.read(session, None).unwrap();
        assert!(slice.health.is_healthy(), "{:?}", slice.health);
        acknowledged - slice.events.len() as u64
    };
    Some(written.into_iter().map(lost).sum())
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
