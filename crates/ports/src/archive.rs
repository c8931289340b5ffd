//! Sessions that leave a store and come into one: raw records out, a staged session in (G80).

use std::ops::ControlFlow;

use workrail_model::digest::Sha256;
use workrail_model::event::{Activity, EventIndex};
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_model::plan::{Attachment, AttachmentKind, RawSegment};

use crate::content::ContentError;
use crate::session_store::StoreError;

/// How far a reading of raw records went.
#[derive(Clone, Debug, PartialEq)]
pub struct Archived {
    /// Behind the last segment that was shown.
    pub cursor: Cursor,
    /// Of the whole log, also where it was read only in part.
    pub health: SessionHealth,
}

/// Reading a session as it was written, fields that this build does not know included.
pub trait SessionArchive: Send + Sync {
    /// Shows the validated segments from the first one on, one at a time, up to `until` or to the end; stops
    /// early when told to. A damaged session shows its sound beginning, with the health that says so.
    fn segments(
        &self,
        session: SessionId,
        until: Option<&Cursor>,
        visit: &mut dyn FnMut(RawSegment) -> ControlFlow<()>,
    ) -> Result<Archived, StoreError>;

    /// The bytes of one piece of content, which have its digest.
    fn content(&self, kind: AttachmentKind, digest: Sha256) -> Result<Vec<u8>, ContentError>;
}

/// A session that nobody sees until it is published. Dropped before that, it is as if it had never been.
pub trait StagedSession {
    /// Keeps a piece of content.
    fn content(&mut self, attachment: &Attachment) -> Result<(), StoreError>;
    /// Adds the next segment.
    fn segment(&mut self, segment: &RawSegment) -> Result<(), StoreError>;
    /// Makes all of it durable, then visible, in one step; returns after the last fsync.
    fn publish(self) -> Result<(), StoreError>;
}

/// Refuses a segment that is of another session, or does not continue a staged log. The same in every store.
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

/// Taking in a whole session at once.
pub trait SessionImport {
    type Staged<'a>: StagedSession
    where
        Self: 'a;

    /// Whether the id is in use here, by a session that can be read or by one that cannot.
    fn is_taken(&self, session: SessionId) -> Result<bool, StoreError>;

    /// Makes room for a session. One import at a time: a second one gets `StoreError::Locked`.
    fn stage(&self, session: SessionId) -> Result<Self::Staged<'_>, StoreError>;

    /// The last activity number that was handed out.
    fn newest_activity(&self) -> Result<Activity, StoreError>;

    /// Makes all further activity numbers larger than this one.
    fn raise_activity(&self, at_least: Activity) -> Result<(), StoreError>;
}
