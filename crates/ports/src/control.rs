//! Preferences that a person has set for a run and that no advance has applied yet (G64). They are never the source of
//! truth: if some are lost, the person sets them again, and the log is unaffected.

use workrail_model::id::{RunId, SessionId};
use workrail_model::passkey::PendingPreferences;

use crate::file_system::FsError;
use crate::session_store::StoreError;

/// Read access to pending preferences, with no way to set them.
pub trait PendingPreferencesReader: Send + Sync {
    /// The preferences that the run's next advance should apply. A damaged file holds none; a failed read is an error,
    /// because the person may have asked for less autonomy.
    fn pending_preferences(
        &self,
        session: SessionId,
        run: RunId,
    ) -> Result<Option<PendingPreferences>, FsError>;
    /// Whether the session has pending preferences that cannot be read or that name none of its runs.
    fn has_unreadable_pending_preferences(&self, session: SessionId, is_run: &dyn Fn(RunId) -> bool) -> bool;
}

/// Returns what a run gets in place of what it has. May be called again for a run if the store tries again.
pub type PreferencesChange<'a> = &'a dyn Fn(RunId, Option<PendingPreferences>) -> PendingPreferences;

/// Stores the preferences that a person has set for a run until an advance applies them.
pub trait PendingPreferencesStore: PendingPreferencesReader {
    /// Changes the pending preferences of all these runs, or of none; other runs keep theirs. Returns the new ones in
    /// the order of `runs`. It is `Locked` while a writer holds the session for too long, so the caller must not.
    fn change_pending_preferences(
        &self,
        session: SessionId,
        runs: &[RunId],
        change: PreferencesChange<'_>,
    ) -> Result<Vec<PendingPreferences>, StoreError>;
    /// Removes the run's pending preferences if they are still `applied`. The caller holds the session's lock.
    fn clear_pending_preferences(
        &self,
        session: SessionId,
        run: RunId,
        applied: &PendingPreferences,
    ) -> Result<(), FsError>;
}
