//! Opens the data directory: for reading, where it may be missing, or for writing, where it is created durably.

use std::os::fd::OwnedFd;

use camino::Utf8Path;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use workrail_ports::file_system::{FsError, FsErrorKind, FsOp, RelPath};

use super::{DIR_MODE, errno, file};

pub(super) fn open_or_create(root: &Utf8Path) -> Result<OwnedFd, FsError> {
    let missing = missing_dirs(root)?;
    // The deepest existing directory may come from a process that died before its sync.
    let deepest = missing.last().map_or(Some(root), |dir| parent(dir));
    let fresh = !missing.is_empty() || is_empty(root)?;
    if let Some(holder) = deepest.filter(|_| fresh).and_then(parent) {
        settle_inherited(holder)?;
    }
    for dir in missing.into_iter().rev() {
        create(dir)?;
    }
    open(root, FsOp::Stat)
}

/// The data directory if it exists; nothing is created.
pub(super) fn open_existing(root: &Utf8Path) -> Result<Option<OwnedFd>, FsError> {
    match open(root, FsOp::Stat) {
        Ok(root) => Ok(Some(root)),
        Err(error) if error.kind == FsErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The directories that do not exist, from the data directory upwards.
fn missing_dirs(root: &Utf8Path) -> Result<Vec<&Utf8Path>, FsError> {
    let mut missing = Vec::new();
    let mut next = Some(root);
    while let Some(dir) = next {
        match retry_on_intr(|| rustix::fs::stat(dir.as_std_path())) {
            Ok(_) => break,
            Err(Errno::NOENT) => missing.push(dir),
            Err(errno) => return Err(error(FsOp::Stat, dir, errno)),
        }
        next = parent(dir);
    }
    Ok(missing)
}

#[expect(clippy::disallowed_methods, reason = "this is the adapter that the ban exists for")]
fn create(dir: &Utf8Path) -> Result<(), FsError> {
    match retry_on_intr(|| rustix::fs::mkdir(dir.as_std_path(), DIR_MODE)) {
        // Another process may be creating the same data directory, which is just as good.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(error(FsOp::CreateDir, dir, errno)),
    }
    match parent(dir) {
        Some(holder) => sync(holder),
        None => Ok(()),
    }
}

/// Syncs a directory that we may not be allowed to open; in that case we did not write to it.
fn settle_inherited(dir: &Utf8Path) -> Result<(), FsError> {
    match sync(dir) {
        Err(error) if matches!(error.kind, FsErrorKind::PermissionDenied | FsErrorKind::ReadOnly) => Ok(()),
        other => other,
    }
}

fn sync(dir: &Utf8Path) -> Result<(), FsError> {
    let handle = open(dir, FsOp::SyncDir)?;
    file::sync(&handle.into(), FsOp::SyncDir, &RelPath::root()).map_err(|error| at(error, dir))
}

/// True for an existing directory without entries: its setup cannot have finished.
fn is_empty(root: &Utf8Path) -> Result<bool, FsError> {
    let handle = open(root, FsOp::List)?;
    let entries = Dir::read_from(&handle).map_err(|errno| error(FsOp::List, root, errno))?;
    for entry in entries {
        let entry = entry.map_err(|errno| error(FsOp::List, root, errno))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

#[expect(clippy::disallowed_methods, reason = "this is the adapter that the ban exists for")]
fn open(dir: &Utf8Path, op: FsOp) -> Result<OwnedFd, FsError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::open(dir.as_std_path(), flags, Mode::empty()))
        .map_err(|errno| error(op, dir, errno))
}

/// The directory that contains `dir`; for a bare name, the working directory.
fn parent(dir: &Utf8Path) -> Option<&Utf8Path> {
    let here = Utf8Path::new(".");
    dir.parent().filter(|_| dir != here).map(|up| if up.as_str().is_empty() { here } else { up })
}

fn error(op: FsOp, dir: &Utf8Path, errno: Errno) -> FsError {
    at(errno::error(op, &RelPath::root(), errno), dir)
}

/// These paths are outside the data directory, so only the detail can name them.
fn at(error: FsError, dir: &Utf8Path) -> FsError {
    let detail = format!("{} (data directory path `{dir}`)", error.detail);
    FsError { detail, ..error }
}
