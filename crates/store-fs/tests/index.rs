//! The index of all sessions and the saved keys of long ones: damaging them only costs time (G18).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use std::collections::BTreeSet;

use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_ports::cache::{IfAbsent, IndexKeys, IndexRecord, SessionIndex as _};
use workrail_ports::file_system::{FileSystem as _, RelPath};
use workrail_ports::session_store::{
    Appended, LockedSession as _, SessionReader as _, SessionStore as _, StampDepth, StoreError,
};
use workrail_ports::upkeep::Upkeep as _;
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::SimFs;
use workrail_testkit::history::Step;

use support::{commit, open, path, session_of, unseen_plan, within, write_session};

const VERSION: u32 = 1;

fn index_file() -> RelPath {
    path("cache/sessions-1.idx")
}

/// Three sessions and a record of each.
fn indexed(fs: &SimFs) -> (LocalStore<SimFs>, Vec<IndexRecord>) {
    let store = open(fs.clone());
    let records: Vec<IndexRecord> = (1..=3)
        .map(|seed| {
            let session = session_of(&write_session(&store, seed, &[Step::Advance]));
            record(&store, session, format!("summary {seed}").as_bytes())
        })
        .collect();
    store.add_to_index(VERSION, &records, IfAbsent::Create);
    (store, records)
}

fn record(store: &LocalStore<SimFs>, session: SessionId, summary: &[u8]) -> IndexRecord {
    IndexRecord {
        session,
        stamp: store.stamp(session).unwrap(),
        cursor: store.read(session, None).unwrap().cursor,
        summary: summary.to_vec(),
        keys: IndexKeys::default(),
    }
}

fn all(store: &LocalStore<SimFs>) -> Vec<IndexRecord> {
    let mut records = store.index_records(VERSION, &|_| true);
    records.sort_by_key(|record| record.summary.clone());
    records
}

/// G23: a new process finds a summary of all sessions in one file.
#[test]
fn another_process_reads_the_newest_record_of_each_existing_session() {
    let fs = SimFs::new();
    let (store, mut records) = indexed(&fs);
    assert_eq!(all(&open(fs.clone())), records);
    records[0].summary = b"summary 0".to_vec();
    store.add_to_index(VERSION, &records[..1], IfAbsent::Skip);
    assert_eq!(all(&open(fs.clone())), records);
    let gone = records[2].session;
    assert_eq!(open(fs.clone()).index_records(VERSION, &|session| session != gone).len(), 2);
    assert!(open(fs).index_records(VERSION + 1, &|_| true).is_empty(), "another version is another index");
}

/// Broke: a server added a session to the index just after the session was purged, with the text that was purged.
#[test]
fn a_session_that_was_deleted_meanwhile_leaves_no_index_behind() {
    let fs = SimFs::new();
    let (store, records) = indexed(&fs);
    let deleted = records[0].session;
    store.remove(deleted, None).unwrap();
    fs.remove_raw(&index_file());
    store.add_to_index(VERSION, &records[..1], IfAbsent::Create);
    assert!(!fs.all_files().contains(&index_file()));
    store.add_to_index(VERSION, &records[1..], IfAbsent::Create);
    assert_eq!(all(&open(fs)), records[1..]);
}

#[test]
fn a_reader_creates_no_index() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let session = session_of(&write_session(&store, 1, &[]));
    let made = record(&store, session, b"summary");
    store.add_to_index(VERSION, &[made], IfAbsent::Skip);
    assert!(fs.all_files().iter().all(|file| !file.as_str().starts_with("cache/")));
}

#[test]
fn no_flipped_bit_and_no_cut_produces_a_false_record() {
    let fs = SimFs::new();
    let (_, records) = indexed(&fs);
    let bytes = fs.read_raw(&index_file()).unwrap();
    let known: BTreeSet<Vec<u8>> = records.iter().map(|record| record.summary.clone()).collect();
    let check = |what: String| {
        for found in all(&open(fs.clone())) {
            assert!(records.contains(&found) && known.contains(&found.summary), "{what}: {found:?}");
        }
    };
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs.write_raw(&index_file(), &flipped);
        check(format!("bit {bit}"));
    }
    for cut in 0..bytes.len() {
        fs.write_raw(&index_file(), &bytes[..cut]);
        check(format!("cut at {cut}"));
    }
}

#[test]
fn a_damaged_record_hides_no_other() {
    let fs = SimFs::new();
    let (_, records) = indexed(&fs);
    let mut bytes = fs.read_raw(&index_file()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs.write_raw(&index_file(), &bytes);
    let found = all(&open(fs));
    assert_eq!(found, [records[0].clone(), records[2].clone()]);
}

/// Every mark announces the largest possible record: checking all of them would take hours.
#[test]
fn a_hostile_index_is_abandoned_quickly() {
    let fs = SimFs::new();
    let (_, records) = indexed(&fs);
    let promise = [0xF5, b'W', b'R', 0xFA, 0, 0, 0x10, 0];
    let bytes = fs.read_raw(&index_file()).unwrap();
    fs.write_raw(&index_file(), &[bytes.as_slice(), &promise.repeat(1 << 20)].concat());
    assert_eq!(all(&open(fs.clone())), records);
    assert!(fs.stat(&index_file()).unwrap().len < 1 << 20, "the rest was thrown away");
}

#[test]
fn an_invalid_index_is_ignored_and_replaced() {
    let fs = SimFs::new();
    let (store, records) = indexed(&fs);
    fs.write_raw(&index_file(), b"a text of somebody else");
    assert!(all(&open(fs.clone())).is_empty());
    store.add_to_index(VERSION, &records, IfAbsent::Skip);
    assert_eq!(all(&open(fs.clone())), records, "an empty index took its place");
    fs.make_symlink_raw(&index_file());
    store.add_to_index(VERSION, &records, IfAbsent::Create);
    assert!(all(&open(fs.clone())).is_empty(), "a link is not followed");
    fs.remove_raw(&index_file());
    fs.make_dir_raw(&index_file());
    store.add_to_index(VERSION, &records, IfAbsent::Create);
    assert!(all(&open(fs.clone())).is_empty());
    fs.remove_raw(&index_file());
    fs.write_raw(&index_file(), b"WRINDEX1");
    fs.set_unreadable(&index_file());
    assert!(all(&open(fs)).is_empty());
}

#[test]
fn an_index_that_is_mostly_out_of_date_is_rewritten() {
    let fs = SimFs::new();
    let (store, mut records) = indexed(&fs);
    records[1].summary = vec![b'x'; 400_000];
    for _ in 0..4 {
        store.add_to_index(VERSION, &records[1..2], IfAbsent::Skip);
    }
    let before = fs.stat(&index_file()).unwrap().len;
    let found = all(&open(fs.clone()));
    assert_eq!(found.len(), 3);
    assert!(fs.stat(&index_file()).unwrap().len < before / 3);
    assert_eq!(all(&open(fs.clone())), found, "nothing was lost");
    let gone = records[1].session;
    assert_eq!(open(fs.clone()).index_records(VERSION, &|session| session != gone).len(), 2);
}

#[test]
fn a_stamp_shows_every_write_to_a_log() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let session = session_of(&write_session(&store, 1, &[Step::Advance]));
    let look = || store.stamped_sessions(StampDepth::Segments).unwrap()[0].stamp.unwrap();
    let before = look();
    assert_eq!(Some(before), store.stamp(session));
    assert!(look().is_unchanged(&before, StampDepth::Segments));
    let manifest = within(session, "manifest.jsonl");
    let bytes = fs.read_raw(&manifest).unwrap();
    // The same bytes rewritten: the length alone would not show that.
    fs.write_raw(&manifest, &bytes);
    let rewritten = look();
    assert!(!rewritten.is_unchanged(&before, StampDepth::Manifest));
    let segment = fs.all_files().into_iter().find(|file| file.as_str().contains("/events/")).unwrap();
    fs.write_raw(&segment, &fs.read_raw(&segment).unwrap());
    assert!(look().is_unchanged(&rewritten, StampDepth::Manifest), "only a deep look sees segments");
    assert!(!look().is_unchanged(&rewritten, StampDepth::Segments));
}

/// A log long enough for its keys to be saved, and its first segment.
fn long_log(fs: &SimFs) -> (SessionId, RelPath, Vec<workrail_testkit::history::PlanParts>) {
    let written = write_session(&open(fs.clone()), 1, &[Step::Advance; 110]);
    let session = session_of(&written);
    assert!(fs.read_raw(&within(session, "cache/keys")).is_some(), "the keys were saved");
    let segments = fs.all_files().into_iter().filter(|file| file.as_str().contains("/events/0"));
    (session, segments.min().unwrap(), written)
}

/// G23: a new process does not read the beginning of a long session again.
#[test]
fn a_new_process_appends_to_a_long_session_without_reading_its_beginning() {
    let fs = SimFs::new();
    let (session, first, written) = long_log(&fs);
    let bytes = fs.read_raw(&first).unwrap();
    fs.set_unreadable(&first);
    let store = open(fs.clone());
    let mut locked = store.lock(session).expect("the beginning is not read");
    // Keys from the beginning are known all the same (G8).
    assert_eq!(locked.append(written[0].plan()).unwrap(), Appended::AlreadyRecorded);
    let end = locked.cursor().next_event_index;
    commit(&mut locked, &unseen_plan(session, end, 7));
    drop(locked);
    fs.remove_raw(&first);
    fs.write_raw(&first, &bytes);
    let read = open(fs).read(session, None).unwrap();
    assert_eq!(read.health, SessionHealth::Healthy, "nothing of the beginning was removed");
}

#[test]
fn damaged_or_foreign_keys_are_not_trusted() {
    let fs = SimFs::new();
    let (session, first, _) = long_log(&fs);
    let file = within(session, "cache/keys");
    let bytes = fs.read_raw(&file).unwrap();
    fs.set_unreadable(&first);
    let mut damaged = vec![Vec::new(), b"WRKEYS01".to_vec(), bytes[..bytes.len() - 16].to_vec()];
    for position in (0..bytes.len()).step_by(97) {
        let mut flipped = bytes.clone();
        flipped[position] ^= 1;
        damaged.push(flipped);
    }
    for (number, bytes) in damaged.iter().enumerate() {
        fs.write_raw(&file, bytes);
        // Without keys the whole log is read, and its beginning is unreadable.
        let refused = open(fs.clone()).lock(session).err();
        assert!(matches!(refused, Some(StoreError::Unhealthy { .. })), "{number}: {refused:?}");
    }
    fs.write_raw(&file, &bytes);
    open(fs.clone()).lock(session).expect("whole keys are believed");
}

#[test]
fn a_manifest_that_lost_groups_behind_saved_keys_is_damage() {
    let fs = SimFs::new();
    let (session, _, _) = long_log(&fs);
    let manifest = within(session, "manifest.jsonl");
    let bytes = fs.read_raw(&manifest).unwrap();
    let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"\n{\"bytes\"")).collect();
    fs.write_raw(&manifest, &bytes[..=ends[ends.len() - 3]]);
    let refused = open(fs.clone()).lock(session).err();
    assert!(matches!(refused, Some(StoreError::Unhealthy { .. })), "{refused:?}");
    // The same, for a reader whose cursor comes from a cache.
    let cursor = saved_cursor(&fs, session);
    let health = open(fs).read(session, Some(&cursor)).unwrap().health;
    assert!(matches!(health, SessionHealth::CorruptTail { .. }), "{health:?}");
}

fn saved_cursor(fs: &SimFs, session: SessionId) -> workrail_model::manifest::Cursor {
    let bytes = fs.read_raw(&within(session, "cache/keys")).unwrap();
    let body = &bytes[8 + 32..];
    let line = body.split(|byte| *byte == b'\n').next().unwrap();
    serde_json::from_slice(line).unwrap()
}

/// Broke: an index of 500 MB was read completely for a handful of sessions.
#[test]
fn an_index_that_is_far_too_large_for_its_sessions_is_replaced_unread() {
    let fs = SimFs::new();
    let (store, records) = indexed(&fs);
    let mut bytes = fs.read_raw(&index_file()).unwrap();
    bytes.resize(40 * 1024 * 1024, 0);
    fs.write_raw(&index_file(), &bytes);
    assert_eq!(all(&open(fs.clone())), []);
    assert!(fs.read_raw(&index_file()).unwrap().len() < 1024);
    store.add_to_index(VERSION, &records, IfAbsent::Skip);
    assert_eq!(all(&open(fs)), records);
}
