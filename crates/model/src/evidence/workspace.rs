//! The repository as the engine saw it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::paths::{EvidencePath, PathList};
use crate::canonical::to_canonical;
use crate::closed_set::closed_set;
use crate::digest::{BlobRef, Sha256};
use crate::text::BoundedText;

/// Identifies a file's content as the engine saw it: equal stamps mean that the file did not change in between.
pub type ContentStamp = BoundedText<64>;

/// The files of a repository that differ from its HEAD, each with a stamp of its content.
pub type DirtyFiles = BTreeMap<EvidencePath, ContentStamp>;

/// A working tree at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkingTree {
    pub branch: Option<String>,
    pub head: Option<String>,
    pub dirty: DirtyFiles,
}

impl WorkingTree {
    /// Equal fingerprints mean equal trees.
    pub fn fingerprint(&self) -> Sha256 {
        Sha256::of(&to_canonical(&(&self.head, &self.dirty)).expect("texts always have a canonical form"))
    }
}

/// The result of looking at a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TreeInspection {
    /// It is not a repository.
    #[default]
    NoRepository,
    NotSeen(NotSeenReason),
    Seen(WorkingTree),
}

/// The repository as the engine found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceState {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BoundedText<256>>,
    /// Absent in a repository without commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<BoundedText<64>>,
    /// Names HEAD and everything that differs from it: two equal fingerprints are the same tree.
    pub tree: Sha256,
    /// What differs from HEAD; in the content store where it is too much for an event.
    pub dirty: RecordedFiles,
    /// The files that changed since the step began. Absent where the state at its beginning is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<PathList>,
}

/// Files that differ from HEAD, within the event or in the content store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "stored", rename_all = "snake_case")]
pub enum RecordedFiles {
    Here {
        files: DirtyFiles,
    },
    /// The canonical JSON of the files.
    #[serde(rename_all = "camelCase")]
    Content {
        blob_ref: BlobRef,
        count: u64,
    },
}

closed_set! {
    "snake_case",
    /// Why the engine did not look at an existing repository.
    pub enum NotSeenReason {
        /// It has too many files that differ from HEAD.
        TooLarge,
        /// Looking took too long.
        TimedOut,
        /// git is not installed or refused.
        GitFailed,
    }
}
