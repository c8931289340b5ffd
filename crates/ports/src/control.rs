//! What a person asked of a session and no advance has applied yet (G64). Wishes, never truth: losing one
//! costs the person a repetition and the log nothing.

use workrail_model::id::{RunId, SessionId};
use workrail_model::passkey::WishedPreferences;

use crate::file_system::FsError;

/// Seeing wishes, without any way to make one.
pub trait WishReader: Send + Sync {
    /// The preferences that the next advance of the run is to apply. A damaged file holds none; a read that failed
    /// is an error, since a person may have asked for less autonomy.
    fn wished_preferences(
        &self,
        session: SessionId,
        run: RunId,
    ) -> Result<Option<WishedPreferences>, FsError>;
    /// Whether wishes were recorded for the session that cannot be read, or that name none of its runs.
    fn has_unreadable_wishes(&self, session: SessionId, is_run: &dyn Fn(RunId) -> bool) -> bool;
}

pub trait SessionControl: WishReader {
    fn wish_preferences(
        &self,
        session: SessionId,
        run: RunId,
        wished: WishedPreferences,
    ) -> Result<(), FsError>;
    /// Forgets the wish for the run, once it is applied.
    fn forget_wish(&self, session: SessionId, run: RunId) -> Result<(), FsError>;
}
