//! The bundle: one JSON document with a whole session, so that work can continue elsewhere (G80).
//!
//! Only the parts have types here. A bundle can be larger than memory, so it is written and read part by
//! part; [`Bundle`] says how they fit together and is the source of the schema.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compiled::CompiledWorkflow;
use crate::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use crate::event::Event;
use crate::health::SessionHealth;
use crate::id::{BundleId, SessionId};
use crate::manifest::ManifestRecord;
use crate::snapshot::ExecutionSnapshot;
use crate::time::Timestamp;

/// The version of the envelope that this build writes and reads.
pub const SCHEMA_VERSION: u64 = 1;

/// How integrity is attested: an entry for every part, over its canonical JSON.
pub const INTEGRITY_KIND: &str = "sha256_manifest_v1";

/// A session in one document.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Bundle {
    #[schemars(range(min = 1, max = 1))]
    pub bundle_schema_version: u64,
    pub bundle_id: BundleId,
    /// Informational.
    pub exported_at: Timestamp,
    pub producer: Producer,
    /// Present when only the sound beginning of a damaged log is here.
    pub salvage: Option<Salvage>,
    /// Present when context values were left out.
    pub redaction: Option<Redaction>,
    pub session: BundledSession,
    pub integrity: Integrity,
}

/// What a session consists of.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct BundledSession {
    pub session_id: SessionId,
    /// By event index, from 0 without a gap.
    pub events: Vec<Event>,
    /// By manifest index, from 0 without a gap.
    pub manifest: Vec<ManifestRecord>,
    /// Each under the digest of its canonical JSON.
    pub snapshots: BTreeMap<String, ExecutionSnapshot>,
    /// Each under the digest of its canonical JSON.
    pub pinned_workflows: BTreeMap<String, CompiledWorkflow>,
    /// Artifacts, stored replies and long notes, each under the digest of its bytes.
    #[schemars(default)]
    pub blobs: BTreeMap<String, BlobText>,
}

/// Who wrote the bundle; informational.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Producer {
    pub app_version: String,
    /// The digest of the settings in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_config_hash: Option<Sha256>,
}

/// Why this is not the whole session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Salvage {
    pub health: SessionHealth,
    /// What does not hold in the log, in words.
    pub why: String,
    /// How many events are here; what came after them is not.
    pub events_kept: u64,
}

/// What was left out on purpose (G81).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Redaction {
    /// The patterns of keys whose values were dropped.
    pub patterns: Vec<String>,
    /// The dropped keys, nested ones with dots, and how often each was dropped.
    pub removed: BTreeMap<String, u64>,
    /// Stored replies in which a dropped value was replaced.
    pub replies_changed: u64,
    /// Messages of events, and contexts of kept values, in which a dropped value was replaced.
    pub messages_changed: u64,
    /// Notes that still hold a dropped value: what an agent wrote is not changed.
    pub notes_with_values: u64,
    /// Artifacts that still hold a dropped value.
    pub artifacts_with_values: u64,
    /// Events that no longer name who caused them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub actors_removed: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The digests of all parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Integrity {
    pub kind: String,
    pub entries: Vec<IntegrityEntry>,
}

/// The attestation of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntegrityEntry {
    /// Such as `session/events` or `session/blobs/<digest>`.
    pub path: String,
    /// Of the part's canonical JSON.
    pub sha256: Sha256,
    /// The length of that canonical JSON.
    pub bytes: u64,
}

/// What an entry attests about its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attested {
    pub sha256: Sha256,
    pub bytes: u64,
}

/// Bytes in a JSON document: as text where they are text, so that people and tools can read them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlobText {
    /// The bytes are this text in UTF-8.
    Utf8(String),
    /// The bytes in base64 (RFC 4648, with padding).
    Base64(String),
}

impl BlobText {
    /// Text, unless the bytes are not text or mostly characters that JSON must escape.
    pub fn of(bytes: &[u8]) -> Self {
        let escaped = bytes.iter().filter(|byte| **byte < 0x20 && !b"\n\t\r".contains(byte)).count();
        match std::str::from_utf8(bytes) {
            Ok(text) if escaped * 8 <= bytes.len() => Self::Utf8(text.to_owned()),
            Ok(_) | Err(_) => Self::Base64(data_encoding::BASE64.encode(bytes)),
        }
    }

    /// The bytes; `None` if the base64 is not the canonical encoding.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Utf8(text) => Some(text.into_bytes()),
            Self::Base64(text) => data_encoding::BASE64.decode(text.as_bytes()).ok(),
        }
    }
}

/// A part of a bundle with its own integrity entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BundleSection {
    SchemaVersion,
    BundleId,
    ExportedAt,
    Producer,
    Salvage,
    Redaction,
    SessionId,
    Events,
    Manifest,
    Snapshot(SnapshotRef),
    Workflow(WorkflowHash),
    Blob(BlobRef),
    /// A member of the envelope that this build does not know.
    Other(String),
    /// A member of the session that this build does not know.
    OtherOfSession(String),
}

const SNAPSHOTS: &str = "snapshots/";
const WORKFLOWS: &str = "pinnedWorkflows/";
const BLOBS: &str = "blobs/";

impl BundleSection {
    /// The section of a member of the envelope.
    pub fn of_member(name: &str) -> Self {
        match name {
            "bundleSchemaVersion" => Self::SchemaVersion,
            "bundleId" => Self::BundleId,
            "exportedAt" => Self::ExportedAt,
            "producer" => Self::Producer,
            "salvage" => Self::Salvage,
            "redaction" => Self::Redaction,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Parses the path of an integrity entry; every section has exactly one spelling.
    pub fn parse(path: &str) -> Option<Self> {
        let Some(inner) = path.strip_prefix("session/") else {
            // These two are not parts: one contains the parts, the other the entries themselves.
            let is_member = path != "session" && path != "integrity" && !path.contains('/');
            return is_member.then(|| Self::of_member(path));
        };
        let digest = |rest: &str| Sha256::parse(rest).ok();
        match inner {
            "sessionId" => Some(Self::SessionId),
            "events" => Some(Self::Events),
            "manifest" => Some(Self::Manifest),
            _ => {
                if let Some(rest) = inner.strip_prefix(SNAPSHOTS) {
                    digest(rest).map(|digest| Self::Snapshot(SnapshotRef::new(digest)))
                } else if let Some(rest) = inner.strip_prefix(WORKFLOWS) {
                    digest(rest).map(|digest| Self::Workflow(WorkflowHash::new(digest)))
                } else if let Some(rest) = inner.strip_prefix(BLOBS) {
                    digest(rest).map(|digest| Self::Blob(BlobRef::new(digest)))
                } else {
                    (!inner.contains('/')).then(|| Self::OtherOfSession(inner.to_owned()))
                }
            }
        }
    }
}

impl fmt::Display for BundleSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SchemaVersion => f.write_str("bundleSchemaVersion"),
            Self::BundleId => f.write_str("bundleId"),
            Self::ExportedAt => f.write_str("exportedAt"),
            Self::Producer => f.write_str("producer"),
            Self::Salvage => f.write_str("salvage"),
            Self::Redaction => f.write_str("redaction"),
            Self::SessionId => f.write_str("session/sessionId"),
            Self::Events => f.write_str("session/events"),
            Self::Manifest => f.write_str("session/manifest"),
            Self::Snapshot(reference) => write!(f, "session/{SNAPSHOTS}{reference}"),
            Self::Workflow(hash) => write!(f, "session/{WORKFLOWS}{hash}"),
            Self::Blob(reference) => write!(f, "session/{BLOBS}{reference}"),
            Self::Other(name) => f.write_str(name),
            Self::OtherOfSession(name) => write!(f, "session/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_round_trips_through_its_path() {
        let digest = Sha256::of(b"x");
        let sections = [
            BundleSection::SchemaVersion,
            BundleSection::BundleId,
            BundleSection::ExportedAt,
            BundleSection::Producer,
            BundleSection::Salvage,
            BundleSection::Redaction,
            BundleSection::SessionId,
            BundleSection::Events,
            BundleSection::Manifest,
            BundleSection::Snapshot(SnapshotRef::new(digest)),
            BundleSection::Workflow(WorkflowHash::new(digest)),
            BundleSection::Blob(BlobRef::new(digest)),
            BundleSection::Other("later".to_owned()),
            BundleSection::OtherOfSession("later".to_owned()),
        ];
        for section in sections {
            assert_eq!(BundleSection::parse(&section.to_string()), Some(section));
        }
    }

    #[test]
    fn path_tricks_are_not_sections() {
        let bad = [
            "session",
            "integrity",
            "session/snapshots",
            "session/snapshots/",
            "session/snapshots/../events",
            "session/blobs/sha256:00",
            "session/events/0",
            "../session/events",
            "/session/events",
        ];
        for path in bad {
            let found = BundleSection::parse(path);
            assert!(matches!(found, None | Some(BundleSection::OtherOfSession(_))), "{path}: {found:?}");
            assert_ne!(found, Some(BundleSection::Events), "{path}");
        }
    }

    #[test]
    fn blobs_are_text_where_they_can_be() {
        for (bytes, text) in [
            (b"{\"kind\":\"x\"}\n".to_vec(), true),
            (b"".to_vec(), true),
            ("\u{0}state\u{0} and a long reply around it".as_bytes().to_vec(), true),
            (vec![0xff, 0xfe], false),
            (vec![0; 64], false),
        ] {
            let blob = BlobText::of(&bytes);
            assert_eq!(matches!(blob, BlobText::Utf8(_)), text, "{bytes:?}");
            assert_eq!(blob.into_bytes(), Some(bytes));
        }
        assert_eq!(BlobText::Base64("QQ".to_owned()).into_bytes(), None, "padding is part of the form");
        assert_eq!(BlobText::Base64("QR==".to_owned()).into_bytes(), None, "bits that say nothing are zero");
    }
}
