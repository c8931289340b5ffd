//! The append plan: the one unit of durable change, all or nothing (G10).

use crate::canonical::CanonicalError;
use crate::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use crate::event::{Event, EventError, EventIndex};
use crate::id::SessionId;
use crate::limits::{
    BLOB_BYTES_MAX, PINNED_WORKFLOW_BYTES_MAX, PLAN_EVENTS_MAX, SEGMENT_BYTES_MAX, SNAPSHOT_BYTES_MAX,
};
use crate::manifest::segment_bytes;

/// Content that must be durable before the events that refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    kind: AttachmentKind,
    digest: Sha256,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttachmentKind {
    Snapshot,
    Blob,
    Workflow,
}

/// Identifies stored content.
pub type ContentKey = (AttachmentKind, Sha256);

impl AttachmentKind {
    pub const ALL: [Self; 3] = [Self::Snapshot, Self::Blob, Self::Workflow];

    /// The maximum size of an attachment of this kind.
    pub fn bytes_max(self) -> u64 {
        match self {
            Self::Snapshot => SNAPSHOT_BYTES_MAX,
            Self::Blob => BLOB_BYTES_MAX,
            Self::Workflow => PINNED_WORKFLOW_BYTES_MAX,
        }
    }
}

impl Attachment {
    pub fn snapshot(bytes: Vec<u8>) -> Self {
        Self::new(AttachmentKind::Snapshot, bytes)
    }

    pub fn blob(bytes: Vec<u8>) -> Self {
        Self::new(AttachmentKind::Blob, bytes)
    }

    pub fn workflow(bytes: Vec<u8>) -> Self {
        Self::new(AttachmentKind::Workflow, bytes)
    }

    fn new(kind: AttachmentKind, bytes: Vec<u8>) -> Self {
        Self { kind, digest: Sha256::of(&bytes), bytes }
    }

    pub fn kind(&self) -> AttachmentKind {
        self.kind
    }

    pub fn digest(&self) -> Sha256 {
        self.digest
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn snapshot_ref(&self) -> SnapshotRef {
        SnapshotRef::new(self.digest)
    }

    pub fn blob_ref(&self) -> BlobRef {
        BlobRef::new(self.digest)
    }

    pub fn workflow_hash(&self) -> WorkflowHash {
        WorkflowHash::new(self.digest)
    }
}

/// Why a plan cannot be appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("a plan holds at least one event")]
    Empty,
    #[error("a plan holds at most {PLAN_EVENTS_MAX} events, not {found}")]
    TooManyEvents { found: usize },
    #[error("a plan has at most {SEGMENT_BYTES_MAX} bytes of events, not {found}")]
    TooManyBytes { found: u64 },
    #[error("event {position} of the plan has the index {found:?} instead of {expected:?}")]
    Index { position: usize, expected: EventIndex, found: EventIndex },
    #[error("event {position} of the plan belongs to another session")]
    Session { position: usize },
    #[error("two events of the plan have the dedupe key {key}")]
    DuplicateKey { key: String },
    #[error("attachment {digest} has {bytes} bytes, at most {max} are allowed")]
    AttachmentTooLarge { digest: Sha256, bytes: u64, max: u64 },
    #[error("event {position} of the plan is not valid")]
    Event { position: usize, source: EventError },
    #[error("an event of the plan has no canonical form")]
    Canonical(#[from] CanonicalError),
}

/// Events with consecutive indexes of one session, and what they refer to. Not `Clone`: a plan is
/// consumed by its append.
#[derive(Debug, PartialEq)]
pub struct AppendPlan {
    events: Vec<Event>,
    attachments: Vec<Attachment>,
    segment: Vec<u8>,
}

impl AppendPlan {
    /// Checks everything that can be checked without the store.
    pub fn new(events: Vec<Event>, attachments: Vec<Attachment>) -> Result<Self, PlanError> {
        check_events(&events)?;
        for attachment in &attachments {
            let (bytes, max) = (attachment.bytes.len() as u64, attachment.kind.bytes_max());
            if bytes > max {
                return Err(PlanError::AttachmentTooLarge { digest: attachment.digest, bytes, max });
            }
        }
        let segment = segment_bytes(&events)?;
        if segment.len() as u64 > SEGMENT_BYTES_MAX {
            return Err(PlanError::TooManyBytes { found: segment.len() as u64 });
        }
        Ok(Self { events, attachments, segment })
    }

    pub fn session_id(&self) -> SessionId {
        self.events[0].session_id
    }

    pub fn first_index(&self) -> EventIndex {
        self.events[0].event_index
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// The bytes of the segment that the events become.
    pub fn segment(&self) -> &[u8] {
        &self.segment
    }

    pub fn into_events(self) -> Vec<Event> {
        self.events
    }
}

/// A segment as stored on disk or in a bundle: its exact bytes, so that fields unknown to this build
/// survive, and the events parsed from them.
#[derive(Clone, Debug, PartialEq)]
pub struct RawSegment {
    events: Vec<Event>,
    bytes: Vec<u8>,
}

impl RawSegment {
    /// Parses and checks the lines of a segment, each with its line break.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, PlanError> {
        let mut events = Vec::new();
        for (position, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            events.push(Event::parse(line).map_err(|source| PlanError::Event { position, source })?);
        }
        check_events(&events)?;
        if bytes.len() as u64 > SEGMENT_BYTES_MAX {
            return Err(PlanError::TooManyBytes { found: bytes.len() as u64 });
        }
        Ok(Self { events, bytes })
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The lines without line breaks.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
    }
}

fn check_events(events: &[Event]) -> Result<(), PlanError> {
    let first = events.first().ok_or(PlanError::Empty)?;
    if events.len() > PLAN_EVENTS_MAX {
        return Err(PlanError::TooManyEvents { found: events.len() });
    }
    let mut keys = std::collections::BTreeSet::new();
    for (position, event) in events.iter().enumerate() {
        let expected = first.event_index.plus(position as u64);
        if event.event_index != expected {
            return Err(PlanError::Index { position, expected, found: event.event_index });
        }
        if event.session_id != first.session_id {
            return Err(PlanError::Session { position });
        }
        if !keys.insert(&event.dedupe_key) {
            return Err(PlanError::DuplicateKey { key: event.dedupe_key.to_string() });
        }
        event.check().map_err(|source| PlanError::Event { position, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_without_a_canonical_form_blames_no_event_in_particular() {
        let error = PlanError::from(CanonicalError::TooDeep);
        assert_eq!(error.to_string(), "an event of the plan has no canonical form");
    }
}
