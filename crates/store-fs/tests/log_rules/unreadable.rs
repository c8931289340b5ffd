//! Files that cannot be read, temporarily or for lack of permission.

use std::ops::ControlFlow;

use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::plan::RawSegment;
use workrail_ports::archive::SessionArchive;
use workrail_ports::file_system::{FsErrorKind, FsOp};
use workrail_ports::keyring::{KeyringError, KeyringStore};
use workrail_ports::session_store::{SessionReader, SessionStore, StoreError};
use workrail_ports::upkeep::{Upkeep, UpkeepError};
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::{Fault, FaultKind, FaultMode, SimFs};
use workrail_testkit::history::{self, Step};

use super::last_segment;
use super::support::{disk_bytes, events_of, open, path, session_of, within, write_session};

/// Runs `work` once for every operation that it needs, each time on a copy of the disk that refuses this one
/// operation.
fn with_each_operation_denied(fs: &SimFs, mut work: impl FnMut(&SimFs, &LocalStore<SimFs>, &str)) {
    for operation in 0.. {
        let disk = fs.fork();
        let store = open(disk.clone());
        let kind = FaultKind::Error(FsErrorKind::PermissionDenied);
        let at_op = disk.all_op_count() + operation;
        disk.set_fault(Fault { at_op, kind, mode: FaultMode::Once });
        work(&disk, &store, &format!("operation {operation}"));
        if disk.fault_hits() == 0 {
            assert!(operation > 0, "the work needs the disk");
            return;
        }
    }
}

/// A session of three segments, and the same one with a completed write that is not committed.
fn sound_and_interrupted() -> [(SimFs, SessionId); 2] {
    let fs = SimFs::new();
    let written = write_session(&open(fs.clone()), 1, &[Step::Advance, Step::Advance]);
    let session = session_of(&written);
    let torn = fs.fork();
    let manifest = within(session, "manifest.jsonl");
    let whole = torn.read_raw(&manifest).expect("the manifest is there");
    torn.write_raw(&manifest, &whole[..whole.len() - 1]);
    [(fs, session), (torn, session)]
}

/// Broke: a temporarily unreadable committed segment made its whole group look like an interrupted write, and the
/// session read as healthy without it. Later, the session read as damaged though it was readable again.
#[test]
fn a_temporarily_unreadable_file_changes_nothing_about_the_log() {
    for (fs, session) in sound_and_interrupted() {
        let expected = open(fs.clone()).read(session, None).unwrap();
        assert!(expected.health.is_healthy());
        with_each_operation_denied(&fs, |_, store, what| {
            if let Ok(slice) = store.read(session, None) {
                assert_eq!(slice, expected, "{what}");
            }
        });
    }
}

/// Broke: `export` took the log for healthy and left out what it could not read for a moment, or reported that the
/// log had changed.
#[test]
fn a_log_is_not_called_healthy_unless_all_segments_were_visited() {
    for (fs, session) in sound_and_interrupted() {
        let show = |store: &LocalStore<SimFs>| {
            let mut events = Vec::new();
            let shown = store.segments(session, None, &mut |segment: RawSegment| {
                events.extend(segment.events().to_vec());
                ControlFlow::Continue(())
            });
            shown.map(|shown| (shown, events))
        };
        let expected = show(&open(fs.clone())).unwrap();
        with_each_operation_denied(&fs, |_, store, what| {
            if let Ok(shown) = show(store) {
                assert_eq!(shown, expected, "{what}");
            }
        });
    }
}

/// Broke: a lock that could not open a folder to sync it left a mark there, as if a sync had failed.
#[test]
fn only_a_failed_sync_marks_a_folder() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let session = session_of(&write_session(&store, 1, &[Step::Advance]));
    store.load_or_create().unwrap();
    let before = disk_bytes(&fs);
    let mut failed_syncs = 0;
    let mut check = |disk: &SimFs, failed: Option<FsOp>, what: &str| {
        let is_failed_sync = matches!(failed, Some(FsOp::SyncFile | FsOp::SyncDir));
        failed_syncs += u32::from(is_failed_sync);
        let is_marked = disk.all_files().iter().any(|file| file.file_name() == ".suspect");
        assert!(is_failed_sync || !is_marked, "{what}: {failed:?}");
        assert!(is_marked || disk_bytes(disk) == before, "{what}: {failed:?}");
    };
    with_each_operation_denied(&fs, |disk, store, what| {
        let failed = match store.lock(session) {
            Ok(_) => None,
            Err(StoreError::Io(error)) => Some(error.op),
            Err(other) => panic!("{what}: {other:?}"),
        };
        check(disk, failed, what);
    });
    with_each_operation_denied(&fs, |disk, store, what| {
        let failed = match store.load_or_create() {
            Ok(_) => None,
            Err(KeyringError::Io(error)) => Some(error.op),
            Err(other) => panic!("{what}: {other:?}"),
        };
        check(disk, failed, what);
    });
    assert!(failed_syncs >= 4, "a file and a folder of the session and of the keys: {failed_syncs}");
}

/// Broke: `repair` offered to give up segments that this user may not read.
#[test]
fn repair_does_not_give_up_unreadable_segments() {
    let fs = SimFs::new();
    let written = write_session(&open(fs.clone()), 1, &[Step::Advance, Step::Advance]);
    let session = session_of(&written);
    let segments = fs.all_files().into_iter().filter(|file| file.as_str().contains("/events/"));
    for denied in segments.chain([within(session, "events"), within(session, "manifest.jsonl")]) {
        let disk = fs.fork();
        disk.set_unreadable(&denied);
        let store = open(disk.clone());
        let slice = store.read(session, None).unwrap();
        let (SessionHealth::CorruptTail { reason, .. } | SessionHealth::CorruptHead { reason }) =
            slice.health
        else {
            panic!("{denied}: {:?}", slice.health)
        };
        assert!(
            matches!(&reason, CorruptionReason::AccessDenied { path, .. } if *path == denied.to_string()),
            "{denied}: {reason:?}"
        );
        let refused = store.diagnose(session, None).unwrap_err();
        assert!(matches!(refused, UpkeepError::NotRepairable { .. }), "{denied}: {refused:?}");
        assert!(store.repair(session, None).is_err());
    }
}

/// Broke: a completed write with an unreadable file was called damaged.
#[test]
fn a_completed_write_with_an_unreadable_file_is_not_damage() {
    let [_, (fs, session)] = sound_and_interrupted();
    let events = events_of(&history::plans(1, &[Step::Advance, Step::Advance]));
    let snapshot = events.iter().rev().find_map(|event| event.data.snapshot_ref()).unwrap();
    let segment = within(session, &format!("events/{}", last_segment(&fs)));
    for denied in [segment, path(&format!("snapshots/{}.json", snapshot.digest().hex()))] {
        let disk = fs.fork();
        disk.set_unreadable(&denied);
        let store = open(disk);
        let slice = store.read(session, None).unwrap();
        let SessionHealth::CorruptTail { reason, .. } = slice.health else {
            panic!("{denied}: {:?}", slice.health)
        };
        assert!(
            matches!(&reason, CorruptionReason::AccessDenied { path, .. } if *path == denied.to_string()),
            "{denied}: {reason:?}"
        );
        let refused = store.repair(session, None).unwrap_err();
        assert!(matches!(refused, UpkeepError::NotRepairable { .. }), "{denied}: {refused:?}");
    }
}
