//! Moving sessions out of a store and into one: raw records out, a staged session in (G80).

use std::ops::ControlFlow;

use workrail_model::digest::Sha256;
use workrail_model::event::{Activity, EventIndex};
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_model::plan::{Attachment, AttachmentKind, RawSegment};

use crate::content::ContentError;
use crate::session_store::StoreError;

/// How far a read of raw records got.
#[derive(Clone, Debug, PartialEq)]
pub struct Archived {
    /// Just past the last segment shown.
    pub cursor: Cursor,
    /// Health of the whole log, even if only part of it was read.
    pub health: SessionHealth,
}

/// Reads a session exactly as written, including fields that this build does not know.
pub trait SessionArchive: Send + Sync {
    /// Shows the validated segments one at a time, from the first up to `until` or the end; the callback can stop
    /// early. A damaged session shows its intact prefix, and its health says so.
    fn segments(
        &self,
        session: SessionId,
        until: Option<&Cursor>,
        visit: &mut dyn FnMut(RawSegment) -> ControlFlow<()>,
    ) -> Result<Archived, StoreError>;

    /// The bytes of one piece of content, verified against the digest.
    fn content(&self, kind: AttachmentKind, digest: Sha256) -> Result<Vec<u8>, ContentError>;
}

/// A session that stays invisible until it is published. Dropping it before that leaves no trace.
pub trait StagedSession {
    /// Adds a piece of content.
    fn content(&mut self, attachment: &Attachment) -> Result<(), StoreError>;
    /// Adds the next segment.
    fn segment(&mut self, segment: &RawSegment) -> Result<(), StoreError>;
    /// Makes all of it durable, then visible, in one step; returns after the last fsync.
    fn publish(self) -> Result<(), StoreError>;
}

/// Rejects a segment that belongs to another session or does not continue the staged log. Shared by all stores.
pub fn check_continues(
    segment: &RawSegment,
    session: SessionId,
    expected: EventIndex,
) -> Result<(), StoreError> {
    let Some(first) = segment.events().first() else { return Ok(()) };
    if first.event_index != expected {
        return Err(StoreError::Stale { expected, found: first.event_index });
    }
    if first.session_id != session {
        return Err(StoreError::WrongSession { expected: session, found: first.session_id });
    }
    Ok(())
}

/// Importing a whole session at once.
pub trait SessionImport {
    type Staged<'a>: StagedSession
    where
        Self: 'a;

    /// Whether the id is already used here, by a readable session or an unreadable one.
    fn is_taken(&self, session: SessionId) -> Result<bool, StoreError>;

    /// Starts staging a session. One import at a time: a second one gets `StoreError::Locked`.
    fn stage(&self, session: SessionId) -> Result<Self::Staged<'_>, StoreError>;

    /// The last activity number handed out.
    fn newest_activity(&self) -> Result<Activity, StoreError>;

    /// Makes all later activity numbers larger than this one.
    fn raise_activity(&self, at_least: Activity) -> Result<(), StoreError>;
}
