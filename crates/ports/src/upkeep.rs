//! Keeping, removing and repairing stored sessions: what people ask for, and never an agent (G24, G25).
//!
//! The adapter guarantees that a session is whole or gone, that no reachable byte is removed, and that damage
//! is backed up before it is touched. It does not decide which sessions are old.

use std::collections::BTreeSet;

use workrail_model::digest::Sha256;
use workrail_model::event::{Event, EventData, EventIndex, OutputPayload};
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_model::plan::{Attachment, AttachmentKind};

use crate::file_system::FsError;
use crate::session_store::{SessionReader, StoreError};

/// Why nothing may be removed: something whose dependencies are unknown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SafeModeReason {
    /// A session's id, or a path beneath the data directory.
    pub what: String,
    pub why: String,
}

/// The reason given for a folder among the sessions that is not a session.
pub const FOREIGN_FOLDER: &str = "a folder in sessions/ that is not a session: move it elsewhere";

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UpkeepError {
    #[error("session {session} is marked to be kept")]
    Kept { session: SessionId },
    #[error("session {session} was used since it was looked at")]
    Changed { session: SessionId },
    #[error("other processes are writing to the store")]
    Busy,
    #[error("the store is in doubt in {} places", .0.len())]
    InDoubt(Vec<SafeModeReason>),
    #[error("session {session} cannot be repaired")]
    NotRepairable { session: SessionId, health: SessionHealth },
    #[error("`{path}` cannot be copied to a backup: {detail}")]
    NotCopied { path: String, detail: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<FsError> for UpkeepError {
    fn from(error: FsError) -> Self {
        Self::Store(StoreError::Io(error))
    }
}

/// A number of files and their total size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub files: u64,
    pub bytes: u64,
}

impl Tally {
    pub fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }

    pub fn add_all(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// What a sweep removed, or would remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub snapshots: Tally,
    pub blobs: Tally,
    pub workflows: Tally,
    /// Leftovers of interrupted writes, removals and imports.
    pub leftovers: Tally,
    /// Why a leftover could not be removed, if one could not.
    pub kept_leftover: Option<FsError>,
}

impl Swept {
    pub fn of(&mut self, kind: AttachmentKind) -> &mut Tally {
        match kind {
            AttachmentKind::Snapshot => &mut self.snapshots,
            AttachmentKind::Blob => &mut self.blobs,
            AttachmentKind::Workflow => &mut self.workflows,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Sweep<'a> {
    /// Counts what would be removed if these sessions were gone; changes nothing and takes no lock.
    DryRun {
        without: &'a BTreeSet<SessionId>,
    },
    Real,
}

/// Something in the data directory that does not belong there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stray {
    pub path: String,
    pub kind: StrayKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StrayKind {
    /// An interrupted write; it will be overwritten or swept eventually.
    Leftover,
    /// Not written by WorkRail.
    Unknown,
    /// A session's folder without any event: left by an interrupted start, or by the loss of the whole log.
    EmptySession,
}

/// What an obstacle prevents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObstacleReach {
    /// The use of the whole store.
    Store,
    Session(SessionId),
    /// The use of one piece of content: sessions that do not need it are intact.
    ContentFile,
    /// New records only: what is recorded can be read.
    NewRecords,
}

/// Something in the data directory that prevents WorkRail from reading or writing there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Beneath the data directory.
    pub path: String,
    pub problem: &'static str,
    pub fix: String,
    pub reach: ObstacleReach,
}

/// An event that a repair drops, as far as it can still be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostEvent {
    pub index: u64,
    pub kind: String,
    pub has_notes: bool,
}

impl LostEvent {
    pub fn of(event: &Event) -> Self {
        let has_notes = if let EventData::NodeOutputAppended(output) = &event.data {
            matches!(output.payload, OutputPayload::Notes { .. })
        } else {
            false
        };
        Self { index: event.event_index.get(), kind: event.data.kind().as_str().to_owned(), has_notes }
    }
}

/// Events that a repair drops together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostSegment {
    /// Relative to the session's folder.
    pub path: String,
    /// The index range in the segment's name; absent if the name cannot be parsed.
    pub indexes: Option<(u64, u64)>,
    pub exists: bool,
    pub events: Vec<LostEvent>,
    pub unreadable_lines: u64,
}

/// A write that is complete on disk but not committed; the session's next writer rolls it forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWrite {
    pub session: SessionId,
    /// Relative to the session's folder.
    pub segment: String,
    pub events: u64,
}

/// What is wrong with a session, what a repair keeps and what it drops.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    pub health: SessionHealth,
    /// The events before this index are kept.
    pub keeps_until: EventIndex,
    /// How many of those the manifest no longer attests: that part of it is recomputed from the segments.
    pub events_rebuilt: u64,
    pub lost: Vec<LostSegment>,
    /// Bytes of the manifest that are replaced or truncated.
    pub manifest_bytes: u64,
    /// The backup that was made, or that would be made next; relative to the data directory.
    pub backup: String,
}

/// The length of a digest as `digests_in` finds it.
pub const DIGEST_TEXT_BYTES: usize = 71;

/// Every `sha256:` followed by 64 digits. For damaged logs, which are not parsed: any digest in them may be needed.
/// Shared by all stores.
pub fn digests_in(bytes: &[u8]) -> impl Iterator<Item = Sha256> {
    const PREFIX: &[u8] = b"sha256:";
    bytes.windows(DIGEST_TEXT_BYTES).filter(|window| window.starts_with(PREFIX)).filter_map(|window| {
        std::str::from_utf8(&window[PREFIX.len()..]).ok().and_then(|hex| Sha256::from_hex(hex).ok())
    })
}

/// How many hex digits of an attested digest may differ from the computed one for it to count as a damaged copy. Two
/// unrelated digests differ in about 60 of 64 digits.
const DAMAGED_DIGITS_MAX: usize = 8;

/// Whether a segment was changed since its digest was attested. If only a few digits differ, the digest itself was
/// damaged. Shared by all stores.
pub fn is_other_segment(attested: Sha256, computed: Sha256) -> bool {
    let (attested, computed) = (attested.hex(), computed.hex());
    let differing = attested.bytes().zip(computed.bytes()).filter(|(a, b)| a != b).count();
    differing > DAMAGED_DIGITS_MAX
}

/// What a check of the whole store needs besides its sessions. Nothing here can change anything.
pub trait Inspection: SessionReader {
    /// Whether the session is marked to be kept; a mark that cannot be checked counts as set.
    fn is_kept(&self, session: SessionId) -> bool;

    /// Which of the sessions are marked, for lists: the same as `is_kept` for each, but cheaper. Removal asks again.
    fn kept(&self, mut sessions: BTreeSet<SessionId>) -> BTreeSet<SessionId> {
        sessions.retain(|session| self.is_kept(*session));
        sessions
    }

    /// Paths, beneath the data directory, of folders among the sessions that are not sessions. While there are any,
    /// nothing is swept, because a newer build may name its sessions this way.
    fn foreign_folders(&self) -> Result<Vec<String>, FsError>;

    /// Folders and locks that exist but cannot be used. Missing ones are created when needed.
    fn obstacles(&self) -> Vec<Obstacle>;

    /// How many segments a session's manifest attests.
    fn segment_count(&self, session: SessionId) -> Result<u64, FsError>;

    /// Every piece of content of one kind, by its name alone.
    fn contents(&self, kind: AttachmentKind) -> Result<Vec<Sha256>, FsError>;

    /// Stray files and folders: the first `max` of them, and how many there are.
    fn strays(&self, max: usize) -> Result<(Vec<Stray>, u64), FsError>;

    /// Completed writes that await their session's next writer. A session that cannot be checked has none.
    fn pending_writes(&self) -> Result<Vec<PendingWrite>, FsError>;

    /// The session's completed but uncommitted write, if any.
    fn pending_write(&self, session: SessionId) -> Result<Option<PendingWrite>, FsError>;
}

/// Changing the store as a whole.
pub trait Upkeep: Inspection {
    /// Marks a session to be kept, durably.
    fn keep(&self, session: SessionId) -> Result<(), UpkeepError>;
    fn unkeep(&self, session: SessionId) -> Result<(), UpkeepError>;

    /// Removes the storage of sessions, each whole or not at all; content stays until a sweep. With a cursor, removes
    /// the session only if its log still ends there. Never removes one that is marked to be kept. One result each, in
    /// order.
    fn remove_all(&self, sessions: &[(SessionId, Option<Cursor>)]) -> Vec<Result<Tally, UpkeepError>>;

    /// Removes one session.
    fn remove(&self, session: SessionId, judged: Option<&Cursor>) -> Result<Tally, UpkeepError> {
        let answers = self.remove_all(&[(session, judged.copied())]);
        answers.into_iter().next().unwrap_or(Err(UpkeepError::Busy))
    }

    /// How many files and bytes `remove` would free.
    fn weigh(&self, session: SessionId) -> Result<Tally, UpkeepError>;

    /// Whether a sweep could get exclusive access now; asked before anything is removed for its sake.
    fn may_sweep(&self) -> Result<(), UpkeepError>;

    /// Whether the sessions folder is missing although content exists that only sessions refer to.
    fn has_lost_sessions(&self) -> bool;

    /// Removes content that no session and no backup needs. If there is doubt about any session, removes nothing.
    fn sweep(&self, sweep: Sweep<'_>) -> Result<Swept, UpkeepError>;

    /// What a repair would do. `trusted_until` is where the log stops making sense although its bytes are valid.
    fn diagnose(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError>;

    /// Replaces a damaged or missing piece of content with an intact one, durably. An existing file is moved aside,
    /// to the returned path beneath the data directory.
    fn replace_content(&self, content: &Attachment) -> Result<Option<String>, UpkeepError>;

    /// Backs the session up, rebuilds its manifest from the intact segments, and truncates the rest.
    fn repair(&self, session: SessionId, trusted_until: Option<EventIndex>)
    -> Result<Diagnosis, UpkeepError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_whole_digest_of_a_damaged_file_is_found() {
        let (one, two) = (Sha256::of(b"1"), Sha256::of(b"2"));
        let text = format!("x{one}\",{two}sha256:abc sha256:sha256:{}", one.hex().to_uppercase());
        assert_eq!(digests_in(text.as_bytes()).collect::<Vec<_>>(), [one, two]);
        assert_eq!(digests_in(b"").count(), 0);
        assert_eq!(one.to_string().len(), DIGEST_TEXT_BYTES);
    }
}
