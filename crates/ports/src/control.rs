//! What a person asked of a session and no advance has applied yet (G64). Wishes, never truth: losing one
//! costs the person a repetition and the log nothing.

use workrail_model::id::{RunId, SessionId};
use workrail_model::preferences::Preferences;

use crate::file_system::FsError;

/// Seeing wishes, without any way to make one.
pub trait WishReader: Send + Sync {
    /// The preferences that the next advance of the run is to apply. What cannot be read is not a wish.
    fn wished_preferences(&self, session: SessionId, run: RunId) -> Option<Preferences>;
    /// Whether wishes were recorded for the session that cannot be read.
    fn has_unreadable_wishes(&self, session: SessionId) -> bool;
}

pub trait SessionControl: WishReader {
    fn wish_preferences(
        &self,
        session: SessionId,
        run: RunId,
        preferences: Preferences,
    ) -> Result<(), FsError>;
    /// Forgets the wish for the run, once it is applied.
    fn forget_wish(&self, session: SessionId, run: RunId) -> Result<(), FsError>;
}
