//! Removing a session: whole or not at all, and for good before its content may go (G25).
//!
//! The folder is moved to a name that nobody reads, the move is made durable, and only then are the files
//! taken away. A crash leaves the session, or a leftover that the next sweep removes. All of it happens under
//! the session's lock, so that no writer loses what it was told; one that waited for the lock finds the
//! session gone.

use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, LockMode, RelPath};
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Tally, UpkeepError};

use crate::store::{LOCK_WAIT, LocalStore};
use crate::{layout, load, suspect, tree};

impl<F: FileSystem> LocalStore<F> {
    pub(crate) fn remove_session(
        &self,
        session: SessionId,
        judged: Option<&Cursor>,
    ) -> Result<Tally, UpkeepError> {
        let folder = layout::session(session);
        // Asked first: taking a lock would make the lock's file.
        match self.fs().stat(&folder) {
            Err(error) if error.kind == FsErrorKind::NotFound => {
                return Err(StoreError::NotFound { session }.into());
            }
            stat => stat?,
        };
        let _lock = self.take_lock(session)?;
        if self.is_marked_to_keep(session) {
            return Err(UpkeepError::Kept { session });
        }
        if let Some(judged) = judged {
            let loaded = load::load(self.fs(), session, Some(judged))?;
            let unchanged = |loaded: load::Loaded| {
                loaded.health.is_healthy() && loaded.continues && loaded.cursor == *judged
            };
            if !loaded.is_some_and(unchanged) {
                return Err(UpkeepError::Changed { session });
            }
        }
        let freed = tree::tally(self.fs(), &folder)?;
        // Shared, as a writer: a sweep must see the session here or durably gone, and nothing between.
        let store_lock = self.fs().lock(&layout::store_lock(), LockMode::Shared, LOCK_WAIT)?;
        let store_lock = store_lock.ok_or(UpkeepError::Busy)?;
        let [grave, other] = layout::graves(&session.to_string());
        tree::remove(self.fs(), &other)?;
        bury(self.fs(), &folder, &grave)?;
        drop(store_lock);
        self.forget(session);
        // It is gone already; what cannot be taken away now is a leftover, and the next sweep tries again.
        let _ = tree::remove(self.fs(), &grave);
        Ok(freed)
    }

    pub(crate) fn is_marked_to_keep(&self, session: SessionId) -> bool {
        match self.fs().stat(&layout::keep(session)) {
            Ok(_) => true,
            // A mark that cannot be looked at may be there.
            Err(error) => error.kind != FsErrorKind::NotFound,
        }
    }
}

/// Moves a folder of `sessions/` out of sight, durably, or leaves it where it is.
pub(crate) fn bury<F: FileSystem>(fs: &F, folder: &RelPath, grave: &RelPath) -> Result<(), FsError> {
    tree::remove(fs, grave)?;
    fs.rename(folder, grave)?;
    fs.sync_dir(&layout::sessions()).inspect_err(|_| {
        // Nobody knows which of the two names the disk has. Whoever writes to the session next makes sure of
        // the first before it tells anybody that something is recorded.
        let _ = fs.rename(grave, folder);
        suspect::mark(fs, folder);
    })
}
