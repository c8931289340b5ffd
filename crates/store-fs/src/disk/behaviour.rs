//! Behaviour that the real and the simulated disk must share, each check run against both.

use std::time::Duration;

use camino::Utf8Path;
use workrail_ports::file_system::{
    Created, DirEntry, FileKind, FileSystem, FsError, FsErrorKind, FsOp, LockMode, RelPath, WritableFile as _,
};

fn path(text: &str) -> RelPath {
    RelPath::parse(text).expect("a test path is well-formed")
}

/// A disk, and a way to plant a link, which the port cannot do.
struct DiskUnderTest<F> {
    fs: F,
    plant_link: Box<dyn Fn(&str)>,
}

impl<F: FileSystem> DiskUnderTest<F> {
    fn put(&self, at: &str, bytes: &[u8]) {
        let mut file = self.fs.create_file(&path(at)).expect("the file is new");
        file.append(bytes).expect("the disk has room");
        file.sync().expect("the disk is sound");
    }

    fn get(&self, at: &str) -> Vec<u8> {
        self.fs.read(&path(at), 0, 1 << 20).expect("the file is there")
    }

    fn dir(&self, at: &str) {
        assert_eq!(self.fs.create_dir(&path(at)), Ok(Created::New));
    }
}

fn kind<T>(result: Result<T, FsError>) -> FsErrorKind {
    match result {
        Ok(_) => panic!("the operation succeeded"),
        Err(error) => error.kind,
    }
}

#[expect(clippy::disallowed_methods, reason = "the port cannot make links, on purpose")]
fn plant_real_link(at: &Utf8Path) {
    rustix::fs::symlink("/", at.as_std_path()).expect("the link is new");
}

fn create_is_exclusive<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.put("a", b"one");
    assert_eq!(kind(disk.fs.create_file(&path("a"))), FsErrorKind::AlreadyExists);
    assert_eq!(disk.get("a"), b"one");
    (disk.plant_link)("link");
    assert_eq!(kind(disk.fs.create_file(&path("link"))), FsErrorKind::AlreadyExists);
}

fn errors_name_the_operation_and_the_path<F: FileSystem>(disk: &DiskUnderTest<F>) {
    let error = disk.fs.read(&path("dir/none"), 0, 1).expect_err("nothing is there");
    assert_eq!((error.op, error.path, error.kind), (FsOp::Read, path("dir/none"), FsErrorKind::NotFound));
}

fn create_dir_says_whether_it_existed<F: FileSystem>(disk: &DiskUnderTest<F>) {
    assert_eq!(disk.fs.create_dir(&path("d")), Ok(Created::New));
    assert_eq!(disk.fs.create_dir(&path("d")), Ok(Created::Existed));
    assert_eq!(disk.fs.create_dir(&RelPath::root()), Ok(Created::Existed));
    assert_eq!(kind(disk.fs.create_dir(&path("none/d"))), FsErrorKind::NotFound);
    disk.put("file", b"");
    assert_eq!(kind(disk.fs.create_dir(&path("file"))), FsErrorKind::WrongKind);
    (disk.plant_link)("link");
    assert_eq!(kind(disk.fs.create_dir(&path("link"))), FsErrorKind::WrongKind);
}

fn appends_go_to_the_end<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.put("a", b"one");
    let mut first = disk.fs.open_append(&path("a")).expect("the file is there");
    let mut second = disk.fs.open_append(&path("a")).expect("the file is there");
    first.append(b"two").expect("the disk has room");
    second.append(b"three").expect("the disk has room");
    first.append(b"four").expect("the disk has room");
    assert_eq!(disk.get("a"), b"onetwothreefour");
    assert_eq!(kind(disk.fs.open_append(&path("b"))), FsErrorKind::NotFound);
}

fn set_len_cuts_and_appends_follow_the_cut<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.put("a", b"0123456789");
    let mut file = disk.fs.open_append(&path("a")).expect("the file is there");
    file.set_len(4).expect("the disk is sound");
    file.append(b"x").expect("the disk has room");
    assert_eq!(disk.get("a"), b"0123x");
    assert_eq!(disk.fs.stat(&path("a")).map(|stat| stat.len), Ok(5));
}

fn rename_replaces<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.dir("d");
    disk.put("d/old", b"old");
    disk.put("new", b"new");
    disk.fs.rename(&path("new"), &path("d/old")).expect("both are regular files");
    assert_eq!(disk.get("d/old"), b"new");
    assert_eq!(kind(disk.fs.stat(&path("new"))), FsErrorKind::NotFound);
    disk.fs.rename(&path("d/old"), &path("d/old")).expect("a rename to itself changes nothing");
    assert_eq!(disk.get("d/old"), b"new");
}

fn rename_refuses_what_does_not_fit<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.dir("d");
    disk.dir("d/in");
    disk.dir("e");
    disk.put("f", b"f");
    (disk.plant_link)("link");
    assert_eq!(kind(disk.fs.rename(&path("none"), &path("x"))), FsErrorKind::NotFound);
    assert_eq!(kind(disk.fs.rename(&path("f"), &path("none/x"))), FsErrorKind::NotFound);
    assert_eq!(kind(disk.fs.rename(&path("f"), &path("d"))), FsErrorKind::WrongKind);
    assert_eq!(kind(disk.fs.rename(&path("d"), &path("f"))), FsErrorKind::WrongKind);
    assert_eq!(kind(disk.fs.rename(&path("e"), &path("d"))), FsErrorKind::AlreadyExists);
    assert_eq!(kind(disk.fs.rename(&path("d"), &path("d/in/d"))), FsErrorKind::Io);
    assert_eq!(kind(disk.fs.rename(&path("link"), &path("x"))), FsErrorKind::WrongKind);
    assert_eq!(kind(disk.fs.rename(&path("f"), &RelPath::root())), FsErrorKind::WrongKind);
    disk.fs.rename(&path("f"), &path("link")).expect("a link is replaced, not followed");
    assert_eq!(disk.get("link"), b"f");
    disk.fs.rename(&path("d"), &path("e")).expect("an empty directory is replaced");
    assert_eq!(disk.fs.stat(&path("e/in")).map(|stat| stat.kind), Ok(FileKind::Directory));
}

fn list_is_sorted_with_kinds<F: FileSystem>(disk: &DiskUnderTest<F>) {
    for name in ["b", "a-1", "B", "a", "a.1", "10", "9"] {
        disk.put(name, b"");
    }
    disk.dir("dir");
    (disk.plant_link)("link");
    let entries = disk.fs.list(&RelPath::root()).expect("the root can be listed");
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["10", "9", "B", "a", "a-1", "a.1", "b", "dir", "link"]);
    assert_eq!(entries[7], DirEntry { name: "dir".into(), kind: FileKind::Directory });
    assert_eq!(entries[8], DirEntry { name: "link".into(), kind: FileKind::Other });
    assert_eq!(entries[0].kind, FileKind::Regular);
    assert_eq!(kind(disk.fs.list(&path("a"))), FsErrorKind::WrongKind);
    assert_eq!(kind(disk.fs.list(&path("link"))), FsErrorKind::WrongKind);
    assert_eq!(kind(disk.fs.list(&path("none"))), FsErrorKind::NotFound);
}

fn read_is_capped_and_takes_an_offset<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.put("a", b"0123456789");
    let read = |offset, max| disk.fs.read(&path("a"), offset, max);
    assert_eq!(read(0, 10), Ok(b"0123456789".to_vec()));
    assert_eq!(kind(read(0, 9)), FsErrorKind::TooLarge { len: 10, max: 9 });
    assert_eq!(read(4, 6), Ok(b"456789".to_vec()));
    assert_eq!(kind(read(4, 5)), FsErrorKind::TooLarge { len: 6, max: 5 });
    assert_eq!(read(10, 0), Ok(Vec::new()));
    assert_eq!(read(11, 0), Ok(Vec::new()));
    assert_eq!(read(u64::MAX, u64::MAX).map_err(|error| error.kind), Ok(Vec::new()));
    assert_eq!(kind(read(0, 0)), FsErrorKind::TooLarge { len: 10, max: 0 });
}

fn a_part_is_read_up_to_its_length_or_the_end<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.put("a", b"0123456789");
    let part = |offset, max| disk.fs.read_part(&path("a"), offset, max).map_err(|error| error.kind);
    assert_eq!(part(0, 4), Ok(b"0123".to_vec()));
    assert_eq!(part(4, 4), Ok(b"4567".to_vec()));
    assert_eq!(part(8, 4), Ok(b"89".to_vec()));
    assert_eq!(part(10, 4), Ok(Vec::new()));
    assert_eq!(part(u64::MAX, usize::MAX), Ok(Vec::new()));
    assert_eq!(kind(disk.fs.read_part(&path("none"), 0, 4)), FsErrorKind::NotFound);
    disk.dir("d");
    (disk.plant_link)("link");
    for at in ["d", "link", "link/below"] {
        assert_eq!(kind(disk.fs.read_part(&path(at), 0, 4)), FsErrorKind::WrongKind, "{at}");
    }
}

fn a_link_or_directory_is_the_wrong_kind<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.dir("d");
    disk.put("file", b"");
    (disk.plant_link)("link");
    for at in ["d", "link", "link/below", "file/below"] {
        let at = path(at);
        assert_eq!(kind(disk.fs.read(&at, 0, 9)), FsErrorKind::WrongKind, "read {at}");
        assert_eq!(kind(disk.fs.open_append(&at)), FsErrorKind::WrongKind, "open {at}");
        let locked = disk.fs.lock(&at, LockMode::Shared, Duration::ZERO);
        assert_eq!(kind(locked), FsErrorKind::WrongKind, "lock {at}");
    }
    for at in ["link/below", "file/below"] {
        let at = path(at);
        assert_eq!(kind(disk.fs.create_file(&at)), FsErrorKind::WrongKind, "create {at}");
        assert_eq!(kind(disk.fs.create_dir(&at)), FsErrorKind::WrongKind, "mkdir {at}");
        assert_eq!(kind(disk.fs.stat(&at)), FsErrorKind::WrongKind, "stat {at}");
        assert_eq!(kind(disk.fs.remove_file(&at)), FsErrorKind::WrongKind, "remove {at}");
        assert_eq!(kind(disk.fs.rename(&path("file"), &at)), FsErrorKind::WrongKind, "rename {at}");
    }
    assert_eq!(kind(disk.fs.sync_dir(&path("link"))), FsErrorKind::WrongKind);
    assert_eq!(kind(disk.fs.sync_dir(&path("file"))), FsErrorKind::WrongKind);
    assert_eq!(kind(disk.fs.read(&RelPath::root(), 0, 9)), FsErrorKind::WrongKind);
    assert_eq!(disk.fs.stat(&path("link")).map(|stat| stat.kind), Ok(FileKind::Other));
}

fn stat_tells_kind_length_and_access<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.dir("d");
    disk.put("d/f", b"four");
    let file = disk.fs.stat(&path("d/f")).expect("the file is there");
    assert_eq!((file.kind, file.len, file.others_may_access), (FileKind::Regular, 4, false));
    let dir = disk.fs.stat(&path("d")).expect("the directory is there");
    assert_eq!((dir.kind, dir.others_may_access), (FileKind::Directory, false));
    let root = disk.fs.stat(&RelPath::root()).expect("the root is there");
    assert_eq!((root.kind, root.others_may_access), (FileKind::Directory, false));
    assert_eq!(kind(disk.fs.stat(&path("none"))), FsErrorKind::NotFound);
}

fn removal_is_by_kind<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.dir("d");
    disk.put("d/f", b"");
    (disk.plant_link)("link");
    assert_eq!(kind(disk.fs.remove_dir(&path("d"))), FsErrorKind::AlreadyExists);
    assert_eq!(kind(disk.fs.remove_dir(&path("d/f"))), FsErrorKind::WrongKind);
    assert_eq!(kind(disk.fs.remove_file(&path("d"))), FsErrorKind::WrongKind);
    assert_eq!(kind(disk.fs.remove_file(&path("none"))), FsErrorKind::NotFound);
    disk.fs.remove_file(&path("d/f")).expect("the file is there");
    disk.fs.remove_file(&path("link")).expect("the link itself is removed");
    disk.fs.remove_dir(&path("d")).expect("the directory is empty");
    assert_eq!(disk.fs.list(&RelPath::root()), Ok(Vec::new()));
}

fn an_open_file_outlives_its_name<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.put("a", b"a");
    let mut file = disk.fs.open_append(&path("a")).expect("the file is there");
    disk.fs.remove_file(&path("a")).expect("the file is there");
    file.append(b"lost").expect("an unlinked file can be written");
    file.sync().expect("an unlinked file can be synced");
    assert_eq!(kind(disk.fs.stat(&path("a"))), FsErrorKind::NotFound);
}

fn locks_conflict_by_mode_and_end_with_their_guard<F: FileSystem>(disk: &DiskUnderTest<F>) {
    let lock = |mode| disk.fs.lock(&path(".lock"), mode, Duration::ZERO).expect("the lock file is usable");
    let first = lock(LockMode::Shared);
    let second = lock(LockMode::Shared);
    assert!(first.is_some() && second.is_some());
    assert!(lock(LockMode::Exclusive).is_none());
    drop(first);
    assert!(lock(LockMode::Exclusive).is_none());
    drop(second);
    let only = lock(LockMode::Exclusive);
    assert!(only.is_some());
    assert!(lock(LockMode::Shared).is_none());
    assert!(lock(LockMode::Exclusive).is_none());
    drop(only);
    assert!(lock(LockMode::Exclusive).is_some());
    assert!(disk.fs.lock(&path("other"), LockMode::Exclusive, Duration::ZERO).is_ok_and(|l| l.is_some()));
}

fn syncs_succeed_on_a_sound_disk<F: FileSystem>(disk: &DiskUnderTest<F>) {
    disk.dir("d");
    disk.put("d/f", b"x");
    assert_eq!(disk.fs.sync_dir(&path("d")), Ok(()));
    assert_eq!(disk.fs.sync_dir(&RelPath::root()), Ok(()));
    assert_eq!(kind(disk.fs.sync_dir(&path("none"))), FsErrorKind::NotFound);
}

macro_rules! on_both_disks {
    ($($check:ident),+ $(,)?) => {
        mod on_the_real_disk {
            use camino::Utf8Path;

            use crate::disk::Disk;

            $(#[test]
            fn $check() {
                let dir = tempfile::tempdir().expect("a temporary directory can be made");
                let root = Utf8Path::from_path(dir.path()).expect("its path is UTF-8").join("data");
                let links = root.clone();
                let plant_link = Box::new(move |at: &str| super::plant_real_link(&links.join(at)));
                super::$check(&super::DiskUnderTest { fs: Disk::open(&root).expect("the root is usable"), plant_link });
            })+
        }
        mod on_the_simulated_disk {
            use crate::sim::SimFs;

            $(#[test]
            fn $check() {
                let fs = SimFs::new();
                let handle = fs.clone();
                let plant_link = Box::new(move |at: &str| handle.make_symlink_raw(&super::path(at)));
                super::$check(&super::DiskUnderTest { fs, plant_link });
            })+
        }
    };
}

on_both_disks![
    a_link_or_directory_is_the_wrong_kind,
    a_part_is_read_up_to_its_length_or_the_end,
    an_open_file_outlives_its_name,
    appends_go_to_the_end,
    create_dir_says_whether_it_existed,
    create_is_exclusive,
    errors_name_the_operation_and_the_path,
    list_is_sorted_with_kinds,
    locks_conflict_by_mode_and_end_with_their_guard,
    read_is_capped_and_takes_an_offset,
    removal_is_by_kind,
    rename_refuses_what_does_not_fit,
    rename_replaces,
    set_len_cuts_and_appends_follow_the_cut,
    stat_tells_kind_length_and_access,
    syncs_succeed_on_a_sound_disk,
];
