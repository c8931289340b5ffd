//! Any file beneath the data directory may be cut, empty, a directory, a link, a pipe, unreadable or 50 MB long: the
//! result is a typed error or the right health, never a panic, a hang, or a write.
#![expect(clippy::disallowed_methods, reason = "the files are made hostile behind the store's back")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use tempfile::TempDir;
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::{Activity, Event};
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_ports::cache::{CachedProjection, ProjectionCache};
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::environment::ActivityCounter;
use workrail_ports::file_system::{FileSystem, FsErrorKind};
use workrail_ports::keyring::{KeyringError, KeyringStore};
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore, StampDepth, StoreError};
use workrail_ports::upkeep::Inspection as _;
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;
use workrail_store_fs::sim::SimFs;
use workrail_testkit::history::{self, Step};

use support::{events_of, open, path, session_of, unseen_plan, write_session};

const SCRIPT: [Step; 3] = [Step::Advance, Step::AdvanceWithArtifact, Step::Advance];
const LONG: u64 = 50 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hostility {
    CutInHalf,
    Empty,
    Garbage,
    /// 50 MB, beginning with the file's own bytes.
    Long,
    Directory,
    /// A link to a good copy of the file elsewhere, so that following it would go unnoticed.
    Symlink,
    Fifo,
    Unreadable,
}

impl Hostility {
    const ON_DISK: [Self; 7] =
        [Self::CutInHalf, Self::Empty, Self::Garbage, Self::Long, Self::Directory, Self::Symlink, Self::Fifo];

    /// Whether there still is a regular file to open; the contents of a lock file do not matter.
    fn leaves_a_file(self) -> bool {
        matches!(self, Self::CutInHalf | Self::Empty | Self::Garbage | Self::Long | Self::Unreadable)
    }
}

/// What a file of the store is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Log,
    Content,
    Keyring,
    Cache,
    Activity,
    SessionLock,
    StoreLock,
    KeyringLock,
    ActivityLock,
}

fn role(file: &str) -> Role {
    match file.rsplit('/').next().unwrap_or_default() {
        ".lock" if file.starts_with("keys/") => Role::KeyringLock,
        ".lock" => Role::SessionLock,
        "store.lock" => Role::StoreLock,
        "activity.lock" => Role::ActivityLock,
        "activity" | "activity.reserved" => Role::Activity,
        "keyring.json" => Role::Keyring,
        "projection" => Role::Cache,
        _ if file.starts_with("sessions/") => Role::Log,
        _ => Role::Content,
    }
}

/// Two sessions, of which the first is damaged, and one of everything else.
struct Scene {
    attacked: SessionId,
    events: Vec<Event>,
    bystander: SessionId,
    cursor: Cursor,
    /// The last number that was handed out.
    activity: Activity,
}

impl Scene {
    fn write<F: FileSystem>(fs: F) -> Self {
        let store = open(fs);
        let written = write_session(&store, 1, &SCRIPT);
        let attacked = session_of(&written);
        let bystander = session_of(&write_session(&store, 2, &SCRIPT));
        let cursor = store.read(attacked, None).expect("written").cursor;
        store
            .put(attacked, &CachedProjection { version: 1, cursor, state: b"state".to_vec() })
            .expect("cached");
        store.load_or_create().expect("keys");
        let activity = store.next().expect("an activity number");
        Self { attacked, events: events_of(&written), bystander, cursor, activity }
    }

    /// Reads everything, and checks what damage to `file` may and may not affect.
    fn check_reads<F: FileSystem>(&self, store: &LocalStore<F>, file: &str, what: &str) {
        let role = role(file);
        let listed = store.sessions().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(listed.contains(&self.attacked) && listed.contains(&self.bystander), "{what}: {listed:?}");
        let whole = store.read(self.bystander, None).expect("untouched");
        assert!(whole.health.is_healthy(), "{what}");
        for since in [None, Some(&self.cursor)] {
            match store.read(self.attacked, since) {
                Ok(slice) if slice.health.is_healthy() => {
                    let unread = since.is_some() && !file.ends_with("manifest.jsonl");
                    assert!(role != Role::Log || unread, "{what}: not seen");
                    let expected = if slice.continues && since.is_some() { &[] } else { &self.events[..] };
                    assert_eq!(slice.events, expected, "{what}");
                }
                Ok(slice) => {
                    assert_eq!(role, Role::Log, "{what}: {:?}", slice.health);
                    assert!(self.events.starts_with(&slice.events), "{what}: not a prefix");
                }
                Err(StoreError::Io(_)) => assert_eq!(role, Role::Log, "{what}"),
                Err(error) => panic!("{what}: {error}"),
            }
        }
        let cached = store.get(self.attacked, 1).is_some();
        assert_eq!(cached, role != Role::Cache, "{what}");
        if role == Role::Content {
            let error = read_content(store, file).expect_err("damaged content was given out");
            let fits = match &error {
                ContentError::Damaged { path } => path == file,
                ContentError::Io(error) => error.kind == FsErrorKind::PermissionDenied,
                ContentError::Missing { .. }
                | ContentError::Snapshot { .. }
                | ContentError::Workflow { .. } => false,
            };
            assert!(fits, "{what}: {error:?}");
        }
    }

    /// Tries every write: those that do not need the damaged file succeed, the rest are refused.
    fn check_writes<F: FileSystem>(&self, store: &LocalStore<F>, file: &str, how: Hostility, what: &str) {
        let role = role(file);
        let appended = store.lock(self.attacked).and_then(|mut locked| {
            let parts = unseen_plan(self.attacked, locked.cursor().next_event_index, 9);
            locked.append(parts.plan())
        });
        match (role, appended) {
            (Role::Log, Err(StoreError::Unhealthy { .. } | StoreError::Io(_))) => {}
            (Role::SessionLock | Role::StoreLock, Err(StoreError::Io(error))) => {
                assert!(!how.leaves_a_file(), "{what}: {error}");
            }
            (Role::Log, outcome) => panic!("{what}: {outcome:?}"),
            (_, outcome) => assert!(outcome.is_ok(), "{what}: {outcome:?}"),
        }
        match (role, store.load_or_create()) {
            (Role::Keyring, Err(KeyringError::Invalid { .. } | KeyringError::Exposed { .. })) => {}
            (Role::Keyring | Role::KeyringLock, Err(KeyringError::Io(error))) => {
                assert!(!how.leaves_a_file() || how == Hostility::Unreadable, "{what}: {error}");
            }
            (Role::Keyring, Ok(_)) => panic!("{what}: a damaged keyring was used"),
            (_, outcome) => assert!(outcome.is_ok(), "{what}: {outcome:?}"),
        }
        let first = store.next().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(first > self.activity, "{what}: {first:?}");
        let second = store.next().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(second.get(), first.get() + 1, "{what}: the counter works again");
        let whole = store.read(self.bystander, None).expect("untouched");
        assert!(whole.health.is_healthy(), "{what}");
    }
}

fn read_content<F: FileSystem>(store: &LocalStore<F>, file: &str) -> Result<(), ContentError> {
    let name = file.rsplit('/').next().unwrap_or_default().trim_end_matches(".json");
    let digest = Sha256::from_hex(name).expect("content is named by its digest");
    match file.split('/').next() {
        Some("snapshots") => store.snapshot(SnapshotRef::new(digest)).map(drop),
        Some("blobs") => store.blob(BlobRef::new(digest)).map(drop),
        _ => store.workflow(WorkflowHash::new(digest)).map(drop),
    }
}

/// Every entry beneath a directory: kind, size, change time, and the bytes of small files.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, u64, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).expect("a directory of the test") {
            let path = entry.expect("a listed entry").path();
            let stat = fs::symlink_metadata(&path).expect("a listed entry");
            let bytes = match stat.is_file() && stat.len() < LONG {
                true => fs::read(&path).expect("a small file"),
                false => Vec::new(),
            };
            if stat.is_dir() {
                open.push(path.clone());
            }
            let changed = stat.mtime() * 1_000_000_000 + stat.mtime_nsec();
            found.insert(path, (stat.mode(), stat.len(), changed, bytes));
        }
    }
    found
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a fresh copy");
    fs::set_permissions(to, fs::metadata(from).expect("listed").permissions()).expect("ours");
    for entry in fs::read_dir(from).expect("a directory of the test") {
        let entry = entry.expect("a listed entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a listed entry").is_dir() {
            true => copy_tree(&entry.path(), &target),
            // Copies the permissions, too.
            false => drop(fs::copy(entry.path(), target).expect("a small file")),
        }
    }
}

fn spoil(file: &Path, how: Hostility, outside: &Path) {
    let bytes = fs::read(file).expect("the file to spoil");
    let private = || fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("ours");
    match how {
        Hostility::CutInHalf => fs::write(file, &bytes[..bytes.len() / 2]).expect("ours"),
        Hostility::Empty => fs::write(file, b"").expect("ours"),
        Hostility::Garbage => fs::write(file, b"\xff\xfe{\"v\":1,\n\n\x00]").expect("ours"),
        Hostility::Long => {
            fs::OpenOptions::new().write(true).open(file).and_then(|file| file.set_len(LONG)).expect("ours");
        }
        Hostility::Directory => {
            fs::remove_file(file).expect("ours");
            fs::create_dir(file).expect("ours");
        }
        Hostility::Symlink => {
            fs::rename(file, outside).expect("ours");
            symlink(outside, file).expect("ours");
            return;
        }
        Hostility::Fifo => {
            fs::remove_file(file).expect("ours");
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, file, rustix::fs::FileType::Fifo, mode, 0).expect("ours");
        }
        Hostility::Unreadable => unreachable!("root reads everything: only the simulated disk refuses"),
    }
    private();
}

fn disk(root: &Path) -> Disk {
    Disk::open(Utf8Path::from_path(root).expect("temporary paths are UTF-8")).expect("the directory opens")
}

fn files_beneath(root: &Path) -> Vec<String> {
    let files = tree(root).into_iter().filter(|(path, _)| path.is_file());
    files
        .map(|(path, _)| path.strip_prefix(root).expect("beneath").to_str().expect("plain").to_owned())
        .collect()
}

#[test]
fn any_file_of_the_real_disk_may_be_replaced_by_anything() {
    let dir = TempDir::new().expect("a temporary folder");
    let template = dir.path().join("template");
    let scene = Scene::write(disk(&template));
    let about = scene.attacked.to_string();
    let files = files_beneath(&template);
    let attacked = files.iter().filter(|file| !file.starts_with("sessions/") || file.contains(&about));
    for (number, file) in attacked.enumerate() {
        for how in Hostility::ON_DISK {
            let what = format!("{file}, {how:?}");
            let root = dir.path().join(format!("{number}-{how:?}"));
            let outside = dir.path().join("outside");
            copy_tree(&template, &root);
            spoil(&root.join(file), how, &outside);
            let store = open(disk(&root));
            let before = tree(&root);
            scene.check_reads(&store, file, &what);
            assert_eq!(tree(&root), before, "{what}: reading wrote");
            let linked = fs::read(&outside).ok();
            scene.check_writes(&store, file, how, &what);
            if role(file) == Role::Log {
                let log = |tree: BTreeMap<PathBuf, _>| -> Vec<_> {
                    tree.into_iter().filter(|(path, _)| path.to_string_lossy().contains(&about)).collect()
                };
                assert_eq!(log(tree(&root)), log(before), "{what}: a damaged log was written to");
            }
            assert_eq!(fs::read(&outside).ok(), linked, "{what}: written through a link");
            fs::remove_dir_all(&root).expect("ours");
            let _ = fs::remove_file(&outside);
        }
    }
}

#[test]
fn every_unreadable_file_is_a_typed_error_or_the_right_health() {
    let fs = SimFs::new();
    let scene = Scene::write(fs.clone());
    for file in fs.all_files() {
        let ours = file.as_str().contains(&scene.attacked.to_string());
        if file.as_str().starts_with("sessions/") && !ours {
            continue;
        }
        let fs = fs.fork();
        fs.set_unreadable(&file);
        let store = open(fs.clone());
        let what = format!("{file}, unreadable");
        let writes = fs.op_count();
        scene.check_reads(&store, file.as_str(), &what);
        assert_eq!(fs.op_count(), writes, "{what}: reading wrote");
        scene.check_writes(&store, file.as_str(), Hostility::Unreadable, &what);
    }
}

#[test]
fn something_else_in_place_of_a_folder_is_a_typed_error() {
    let base = SimFs::new();
    let scene = Scene::write(base.clone());
    let session = format!("sessions/{}", scene.attacked);
    for folder in ["sessions", "snapshots", "blobs", "workflows", "workflows/pinned"] {
        for by in [Replacement::Link, Replacement::File] {
            let fs = base.fork();
            replace_folder(&fs, folder, by);
            let store = open(fs);
            assert_eq!(store.obstacles().first().map(|obstacle| obstacle.path.as_str()), Some(folder));
            let plans = history::plans(99, &[Step::AdvanceWithArtifact]);
            let refused = store.create(plans[0].events[0].session_id).and_then(|mut locked| {
                plans.iter().try_for_each(|parts| locked.append(parts.plan()).map(drop))
            });
            assert!(
                matches!(&refused, Err(StoreError::Io(error)) if error.kind == FsErrorKind::WrongKind),
                "{folder}: {refused:?}"
            );
        }
    }
    for by in [Replacement::Link, Replacement::File] {
        let fs = base.fork();
        replace_folder(&fs, "keys", by);
        let store = open(fs);
        assert!(
            matches!(store.load_or_create(), Err(KeyringError::Io(error)) if error.kind == FsErrorKind::WrongKind)
        );
        assert!(store.lock(scene.bystander).is_ok(), "only tokens need keys");
    }
    for folder in [session.clone(), format!("{session}/events")] {
        for by in [Replacement::Link, Replacement::File] {
            let fs = base.fork();
            replace_folder(&fs, &folder, by);
            let store = open(fs.clone());
            let writes = fs.op_count();
            let listed = store.sessions().unwrap();
            assert!(listed.contains(&scene.attacked) && listed.contains(&scene.bystander), "{folder}");
            let stamped = store.stamped_sessions(StampDepth::Manifest).unwrap();
            let stamped: Vec<_> = stamped.into_iter().map(|stamped| stamped.session).collect();
            assert_eq!(stamped, listed, "{folder}");
            assert!(!store.read(scene.attacked, None).unwrap().health.is_healthy(), "{folder}");
            assert!(store.lock(scene.attacked).is_err(), "{folder}");
            assert!(store.read(scene.bystander, None).unwrap().health.is_healthy(), "{folder}");
            assert_eq!(fs.op_count(), writes, "{folder}: something was written");
        }
    }
}

#[derive(Clone, Copy)]
enum Replacement {
    Link,
    File,
}

fn replace_folder(fs: &SimFs, folder: &str, by: Replacement) {
    fs.remove_raw(&path(folder));
    match by {
        Replacement::Link => fs.make_symlink_raw(&path(folder)),
        Replacement::File => fs.write_raw(&path(folder), b"a file"),
    }
}
