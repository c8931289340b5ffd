//! The outcome of a step's check: a command that the project names and a person trusted (G120).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closed_set::closed_set;
use crate::digest::{BlobRef, Sha256};
use crate::limits::{EVIDENCE_ARGUMENT_BYTES_MAX, EVIDENCE_TAIL_BYTES_MAX};
use crate::name::CheckName;
use crate::text::BoundedText;

closed_set! {
    "snake_case",
    /// Why a check was not run.
    pub enum NotRunReason {
        /// Nobody trusted this command for this workspace and workflow.
        Untrusted,
        /// The project's checks file does not define it.
        Undefined,
        /// The checks file cannot be read as one.
        InvalidFile,
        /// The program is not on the path.
        ProgramMissing,
        /// The folder is not below the workspace's root.
        OutsideWorkspace,
        /// The call is about no workspace.
        NoWorkspace,
        /// The program could not be started.
        NotStarted,
        /// The server runs no checks: a team's server is not where the work is done.
        NotHere,
    }
}

closed_set! {
    "snake_case",
    /// How far the kernel kept a check from writing outside of its workspace.
    pub enum Confinement {
        /// Everything that was asked for holds.
        Full,
        /// The kernel is older and enforces a part of it.
        Partial,
        /// The kernel cannot confine it.
        None,
    }
}

/// What became of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum CheckResult {
    /// It ended as the step expects.
    Passed(EndedCheck),
    Failed(EndedCheck),
    /// Its time was over, and it was killed.
    TimedOut(EndedCheck),
    NotRun {
        reason: NotRunReason,
    },
}

impl CheckResult {
    pub fn ended(&self) -> Option<&EndedCheck> {
        match self {
            Self::Passed(ended) | Self::Failed(ended) | Self::TimedOut(ended) => Some(ended),
            Self::NotRun { .. } => None,
        }
    }

    /// Whether the check changed the repository; unknown counts as no.
    pub fn has_changed_tree(&self) -> bool {
        self.ended().is_some_and(|ended| match (ended.tree_before, ended.tree_after) {
            (Some(before), Some(after)) => before != after,
            (Some(_) | None, _) => false,
        })
    }

    pub fn has_passed(&self) -> bool {
        matches!(self, Self::Passed(_))
    }
}

/// A check whose process has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedCheck {
    /// Absent for a process that a signal ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    pub confinement: Confinement,
    /// The end of what it wrote.
    pub tail: BoundedText<EVIDENCE_TAIL_BYTES_MAX>,
    /// How much it wrote.
    pub output_bytes: u64,
    /// What was kept of it, its beginning and its end, where the tail is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_ref: Option<BlobRef>,
    /// The repository before and after it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_before: Option<Sha256>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_after: Option<Sha256>,
}

/// A check of the step: a command that the project names and a person trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckRun {
    pub name: CheckName,
    /// The program and its arguments; empty where the name is not defined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<BoundedText<EVIDENCE_ARGUMENT_BYTES_MAX>>,
    pub outcome: CheckResult,
}
