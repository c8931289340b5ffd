//! Backups of a store in which sessions are deleted meanwhile (G26).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use workrail_ports::backup::{BackupOptions, Replicate as _, SessionChange};
use workrail_ports::file_system::{Created, DirEntry, FileStat, FileSystem, FsError, LockMode, RelPath};
use workrail_ports::session_store::SessionReader as _;
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::SimFs;
use workrail_testkit::fixed::SeededEntropy;

use crate::STEPS;
use crate::support::{open, path, session_of, within, write_session};

type SimFile = <SimFs as FileSystem>::File;
type SimLock = <SimFs as FileSystem>::Lock;

/// A disk on which a folder is deleted at the moment when a file in it is read.
#[derive(Clone)]
struct Vanishing {
    inner: SimFs,
    doomed: Arc<Mutex<Option<Doomed>>>,
}

struct Doomed {
    folder: RelPath,
    file: RelPath,
    reads_left: u32,
}

impl Vanishing {
    fn new(inner: SimFs) -> Self {
        Self { inner, doomed: Arc::default() }
    }

    fn note_read(&self, path: &RelPath) {
        let mut doomed = self.doomed.lock().expect("no test panics while it holds it");
        let Some(next) = doomed.as_mut().filter(|doomed| doomed.file == *path) else { return };
        next.reads_left -= 1;
        if next.reads_left == 0 {
            self.inner.remove_raw(&next.folder);
            *doomed = None;
        }
    }
}

impl FileSystem for Vanishing {
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
        self.note_read(path);
        self.inner.read(path, offset, max)
    }

    fn list(&self, path: &RelPath) -> Result<Vec<DirEntry>, FsError> {
        self.inner.list(path)
    }

    fn stat(&self, path: &RelPath) -> Result<FileStat, FsError> {
        self.inner.stat(path)
    }

    fn lock(&self, path: &RelPath, mode: LockMode, wait_max: Duration) -> Result<Option<SimLock>, FsError> {
        self.inner.lock(path, mode, wait_max)
    }

    fn remove_dir(&self, path: &RelPath) -> Result<(), FsError> {
        self.inner.remove_dir(path)
    }
}

/// Broke: the backup reported a loss and failed.
#[test]
fn a_session_that_is_deleted_during_a_backup_is_not_a_loss() {
    let mut found_in_the_middle = 0;
    for reads_left in 1..=4 {
        let disk = Vanishing::new(SimFs::new());
        let store: LocalStore<Vanishing> = open(disk.clone());
        let ids = [1, 2].map(|seed| session_of(&write_session(&store, seed, &STEPS)));
        let segment = disk.list(&within(ids[0], "events")).unwrap().remove(0).name;
        *disk.doomed.lock().unwrap() = Some(Doomed {
            folder: path(&format!("sessions/{}", ids[0])),
            file: within(ids[0], &format!("events/{segment}")),
            reads_left,
        });
        let backup = LocalStore::read_only(
            Vanishing::new(SimFs::new()),
            Box::new(SeededEntropy::new(9)),
            "boot-1".to_owned(),
        );
        let options = BackupOptions { with_keys: false, check_all: false };
        let report = store.back_up_to(&backup, options, &mut |_, _| {}).unwrap();
        assert_eq!(report.unusable, [], "{reads_left}");
        let copied: Vec<_> = report.sessions.iter().map(|copy| (copy.session, copy.change.clone())).collect();
        assert!(copied.contains(&(ids[1], SessionChange::Added)), "{reads_left}: {copied:?}");
        let is_gone = disk.doomed.lock().unwrap().is_none();
        found_in_the_middle += u32::from(is_gone && !backup.sessions().unwrap().contains(&ids[0]));
    }
    assert!(found_in_the_middle > 0, "it was deleted while it was read");
}
