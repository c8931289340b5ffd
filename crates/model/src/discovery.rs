//! What can be run: the answers of `list_workflows` and `inspect_workflow`, and the order of sources (G90).
//!
//! `text` says in words what the members say as data (G72). The schemas stay
//! flat, without unions and references, because some clients otherwise reject a whole server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capability::Capability;
use crate::closed_set::closed_set;
use crate::compiled::ResolveFrom;
use crate::digest::WorkflowHash;
use crate::event::WorkflowSourceKind;
use crate::name::WorkflowId;
use crate::preferences::{Autonomy, RiskPolicy};
use crate::reply::NextCall;

/// Limit for the whole text of a listing or an inspection; some clients cut the middle beyond 10 KB.
pub const DISCOVERY_TEXT_BYTES_MAX: usize = 9_000;
/// One line to choose by; the full description is one `inspect_workflow` away.
pub const LISTED_DESCRIPTION_BYTES_MAX: usize = 160;
/// More broken files than this mean a broken folder.
pub const LISTED_PROBLEMS_MAX: usize = 50;
/// How many of a file's errors are listed; `workrail workflow validate` shows all.
pub const LISTED_ERRORS_MAX: usize = 3;
pub const LISTED_ERROR_BYTES_MAX: usize = 400;
/// Enough to see what exists when an id was misspelled.
pub const KNOWN_IDS_MAX: usize = 20;

/// Where a file is among the sources. Later ones win, except that nothing shadows the bundled `wr.*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Precedence {
    Bundled,
    Plugin,
    User,
    // A folder that the user registered or names in the environment. Not a doc comment: it would split the flat schema.
    #[serde(rename = "folder")]
    Custom,
    Git,
    Project,
}

impl Precedence {
    /// The closed set in the log has no separate values for custom folders and git.
    pub fn source_kind(self) -> WorkflowSourceKind {
        match self {
            Self::Bundled => WorkflowSourceKind::Bundled,
            Self::Plugin => WorkflowSourceKind::Plugin,
            Self::User | Self::Custom => WorkflowSourceKind::User,
            Self::Git => WorkflowSourceKind::Remote,
            Self::Project => WorkflowSourceKind::Project,
        }
    }

    /// The word that people and agents read, and by which such a source is registered.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bundled => "bundled",
            Self::Plugin => "plugin",
            Self::User => "user",
            Self::Custom => "folder",
            Self::Git => "git",
            Self::Project => "project",
        }
    }

    /// Whether the user may change files of such a source.
    pub fn is_editable(self) -> bool {
        match self {
            Self::User | Self::Custom | Self::Project => true,
            Self::Bundled | Self::Plugin | Self::Git => false,
        }
    }
}

/// A routine is a workflow that others are meant to use as a part. Ordered as it is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowKind {
    Workflow,
    Routine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdStatus {
    Namespaced,
    Legacy,
}

impl IdStatus {
    pub fn of(id: &WorkflowId) -> Self {
        if id.namespace().is_some() { Self::Namespaced } else { Self::Legacy }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedWorkflow {
    pub workflow_id: WorkflowId,
    pub kind: WorkflowKind,
    pub id_status: IdStatus,
    /// What a legacy id should be renamed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_id: Option<String>,
    pub source_kind: Precedence,
    /// What a run that starts now is pinned to.
    pub workflow_hash: WorkflowHash,
    pub name: String,
    pub version: String,
    /// One line; cut when longer.
    pub description: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Absent for bundled workflows, which are written for this very version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness: Option<Staleness>,
}

/// The current version of the authoring rules that files are checked against.
pub const AUTHORING_SPEC_VERSION: u32 = 3;

/// Whether a file was written for the rules of today, by the stamp that its author left in it: `none` with
/// today's version, `possible` without a stamp, `likely` with another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Staleness {
    None,
    Possible,
    Likely,
}

impl Staleness {
    pub fn of(stamp: Option<u32>) -> Self {
        match stamp {
            None => Self::Possible,
            Some(AUTHORING_SPEC_VERSION) => Self::None,
            Some(_) => Self::Likely,
        }
    }
}

/// How many workflows there are of one sort, when they are too many to list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowGroup {
    /// A tag, or the namespace of workflows without tags.
    pub name: String,
    pub count: usize,
    /// The argument that shows them.
    pub narrow_by: NarrowBy,
}

/// An argument of `list_workflows` that shows one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NarrowBy {
    Query,
    Tags,
}

/// A file that exists but cannot be used, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnusableFile {
    pub source_kind: Precedence,
    /// As found beneath its source.
    pub file: String,
    /// When the file can be read that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// Each with where, what, and how to fix it.
    pub errors: Vec<String>,
    /// Errors beyond the first few.
    pub errors_left_out: usize,
}

closed_set! {
    "SCREAMING_SNAKE_CASE",
    pub enum DiscoveryWarningCode {
        LegacyWorkflowId,
        AliasUsed,
        ReferenceUnresolved,
        CompilerWarning,
        StaleWorkflow,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveryWarning {
    pub code: DiscoveryWarningCode,
    pub workflow_id: String,
    pub message: String,
}

/// The answer of `list_workflows`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowList {
    /// All of the answer in words.
    pub text: String,
    /// By namespace, workflows before routines, then by name. Empty when they are too many to list.
    pub workflows: Vec<ListedWorkflow>,
    /// Workflows and routines that can be started.
    pub total: usize,
    /// Those that the filters let through.
    pub matched: usize,
    /// True when `groups` represents `workflows`.
    pub is_grouped: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<WorkflowGroup>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unusable: Vec<UnusableFile>,
    /// Unusable files beyond those listed.
    pub unusable_left_out: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<DiscoveryWarning>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InspectMode {
    #[default]
    Metadata,
    Preview,
}

/// A document that the workflow points at, and whether it exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectedReference {
    pub id: String,
    pub title: String,
    /// As the workflow declares it.
    pub source: String,
    pub resolve_from: ResolveFrom,
    pub purpose: String,
    pub authoritative: bool,
    pub is_resolved: bool,
    /// Where it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectedContract {
    pub contract_ref: String,
    pub artifact_kind: String,
    pub purpose: String,
}

/// A slot that the workspace may fill in `.workrail/bindings.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectedBinding {
    pub slot_id: String,
    pub purpose: String,
    pub value: String,
    pub is_default: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanEntryKind {
    Step,
    Parallel,
    CapabilityProbe,
    Loop,
}

/// One line of the plan, in the order of execution; a loop is before its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanEntry {
    /// As in `3` or, inside a loop, `3.1`.
    pub number: String,
    pub kind: PlanEntryKind,
    pub id: String,
    pub title: String,
    /// The loop whose body this is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside_loop: Option<String>,
    /// The condition, in words; absent when it always runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_if: Option<String>,
    /// How a loop continues and when it ends, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<String>,
    /// The contract of the artifact that the step owes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<String>,
    /// When a person is asked to confirm, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<String>,
    /// What only a person can give.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_dependencies: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assessments: Vec<String>,
    /// The checks that are run when the step is submitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// Workflows that a parallel step hands work to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegates_to: Vec<String>,
    pub notes_required: bool,
    /// The whole compiled prompt; `{{variables}}` are filled in when the step runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// The answer of `inspect_workflow`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowInspection {
    /// The answer in words; a plan that is too long for it is cut there and says so.
    pub text: String,
    pub mode: InspectMode,
    pub workflow_id: WorkflowId,
    pub kind: WorkflowKind,
    pub id_status: IdStatus,
    /// The id to use, when the call used another name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_id: Option<String>,
    pub source_kind: Precedence,
    /// The file beneath its source.
    pub source_ref: String,
    pub workflow_hash: WorkflowHash,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness: Option<Staleness>,
    pub name: String,
    pub version: String,
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<String>,
    /// Questions to settle with the user before the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clarification_prompts: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_autonomy: Option<Autonomy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_risk_policy: Option<RiskPolicy>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_capabilities: Vec<Capability>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred_capabilities: Vec<Capability>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contracts: Vec<InspectedContract>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bindings: Vec<InspectedBinding>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<InspectedReference>,
    /// Steps that can run, those in loops counted once.
    pub step_count: usize,
    pub loop_count: usize,
    /// Every step in order, in mode `preview`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlanEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<DiscoveryWarning>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
}
