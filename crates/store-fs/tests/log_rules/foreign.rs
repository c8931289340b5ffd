//! Foreign files and folders among the segments: `verify` names them, an append moves them aside, none is removed.

use workrail_model::health::SessionHealth;
use workrail_ports::session_store::{SessionReader, SessionStore};
use workrail_ports::upkeep::Inspection;
use workrail_store_fs::sim::SimFs;
use workrail_testkit::history::Step;

use super::support::{self, disk_bytes, open, path, session_of, unseen_plan, within, write_session};

/// Broke: a folder with the next segment's name made every append fail.
#[test]
fn a_folder_with_the_next_segments_name_is_moved_aside() {
    let fs = SimFs::new();
    let written = write_session(&open(fs.clone()), 1, &[Step::Advance]);
    let session = session_of(&written);
    let at = written[1].next_index();
    let parts = unseen_plan(session, at, 3);
    let last = at.get() + parts.events.len() as u64 - 1;
    let folder = format!("{:08}-{last:08}.jsonl", at.get());
    fs.write_raw(&within(session, &format!("events/{folder}/notes.txt")), b"of the user");
    let store = open(fs.clone());
    let (strays, _) = store.strays(10).unwrap();
    assert!(strays.iter().any(|stray| stray.path.ends_with(&folder)), "{strays:?}");
    support::append_unseen_plan(fs.clone(), session, 3);
    let aside = path(&format!("backups/content/segment-{session}-{folder}-1/notes.txt"));
    assert_eq!(fs.read_raw(&aside).as_deref(), Some(b"of the user".as_slice()));
}

/// Broke: locking a session removed every unknown file in `events/`, and `verify` named none of them.
#[test]
fn files_named_like_segments_are_moved_aside_and_only_by_an_append() {
    let fs = SimFs::new();
    let written = write_session(&open(fs.clone()), 1, &[Step::Advance]);
    let session = session_of(&written);
    let foreign = ["notes.txt", "00000000.jsonl", "0-4.jsonl", "00000000-00000004.jsonl.bak", "photo.png"];
    for name in foreign {
        fs.write_raw(&within(session, &format!("events/{name}")), b"of the user");
    }
    // Two that are only named like segments: among the committed ones, and at the end of the log.
    let end = written[1].next_index().get();
    let junk = ["00000000-00000001.jsonl".to_owned(), format!("{end:08}-{end:08}.jsonl")];
    for name in &junk {
        fs.write_raw(&within(session, &format!("events/{name}")), b"junk");
    }
    let before = disk_bytes(&fs);
    let store = open(fs.clone());
    let (strays, _) = store.strays(100).unwrap();
    for name in foreign.iter().copied().chain(junk.iter().map(String::as_str)) {
        let path = format!("sessions/{session}/events/{name}");
        assert!(strays.iter().any(|stray| stray.path == path), "{name}: {strays:?}");
    }
    drop(store.lock(session).unwrap());
    let mut after = disk_bytes(&fs);
    after.remove(&within(session, ".lock"));
    let mut expected = before;
    expected.remove(&within(session, ".lock"));
    assert_eq!(after, expected, "a writer that appends nothing removes nothing");
    support::append_unseen_plan(fs.clone(), session, 3);
    for name in foreign {
        assert!(fs.read_raw(&within(session, &format!("events/{name}"))).is_some(), "{name}");
    }
    for name in &junk {
        assert!(fs.read_raw(&within(session, &format!("events/{name}"))).is_none(), "{name}");
        let aside = path(&format!("backups/content/segment-{session}-{name}-1"));
        assert_eq!(fs.read_raw(&aside).as_deref(), Some(b"junk".as_slice()), "{name}");
    }
}

/// Broke: `verify` called the first segment of a session no WorkRail file when only its record was damaged.
#[test]
fn a_segment_whose_record_is_damaged_is_not_foreign() {
    let fs = SimFs::new();
    let written = write_session(&open(fs.clone()), 1, &[Step::Advance]);
    let session = session_of(&written);
    let manifest = within(session, "manifest.jsonl");
    let sound = fs.read_raw(&manifest).unwrap();
    for at in [0, 5, 20] {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        fs.write_raw(&manifest, &damaged);
        let (strays, _) = open(fs.clone()).strays(10).unwrap();
        assert!(strays.is_empty(), "byte {at}: {strays:?}");
    }
    // What does not start as a segment is still foreign.
    fs.write_raw(&within(session, "events/00000000-00000001.jsonl"), b"junk");
    let (strays, _) = open(fs.clone()).strays(10).unwrap();
    assert!(strays.len() == 1 && strays[0].path.ends_with("00000000-00000001.jsonl"), "{strays:?}");
}

/// Broke: such a file counted as a segment beyond the end of the manifest, so its whole session was corrupt.
#[test]
fn a_file_whose_name_has_numbers_that_no_event_can_have_does_not_affect_the_session() {
    let fs = SimFs::new();
    let written = write_session(&open(fs.clone()), 1, &[Step::Advance]);
    let session = session_of(&written);
    let names = ["99999999-99999999.jsonl", "33554432-33554432.jsonl", "00000900-33554432.jsonl"];
    let path_of = |name: &str| within(session, &format!("events/{name}"));
    for name in names {
        fs.write_raw(&path_of(name), b"of the user");
    }
    let store = open(fs.clone());
    assert_eq!(store.read(session, None).unwrap().health, SessionHealth::Healthy);
    let (strays, _) = store.strays(10).unwrap();
    for name in names {
        assert!(strays.iter().any(|stray| stray.path.ends_with(name)), "{name}: {strays:?}");
    }
    support::append_unseen_plan(fs.clone(), session, 3);
    for name in names {
        assert_eq!(fs.read_raw(&path_of(name)).as_deref(), Some(b"of the user".as_slice()), "{name}");
    }
    assert_eq!(open(fs).read(session, None).unwrap().health, SessionHealth::Healthy);
}
