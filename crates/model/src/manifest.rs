//! The control stream: which segments are committed, and what they pin.
//!
//! One append plan is one segment, and one segment is one group of manifest lines, computed only
//! here (G11). A reader recomputes the group from the segment and compares bytes, so that no
//! field of the manifest can be wrong without being noticed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::canonical::{CanonicalError, to_canonical};
use crate::digest::{BlobRef, Sha256, SnapshotRef};
use crate::event::{Event, EventIndex};
use crate::id::{EventId, SessionId};
use crate::strict_json;

/// The position of a record in its session's manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct ManifestIndex(u64);

impl ManifestIndex {
    pub const ZERO: Self = Self(0);

    pub fn new(value: u64) -> Self {
        Self(value)
    }

    pub fn get(self) -> u64 {
        self.0
    }

    pub fn plus(self, steps: u64) -> Self {
        Self(self.0 + steps)
    }
}

/// One line of `manifest.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ManifestRecord {
    /// A segment is durable and has this digest.
    #[serde(rename_all = "camelCase")]
    SegmentClosed {
        #[schemars(range(min = 1, max = 1))]
        v: u32,
        manifest_index: ManifestIndex,
        session_id: SessionId,
        first_event_index: EventIndex,
        last_event_index: EventIndex,
        /// Relative to the session's folder.
        segment_rel_path: String,
        sha256: Sha256,
        bytes: u64,
    },
    /// A snapshot is reachable from this session.
    #[serde(rename_all = "camelCase")]
    SnapshotPinned {
        #[schemars(range(min = 1, max = 1))]
        v: u32,
        manifest_index: ManifestIndex,
        session_id: SessionId,
        event_index: EventIndex,
        snapshot_ref: SnapshotRef,
        created_by_event_id: EventId,
    },
    /// An artifact, stored reply or long note is reachable from this session.
    #[serde(rename_all = "camelCase")]
    BlobPinned {
        #[schemars(range(min = 1, max = 1))]
        v: u32,
        manifest_index: ManifestIndex,
        session_id: SessionId,
        event_index: EventIndex,
        blob_ref: BlobRef,
        created_by_event_id: EventId,
    },
}

/// Why a manifest line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("not JSON: {0}")]
    Json(#[from] strict_json::JsonError),
    #[error("`v` is {version}, this build reads version 1")]
    UnknownVersion { version: u64 },
    #[error("kind `{kind}` is not known to this build")]
    UnknownKind { kind: String },
    #[error("`{field}`: {problem}")]
    Field { field: String, problem: String },
    #[error("is not in canonical form")]
    NotCanonical,
}

/// The kinds of records in version 1.
const KINDS: [&str; 3] = ["segment_closed", "snapshot_pinned", "blob_pinned"];

impl ManifestRecord {
    /// The canonical bytes, without a line break.
    pub fn to_canonical(&self) -> Result<Vec<u8>, CanonicalError> {
        to_canonical(self)
    }

    /// Parses one line; it must be the canonical bytes of its own value.
    pub fn parse(line: &[u8]) -> Result<Self, ManifestError> {
        let value = strict_json::parse(line)?;
        match value.get("v").and_then(serde_json::Value::as_u64) {
            Some(1) => {}
            Some(version) => return Err(ManifestError::UnknownVersion { version }),
            None => {
                let problem = "must be a version number".to_owned();
                return Err(ManifestError::Field { field: "v".to_owned(), problem });
            }
        }
        // A new kind counts as a new version (G5): it is unknown what it commits or pins.
        if let Some(kind) = value.get("kind").and_then(serde_json::Value::as_str)
            && !KINDS.contains(&kind)
        {
            return Err(ManifestError::UnknownKind { kind: kind.to_owned() });
        }
        let record: Self = serde_path_to_error::deserialize(value).map_err(|error| ManifestError::Field {
            field: error.path().to_string(),
            problem: error.into_inner().to_string(),
        })?;
        if record.to_canonical().ok().as_deref() != Some(line) {
            return Err(ManifestError::NotCanonical);
        }
        Ok(record)
    }
}

/// The path of a segment, relative to the session's folder: `events/00000000-00000005.jsonl`.
pub fn segment_rel_path(first: EventIndex, last: EventIndex) -> String {
    format!("events/{:08}-{:08}.jsonl", first.get(), last.get())
}

/// The bytes of a segment: each event's canonical bytes and a line break.
pub fn segment_bytes(events: &[Event]) -> Result<Vec<u8>, CanonicalError> {
    let mut bytes = Vec::with_capacity(events.len() * 512);
    for event in events {
        bytes.extend_from_slice(&event.to_canonical()?);
        bytes.push(b'\n');
    }
    Ok(bytes)
}

/// The records that commit a segment: its closing, then one snapshot pin per node, then the blob
/// pins, each in event order (G12). Empty if there are no events.
pub fn commit_group(first_index: ManifestIndex, events: &[Event], segment: &[u8]) -> Vec<ManifestRecord> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Vec::new() };
    let session_id = first.session_id;
    let mut group = vec![ManifestRecord::SegmentClosed {
        v: 1,
        manifest_index: first_index,
        session_id,
        first_event_index: first.event_index,
        last_event_index: last.event_index,
        segment_rel_path: segment_rel_path(first.event_index, last.event_index),
        sha256: Sha256::of(segment),
        bytes: segment.len() as u64,
    }];
    for event in events {
        if let Some(snapshot_ref) = event.data.snapshot_ref() {
            group.push(ManifestRecord::SnapshotPinned {
                v: 1,
                manifest_index: first_index.plus(group.len() as u64),
                session_id,
                event_index: event.event_index,
                snapshot_ref,
                created_by_event_id: event.event_id,
            });
        }
    }
    for event in events {
        for blob_ref in event.data.blob_refs() {
            group.push(ManifestRecord::BlobPinned {
                v: 1,
                manifest_index: first_index.plus(group.len() as u64),
                session_id,
                event_index: event.event_index,
                blob_ref,
                created_by_event_id: event.event_id,
            });
        }
    }
    group
}

/// The bytes of a group, appended to the manifest in one write.
pub fn group_bytes(group: &[ManifestRecord]) -> Result<Vec<u8>, CanonicalError> {
    let mut bytes = Vec::with_capacity(group.len() * 320);
    for record in group {
        bytes.extend_from_slice(&record.to_canonical()?);
        bytes.push(b'\n');
    }
    Ok(bytes)
}

/// How far a reader has got: what it needs in order to read only what was appended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cursor {
    pub next_event_index: EventIndex,
    pub next_manifest_index: ManifestIndex,
    /// Bytes of the manifest up to the end of the last complete group.
    pub manifest_bytes: u64,
    /// Bytes of that last group; with `anchor` they show that the manifest is still the same file.
    pub anchor_bytes: u64,
    pub anchor: Sha256,
}

impl Cursor {
    /// The cursor before anything was appended.
    pub fn start() -> Self {
        Self {
            next_event_index: EventIndex::ZERO,
            next_manifest_index: ManifestIndex::ZERO,
            manifest_bytes: 0,
            anchor_bytes: 0,
            anchor: Sha256::of(b""),
        }
    }

    /// The cursor after one more group.
    pub fn after(&self, group: &[ManifestRecord], group_bytes: &[u8], events: u64) -> Self {
        Self {
            next_event_index: self.next_event_index.plus(events),
            next_manifest_index: self.next_manifest_index.plus(group.len() as u64),
            manifest_bytes: self.manifest_bytes + group_bytes.len() as u64,
            anchor_bytes: group_bytes.len() as u64,
            anchor: Sha256::of(group_bytes),
        }
    }
}
