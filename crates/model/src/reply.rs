//! The answer of an execution call: text that is complete by itself, and the same as data (G72).
//!
//! A reply is stored with its attempt so that a replay returns the same bytes (G30). Tokens are not
//! stored: the body contains a marker for each, and signing replaces it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::blocker::Blocker;
use crate::canonical::{CanonicalError, to_canonical};
use crate::closed_set::closed_set;
use crate::event::EventIndex;
use crate::id::{RunId, SessionId};
use crate::name::{StepId, WorkflowId};
use crate::preferences::{NextIntent, Preferences, RunStatus};
use crate::tool::ToolName;

/// The member of a tool result's `_meta` that holds the whole reply as data (G72).
pub const META_KEY: &str = "workrail/reply";

/// Marks the position of a token in a stored reply. Authored text cannot contain one: NUL is replaced there.
pub const STATE_TOKEN_MARKER: &str = "\u{0}state\u{0}";
pub const ACK_TOKEN_MARKER: &str = "\u{0}ack\u{0}";
pub const CHECKPOINT_TOKEN_MARKER: &str = "\u{0}checkpoint\u{0}";

/// The start of a marker for another node's bookmark; the index of its `node_created` follows.
const OTHER_STATE: &str = "\u{0}state@";

/// The marker for the bookmark of another node in the session, named by the index of its event.
pub fn state_marker_of(node: EventIndex) -> String {
    format!("{OTHER_STATE}{}\u{0}", node.get())
}

/// Replaces every marker of another node's bookmark with what `sign` returns for its event index.
pub fn replace_state_markers(text: &str, mut sign: impl FnMut(EventIndex) -> String) -> String {
    let mut signed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OTHER_STATE) {
        signed.push_str(before);
        let (digits, tail) = after.split_once('\u{0}').unwrap_or((after, ""));
        if let Some(index) = digits.parse().ok().and_then(EventIndex::new) {
            signed.push_str(&sign(index));
        }
        rest = tail;
    }
    signed.push_str(rest);
    signed
}

/// Replaces what could be taken for a token marker.
pub fn without_markers(text: &str) -> String {
    text.replace('\u{0}', "\u{fffd}")
}

closed_set! {
    "snake_case",
    pub enum ReplyKind {
        Ok,
        Blocked,
    }
}

/// Which run this is about; shown first, so that several runs in one chat are not mixed up (G35).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunInfo {
    /// The run's two-word name.
    pub label: String,
    pub workflow_id: WorkflowId,
    pub session_id: SessionId,
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// Counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_number: Option<u64>,
    /// How many steps follow, as far as it can be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about_left: Option<u64>,
    /// The loops that the step is in, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<LoopPosition>,
}

/// Which iteration of a loop a step is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoopPosition {
    /// What an iteration is called: the variable of its item, or the loop's id.
    pub name: String,
    /// Counted from 1.
    pub iteration: u64,
    /// How many there are, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
}

impl fmt::Display for LoopPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.iteration)?;
        self.of.map_or(Ok(()), |of| write!(f, " of {of}"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingBody {
    pub step_id: StepId,
    pub title: String,
    /// The whole instruction for this step.
    pub prompt: String,
    pub require_confirmation: bool,
}

/// The exact next call: tool and arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextCall {
    #[schemars(with = "String")]
    pub tool: ToolName,
    pub arguments: Map<String, Value>,
}

impl NextCall {
    pub fn new(tool: ToolName, arguments: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        let arguments = arguments.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { tool, arguments }
    }

    /// The tool and its arguments, as replies name a call within a line; markers intact.
    pub fn in_a_line(&self) -> String {
        format!("{} {}", self.tool, self.arguments_text())
    }

    /// The arguments as one line of JSON, markers intact.
    pub fn arguments_text(&self) -> String {
        let mut text = Value::Object(self.arguments.clone()).to_string();
        // Markers contain NUL characters; written as JSON they would be escaped and never be found again. Other NULs
        // are the author's text and stay escaped.
        for marker in [STATE_TOKEN_MARKER, ACK_TOKEN_MARKER, CHECKPOINT_TOKEN_MARKER] {
            text = text.replace(&marker.replace('\u{0}', "\\u0000"), marker);
        }
        let mut shown = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("\\u0000state@") {
            let (digits, tail) = after.split_once("\\u0000").unwrap_or((after, ""));
            shown.push_str(&format!("{before}{OTHER_STATE}{digits}\u{0}"));
            rest = tail;
        }
        shown.push_str(rest);
        shown
    }
}

closed_set! {
    "SCREAMING_SNAKE_CASE",
    pub enum WarningCode {
        /// This step was completed before with another payload; the recorded result is returned.
        ReplayInputDiffers,
        /// The mode goes beyond what the workflow recommends.
        PreferencesAboveRecommendation,
        /// A document that the workflow refers to was not found.
        ReferenceUnresolved,
        /// Steps were skipped because the context key that their conditions read was never set.
        ContextKeyNeverSet,
        /// What was sent contradicts what was observed or checked.
        ClaimContradicted,
        /// A preferred capability is unavailable, so the plainer path is taken.
        CapabilityDegraded,
        /// A loop ended at its limit before it was done.
        LoopLimitReached,
        /// What would have stopped the run in another mode was skipped and recorded as a gap.
        GapRecorded,
        /// The workflow's file has changed since the run was pinned to it; the run is not affected.
        PinnedWorkflowDiffers,
        /// The workflow's id is an old id without a namespace.
        LegacyWorkflowId,
        /// The run was started by an older name of the workflow.
        AliasUsed,
        /// A change of preferences waits for the next advance.
        PreferencesPending,
        /// An artifact has an unknown kind in WorkRail's namespace; it is kept and means nothing.
        UnknownArtifactKind,
        /// Arguments were not in the documented form; they were adjusted or ignored.
        ArgumentsAdjusted,
        /// The call names no folder and the client cannot be asked for it, so the server's own folder was used.
        WorkspaceAssumed,
        /// Folders or files of workflows that would take precedence over the started one could not be read.
        SourceUnreadable,
        /// The client was asked to show the user what the step waits for, and sent an answer. The next call follows from it.
        UserAnswered,
        /// The client sent an answer from the user that was not recorded: what it is about, or the settings, changed meanwhile.
        UserAnswerNotRecorded,
        /// A person closed the run. It is shown all the same; completing the step reopens it.
        RunClosed,
        /// A person had closed the run, and this call reopened it.
        RunReopened,
        /// How the approval of the completed step was given, and what that proves.
        ApprovedHow,
        /// A check of the completed step was not run; the warning says why.
        CheckNotRun,
        /// The repository changed while a check ran.
        CheckChangedTree,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    pub code: WarningCode,
    pub message: String,
}

/// What the completed step left as structured facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepContext {
    /// The assessment that was accepted last.
    pub assessments: AssessmentFacts,
    /// The others that the step asked for, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_assessments: Vec<AssessmentFacts>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssessmentFacts {
    pub assessment_id: String,
    pub dimensions: Vec<DimensionFact>,
    /// Which levels were accepted under another spelling; empty when all matched exactly.
    pub normalization_notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DimensionFact {
    pub dimension_id: String,
    pub level: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
}

/// What was recorded before this point: what it is for, how it began, what was planned, and the newest (G53).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recap {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// The newest notes of the session itself, outside any run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub session_notes: Vec<String>,
    /// The first step and the latest plan, where they are too old to be among the newest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<RecapEntry>,
    /// Oldest first.
    pub entries: Vec<RecapEntry>,
    pub truncated: bool,
    /// How many recorded steps are not shown.
    pub omitted: u64,
    /// How it was shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecapEntry {
    /// The title of the step that the notes belong to.
    pub title: String,
    pub checkpoint: bool,
    pub notes: String,
}

/// A way that was taken from this point before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Branch {
    /// The branch on which the run last continued.
    pub preferred: bool,
    /// How many steps it went beyond this point.
    pub steps: u64,
    /// What it did first.
    pub summary: String,
    /// The pending step, when it is not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_step: Option<String>,
    pub is_complete: bool,
    /// Shows where the branch is and changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
}

/// An unfinished end of the run on another branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenTip {
    /// Counted from 1.
    pub step_number: u64,
    /// Absent when its content cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The step at which its branch left the way that is shown.
    pub from_step: u64,
    /// What was recorded on it last.
    pub summary: String,
    /// Shows where the branch is and changes nothing. Absent only where the signing keys cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
}

/// What a finished run that was started inside this step brought back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildResult {
    pub label: String,
    pub workflow_id: WorkflowId,
    pub status: RunStatus,
    /// Its last notes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// The newest artifact of each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactGist>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_gaps: Vec<String>,
    /// Reads all of it.
    pub next_call: NextCall,
}

/// The beginning of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactGist {
    pub kind: String,
    pub gist: String,
}

/// Where a run is now, for a caller who asked for another point of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunIsAt {
    /// Whether the run continued from the requested point; otherwise that is on another branch.
    pub is_ahead: bool,
    pub is_complete: bool,
    /// Counted from 1.
    pub step_number: u64,
    /// Absent when nothing is pending there, or its content cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub next_call: NextCall,
}

/// Another unfinished run of the same session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtherRun {
    pub label: String,
    pub workflow_id: WorkflowId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    pub status: RunStatus,
}

/// The way back from a completed run to the one it was started in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReturnTo {
    pub label: String,
    pub workflow_id: WorkflowId,
    pub next_call: NextCall,
}

/// A document the workflow points at, and whether it exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceInfo {
    pub id: String,
    pub title: String,
    pub path: String,
    pub purpose: String,
    pub authoritative: bool,
    pub resolved: bool,
}

/// The body of a reply of `start_workflow`, `continue_workflow` and `checkpoint_workflow`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplyBody {
    pub kind: ReplyKind,
    /// All of the reply in words; nothing the agent needs is only elsewhere. Empty while stored: the
    /// parts next to it hold the words then.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    pub run: RunInfo,
    /// Bookmark of this point: send it alone to get the step again.
    pub state_token: String,
    /// The right to complete the pending step once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_token: Option<String>,
    /// The right to record a checkpoint here once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingBody>,
    /// Present when the run was worked on last elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_is_at: Option<RunIsAt>,
    pub is_complete: bool,
    /// Present once the run is complete: with or without open gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    pub next_intent: NextIntent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
    pub preferences: Preferences,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Blocker>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_context: Option<StepContext>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<ReferenceInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recap: Option<Recap>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Branch>,
    /// What the preferred branch did beyond this point, when this is not a tip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downstream: Option<Recap>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_runs: Vec<OtherRun>,
    /// What is unfinished on other branches of this run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_tips: Vec<OpenTip>,
    /// What finished runs that were started inside this step brought back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_to: Option<ReturnTo>,
    /// Shows the last point that passed. Present once this step was refused several times in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_out: Option<NextCall>,
    /// The workflow's file has changed since the run was started; said in words once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub workflow_changed: bool,
    /// Present after the same ack came with other words: records them on a branch of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_ack_token: Option<String>,
}

/// A reply as it is stored: its words in the order of the content items, and the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoredReply {
    pub parts: Vec<String>,
    pub body: ReplyBody,
}

impl StoredReply {
    /// The bytes that are stored: canonical, with markers instead of tokens.
    pub fn to_canonical(&self) -> Result<Vec<u8>, CanonicalError> {
        to_canonical(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_markers_are_written_unescaped() {
        let marker = state_marker_of(EventIndex::new(17).unwrap());
        let call = NextCall::new(
            ToolName::ContinueWorkflow,
            [("a", Value::from(ACK_TOKEN_MARKER)), ("b", Value::from(marker.clone()))],
        );
        assert_eq!(call.arguments_text(), format!(r#"{{"a":"{ACK_TOKEN_MARKER}","b":"{marker}"}}"#));
        let call = NextCall::new(ToolName::ContinueWorkflow, [("a", Value::from("x\u{0}y"))]);
        assert_eq!(call.arguments_text(), r#"{"a":"x\u0000y"}"#);
    }

    #[test]
    fn marks_of_other_nodes_are_replaced_and_nothing_else() {
        let marker = state_marker_of(EventIndex::new(17).unwrap());
        let text = format!("a {marker} b {marker}{STATE_TOKEN_MARKER}");
        let signed = replace_state_markers(&text, |index| format!("<{}>", index.get()));
        assert_eq!(signed, format!("a <17> b <17>{STATE_TOKEN_MARKER}"));
        assert_eq!(replace_state_markers("\u{0}state@x\u{0}y", |_| "never".into()), "y");
    }
}
