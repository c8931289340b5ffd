//! Backups and restores while sessions are deleted and written (G13, G26).

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use workrail_model::id::SessionId;
use workrail_model::limits::PASSKEY_LOG_BYTES_MAX;
use workrail_ports::backup::{
    BackupOptions, CopySide, KeysCopy, Replicate as _, RestoreOptions, SessionChange, SkipReason,
};
use workrail_ports::file_system::{Created, DirEntry, FileStat, FileSystem, FsError, LockMode, RelPath};
use workrail_ports::keyring::KeyringStore as _;
use workrail_ports::session_store::{SessionReader as _, SessionStore as _};
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::SimFs;
use workrail_testkit::fixed::SeededEntropy;

use crate::STEPS;
use crate::support::{append_unseen_plan, group_ends, open, path, session_of, within, write_session};

type SimFile = <SimFs as FileSystem>::File;
type SimLock = <SimFs as FileSystem>::Lock;

/// A disk on which another process acts at the moment when a file is read or locked.
#[derive(Clone)]
struct Contended {
    inner: SimFs,
    next: Arc<Mutex<Option<Interference>>>,
}

struct Interference {
    file: RelPath,
    /// It happens right before this many uses of the file have happened.
    uses_left: u32,
    act: Box<dyn FnOnce(&SimFs) + Send>,
}

impl Contended {
    fn new(inner: SimFs) -> Self {
        Self { inner, next: Arc::default() }
    }

    fn interfere(&self, file: RelPath, uses_left: u32, act: impl FnOnce(&SimFs) + Send + 'static) {
        *self.next() = Some(Interference { file, uses_left, act: Box::new(act) });
    }

    fn is_over(&self) -> bool {
        self.next().is_none()
    }

    fn next(&self) -> MutexGuard<'_, Option<Interference>> {
        self.next.lock().expect("no test panics while it holds it")
    }

    fn note_use(&self, path: &RelPath) {
        let mut next = self.next();
        let Some(pending) = next.as_mut().filter(|pending| pending.file == *path) else { return };
        pending.uses_left -= 1;
        if pending.uses_left > 0 {
            return;
        }
        if let Some(now) = next.take() {
            (now.act)(&self.inner);
        }
    }
}

impl FileSystem for Contended {
    type File = SimFile;
    type Lock = SimLock;

    fn create_dir(&self, path: &RelPath) -> Result<Created, FsError> {
        self.inner.create_dir(path)
    }

    fn create_file(&self, path: &RelPath) -> Result<SimFile, FsError> {
        self.inner.create_file(path)
    }

    fn open_append(&self, path: &RelPath) -> Result<SimFile, FsError> {
        self.inner.open_append(path)
    }

    fn rename(&self, from: &RelPath, to: &RelPath) -> Result<(), FsError> {
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &RelPath) -> Result<(), FsError> {
        self.inner.remove_file(path)
    }

    fn sync_dir(&self, path: &RelPath) -> Result<(), FsError> {
        self.inner.sync_dir(path)
    }

    fn read(&self, path: &RelPath, offset: u64, max: u64) -> Result<Vec<u8>, FsError> {
        self.note_use(path);
        self.inner.read(path, offset, max)
    }

    fn read_part(&self, path: &RelPath, offset: u64, max: usize) -> Result<Vec<u8>, FsError> {
        self.note_use(path);
        self.inner.read_part(path, offset, max)
    }

    fn list(&self, path: &RelPath) -> Result<Vec<DirEntry>, FsError> {
        self.inner.list(path)
    }

    fn stat(&self, path: &RelPath) -> Result<FileStat, FsError> {
        self.inner.stat(path)
    }

    fn lock(&self, path: &RelPath, mode: LockMode, wait_max: Duration) -> Result<Option<SimLock>, FsError> {
        self.note_use(path);
        self.inner.lock(path, mode, wait_max)
    }

    fn remove_dir(&self, path: &RelPath) -> Result<(), FsError> {
        self.inner.remove_dir(path)
    }
}

const BACKUP: BackupOptions = BackupOptions { with_keys: false, check_all: false };
const RESTORE: RestoreOptions = RestoreOptions { only: None, dry_run: false };

fn backup() -> LocalStore<Contended> {
    backup_on(&SimFs::new())
}

fn backup_on(disk: &SimFs) -> LocalStore<Contended> {
    let disk = Contended::new(disk.clone());
    LocalStore::read_only(disk, Box::new(SeededEntropy::new(9)), "boot-1".to_owned())
}

/// Broke: the backup reported a loss and failed.
#[test]
fn a_session_that_is_deleted_during_a_backup_is_not_a_loss() {
    let mut found_in_the_middle = 0;
    for reads_left in 1..=4 {
        let disk = Contended::new(SimFs::new());
        let store: LocalStore<Contended> = open(disk.clone());
        let ids = [1, 2].map(|seed| session_of(&write_session(&store, seed, &STEPS)));
        let segment = disk.list(&within(ids[0], "events")).unwrap().remove(0).name;
        let folder = path(&format!("sessions/{}", ids[0]));
        let read = within(ids[0], &format!("events/{segment}"));
        disk.interfere(read, reads_left, move |fs| fs.remove_raw(&folder));
        let backup = backup();
        let report = store.back_up_to(&backup, BACKUP, &mut |_, _| {}).unwrap();
        assert_eq!(report.unusable, [], "{reads_left}");
        let copied: Vec<_> = report.sessions.iter().map(|copy| (copy.session, copy.change.clone())).collect();
        assert!(copied.contains(&(ids[1], SessionChange::Added)), "{reads_left}: {copied:?}");
        found_in_the_middle += u32::from(disk.is_over() && !backup.sessions().unwrap().contains(&ids[0]));
    }
    assert!(found_in_the_middle > 0, "it was deleted while it was read");
}

/// A store whose session is in a backup, and whose first write lost its manifest and waits to be committed.
fn with_a_pending_first_write() -> (Contended, LocalStore<Contended>, LocalStore<Contended>, SessionId) {
    let disk = Contended::new(SimFs::new());
    let store: LocalStore<Contended> = open(disk.clone());
    let session = session_of(&write_session(&store, 1, &[]));
    let backup = backup();
    store.back_up_to(&backup, BACKUP, &mut |_, _| {}).expect("the store is backed up");
    disk.inner.remove_raw(&within(session, "manifest.jsonl"));
    (disk.clone(), open(disk), backup, session)
}

fn restored(store: &LocalStore<Contended>, backup: &LocalStore<Contended>) -> SessionChange {
    let report = store.restore_from(backup, RESTORE, &mut |_, _| {}).expect("the backup is restored");
    assert_eq!(report.unusable, []);
    report.sessions[0].change.clone()
}

#[test]
fn a_restore_completes_a_first_write_without_a_manifest() {
    let (_, store, backup, session) = with_a_pending_first_write();
    assert!(matches!(restored(&store, &backup), SessionChange::Replaced { .. }));
    assert_eq!(store.read(session, None).unwrap().events, backup.read(session, None).unwrap().events);
}

/// Broke: the restore moved the session with the other process's steps aside.
#[test]
fn a_restore_does_not_replace_a_first_write_that_was_committed_meanwhile() {
    let (disk, store, backup, session) = with_a_pending_first_write();
    disk.interfere(within(session, ".lock"), 1, move |fs| {
        append_unseen_plan(fs.clone(), session, 7);
    });
    let report = store.restore_from(&backup, RESTORE, &mut |_, _| {}).unwrap();
    assert!(disk.is_over());
    let (kept, earlier) = (store.read(session, None).unwrap(), backup.read(session, None).unwrap());
    assert_eq!(report.sessions[0].change, SessionChange::Left(SkipReason::TargetHasMore));
    assert_eq!(report.sessions[0].events, kept.events.len() as u64);
    assert!(kept.events.len() > earlier.events.len() && kept.events.starts_with(&earlier.events));
}

/// Broke: the restore said that the store and the backup have different histories of it.
#[test]
fn a_pending_write_that_a_server_commits_first_is_unchanged() {
    let disk = Contended::new(SimFs::new());
    let store: LocalStore<Contended> = open(disk.clone());
    let session = session_of(&write_session(&store, 1, &STEPS));
    let backup = backup();
    store.back_up_to(&backup, BACKUP, &mut |_, _| {}).unwrap();
    let manifest = within(session, "manifest.jsonl");
    let whole = disk.inner.read_raw(&manifest).unwrap();
    let ends = group_ends(&whole);
    disk.inner.write_raw(&manifest, &whole[..ends[ends.len() - 2]]);
    let store: LocalStore<Contended> = open(disk.clone());
    disk.interfere(within(session, ".lock"), 1, move |fs| {
        // Taking the lock commits it.
        drop(open(fs.clone()).lock(session).unwrap());
    });
    assert_eq!(restored(&store, &backup), SessionChange::Unchanged);
    assert!(disk.is_over());
    assert_eq!(disk.inner.read_raw(&manifest).unwrap(), whole);
}

/// A backup with signing keys and a passkey log.
fn backup_with_keys() -> LocalStore<Contended> {
    backup_with_keys_on(&SimFs::new())
}

fn backup_with_keys_on(backup_disk: &SimFs) -> LocalStore<Contended> {
    let disk = SimFs::new();
    let store: LocalStore<Contended> = open(Contended::new(disk.clone()));
    store.load_or_create().expect("keys are made");
    disk.write_raw(&path("keys/passkeys.jsonl"), b"{}\n");
    let backup = backup_on(backup_disk);
    let options = BackupOptions { with_keys: true, ..BACKUP };
    store.back_up_to(&backup, options, &mut |_, _| {}).expect("the store is backed up");
    backup
}

/// Broke: the server's keys stayed, but the backup's passkeys were trusted next to them.
#[test]
fn keys_that_a_server_makes_during_a_restore_stay_without_the_passkeys_of_others() {
    let backup = backup_with_keys();
    let disk = Contended::new(SimFs::new());
    let store: LocalStore<Contended> = open(disk.clone());
    disk.interfere(path("keys/.lock"), 1, |fs| {
        open(fs.clone()).load_or_create().expect("the server makes keys");
    });
    let report = store.restore_from(&backup, RESTORE, &mut |_, _| {}).unwrap();
    assert!(disk.is_over());
    assert_eq!(report.keys, KeysCopy::TargetHasOthers);
    assert_ne!(store.peek().unwrap(), backup.peek().unwrap());
    assert_eq!(disk.inner.read_raw(&path("keys/passkeys.jsonl")), None);
}

#[test]
fn two_restores_at_once_report_the_same_keys_as_unchanged() {
    let backup = backup_with_keys();
    let disk = Contended::new(SimFs::new());
    let store: LocalStore<Contended> = open(disk.clone());
    let first = Contended::new(SimFs::new());
    open(first.clone()).restore_from(&backup, RESTORE, &mut |_, _| {}).unwrap();
    let keyring = first.inner.read_raw(&path("keys/keyring.json")).unwrap();
    disk.interfere(path("keys/.lock"), 1, move |fs| fs.write_raw(&path("keys/keyring.json"), &keyring));
    let report = store.restore_from(&backup, RESTORE, &mut |_, _| {}).unwrap();
    assert!(disk.is_over());
    assert_eq!(report.keys, KeysCopy::Unchanged);
    assert!(disk.inner.read_raw(&path("keys/passkeys.jsonl")).is_some(), "it is the same store");
}

/// Broke: a line that the server had added in the meantime was lost.
#[test]
fn a_passkey_that_a_server_adds_during_a_restore_is_kept() {
    let backup = backup_with_keys();
    let disk = Contended::new(SimFs::new());
    let store: LocalStore<Contended> = open(disk.clone());
    store.restore_from(&backup, RESTORE, &mut |_, _| {}).unwrap();
    disk.inner.remove_raw(&path("keys/passkeys.jsonl"));
    disk.interfere(path("keys/.lock"), 1, |fs| {
        fs.write_raw(&path("keys/passkeys.jsonl"), b"{}\n{\"more\":1}\n");
    });
    store.restore_from(&backup, RESTORE, &mut |_, _| {}).unwrap();
    assert!(disk.is_over());
    assert_eq!(
        disk.inner.read_raw(&path("keys/passkeys.jsonl")).as_deref(),
        Some(b"{}\n{\"more\":1}\n".as_slice())
    );
}

/// Damages a file on a disk.
type Spoiling<'a> = &'a dyn Fn(&SimFs);

/// Broke: a log that could not be read was replaced, and later passkeys were lost. Then: everything after the sessions
/// was left out, with the whole report.
#[test]
fn a_passkey_log_that_cannot_be_used_is_never_replaced_and_stops_nothing_else() {
    let log = path("keys/passkeys.jsonl");
    let too_long = vec![b'x'; usize::try_from(PASSKEY_LOG_BYTES_MAX).unwrap() + 1];
    let ways: [(&str, Spoiling<'_>); 4] = [
        ("too long", &|fs| fs.write_raw(&log, &too_long)),
        ("unreadable", &|fs| fs.set_unreadable(&log)),
        ("a link", &|fs| {
            fs.remove_raw(&log);
            fs.make_symlink_raw(&log);
        }),
        ("a folder", &|fs| {
            fs.remove_raw(&log);
            fs.make_dir_raw(&log);
        }),
    ];
    for (way, spoil) in ways {
        for side in [CopySide::Target, CopySide::Source] {
            let backup_disk = SimFs::new();
            let backup = backup_with_keys_on(&backup_disk);
            let settings = path("config.toml");
            backup_disk.write_raw(&settings, b"# settings\n");
            let disk = Contended::new(SimFs::new());
            let store: LocalStore<Contended> = open(disk.clone());
            store.restore_from(&backup, RESTORE, &mut |_, _| {}).unwrap();
            disk.inner.remove_raw(&settings);
            let spoilt = match side {
                CopySide::Target => &disk.inner,
                CopySide::Source => &backup_disk,
            };
            spoil(spoilt);
            let (before, kind) = (spoilt.read_raw(&log), spoilt.stat(&log).unwrap().kind);

            let report = store.restore_from(&backup, RESTORE, &mut |_, _| {}).unwrap();
            assert_eq!(report.unusable_passkeys.map(|unusable| unusable.side), Some(side), "{way}");
            assert!(disk.inner.read_raw(&settings).is_some(), "{way}: the settings come after it");
            assert!(spoilt.read_raw(&log) == before, "{way}: it is as it was");
            assert_eq!(spoilt.stat(&log).unwrap().kind, kind, "{way}");
        }
    }
}
