//! What steps refer to: contracts, features, snippets, references, assessments, functions, bindings.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capability::Capability;
use crate::closed_set::closed_set;
use crate::digest::Sha256;
use crate::name::{AssessmentName, ContractRef, StepId};
use crate::preferences::{Autonomy, RiskPolicy};

/// A contract pack as it was when the workflow was compiled; a newer server validates by this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledContract {
    pub contract_ref: ContractRef,
    /// The `kind` of the artifact that fulfils it.
    pub artifact_kind: String,
    pub purpose: String,
    pub schema: Value,
    /// Passes the schema.
    pub example: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledFeature {
    pub feature_id: String,
    /// Every setting with its effective value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, Value>,
}

/// A snippet with its whole text, so that no registry is needed to read the workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolvedRef {
    pub ref_id: String,
    pub content_hash: Sha256,
    pub bytes: u32,
    pub text: String,
}

/// A snippet's use in one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InjectedRef {
    pub ref_id: String,
    pub content_hash: Sha256,
    pub bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolveFrom {
    Workspace,
    Package,
}

/// A document the workflow points at. Only the declaration: where it was found is the run's affair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReferenceDeclaration {
    pub id: String,
    pub title: String,
    pub source: String,
    pub purpose: String,
    pub authoritative: bool,
    pub resolve_from: ResolveFrom,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssessmentDefinition {
    pub id: AssessmentName,
    pub purpose: String,
    pub dimensions: Vec<Dimension>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dimension {
    pub id: AssessmentName,
    pub purpose: String,
    pub levels: Vec<String>,
    pub required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FunctionScope {
    Workflow,
    Loop,
    Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParameterType {
    String,
    Number,
    Boolean,
    Array,
    Object,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionParameter {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: ParameterType,
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionDefinition {
    pub name: String,
    pub definition: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<FunctionParameter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<FunctionScope>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BindingSource {
    Default,
    Override,
}

/// An extension point with the value it was compiled with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolvedBinding {
    pub slot_id: String,
    pub purpose: String,
    pub value: String,
    pub source: BindingSource,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricsProfile {
    Coding,
    Review,
    Research,
    Design,
    Ticket,
    #[default]
    None,
}

closed_set! {
    "snake_case",
    pub enum ModelTier {
        Lightweight,
        Mid,
        Heavy,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecommendedPreferences {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autonomy: Option<Autonomy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_policy: Option<RiskPolicy>,
}

/// Each list sorted; a capability is in one list at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CapabilityNeeds {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<Capability>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<Capability>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<Capability>,
}

closed_set! {
    "snake_case",
    /// What the compiler accepted but a reader of the compiled form should know.
    #[schemars(rename = "WarningCode")]
    pub enum CompiledWarningCode {
        ConditionNeverHolds,
        FeatureWithoutEffect,
        LoopControlledByContext,
        LoopWithoutDecisionStep,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledWarning {
    pub code: CompiledWarningCode,
    /// The feature, step, loop or condition it is about.
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
}
