//! What is known of the work beside what the agent says: what a host's hook saw, and what the engine checked itself
//! (G104).
//!
//! The kind of evidence decides its grade, so that nothing that a hook hands over can pass for a check.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::canonical::to_canonical;
use crate::closed_set::closed_set;
use crate::digest::{BlobRef, Sha256};
use crate::limits::{
    EVIDENCE_ARGUMENT_BYTES_MAX, EVIDENCE_ARGUMENTS_MAX, EVIDENCE_COMMAND_BYTES_MAX,
    EVIDENCE_OUTPUT_BYTES_MAX, EVIDENCE_PATH_BYTES_MAX, EVIDENCE_PATHS_MAX, EVIDENCE_TAIL_BYTES_MAX,
    SAFE_INTEGER_MAX,
};
use crate::text::BoundedText;
use crate::time::Timestamp;

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

/// A path relative to the root of the repository, with `/` between its parts.
pub type EvidencePath = BoundedText<EVIDENCE_PATH_BYTES_MAX>;

/// Paths, as many as an event holds, and how many more there were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", try_from = "WrittenPaths")]
#[schemars(with = "WrittenPaths")]
pub struct PathList {
    paths: Vec<EvidencePath>,
    #[serde(default, skip_serializing_if = "is_zero")]
    more: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WrittenPaths {
    #[schemars(length(max = 50))]
    paths: Vec<EvidencePath>,
    #[serde(default)]
    more: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl TryFrom<WrittenPaths> for PathList {
    type Error = String;

    fn try_from(written: WrittenPaths) -> Result<Self, String> {
        let WrittenPaths { paths, more } = written;
        match paths.len() > EVIDENCE_PATHS_MAX {
            true => Err(format!("holds {} paths, at most {EVIDENCE_PATHS_MAX} are allowed", paths.len())),
            false => Ok(Self { paths, more }),
        }
    }
}

impl PathList {
    /// A path that is too long for an event is counted and not cut: cut, it would name another file.
    pub fn new(paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut list = Self::default();
        for path in paths {
            match BoundedText::new(path) {
                Ok(path) if list.paths.len() < EVIDENCE_PATHS_MAX => list.paths.push(path),
                Ok(_) | Err(_) => list.more += 1,
            }
        }
        list
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(|path| path.as_str())
    }

    /// How many there were beside those that are named.
    pub fn more(&self) -> u64 {
        self.more
    }

    pub fn total(&self) -> u64 {
        self.paths.len() as u64 + self.more
    }

    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }
}

/// A file's content as the engine saw it: two marks are equal if the file did not change between them.
pub type FileMark = BoundedText<64>;

/// The files of a repository that differ from its HEAD, each with a mark of its content.
pub type DirtyFiles = BTreeMap<EvidencePath, FileMark>;

/// A working tree at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkingTree {
    pub branch: Option<String>,
    pub head: Option<String>,
    pub dirty: DirtyFiles,
}

impl WorkingTree {
    /// Two equal fingerprints are the same tree.
    pub fn fingerprint(&self) -> Sha256 {
        // Texts alone always have a canonical form.
        Sha256::of(&to_canonical(&(&self.head, &self.dirty)).expect("texts have a canonical form"))
    }
}

/// What looking at a workspace gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TreeLook {
    /// It is no repository.
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
    /// Why the engine did not look at a repository that is there.
    pub enum NotSeenReason {
        /// It has too many files that differ from HEAD.
        TooLarge,
        /// Looking took too long.
        TimedOut,
        /// git is not installed or refused.
        GitFailed,
    }
}

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
    }
}

/// The name of a check in the project's checks file.
pub type CheckName = BoundedText<64>;

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
    /// The end of what it wrote.
    pub tail: BoundedText<EVIDENCE_TAIL_BYTES_MAX>,
    /// All that was kept of it, where the tail is not all.
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
    SubagentEnded {
        agent: BoundedText<128>,
    },
    /// The step was handed out in a chat that the host's hooks see. With nothing else observed, nothing was run there.
    ChatWatched,
}

impl Evidence {
    /// How well it is known follows from who could have seen it.
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
            Self::CheckRun(run) => [run.outcome.ended().map(|ended| ended.duration_ms), None],
            Self::CommandRun { duration_ms, .. } => [*duration_ms, None],
            Self::FilesEdited { files } | Self::EditRefused { files } => [Some(files.more()), None],
            Self::WorkspaceNotSeen { .. }
            | Self::CommandRefused { .. }
            | Self::SubagentStarted { .. }
            | Self::SubagentEnded { .. }
            | Self::ChatWatched => [None, None],
        };
        // Beyond it a number has no canonical form, and the whole plan would be refused.
        match counts.into_iter().flatten().all(|count| count <= SAFE_INTEGER_MAX) {
            true => Ok(()),
            false => Err("a number is too large"),
        }
    }
}

/// Something that a hook cannot have seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObservationError {
    #[error("a hook observes; only the engine checks")]
    NotObserved,
    #[error("what a command wrote is handed over as text, not as a reference")]
    HasReference,
    #[error("{0}")]
    Invalid(&'static str),
}

/// What a host's hook saw, as it waits to be recorded by the next advance. Never truth: it may be lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "WrittenObservation")]
pub struct HookObservation {
    seen_at: Timestamp,
    host: BoundedText<32>,
    evidence: Evidence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<BoundedText<EVIDENCE_OUTPUT_BYTES_MAX>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenObservation {
    seen_at: Timestamp,
    host: BoundedText<32>,
    evidence: Evidence,
    #[serde(default)]
    output: Option<BoundedText<EVIDENCE_OUTPUT_BYTES_MAX>>,
}

impl TryFrom<WrittenObservation> for HookObservation {
    type Error = ObservationError;

    fn try_from(written: WrittenObservation) -> Result<Self, ObservationError> {
        let WrittenObservation { seen_at, host, evidence, output } = written;
        Ok(Self { output, ..Self::new(seen_at, host, evidence)? })
    }
}

impl HookObservation {
    pub fn new(
        seen_at: Timestamp,
        host: BoundedText<32>,
        evidence: Evidence,
    ) -> Result<Self, ObservationError> {
        if evidence.grade() != EvidenceGrade::Observed {
            return Err(ObservationError::NotObserved);
        }
        if !evidence.blob_refs().is_empty() {
            return Err(ObservationError::HasReference);
        }
        evidence.check().map_err(ObservationError::Invalid)?;
        Ok(Self { seen_at, host, evidence, output: None })
    }

    /// Adds what the command wrote; the end is kept, where failures are.
    pub fn with_output(mut self, output: &str) -> Self {
        self.output = (!output.is_empty()).then(|| BoundedText::clip(last_bytes(output)));
        self
    }

    pub fn seen_at(&self) -> &Timestamp {
        &self.seen_at
    }

    pub fn host(&self) -> &BoundedText<32> {
        &self.host
    }

    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    pub fn output(&self) -> Option<&str> {
        self.output.as_ref().map(|output| output.as_str())
    }
}

/// The end of a text, as much as an observation holds.
fn last_bytes(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(EVIDENCE_OUTPUT_BYTES_MAX))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        Timestamp::parse("2026-01-02T03:04:05.678Z").unwrap()
    }

    #[test]
    fn a_hook_cannot_hand_over_a_check() {
        let check = CheckRun {
            name: BoundedText::clip("test"),
            argv: Vec::new(),
            outcome: CheckResult::NotRun { reason: NotRunReason::Untrusted },
        };
        let host = BoundedText::clip("claude-code");
        let refused = HookObservation::new(at(), host, Evidence::CheckRun(check.clone()));
        assert_eq!(refused, Err(ObservationError::NotObserved));
        let forged = serde_json::json!({
            "seenAt": at(), "host": "claude-code", "evidence": Evidence::CheckRun(check),
        });
        assert!(serde_json::from_value::<HookObservation>(forged).is_err());
    }

    #[test]
    fn an_observation_keeps_the_end_of_what_a_command_wrote() {
        let command = Evidence::CommandRun {
            command: BoundedText::clip("cargo test"),
            exit_code: Some(101),
            duration_ms: Some(12),
            output_ref: None,
        };
        let long = format!("{}ü failed", "x".repeat(EVIDENCE_OUTPUT_BYTES_MAX));
        let seen =
            HookObservation::new(at(), BoundedText::clip("codex"), command).unwrap().with_output(&long);
        assert!(seen.output().unwrap().ends_with("ü failed"));
        assert!(seen.output().unwrap().len() <= EVIDENCE_OUTPUT_BYTES_MAX);
        let again: HookObservation = serde_json::from_value(serde_json::to_value(&seen).unwrap()).unwrap();
        assert_eq!(again, seen);
    }

    #[test]
    fn paths_beyond_the_limit_are_counted() {
        let many = (0..EVIDENCE_PATHS_MAX + 7).map(|n| format!("src/{n}.rs"));
        let list = PathList::new(many.chain(["x".repeat(EVIDENCE_PATH_BYTES_MAX + 1)]));
        assert_eq!((list.paths().count(), list.more()), (EVIDENCE_PATHS_MAX, 8));
        let mut written = serde_json::to_value(&list).unwrap();
        assert_eq!(serde_json::from_value::<PathList>(written.clone()).unwrap(), list);
        written["paths"].as_array_mut().unwrap().push("one".into());
        assert!(serde_json::from_value::<PathList>(written).is_err());
    }
}
