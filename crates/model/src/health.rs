//! How much of a session's log can be trusted, and what limits it (G20).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closed_set::all_values;
use crate::event::EventIndex;

/// The first thing that does not hold. Paths are relative to the session's folder.
#[derive(
    Clone,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    thiserror::Error,
    strum::EnumDiscriminants,
)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum_discriminants(
    name(CorruptionKind),
    derive(strum::EnumCount, strum::VariantArray, strum::IntoStaticStr)
)]
#[strum_discriminants(strum(serialize_all = "snake_case"), doc = "What kind of damage it is.")]
pub enum CorruptionReason {
    #[error("manifest record {manifest_index} is not readable: {detail}")]
    ManifestRecord { manifest_index: u64, detail: String },
    #[error("manifest record {manifest_index} does not match segment `{segment}`")]
    ManifestMismatch { manifest_index: u64, segment: String },
    #[error("the manifest ends with bytes that are neither a record nor an interrupted write")]
    ManifestTail { offset: u64 },
    #[error("segment `{segment}` is missing")]
    SegmentMissing { segment: String },
    #[error("segment `{segment}` does not match its digest")]
    SegmentDigest { segment: String },
    #[error("segment `{segment}` cannot be read: {detail}")]
    SegmentUnreadable { segment: String, detail: String },
    #[error("event {event_index} in `{segment}` is not valid: {detail}")]
    Event { segment: String, event_index: u64, detail: String },
    #[error("segment `{segment}` is beyond the end of the manifest, which lost the record that committed it")]
    SegmentUnattested { segment: String },
    #[error("the manifest cannot be read: {detail}")]
    ManifestUnreadable { detail: String },
    #[error(
        "segment `{segment}` is complete but not committed, and `{content}`, which it refers to, is missing or damaged"
    )]
    PendingContent { segment: String, content: String },
    /// Unknown whether it is damaged, until this user may read it. The path is relative to the data
    /// directory.
    #[error("`{path}` may not be read by the user that runs WorkRail: {detail}")]
    AccessDenied { path: String, detail: String },
}

all_values!(CorruptionKind);

impl CorruptionKind {
    /// The `kind` on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The closed classification that gates execution: only `Healthy` may advance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "health", rename_all = "snake_case")]
pub enum SessionHealth {
    Healthy,
    /// The events before `valid_until` are validated and may be shown, never continued from.
    #[serde(rename_all = "camelCase")]
    CorruptTail {
        valid_until: EventIndex,
        reason: CorruptionReason,
    },
    CorruptHead {
        reason: CorruptionReason,
    },
    /// Written by a newer version.
    UnknownVersion {
        record: String,
        version: u64,
    },
}

impl fmt::Display for SessionHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("it is healthy"),
            Self::CorruptTail { valid_until, reason } => {
                write!(f, "damaged after its first {} events: {reason}", valid_until.get())
            }
            Self::CorruptHead { reason } => write!(f, "damaged from its beginning: {reason}"),
            Self::UnknownVersion { record, version } => {
                write!(f, "written by a newer version: {record} has version {version}")
            }
        }
    }
}

impl SessionHealth {
    /// The health of a log whose events are valid only before `valid_until`.
    pub fn corrupt_from(valid_until: EventIndex, reason: CorruptionReason) -> Self {
        match valid_until {
            EventIndex::ZERO => Self::CorruptHead { reason },
            valid_until => Self::CorruptTail { valid_until, reason },
        }
    }

    /// What is wrong, in words; `None` for a healthy session.
    pub fn damage(&self) -> Option<String> {
        match self {
            Self::Healthy => None,
            Self::CorruptTail { valid_until, reason } => {
                Some(format!("{reason}; {} events before it are intact", valid_until.get()))
            }
            Self::CorruptHead { reason: CorruptionReason::ManifestUnreadable { detail } } => {
                Some(format!("unreadable: {detail}"))
            }
            Self::CorruptHead { reason: reason @ CorruptionReason::AccessDenied { .. } } => {
                Some(reason.to_string())
            }
            Self::CorruptHead { reason } => Some(format!("{reason}; nothing before it can be trusted")),
            Self::UnknownVersion { record, version } => {
                Some(format!("{record} has version {version}; a newer WorkRail wrote it"))
            }
        }
    }

    /// The path of the part that this user may not read: unknown whether it is damaged, and no repair can change it.
    pub fn denied_path(&self) -> Option<&str> {
        match self {
            Self::CorruptTail { reason: CorruptionReason::AccessDenied { path, .. }, .. }
            | Self::CorruptHead { reason: CorruptionReason::AccessDenied { path, .. } } => Some(path),
            Self::Healthy
            | Self::CorruptTail { .. }
            | Self::CorruptHead { .. }
            | Self::UnknownVersion { .. } => None,
        }
    }

    pub fn is_access_denied(&self) -> bool {
        self.denied_path().is_some()
    }

    pub fn is_healthy(&self) -> bool {
        matches!(self, Self::Healthy)
    }
}
