//! The session store: reading is one trait, appending another, and appending needs a locked session.
//!
//! The witness is ownership (G15). Only the adapter makes a `SessionStore::Locked`, after it holds the lock and has
//! validated the log; it is neither `Clone` nor constructible elsewhere, and `append` consumes its plan. Read-only
//! use cases take `SessionReader` and cannot name `append` at all.

use workrail_model::event::{Event, EventIndex};
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_model::plan::{AppendPlan, AttachmentKind};

use crate::content::ContentError;
use crate::file_system::{FileStamp, FsError};

/// Why the store did not carry out a request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StoreError {
    #[error("session {session} is not in this store")]
    NotFound { session: SessionId },
    #[error("session {session} exists already")]
    AlreadyExists { session: SessionId },
    #[error("another process is writing to session {session}")]
    Locked { session: SessionId },
    #[error("session {session} is not healthy")]
    Unhealthy { session: SessionId, health: SessionHealth },
    #[error("the plan starts at event {found:?}, the session continues at {expected:?}")]
    Stale { expected: EventIndex, found: EventIndex },
    #[error("the plan belongs to session {found}, the lock to {expected}")]
    WrongSession { expected: SessionId, found: SessionId },
    #[error("some events of the plan are recorded already, others are not (`{key}`)")]
    DedupeConflict { key: String },
    #[error("the plan refers to content that is neither attached nor stored")]
    MissingContent(#[from] ContentError),
    #[error("{kind:?} {digest} is referred to by the plan but neither attached nor stored")]
    Unattached { kind: AttachmentKind, digest: String },
    /// A store-wide lock could not be taken in time.
    #[error("other processes are using the store")]
    Busy,
    /// The append failed when everything except its commit was on disk. A later writer either rolls it forward or finds
    /// none of it; either way the caller may send the same call again.
    #[error("{0}; the write may have been recorded all the same")]
    Uncertain(FsError),
    #[error(transparent)]
    Io(#[from] FsError),
}

/// Events read from a session, and how far they reach.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSlice {
    pub events: Vec<Event>,
    /// True when the events follow the caller's cursor; false when they start at 0 because that
    /// cursor no longer fits the log.
    pub continues: bool,
    pub cursor: Cursor,
    pub health: SessionHealth,
}

/// What metadata shows of a session's log without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStamp {
    /// Size of the manifest.
    pub bytes: u64,
    pub file: FileStamp,
    /// A fingerprint of all segments' stamps; zero when only the manifest was checked.
    pub segments: u64,
}

impl LogStamp {
    /// Whether nothing was written between two stamps of this depth.
    pub fn is_unchanged(&self, before: &Self, depth: StampDepth) -> bool {
        let same_manifest = self.bytes == before.bytes && self.file == before.file;
        match depth {
            StampDepth::Manifest => same_manifest,
            StampDepth::Segments => same_manifest && self.segments == before.segments,
        }
    }
}

/// How much a stamp covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampDepth {
    /// Shows whether the log grew or was replaced.
    Manifest,
    /// Also shows whether a segment was written, replaced or removed, and so any damage to it.
    Segments,
}

/// A session and its stamp; `None` if the log cannot be checked or the store has no cheap way to do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampedSession {
    pub session: SessionId,
    pub stamp: Option<LogStamp>,
}

/// What an append did.
#[derive(Clone, Debug, PartialEq)]
pub enum Appended {
    /// The events are durable; the cursor is just past them.
    Committed { events: Vec<Event>, cursor: Cursor },
    /// Every event of the plan was already recorded, by its dedupe key: nothing was written.
    AlreadyRecorded,
}

/// Read access, with no way to write.
pub trait SessionReader: Send + Sync {
    /// All sessions with at least one committed event, sorted by id.
    fn sessions(&self) -> Result<Vec<SessionId>, StoreError>;

    /// Everything named like a session, sorted by id, with a cheap stamp of each. Some may turn out to have no
    /// committed event or to be unreadable; reading them tells.
    fn stamped_sessions(&self, depth: StampDepth) -> Result<Vec<StampedSession>, StoreError> {
        let _ = depth;
        let unstamped = |session| StampedSession { session, stamp: None };
        Ok(self.sessions()?.into_iter().map(unstamped).collect())
    }

    /// The stamp of one log, including its segments.
    fn stamp(&self, session: SessionId) -> Option<LogStamp> {
        let _ = session;
        None
    }

    /// The stamps of several logs, in the given order.
    fn stamps(&self, sessions: &[SessionId]) -> Vec<Option<LogStamp>> {
        sessions.iter().map(|session| self.stamp(*session)).collect()
    }

    /// A number that changes when a session may have been added, written or removed. It may change before the write is
    /// committed, so after a change the caller checks again a little later. `None` if the store has no cheap way to
    /// tell.
    fn change_stamp(&self) -> Option<u64> {
        None
    }

    /// The validated events from `since` on (all of them without a cursor). Never takes a lock and never
    /// fails because of a writer: it sees a committed prefix (G16). A damaged session yields its
    /// validated prefix, and the health says so.
    fn read(&self, session: SessionId, since: Option<&Cursor>) -> Result<SessionSlice, StoreError>;
}

/// A session whose lock is held and whose log was found healthy.
pub trait LockedSession {
    fn session_id(&self) -> SessionId;

    /// Where the log ends.
    fn cursor(&self) -> Cursor;

    /// The events from `since` on, from the locked log.
    fn events_since(&self, since: Option<&Cursor>) -> Result<SessionSlice, StoreError>;

    /// Makes the plan durable, whole or not at all; returns only after the last fsync (G10).
    fn append(&mut self, plan: AppendPlan) -> Result<Appended, StoreError>;
}

/// Whether the log already has the plan, by its events' dedupe keys: all of them or none (G8). A plan of which it has
/// only some is refused. Shared by all stores.
pub fn is_recorded(plan: &AppendPlan, is_known: impl Fn(&Event) -> bool) -> Result<bool, StoreError> {
    let mut known = plan.events().iter().filter(|event| is_known(event));
    let Some(first) = known.next() else { return Ok(false) };
    if known.count() + 1 == plan.events().len() {
        return Ok(true);
    }
    Err(StoreError::DedupeConflict { key: first.dedupe_key.to_string() })
}

/// Appending.
pub trait SessionStore: SessionReader {
    type Locked<'a>: LockedSession
    where
        Self: 'a;

    /// Prepares a new session and locks it; nothing is stored until its first append.
    fn create(&self, session: SessionId) -> Result<Self::Locked<'_>, StoreError>;

    /// Validates and locks an existing session; waits a bounded time, then returns `Locked`.
    fn lock(&self, session: SessionId) -> Result<Self::Locked<'_>, StoreError>;
}
