//! A file system that counts fsyncs, of files and of directories.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use workrail_ports::file_system::{
    Created, DirEntry, FileStat, FileSystem, FsError, LockMode, RelPath, WritableFile,
};

/// Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Counted<F> {
    inner: F,
    syncs: Arc<AtomicU64>,
}

impl<F> Counted<F> {
    pub(crate) fn new(inner: F) -> Self {
        Self { inner, syncs: Arc::default() }
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct CountedFile<W> {
    inner: W,
    syncs: Arc<AtomicU64>,
}

impl<W: WritableFile> WritableFile for CountedFile<W> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), FsError> {
        self.inner.append(bytes)
    }

    fn set_len(&mut self, len: u64) -> Result<(), FsError> {
        self.inner.set_len(len)
    }

    fn sync(&mut self) -> Result<(), FsError> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.inner.sync()
    }
}

impl<F: FileSystem> FileSystem for Counted<F> {
    type File = CountedFile<F::File>;
    type Lock = F::Lock;

    fn create_dir(&self, path: &RelPath) -> Result<Created, FsError> {
        self.inner.create_dir(path)
    }

    fn create_file(&self, path: &RelPath) -> Result<Self::File, FsError> {
        Ok(CountedFile { inner: self.inner.create_file(path)?, syncs: self.syncs.clone() })
    }

    fn open_append(&self, path: &RelPath) -> Result<Self::File, FsError> {
        Ok(CountedFile { inner: self.inner.open_append(path)?, syncs: self.syncs.clone() })
    }

    fn rename(&self, from: &RelPath, to: &RelPath) -> Result<(), FsError> {
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &RelPath) -> Result<(), FsError> {
        self.inner.remove_file(path)
    }

    fn sync_dir(&self, path: &RelPath) -> Result<(), FsError> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.inner.sync_dir(path)
    }

    fn read(&self, path: &RelPath, offset: u64, max: u64) -> Result<Vec<u8>, FsError> {
        self.inner.read(path, offset, max)
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
        self.inner.remove_dir(path)
    }

    fn about_to_acknowledge(&self) {
        self.inner.about_to_acknowledge();
    }
}
