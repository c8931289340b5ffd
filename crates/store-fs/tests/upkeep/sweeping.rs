//! Sweeping unreferenced content, on a quiet disk and next to writers that do not wait (G25).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_ports::backup::{BackupOptions, Replicate as _, RestoreOptions, SessionChange};
use workrail_ports::file_system::{FileSystem, LockMode};
use workrail_ports::session_store::{LockedSession as _, SessionReader as _, SessionStore as _, StoreError};
use workrail_ports::upkeep::{Inspection, Stray, StrayKind, Sweep, Tally, Upkeep as _, UpkeepError};
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;
use workrail_store_fs::sim::SimFs;
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::history::{PlanParts, Step};

use crate::support::{
    Stream, commit, disk_bytes, events_of, open, path, session_of, unseen_plan, within, write_session,
};
use crate::{STEPS, has_all_content, swept_files};

type Damage<'a> = &'a dyn Fn(&SimFs, SessionId);

fn doubted(error: UpkeepError) -> Vec<String> {
    let UpkeepError::InDoubt(doubts) = error else { panic!("{error:?}") };
    doubts.into_iter().map(|doubt| doubt.what).collect()
}

#[test]
fn a_sweep_removes_unreferenced_content_and_a_dry_run_reports_it_first() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let doomed = write_session(&store, 1, &STEPS);
    let spared = write_session(&store, 2, &STEPS);
    assert_eq!(swept_files(&store.sweep(Sweep::Real).unwrap()), 0, "all of it is needed");

    let without = BTreeSet::from([session_of(&doomed)]);
    let promised = store.sweep(Sweep::DryRun { without: &without }).unwrap();
    let weighed = store.weigh(session_of(&doomed)).unwrap();
    assert_eq!(store.remove(session_of(&doomed), None), Ok(weighed));
    assert!(matches!(
        store.remove(session_of(&doomed), None),
        Err(UpkeepError::Store(StoreError::NotFound { .. }))
    ));
    let swept = store.sweep(Sweep::Real).unwrap();
    assert_eq!(swept, promised);
    assert!(swept.snapshots.files > 0 && swept.blobs.files > 0 && swept.workflows.files == 1, "{swept:?}");
    assert!(has_all_content(&store, &events_of(&spared)));
    assert_eq!(swept_files(&store.sweep(Sweep::Real).unwrap()), 0);
    assert_eq!(store.sessions(), Ok(vec![session_of(&spared)]));
    let names: Vec<String> = sim.all_files().iter().map(ToString::to_string).collect();
    assert!(!names.iter().any(|name| name.contains(&session_of(&doomed).to_string())), "{names:?}");
}

#[test]
fn a_doubt_about_any_session_stops_the_sweep() {
    let damages: [(&str, Damage<'_>); 6] = [
        ("a flipped bit", &|sim, id| {
            let file = within(id, "manifest.jsonl");
            let mut bytes = sim.read_raw(&file).unwrap();
            bytes[30] ^= 1;
            sim.write_raw(&file, &bytes);
        }),
        ("a newer version", &|sim, id| {
            let file = within(id, "manifest.jsonl");
            let text = String::from_utf8(sim.read_raw(&file).unwrap()).unwrap();
            sim.write_raw(&file, text.replacen("\"v\":1", "\"v\":2", 1).as_bytes());
        }),
        ("a newer kind", &|sim, id| {
            let file = within(id, "manifest.jsonl");
            let text = String::from_utf8(sim.read_raw(&file).unwrap()).unwrap();
            sim.write_raw(&file, text.replacen("blob_pinned", "thing_pinned", 1).as_bytes());
        }),
        ("a manifest nobody may read", &|sim, id| sim.set_unreadable(&within(id, "manifest.jsonl"))),
        ("a lost manifest", &|sim, id| sim.remove_raw(&within(id, "manifest.jsonl"))),
        ("a link in place of the folder", &|sim, id| {
            let folder = path(&format!("sessions/{id}"));
            sim.remove_raw(&folder);
            sim.make_symlink_raw(&folder);
        }),
    ];
    for (what, damage) in damages {
        let sim = SimFs::new();
        let store = open(sim.clone());
        let doomed = write_session(&store, 1, &STEPS);
        let damaged = write_session(&store, 2, &STEPS);
        store.remove(session_of(&doomed), None).unwrap();
        damage(&sim, session_of(&damaged));
        let before = disk_bytes(&sim);
        let store = open(sim.clone());
        for sweep in [Sweep::Real, Sweep::DryRun { without: &BTreeSet::new() }] {
            let doubts = doubted(store.sweep(sweep).expect_err(what));
            assert_eq!(doubts, [session_of(&damaged).to_string()], "{what}");
        }
        let mut after = disk_bytes(&sim);
        after.remove(&path("store.lock"));
        let mut before = before;
        before.remove(&path("store.lock"));
        assert_eq!(after, before, "{what}: nothing is removed");
    }
    let sim = SimFs::new();
    let store = open(sim.clone());
    sim.make_dir_raw(&path("sessions/session-of-the-future"));
    assert_eq!(doubted(store.sweep(Sweep::Real).unwrap_err()), ["sessions/session-of-the-future"]);
    assert_eq!(store.foreign_folders().unwrap(), ["sessions/session-of-the-future"]);
}

#[test]
fn a_new_manifest_kind_is_a_newer_version_and_not_damage() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let written = write_session(&store, 1, &STEPS);
    let id = session_of(&written);
    let file = within(id, "manifest.jsonl");
    let sound = sim.read_raw(&file).unwrap();
    let text = String::from_utf8(sound).unwrap();
    for kind in ["segment_closed", "snapshot_pinned", "blob_pinned"] {
        sim.write_raw(&file, text.replacen(kind, "something_new", 1).as_bytes());
        let health = open(sim.clone()).read(id, None).unwrap().health;
        let SessionHealth::UnknownVersion { record, version: 1 } = health else {
            panic!("{kind}: {health:?}")
        };
        assert!(record.contains("something_new"), "{record}");
    }
    // Also after everything that this build knows.
    let line = text.lines().last().unwrap().replace("blob_pinned", "x").replace("snapshot_pinned", "x");
    sim.write_raw(&file, format!("{text}{line}\n").as_bytes());
    let health = open(sim.clone()).read(id, None).unwrap().health;
    assert!(matches!(health, SessionHealth::UnknownVersion { .. }), "{health:?}");
}

#[test]
fn leftovers_are_removed_when_no_process_holds_them() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let written = write_session(&store, 1, &STEPS);
    let id = session_of(&written);
    let begun = session_of(&workrail_testkit::history::plans(8, &[]));
    let held = session_of(&workrail_testkit::history::plans(9, &[]));
    drop(store.create(begun).unwrap());
    let being_made = store.create(held).unwrap();
    for (file, bytes) in [
        ("snapshots/.tmp-x-0", 3),
        ("blobs/.tmp-x-1", 4),
        ("workflows/pinned/.tmp-x-2", 5),
        ("sessions/.tmp-deleted-sess_0000000000000000/events/00000000-00000001.jsonl", 6),
        ("sessions/.tmp-removed-sess_0000000000000001/manifest.jsonl", 7),
        ("sessions/.tmp-import-1/manifest.jsonl", 8),
        ("backups/.tmp-sess_0000000000000000/manifest.jsonl", 9),
    ] {
        sim.write_raw(&path(file), &vec![b'x'; bytes]);
    }
    sim.write_raw(&within(id, ".tmp-manifest"), b"1234567890");
    sim.write_raw(&within(id, "events/.tmp-segment"), b"12345678901");
    sim.write_raw(&path("sessions/.tmp-import-2/.lock"), b"");
    sim.write_raw(&path("sessions/.tmp-import-2/manifest.jsonl"), b"still being staged");
    let staging = sim.lock(&path("sessions/.tmp-import-2/.lock"), LockMode::Exclusive, Default::default());
    let (strays, count) = store.strays(100).unwrap();
    assert_eq!(count, strays.len() as u64);
    let empty = |id| Stray { path: format!("sessions/{id}"), kind: StrayKind::EmptySession };
    let (leftovers, others): (Vec<_>, Vec<_>) =
        strays.into_iter().partition(|stray| stray.kind == StrayKind::Leftover);
    assert_eq!((leftovers.len(), others), (10, vec![empty(begun), empty(held)]));

    let swept = store.sweep(Sweep::Real).unwrap();
    // The lock file of the session that was never begun is removed as well.
    assert_eq!(swept.leftovers, Tally { files: 10, bytes: (3..=11).sum() }, "{swept:?}");
    drop((being_made, staging));
    let left: Vec<String> = store.strays(100).unwrap().0.into_iter().map(|stray| stray.path).collect();
    assert_eq!(left, [format!("sessions/{held}"), "sessions/.tmp-import-2".to_owned()]);
    store.sweep(Sweep::Real).unwrap();
    assert_eq!(store.strays(100).unwrap().1, 0);
    assert_eq!(store.sessions(), Ok(vec![id]));
    assert!(!sim.all_files().iter().any(|file| file.as_str().contains(&held.to_string())));
    assert!(has_all_content(&store, &events_of(&written)));
    sim.write_raw(&path("notes.txt"), b"of the user");
    let (strays, _) = store.strays(100).unwrap();
    assert_eq!((strays[0].path.as_str(), strays[0].kind), ("notes.txt", StrayKind::Unknown));
}

#[test]
fn a_sweep_waits_briefly_for_writers_and_then_reports_busy() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    write_session(&store, 1, &STEPS);
    let writing = sim.lock(&path("store.lock"), LockMode::Shared, Default::default()).unwrap();
    assert_eq!(store.sweep(Sweep::Real), Err(UpkeepError::Busy));
    drop(writing);
    assert!(store.sweep(Sweep::Real).is_ok());
}

/// Broke: it prevented every sweep.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a sparse file, which the port cannot make, is made from outside the adapter"
)]
fn a_file_among_the_backups_that_no_store_writes_is_reported_and_does_not_stop_the_sweep() {
    let dir = tempfile::tempdir().unwrap();
    let root = camino::Utf8Path::from_path(dir.path()).unwrap();
    let store = open(Disk::open(root).unwrap());
    let doomed = session_of(&write_session(&store, 1, &STEPS));
    store.remove(doomed, None).unwrap();
    let large = root.join("backups/archive/disk.img");
    std::fs::create_dir_all(large.parent().unwrap()).unwrap();
    // Sparse: it takes no space.
    std::fs::File::create(&large).unwrap().set_len(MANIFEST_BYTES_MAX + 1).unwrap();
    let strays = store.strays(100).unwrap().0;
    let expected = Stray { path: "backups/archive/disk.img".to_owned(), kind: StrayKind::Unknown };
    assert_eq!(strays, [expected]);
    assert!(swept_files(&store.sweep(Sweep::Real).unwrap()) > 0);
    assert!(large.exists());
}

/// A store on a real disk, which can hold sparse files, and the folder of its only session.
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
fn store_with_one_session(
    root: &camino::Utf8Path,
) -> (LocalStore<Disk>, Vec<PlanParts>, camino::Utf8PathBuf) {
    let store = open(Disk::open(root).unwrap());
    let written = write_session(&store, 1, &STEPS);
    let folder = root.join(format!("sessions/{}", session_of(&written)));
    (store, written, folder)
}

/// Makes a file longer than any that a store writes. Sparse: it takes no space.
#[expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a sparse file, which the port cannot make, is made from outside the adapter"
)]
fn enlarge(file: &camino::Utf8Path) {
    std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(MANIFEST_BYTES_MAX + 1).unwrap();
}

fn segment_name(parts: &PlanParts) -> String {
    let (first, next) = (parts.events[0].event_index.get(), parts.next_index().get());
    format!("events/{first:08}-{:08}.jsonl", next - 1)
}

#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
fn has_all_references(store: &LocalStore<Disk>, written: &[PlanParts]) -> bool {
    let all = events_of(written);
    let mut needed = all.iter().flat_map(|event| event.data.content_refs());
    needed.all(|(kind, digest)| store.contents(kind).unwrap().contains(&digest))
}

/// Broke: the pinned workflow was swept, because a file of that length was taken for a foreign one.
#[test]
fn content_that_only_an_overlong_log_moved_aside_by_a_restore_refers_to_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let root = camino::Utf8Path::from_path(dir.path()).unwrap();
    let (store, written, folder) = store_with_one_session(&root.join("store"));
    let backup = LocalStore::read_only(
        Disk::open(&root.join("backup")).unwrap(),
        Box::new(SeededEntropy::new(9)),
        "boot-1".to_owned(),
    );
    let options = BackupOptions { with_keys: false, check_all: false };
    store.back_up_to(&backup, options, &mut |_, _| {}).unwrap();
    enlarge(&folder.join(segment_name(&written[0])));
    let restored =
        store.restore_from(&backup, RestoreOptions { only: None, dry_run: false }, &mut |_, _| {}).unwrap();
    assert!(matches!(restored.sessions[0].change, SessionChange::Replaced { .. }), "{restored:?}");
    assert_eq!(store.strays(100).unwrap().1, 0, "it is ours");

    store.remove(session_of(&written), None).unwrap();
    assert_eq!(swept_files(&store.sweep(Sweep::Real).unwrap()), 0);
    assert!(has_all_references(&store, &written));
}

#[test]
fn content_that_only_an_overlong_log_moved_aside_by_a_repair_refers_to_is_kept() {
    for damaged in ["manifest", "last segment"] {
        let dir = tempfile::tempdir().unwrap();
        let root = camino::Utf8Path::from_path(dir.path()).unwrap();
        let (store, written, folder) = store_with_one_session(root);
        enlarge(&folder.join(match damaged {
            "manifest" => "manifest.jsonl".to_owned(),
            _ => segment_name(written.last().unwrap()),
        }));
        let repaired = store.repair(session_of(&written), None).unwrap();
        assert_eq!(repaired.backup, format!("backups/{}-1", session_of(&written)));
        assert_eq!(store.strays(100).unwrap().1, 0, "{damaged}: it is ours");
        store.remove(session_of(&written), None).unwrap();
        assert_eq!(swept_files(&store.sweep(Sweep::Real).unwrap()), 0, "{damaged}");
        assert!(has_all_references(&store, &written), "{damaged}");
    }
}

/// Broke: the sweep read it for hours.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a sparse file, which the port cannot make, is made from outside the adapter"
)]
fn a_log_file_of_a_terabyte_among_the_backups_stops_the_sweep_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = camino::Utf8Path::from_path(dir.path()).unwrap();
    let (store, written, folder) = store_with_one_session(root);
    let segment = segment_name(written.last().unwrap());
    std::fs::OpenOptions::new().write(true).open(folder.join(&segment)).unwrap().set_len(1 << 40).unwrap();
    let backup = store.repair(session_of(&written), None).unwrap().backup;
    store.remove(session_of(&written), None).unwrap();
    let Err(UpkeepError::InDoubt(doubts)) = store.sweep(Sweep::Real) else {
        panic!("it may need any content")
    };
    let [doubt] = doubts.as_slice() else { panic!("{doubts:?}") };
    assert_eq!(doubt.what, backup);
    assert!(doubt.why.contains(&format!("{backup}/{segment}")), "{}", doubt.why);
    assert!(has_all_references(&store, &written));

    std::fs::remove_file(root.join(format!("{backup}/{segment}"))).unwrap();
    assert!(store.sweep(Sweep::Real).is_ok());
}

#[test]
fn figure_sweeping_during_writes() {
    let dir = tempfile::tempdir().unwrap();
    let root = camino::Utf8Path::from_path(dir.path()).unwrap();
    let store = || open(Disk::open(root).unwrap());
    const WRITERS: u64 = 3;
    const APPENDS: u64 = 25;
    let working = AtomicUsize::new(WRITERS as usize);
    let (mut sweeps, mut swept, mut waited) = (0_u64, 0_u64, AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (working, waited) = (&working, &waited);
            scope.spawn(move || {
                let mine = store();
                let id = session_of(&write_session(&mine, writer, &STEPS));
                let mut stream = Stream::new(writer);
                let mut done = 0;
                while done < APPENDS {
                    // A short-lived session that leaves garbage behind.
                    let passing =
                        session_of(&write_session(&mine, 1_000 + writer * 100 + done, &[Step::Advance]));
                    mine.remove(passing, None).expect("it is ours alone");
                    let mut locked = mine.lock(id).expect("ours alone");
                    let parts = stream.next(id, locked.cursor().next_event_index);
                    match locked.append(parts.plan()) {
                        Ok(_) => done += 1,
                        Err(StoreError::Busy) => {
                            waited.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error:?}"),
                    }
                }
                working.fetch_sub(1, Ordering::Release);
            });
        }
        let sweeper = store();
        loop {
            let last = working.load(Ordering::Acquire) == 0;
            match sweeper.sweep(Sweep::Real) {
                Ok(done) => {
                    sweeps += 1;
                    swept += swept_files(&done);
                }
                Err(UpkeepError::Busy) => {}
                Err(error) => panic!("{error:?}"),
            }
            if last {
                break;
            }
        }
    });
    let after = store();
    let mut events = 0;
    for session in after.sessions().unwrap() {
        let slice = after.read(session, None).unwrap();
        assert!(slice.health.is_healthy());
        assert!(has_all_content(&after, &slice.events), "{session} lost content");
        events += slice.events.len();
    }
    assert_eq!(after.sessions().unwrap().len() as u64, WRITERS);
    assert_eq!(after.strays(10).unwrap().1, 0);
    assert_eq!(swept_files(&after.sweep(Sweep::Real).unwrap()), 0);
    println!(
        "figure: {WRITERS} writers x {APPENDS} appends during {sweeps} sweeps: {swept} files swept, {events} events, \
         lost 0, told to wait {}",
        waited.get_mut()
    );
    assert!(swept > 0);
}

#[test]
fn a_sweep_during_a_commit_does_not_disturb_it() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let written = write_session(&store, 1, &STEPS);
    let mut locked = store.lock(session_of(&written)).unwrap();
    let parts = unseen_plan(session_of(&written), locked.cursor().next_event_index, 3);
    open(sim.clone()).sweep(Sweep::Real).unwrap();
    commit(&mut locked, &parts);
    assert!(has_all_content(&store, &parts.events));
}
