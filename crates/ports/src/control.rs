//! What a person asked of a session and no advance has applied yet (G64). Wishes are never the source of truth: if
//! one is lost, the person asks again, and the log is unaffected.

use workrail_model::id::{RunId, SessionId};
use workrail_model::passkey::WishedPreferences;

use crate::file_system::FsError;

/// Read access to wishes, with no way to make one.
pub trait WishReader: Send + Sync {
    /// The preferences that the run's next advance should apply. A damaged file holds none; a failed read is an error,
    /// because the person may have asked for less autonomy.
    fn wished_preferences(
        &self,
        session: SessionId,
        run: RunId,
    ) -> Result<Option<WishedPreferences>, FsError>;
    /// Whether the session has recorded wishes that cannot be read or that name none of its runs.
    fn has_unreadable_wishes(&self, session: SessionId, is_run: &dyn Fn(RunId) -> bool) -> bool;
}

pub trait SessionControl: WishReader {
    fn wish_preferences(
        &self,
        session: SessionId,
        run: RunId,
        wished: WishedPreferences,
    ) -> Result<(), FsError>;
    /// Removes the run's wish once it has been applied.
    fn forget_wish(&self, session: SessionId, run: RunId) -> Result<(), FsError>;
}
