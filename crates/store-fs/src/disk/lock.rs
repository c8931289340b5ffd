//! Advisory locks on the real disk: polled rather than waited for in the kernel, so that the wait is bounded.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use workrail_ports::file_system::{FsError, FsErrorKind, FsOp, LockMode, RelPath};

use super::{errno, walk};

const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Longer than any pause between two tries, so that every waiting process tries at least once.
pub(super) const GIVE_WAY: Duration = Duration::from_millis(40);

/// How often a lock file may vanish within one try before that try fails.
const STALE_MAX: u32 = 8;

/// A held lock; released when dropped, or by the kernel when the process dies.
#[derive(Debug)]
pub struct DiskLock {
    file: File,
}

impl Drop for DiskLock {
    fn drop(&mut self) {
        // Closing alone is not enough: a child between fork and exec still shares the description.
        // Errors are ignored, because the close that follows also releases the lock.
        let _ = self.file.unlock();
    }
}

/// Takes the lock on the file that `flags` open, trying again with short pauses until `wait_max` has passed.
pub(super) fn acquire(
    root: &OwnedFd,
    path: &RelPath,
    flags: OFlags,
    mode: LockMode,
    wait_max: Duration,
) -> Result<Option<DiskLock>, FsError> {
    let start = Instant::now();
    let mut pause = PAUSE_MIN;
    loop {
        if let Some(lock) = try_acquire(root, path, flags, mode)? {
            return Ok(Some(lock));
        }
        let left = wait_max.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn try_acquire(
    root: &OwnedFd,
    path: &RelPath,
    flags: OFlags,
    mode: LockMode,
) -> Result<Option<DiskLock>, FsError> {
    for _ in 0..STALE_MAX {
        let (dir, name) = walk::open_parent(root, FsOp::Lock, path)?;
        let file = walk::open_regular(&dir, name, flags, FsOp::Lock, path)?;
        match attempt(file, root, path, mode)? {
            LockAttempt::Held(lock) => return Ok(Some(lock)),
            LockAttempt::Busy => return Ok(None),
            LockAttempt::Stale => {}
        }
    }
    Ok(None)
}

#[derive(Debug)]
pub(super) enum LockAttempt {
    Held(DiskLock),
    Busy,
    /// Another process removed the file, or moved its folder away, between our open and our lock; such a lock
    /// excludes no one, because the next process locks a new file.
    Stale,
}

pub(super) fn attempt(
    file: File,
    root: &OwnedFd,
    path: &RelPath,
    mode: LockMode,
) -> Result<LockAttempt, FsError> {
    if !try_lock(&file, mode, path)? {
        return Ok(LockAttempt::Busy);
    }
    let lock = DiskLock { file };
    // Resolved from the root again: the folder in which the file was opened may have been renamed since.
    let (dir, name) = match walk::open_parent(root, FsOp::Lock, path) {
        Err(error) if error.kind == FsErrorKind::NotFound => return Ok(LockAttempt::Stale),
        opened => opened?,
    };
    match walk::is_still_named(&lock.file, &dir, name) {
        Ok(true) => Ok(LockAttempt::Held(lock)),
        Ok(false) => Ok(LockAttempt::Stale),
        Err(errno) => Err(errno::error(FsOp::Lock, path, errno)),
    }
}

fn try_lock(file: &File, mode: LockMode, path: &RelPath) -> Result<bool, FsError> {
    loop {
        let tried = match mode {
            LockMode::Shared => file.try_lock_shared(),
            LockMode::Exclusive => file.try_lock(),
        };
        match tried {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(source)) if source.kind() == ErrorKind::Interrupted => {}
            Err(TryLockError::Error(source)) => return Err(errno::io_error(FsOp::Lock, path, &source)),
        }
    }
}
