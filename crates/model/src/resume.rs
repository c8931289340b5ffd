//! The answer of `resume_session`: a few candidates, each with the call that continues from it (G39).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::closed_set::closed_set;
use crate::id::{RunId, SessionId};
use crate::name::{StepId, WorkflowId};
use crate::preferences::RunStatus;
use crate::reply::{LoopPosition, NextCall, OpenTip};

closed_set! {
    "snake_case",
    /// Why a run is offered; ordered from the strongest reason to the weakest.
    pub enum MatchReason {
        /// The session, the run or its label was named.
        MatchedId,
        MatchedHeadSha,
        MatchedBranch,
        MatchedNotes,
        MatchedArtifacts,
        MatchedGoal,
        MatchedWorkflowId,
        /// Some of the words, not all.
        MatchedSomeWords,
        RecencyFallback,
    }
}

/// A run that may be the one that is looked for, at its preferred tip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    pub session_id: SessionId,
    /// Absent for a session that holds notes without a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<WorkflowId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_title: Option<String>,
    /// Counted from 1, as replies count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_number: Option<u64>,
    /// How many steps follow, as far as it can be known now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about_left: Option<u64>,
    /// The loops that the step is in, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<LoopPosition>,
    /// When it was last worked on; for people, nothing is ranked by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_worked_on: Option<String>,
    /// Who worked on it last (G114); absent in a data directory, which has one user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_actor: Option<String>,
    pub why_matched: Vec<MatchReason>,
    /// The same in words.
    pub reason: String,
    /// The words of the query that were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matched_words: Vec<String>,
    /// What was recorded, for telling candidates apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// What is unfinished on other branches of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_tips: Vec<OpenTip>,
    /// The workflow's file has changed since the run was started, which keeps its version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub workflow_changed: bool,
    /// Why the run cannot continue now, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Absent only where the signing keys cannot be used, which people may look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeBody {
    /// All of the answer in words.
    pub text: String,
    pub candidates: Vec<Candidate>,
    /// How many runs were looked at.
    pub searched_runs: u64,
    /// Sessions that are damaged and therefore not offered.
    pub unhealthy_sessions: u64,
    /// The first candidate's pending step, as `continue_workflow` shows it; present when it is clear that this run is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Map<String, Value>>,
    /// The call for the first candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
}
