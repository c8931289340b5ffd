//! What only the real disk can show: modes, FIFOs, waiting for locks, and creating the data directory.

#![expect(clippy::disallowed_methods, reason = "the tests look at the disk from outside the adapter")]

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{CWD, FileType, Mode};
use tempfile::TempDir;
use workrail_ports::file_system::{
    Created, FileKind, FileSystem as _, FsErrorKind, FsOp, LockMode, RelPath, WritableFile as _,
};
use workrail_testkit::skipped::skip;

use super::lock::LockAttempt;
use super::{Disk, lock};

fn path(text: &str) -> RelPath {
    RelPath::parse(text).expect("a test path is well-formed")
}

fn stage() -> (TempDir, Utf8PathBuf, Disk) {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let root = Utf8Path::from_path(dir.path()).expect("its path is UTF-8").join("data");
    let disk = Disk::open(&root).expect("the root can be created");
    (dir, root, disk)
}

fn mode(path: &Utf8Path) -> u32 {
    fs::symlink_metadata(path).expect("the path is there").permissions().mode() & 0o7777
}

#[test]
fn open_creates_the_root_and_its_parents_for_the_owner_only() {
    let (_dir, base, _) = stage();
    let root = base.join("x/y/z");
    Disk::open(&root).expect("missing parents are created");
    for dir in [base.join("x"), base.join("x/y"), root.clone()] {
        assert_eq!(mode(&dir), 0o700, "{dir}");
    }
    Disk::open(&root).expect("an existing root is opened");
}

#[test]
fn open_accepts_a_root_that_is_a_link_to_a_directory() {
    let (_dir, base, _) = stage();
    fs::create_dir(base.join("real")).unwrap();
    symlink(base.join("real"), base.join("alias")).unwrap();
    let disk = Disk::open(&base.join("alias")).expect("the user may point the root elsewhere");
    disk.create_file(&path("f")).unwrap();
    assert!(base.join("real/f").exists());
}

#[test]
fn open_refuses_a_root_that_is_a_file_or_beneath_one() {
    let (_dir, base, disk) = stage();
    disk.create_file(&path("f")).unwrap();
    assert_eq!(Disk::open(&base.join("f")).unwrap_err().kind, FsErrorKind::WrongKind);
    let error = Disk::open(&base.join("f/g")).unwrap_err();
    assert_eq!(error.kind, FsErrorKind::WrongKind);
    assert!(error.detail.contains("f/g"), "{error}");
}

#[test]
fn files_and_directories_are_for_the_owner_only() {
    let (_dir, root, disk) = stage();
    disk.create_dir(&path("d")).unwrap();
    disk.create_file(&path("d/f")).unwrap();
    disk.lock(&path("d/.lock"), LockMode::Shared, Duration::ZERO).unwrap();
    assert_eq!(mode(&root.join("d")), 0o700);
    assert_eq!(mode(&root.join("d/f")), 0o600);
    assert_eq!(mode(&root.join("d/.lock")), 0o600);
}

#[test]
fn stat_reports_access_by_other_users() {
    let (_dir, root, disk) = stage();
    disk.create_file(&path("f")).unwrap();
    for (bits, expected) in [(0o640, true), (0o604, true), (0o610, true), (0o600, false)] {
        fs::set_permissions(root.join("f"), fs::Permissions::from_mode(bits)).unwrap();
        assert_eq!(disk.stat(&path("f")).unwrap().others_may_access, expected, "{bits:o}");
    }
}

#[test]
fn a_fifo_is_the_wrong_kind_and_never_hangs() {
    let (_dir, root, disk) = stage();
    rustix::fs::mknodat(CWD, root.join("fifo").as_str(), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let (done, finished) = mpsc::channel();
    thread::spawn(move || {
        let fifo = path("fifo");
        let kinds = [
            disk.read(&fifo, 0, 10).map(drop),
            disk.open_append(&fifo).map(drop),
            disk.lock(&fifo, LockMode::Exclusive, Duration::ZERO).map(drop),
            disk.rename(&fifo, &path("g")),
        ];
        let kinds = kinds.map(|result| result.map_err(|error| error.kind));
        done.send((kinds, disk.stat(&fifo).map(|stat| stat.kind))).unwrap();
    });
    // A timeout only for a hanging open; it never delays a passing test.
    let (kinds, stat) = finished.recv_timeout(Duration::from_secs(30)).expect("no operation hangs");
    assert_eq!(kinds, [Err(FsErrorKind::WrongKind); 4]);
    assert_eq!(stat, Ok(FileKind::Other));
}

#[test]
fn a_link_to_an_intact_file_inside_the_root_is_not_followed_either() {
    let (_dir, root, disk) = stage();
    disk.create_dir(&path("d")).unwrap();
    disk.create_file(&path("d/f")).unwrap().append(b"secret").unwrap();
    symlink(root.join("d/f"), root.join("file")).unwrap();
    symlink(root.join("d"), root.join("dir")).unwrap();
    symlink(root.join("nowhere"), root.join("dangling")).unwrap();
    for at in ["file", "dir/f", "dangling"] {
        assert_eq!(disk.read(&path(at), 0, 10).unwrap_err().kind, FsErrorKind::WrongKind, "{at}");
        assert_eq!(disk.open_append(&path(at)).unwrap_err().kind, FsErrorKind::WrongKind, "{at}");
    }
    disk.remove_file(&path("file")).unwrap();
    assert_eq!(disk.read(&path("d/f"), 0, 10).unwrap(), b"secret");
    let locked = disk.lock(&path("dangling"), LockMode::Shared, Duration::ZERO);
    assert_eq!(locked.unwrap_err().kind, FsErrorKind::WrongKind);
    assert!(!root.join("nowhere").exists());
}

/// Broke: a folder named like a file manager's copy was invisible, and a sweep removed what it needs.
#[test]
fn list_shows_every_name_and_opens_each_that_is_exact() {
    let (_dir, root, disk) = stage();
    for name in ["ok", "with space", "ümlaut", "a:b", "\u{1b}[31m"] {
        fs::write(root.join(name), name).unwrap();
    }
    let inexact = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(root.as_std_path().join(inexact), b"").unwrap();
    let listed = disk.list(&RelPath::root()).unwrap();
    let names: Vec<&str> = listed.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["\u{1b}[31m", "a:b", "caf\u{fffd}", "ok", "with space", "ümlaut"]);
    for name in names.into_iter().filter(|name| !name.contains('\u{fffd}')) {
        let child = RelPath::root().child(name).unwrap();
        assert_eq!(disk.read(&child, 0, 100).unwrap(), name.as_bytes());
        assert_eq!(child.to_string(), name.replace('\u{1b}', "\\u{1b}"), "no escape reaches a terminal");
    }
    assert_eq!(RelPath::root().child("caf\u{fffd}"), None);
    assert_eq!(RelPath::root().describe_child("caf\u{fffd}"), "caf\u{fffd}");
    for name in ["", ".", "..", "a/b", "a\0b"] {
        assert_eq!(RelPath::root().child(name), None, "{name:?}");
    }
}

#[test]
fn a_large_file_is_refused_before_it_is_read() {
    let (_dir, root, disk) = stage();
    // Sparse: reading it whole would need more memory than there is.
    fs::File::create(root.join("big")).unwrap().set_len(1 << 40).unwrap();
    let error = disk.read(&path("big"), 0, 1 << 20).unwrap_err();
    assert_eq!(error.kind, FsErrorKind::TooLarge { len: 1 << 40, max: 1 << 20 });
    assert_eq!(disk.read(&path("big"), (1 << 40) - 3, 3).unwrap(), [0, 0, 0]);
}

#[test]
fn a_read_during_appends_is_a_prefix_within_the_cap() {
    let (_dir, _root, disk) = stage();
    let mut file = disk.create_file(&path("f")).unwrap();
    let writer = thread::spawn(move || {
        for _ in 0..2_000 {
            file.append(b"0123456789").unwrap();
        }
    });
    while !writer.is_finished() {
        match disk.read(&path("f"), 0, 10_000) {
            Ok(bytes) => {
                assert!(bytes.len() <= 10_000);
                assert!(bytes.iter().zip(b"0123456789".iter().cycle()).all(|(a, b)| a == b));
            }
            Err(error) => assert!(matches!(error.kind, FsErrorKind::TooLarge { max: 10_000, .. })),
        }
    }
    writer.join().unwrap();
}

#[test]
fn a_lock_is_waited_for_until_it_is_released() {
    let (_dir, _root, disk) = stage();
    let held = disk.lock(&path("l"), LockMode::Exclusive, Duration::ZERO).unwrap();
    let waiting = disk.clone();
    let waiter = thread::spawn(move || {
        waiting.lock(&path("l"), LockMode::Exclusive, Duration::from_secs(60)).unwrap().is_some()
    });
    drop(held);
    assert!(waiter.join().unwrap());
}

#[test]
fn waiting_for_a_lock_that_stays_held_times_out() {
    let (_dir, _root, disk) = stage();
    let _held = disk.lock(&path("l"), LockMode::Exclusive, Duration::ZERO).unwrap();
    assert!(disk.lock(&path("l"), LockMode::Shared, Duration::from_millis(5)).unwrap().is_none());
}

#[test]
fn a_lock_on_a_removed_file_excludes_no_one_and_is_not_granted() {
    let (_dir, _root, disk) = stage();
    let old = disk.lock(&path("l"), LockMode::Exclusive, Duration::ZERO).unwrap();
    disk.remove_file(&path("l")).unwrap();
    let new = disk.lock(&path("l"), LockMode::Exclusive, Duration::ZERO).unwrap();
    assert!(old.is_some() && new.is_some());
    drop(old);
    assert!(disk.lock(&path("l"), LockMode::Exclusive, Duration::ZERO).unwrap().is_none());
}

#[test]
fn a_lock_is_stale_when_its_name_is_gone_or_taken_by_another_file() {
    let (_dir, root, disk) = stage();
    let at = path("l");
    let attempt = |file| lock::attempt(file, disk.root.as_ref().unwrap(), &at, LockMode::Exclusive).unwrap();
    let first = fs::File::create(root.join("l")).unwrap();
    let second = fs::File::open(root.join("l")).unwrap();
    let third = fs::File::open(root.join("l")).unwrap();
    let held = attempt(first);
    assert!(matches!(held, LockAttempt::Held(_)));
    assert!(matches!(attempt(second.try_clone().unwrap()), LockAttempt::Busy));
    drop(held);
    fs::remove_file(root.join("l")).unwrap();
    assert!(matches!(attempt(second), LockAttempt::Stale));
    fs::write(root.join("l"), b"").unwrap();
    assert!(matches!(attempt(third), LockAttempt::Stale));
}

#[test]
fn a_lock_on_a_file_in_a_moved_folder_excludes_no_one_and_is_not_granted() {
    let (_dir, root, disk) = stage();
    disk.create_dir(&path("s")).unwrap();
    let at = path("s/.lock");
    let opened = fs::File::create(root.join("s/.lock")).unwrap();
    fs::rename(root.join("s"), root.join("gone")).unwrap();
    assert!(matches!(
        lock::attempt(opened, disk.root.as_ref().unwrap(), &at, LockMode::Exclusive),
        Ok(LockAttempt::Stale)
    ));
    let error = disk.lock(&at, LockMode::Exclusive, Duration::ZERO).map(|_| ()).unwrap_err();
    assert_eq!(error.kind, FsErrorKind::NotFound);
    fs::create_dir(root.join("s")).unwrap();
    let opened = fs::File::open(root.join("gone/.lock")).unwrap();
    assert!(matches!(
        lock::attempt(opened, disk.root.as_ref().unwrap(), &at, LockMode::Exclusive),
        Ok(LockAttempt::Stale)
    ));
}

#[test]
fn a_renamed_root_is_still_the_same_store() {
    let (_dir, root, disk) = stage();
    fs::rename(&root, root.with_file_name("moved")).unwrap();
    assert_eq!(disk.create_dir(&path("d")), Ok(Created::New));
    assert!(root.with_file_name("moved").join("d").exists());
}

#[test]
fn writing_to_a_full_device_is_no_space() {
    let Ok(file) = fs::OpenOptions::new().append(true).open("/dev/full") else {
        return skip("writing to a full device", "there is no /dev/full");
    };
    let mut full = super::DiskFile::new(file, path("full"));
    let error = full.append(b"x").unwrap_err();
    assert_eq!((error.op, error.kind), (FsOp::Write, FsErrorKind::NoSpace));
}

#[test]
fn a_disk_opened_for_reading_changes_nothing() {
    let (_dir, root, disk) = stage();
    let none = root.with_file_name("none");
    let missing = Disk::open_read_only(&none).expect("nothing to open is no error");
    assert_eq!(missing.list(&path("sessions")).expect("reads as empty"), []);
    assert_eq!(missing.stat(&path("a")).unwrap_err().kind, FsErrorKind::NotFound);
    assert!(!none.exists());

    disk.create_file(&path("a")).expect("a file").append(b"x").expect("written");
    let read_only = Disk::open_read_only(&root).expect("an existing root is opened");
    assert_eq!(read_only.read(&path("a"), 0, 10).expect("readable"), b"x");
    assert_eq!(read_only.list(&path("folder")).expect("reads as empty"), []);
    let refused = [
        read_only.create_dir(&path("d")).map(drop),
        read_only.create_file(&path("b")).map(drop),
        read_only.open_append(&path("a")).map(drop),
        read_only.rename(&path("a"), &path("b")),
        read_only.remove_file(&path("a")),
        read_only.remove_dir(&path("a")),
        read_only.sync_dir(&RelPath::root()),
    ];
    for outcome in refused {
        assert_eq!(outcome.unwrap_err().kind, FsErrorKind::ReadOnly);
    }
    let lock = |disk: &Disk, name| disk.lock(&path(name), LockMode::Exclusive, Duration::ZERO);
    assert_eq!(lock(&read_only, "lock").unwrap_err().kind, FsErrorKind::NotFound, "no lock file is made");
    let held = lock(&disk, "lock").expect("usable");
    assert!(lock(&read_only, "lock").expect("usable").is_none(), "who holds a lock can be asked");
    drop(held);
    assert!(lock(&read_only, "lock").expect("usable").is_some());
    assert_eq!(read_only.list(&RelPath::root()).expect("listed").len(), 2);
}
