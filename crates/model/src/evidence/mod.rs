//! What is known of the work besides what the agent says: what a host's hook saw, and what the engine checked itself
//! (G104).
//!
//! The kind of evidence decides its grade, so that nothing a hook submits can pass as a check.

mod check;
mod observation;
mod paths;
mod process;
mod workspace;

pub use check::{CheckResult, CheckRun, Confinement, EndedCheck, NotRunReason};
pub use observation::{HookObservation, ObservationError};
pub use paths::PathList;
pub use process::{ClippedOutput, EndedProcess, ProcessEnding};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use workspace::{
    ContentStamp, DirtyFiles, NotSeenReason, RecordedFiles, TreeInspection, WorkingTree, WorkspaceState,
};

use crate::closed_set::closed_set;
use crate::digest::BlobRef;
use crate::limits::{
    EVIDENCE_ARGUMENTS_MAX, EVIDENCE_COMMAND_BYTES_MAX, EVIDENCE_PATHS_MAX, SAFE_INTEGER_MAX,
};
use crate::text::BoundedText;

closed_set! {
    "snake_case",
    /// How a statement is known, weakest first.
    pub enum EvidenceGrade {
        /// The agent says so.
        Claimed,
        /// A hook of the agent's host saw it.
        Observed,
        /// The engine ran it or looked itself.
        Checked,
    }
}

/// One thing that is known of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Evidence {
    /// The engine looked at the repository.
    WorkspaceState(WorkspaceState),
    /// The engine would have looked and could not.
    WorkspaceNotSeen {
        reason: NotSeenReason,
    },
    /// The engine ran a check of the step, or says why it did not.
    CheckRun(CheckRun),
    /// The agent ran a command.
    #[serde(rename_all = "camelCase")]
    CommandRun {
        command: BoundedText<EVIDENCE_COMMAND_BYTES_MAX>,
        /// Absent where the host does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        /// What it wrote, as far as the hook kept it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output_ref: Option<BlobRef>,
    },
    /// The agent edited files with the host's tools.
    FilesEdited {
        files: PathList,
    },
    /// The hook refused an edit that the step does not allow.
    EditRefused {
        files: PathList,
    },
    /// The hook refused a command that is a person's to give.
    CommandRefused {
        command: BoundedText<EVIDENCE_COMMAND_BYTES_MAX>,
    },
    /// The agent started another agent.
    SubagentStarted {
        agent: BoundedText<128>,
    },
    // Part of the locked set; nothing writes it. The end of an agent is seen as the end of its turn, which holds or frees
    // it and proves nothing about work.
    SubagentEnded {
        agent: BoundedText<128>,
    },
    /// The step was handed out in a chat that the host's hooks see. With nothing else observed, nothing was run there.
    ChatWatched,
}

impl Evidence {
    /// How well it is known, which follows from who could have seen it.
    pub fn grade(&self) -> EvidenceGrade {
        match self {
            Self::WorkspaceState(_) | Self::WorkspaceNotSeen { .. } | Self::CheckRun(_) => {
                EvidenceGrade::Checked
            }
            Self::CommandRun { .. }
            | Self::FilesEdited { .. }
            | Self::EditRefused { .. }
            | Self::CommandRefused { .. }
            | Self::SubagentStarted { .. }
            | Self::SubagentEnded { .. }
            | Self::ChatWatched => EvidenceGrade::Observed,
        }
    }

    pub fn check_run(&self) -> Option<&CheckRun> {
        match self {
            Self::CheckRun(run) => Some(run),
            Self::WorkspaceState(_)
            | Self::WorkspaceNotSeen { .. }
            | Self::CommandRun { .. }
            | Self::FilesEdited { .. }
            | Self::EditRefused { .. }
            | Self::CommandRefused { .. }
            | Self::SubagentStarted { .. }
            | Self::SubagentEnded { .. }
            | Self::ChatWatched => None,
        }
    }

    /// The content that it refers to, in field order.
    pub fn blob_refs(&self) -> Vec<BlobRef> {
        match self {
            Self::WorkspaceState(state) => match &state.dirty {
                RecordedFiles::Here { .. } => Vec::new(),
                RecordedFiles::Content { blob_ref, .. } => vec![*blob_ref],
            },
            Self::CheckRun(run) => {
                run.outcome.ended().and_then(|ended| ended.output_ref).into_iter().collect()
            }
            Self::CommandRun { output_ref, .. } => output_ref.iter().copied().collect(),
            Self::WorkspaceNotSeen { .. }
            | Self::FilesEdited { .. }
            | Self::EditRefused { .. }
            | Self::CommandRefused { .. }
            | Self::SubagentStarted { .. }
            | Self::SubagentEnded { .. }
            | Self::ChatWatched => Vec::new(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let counts = match self {
            Self::WorkspaceState(state) => match &state.dirty {
                RecordedFiles::Here { files } if files.len() > EVIDENCE_PATHS_MAX => {
                    return Err("dirty.files has too many files for an event");
                }
                RecordedFiles::Here { .. } => [state.changed.as_ref().map(PathList::more), None],
                RecordedFiles::Content { count, .. } => {
                    [state.changed.as_ref().map(PathList::more), Some(*count)]
                }
            },
            Self::CheckRun(run) if run.argv.len() > EVIDENCE_ARGUMENTS_MAX => {
                return Err("argv has too many arguments");
            }
            Self::CheckRun(run) => {
                let ended = run.outcome.ended();
                [ended.map(|ended| ended.duration_ms), ended.map(|ended| ended.output_bytes)]
            }
            Self::CommandRun { duration_ms, .. } => [*duration_ms, None],
            Self::FilesEdited { files } | Self::EditRefused { files } => [Some(files.more()), None],
            Self::WorkspaceNotSeen { .. }
            | Self::CommandRefused { .. }
            | Self::SubagentStarted { .. }
            | Self::SubagentEnded { .. }
            | Self::ChatWatched => [None, None],
        };
        // A larger number has no canonical form, and the whole plan would be refused.
        match counts.into_iter().flatten().all(|count| count <= SAFE_INTEGER_MAX) {
            true => Ok(()),
            false => Err("a number is too large"),
        }
    }
}
