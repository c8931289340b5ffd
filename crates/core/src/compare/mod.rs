//! Two branches, attempts or runs side by side: what is the same, what differs, and which one continues.
//!
//! [`build`] makes a [`Comparison`] from two sides; the terminal, `--json` and the console show that one value. Steps are
//! aligned by step id and loop iteration. Nothing is decided by clock times (G6), equal stores give equal bytes (G76), and
//! nothing is written (G36).
//!
//! Code map: `reference` what is compared and how it is written, `sides` the steps of one side, `align` which steps are
//! paired, `diff` lines of notes and fields of artifacts, `build` the whole, `words` the wording.

mod align;
mod build;
mod diff;
mod reference;
mod sides;
pub mod words;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use workrail_model::digest::WorkflowHash;
use workrail_model::gap::Severity;
use workrail_model::health::SessionHealth;
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::name::{StepId, WorkflowId};
use workrail_model::preferences::{Preferences, RunStatus};
use workrail_model::reply::NextCall;

use crate::report::{ContextValue, PointName};

pub use build::{Compared, build};
pub use diff::lines as text_lines;
pub use reference::{Extent, PartEnd, ReferenceError, RunPart};
pub use sides::UnknownPart;

/// The version of the comparison's format; readers of `--json` check it first.
pub(crate) const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    pub version: u32,
    pub a: Side,
    pub b: Side,
    /// Which of the two an agent continues when it resumes the run.
    pub continues: CurrentSide,
    /// Why, in one sentence for each reason.
    pub why: Vec<String>,
    pub counts: DifferenceCounts,
    /// In the order of A; steps that only B has come where B did them.
    pub steps: Vec<StepComparison>,
    /// Keys that do not have the same value where the two sides end.
    pub context: Vec<ContextComparison>,
    pub gaps: Vec<GapComparison>,
    /// What could not be read or was left out.
    pub remarks: Vec<String>,
}

/// One of the two.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// How to name it to `workrail compare` again.
    pub reference: String,
    pub session_id: SessionId,
    pub run_id: RunId,
    pub label: String,
    pub what: Extent,
    /// How much of its session can be trusted.
    pub health: SessionHealth,
    pub workflow_id: WorkflowId,
    pub workflow_hash: WorkflowHash,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Of the run; absent when the content that says it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Why and how its run was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
    /// The letter of the branch that it is on, `a` for the current one.
    pub branch: String,
    /// Where it ends.
    pub end: End,
    /// Steps that were completed.
    pub completed: u64,
    pub refused_attempts: u64,
    /// From its first point to its last record; absent when a clock went backwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// As they are in effect where it ends.
    pub preferences: Preferences,
    pub continuation: Continuation,
    #[serde(skip)]
    pub continue_at: Option<NodeId>,
    /// The call that gives this side's step to an agent; absent when there is nothing to continue, for a damaged session,
    /// and without signing keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
}

/// The last point of a side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct End {
    pub point: PointName,
    pub node_id: NodeId,
    pub link: String,
    /// The title of its step, `Complete`, or that it cannot be read.
    pub step: String,
}

/// What continuing a side means for its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Continuation {
    /// The run continues here.
    Current,
    /// The next completed step makes this branch the current one.
    OtherBranch,
    /// Work continued from here; the next completed step starts another branch.
    NewBranch,
    /// The workflow is complete here.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CurrentSide {
    A,
    B,
    /// Both: they are the same point, or two runs that are both open.
    Both,
    Neither,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DifferenceCounts {
    pub shared: u64,
    pub same: u64,
    pub different: u64,
    pub only_a: u64,
    pub only_b: u64,
}

/// How the two sides of something relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The very same record: the two branches had not parted yet.
    Shared,
    /// Recorded twice, with the same content.
    Same,
    Differs,
    OnlyA,
    OnlyB,
}

/// A step that at least one side reached.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepComparison {
    /// Absent when the content that says it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// With its loops, such as `Review (rounds 2)`; both titles where they differ.
    pub title: String,
    pub difference: Difference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<StepSide>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<StepSide>,
    /// Line by line; empty where they are the same.
    pub notes: Vec<DiffLine>,
    /// Those that differ.
    pub artifacts: Vec<ArtifactComparison>,
    /// Assessed dimensions that differ.
    pub assessments: Vec<FieldDifference>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepSide {
    pub point: PointName,
    pub node_id: NodeId,
    pub outcome: StepOutcome,
    /// How often it was tried.
    pub attempts: u64,
    /// From reaching the step to the attempt that is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    Completed,
    /// The last attempt was refused.
    Refused,
    /// Nothing was submitted yet.
    Pending,
}

/// One line of two texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "in", rename_all = "snake_case")]
pub enum DiffLine {
    Both {
        text: String,
    },
    A {
        text: String,
    },
    B {
        text: String,
    },
    /// Lines that both have and that are far from any difference.
    Skipped {
        lines: u64,
    },
    /// The texts are longer than what is compared.
    NotCompared {
        lines: u64,
    },
    /// The lines are equal; only what ends them differs, or whether something ends the last one.
    OnlyLineEnds,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactComparison {
    pub artifact_kind: String,
    pub difference: Difference,
    pub fields: Vec<FieldDifference>,
    /// Differing fields beyond those that are listed.
    pub fields_left_out: u64,
    /// Why its fields are not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_compared: Option<String>,
}

/// A field that differs. A side without the field has no value.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldDifference {
    /// Such as `findings[0].severity`.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextComparison {
    pub key: String,
    pub difference: Difference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<ContextValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<ContextValue>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GapComparison {
    pub severity: Severity,
    pub summary: String,
    pub difference: Difference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<ComparedGapState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<ComparedGapState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "GapState")]
pub enum ComparedGapState {
    Open,
    Resolved,
}
