//! What the store's tests share: stores over a simulated disk, plans, and the bytes of a whole disk.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

pub(crate) mod plans;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_ports::environment::{Entropy, EntropyError};
use workrail_ports::file_system::{FileSystem, RelPath};
use workrail_ports::session_store::{Appended, LockedSession, SessionReader, SessionStore};
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::SimFs;

use self::plans::{Extra, Parts};

/// Bytes that differ from call to call and are the same in every run.
#[derive(Debug, Default)]
pub(crate) struct Counted(AtomicU64);

impl Entropy for Counted {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        for byte in bytes {
            *byte = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes()[0];
        }
        Ok(())
    }
}

pub(crate) fn open<F: FileSystem>(fs: F) -> LocalStore<F> {
    LocalStore::open(fs, Box::new(Counted::default()), "boot-1".to_owned()).expect("the store opens")
}

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::parse(text).expect("a test path is well-formed")
}

/// A path inside a session's folder.
pub(crate) fn within(session: SessionId, rest: &str) -> RelPath {
    path(&format!("sessions/{session}/{rest}"))
}

/// Appends the opening and `advances` plans; the parts of all of them, in order.
pub(crate) fn write_session<F: FileSystem>(store: &LocalStore<F>, session: SessionId, advances: u64) -> Vec<Parts> {
    let mut locked = store.create(session).expect("a fresh session");
    let mut written = vec![plans::opening(session)];
    commit(&mut locked, &written[0]);
    for salt in 1..=advances {
        let extra = if salt % 2 == 0 { Extra::Context } else { Extra::Blob };
        let parts = plans::advance(session, locked.cursor().next_event_index, salt, extra);
        commit(&mut locked, &parts);
        written.push(parts);
    }
    written
}

pub(crate) fn commit(locked: &mut impl LockedSession, parts: &Parts) {
    match locked.append(parts.plan()) {
        Ok(Appended::Committed { events, .. }) => assert_eq!(events, parts.events),
        other => panic!("the plan was not committed: {other:?}"),
    }
}

/// One more plan on a session, through a store that has not seen it before.
pub(crate) fn append_one<F: FileSystem>(fs: F, session: SessionId, salt: u64) -> Parts {
    let store = open(fs);
    let mut locked = store.lock(session).expect("the session is healthy");
    let parts = plans::advance(session, locked.cursor().next_event_index, salt, Extra::Blob);
    commit(&mut locked, &parts);
    parts
}

pub(crate) fn events_of(written: &[Parts]) -> Vec<Event> {
    written.iter().flat_map(|parts| parts.events.clone()).collect()
}

pub(crate) fn read_events<F: FileSystem>(fs: F, session: SessionId) -> Vec<Event> {
    open(fs).read(session, None).expect("the session is readable").events
}

/// Every regular file of a simulated disk with its bytes.
pub(crate) fn disk_bytes(fs: &SimFs) -> BTreeMap<RelPath, Vec<u8>> {
    let files = fs.all_files();
    files.into_iter().filter_map(|file| Some((file.clone(), fs.read_raw(&file)?))).collect()
}

/// Where each prefix of whole groups ends in a manifest: 0, after the first group, after the second ...
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
