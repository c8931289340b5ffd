//! Removing a session: whole or not at all, and for good before its content may go (G25).
//!
//! The folder is moved to a name that nobody reads, the move is made durable, and only then are the files
//! taken away. A crash leaves the session, or a leftover that the next sweep removes. All of it happens under
//! the session's lock, so that no writer loses what it was told; one that waited for the lock finds the
//! session gone.

use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_ports::file_system::{FileStat, FileSystem, FsError, FsErrorKind, LockMode, RelPath};
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Tally, UpkeepError};

use crate::store::{LOCK_WAIT, LocalStore};
use crate::{layout, load, orphan, suspect, tree};

/// A session that may go: its lock is held, and nothing speaks for it.
struct RemovableSession<L> {
    session: SessionId,
    freed: Tally,
    tombstone: RelPath,
    /// Held until the session is gone, so that no writer gets an answer that something was recorded in it.
    _lock: L,
}

impl<F: FileSystem> LocalStore<F> {
    /// Removes sessions together, with one sync for all of them; each has its own answer.
    pub(crate) fn remove_sessions(
        &self,
        sessions: &[(SessionId, Option<Cursor>)],
    ) -> Vec<Result<Tally, UpkeepError>> {
        let condemned = sessions.iter().map(|(session, judged)| self.condemn(*session, judged.as_ref()));
        let mut condemned: Vec<_> = condemned.collect();
        // Shared, as a writer: a sweep must see a session here or durably gone, and nothing between.
        let moved = self.shared_store_lock().and_then(|_lock| {
            for one in &mut condemned {
                if let Ok(may_go) = one
                    && let Err(error) = self.fs().rename(&layout::session(may_go.session), &may_go.tombstone)
                {
                    *one = Err(gone_or(may_go.session, error));
                }
            }
            let tombstones =
                condemned.iter().flatten().map(|one| (layout::session(one.session), &one.tombstone));
            settle(self.fs(), &tombstones.collect::<Vec<_>>()).map_err(UpkeepError::from)
        });
        let answers = condemned.into_iter().map(|one| {
            let one = one?;
            moved.clone()?;
            self.forget(one.session);
            self.drop_observations(one.session);
            // It is gone already; what cannot be taken away now is a leftover, and the next sweep tries again.
            let _ = tree::remove(self.fs(), &one.tombstone);
            Ok(one.freed)
        });
        answers.collect()
    }

    fn shared_store_lock(&self) -> Result<F::Lock, UpkeepError> {
        self.fs().lock(&layout::store_lock(), LockMode::Shared, LOCK_WAIT)?.ok_or(UpkeepError::Busy)
    }

    /// Locks a session and asks everything that may speak for it.
    fn condemn(
        &self,
        session: SessionId,
        judged: Option<&Cursor>,
    ) -> Result<RemovableSession<F::Lock>, UpkeepError> {
        let folder = layout::session(session);
        // Asked first: taking a lock would make the lock's file.
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
            // It was there when it was judged: another process has removed it since.
            let loaded = loaded.ok_or(StoreError::NotFound { session })?;
            if !(loaded.health.is_healthy() && loaded.continues && loaded.cursor == *judged) {
                return Err(UpkeepError::Changed { session });
            }
            // A completed write belongs to the session, and was not judged with it.
            if !orphan::at(self.fs(), session, judged)?.is_empty() {
                return Err(UpkeepError::Changed { session });
            }
        }
        let freed = tree::tally(self.fs(), &folder)?;
        let [tombstone, other] = layout::tombstones(&session.to_string());
        tree::remove(self.fs(), &tombstone)?;
        tree::remove(self.fs(), &other)?;
        Ok(RemovableSession { session, freed, tombstone, _lock: lock })
    }

    pub(crate) fn is_marked_to_keep(&self, session: SessionId) -> bool {
        is_mark(&self.fs().stat(&layout::keep(session)))
    }
}

/// Whether a look at the place of a mark says that there is one.
pub(crate) fn is_mark(look: &Result<FileStat, FsError>) -> bool {
    match look {
        Ok(_) => true,
        // A mark that cannot be looked at may be there.
        Err(error) => error.kind != FsErrorKind::NotFound,
    }
}

/// What is not there any more was removed by another process, and that is not a failure of the disk.
fn gone_or(session: SessionId, error: FsError) -> UpkeepError {
    if error.kind == FsErrorKind::NotFound { StoreError::NotFound { session }.into() } else { error.into() }
}

/// Moves a folder of `sessions/` out of sight, durably, or leaves it where it is. One that another process has
/// taken away meanwhile is out of sight.
pub(crate) fn bury<F: FileSystem>(fs: &F, folder: &RelPath, tombstone: &RelPath) -> Result<(), FsError> {
    tree::remove(fs, tombstone)?;
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
            // Nobody knows which of the two names the disk has. The next writer of the session makes sure
            // of the first before it tells anybody that something is recorded.
            let _ = fs.rename(tombstone, folder);
            suspect::mark(fs, folder);
        }
    })
}
