//! Removes a session entirely or not at all, and durably before its content may be swept (G25).
//!
//! The folder is moved to a name that is never read, the move is made durable, and only then are the files removed. A
//! crash leaves the session, or a leftover that the next sweep removes. All of this happens under the session's lock,
//! so that no writer loses what was acknowledged to it; a writer that waited for the lock finds the session gone.

use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_ports::file_system::{FileStat, FileSystem, FsError, FsErrorKind, LockMode, RelPath};
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Tally, UpkeepError};

use crate::store::{LOCK_WAIT, LocalStore};
use crate::{folder_tree, layout, load, orphan, suspect};

/// A session that may be removed: its lock is held, and nothing prevents it.
struct RemovableSession<L> {
    session: SessionId,
    freed: Tally,
    tombstone: RelPath,
    /// Held until the session is gone, so that no write to it is acknowledged meanwhile.
    _lock: L,
}

impl<F: FileSystem> LocalStore<F> {
    /// Removes several sessions with one sync for all of them; each gets its own result.
    pub(crate) fn remove_sessions(
        &self,
        sessions: &[(SessionId, Option<Cursor>)],
    ) -> Vec<Result<Tally, UpkeepError>> {
        let locked =
            sessions.iter().map(|(session, judged)| self.lock_for_removal(*session, judged.as_ref()));
        let mut locked: Vec<_> = locked.collect();
        // Shared, as for a writer: a sweep must see a session either here or durably gone.
        let moved = self.shared_store_lock().and_then(|_lock| {
            for one in &mut locked {
                if let Ok(may_go) = one
                    && let Err(error) = self.fs().rename(&layout::session(may_go.session), &may_go.tombstone)
                {
                    *one = Err(gone_or(may_go.session, error));
                }
            }
            let tombstones =
                locked.iter().flatten().map(|one| (layout::session(one.session), &one.tombstone));
            settle(self.fs(), &tombstones.collect::<Vec<_>>()).map_err(UpkeepError::from)
        });
        let answers = locked.into_iter().map(|one| {
            let one = one?;
            moved.clone()?;
            self.forget(one.session);
            self.drop_observations(one.session);
            // Already gone: files that cannot be removed now are leftovers for the next sweep.
            let _ = folder_tree::remove(self.fs(), &one.tombstone);
            Ok(one.freed)
        });
        answers.collect()
    }

    fn shared_store_lock(&self) -> Result<F::Lock, UpkeepError> {
        self.fs().lock(&layout::store_lock(), LockMode::Shared, LOCK_WAIT)?.ok_or(UpkeepError::Busy)
    }

    /// Locks a session and checks everything that may prevent its removal.
    fn lock_for_removal(
        &self,
        session: SessionId,
        judged: Option<&Cursor>,
    ) -> Result<RemovableSession<F::Lock>, UpkeepError> {
        let folder = layout::session(session);
        // Checked first: taking a lock would create the lock file.
        match self.fs().stat(&folder) {
            Err(error) if error.kind == FsErrorKind::NotFound => {
                return Err(StoreError::NotFound { session }.into());
            }
            stat => stat?,
        };
        let lock = self.take_lock(session)?;
        if self.is_marked_to_keep(session) {
            return Err(UpkeepError::Kept { session });
        }
        if let Some(judged) = judged {
            let loaded =
                load::load(self.fs(), session, Some(judged)).map_err(|error| gone_or(session, error))?;
            // It existed when it was selected: another process has removed it since.
            let loaded = loaded.ok_or(StoreError::NotFound { session })?;
            if !(loaded.health.is_healthy() && loaded.continues && loaded.cursor == *judged) {
                return Err(UpkeepError::Changed { session });
            }
            // A completed write belongs to the session, but was not considered when it was selected.
            if !orphan::at(self.fs(), session, judged)?.is_empty() {
                return Err(UpkeepError::Changed { session });
            }
        }
        let freed = folder_tree::tally(self.fs(), &folder)?;
        let [tombstone, other] = layout::tombstones(&session.to_string());
        folder_tree::remove(self.fs(), &tombstone)?;
        folder_tree::remove(self.fs(), &other)?;
        Ok(RemovableSession { session, freed, tombstone, _lock: lock })
    }

    pub(crate) fn is_marked_to_keep(&self, session: SessionId) -> bool {
        is_mark(&self.fs().stat(&layout::keep(session)))
    }
}

/// Whether the result of a stat says that the mark is set.
pub(crate) fn is_mark(stat: &Result<FileStat, FsError>) -> bool {
    match stat {
        Ok(_) => true,
        // A mark that cannot be inspected may be set.
        Err(error) => error.kind != FsErrorKind::NotFound,
    }
}

/// Something missing was removed by another process, which is not a disk failure.
fn gone_or(session: SessionId, error: FsError) -> UpkeepError {
    if error.kind == FsErrorKind::NotFound { StoreError::NotFound { session }.into() } else { error.into() }
}

/// Moves a folder of `sessions/` out of sight, durably, or leaves it where it is. A folder that another process has
/// removed meanwhile counts as moved.
pub(crate) fn move_to_tombstone<F: FileSystem>(
    fs: &F,
    folder: &RelPath,
    tombstone: &RelPath,
) -> Result<(), FsError> {
    folder_tree::remove(fs, tombstone)?;
    match fs.rename(folder, tombstone) {
        Err(error) if error.kind == FsErrorKind::NotFound => return fs.sync_dir(&layout::sessions()),
        moved => moved?,
    }
    settle(fs, &[(folder.clone(), tombstone)])
}

/// Makes moves within `sessions/` durable, or takes them back.
fn settle<F: FileSystem>(fs: &F, moves: &[(RelPath, &RelPath)]) -> Result<(), FsError> {
    fs.sync_dir(&layout::sessions()).inspect_err(|_| {
        for (folder, tombstone) in moves {
            // It is unknown which of the two names is on the disk. The next writer of the session makes the first one
            // durable before it acknowledges anything.
            let _ = fs.rename(tombstone, folder);
            suspect::mark(fs, folder);
        }
    })
}
