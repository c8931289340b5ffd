//! The sweep: removes unreferenced content, and what interrupted work left behind (G25).
//!
//! Everything reachable is collected once, without any lock. Then, in a bounded number of batches, the store is locked
//! against writers, sessions whose manifest changed meanwhile are read on from their last position, and what is still
//! unreachable is removed. Writers hold the same lock, shared, from their first byte of content to their last fsync, so
//! that nothing they are about to refer to is ever removed.

use std::collections::BTreeSet;
use std::time::Duration;

use workrail_model::digest::Sha256;
use workrail_model::id::SessionId;
use workrail_model::plan::AttachmentKind;
use workrail_ports::file_system::{DirEntry, FileKind, FileSystem, FsError, FsErrorKind, LockMode, RelPath};
use workrail_ports::upkeep::{Sweep, Swept, Tally, UpkeepError};

use crate::layout::{content, content_digest, content_dir, is_temporary};
use crate::reachable::ReachableContent;
use crate::removal::move_to_tombstone;
use crate::store::{LOCK_WAIT, LocalStore};
use crate::{folder_tree, layout, load};

/// Files removed while writers wait: a few milliseconds of work.
const BATCH_FILES_MIN: usize = 256;
/// Every batch checks every session once, so the number of batches is bounded: a large sweep has larger ones.
const BATCHES_MAX: usize = 64;

impl<F: FileSystem> LocalStore<F> {
    pub(crate) fn sweep_content(&self, sweep: Sweep<'_>) -> Result<Swept, UpkeepError> {
        let no_sessions = BTreeSet::new();
        let without = match sweep {
            Sweep::DryRun { without } => without,
            Sweep::Real => &no_sessions,
        };
        let mut reachable = ReachableContent::default();
        reachable.extend(self.fs(), without).map_err(UpkeepError::InDoubt)?;
        let unreachable = self.unreachable(&reachable)?;
        let mut swept = Swept::default();
        match sweep {
            Sweep::DryRun { .. } => {
                for (kind, digest) in unreachable {
                    swept.of(kind).add(self.len_of(&content(kind, digest)));
                }
                self.leftovers(&mut swept)?;
            }
            Sweep::Real => {
                self.sweep_leftovers(&mut reachable, &mut swept)?;
                let files = unreachable.len().div_ceil(BATCHES_MAX).max(BATCH_FILES_MIN);
                for batch in unreachable.chunks(files) {
                    self.fs().give_way();
                    self.sweep_batch(&mut reachable, batch, &mut swept)?;
                }
                for kind in AttachmentKind::ALL {
                    self.fs().sync_dir(&content_dir(kind))?;
                }
            }
        }
        Ok(swept)
    }

    pub(crate) fn exclusive_store_lock(&self) -> Result<F::Lock, UpkeepError> {
        self.fs().lock(&layout::store_lock(), LockMode::Exclusive, LOCK_WAIT)?.ok_or(UpkeepError::Busy)
    }

    /// Locks out writers, and adds everything that they have appended.
    fn lock_out_writers(&self, reachable: &mut ReachableContent) -> Result<F::Lock, UpkeepError> {
        let lock = self.exclusive_store_lock()?;
        reachable.extend(self.fs(), &BTreeSet::new()).map_err(UpkeepError::InDoubt)?;
        Ok(lock)
    }

    fn sweep_batch(
        &self,
        reachable: &mut ReachableContent,
        batch: &[(AttachmentKind, Sha256)],
        swept: &mut Swept,
    ) -> Result<(), UpkeepError> {
        let _lock = self.lock_out_writers(reachable)?;
        for (kind, digest) in batch {
            if !reachable.contains(*kind, *digest) {
                self.remove_counted(&content(*kind, *digest), swept.of(*kind))?;
            }
        }
        Ok(())
    }

    /// Every piece of content without a known reference.
    fn unreachable(&self, reachable: &ReachableContent) -> Result<Vec<(AttachmentKind, Sha256)>, FsError> {
        let mut unreachable = Vec::new();
        for kind in AttachmentKind::ALL {
            let found =
                self.contents_of(kind)?.into_iter().filter(|digest| !reachable.contains(kind, *digest));
            unreachable.extend(found.map(|digest| (kind, digest)));
        }
        Ok(unreachable)
    }

    pub(crate) fn contents_of(&self, kind: AttachmentKind) -> Result<Vec<Sha256>, FsError> {
        let entries = self.fs().list(&content_dir(kind))?.into_iter();
        let files = entries.filter(|entry| entry.kind == FileKind::Regular);
        Ok(files.filter_map(|entry| content_digest(kind, &entry.name)).collect())
    }

    fn len_of(&self, path: &RelPath) -> u64 {
        self.fs().stat(path).map_or(0, |stat| stat.len)
    }

    fn remove_counted(&self, path: &RelPath, tally: &mut Tally) -> Result<(), FsError> {
        let len = self.len_of(path);
        match self.fs().remove_file(path) {
            Ok(()) => tally.add(len),
            Err(error) if error.kind == FsErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// What a real sweep would find left behind; it also counts files in use, because no lock is taken.
    fn leftovers(&self, swept: &mut Swept) -> Result<(), FsError> {
        for folder in AttachmentKind::ALL.map(content_dir) {
            for path in temporaries(self.fs(), &folder, FileKind::Regular)? {
                swept.leftovers.add(self.len_of(&path));
            }
        }
        for folder in [layout::sessions(), layout::backups()] {
            for path in temporaries(self.fs(), &folder, FileKind::Directory)? {
                self.count(&path, swept);
            }
        }
        for session in self.session_folders()? {
            if !load::holds_work(self.fs(), session)? {
                self.count(&layout::session(session), swept);
                continue;
            }
            for path in temporaries_of(self.fs(), session)? {
                swept.leftovers.add(self.len_of(&path));
            }
        }
        Ok(())
    }

    fn count(&self, folder: &RelPath, swept: &mut Swept) {
        match folder_tree::tally(self.fs(), folder) {
            Ok(sum) => swept.leftovers.add_all(sum),
            Err(error) => swept.kept_leftover = Some(error),
        }
    }

    fn session_folders(&self) -> Result<Vec<SessionId>, FsError> {
        let entries = self.fs().list(&layout::sessions())?.into_iter();
        let folders = entries.filter(|entry| entry.kind == FileKind::Directory);
        Ok(folders.filter_map(|entry| SessionId::parse(&entry.name).ok()).collect())
    }

    /// Runs first, because it makes removals durable: no crash may bring back a session whose content is swept after
    /// this.
    fn sweep_leftovers(
        &self,
        reachable: &mut ReachableContent,
        swept: &mut Swept,
    ) -> Result<(), UpkeepError> {
        let _lock = self.lock_out_writers(reachable)?;
        self.fs().sync_dir(&layout::sessions())?;
        for folder in AttachmentKind::ALL.map(content_dir) {
            for path in temporaries(self.fs(), &folder, FileKind::Regular)? {
                self.remove_counted(&path, &mut swept.leftovers)?;
            }
        }
        for path in temporaries(self.fs(), &layout::sessions(), FileKind::Directory)? {
            self.remove_leftover_folder(&path, swept)?;
        }
        for path in temporaries(self.fs(), &layout::backups(), FileKind::Directory)? {
            self.count_and_remove(&path, swept);
        }
        for session in self.session_folders()? {
            self.tidy(session, reachable, swept)?;
        }
        Ok(())
    }

    /// A folder that cannot be removed does not stop the sweep. It is reported, and counted once it is gone.
    fn count_and_remove(&self, folder: &RelPath, swept: &mut Swept) {
        let sum = folder_tree::tally(self.fs(), folder);
        match folder_tree::remove(self.fs(), folder) {
            Ok(()) => swept.leftovers.add_all(sum.unwrap_or_default()),
            Err(error) => swept.kept_leftover = Some(error),
        }
    }

    /// A removed session whose files still exist, or an unfinished import.
    fn remove_leftover_folder(&self, folder: &RelPath, swept: &mut Swept) -> Result<(), FsError> {
        // A process that stages a session here may hold a lock in it; a free lock shows that none is active.
        let lock_path = folder.child(".lock").filter(|path| self.fs().stat(path).is_ok());
        let lock = lock_path.map(|path| self.fs().lock(&path, LockMode::Exclusive, Duration::ZERO));
        let _held = match lock.transpose() {
            Ok(Some(None)) => return Ok(()),
            Err(error) if error.kind == FsErrorKind::NotFound => return Ok(()),
            free => free?,
        };
        let name = folder.file_name();
        let id = name.strip_prefix(".tmp-deleted-").or_else(|| name.strip_prefix(".tmp-removed-"));
        let Some(id) = id.and_then(|id| SessionId::parse(id).ok()) else {
            self.count_and_remove(folder, swept);
            return Ok(());
        };
        // The process that moved it may have failed to make that durable; moving it once more does (G14).
        let [first, second] = layout::tombstones(&id.to_string());
        let tombstone = if *folder == first { second } else { first };
        move_to_tombstone(self.fs(), folder, &tombstone)?;
        self.count_and_remove(&tombstone, swept);
        Ok(())
    }

    /// Removes what interrupted writes left in a session's folder, and the folder if nothing was ever committed.
    fn tidy(
        &self,
        session: SessionId,
        reachable: &ReachableContent,
        swept: &mut Swept,
    ) -> Result<(), FsError> {
        let begun = reachable.has_read(session) || load::holds_work(self.fs(), session)?;
        if begun && temporaries_of(self.fs(), session)?.is_empty() {
            return Ok(());
        }
        let lock = match self.fs().lock(&layout::session_lock(session), LockMode::Exclusive, Duration::ZERO) {
            Ok(Some(lock)) => lock,
            // Another process is working in it, or has removed it.
            Ok(None) => return Ok(()),
            Err(error) if error.kind == FsErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        // Checked again: a writer may have committed before we got the lock.
        if load::holds_work(self.fs(), session)? {
            for path in temporaries_of(self.fs(), session)? {
                self.remove_counted(&path, &mut swept.leftovers)?;
            }
        } else {
            let [tombstone, _] = layout::tombstones(&session.to_string());
            move_to_tombstone(self.fs(), &layout::session(session), &tombstone)?;
            self.forget(session);
            self.count_and_remove(&tombstone, swept);
        }
        drop(lock);
        Ok(())
    }
}

fn temporaries<F: FileSystem>(fs: &F, folder: &RelPath, kind: FileKind) -> Result<Vec<RelPath>, FsError> {
    let entries = match fs.list(folder) {
        Err(error) if error.kind == FsErrorKind::NotFound => Vec::new(),
        listed => listed?,
    };
    let ours = |entry: &DirEntry| entry.kind == kind && is_temporary(&entry.name);
    Ok(entries.into_iter().filter(ours).filter_map(|entry| folder.child(&entry.name)).collect())
}

/// Temporaries that only the holder of the session's lock writes.
fn temporaries_of<F: FileSystem>(fs: &F, session: SessionId) -> Result<Vec<RelPath>, FsError> {
    let paths = [layout::manifest_temp(session), layout::segment_temp(session), layout::keep_temp(session)];
    Ok(paths.into_iter().filter(|path| fs.stat(path).is_ok()).collect())
}
