//! Wraps any file system and asserts the store's write order while it happens (G10-G14).
//!
//! R1: no manifest write while a segment of that session is not durable with its name.
//! R2: no manifest write while a CAS file or pinned workflow is not durable with its name.
//! R3: nothing is renamed into place without a sync after its last write.
//! R4: at an acknowledgement, no manifest write and no name of the store is left unsynced.
//! R5: a sync that failed is never repeated on the same handle.
//!
//! R2 and R4 consider only the calling thread: an append runs on one thread from its first write to its last sync,
//! and other threads must finish their own work. The monitor touches no file.
//!
//! It also counts the syncs. Its own tests are in `store-fs`, where the simulated disk is.

mod layout;
mod ledger;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use workrail_ports::file_system::{
    Created, DirEntry, FileStat, FileSystem, FsError, LockMode, RelPath, WritableFile,
};

use self::ledger::{FileId, WriteLedger};

/// A monitored file system; clones share one ledger.
#[derive(Clone)]
pub struct Monitored<F> {
    inner: F,
    watch: MonitorState,
}

impl<F: fmt::Debug> fmt::Debug for Monitored<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitored").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<F: FileSystem> Monitored<F> {
    /// Records violations, which `violations` returns.
    pub fn new(inner: F) -> Self {
        Self::with(inner, Reaction::Record)
    }

    /// Records violations and panics at the first one, before the file system is called.
    pub fn strict(inner: F) -> Self {
        Self::with(inner, Reaction::Panic)
    }

    fn with(inner: F, reaction: Reaction) -> Self {
        Self { inner, watch: MonitorState { ledger: Arc::default(), syncs: Arc::default(), reaction } }
    }

    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// The violations so far, in order, each as `Rn: what`.
    pub fn violations(&self) -> Vec<String> {
        self.watch.ledger().violations().to_vec()
    }

    /// How many syncs of files and directories all clones requested.
    pub fn syncs(&self) -> u64 {
        self.watch.syncs.load(Ordering::Relaxed)
    }

    /// R4: what `about_to_acknowledge` checks, for tests that acknowledge on their own.
    pub fn assert_quiescent(&self) {
        self.watch.check(WriteLedger::check_quiescent);
    }

    /// To be called when an operation of this thread failed: what it left unsynced was never acknowledged, so R2 and
    /// R4 no longer require it.
    pub fn forget_unacknowledged(&self) {
        self.watch.ledger().forget_unacknowledged();
    }
}

impl<F: FileSystem> FileSystem for Monitored<F> {
    type File = MonitoredFile<F::File>;
    type Lock = F::Lock;

    fn create_dir(&self, path: &RelPath) -> Result<Created, FsError> {
        let created = self.inner.create_dir(path)?;
        match created {
            Created::New => self.watch.ledger().name_changed(path),
            Created::Existed => {}
        }
        Ok(created)
    }

    fn create_file(&self, path: &RelPath) -> Result<Self::File, FsError> {
        let file = self.inner.create_file(path)?;
        let id = self.watch.ledger().created(path);
        Ok(MonitoredFile::new(file, id, &self.watch))
    }

    fn open_append(&self, path: &RelPath) -> Result<Self::File, FsError> {
        let file = self.inner.open_append(path)?;
        let id = self.watch.ledger().opened(path);
        Ok(MonitoredFile::new(file, id, &self.watch))
    }

    fn rename(&self, from: &RelPath, to: &RelPath) -> Result<(), FsError> {
        self.watch.check(|ledger| ledger.check_rename(from, to));
        self.inner.rename(from, to)?;
        self.watch.ledger().renamed(from, to);
        Ok(())
    }

    fn remove_file(&self, path: &RelPath) -> Result<(), FsError> {
        self.inner.remove_file(path)?;
        self.watch.ledger().removed(path);
        Ok(())
    }

    fn sync_dir(&self, path: &RelPath) -> Result<(), FsError> {
        self.watch.syncs.fetch_add(1, Ordering::Relaxed);
        self.inner.sync_dir(path)?;
        self.watch.ledger().dir_synced(path);
        Ok(())
    }

    fn read(&self, path: &RelPath, offset: u64, max: u64) -> Result<Vec<u8>, FsError> {
        self.inner.read(path, offset, max)
    }

    fn read_part(&self, path: &RelPath, offset: u64, max: usize) -> Result<Vec<u8>, FsError> {
        self.inner.read_part(path, offset, max)
    }

    fn list(&self, path: &RelPath) -> Result<Vec<DirEntry>, FsError> {
        self.inner.list(path)
    }

    fn stat(&self, path: &RelPath) -> Result<FileStat, FsError> {
        self.inner.stat(path)
    }

    fn lock(&self, path: &RelPath, mode: LockMode, wait_max: Duration) -> Result<Option<F::Lock>, FsError> {
        self.inner.lock(path, mode, wait_max)
    }

    fn remove_dir(&self, path: &RelPath) -> Result<(), FsError> {
        self.inner.remove_dir(path)?;
        self.watch.ledger().removed(path);
        Ok(())
    }

    fn about_to_acknowledge(&self) {
        self.assert_quiescent();
        self.inner.about_to_acknowledge();
    }

    fn give_way(&self) {
        self.inner.give_way();
    }
}

/// A monitored open file.
#[derive(Debug)]
pub struct MonitoredFile<W> {
    inner: W,
    id: FileId,
    handle: Handle,
    watch: MonitorState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handle {
    Sound,
    /// A sync failed: the kernel may have dropped what this handle wrote.
    Poisoned,
}

impl<W> MonitoredFile<W> {
    fn new(inner: W, id: FileId, watch: &MonitorState) -> Self {
        Self { inner, id, handle: Handle::Sound, watch: watch.clone() }
    }
}

impl<W: WritableFile> WritableFile for MonitoredFile<W> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), FsError> {
        self.watch.check(|ledger| ledger.check_append(self.id));
        // Also on failure: part of the bytes may be in the file.
        self.watch.ledger().written(self.id);
        self.inner.append(bytes)
    }

    fn set_len(&mut self, len: u64) -> Result<(), FsError> {
        self.watch.ledger().written(self.id);
        self.inner.set_len(len)
    }

    fn sync(&mut self) -> Result<(), FsError> {
        if self.handle == Handle::Poisoned {
            self.watch.check(|ledger| ledger.report_resync(self.id));
        }
        let mark = self.watch.ledger().sync_mark(self.id);
        self.watch.syncs.fetch_add(1, Ordering::Relaxed);
        let outcome = self.inner.sync();
        match &outcome {
            // A sync on a poisoned handle proves nothing, so the file stays unsynced.
            Ok(()) if self.handle == Handle::Sound => self.watch.ledger().synced(self.id, mark),
            Ok(()) => {}
            Err(_) => {
                self.handle = Handle::Poisoned;
                self.watch.ledger().sync_failed(self.id);
            }
        }
        outcome
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    Record,
    Panic,
}

#[derive(Clone, Debug)]
struct MonitorState {
    ledger: Arc<Mutex<WriteLedger>>,
    syncs: Arc<AtomicU64>,
    reaction: Reaction,
}

impl MonitorState {
    fn ledger(&self) -> MutexGuard<'_, WriteLedger> {
        // A strict monitor panics in tests; its ledger is still consistent, because no check is half done.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, check: impl FnOnce(&mut WriteLedger)) {
        let mut ledger = self.ledger();
        let before = ledger.violations().len();
        check(&mut ledger);
        let found = ledger.violations()[before..].join("; ");
        drop(ledger);
        if self.reaction == Reaction::Panic && !found.is_empty() {
            panic!("write order violated: {found}");
        }
    }
}
