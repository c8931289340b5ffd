//! Each rule of the monitor, kept and broken, on the simulated disk.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use workrail_ports::file_system::{FileSystem, LockMode, RelPath, WritableFile};
use workrail_store_fs::sim::{Fault, FaultKind, FaultMode, SimFs};
use workrail_testkit::monitor::Monitored;

const SEGMENT: &str = "sessions/s1/events/00-01.jsonl";
const MANIFEST: &str = "sessions/s1/manifest.jsonl";
const SNAPSHOT: &str = "snapshots/0af.json";

fn path(text: &str) -> RelPath {
    RelPath::parse(text).expect("a test path is well-formed")
}

/// A store with one durable session.
fn stage() -> Monitored<SimFs> {
    let disk = SimFs::new();
    for dir in ["sessions/s1/events", "snapshots", "blobs", "workflows/pinned", "keys"] {
        disk.make_dir_raw(&path(dir));
    }
    disk.write_raw(&path(MANIFEST), b"");
    Monitored::new(disk)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sync {
    Done,
    Skipped,
}

fn put(fs: &Monitored<SimFs>, at: &str, data: Sync, name: Sync) {
    let temporary = path(&format!("{at}.tmp"));
    let mut file = fs.create_file(&temporary).unwrap();
    file.append(b"bytes").unwrap();
    if data == Sync::Done {
        file.sync().unwrap();
    }
    fs.rename(&temporary, &path(at)).unwrap();
    if name == Sync::Done {
        fs.sync_dir(&path(at).parent().unwrap()).unwrap();
    }
}

fn append_manifest(fs: &Monitored<SimFs>, sync: Sync) {
    let mut file = fs.open_append(&path(MANIFEST)).unwrap();
    file.append(b"line").unwrap();
    if sync == Sync::Done {
        file.sync().unwrap();
    }
}

fn broken_rules(fs: &Monitored<SimFs>) -> Vec<String> {
    fs.violations().iter().map(|text| text[..2].to_owned()).collect()
}

#[test]
fn the_right_order_breaks_no_rule() {
    let fs = stage();
    put(&fs, SNAPSHOT, Sync::Done, Sync::Done);
    put(&fs, "blobs/0af", Sync::Done, Sync::Done);
    put(&fs, "workflows/pinned/0af.json", Sync::Done, Sync::Done);
    put(&fs, "keys/keyring.json", Sync::Done, Sync::Skipped);
    put(&fs, SEGMENT, Sync::Done, Sync::Done);
    append_manifest(&fs, Sync::Done);
    fs.sync_dir(&path("keys")).unwrap();
    fs.assert_quiescent();
    assert_eq!(fs.violations(), Vec::<String>::new());
}

#[test]
fn r1_a_manifest_is_not_written_before_the_segments_directory_is_synced() {
    let fs = stage();
    put(&fs, SEGMENT, Sync::Done, Sync::Skipped);
    append_manifest(&fs, Sync::Done);
    assert_eq!(broken_rules(&fs), ["R1"]);
    // Reported once: the next append is judged only by what came after.
    append_manifest(&fs, Sync::Done);
    assert_eq!(broken_rules(&fs), ["R1"]);
}

#[test]
fn r1_a_directory_sync_before_the_rename_does_not_count() {
    let fs = stage();
    fs.sync_dir(&path("sessions/s1/events")).unwrap();
    put(&fs, SEGMENT, Sync::Done, Sync::Skipped);
    append_manifest(&fs, Sync::Done);
    assert_eq!(broken_rules(&fs), ["R1"]);
}

#[test]
fn r1_a_segment_must_be_synced_before_its_rename() {
    let fs = stage();
    put(&fs, SEGMENT, Sync::Skipped, Sync::Done);
    append_manifest(&fs, Sync::Done);
    assert_eq!(broken_rules(&fs), ["R3", "R1"]);
}

#[test]
fn r1_also_applies_to_a_replaced_manifest() {
    let fs = stage();
    put(&fs, SEGMENT, Sync::Done, Sync::Skipped);
    put(&fs, MANIFEST, Sync::Done, Sync::Done);
    assert_eq!(broken_rules(&fs), ["R1"]);
}

#[test]
fn r1_concerns_only_the_same_session() {
    let fs = stage();
    fs.inner().make_dir_raw(&path("sessions/s2/events"));
    put(&fs, "sessions/s2/events/00-01.jsonl", Sync::Done, Sync::Skipped);
    append_manifest(&fs, Sync::Done);
    assert_eq!(broken_rules(&fs), Vec::<String>::new());
}

#[test]
fn r2_content_is_durable_before_the_manifest() {
    for at in [SNAPSHOT, "blobs/0af", "workflows/pinned/0af.json"] {
        let fs = stage();
        put(&fs, at, Sync::Done, Sync::Skipped);
        append_manifest(&fs, Sync::Done);
        assert_eq!(broken_rules(&fs), ["R2"], "{at}");
        let fs = stage();
        put(&fs, at, Sync::Skipped, Sync::Done);
        append_manifest(&fs, Sync::Done);
        assert_eq!(broken_rules(&fs), ["R3", "R2"], "{at}");
    }
}

#[test]
fn r2_ignores_the_unfinished_work_of_other_threads() {
    let fs = stage();
    let other = fs.clone();
    std::thread::spawn(move || put(&other, SNAPSHOT, Sync::Done, Sync::Skipped)).join().unwrap();
    append_manifest(&fs, Sync::Done);
    fs.assert_quiescent();
    assert_eq!(broken_rules(&fs), Vec::<String>::new());
}

#[test]
fn r3_nothing_is_renamed_into_place_without_a_sync_after_its_last_write() {
    for at in [SEGMENT, SNAPSHOT, "blobs/0af", "workflows/pinned/0af.json", "keys/keyring.json", MANIFEST] {
        let fs = stage();
        put(&fs, at, Sync::Skipped, Sync::Done);
        assert_eq!(broken_rules(&fs), ["R3"], "{at}");
    }
    let fs = stage();
    put(&fs, "keys/cache", Sync::Skipped, Sync::Skipped);
    assert_eq!(broken_rules(&fs), Vec::<String>::new());
}

#[test]
fn r3_a_write_or_cut_after_the_sync_needs_another_sync() {
    let fs = stage();
    let mut file = fs.create_file(&path("t")).unwrap();
    file.append(b"x").unwrap();
    file.sync().unwrap();
    file.set_len(0).unwrap();
    fs.rename(&path("t"), &path("blobs/0af")).unwrap();
    assert_eq!(broken_rules(&fs), ["R3"]);
}

#[test]
fn r3_a_temporary_of_unknown_history_is_not_renamed_into_place() {
    let fs = stage();
    fs.inner().write_raw(&path("blobs/.tmp"), b"left by a process that died");
    fs.rename(&path("blobs/.tmp"), &path("blobs/0af")).unwrap();
    assert_eq!(broken_rules(&fs), ["R3"]);
}

#[test]
fn r3_an_empty_file_counts_as_written() {
    let fs = stage();
    fs.create_file(&path("t")).unwrap();
    fs.rename(&path("t"), &path("blobs/0af")).unwrap();
    assert_eq!(broken_rules(&fs), ["R3"]);
}

#[test]
fn r4_an_unsynced_manifest_is_not_acknowledged() {
    let fs = stage();
    append_manifest(&fs, Sync::Skipped);
    fs.about_to_acknowledge();
    assert_eq!(broken_rules(&fs), ["R4"]);
    let fs = stage();
    append_manifest(&fs, Sync::Done);
    fs.about_to_acknowledge();
    assert_eq!(broken_rules(&fs), Vec::<String>::new());
}

#[test]
fn r4_an_unsynced_name_is_not_acknowledged() {
    type Act = fn(&Monitored<SimFs>);
    let names: [(&str, Act); 5] = [
        ("segment", |fs| put(fs, SEGMENT, Sync::Done, Sync::Skipped)),
        ("snapshot", |fs| put(fs, SNAPSHOT, Sync::Done, Sync::Skipped)),
        ("manifest", |fs| put(fs, MANIFEST, Sync::Done, Sync::Skipped)),
        ("keyring", |fs| put(fs, "keys/keyring.json", Sync::Done, Sync::Skipped)),
        ("session", |fs| assert!(fs.create_dir(&path("sessions/s9")).is_ok())),
    ];
    for (what, act) in names {
        let fs = stage();
        act(&fs);
        fs.assert_quiescent();
        assert_eq!(broken_rules(&fs), ["R4"], "{what}");
    }
}

#[test]
fn r4_temporaries_and_removals_may_stay_unsynced() {
    let fs = stage();
    fs.create_file(&path("blobs/.tmp")).unwrap();
    fs.create_file(&path("sessions/s1/events/x.tmp")).unwrap();
    put(&fs, SNAPSHOT, Sync::Done, Sync::Skipped);
    fs.remove_file(&path(SNAPSHOT)).unwrap();
    fs.assert_quiescent();
    assert_eq!(broken_rules(&fs), Vec::<String>::new());
}

#[test]
fn r4_ignores_what_a_failed_operation_left() {
    let fs = stage();
    put(&fs, SNAPSHOT, Sync::Done, Sync::Skipped);
    cut_manifest(&fs);
    fs.forget_unacknowledged();
    put(&fs, SEGMENT, Sync::Done, Sync::Done);
    append_manifest(&fs, Sync::Done);
    fs.assert_quiescent();
    assert_eq!(broken_rules(&fs), Vec::<String>::new());
}

fn cut_manifest(fs: &Monitored<SimFs>) {
    fs.open_append(&path(MANIFEST)).unwrap().set_len(0).unwrap();
}

#[test]
fn r5_a_failed_sync_is_not_repeated_on_the_same_handle() {
    let fs = stage();
    let mut file = fs.create_file(&path("blobs/.tmp")).unwrap();
    file.append(b"x").unwrap();
    let at_op = fs.inner().all_op_count();
    fs.inner().set_fault(Fault { at_op, kind: FaultKind::FsyncLies, mode: FaultMode::Once });
    assert!(file.sync().is_err());
    assert_eq!(broken_rules(&fs), Vec::<String>::new());
    file.sync().unwrap();
    assert_eq!(broken_rules(&fs), ["R5"]);
    // Even if that second sync succeeds, the file must not be renamed into place.
    fs.rename(&path("blobs/.tmp"), &path("blobs/0af")).unwrap();
    assert_eq!(broken_rules(&fs), ["R5", "R3"]);
}

#[test]
fn a_sync_on_another_handle_does_not_make_up_for_a_failed_one() {
    let fs = stage();
    let mut file = fs.create_file(&path("blobs/.tmp")).unwrap();
    file.append(b"x").unwrap();
    let at_op = fs.inner().all_op_count();
    fs.inner().set_fault(Fault { at_op, kind: FaultKind::FsyncLies, mode: FaultMode::Once });
    assert!(file.sync().is_err());
    fs.open_append(&path("blobs/.tmp")).unwrap().sync().unwrap();
    fs.rename(&path("blobs/.tmp"), &path("blobs/0af")).unwrap();
    assert_eq!(broken_rules(&fs), ["R3"]);
}

#[test]
fn r5_a_new_file_after_a_failed_sync_is_allowed() {
    let fs = stage();
    let mut file = fs.open_append(&path(MANIFEST)).unwrap();
    file.append(b"x").unwrap();
    let at_op = fs.inner().all_op_count();
    fs.inner().set_fault(Fault { at_op, kind: FaultKind::FsyncLies, mode: FaultMode::Once });
    assert!(file.sync().is_err());
    put(&fs, MANIFEST, Sync::Done, Sync::Done);
    fs.assert_quiescent();
    assert_eq!(broken_rules(&fs), Vec::<String>::new());
}

#[test]
fn a_sync_vouches_only_for_writes_before_it() {
    let fs = stage();
    append_manifest(&fs, Sync::Done);
    let mut file = fs.open_append(&path(MANIFEST)).unwrap();
    file.sync().unwrap();
    file.append(b"x").unwrap();
    fs.assert_quiescent();
    assert_eq!(broken_rules(&fs), ["R4"]);
}

#[test]
fn a_strict_monitor_panics_before_the_disk_is_touched() {
    let fs = Monitored::strict(SimFs::new());
    fs.inner().make_dir_raw(&path("blobs"));
    fs.create_file(&path("t")).unwrap();
    let ops = fs.inner().all_op_count();
    let outcome = catch_unwind(AssertUnwindSafe(|| fs.rename(&path("t"), &path("blobs/0af"))));
    assert!(outcome.is_err());
    assert_eq!(fs.inner().all_op_count(), ops);
    assert_eq!(fs.violations().len(), 1);
}

#[test]
fn the_monitor_adds_no_operation_and_returns_results_unchanged() {
    let fs = stage();
    put(&fs, SEGMENT, Sync::Done, Sync::Done);
    let ops = fs.inner().all_op_count();
    // Create, write, sync and rename, then the folder is opened and synced.
    assert_eq!(ops, 6);
    assert_eq!(fs.read(&path(SEGMENT), 0, 9).unwrap(), b"bytes");
    assert!(fs.read(&path("none"), 0, 9).is_err());
    assert_eq!(fs.list(&path("blobs")).unwrap(), []);
    assert_eq!(fs.stat(&path(SEGMENT)).unwrap().len, 5);
    assert!(fs.lock(&path("l"), LockMode::Shared, Duration::ZERO).unwrap().is_some());
    fs.remove_file(&path(SEGMENT)).unwrap();
    fs.remove_dir(&path("sessions/s1/events")).unwrap();
    assert_eq!(fs.inner().all_op_count(), ops + 7);
}
