//! The real disk: every path is resolved component by component beneath one open directory.
//!
//! Invariant: no symbolic link is ever followed beneath the data directory, and nothing but regular
//! files and directories is ever opened for use (a link, FIFO or device gives `WrongKind`, G22). The data
//! directory's own path is the user's choice and may itself lead through links.

mod errno;
mod file;
mod lock;
mod root;
mod walk;

#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8Path;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use workrail_ports::file_system::{
    Created, DirEntry, FileKind, FileStat, FileSystem, FsError, FsErrorKind, FsOp, LockMode, RelPath,
    StatEntry,
};

pub use self::file::DiskFile;
pub use self::lock::DiskLock;

const DIR_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The data directory on a real disk; clones share one open descriptor.
#[derive(Clone, Debug)]
pub struct Disk {
    /// `None` if there is no data directory, which reads as an empty one.
    root: Option<Arc<OwnedFd>>,
    access: Access,
}

/// What a disk was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Write,
    /// Nothing is created, changed or removed, not even a lock file.
    Look,
}

impl Disk {
    /// Opens the data directory, creating it (0700) and its missing parents durably.
    pub fn open(root: &Utf8Path) -> Result<Self, FsError> {
        Ok(Self { root: Some(Arc::new(root::open_or_create(root)?)), access: Access::Write })
    }

    /// Opens the data directory for reading only: a missing folder lists as empty, and every change is refused.
    /// This works on a read-only mount and on a copy that the user may only read (G16).
    pub fn open_read_only(root: &Utf8Path) -> Result<Self, FsError> {
        Ok(Self { root: root::open_existing(root)?.map(Arc::new), access: Access::Look })
    }

    fn root(&self, op: FsOp, path: &RelPath) -> Result<&OwnedFd, FsError> {
        self.root.as_deref().ok_or_else(|| errno::error(op, path, Errno::NOENT))
    }

    /// The root, for operations that change something.
    fn writable(&self, op: FsOp, path: &RelPath) -> Result<&OwnedFd, FsError> {
        match self.access {
            Access::Write => self.root(op, path),
            Access::Look => {
                let detail = "the data directory was opened for reading only".to_owned();
                Err(FsError { op, path: path.clone(), kind: FsErrorKind::ReadOnly, detail })
            }
        }
    }

    /// A directory to list. `None` if a reader finds none: folders are created by the first write, so a missing one
    /// is empty.
    fn listed_dir(&self, path: &RelPath) -> Result<Option<OwnedFd>, FsError> {
        match self.root(FsOp::List, path).and_then(|root| walk::open_dir(root, FsOp::List, path)) {
            Err(error) if error.kind == FsErrorKind::NotFound && self.access == Access::Look => Ok(None),
            opened => opened.map(Some),
        }
    }
}

fn entries_of(dir: &OwnedFd, path: &RelPath) -> Result<Vec<DirEntry>, FsError> {
    let fail = |errno| errno::error(FsOp::List, path, errno);
    let mut entries = Vec::new();
    for entry in Dir::read_from(dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match walk::kind_of(entry.file_type()) {
            Some(kind) => kind,
            // Some file systems do not report an entry's type in the listing.
            None => match walk::stat_in(dir, name, FsOp::List, path) {
                Ok(stat) => stat.kind,
                // Removed since the listing: treated as if it had been removed before.
                Err(error) if error.kind == FsErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            },
        };
        // A hidden name would be worse than an inexact one: what it holds may need what a sweep removes (G25).
        entries.push(DirEntry { name: String::from_utf8_lossy(name.to_bytes()).into_owned(), kind });
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

#[expect(clippy::disallowed_methods, reason = "this is the adapter that the ban exists for")]
impl FileSystem for Disk {
    type File = DiskFile;
    type Lock = DiskLock;

    fn create_dir(&self, path: &RelPath) -> Result<Created, FsError> {
        let op = FsOp::CreateDir;
        if path.parent().is_none() {
            return Ok(Created::Existed);
        }
        let (dir, name) = walk::open_parent(self.writable(op, path)?, op, path)?;
        match retry_on_intr(|| rustix::fs::mkdirat(&dir, name, DIR_MODE)) {
            Ok(()) => Ok(Created::New),
            Err(Errno::EXIST) => {
                // The name may be taken by something that is not a directory.
                walk::open_dir_in(&dir, name).map_err(|errno| errno::error(op, path, errno))?;
                Ok(Created::Existed)
            }
            Err(errno) => Err(errno::error(op, path, errno)),
        }
    }

    fn create_file(&self, path: &RelPath) -> Result<DiskFile, FsError> {
        let op = FsOp::CreateFile;
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let file = walk::open_file(self.writable(op, path)?, flags, op, path)?;
        Ok(DiskFile::new(file, path.clone()))
    }

    fn open_append(&self, path: &RelPath) -> Result<DiskFile, FsError> {
        let op = FsOp::OpenAppend;
        let root = self.writable(op, path)?;
        let file = walk::open_file(root, OFlags::WRONLY | OFlags::APPEND, op, path)?;
        Ok(DiskFile::new(file, path.clone()))
    }

    fn rename(&self, from: &RelPath, to: &RelPath) -> Result<(), FsError> {
        let op = FsOp::Rename;
        let root = self.writable(op, from)?;
        let (from_dir, from_name) = walk::open_parent(root, op, from)?;
        let same = from.parent() == to.parent();
        let other = if same { None } else { Some(walk::open_parent(root, op, to)?.0) };
        let (to_dir, to_name) = (other.as_ref().unwrap_or(&from_dir), to.file_name());
        // A link planted under a temporary's name must not replace a real file.
        if walk::stat_in(&from_dir, from_name, op, from)?.kind == FileKind::Other {
            return Err(errno::wrong_kind(op, from));
        }
        retry_on_intr(|| rustix::fs::renameat(&from_dir, from_name, to_dir, to_name))
            .map_err(|errno| errno::error(op, to, errno))
    }

    fn remove_file(&self, path: &RelPath) -> Result<(), FsError> {
        let op = FsOp::Remove;
        let (dir, name) = walk::open_parent(self.writable(op, path)?, op, path)?;
        retry_on_intr(|| rustix::fs::unlinkat(&dir, name, AtFlags::empty()))
            .map_err(|errno| errno::error(FsOp::Remove, path, errno))
    }

    fn sync_dir(&self, path: &RelPath) -> Result<(), FsError> {
        let op = FsOp::OpenDir;
        let dir = walk::open_dir(self.writable(op, path)?, op, path)?;
        file::sync(&dir.into(), FsOp::SyncDir, path)
    }

    fn read(&self, path: &RelPath, offset: u64, max: u64) -> Result<Vec<u8>, FsError> {
        let root = self.root(FsOp::Read, path)?;
        let file = walk::open_file(root, OFlags::RDONLY, FsOp::Read, path)?;
        file::read_capped(&file, path, offset, max)
    }

    fn read_part(&self, path: &RelPath, offset: u64, max: usize) -> Result<Vec<u8>, FsError> {
        let root = self.root(FsOp::Read, path)?;
        let file = walk::open_file(root, OFlags::RDONLY, FsOp::Read, path)?;
        file::read_part(&file, path, offset, max)
    }

    fn list(&self, path: &RelPath) -> Result<Vec<DirEntry>, FsError> {
        self.listed_dir(path)?.map_or(Ok(Vec::new()), |dir| entries_of(&dir, path))
    }

    /// Uses one open directory for the listing and all stats. An entry replaced by a link in between yields another
    /// file's stamp, which is harmless here: reading refuses the link.
    fn list_with_stat(&self, path: &RelPath, below: Option<&str>) -> Result<Vec<StatEntry>, FsError> {
        let Some(dir) = self.listed_dir(path)? else { return Ok(Vec::new()) };
        let with_stat = |entry: DirEntry| {
            let name = match below {
                None => Some(entry.name.clone()),
                Some(below) if entry.kind == FileKind::Directory => Some(format!("{}/{below}", entry.name)),
                Some(_) => None,
            };
            let stat = name.and_then(|name| walk::stat_in(&dir, name.as_str(), FsOp::Stat, path).ok());
            StatEntry { entry, stat }
        };
        Ok(entries_of(&dir, path)?.into_iter().map(with_stat).collect())
    }

    fn stat(&self, path: &RelPath) -> Result<FileStat, FsError> {
        let root = self.root(FsOp::Stat, path)?;
        if path.parent().is_none() {
            return walk::stat_of(root, FsOp::Stat, path);
        }
        let (dir, name) = walk::open_parent(root, FsOp::Stat, path)?;
        walk::stat_in(&dir, name, FsOp::Stat, path)
    }

    fn glance(&self, path: &RelPath) -> Result<FileStat, FsError> {
        walk::stat_in(self.root(FsOp::Stat, path)?, path.as_str(), FsOp::Stat, path)
    }

    fn lock(&self, path: &RelPath, mode: LockMode, wait_max: Duration) -> Result<Option<DiskLock>, FsError> {
        // A reader may ask which process holds a lock, but leaves no lock file behind.
        let flags = match self.access {
            Access::Write => OFlags::RDWR | OFlags::CREATE,
            Access::Look => OFlags::RDONLY,
        };
        lock::acquire(self.root(FsOp::Lock, path)?, path, flags, mode, wait_max)
    }

    fn remove_dir(&self, path: &RelPath) -> Result<(), FsError> {
        let op = FsOp::Remove;
        let (dir, name) = walk::open_parent(self.writable(op, path)?, op, path)?;
        retry_on_intr(|| rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR))
            .map_err(|errno| errno::error(FsOp::Remove, path, errno))
    }

    fn give_way(&self) {
        std::thread::sleep(lock::GIVE_WAY);
    }
}
