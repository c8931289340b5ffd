//! The authored workflow, after both spellings of the format became one model.
//!
//! What stands here has the right types; whether its names exist and its parts fit together is for the
//! compiler to say. Every step knows where it stood in the document, so that problems can point at it.

mod path;
mod step;

pub use path::{DocPath, Segment};
pub use step::{
    AuditRequest, BodySource, ConditionSource, ConfirmationRequest, ConsequenceSource, CriteriaSource,
    DelegationSource, FragmentSource, LoopSource, LoopStep, OutputSource, ParallelStep, PromptBlocksSource,
    PromptPart, PromptText, RuleSource, StandardStep, Step, StepCommon, SynthesisRequest, TemplateArg,
    TemplateCall, UserDependencySource, VerificationRequest, literal,
};

use std::collections::BTreeMap;

use serde_json::Value;

use crate::compiled::{
    AssessmentDefinition, CapabilityNeeds, Expr, FunctionDefinition, MetricsProfile, ModelTier,
    RecommendedPreferences, ReferenceDeclaration,
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workflow {
    pub id: String,
    pub name: String,
    pub description: String,
    pub version: String,
    pub about: Option<String>,
    pub examples: Vec<String>,
    pub preconditions: Vec<String>,
    pub clarification_prompts: Vec<String>,
    pub agent_role: Option<String>,
    pub meta_guidance: Vec<String>,
    pub model_tier: Option<ModelTier>,
    pub metrics_profile: MetricsProfile,
    pub validated_against_spec_version: Option<u32>,
    pub recommended: RecommendedPreferences,
    pub capabilities: CapabilityNeeds,
    pub features: Vec<FeatureUse>,
    pub assessments: Vec<AssessmentDefinition>,
    pub extension_points: Vec<ExtensionPoint>,
    pub references: Vec<ReferenceDeclaration>,
    pub functions: Vec<FunctionDefinition>,
    pub conditions: Vec<NamedCondition>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureUse {
    pub at: DocPath,
    pub id: String,
    pub config: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionPoint {
    pub slot_id: String,
    pub purpose: String,
    pub default: String,
}

/// A condition with a name of its own, as the locked syntax writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCondition {
    pub at: DocPath,
    pub id: String,
    pub test: ConditionBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionBody {
    Context(Expr),
    LoopControl { contract_ref: String, label: Option<String> },
}

/// A condition where it is used: written out, or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Expr(Expr),
    Named(String),
}
