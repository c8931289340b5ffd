//! Resolves paths beneath an open directory, never through a link: by the kernel in one call where it can
//! (Linux 5.6 and later), one component at a time elsewhere.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;
use workrail_ports::file_system::{FileKind, FileStamp, FileStat, FsError, FsOp, RelPath};

use super::{FILE_MODE, errno};

const DIR_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

// NONBLOCK: opening a FIFO would otherwise wait for its other end. It changes nothing for the
// regular files that pass the check after the open.
const FILE_FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Mode bits that give access to anyone but the owner.
const OTHERS: Mode = Mode::RWXG.union(Mode::RWXO);

/// Opens the directory at `path`; a link or a file on the way is `WrongKind`.
pub(super) fn open_dir(root: &OwnedFd, op: FsOp, path: &RelPath) -> Result<OwnedFd, FsError> {
    descend(root, path).map_err(|errno| errno::error(op, path, errno))
}

/// Opens the directory that contains `path`, and returns it with the last component.
pub(super) fn open_parent<'p>(
    root: &OwnedFd,
    op: FsOp,
    path: &'p RelPath,
) -> Result<(OwnedFd, &'p str), FsError> {
    // The data directory itself can be listed, inspected and synced, but not created or replaced.
    let parent = path.parent().ok_or_else(|| errno::wrong_kind(op, path))?;
    // The error names the requested path, not the directory on the way.
    let dir = descend(root, &parent).map_err(|errno| errno::error(op, path, errno))?;
    Ok((dir, path.file_name()))
}

fn descend(root: &OwnedFd, path: &RelPath) -> Result<OwnedFd, Errno> {
    let whole = if path.as_str().is_empty() { "." } else { path.as_str() };
    if let Some(found) = kernel::open_beneath(root, whole, DIR_FLAGS) {
        return found;
    }
    let mut dir = open_dir_in(root, ".")?;
    for name in path.components() {
        dir = open_dir_in(&dir, name)?;
    }
    Ok(dir)
}

#[expect(clippy::disallowed_methods, reason = "this is the adapter that the ban exists for")]
pub(super) fn open_dir_in(dir: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| rustix::fs::openat(dir, name, DIR_FLAGS, Mode::empty()))
}

/// Opens a regular file by its whole path; anything else is `WrongKind`.
pub(super) fn open_file(root: &OwnedFd, flags: OFlags, op: FsOp, path: &RelPath) -> Result<File, FsError> {
    // The data directory itself is not a file.
    if path.parent().is_none() {
        return Err(errno::wrong_kind(op, path));
    }
    let Some(opened) = kernel::open_beneath(root, path.as_str(), flags | FILE_FLAGS) else {
        let (dir, name) = open_parent(root, op, path)?;
        return open_regular(&dir, name, flags, op, path);
    };
    regular(opened.map_err(|errno| errno::error(op, path, errno))?, op, path)
}

/// Opens a regular file by its last component; anything else is `WrongKind`.
#[expect(clippy::disallowed_methods, reason = "this is the adapter that the ban exists for")]
pub(super) fn open_regular(
    dir: &OwnedFd,
    name: &str,
    flags: OFlags,
    op: FsOp,
    path: &RelPath,
) -> Result<File, FsError> {
    let file = retry_on_intr(|| rustix::fs::openat(dir, name, flags | FILE_FLAGS, FILE_MODE))
        .map_err(|errno| errno::error(op, path, errno))?;
    regular(file, op, path)
}

fn regular(file: OwnedFd, op: FsOp, path: &RelPath) -> Result<File, FsError> {
    match stat_of(&file, op, path)?.kind {
        FileKind::Regular => Ok(File::from(file)),
        FileKind::Directory | FileKind::Other => Err(errno::wrong_kind(op, path)),
    }
}

/// Path resolution by the kernel: one call instead of two per component, which were a third of an advance's system
/// calls.
#[cfg(target_os = "linux")]
mod kernel {
    use std::os::fd::OwnedFd;
    use std::sync::OnceLock;

    use rustix::fs::{Mode, OFlags, ResolveFlags};
    use rustix::io::{Errno, retry_on_intr};

    use super::super::FILE_MODE;

    const RESOLVE: ResolveFlags =
        ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

    /// `None` if the kernel, or a filter around the process, does not support the call.
    pub(super) fn open_beneath(root: &OwnedFd, path: &str, flags: OFlags) -> Option<Result<OwnedFd, Errno>> {
        static KNOWN: OnceLock<bool> = OnceLock::new();
        let mode = if flags.contains(OFlags::CREATE) { FILE_MODE } else { Mode::empty() };
        let probe = || open(root, ".", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).is_ok();
        KNOWN.get_or_init(probe).then(|| open(root, path, flags, mode))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the adapter that the ban exists for")]
    fn open(root: &OwnedFd, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        retry_on_intr(|| rustix::fs::openat2(root, path, flags, mode, RESOLVE))
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::os::fd::OwnedFd;

    use rustix::fs::OFlags;
    use rustix::io::Errno;

    pub(super) fn open_beneath(_: &OwnedFd, _: &str, _: OFlags) -> Option<Result<OwnedFd, Errno>> {
        None
    }
}

/// What an open descriptor refers to.
pub(super) fn stat_of(file: &impl AsFd, op: FsOp, path: &RelPath) -> Result<FileStat, FsError> {
    let raw = rustix::fs::fstat(file).map_err(|errno| errno::error(op, path, errno))?;
    Ok(file_stat(&raw))
}

/// What a name in an open directory refers to; links are not followed.
pub(super) fn stat_in(
    dir: &OwnedFd,
    name: impl Arg + Copy,
    op: FsOp,
    path: &RelPath,
) -> Result<FileStat, FsError> {
    let raw = raw_stat_in(dir, name).map_err(|errno| errno::error(op, path, errno))?;
    Ok(file_stat(&raw))
}

/// True when `name` still refers to the open `file`.
pub(super) fn is_still_named(file: &File, dir: &OwnedFd, name: &str) -> Result<bool, Errno> {
    let held = rustix::fs::fstat(file)?;
    match raw_stat_in(dir, name) {
        Ok(named) => Ok(named.st_ino == held.st_ino && named.st_dev == held.st_dev),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The kind of a directory entry; `None` when the file system did not say.
pub(super) fn kind_of(kind: FileType) -> Option<FileKind> {
    match kind {
        FileType::RegularFile => Some(FileKind::Regular),
        FileType::Directory => Some(FileKind::Directory),
        FileType::Unknown => None,
        FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice => Some(FileKind::Other),
    }
}

fn raw_stat_in(dir: &OwnedFd, name: impl Arg + Copy) -> Result<Stat, Errno> {
    retry_on_intr(|| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW))
}

fn file_stat(raw: &Stat) -> FileStat {
    FileStat {
        kind: kind_of(FileType::from_raw_mode(raw.st_mode)).unwrap_or(FileKind::Other),
        // The kernel never reports a negative size.
        len: u64::try_from(raw.st_size).unwrap_or(0),
        others_may_access: Mode::from_raw_mode(raw.st_mode).intersects(OTHERS),
        stamp: FileStamp { file: raw.st_ino, changed_ns: changed_ns(raw) },
        is_foreign: raw.st_uid != own_user(),
    }
}

/// Asked only once: a process does not change its user, and a list checks every session.
fn own_user() -> u32 {
    static OWN: OnceLock<u32> = OnceLock::new();
    *OWN.get_or_init(|| rustix::process::geteuid().as_raw())
}

/// The change time, which no program can set: a tool that restores modification times cannot hide its work.
fn changed_ns(raw: &Stat) -> i64 {
    let nanoseconds = i64::try_from(raw.st_ctime_nsec).unwrap_or_default();
    raw.st_ctime.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds)
}
