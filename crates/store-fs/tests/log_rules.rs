//! Rules of the log that a crash or a hostile file once could break; each test is named after the rule.

mod support;

use workrail_model::digest::Sha256;
use workrail_model::event::EventIndex;
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::manifest::{Cursor, ManifestIndex, ManifestRecord};
use workrail_ports::cache::{CachedProjection, ProjectionCache};
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore, StoreError};
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::{CrashLimits, Fault, FaultKind, FaultMode, SimFs};

use support::plans::{self, Extra, Parts};
use support::{disk_bytes, open, path, within, write_session};

/// Broke: such a record committed nothing and did not move the reading position, so reading never ended.
#[test]
fn a_record_that_closes_an_empty_segment_is_corruption_and_ends_the_reading() {
    let fs = SimFs::new();
    let session = plans::session(1);
    write_session(&open(fs.clone()), session, 1);
    let manifest = within(session, "manifest.jsonl");
    let mut bytes = fs.read_raw(&manifest).unwrap();
    let at = EventIndex::new(9).unwrap();
    let record = ManifestRecord::SegmentClosed {
        v: 1,
        manifest_index: ManifestIndex::new(5),
        session_id: session,
        first_event_index: at,
        last_event_index: at,
        segment_rel_path: "events/00000009-00000009.jsonl".to_owned(),
        sha256: Sha256::of(b""),
        bytes: 0,
    };
    bytes.extend(record.to_canonical().unwrap());
    bytes.push(b'\n');
    fs.write_raw(&manifest, &bytes);
    fs.write_raw(&within(session, "events/00000009-00000009.jsonl"), b"");
    let health = open(fs).read(session, None).unwrap().health;
    let reason = CorruptionReason::ManifestMismatch {
        manifest_index: 5,
        segment: "events/00000009-00000009.jsonl".to_owned(),
    };
    assert_eq!(health, SessionHealth::CorruptTail { valid_until: at, reason });
}

/// A session whose last plan was interrupted in the middle of its manifest write.
fn interrupted(session: SessionId) -> (SimFs, Vec<Parts>) {
    let fs = SimFs::new();
    let mut written = write_session(&open(fs.clone()), session, 2);
    let manifest = within(session, "manifest.jsonl");
    let bytes = fs.read_raw(&manifest).unwrap();
    fs.write_raw(&manifest, &bytes[..bytes.len() - 40]);
    written.pop();
    (fs, written)
}

/// Broke: the new segment replaced the orphan that explains the torn tail before the tail was cut, so
/// a crash between the two left a tail that nothing explains.
#[test]
fn a_torn_tail_is_cut_before_its_orphan_segment_is_replaced() {
    let session = plans::session(1);
    let (fs, written) = interrupted(session);
    let next = EventIndex::new(support::events_of(&written).len() as u64).unwrap();
    // As many events as the interrupted plan had, so that the segment gets the same name.
    let parts = plans::advance(session, next, 77, Extra::Context);
    for at_op in 0.. {
        let disk = fs.fork();
        let store = open(disk.clone());
        let armed = disk.all_op_count() + at_op;
        disk.set_fault(Fault { at_op: armed, kind: FaultKind::PowerCut, mode: FaultMode::Once });
        let outcome = store.lock(session).and_then(|mut locked| locked.append(parts.plan()));
        if disk.fault_hits() == 0 {
            assert!(outcome.is_ok());
            break;
        }
        for image in disk.crash_images(&CrashLimits::default()) {
            let slice = open(image).read(session, None).unwrap();
            let trace = disk.trace();
            assert_eq!(slice.health, SessionHealth::Healthy, "crash at operation {at_op}: {:?}", trace.last());
        }
    }
}

/// Broke: committed segments behind a shortened manifest were taken for leftovers and removed.
#[test]
fn a_manifest_that_lost_committed_groups_is_corruption_and_nothing_is_removed() {
    let fs = SimFs::new();
    let session = plans::session(1);
    let written = write_session(&open(fs.clone()), session, 4);
    let manifest = within(session, "manifest.jsonl");
    let whole = fs.read_raw(&manifest).unwrap();
    let ends = support::group_ends(&whole);
    for keep in 0..=3_usize {
        let events: usize = written[..keep].iter().map(|parts| parts.events.len()).sum();
        fs.write_raw(&manifest, &whole[..ends[keep]]);
        let before = disk_bytes(&fs);
        let store = open(fs.clone());
        let slice = store.read(session, None).unwrap();
        assert_eq!(slice.events.len(), events);
        match (keep, &slice.health) {
            (0, SessionHealth::CorruptHead { .. }) => {}
            (_, SessionHealth::CorruptTail { valid_until, .. }) if valid_until.get() == events as u64 => {}
            (_, other) => panic!("{keep} groups kept: {other:?}"),
        }
        assert!(matches!(store.lock(session), Err(StoreError::Unhealthy { .. })));
        assert_eq!(disk_bytes(&fs), before);
    }
    fs.remove_raw(&manifest);
    let before = disk_bytes(&fs);
    let store = open(fs.clone());
    assert!(matches!(store.read(session, None).unwrap().health, SessionHealth::CorruptHead { .. }));
    assert!(matches!(store.lock(session), Err(StoreError::Unhealthy { .. })));
    assert_eq!(store.sessions().unwrap(), [session], "a lost manifest does not hide a session");
    assert_eq!(disk_bytes(&fs), before);
}

/// Broke: NUL bytes were forgiven also where no interrupted write can explain them.
#[test]
fn nul_bytes_behind_a_log_without_an_orphan_segment_are_corruption() {
    let fs = SimFs::new();
    let session = plans::session(1);
    write_session(&open(fs.clone()), session, 1);
    let manifest = within(session, "manifest.jsonl");
    let mut bytes = fs.read_raw(&manifest).unwrap();
    bytes.push(0);
    fs.write_raw(&manifest, &bytes);
    let health = open(fs).read(session, None).unwrap().health;
    assert!(matches!(health, SessionHealth::CorruptTail { .. }), "{health:?}");
}

fn cached(store: &LocalStore<SimFs>, session: SessionId) -> CachedProjection {
    let cursor = store.read(session, None).unwrap().cursor;
    CachedProjection { version: 3, cursor, state: b"folded".to_vec() }
}

/// Broke: the digest covered the state alone, so a damaged cursor was believed.
#[test]
fn every_flipped_bit_of_a_cached_projection_is_a_miss() {
    let fs = SimFs::new();
    let session = plans::session(1);
    let store = open(fs.clone());
    write_session(&store, session, 1);
    let projection = cached(&store, session);
    store.put(session, &projection).unwrap();
    assert_eq!(store.get(session, 3), Some(projection));
    let file = path(&format!("sessions/{session}/cache/projection"));
    let bytes = fs.read_raw(&file).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs.write_raw(&file, &flipped);
        assert_eq!(store.get(session, 3), None, "bit {bit}");
    }
}

/// Broke: an anchor longer than its manifest overflowed a subtraction.
#[test]
fn a_cursor_that_makes_no_sense_reads_from_the_start() {
    let fs = SimFs::new();
    let session = plans::session(1);
    let store = open(fs);
    let written = write_session(&store, session, 1);
    let cursor = store.read(session, None).unwrap().cursor;
    let empty = Sha256::of(b"");
    let senseless = [
        Cursor { anchor_bytes: u64::MAX, ..cursor },
        Cursor { manifest_bytes: u64::MAX, ..cursor },
        Cursor { manifest_bytes: u64::MAX, anchor_bytes: u64::MAX, ..cursor },
        Cursor { anchor_bytes: 0, anchor: empty, ..cursor },
        Cursor { manifest_bytes: 7, anchor_bytes: 0, anchor: empty, ..cursor },
    ];
    for cursor in senseless {
        let slice = store.read(session, Some(&cursor)).unwrap();
        assert_eq!((slice.health, slice.continues), (SessionHealth::Healthy, false), "{cursor:?}");
        assert_eq!(slice.events, support::events_of(&written));
    }
}

/// Broke: the store remembered where the lost log had ended.
#[test]
fn a_session_that_vanished_under_a_running_process_starts_again_from_nothing() {
    let fs = SimFs::new();
    let session = plans::session(1);
    let store = open(fs.clone());
    write_session(&store, session, 1);
    fs.remove_raw(&path(&format!("sessions/{session}")));
    assert_eq!(store.lock(session).unwrap_err(), StoreError::NotFound { session });
    let locked = store.create(session).unwrap();
    assert_eq!(locked.events_since(None).unwrap().events, []);
}
