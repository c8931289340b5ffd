//! What was done, step by step and by whom: a projection of one session for people to read.
//!
//! [`build`] makes a [`Report`] from the folded state, the events and the content they refer to. Every renderer takes
//! that value: [`markdown`], the engine's HTML, and JSON by `serde`. What is shown, in which order and under
//! which names, is decided once, in [`sections`] and [`words`]; a renderer decides how it looks. Equal stores
//! give equal bytes (G76): there is no "generated now", and clock times are shown but never order anything (G6).
//! A damaged session is reported up to the damage, and every rendering says so first (G20).
//!
//! Code map: `attempt` what one attempt recorded, `build` the run, `node` one point of it, `point` how points are
//! named, `table` artifacts by their contracts, `context` what may be shown of the context, `budget` how much text a
//! report includes, `timing` times for display, `graph` where the run graph's points are drawn, `path` the same with
//! loops and forks folded, `sections` what is shown, `words` how things are called, `markdown` the text form.

mod attempt;
mod budget;
mod build;
mod context;
pub mod graph;
pub mod markdown;
mod node;
pub mod path;
mod point;
pub mod sections;
mod signature;
mod table;
mod timing;
pub mod words;

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use workrail_model::approval::Descent;
use workrail_model::capability::{Capability, CapabilityStatus, Provenance};
use workrail_model::digest::WorkflowHash;
use workrail_model::event::{
    DivergenceReason, EdgeCauseKind, EventIndex, NodeKind, TraceKind, WorkflowSourceKind,
};
use workrail_model::gap::Severity;
use workrail_model::health::SessionHealth;
use workrail_model::id::{GapId, NodeId, RunId, SessionId};
use workrail_model::name::{LoopId, StepId, WorkflowId};
use workrail_model::preferences::{Preferences, RunStatus};
use workrail_model::reason::Reason;
use workrail_model::time::Timestamp;

use crate::progress::Progress;

pub use attempt::{
    Artifact, ArtifactView, Assessment, Attempt, Body, EvidenceReport, Field, Outcome, ReportedOutput,
    SubmittedArtifact, Table,
};
pub use build::{ContentReader, Detail, ReportInput, build, point_names};
pub use context::ContextValues;
pub(crate) use context::seen as seen_context_value;
pub(crate) use point::branch_number;
pub use point::{PointName, branch_letter};
pub use signature::{SeenChallenges, Signature, Signatures, check_event, is_signed, signatures};
pub(crate) use timing::elapsed;
pub use timing::{Times, ago, elapsed_text, shown};

/// The version of the report's format; readers of `--format json` check it first.
pub(crate) const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub version: u32,
    pub session_id: SessionId,
    pub covers: Covers,
    /// How much of the log can be trusted; beyond it nothing is reported.
    pub health: SessionHealth,
    /// How many events the report is made from.
    pub events: u64,
    pub span: TimeSpan,
    /// The latest observation of each kind: branch, commit.
    pub workspace: Vec<Observed>,
    /// Notes of the session itself, outside any run.
    pub notes: Vec<ReportedOutput>,
    pub runs: Vec<RunReport>,
    /// Recorded content that cannot be read, and texts that were left out because the report is too long.
    pub remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Covers {
    Session,
    #[serde(rename_all = "camelCase")]
    Run {
        run_id: RunId,
    },
}

/// From the first to the last clock time; shown, never used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimeSpan {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Absent when a clock went backwards in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    pub key: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    pub run_id: RunId,
    pub label: String,
    pub workflow: WorkflowFacts,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Absent when the content that says it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Its session is damaged: the report ends before the damage, and the run cannot be continued. The report's
    /// `health` says more.
    #[serde(skip)]
    pub is_damaged: bool,
    /// The member of the team who started it, where the record names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_by: Option<String>,
    /// The member of the team who worked on it last, where a record names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_actor: Option<String>,
    /// The last attempt was refused for something that only a person can give.
    pub waits_for_person: bool,
    /// That a person closed it, while nothing was recorded of it since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentRun>,
    /// Where the run continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tip: Option<NodeId>,
    /// Where the pending step is; absent when the run is complete or cannot be read.
    #[serde(flatten)]
    pub progress: Option<Progress>,
    pub span: TimeSpan,
    pub counts: RunCounts,
    /// In the order of creation.
    pub nodes: Vec<NodeReport>,
    /// The first is the one on which the run continues; the others in the order in which they began.
    pub branches: Vec<BranchReport>,
    pub gaps: Vec<GapReport>,
    pub divergences: Vec<DivergenceReport>,
    pub preferences: Vec<PreferenceReport>,
    pub capabilities: Vec<CapabilityReport>,
    /// As it holds where the run continues.
    pub context: Vec<ContextEntry>,
    /// Tables that are keyed, such as changed files, merged along the branch on which the run continues.
    pub tables: Vec<Table>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowFacts {
    pub workflow_id: WorkflowId,
    /// Absent when the pinned workflow cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub workflow_hash: WorkflowHash,
    pub source_kind: WorkflowSourceKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentRun {
    pub label: String,
    pub run_id: RunId,
    pub node_id: NodeId,
}

/// Why a run was closed, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClosedRun {
    pub reason: String,
    pub by: ActorKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCounts {
    pub nodes: u64,
    pub advances: u64,
    pub blocked_attempts: u64,
    pub checkpoints: u64,
    pub branches: u64,
    pub open_gaps: u64,
    pub artifacts: u64,
}

/// A durable point of the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// What people call the point by.
    pub point: PointName,
    /// The number of its step, as replies count.
    pub step_number: u64,
    pub node_id: NodeId,
    pub link: String,
    pub kind: NodeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<NodeId>,
    /// The index of its branch among the run's branches.
    pub branch: u64,
    /// Why the edge to it exists; absent at the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached_by: Option<EdgeCauseKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    pub step: StepReport,
    pub branch_position: BranchPosition,
    pub attempts: Vec<Attempt>,
    /// What was saved here without completing the step.
    pub saved: Vec<ReportedOutput>,
    pub decisions: Vec<Decision>,
    pub approvals: Vec<Approval>,
    /// Keys whose values hold from here on.
    pub context_keys: Vec<String>,
    /// The loops that the point is in, outermost first. For drawing; readers of JSON have them in words.
    #[serde(skip)]
    pub rounds: Vec<Round>,
    /// What was skipped on the way here, in the order of the plan. For drawing.
    #[serde(skip)]
    pub skipped: Vec<SkippedStep>,
}

/// One pass of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    pub loop_id: LoopId,
    pub title: String,
    /// Counted from 0.
    pub iteration: u32,
}

/// A step or loop whose condition did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedStep {
    pub title: String,
    /// The condition in words.
    pub condition: String,
}

/// What the point asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepReport {
    #[serde(rename_all = "camelCase")]
    Pending {
        step_id: StepId,
        title: String,
        /// The loops it is in, outermost first, such as `slice 2 of 3`; iterations are counted from 1.
        loops: Vec<String>,
    },
    /// The workflow is done here.
    Complete,
    /// The content that says it cannot be read.
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BranchPosition {
    /// Work continued beyond it.
    Passed,
    /// The end of a branch on which the run does not continue.
    BranchEnd,
    /// The run current.
    Tip,
}

/// Who did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Actor")]
pub enum ActorKind {
    Agent,
    /// A person who typed a label at a terminal.
    Terminal,
    /// The program that runs the agent, when it was asked to show the user a form.
    Chat,
    /// A person who sent a form of the console.
    Console,
    /// A person with a passkey.
    Passkey,
    CommandLine,
    /// The call that started the run.
    User,
    Workflow,
    System,
}

/// Why the engine chose what it chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    pub kind: TraceKind,
    pub summary: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    pub by: ActorKind,
    /// The member of the team, where the record names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Whether it was given with a token of the team, through the team's server.
    #[serde(skip)]
    pub with_token: bool,
    /// Whether the approving process descended from the program that ran a server; absent when unknown.
    #[serde(skip_serializing_if = "Descent::is_unknown")]
    pub descends_from_server: Descent,
    pub approved: bool,
    /// The passkey that signed it, by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What its signature is worth, as it was checked for this report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// How often the passkeys of the store had been reset before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets: Option<u32>,
    pub step_id: StepId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchReport {
    pub number: u64,
    pub preferred: bool,
    /// The point it left from; absent for the branch that holds the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<PointName>,
    pub first: PointName,
    pub last: PointName,
    /// How many steps it completed itself.
    pub steps: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<EdgeCauseKind>,
    /// What it did first.
    pub summary: String,
    pub current_step: StepReport,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GapReport {
    pub gap_id: GapId,
    pub point: PointName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    pub severity: Severity,
    pub reason: Reason,
    pub summary: String,
    pub state: GapReportState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GapReportState {
    Open,
    #[serde(rename_all = "camelCase")]
    Resolved {
        by: GapId,
        summary: String,
        point: PointName,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DivergenceReport {
    pub point: PointName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    pub reason: DivergenceReason,
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related_step_id: Option<StepId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferenceReport {
    pub point: PointName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    pub by: ActorKind,
    /// What the signature of the passkey is worth, where one agreed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    pub effective: Preferences,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapabilityReport {
    pub point: PointName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    pub capability: Capability,
    pub status: CapabilityStatus,
    pub provenance: Provenance,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextEntry {
    pub key: String,
    pub value: ContextValue,
}

/// What is shown of a context value: nothing unless asked for, and never what its key calls a secret.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ContextValue {
    NotShown,
    Withheld,
    Shown {
        value: Value,
    },
    /// A long text, or a list or an object of any length.
    TooLong {
        bytes: u64,
    },
}

impl Report {
    /// Where the trusted part ends, and why; `None` for a healthy session.
    pub(crate) fn damage(&self) -> Option<(EventIndex, String)> {
        match &self.health {
            SessionHealth::Healthy => None,
            SessionHealth::CorruptTail { valid_until, reason } => Some((*valid_until, reason.to_string())),
            SessionHealth::CorruptHead { reason } => Some((EventIndex::ZERO, reason.to_string())),
            SessionHealth::UnknownVersion { record, version } => {
                Some((EventIndex::ZERO, format!("{record} has version {version}")))
            }
        }
    }
}
