//! Folders and files that are in the way, may not be used, or are temporarily unreadable.

use workrail_ports::file_system::FsErrorKind;
use workrail_ports::keyring::{KeyringError, KeyringStore as _};
use workrail_ports::session_store::SessionReader as _;
use workrail_ports::upkeep::Inspection;
use workrail_ports::upkeep::Upkeep as _;
use workrail_store_fs::sim::SimFs;

use crate::STEPS;
use crate::support::{open, path, session_of, write_session};

#[test]
fn a_folder_in_the_place_of_content_is_moved_aside_by_the_writer() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let written = write_session(&store, 1, &STEPS);
    let snapshot = written[0].events.iter().find_map(|event| event.data.snapshot_ref()).unwrap();
    let file = path(&format!("snapshots/{}.json", snapshot.digest().hex()));
    let sound = sim.read_raw(&file).unwrap();
    sim.remove_raw(&file);
    sim.make_dir_raw(&file);
    sim.write_raw(&path(&format!("{file}/mine.txt")), b"kept");
    // Repeating the same steps in another session refers to the same snapshots.
    store.remove(session_of(&written), None).unwrap();
    write_session(&open(sim.clone()), 1, &STEPS);
    assert_eq!(sim.read_raw(&file), Some(sound));
    let aside = format!("backups/content/snapshot-{}-1/mine.txt", snapshot.digest().hex());
    assert_eq!(sim.read_raw(&path(&aside)), Some(b"kept".to_vec()));
}

#[test]
fn keys_in_a_folder_that_others_may_enter_are_refused() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let made = store.load_or_create().unwrap();
    assert_eq!(store.peek(), Ok(Some(made)));
    sim.set_others_may_access(&path("keys"));
    for refused in [store.load_or_create().map(|_| ()), store.peek().map(|_| ()), store.rotate().map(|_| ())]
    {
        assert_eq!(refused, Err(KeyringError::Exposed { path: "keys".to_owned() }));
    }
}

#[test]
fn a_temporary_read_error_does_not_rewind_the_activity_counter() {
    use workrail_ports::environment::ActivityCounter as _;
    use workrail_store_fs::sim::{Fault, FaultKind, FaultMode};
    let sim = SimFs::new();
    write_session(&open(sim.clone()), 1, &STEPS);
    let reached = open(sim.clone()).next().unwrap();
    sim.remove_raw(&path("activity"));
    sim.remove_raw(&path("activity.reserved"));
    for op in 0..40 {
        let fork = sim.fork();
        let store = open(fork.clone());
        let kind = FaultKind::Error(FsErrorKind::Io);
        fork.set_fault(Fault { at_op: fork.all_op_count() + op, kind, mode: FaultMode::Forever });
        if let Ok(next) = store.next() {
            assert!(next >= reached, "op {op}: {next:?} after {reached:?}");
        }
    }
}

/// Broke: a failed read counted as "nothing pending", and the next write dropped the other run's preferences.
#[test]
fn a_failed_read_does_not_count_as_no_pending_preferences() {
    use workrail_model::id::RunId;
    use workrail_model::passkey::PendingPreferences;
    use workrail_model::preferences::Preferences;
    use workrail_ports::pending_preferences::{PendingPreferencesReader as _, PendingPreferencesStore as _};
    use workrail_store_fs::sim::{Fault, FaultKind, FaultMode};
    let sim = SimFs::new();
    let store = open(sim.clone());
    let session = session_of(&write_session(&store, 1, &[]));
    let (run, other) = (RunId::from_bits([1; 10]), RunId::from_bits([2; 10]));
    let pending = PendingPreferences { preferences: Preferences::default(), proof: None };
    store.set_pending_preferences(session, &[(run, pending.clone())].into()).unwrap();
    for op in 0..10 {
        let fork = sim.fork();
        let store = open(fork.clone());
        let kind = FaultKind::Error(FsErrorKind::Io);
        fork.set_fault(Fault { at_op: fork.all_op_count() + op, kind, mode: FaultMode::Once });
        let read = store.pending_preferences(session, run);
        assert!(matches!(&read, Ok(Some(found)) if *found == pending) || read.is_err(), "op {op}: {read:?}");
        let fork = sim.fork();
        let store = open(fork.clone());
        fork.set_fault(Fault { at_op: fork.all_op_count() + op, kind, mode: FaultMode::Once });
        let _ = store.set_pending_preferences(session, &[(other, pending.clone())].into());
        fork.clear_fault();
        assert_eq!(open(fork).pending_preferences(session, run), Ok(Some(pending.clone())), "op {op}");
    }
}

/// Broke: a file in the place of a folder kept the whole store from opening, and was not reported.
#[test]
fn a_blocked_folder_or_lock_is_reported_and_the_store_still_opens() {
    for folder in ["sessions", "snapshots", "blobs", "workflows", "workflows/pinned"] {
        let sim = SimFs::new();
        sim.write_raw(&path(folder), b"a file");
        let named: Vec<String> = open(sim).obstacles().into_iter().map(|obstacle| obstacle.path).collect();
        assert_eq!(named, [folder]);
    }
    let sim = SimFs::new();
    let store = open(sim.clone());
    let id = session_of(&write_session(&store, 1, &[]));
    assert_eq!(store.obstacles(), []);
    sim.set_unreadable(&path("blobs"));
    for lock in ["store.lock".to_owned(), format!("sessions/{id}/.lock")] {
        sim.remove_raw(&path(&lock));
        sim.write_raw(&path(&format!("{lock}/notes.txt")), b"of the user");
    }
    let named: Vec<String> = store.obstacles().into_iter().map(|obstacle| obstacle.path).collect();
    assert_eq!(named, ["blobs".to_owned(), "store.lock".to_owned(), format!("sessions/{id}/.lock")]);
    assert!(store.read(id, None).is_ok(), "reading needs none of them");
}
