//! The compiled workflow: everything a run needs, self-contained, named by its hash (G21).
//!
//! Long-lived runs execute from this value alone: prompts, contracts, conditions and provenance are
//! inside, so a newer server or a changed file on disk cannot change a run that has started. It contains nothing
//! specific to the machine: no path, no clock, no environment value.

mod checks;
mod flow;
mod index;
mod part;
mod step;

pub use checks::{CheckExpectation, CheckRequest, EvidenceRule, RequiredGrade};
pub use flow::{
    CompiledCondition, CompiledLoop, ConditionTest, Expr, ForCount, LoopControl, OnLimit, PlanItem,
};
pub use index::StepIndex;
pub use part::{
    AssessmentDefinition, BindingSource, CapabilityNeeds, CompiledContract, CompiledFeature, CompiledWarning,
    CompiledWarningCode, Dimension, FunctionDefinition, FunctionParameter, FunctionScope, InjectedRef,
    MetricsProfile, ModelTier, ParameterType, RecommendedPreferences, ReferenceDeclaration, ResolveFrom,
    ResolvedBinding, ResolvedRef,
};
pub use step::{
    AcceptedValues, BlockItem, CompiledStep, Confirmation, Consequence, ContextDuty, Criteria, Delegation,
    EditRule, Fragment, FunctionCall, GateKind, MetricsDuty, NotesRule, OutputRequirement, OutputRows,
    PromptBlocks, Requiredness, Rule, RuleCheck, StepKind, StepProvenance, UserDependency,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::canonical::{CanonicalError, to_canonical};
use crate::digest::WorkflowHash;
use crate::name::{AssessmentName, ConditionId, ContractRef, LoopId, StepId, WorkflowId};
use crate::strict_json;

/// The text layout that this build writes; older snapshots keep the number they were compiled with.
pub const RENDER_VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledWorkflow {
    #[schemars(range(min = 1, max = 1))]
    pub schema_version: u32,
    /// The version of the text layout that the prompts are rendered with.
    pub render_version: u32,
    pub workflow_id: WorkflowId,
    pub name: String,
    pub description: String,
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clarification_prompts: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta_guidance: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    pub metrics_profile: MetricsProfile,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validated_against_spec_version: Option<u32>,
    pub recommended: RecommendedPreferences,
    pub capabilities: CapabilityNeeds,
    /// Sorted by id.
    pub features: Vec<CompiledFeature>,
    /// Sorted by reference.
    pub contracts: Vec<CompiledContract>,
    /// The full text of every injected snippet, sorted by id.
    pub refs: Vec<ResolvedRef>,
    pub references: Vec<ReferenceDeclaration>,
    pub assessments: Vec<AssessmentDefinition>,
    pub functions: Vec<FunctionDefinition>,
    /// Sorted by slot.
    pub bindings: Vec<ResolvedBinding>,
    /// Sorted by id.
    pub conditions: Vec<CompiledCondition>,
    /// Sorted by id; the order inside a body is the order of execution.
    pub loops: Vec<CompiledLoop>,
    /// The order of execution at the top level.
    pub plan: Vec<PlanItem>,
    /// Every executable step, loop bodies included, in document order.
    pub steps: Vec<CompiledStep>,
    pub compiled_warnings: Vec<CompiledWarning>,
    #[serde(skip)]
    pub index: StepIndex,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompiledError {
    #[error("not JSON: {0}")]
    Json(#[from] strict_json::JsonError),
    #[error("`schemaVersion` is {version}, this build reads version 1")]
    UnknownVersion { version: u64 },
    #[error("`{field}`: {problem}")]
    Field { field: String, problem: String },
}

impl CompiledWorkflow {
    pub fn to_canonical(&self) -> Result<Vec<u8>, CanonicalError> {
        to_canonical(self)
    }

    /// The identity of the workflow: the digest of its canonical bytes, the same on every machine.
    pub fn hash(&self) -> Result<WorkflowHash, CanonicalError> {
        self.to_canonical().map(|bytes| WorkflowHash::of(&bytes))
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, CompiledError> {
        let value = strict_json::parse(bytes)?;
        match value.get("schemaVersion").and_then(serde_json::Value::as_u64) {
            Some(1) => {}
            Some(version) => return Err(CompiledError::UnknownVersion { version }),
            None => {
                return Err(CompiledError::Field {
                    field: "schemaVersion".to_owned(),
                    problem: "must be a version number".to_owned(),
                });
            }
        }
        let compiled: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            CompiledError::Field { field: error.path().to_string(), problem: error.into_inner().to_string() }
        })?;
        compiled.check()?;
        Ok(compiled)
    }

    /// The position of a step at the top level, counted from 0; a body step has the
    /// position of its outermost loop.
    pub fn position(&self, step_id: &StepId) -> Option<usize> {
        self.plan.iter().position(|item| match item {
            PlanItem::Step { step_id: own } => own == step_id,
            PlanItem::Loop { loop_id } => self.loop_contains(loop_id, step_id),
        })
    }

    pub fn step(&self, step_id: &StepId) -> Option<&CompiledStep> {
        self.index.find(&self.steps, step_id)
    }

    pub fn loop_by_id(&self, loop_id: &LoopId) -> Option<&CompiledLoop> {
        let position = self.loops.binary_search_by(|looped| looped.loop_id.cmp(loop_id)).ok()?;
        self.loops.get(position)
    }

    pub fn condition(&self, condition_id: &ConditionId) -> Option<&CompiledCondition> {
        let position =
            self.conditions.binary_search_by(|condition| condition.condition_id.cmp(condition_id)).ok()?;
        self.conditions.get(position)
    }

    pub fn contract(&self, contract_ref: &ContractRef) -> Option<&CompiledContract> {
        let position =
            self.contracts.binary_search_by(|contract| contract.contract_ref.cmp(contract_ref)).ok()?;
        self.contracts.get(position)
    }

    pub fn assessment(&self, id: &AssessmentName) -> Option<&AssessmentDefinition> {
        self.assessments.iter().find(|assessment| assessment.id == *id)
    }

    fn loop_contains(&self, loop_id: &LoopId, step_id: &StepId) -> bool {
        // `check` allows each loop to occur only once, so this recursion ends.
        self.loop_by_id(loop_id).is_some_and(|owner| {
            owner.body.iter().any(|item| match item {
                PlanItem::Step { step_id: own } => own == step_id,
                PlanItem::Loop { loop_id } => self.loop_contains(loop_id, step_id),
            })
        })
    }

    /// What a stored snapshot must also satisfy: sorted lists and no dangling or cyclic names, so that
    /// lookups can rely on them.
    pub fn check(&self) -> Result<(), CompiledError> {
        let field = |field: &str, problem: &str| {
            Err(CompiledError::Field { field: field.to_owned(), problem: problem.to_owned() })
        };
        if !self.conditions.is_sorted_by(|a, b| a.condition_id < b.condition_id) {
            return field("conditions", "must be sorted by conditionId, without duplicates");
        }
        if !self.loops.is_sorted_by(|a, b| a.loop_id < b.loop_id) {
            return field("loops", "must be sorted by loopId, without duplicates");
        }
        if !self.contracts.is_sorted_by(|a, b| a.contract_ref < b.contract_ref) {
            return field("contracts", "must be sorted by contractRef, without duplicates");
        }
        let ids: std::collections::BTreeSet<&StepId> = self.steps.iter().map(|step| &step.step_id).collect();
        if ids.len() != self.steps.len() {
            return field("steps", "step ids must be unique");
        }
        flow::check_plan(self, &ids)
    }
}
