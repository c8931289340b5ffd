//! Rules of the log that a crash or a hostile file could once break; each test is named after its rule.

mod foreign;
#[path = "../support/mod.rs"]
mod support;
mod unreadable;

use workrail_model::digest::Sha256;
use workrail_model::event::EventIndex;
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::manifest::{Cursor, ManifestIndex, ManifestRecord};
use workrail_ports::cache::{CachedProjection, ProjectionCache};
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore, StoreError};
use workrail_ports::upkeep::{Inspection, Sweep, Upkeep};
use workrail_store_fs::sim::{CrashLimits, Fault, FaultKind, FaultMode, SimFs};
use workrail_testkit::history::Step;

use support::{
    disk_bytes, events_of, group_ends, open, path, session_of, unseen_plan, within, write_session,
};

/// Broke: such a record committed nothing and did not advance the read position, so reading never ended.
#[test]
fn a_record_that_closes_an_empty_segment_is_corruption_and_reading_ends() {
    let fs = SimFs::new();
    let written = write_session(&open(fs.clone()), 1, &[Step::Advance]);
    let session = session_of(&written);
    let cursor = open(fs.clone()).read(session, None).unwrap().cursor;
    let at = cursor.next_event_index;
    let name = format!("events/{:08}-{:08}.jsonl", at.get(), at.get());
    let record = ManifestRecord::SegmentClosed {
        v: 1,
        manifest_index: cursor.next_manifest_index,
        session_id: session,
        first_event_index: at,
        last_event_index: at,
        segment_rel_path: name.clone(),
        sha256: Sha256::of(b""),
        bytes: 0,
    };
    let manifest = within(session, "manifest.jsonl");
    let mut bytes = fs.read_raw(&manifest).unwrap();
    bytes.extend(record.to_canonical().unwrap());
    bytes.push(b'\n');
    fs.write_raw(&manifest, &bytes);
    fs.write_raw(&within(session, &name), b"");
    let health = open(fs).read(session, None).unwrap().health;
    let manifest_index = cursor.next_manifest_index.get();
    let reason = CorruptionReason::ManifestMismatch { manifest_index, segment: name };
    assert_eq!(health, SessionHealth::CorruptTail { valid_until: at, reason });
}

/// Broke: the new segment replaced the orphan that explains the torn tail before the tail was cut, so a crash between
/// the two left an unexplained tail. Such an orphan is now rolled forward.
#[test]
fn a_crash_while_a_torn_tail_is_rolled_forward_leaves_a_healthy_session() {
    let fs = SimFs::new();
    let written = write_session(&open(fs.clone()), 1, &[Step::Advance, Step::Advance]);
    let session = session_of(&written);
    let manifest = within(session, "manifest.jsonl");
    let bytes = fs.read_raw(&manifest).unwrap();
    fs.write_raw(&manifest, &bytes[..bytes.len() - 40]);
    let parts = unseen_plan(session, written[2].next_index(), 7);
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
            assert_eq!(
                slice.health,
                SessionHealth::Healthy,
                "crash at operation {at_op}: {:?}",
                trace.last()
            );
        }
    }
}

/// Broke: committed segments beyond a shortened manifest were mistaken for leftovers and removed.
#[test]
fn a_manifest_that_lost_committed_groups_is_corruption_and_nothing_is_removed() {
    let fs = SimFs::new();
    let written = write_session(&open(fs.clone()), 1, &[Step::Advance; 4]);
    let session = session_of(&written);
    let manifest = within(session, "manifest.jsonl");
    let whole = fs.read_raw(&manifest).unwrap();
    let ends = group_ends(&whole);
    // With one group lost, the last segment looks like an interrupted append, and is rolled forward.
    for keep in 0..written.len() - 1 {
        let events = events_of(&written[..keep]);
        fs.write_raw(&manifest, &whole[..ends[keep]]);
        let before = disk_bytes(&fs);
        let store = open(fs.clone());
        let slice = store.read(session, None).unwrap();
        assert_eq!(slice.events, events);
        let segment = format!("events/{}", last_segment(&fs));
        let reason = CorruptionReason::SegmentUnattested { segment };
        assert_eq!(
            slice.health,
            match EventIndex::new(events.len() as u64).unwrap() {
                EventIndex::ZERO => SessionHealth::CorruptHead { reason },
                valid_until => SessionHealth::CorruptTail { valid_until, reason },
            }
        );
        assert!(matches!(store.lock(session), Err(StoreError::Unhealthy { .. })));
        assert_eq!(disk_bytes(&fs), before);
        let disk = fs.fork();
        let repaired = open(disk.clone()).repair(session, None).unwrap();
        assert_eq!((repaired.lost.len(), disk.read_raw(&manifest)), (0, Some(whole.clone())));
    }
}

/// Broke: cutting one byte off a manifest made the last acknowledged plan vanish, and the next append destroyed its
/// segment.
#[test]
fn an_acknowledged_plan_whose_group_lost_its_end_is_rolled_forward_by_any_writer() {
    let fs = SimFs::new();
    let server = open(fs.clone());
    let written = write_session(&server, 1, &[Step::Advance, Step::Advance]);
    let session = session_of(&written);
    let manifest = within(session, "manifest.jsonl");
    let whole = fs.read_raw(&manifest).unwrap();
    for lost in [1, 7, 40] {
        // By a process that has the session in memory, and by one that does not.
        for store in [&server, &open(fs.clone())] {
            fs.write_raw(&manifest, &whole[..whole.len() - lost]);
            let pending = store.pending_writes().unwrap();
            assert_eq!(pending.iter().map(|write| write.session).collect::<Vec<_>>(), [session]);
            let locked = store.lock(session).unwrap();
            assert_eq!(locked.events_since(None).unwrap().events, events_of(&written));
            drop(locked);
            assert_eq!(fs.read_raw(&manifest).as_ref(), Some(&whole));
            assert_eq!(store.pending_writes().unwrap(), []);
        }
    }
}

/// The same for the first plan of a session, whose manifest may be missing entirely.
#[test]
fn the_only_plan_of_a_session_survives_the_loss_of_its_manifest() {
    for (what, left) in [("missing", None), ("empty", Some(0)), ("short", Some(200))] {
        let fs = SimFs::new();
        let written = write_session(&open(fs.clone()), 1, &[]);
        let session = session_of(&written);
        let manifest = within(session, "manifest.jsonl");
        let whole = fs.read_raw(&manifest).unwrap();
        fs.remove_raw(&manifest);
        if let Some(left) = left {
            fs.write_raw(&manifest, &whole[..left]);
        }
        let store = open(fs.clone());
        assert_eq!(store.pending_writes().unwrap().len(), 1, "{what}");
        let swept = store.sweep(Sweep::Real).unwrap();
        assert_eq!((swept.snapshots.files, swept.workflows.files), (0, 0), "{what}: its content is needed");
        drop(store.lock(session).expect(what));
        assert_eq!(fs.read_raw(&manifest), Some(whole), "{what}");
        assert_eq!(store.read(session, None).unwrap().events, events_of(&written), "{what}");
    }
}

/// Broke: the next append overwrote a complete segment whose content was lost, without reporting it.
#[test]
fn a_completed_write_without_its_content_is_damage_and_repair_rolls_it_forward() {
    for plans in [1, 3] {
        let fs = SimFs::new();
        let steps = [Step::Advance, Step::AdvanceWithArtifact];
        let written = write_session(&open(fs.clone()), 1, &steps[..plans - 1]);
        let session = session_of(&written);
        let manifest = within(session, "manifest.jsonl");
        let whole = fs.read_raw(&manifest).unwrap();
        fs.write_raw(&manifest, &whole[..whole.len() - 1]);
        let last = &written[plans - 1].events;
        let snapshot = last.iter().find_map(|event| event.data.snapshot_ref()).unwrap();
        let snapshot = path(&format!("snapshots/{}.json", snapshot.digest().hex()));
        let content = fs.read_raw(&snapshot).unwrap();
        for damage in [None, Some(b"junk".as_slice())] {
            let disk = fs.fork();
            disk.remove_raw(&snapshot);
            if let Some(junk) = damage {
                disk.write_raw(&snapshot, junk);
            }
            let before = disk_bytes(&disk);
            let store = open(disk.clone());
            assert_eq!(store.sessions().unwrap(), [session]);
            let slice = store.read(session, None).unwrap();
            let (SessionHealth::CorruptTail { reason, .. } | SessionHealth::CorruptHead { reason }) =
                slice.health
            else {
                panic!("{plans} plans: {:?}", slice.health)
            };
            let segment = format!("events/{}", last_segment(&disk));
            let expected = CorruptionReason::PendingContent { segment, content: snapshot.to_string() };
            assert_eq!(reason, expected);
            assert!(matches!(store.lock(session), Err(StoreError::Unhealthy { .. })));
            assert!(matches!(store.create(session), Err(StoreError::Unhealthy { .. })));
            assert_eq!(disk_bytes(&disk), before, "nothing is overwritten");
            let repaired = store.repair(session, None).unwrap();
            assert_eq!((repaired.lost.len(), disk.read_raw(&manifest)), (0, Some(whole.clone())));
            disk.write_raw(&snapshot, &content);
            assert_eq!(
                open(disk).lock(session).unwrap().events_since(None).unwrap().events,
                events_of(&written)
            );
        }
    }
}

/// Broke: a session without its manifest was not listed and could be created again over its segments.
#[test]
fn a_lost_manifest_is_corruption_and_does_not_hide_the_session() {
    let fs = SimFs::new();
    let session = session_of(&write_session(&open(fs.clone()), 1, &[Step::Advance]));
    let manifest = within(session, "manifest.jsonl");
    for lost in [&|fs: &SimFs| fs.remove_raw(&manifest), &|fs: &SimFs| fs.write_raw(&manifest, b"")]
        as [&dyn Fn(&SimFs); 2]
    {
        let fs = fs.fork();
        lost(&fs);
        let before = disk_bytes(&fs);
        let store = open(fs.clone());
        assert!(matches!(store.read(session, None).unwrap().health, SessionHealth::CorruptHead { .. }));
        assert!(matches!(store.lock(session), Err(StoreError::Unhealthy { .. })));
        assert!(matches!(store.create(session), Err(StoreError::Unhealthy { .. })));
        assert_eq!(store.sessions().unwrap(), [session]);
        assert_eq!(disk_bytes(&fs), before);
    }
}

fn last_segment(fs: &SimFs) -> String {
    let files = fs.all_files();
    let segments = files.iter().filter(|file| file.as_str().contains("/events/"));
    segments.map(|file| file.file_name().to_owned()).max().expect("a session has segments")
}

/// Broke: NUL bytes were tolerated even where no interrupted write can explain them.
#[test]
fn nul_bytes_behind_a_log_without_an_orphan_segment_are_corruption() {
    let fs = SimFs::new();
    let session = session_of(&write_session(&open(fs.clone()), 1, &[Step::Advance]));
    let manifest = within(session, "manifest.jsonl");
    let mut bytes = fs.read_raw(&manifest).unwrap();
    bytes.push(0);
    fs.write_raw(&manifest, &bytes);
    let health = open(fs).read(session, None).unwrap().health;
    assert!(matches!(health, SessionHealth::CorruptTail { .. }), "{health:?}");
}

/// Broke: the digest covered only the state, so a damaged cursor was trusted.
#[test]
fn every_flipped_bit_of_a_cached_projection_is_a_miss() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let session = session_of(&write_session(&store, 1, &[]));
    let cursor = store.read(session, None).unwrap().cursor;
    let projection = CachedProjection { version: 3, cursor, state: b"folded".to_vec() };
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

/// Broke: an anchor longer than its manifest overflowed a subtraction, and a cursor without an anchor was trusted
/// wherever it pointed.
#[test]
fn an_inconsistent_cursor_reads_from_the_start() {
    let store = open(SimFs::new());
    let written = write_session(&store, 1, &[Step::Advance]);
    let session = session_of(&written);
    let cursor = store.read(session, None).unwrap().cursor;
    let empty = Sha256::of(b"");
    let senseless = [
        Cursor { anchor_bytes: u64::MAX, ..cursor },
        Cursor { manifest_bytes: u64::MAX, ..cursor },
        Cursor { manifest_bytes: u64::MAX, anchor_bytes: u64::MAX, ..cursor },
        Cursor { anchor_bytes: 0, anchor: empty, ..cursor },
        Cursor { manifest_bytes: 7, anchor_bytes: 0, anchor: empty, ..cursor },
        Cursor { next_manifest_index: ManifestIndex::ZERO, anchor: empty, ..cursor },
    ];
    for cursor in senseless {
        let slice = store.read(session, Some(&cursor)).unwrap();
        assert_eq!((slice.health, slice.continues), (SessionHealth::Healthy, false), "{cursor:?}");
        assert_eq!(slice.events, events_of(&written));
    }
}

/// Broke: the store remembered where the lost log had ended.
#[test]
fn a_session_that_vanishes_under_a_running_process_starts_empty() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let session = session_of(&write_session(&store, 1, &[Step::Advance]));
    fs.remove_raw(&path(&format!("sessions/{session}")));
    assert_eq!(store.lock(session).unwrap_err(), StoreError::NotFound { session });
    let locked = store.create(session).unwrap();
    assert_eq!(locked.events_since(None).unwrap().events, []);
}

/// Broke: every lock listed all segments, so that an advance became slower with every earlier step.
#[test]
fn a_writer_lists_segments_again_only_after_their_folder_changed() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let session = session_of(&write_session(&store, 1, &[Step::Advance]));
    let operations_of_a_lock = || {
        let before = fs.all_op_count();
        drop(store.lock(session).unwrap());
        fs.all_op_count() - before
    };
    let unchanged = operations_of_a_lock();
    assert_eq!(operations_of_a_lock(), unchanged, "after a writer's own append nothing is listed");
    fs.write_raw(&within(session, "events/notes.txt"), b"of the user");
    assert_eq!(operations_of_a_lock(), unchanged + 1, "a new name is looked at");
    assert_eq!(operations_of_a_lock(), unchanged, "once");
}
