//! Preferences that a person has set for a run and that no advance has applied yet (G64). They are never the source of
//! truth: if some are lost, the person sets them again, and the log is unaffected.

use std::collections::BTreeMap;

use workrail_model::id::{RunId, SessionId};
use workrail_model::passkey::PendingPreferences;

use crate::file_system::FsError;

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

/// Stores the preferences that a person has set for a run until an advance applies them.
pub trait PendingPreferencesStore: PendingPreferencesReader {
    /// Replaces the pending preferences of all these runs, or of none; other runs keep theirs. The caller holds the
    /// session's lock.
    fn set_pending_preferences(
        &self,
        session: SessionId,
        pending: &BTreeMap<RunId, PendingPreferences>,
    ) -> Result<(), FsError>;
    /// Removes the run's pending preferences if they are still `applied`. The caller holds the session's lock.
    fn clear_pending_preferences(
        &self,
        session: SessionId,
        run: RunId,
        applied: &PendingPreferences,
    ) -> Result<(), FsError>;
}
