//! Keeping, removing, sweeping and mending on a quiet disk, and beside writers that do not wait (G24, G25).
mod support;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{Stream, append_stranger, commit, events_of, open, path, session_of, within, write_session};
use workrail_model::event::Event;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_ports::content::ContentStore as _;
use workrail_ports::file_system::{FileSystem, FsErrorKind, FsOp, LockMode, RelPath};
use workrail_ports::keyring::{KeyringError, KeyringStore as _};
use workrail_ports::session_store::{LockedSession as _, SessionReader as _, SessionStore as _, StoreError};
use workrail_ports::upkeep::{StrayKind, Sweep, Tally, Upkeep as _, UpkeepError};
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;
use workrail_store_fs::sim::SimFs;
use workrail_testkit::history::{PlanParts, Step};

type Damage<'a> = &'a dyn Fn(&SimFs, SessionId);
type FileDamage<'a> = &'a dyn Fn(&SimFs, &RelPath);

const STEPS: [Step; 3] = [Step::AdvanceWithArtifact, Step::Advance, Step::Checkpoint];

fn has_all_content<F: FileSystem>(store: &LocalStore<F>, events: &[Event]) -> bool {
    events.iter().all(|event| {
        let blobs = event.data.blob_refs().into_iter().all(|blob| store.blob(blob).is_ok());
        blobs && event.data.snapshot_ref().is_none_or(|snapshot| store.snapshot(snapshot).is_ok())
    })
}

fn swept_files(swept: &workrail_ports::upkeep::Swept) -> u64 {
    [swept.snapshots, swept.blobs, swept.workflows, swept.leftovers].iter().map(|tally| tally.files).sum()
}

fn doubted(error: UpkeepError) -> Vec<String> {
    let UpkeepError::InDoubt(doubts) = error else { panic!("{error:?}") };
    doubts.into_iter().map(|doubt| doubt.what).collect()
}

#[test]
fn a_sweep_removes_what_nobody_needs_and_a_dry_run_says_so_before() {
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
fn any_doubt_about_any_session_and_nothing_goes() {
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
        let before = support::disk_bytes(&sim);
        let store = open(sim.clone());
        for sweep in [Sweep::Real, Sweep::DryRun { without: &BTreeSet::new() }] {
            let doubts = doubted(store.sweep(sweep).expect_err(what));
            assert_eq!(doubts, [session_of(&damaged).to_string()], "{what}");
        }
        let mut after = support::disk_bytes(&sim);
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
fn a_new_manifest_kind_is_a_newer_version_and_no_damage() {
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
    // Behind everything that this build knows, too.
    let line = text.lines().last().unwrap().replace("blob_pinned", "x").replace("snapshot_pinned", "x");
    sim.write_raw(&file, format!("{text}{line}\n").as_bytes());
    let health = open(sim.clone()).read(id, None).unwrap().health;
    assert!(matches!(health, SessionHealth::UnknownVersion { .. }), "{health:?}");
}

#[test]
fn a_kept_session_is_not_removed_and_a_mark_in_doubt_keeps() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let id = session_of(&write_session(&store, 1, &STEPS));
    store.keep(id).unwrap();
    store.keep(id).unwrap();
    assert!(open(sim.clone()).is_kept(id));
    assert_eq!(store.remove(id, None), Err(UpkeepError::Kept { session: id }));
    store.unkeep(id).unwrap();
    assert!(!store.is_kept(id));
    // Whatever stands where the mark would be counts as one.
    sim.make_symlink_raw(&within(id, "keep"));
    assert_eq!(store.remove(id, None), Err(UpkeepError::Kept { session: id }));
    sim.remove_raw(&within(id, "keep"));
    let unknown = session_of(&workrail_testkit::history::plans(9, &[]));
    for refused in [store.keep(unknown), store.unkeep(unknown)] {
        assert!(matches!(refused, Err(UpkeepError::Store(StoreError::NotFound { .. }))));
    }
    store.remove(id, None).unwrap();
}

#[test]
fn a_session_that_was_used_since_it_was_judged_stays() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let id = session_of(&write_session(&store, 1, &STEPS));
    let judged = store.read(id, None).unwrap().cursor;
    append_stranger(sim.clone(), id, 5);
    assert_eq!(store.remove(id, Some(&judged)), Err(UpkeepError::Changed { session: id }));
    let held = store.lock(id).unwrap();
    let other = open(sim.clone());
    assert!(matches!(other.remove(id, None), Err(UpkeepError::Store(StoreError::Locked { .. }))));
    drop(held);
    let judged = store.read(id, None).unwrap().cursor;
    assert!(other.remove(id, Some(&judged)).is_ok());
}

#[test]
fn who_remembers_a_removed_session_finds_it_gone_and_does_not_bring_it_back() {
    let sim = SimFs::new();
    let server = open(sim.clone());
    let written = write_session(&server, 1, &STEPS);
    let id = session_of(&written);
    let cursor = server.read(id, None).unwrap().cursor;
    drop(server.lock(id).unwrap());
    open(sim.clone()).remove(id, None).unwrap();
    let gone = |error: StoreError| matches!(error, StoreError::NotFound { .. });
    assert!(server.lock(id).is_err_and(gone));
    assert!(server.read(id, Some(&cursor)).is_err_and(gone));
    assert!(server.sessions().unwrap().is_empty());
    assert!(!sim.all_files().iter().any(|file| file.as_str().starts_with("sessions/")));
}

#[test]
fn sessions_removed_together_have_an_answer_each_and_one_sync() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let ids: Vec<SessionId> = (1..6).map(|seed| session_of(&write_session(&store, seed, &STEPS))).collect();
    store.keep(ids[1]).unwrap();
    let stale = store.read(ids[2], None).unwrap().cursor;
    append_stranger(sim.clone(), ids[2], 9);
    let held = open(sim.clone());
    let _writer = held.lock(ids[3]).unwrap();
    let asked: Vec<_> = ids.iter().map(|id| (*id, (*id == ids[2]).then_some(stale))).collect();
    let before = sim.trace().len();
    let answers = store.remove_all(&asked);
    let syncs = sim.trace()[before..].iter().filter(|(op, _)| *op == FsOp::SyncDir).count();
    assert!(answers[0].is_ok() && answers[4].is_ok(), "{answers:?}");
    assert_eq!(answers[1], Err(UpkeepError::Kept { session: ids[1] }));
    assert_eq!(answers[2], Err(UpkeepError::Changed { session: ids[2] }));
    assert!(matches!(answers[3], Err(UpkeepError::Store(StoreError::Locked { .. }))));
    assert_eq!(syncs, 1);
    let mut left = ids[1..4].to_vec();
    left.sort_unstable();
    assert_eq!(store.sessions(), Ok(left));
}

#[test]
fn leftovers_go_when_nobody_holds_them() {
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
    assert!(strays.iter().all(|stray| stray.kind == StrayKind::Leftover), "{strays:?}");

    let swept = store.sweep(Sweep::Real).unwrap();
    // The lock's file of the session that was never begun goes as well.
    assert_eq!(swept.leftovers, Tally { files: 10, bytes: (3..=11).sum() }, "{swept:?}");
    drop((being_made, staging));
    let left: Vec<String> = store.strays(100).unwrap().0.into_iter().map(|stray| stray.path).collect();
    assert_eq!(left, ["sessions/.tmp-import-2"]);
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
fn a_sweep_waits_for_writers_a_moment_and_then_says_busy() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    write_session(&store, 1, &STEPS);
    let writing = sim.lock(&path("store.lock"), LockMode::Shared, Default::default()).unwrap();
    assert_eq!(store.sweep(Sweep::Real), Err(UpkeepError::Busy));
    drop(writing);
    assert!(store.sweep(Sweep::Real).is_ok());
}

/// A session damaged in its third segment, and the bytes of its folder.
fn damaged(sim: &SimFs, seed: u64) -> (SessionId, Vec<PlanParts>) {
    let written = write_session(&open(sim.clone()), seed, &STEPS);
    let id = session_of(&written);
    let (first, last) = (written[2].events[0].event_index.get(), written[2].next_index().get() - 1);
    let file = within(id, &format!("events/{first:08}-{last:08}.jsonl"));
    let mut bytes = sim.read_raw(&file).expect("a segment");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    sim.write_raw(&file, &bytes);
    (id, written)
}

#[test]
fn a_repair_keeps_the_prefix_says_what_it_gives_up_and_leaves_a_backup() {
    let sim = SimFs::new();
    let (id, written) = damaged(&sim, 1);
    let store = open(sim.clone());
    let before = support::disk_bytes(&sim);
    let planned = store.diagnose(id, None).unwrap();
    assert_eq!(support::disk_bytes(&sim), before, "a diagnosis changes nothing");
    assert_eq!(planned.keeps_until, written[2].events[0].event_index);
    assert_eq!(planned.backup, format!("backups/{id}-1"));
    assert_eq!(planned.gives_up.len(), 2);
    let (broken, sound) = (&planned.gives_up[0], &planned.gives_up[1]);
    assert!(broken.unreadable_lines <= 1 && broken.is_there);
    assert_eq!(sound.events.len(), written[3].events.len());
    assert_eq!(sound.events.iter().filter(|event| event.has_notes).count(), 1);

    assert_eq!(store.repair(id, None).unwrap(), planned);
    let slice = open(sim.clone()).read(id, None).unwrap();
    assert!(slice.health.is_healthy());
    assert_eq!(slice.events, events_of(&written[..2]));
    for (file, bytes) in &before {
        if let Some(name) = file.as_str().strip_prefix(&format!("sessions/{id}/"))
            && name != ".lock"
        {
            assert_eq!(sim.read_raw(&path(&format!("{}/{name}", planned.backup))).as_ref(), Some(bytes));
        }
    }
    // What only the backup refers to is not garbage.
    assert_eq!(swept_files(&store.sweep(Sweep::Real).unwrap()), 0);
    assert!(has_all_content(&store, &events_of(&written)));
    append_stranger(sim.clone(), id, 7);
    assert!(matches!(
        store.repair(id, None),
        Err(UpkeepError::NotMendable { health: SessionHealth::Healthy, .. })
    ));
}

#[test]
fn a_log_that_stops_making_sense_is_cut_at_the_group_before() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let written = write_session(&store, 1, &STEPS);
    let id = session_of(&written);
    let inside_the_third = written[2].events[2].event_index;
    let done = store.repair(id, Some(inside_the_third)).unwrap();
    assert_eq!(done.keeps_until, written[2].events[0].event_index);
    assert_eq!(store.read(id, None).unwrap().events, events_of(&written[..2]));
    assert_eq!(store.diagnose(id, None).map(|_| ()).unwrap_err(), not_mendable(id, SessionHealth::Healthy));
}

fn last_segment(id: SessionId, written: &[PlanParts]) -> RelPath {
    let events = &written.last().expect("a plan").events;
    let (first, last) = (events[0].event_index, events[events.len() - 1].event_index);
    within(id, &workrail_model::manifest::segment_rel_path(first, last))
}

fn not_mendable(session: SessionId, health: SessionHealth) -> UpkeepError {
    UpkeepError::NotMendable { session, health }
}

#[test]
fn what_cannot_be_repaired_is_refused_and_untouched() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let id = session_of(&write_session(&store, 1, &STEPS));
    let manifest = within(id, "manifest.jsonl");
    let first = within(id, "events/00000000-00000004.jsonl");
    let text = |file| String::from_utf8(sim.read_raw(file).unwrap()).unwrap();
    let (sound, segment) = (text(&manifest), text(&first));
    let newer = sound.replacen("\"v\":1}", "\"v\":2,\"when\":3}", 1);
    let (damaged_manifest, broken) =
        (sound.replacen("bytes", "bites", 1), segment.replacen("eventIndex", "eventindex", 1));
    let newer_event = segment.replacen("session_created\",\"sess", "session_opened\",\"sess", 1);
    let cases = [
        ("a newer record", &newer, &segment),
        ("a damaged manifest and a damaged first segment", &damaged_manifest, &broken),
        ("a damaged manifest and a newer event", &damaged_manifest, &newer_event),
    ];
    for (what, manifest_text, segment_text) in cases {
        sim.write_raw(&manifest, manifest_text.as_bytes());
        sim.write_raw(&first, segment_text.as_bytes());
        let before = support::disk_bytes(&sim);
        let refused = open(sim.clone()).repair(id, None);
        assert!(matches!(refused, Err(UpkeepError::NotMendable { .. })), "{what}: {refused:?}");
        assert_eq!(support::disk_bytes(&sim), before);
    }
    // A backup that would leave something out is none, and without a backup nothing changes.
    let (id, _) = damaged(&sim, 2);
    sim.make_symlink_raw(&within(id, "events/00000099-00000100.jsonl"));
    let refused = open(sim.clone()).repair(id, None);
    assert!(matches!(refused, Err(UpkeepError::NotCopied { .. })), "{refused:?}");
    assert!(!open(sim.clone()).read(id, None).unwrap().health.is_healthy());
}

#[test]
fn a_changed_kind_or_version_in_a_segment_is_damage_and_can_be_repaired() {
    for (from, to) in [("node_output_appended", "node_outputWappended"), ("\"v\":1}", "\"v\":3}")] {
        let sim = SimFs::new();
        let store = open(sim.clone());
        let written = write_session(&store, 1, &STEPS);
        let id = session_of(&written);
        let file = last_segment(id, &written);
        let text = String::from_utf8(sim.read_raw(&file).unwrap()).unwrap();
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        sim.write_raw(&file, changed.as_bytes());
        let done = open(sim.clone()).repair(id, None).unwrap();
        assert_eq!(done.keeps_until, written.last().unwrap().events[0].event_index, "{from}");
        let slice = open(sim.clone()).read(id, None).unwrap();
        assert!(slice.health.is_healthy());
        assert_eq!(slice.events, events_of(&written[..written.len() - 1]));
    }
}

#[test]
fn whatever_is_in_the_place_of_a_segment_the_log_before_it_is_repaired() {
    let inside = |file: &RelPath| path(&format!("{file}/mine.txt"));
    let damages: [(&str, FileDamage<'_>); 2] = [
        ("a folder", &|sim, file| {
            sim.make_dir_raw(file);
            sim.write_raw(&inside(file), b"kept");
        }),
        ("a link", &|sim, file| sim.make_symlink_raw(file)),
    ];
    for (what, damage) in damages {
        let sim = SimFs::new();
        let written = write_session(&open(sim.clone()), 1, &STEPS);
        let id = session_of(&written);
        let file = last_segment(id, &written);
        sim.remove_raw(&file);
        damage(&sim, &file);
        let done = open(sim.clone()).repair(id, None).unwrap();
        let slice = open(sim.clone()).read(id, None).unwrap();
        assert!(slice.health.is_healthy(), "{what}");
        assert_eq!(slice.events, events_of(&written[..written.len() - 1]), "{what}");
        if what == "a folder" {
            let moved = path(&format!("{}/events/{}", done.backup, file.file_name()));
            assert_eq!(sim.read_raw(&inside(&moved)), Some(b"kept".to_vec()));
        }
        append_stranger(sim.clone(), id, 7);
    }
}

#[test]
fn a_folder_in_the_place_of_content_is_kept_aside_by_the_writer() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let written = write_session(&store, 1, &STEPS);
    let snapshot = written[0].events.iter().find_map(|event| event.data.snapshot_ref()).unwrap();
    let file = path(&format!("snapshots/{}.json", snapshot.digest().hex()));
    let sound = sim.read_raw(&file).unwrap();
    sim.remove_raw(&file);
    sim.make_dir_raw(&file);
    sim.write_raw(&path(&format!("{file}/mine.txt")), b"kept");
    // The same steps again, in another session, refer to the same snapshots.
    store.remove(session_of(&written), None).unwrap();
    write_session(&open(sim.clone()), 1, &STEPS);
    assert_eq!(sim.read_raw(&file), Some(sound));
    let aside = format!("backups/content/snapshot-{}-1/mine.txt", snapshot.digest().hex());
    assert_eq!(sim.read_raw(&path(&aside)), Some(b"kept".to_vec()));
}

#[test]
fn a_manifest_that_is_damaged_or_lost_is_rebuilt_and_nothing_is_given_up() {
    let damages: [(&str, Damage<'_>); 7] = [
        ("a damaged word", &|sim, id| {
            let file = within(id, "manifest.jsonl");
            let text = String::from_utf8(sim.read_raw(&file).unwrap()).unwrap();
            sim.write_raw(&file, text.replacen("bytes", "bites", 1).as_bytes());
        }),
        ("a damaged kind", &|sim, id| {
            let file = within(id, "manifest.jsonl");
            let text = String::from_utf8(sim.read_raw(&file).unwrap()).unwrap();
            sim.write_raw(&file, text.replacen("snapshot_pinned", "snapshot_pinnee", 1).as_bytes());
        }),
        ("lost", &|sim, id| sim.remove_raw(&within(id, "manifest.jsonl"))),
        ("empty", &|sim, id| sim.write_raw(&within(id, "manifest.jsonl"), b"")),
        ("half", &|sim, id| {
            let file = within(id, "manifest.jsonl");
            let bytes = sim.read_raw(&file).unwrap();
            sim.write_raw(&file, &bytes[..bytes.len() / 2]);
        }),
        ("garbage", &|sim, id| sim.write_raw(&within(id, "manifest.jsonl"), &[0xff; 5000])),
        ("a folder in its place", &|sim, id| {
            sim.remove_raw(&within(id, "manifest.jsonl"));
            sim.make_dir_raw(&within(id, "manifest.jsonl"));
        }),
    ];
    for (what, damage) in damages {
        let sim = SimFs::new();
        let written = write_session(&open(sim.clone()), 1, &STEPS);
        let id = session_of(&written);
        let sound = sim.read_raw(&within(id, "manifest.jsonl"));
        damage(&sim, id);
        let store = open(sim.clone());
        assert!(!store.read(id, None).unwrap().health.is_healthy(), "{what}");
        let planned = store.diagnose(id, None).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((planned.gives_up.len(), planned.keeps_until), (0, written[3].next_index()), "{what}");
        assert!(planned.events_rebuilt > 0, "{what}");
        assert_eq!(
            store.repair(id, None).unwrap_or_else(|error| panic!("{what}: {error}")),
            planned,
            "{what}"
        );
        assert_eq!(sim.read_raw(&within(id, "manifest.jsonl")), sound, "{what}");
        assert_eq!(open(sim.clone()).read(id, None).unwrap().events, events_of(&written), "{what}");
        append_stranger(sim, id, 3);
    }
}

/// A digest that the manifest still attests speaks against a changed segment, also where the manifest is damaged.
#[test]
fn a_changed_segment_is_not_rebuilt_into_the_manifest() {
    let sim = SimFs::new();
    let (id, written) = damaged(&sim, 1);
    let file = within(id, "manifest.jsonl");
    let text = String::from_utf8(sim.read_raw(&file).unwrap()).unwrap();
    sim.write_raw(&file, text.replacen("bytes", "bites", 1).as_bytes());
    let planned = open(sim).diagnose(id, None).unwrap();
    assert_eq!(planned.keeps_until, written[2].events[0].event_index);
    assert_eq!(planned.gives_up.len(), 2);
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
fn a_read_error_that_may_pass_does_not_rewind_the_activity_counter() {
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

#[test]
fn figure_sweeping_beside_writers() {
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
                    // A passing session that leaves garbage behind.
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
        "figure: {WRITERS} writers x {APPENDS} appends beside {sweeps} sweeps: {swept} files swept, {events} events, \
         lost 0, told to wait {}",
        waited.get_mut()
    );
    assert!(swept > 0);
}

#[test]
fn a_sessions_commit_is_untouched_by_a_sweep_in_the_middle() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let written = write_session(&store, 1, &STEPS);
    let mut locked = store.lock(session_of(&written)).unwrap();
    let parts = support::stranger(session_of(&written), locked.cursor().next_event_index, 3);
    open(sim.clone()).sweep(Sweep::Real).unwrap();
    commit(&mut locked, &parts);
    assert!(has_all_content(&store, &parts.events));
}
