//! Many processes append at once; readers watch them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use workrail_model::event::Event;
use workrail_model::id::{EventId, SessionId};
use workrail_model::manifest::Cursor;
use workrail_ports::session_store::{SessionReader, StoreError};

use super::worker::{Task, opening, store};

/// Nothing lost, nothing twice, no gap: every log must be like this after many writers.
fn check_log(data: &Path, session: SessionId, acknowledged: &BTreeSet<String>) -> Vec<Event> {
    let slice = store(data).read(session, None).expect("the session is readable");
    assert!(slice.health.is_healthy(), "{:?}", slice.health);
    let mut keys = BTreeSet::new();
    for (position, event) in slice.events.iter().enumerate() {
        assert_eq!(event.event_index.get(), position as u64, "indexes have no gap and no duplicate");
        assert!(keys.insert(event.dedupe_key.to_string()), "{} is recorded twice", event.dedupe_key);
    }
    let of_this = acknowledged.iter().filter(|key| key.contains(&session.to_string()));
    let lost: Vec<&String> = of_this.filter(|key| !keys.contains(*key)).collect();
    assert!(lost.is_empty(), "acknowledged, but lost: {lost:?}");
    slice.events
}

/// What a reader saw: how many events, and which was the last.
type Seen = (usize, Option<EventId>);

/// Reads repeatedly until stopped, alternating between a full read and one from a cursor.
fn watch(data: &Path, session: SessionId, stop: &AtomicBool) -> Vec<Seen> {
    let reader = store(data);
    let mut seen: Vec<Seen> = Vec::new();
    let mut cursor: Option<Cursor> = None;
    let mut known: Vec<Event> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let since = cursor.as_ref().filter(|_| seen.len().is_multiple_of(2));
        let slice = match reader.read(session, since) {
            Ok(slice) => slice,
            Err(StoreError::NotFound { .. }) if known.is_empty() => continue,
            Err(error) => panic!("a reader failed: {error} ({error:?})"),
        };
        assert!(slice.health.is_healthy(), "a reader saw {:?}", slice.health);
        if since.is_some() {
            assert!(slice.continues, "a committed prefix changed");
            known.extend(slice.events);
        } else {
            assert!(slice.events.starts_with(&known), "a committed prefix changed");
            known = slice.events;
        }
        cursor = Some(slice.cursor);
        seen.push((known.len(), known.last().map(|event| event.event_id)));
    }
    seen
}

/// All processes on one session, with two concurrent readers.
pub(crate) fn one_session(processes: u64, appends: u64) -> String {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let data = dir.path();
    let session = opening(1).events[0].session_id;
    let stop = AtomicBool::new(false);
    let (acknowledged, seen) = thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| watch(data, session, &stop))).collect();
        let acknowledged = run(data, processes, 1, appends);
        stop.store(true, Ordering::Relaxed);
        let seen: Vec<Vec<Seen>> =
            readers.into_iter().map(|reader| reader.join().expect("a reader ends well")).collect();
        (acknowledged, seen)
    });
    let events = check_log(data, session, &acknowledged);
    // The opening is one more plan, appended by the first process.
    assert_eq!(acknowledged.len() as u64, processes * appends + 1);
    assert_eq!(events.len() as u64, opening(1).events.len() as u64 + processes * appends * 6);
    let mut reads = 0;
    for seen in &seen {
        assert!(seen.is_sorted_by_key(|(count, _)| *count), "a reader went back in time");
        for (count, last) in seen {
            assert_eq!(count.checked_sub(1).map(|at| events[at].event_id), *last, "not a prefix of the log");
        }
        reads += seen.len();
    }
    format!("0 lost, 0 duplicate indexes, {} events, {reads} concurrent reads with 0 errors", events.len())
}

/// Each process appends to each session, all in different orders; the process that comes first creates the session.
pub(crate) fn many_sessions(processes: u64, sessions: u64, appends: u64) -> String {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let acknowledged = run(dir.path(), processes, sessions, appends);
    let mut events = 0;
    for number in 1..=sessions {
        let session = opening(number).events[0].session_id;
        let log = check_log(dir.path(), session, &acknowledged);
        assert_eq!(log.len() as u64, opening(number).events.len() as u64 + processes * appends * 6);
        events += log.len();
    }
    assert_eq!(acknowledged.len() as u64, sessions * (processes * appends + 1));
    format!("0 lost, 0 duplicate indexes, {events} events")
}

/// Runs the workers to the end; returns the keys they acknowledged, each once.
fn run(data: &Path, processes: u64, sessions: u64, appends: u64) -> BTreeSet<String> {
    let tasks = (0..processes).map(|seed| Task { data, seed, sessions, appends });
    let workers: Vec<_> = tasks.map(|task| task.spawn()).collect();
    let mut acknowledged = BTreeSet::new();
    for worker in workers {
        for key in worker.finish() {
            assert!(acknowledged.insert(key.clone()), "{key} was acknowledged twice");
        }
    }
    acknowledged
}
