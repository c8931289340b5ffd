//! Repairing damaged sessions (G24).

use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_ports::file_system::{FsErrorKind, RelPath};
use workrail_ports::session_store::SessionReader as _;
use workrail_ports::upkeep::{Sweep, Upkeep as _, UpkeepError};
use workrail_store_fs::sim::{Fault, FaultKind, FaultMode, SimFs};
use workrail_testkit::history::PlanParts;

use crate::support::{
    append_unseen_plan, disk_bytes, events_of, open, path, session_of, within, write_session,
};
use crate::{STEPS, has_all_content, swept_files};

type Damage<'a> = &'a dyn Fn(&SimFs, SessionId);

type FileDamage<'a> = &'a dyn Fn(&SimFs, &RelPath);

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
fn a_repair_keeps_the_prefix_reports_what_it_gives_up_and_leaves_a_backup() {
    let sim = SimFs::new();
    let (id, written) = damaged(&sim, 1);
    let store = open(sim.clone());
    let before = disk_bytes(&sim);
    let planned = store.diagnose(id, None).unwrap();
    assert_eq!(disk_bytes(&sim), before, "a diagnosis changes nothing");
    assert_eq!(planned.keeps_until, written[2].events[0].event_index);
    assert_eq!(planned.backup, format!("backups/{id}-1"));
    assert_eq!(planned.lost.len(), 2);
    let (broken, sound) = (&planned.lost[0], &planned.lost[1]);
    assert!(broken.unreadable_lines <= 1 && broken.exists);
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
    append_unseen_plan(sim.clone(), id, 7);
    assert!(matches!(
        store.repair(id, None),
        Err(UpkeepError::NotRepairable { health: SessionHealth::Healthy, .. })
    ));
}

#[test]
fn an_inconsistent_log_is_cut_at_the_group_before() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let written = write_session(&store, 1, &STEPS);
    let id = session_of(&written);
    let inside_the_third = written[2].events[2].event_index;
    let done = store.repair(id, Some(inside_the_third)).unwrap();
    assert_eq!(done.keeps_until, written[2].events[0].event_index);
    assert_eq!(store.read(id, None).unwrap().events, events_of(&written[..2]));
    assert_eq!(store.diagnose(id, None).map(|_| ()).unwrap_err(), not_repairable(id, SessionHealth::Healthy));
}

fn last_segment(id: SessionId, written: &[PlanParts]) -> RelPath {
    let events = &written.last().expect("a plan").events;
    let (first, last) = (events[0].event_index, events[events.len() - 1].event_index);
    within(id, &workrail_model::manifest::segment_rel_path(first, last))
}

fn not_repairable(session: SessionId, health: SessionHealth) -> UpkeepError {
    UpkeepError::NotRepairable { session, health }
}

#[test]
fn an_unrepairable_session_is_refused_and_untouched() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let id = session_of(&write_session(&store, 1, &STEPS));
    let manifest = within(id, "manifest.jsonl");
    let first = within(id, "events/00000000-00000005.jsonl");
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
        let before = disk_bytes(&sim);
        let refused = open(sim.clone()).repair(id, None);
        assert!(matches!(refused, Err(UpkeepError::NotRepairable { .. })), "{what}: {refused:?}");
        assert_eq!(disk_bytes(&sim), before);
    }
    // An incomplete backup is worthless, and without a backup nothing changes.
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
fn the_log_before_a_blocked_segment_is_repaired() {
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
        append_unseen_plan(sim.clone(), id, 7);
    }
}

#[test]
fn a_damaged_or_lost_manifest_is_rebuilt_without_losing_anything() {
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
        assert_eq!((planned.lost.len(), planned.keeps_until), (0, written[3].next_index()), "{what}");
        assert!(planned.events_rebuilt > 0, "{what}");
        assert_eq!(
            store.repair(id, None).unwrap_or_else(|error| panic!("{what}: {error}")),
            planned,
            "{what}"
        );
        assert_eq!(sim.read_raw(&within(id, "manifest.jsonl")), sound, "{what}");
        assert_eq!(open(sim.clone()).read(id, None).unwrap().events, events_of(&written), "{what}");
        append_unseen_plan(sim, id, 3);
    }
}

/// An attested digest rules out a changed segment, even if the rest of the manifest is damaged.
#[test]
fn a_changed_segment_is_not_rebuilt_into_the_manifest() {
    let sim = SimFs::new();
    let (id, written) = damaged(&sim, 1);
    let file = within(id, "manifest.jsonl");
    let text = String::from_utf8(sim.read_raw(&file).unwrap()).unwrap();
    sim.write_raw(&file, text.replacen("bytes", "bites", 1).as_bytes());
    let planned = open(sim).diagnose(id, None).unwrap();
    assert_eq!(planned.keeps_until, written[2].events[0].event_index);
    assert_eq!(planned.lost.len(), 2);
}

/// Broke: a temporarily unreadable manifest attested nothing, so that changed segments were kept, and a temporarily
/// unreadable segment was given up without being read.
#[test]
fn a_temporarily_unreadable_file_does_not_change_what_a_repair_keeps() {
    let sim = SimFs::new();
    let (id, _) = damaged(&sim, 1);
    let expected = open(sim.clone()).diagnose(id, None).unwrap();
    for kind in [FsErrorKind::PermissionDenied, FsErrorKind::TooManyOpenFiles, FsErrorKind::Io] {
        for operation in 0.. {
            let disk = sim.fork();
            let store = open(disk.clone());
            let at_op = disk.all_op_count() + operation;
            disk.set_fault(Fault { at_op, kind: FaultKind::Error(kind), mode: FaultMode::Once });
            match store.diagnose(id, None) {
                Ok(planned) => assert_eq!(planned, expected, "{kind:?} at operation {operation}"),
                Err(UpkeepError::NotRepairable { health, .. }) => {
                    assert!(!health.is_healthy(), "{kind:?} at operation {operation}");
                }
                Err(_) => {}
            }
            if disk.fault_hits() == 0 {
                break;
            }
        }
    }
}
