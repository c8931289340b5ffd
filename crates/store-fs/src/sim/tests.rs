//! Counting, faults, forks, locks and the raw helpers of the simulated disk.

use super::*;

fn path(text: &str) -> RelPath {
    RelPath::parse(text).expect("a test path is well-formed")
}

fn arm(fs: &SimFs, ahead: u64, kind: FaultKind, mode: FaultMode) {
    fs.set_fault(Fault { at_op: fs.all_op_count() + ahead, kind, mode });
}

fn kind<T>(result: Result<T, FsError>) -> FsErrorKind {
    match result {
        Ok(_) => panic!("the operation succeeded"),
        Err(error) => error.kind,
    }
}

#[test]
fn operations_are_counted_by_effect_and_traced_in_order() {
    let fs = SimFs::new();
    fs.create_dir(&path("d")).unwrap();
    let mut file = fs.create_file(&path("d/a")).unwrap();
    file.append(b"x").unwrap();
    file.set_len(0).unwrap();
    file.sync().unwrap();
    fs.sync_dir(&path("d")).unwrap();
    fs.rename(&path("d/a"), &path("d/b")).unwrap();
    fs.read(&path("d/b"), 0, 9).unwrap();
    fs.list(&path("d")).unwrap();
    fs.stat(&path("d")).unwrap();
    fs.open_append(&path("d/b")).unwrap();
    fs.lock(&path("l"), LockMode::Shared, Duration::ZERO).unwrap();
    fs.remove_file(&path("d/b")).unwrap();
    fs.remove_dir(&path("d")).unwrap();
    assert!(fs.remove_dir(&path("d")).is_err());
    // A directory is opened before it is synced.
    assert_eq!((fs.op_count(), fs.read_op_count(), fs.all_op_count()), (10, 6, 16));
    let ops: Vec<FsOp> = fs.trace().into_iter().map(|(op, _)| op).collect();
    let expected = [
        FsOp::CreateDir,
        FsOp::CreateFile,
        FsOp::Write,
        FsOp::SetLen,
        FsOp::SyncFile,
        FsOp::SyncDir,
        FsOp::Rename,
        FsOp::Remove,
        FsOp::Remove,
        FsOp::Remove,
    ];
    assert_eq!(ops, expected);
    assert_eq!(fs.trace()[6].1, path("d/b"));
}

#[test]
fn an_error_fault_has_no_effect_and_lasts_as_long_as_its_mode_says() {
    let fs = SimFs::new();
    arm(&fs, 1, FaultKind::Error(FsErrorKind::Quota), FaultMode::Once);
    fs.create_file(&path("a")).unwrap();
    assert_eq!(kind(fs.create_file(&path("b"))), FsErrorKind::Quota);
    fs.create_file(&path("c")).unwrap();
    assert_eq!(fs.fault_hits(), 1);
    arm(&fs, 0, FaultKind::Error(FsErrorKind::ReadOnly), FaultMode::Forever);
    assert_eq!(kind(fs.create_file(&path("d"))), FsErrorKind::ReadOnly);
    assert_eq!(kind(fs.stat(&path("a"))), FsErrorKind::ReadOnly);
    assert_eq!(fs.fault_hits(), 2);
    fs.clear_fault();
    assert_eq!(fs.all_files(), [path("a"), path("c")]);
    fs.create_file(&path("d")).unwrap();
}

#[test]
fn a_short_write_leaves_half_and_fails_with_no_space() {
    let fs = SimFs::new();
    let mut file = fs.create_file(&path("a")).unwrap();
    arm(&fs, 0, FaultKind::ShortWrite, FaultMode::Forever);
    fs.stat(&path("a")).unwrap();
    assert_eq!(kind(file.append(b"0123456789")), FsErrorKind::NoSpace);
    assert_eq!(fs.read_raw(&path("a")).unwrap(), b"01234");
    assert_eq!(kind(file.append(b"ab")), FsErrorKind::NoSpace);
    assert_eq!(fs.read_raw(&path("a")).unwrap(), b"01234a");
}

#[test]
fn a_power_cut_fails_everything_from_then_on() {
    let fs = SimFs::new();
    let mut file = fs.create_file(&path("a")).unwrap();
    arm(&fs, 0, FaultKind::PowerCut, FaultMode::Once);
    assert_eq!(kind(file.append(b"x")), FsErrorKind::Io);
    assert_eq!(kind(file.sync()), FsErrorKind::Io);
    assert_eq!(kind(fs.sync_dir(&RelPath::root())), FsErrorKind::Io);
    assert_eq!(kind(fs.read(&path("a"), 0, 9)), FsErrorKind::Io);
    assert_eq!(kind(fs.lock(&path("a"), LockMode::Shared, Duration::ZERO)), FsErrorKind::Io);
    assert_eq!(kind(fs.list(&RelPath::root())), FsErrorKind::Io);
    // Unlike a power cut, a killed process loses nothing that was seen.
    fs.clear_fault();
    assert_eq!(fs.read(&path("a"), 0, 9).unwrap(), b"x");
}

#[test]
fn a_power_cut_while_locking_leaves_no_lock() {
    let fs = SimFs::new();
    arm(&fs, 0, FaultKind::PowerCut, FaultMode::Once);
    assert_eq!(kind(fs.lock(&path("l"), LockMode::Exclusive, Duration::ZERO)), FsErrorKind::Io);
    fs.clear_fault();
    assert!(fs.lock(&path("l"), LockMode::Exclusive, Duration::ZERO).unwrap().is_some());
}

#[test]
fn a_fork_is_independent_and_holds_no_locks() {
    let fs = SimFs::new();
    fs.create_file(&path("a")).unwrap().append(b"one").unwrap();
    let held = fs.lock(&path("l"), LockMode::Exclusive, Duration::ZERO).unwrap();
    let fork = fs.fork();
    assert_eq!((fork.all_op_count(), fork.trace()), (fs.all_op_count(), fs.trace()));
    assert!(fork.lock(&path("l"), LockMode::Exclusive, Duration::ZERO).unwrap().is_some());
    fork.open_append(&path("a")).unwrap().append(b"two").unwrap();
    fs.remove_file(&path("a")).unwrap();
    assert_eq!(fork.read_raw(&path("a")).unwrap(), b"onetwo");
    assert_eq!(fs.read_raw(&path("a")), None);
    drop(held);
    assert!(fs.lock(&path("l"), LockMode::Exclusive, Duration::ZERO).unwrap().is_some());
}

#[test]
fn a_clone_is_the_same_disk() {
    let fs = SimFs::new();
    fs.clone().create_file(&path("a")).unwrap();
    assert_eq!(fs.all_files(), [path("a")]);
}

#[test]
fn raw_helpers_are_durable_and_not_counted() {
    let fs = SimFs::new();
    fs.write_raw(&path("d/e/a"), b"one");
    fs.make_dir_raw(&path("x/y"));
    fs.make_symlink_raw(&path("x/link"));
    fs.write_raw(&path("d/e/b"), b"two");
    fs.write_raw(&path("d/e/a"), b"three");
    fs.remove_raw(&path("d/e/b"));
    fs.remove_raw(&path("none/b"));
    assert_eq!(fs.all_op_count(), 0);
    let images = fs.crash_images(&CrashLimits::default());
    assert_eq!(images.len(), 1);
    for disk in [&fs, &images[0]] {
        assert_eq!(disk.all_files(), [path("d/e/a")]);
        assert_eq!(disk.read_raw(&path("d/e/a")).unwrap(), b"three");
        assert_eq!(disk.list(&path("x")).unwrap().len(), 2);
    }
    assert_eq!(fs.read_raw(&path("x")), None);
}

#[test]
fn a_raw_write_settles_what_was_pending_for_its_name() {
    let fs = SimFs::new();
    fs.create_dir(&path("d")).unwrap();
    fs.create_file(&path("d/t")).unwrap().append(b"torn").unwrap();
    fs.rename(&path("d/t"), &path("d/a")).unwrap();
    fs.write_raw(&path("d/a"), b"whole");
    let images = fs.crash_images(&CrashLimits::default());
    assert_eq!(images.len(), 1);
    assert_eq!(images[0].all_files(), [path("d/a")]);
    assert_eq!(images[0].read_raw(&path("d/a")).unwrap(), b"whole");
}

#[test]
fn unreadable_and_shared_paths_stay_so_after_a_crash() {
    let fs = SimFs::new();
    fs.write_raw(&path("d/a"), b"x");
    fs.set_unreadable(&path("d/a"));
    fs.set_others_may_access(&path("d/a"));
    for disk in [fs.clone(), fs.crash_images(&CrashLimits::default()).remove(0)] {
        assert_eq!(kind(disk.read(&path("d/a"), 0, 9)), FsErrorKind::PermissionDenied);
        assert!(disk.stat(&path("d/a")).unwrap().others_may_access);
    }
    fs.set_unreadable(&path("d"));
    assert_eq!(kind(fs.list(&path("d"))), FsErrorKind::PermissionDenied);
}

#[test]
fn debug_output_names_the_files() {
    let fs = SimFs::new();
    fs.write_raw(&path("d/a"), b"x");
    assert!(format!("{fs:?}").contains("d/a"));
}
