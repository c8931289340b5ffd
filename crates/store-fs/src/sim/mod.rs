//! A simulated disk that may lose anything not yet durable, at any moment (proof of G10-G14).
//!
//! Model: inode data and names are separate. Syncing a file makes its data durable but not its name; syncing a
//! directory makes its entries durable; a rename is one name operation that happens
//! whole or not at all, durable once every directory it touches was synced. A crash keeps any subset
//! of the pending name operations, and of each pending write any prefix or a zero-filled part.
//! Deliberately absent: wall clock, threads and randomness; everything follows from calls and seeds.

mod choice;
mod content;
mod crash;
mod fault;
mod image;
mod names;
mod raw;
mod rng;
mod shared_bytes;
mod state;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use workrail_ports::file_system::{
    Created, DirEntry, FileStat, FileSystem, FsError, FsErrorKind, FsOp, LockMode, RelPath, WritableFile,
};

use self::fault::{FaultEffect, failure};
use self::names::Ino;
use self::state::SimState;

pub use self::choice::{CrashChoice, CrashLimits, Fate};
pub use self::fault::{Fault, FaultKind, FaultMode};

/// A simulated disk; clones are handles to the same one.
#[derive(Clone)]
pub struct SimFs {
    inner: Arc<Mutex<SimState>>,
}

impl Default for SimFs {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SimFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFs").field("files", &self.all_files()).finish_non_exhaustive()
    }
}

impl SimFs {
    /// An empty, durable disk.
    pub fn new() -> Self {
        Self::from_state(SimState::new())
    }

    fn from_state(state: SimState) -> Self {
        Self { inner: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, SimState> {
        // A test that panicked while holding the disk leaves it consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A deep copy of the current state: what is seen, what is durable, what is pending, counters and fault. Locks
    /// are not copied, because their holders stay with the original.
    pub fn fork(&self) -> Self {
        Self::from_state(self.state().without_locks())
    }

    /// Mutating operations attempted so far.
    pub fn op_count(&self) -> u64 {
        self.state().meter.mutating
    }

    /// Operations attempted so far that change nothing: read, list, stat, lock, open.
    pub fn read_op_count(&self) -> u64 {
        let state = self.state();
        state.meter.all - state.meter.mutating
    }

    /// All operations attempted so far; the index that `Fault::at_op` refers to.
    pub fn all_op_count(&self) -> u64 {
        self.state().meter.all
    }

    /// The mutating operations attempted so far; a rename is listed with its target.
    pub fn trace(&self) -> Vec<(FsOp, RelPath)> {
        self.state().meter.trace.as_ref().clone()
    }

    /// Arms a fault, replacing any other.
    pub fn set_fault(&self, fault: Fault) {
        self.state().meter.arm(fault);
    }

    /// Disarms the fault and restores power, with everything that was seen still there: what the next process finds
    /// after the last one was killed.
    pub fn clear_fault(&self) {
        self.state().meter.disarm();
    }

    /// How many operations the armed fault has changed so far.
    pub fn fault_hits(&self) -> u64 {
        self.state().meter.hits
    }

    /// Runs one operation, subject to the counters and the fault.
    fn run<T>(
        &self,
        op: FsOp,
        path: &RelPath,
        act: impl FnOnce(&mut SimState, FaultEffect) -> Result<T, FsErrorKind>,
    ) -> Result<T, FsError> {
        let mut state = self.state();
        let twist = state.meter.enter(op, path).map_err(|kind| failure(op, path, kind))?;
        let outcome = act(&mut state, twist);
        match twist {
            // The operation may have begun, but the caller never gets a success.
            FaultEffect::PowerCut => Err(failure(op, path, FsErrorKind::Io)),
            FaultEffect::None | FaultEffect::Short | FaultEffect::Lie => {
                outcome.map_err(|kind| failure(op, path, kind))
            }
        }
    }
}

impl FileSystem for SimFs {
    type File = SimFile;
    type Lock = SimLock;

    fn create_dir(&self, path: &RelPath) -> Result<Created, FsError> {
        self.run(FsOp::CreateDir, path, |state, _| state.create_dir(path))
    }

    fn create_file(&self, path: &RelPath) -> Result<SimFile, FsError> {
        let ino = self.run(FsOp::CreateFile, path, |state, _| state.create_file(path))?;
        Ok(SimFile { fs: self.clone(), ino, path: path.clone() })
    }

    fn open_append(&self, path: &RelPath) -> Result<SimFile, FsError> {
        let ino = self.run(FsOp::OpenAppend, path, |state, _| state.regular(path))?;
        Ok(SimFile { fs: self.clone(), ino, path: path.clone() })
    }

    fn rename(&self, from: &RelPath, to: &RelPath) -> Result<(), FsError> {
        self.run(FsOp::Rename, to, |state, _| state.rename(from, to))
    }

    fn remove_file(&self, path: &RelPath) -> Result<(), FsError> {
        self.run(FsOp::Remove, path, |state, _| state.remove_file(path))
    }

    fn sync_dir(&self, path: &RelPath) -> Result<(), FsError> {
        let dir = self.run(FsOp::OpenDir, path, |state, _| state.directory(path))?;
        self.run(FsOp::SyncDir, path, |state, twist| match twist {
            FaultEffect::None | FaultEffect::Short => {
                state.sync_names(dir);
                Ok(())
            }
            FaultEffect::Lie => {
                state.lose_names(dir);
                Err(FsErrorKind::Io)
            }
            FaultEffect::PowerCut => Err(FsErrorKind::Io),
        })
    }

    fn read(&self, path: &RelPath, offset: u64, max: u64) -> Result<Vec<u8>, FsError> {
        self.run(FsOp::Read, path, |state, _| state.read(path, offset, max))
    }

    fn read_part(&self, path: &RelPath, offset: u64, max: usize) -> Result<Vec<u8>, FsError> {
        self.run(FsOp::Read, path, |state, _| state.read_part(path, offset, max))
    }

    fn list(&self, path: &RelPath) -> Result<Vec<DirEntry>, FsError> {
        self.run(FsOp::List, path, |state, _| state.list(path))
    }

    fn stat(&self, path: &RelPath) -> Result<FileStat, FsError> {
        self.run(FsOp::Stat, path, |state, _| state.stat(path))
    }

    /// Tried once: simulated time does not pass, so waiting would change nothing.
    fn lock(&self, path: &RelPath, mode: LockMode, _wait_max: Duration) -> Result<Option<SimLock>, FsError> {
        let granted = self.run(FsOp::Lock, path, |state, twist| {
            let ino = state.open_or_create(path)?;
            let granted = twist != FaultEffect::PowerCut && state.grant(ino, mode);
            Ok(granted.then_some(ino))
        })?;
        Ok(granted.map(|ino| SimLock { fs: self.clone(), ino, mode }))
    }

    fn remove_dir(&self, path: &RelPath) -> Result<(), FsError> {
        self.run(FsOp::Remove, path, |state, _| state.remove_dir(path))
    }
}

/// An open file of a simulated disk.
#[derive(Debug)]
pub struct SimFile {
    fs: SimFs,
    ino: Ino,
    path: RelPath,
}

impl WritableFile for SimFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), FsError> {
        self.fs.run(FsOp::Write, &self.path, |state, twist| {
            let file = state.open_file(self.ino);
            match twist {
                FaultEffect::None | FaultEffect::Lie | FaultEffect::PowerCut => {
                    file.append(bytes);
                    Ok(())
                }
                FaultEffect::Short => {
                    file.append(&bytes[..bytes.len() / 2]);
                    Err(FsErrorKind::NoSpace)
                }
            }
        })
    }

    fn set_len(&mut self, len: u64) -> Result<(), FsError> {
        self.fs.run(FsOp::SetLen, &self.path, |state, _| {
            state.open_file(self.ino).set_len(len);
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<(), FsError> {
        self.fs.run(FsOp::SyncFile, &self.path, |state, twist| {
            let file = state.open_file(self.ino);
            match twist {
                FaultEffect::None | FaultEffect::Short => {
                    file.sync();
                    Ok(())
                }
                FaultEffect::Lie => {
                    file.lose_pending();
                    Err(FsErrorKind::Io)
                }
                FaultEffect::PowerCut => Err(FsErrorKind::Io),
            }
        })
    }
}

/// A held lock of a simulated disk; released when dropped.
#[derive(Debug)]
pub struct SimLock {
    fs: SimFs,
    ino: Ino,
    mode: LockMode,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.fs.state().release(self.ino, self.mode);
    }
}
