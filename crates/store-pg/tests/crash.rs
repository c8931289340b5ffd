//! Kills PostgreSQL under load: what was acknowledged stays, nothing is recorded twice, and no log has a gap (G102).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use workrail_model::event::DedupeKey;
use workrail_model::id::SessionId;
use workrail_ports::session_store::{Appended, LockedSession, SessionReader, SessionStore, StoreError};
use workrail_store_pg::{DatabaseAddress, PgStore};
use workrail_testkit::history::{History, PlanParts};
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::proof;

use support::open;

const WRITERS: u64 = 4;
/// Acknowledged appends between two kills.
const ACKS_BETWEEN: usize = 60;

fn kills() -> usize {
    if proof::is_full() { 20 } else { 3 }
}

/// The results that one writer received.
struct WriterResult {
    session: SessionId,
    acknowledged: Vec<DedupeKey>,
    uncertain: usize,
}

/// Appends one plan, repeating it until it is acknowledged.
fn append(store: &PgStore, parts: &PlanParts, uncertain: &mut usize) {
    loop {
        let locked = store.lock(parts.events[0].session_id);
        let answer = locked.and_then(|mut locked| {
            let next = locked.cursor().next_event_index;
            locked.append(parts.moved_to(next).plan())
        });
        match answer {
            Ok(Appended::Committed { .. } | Appended::AlreadyRecorded) => return,
            Err(StoreError::Uncertain(_)) => *uncertain += 1,
            // The server is down, or a lock from before the kill is not released yet.
            Err(StoreError::Io(_) | StoreError::Locked { .. } | StoreError::Busy) => thread::yield_now(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn write_until(stop: &AtomicBool, acks: &AtomicUsize, address: &DatabaseAddress, seed: u64) -> WriterResult {
    let store = open(address);
    let mut history = History::new(seed);
    let (session, root) = (history.session(), history.root());
    let mut result = WriterResult { session, acknowledged: Vec::new(), uncertain: 0 };
    let start = history.start();
    store.create(session).unwrap().append(start.plan()).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let (parts, _) = history.checkpoint(root);
        append(&store, &parts, &mut result.uncertain);
        result.acknowledged.extend(parts.events.iter().map(|event| event.dedupe_key.clone()));
        acks.fetch_add(1, Ordering::Relaxed);
    }
    result
}

#[test]
fn killing_postgres_under_load_loses_nothing_acknowledged() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let address = DatabaseAddress::parse(&cluster.address(&cluster.database(), ROLE, "here")).unwrap();
    drop(open(&address));
    let (stop, acks) = (AtomicBool::new(false), AtomicUsize::new(0));
    let results: Vec<WriterResult> = thread::scope(|scope| {
        let (stop, acks, address) = (&stop, &acks, &address);
        let writers: Vec<_> =
            (1..=WRITERS).map(|seed| scope.spawn(move || write_until(stop, acks, address, seed))).collect();
        for _ in 0..kills() {
            let before = acks.load(Ordering::Relaxed);
            while acks.load(Ordering::Relaxed) < before + ACKS_BETWEEN {
                assert!(writers.iter().all(|writer| !writer.is_finished()), "a writer gave up");
                thread::yield_now();
            }
            cluster.kill();
            cluster.restart();
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let store = open(&address);
    let (mut total, mut uncertain) = (0, 0);
    for WriterResult { session, acknowledged, uncertain: unsure } in results {
        let slice = store.read(session, None).unwrap();
        assert!(slice.health.is_healthy(), "{:?}", slice.health);
        let mut recorded: Vec<&DedupeKey> = slice.events.iter().map(|event| &event.dedupe_key).collect();
        for (position, event) in slice.events.iter().enumerate() {
            assert_eq!(event.event_index.get(), position as u64);
        }
        recorded.sort();
        assert!(recorded.windows(2).all(|pair| pair[0] != pair[1]), "an event is recorded twice");
        let lost = acknowledged.iter().filter(|key| recorded.binary_search(key).is_err()).count();
        assert_eq!(lost, 0, "of {} acknowledged events", acknowledged.len());
        total += acknowledged.len();
        uncertain += unsure;
    }
    println!(
        "{} kills: 0 of {total} acknowledged events lost; {uncertain} unknown outcomes, all resolved",
        kills()
    );
}
