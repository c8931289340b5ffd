//! Shared by the store's tests: opened stores, written sessions, and the bytes of a whole disk.
#![allow(dead_code, clippy::allow_attributes, reason = "each test binary uses its own part of this")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use workrail_model::event::{Event, EventIndex};
use workrail_model::id::{NodeId, SessionId};
use workrail_ports::file_system::{FileSystem, RelPath};
use workrail_ports::session_store::{Appended, LockedSession, SessionStore};
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::SimFs;
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::history::{self, AdvancePayload, History, PlanParts, Step};

/// A new instance, as another process would have it: with its own randomness.
pub(crate) fn open<F: FileSystem>(fs: F) -> LocalStore<F> {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let entropy = SeededEntropy::new(OPENED.fetch_add(1, Ordering::Relaxed));
    LocalStore::open(fs, Box::new(entropy), "boot-1".to_owned()).expect("the store opens")
}

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::parse(text).expect("a test path is well-formed")
}

/// A path inside a session's folder.
pub(crate) fn within(session: SessionId, rest: &str) -> RelPath {
    path(&format!("sessions/{session}/{rest}"))
}

pub(crate) fn session_of(written: &[PlanParts]) -> SessionId {
    written[0].events[0].session_id
}

/// Writes a new session, plan by plan.
pub(crate) fn write_session<F: FileSystem>(
    store: &LocalStore<F>,
    seed: u64,
    script: &[Step],
) -> Vec<PlanParts> {
    let plans = history::plans(seed, script);
    let mut locked = store.create(session_of(&plans)).expect("a fresh session");
    for parts in &plans {
        commit(&mut locked, parts);
    }
    plans
}

pub(crate) fn commit(locked: &mut impl LockedSession, parts: &PlanParts) {
    match locked.append(parts.plan()) {
        Ok(Appended::Committed { events, .. }) => assert_eq!(events, parts.events),
        other => panic!("the plan was not committed: {other:?}"),
    }
}

/// Ordinary advances of six events for a session with several writers: no two streams with different seeds share an
/// event or a dedupe key.
#[derive(Debug)]
pub(crate) struct Stream {
    history: History,
    tip: NodeId,
}

impl Stream {
    pub(crate) fn new(seed: u64) -> Self {
        let mut history = History::new(1_000_000 + seed);
        history.start();
        let tip = history.root();
        Self { history, tip }
    }

    pub(crate) fn next(&mut self, session: SessionId, at: EventIndex) -> PlanParts {
        let (parts, child) = self.history.advance(self.tip, AdvancePayload::NOTES);
        self.tip = child;
        parts.in_session(session).moved_to(at)
    }
}

/// One plan that the session has not seen.
pub(crate) fn unseen_plan(session: SessionId, at: EventIndex, seed: u64) -> PlanParts {
    Stream::new(seed).next(session, at)
}

/// Locks the session in a store that has not seen it before, and appends a plan from another writer.
pub(crate) fn append_unseen_plan<F: FileSystem>(fs: F, session: SessionId, seed: u64) -> PlanParts {
    let store = open(fs);
    let mut locked = store.lock(session).expect("the session is healthy");
    let parts = unseen_plan(session, locked.cursor().next_event_index, seed);
    commit(&mut locked, &parts);
    parts
}

pub(crate) fn events_of(written: &[PlanParts]) -> Vec<Event> {
    written.iter().flat_map(|parts| parts.events.clone()).collect()
}

/// Every regular file of a simulated disk with its bytes.
pub(crate) fn disk_bytes(fs: &SimFs) -> BTreeMap<RelPath, Vec<u8>> {
    let files = fs.all_files();
    files.into_iter().filter_map(|file| Some((file.clone(), fs.read_raw(&file)?))).collect()
}

/// Where each complete group of a manifest ends: 0, after the first group, after the second ...
pub(crate) fn group_ends(manifest: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    for line in manifest.split_inclusive(|byte| *byte == b'\n') {
        if line.windows(16).any(|part| part == b"\"segment_closed\"") {
            ends.push(at);
        }
        at += line.len();
    }
    ends.push(at);
    ends
}
