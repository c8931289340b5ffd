//! Authored steps: standard, loop and parallel, with everything a step may declare.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Condition, DocPath};
use crate::compiled::{
    FunctionCall, FunctionDefinition, GateKind, ModelTier, OnLimit, Requiredness, RuleCheck,
};
use crate::reason::{NonAssumableChoiceKind, UserOnlyDependencyReason};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Standard(Box<StandardStep>),
    Loop(Box<LoopStep>),
    Parallel(Box<ParallelStep>),
}

impl Step {
    pub fn common(&self) -> &StepCommon {
        match self {
            Self::Standard(step) => &step.common,
            Self::Loop(step) => &step.common,
            Self::Parallel(step) => &step.common,
        }
    }
}

/// What every kind of step has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepCommon {
    pub at: DocPath,
    pub id: String,
    pub title: String,
    pub run_condition: Option<Condition>,
    pub confirmation: Option<ConfirmationRequest>,
    pub notes_optional: bool,
    pub functions: Vec<FunctionDefinition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandardStep {
    pub common: StepCommon,
    pub prompt: Option<String>,
    pub prompt_blocks: Option<PromptBlocksSource>,
    pub template_call: Option<TemplateCall>,
    pub fragments: Vec<FragmentSource>,
    pub agent_role: Option<String>,
    pub model_tier: Option<ModelTier>,
    pub guidance: Vec<String>,
    pub hints: Vec<String>,
    pub criteria: Option<CriteriaSource>,
    pub output: Option<OutputSource>,
    pub assessment_refs: Vec<String>,
    pub consequences: Vec<ConsequenceSource>,
    pub user_dependencies: Vec<UserDependencySource>,
    pub function_references: Vec<String>,
    pub function_calls: Vec<FunctionCall>,
    pub audit: Option<AuditRequest>,
    pub verification: Option<VerificationRequest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsequenceSource {
    pub level: String,
    pub for_assessment: Option<String>,
    pub guidance: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopStep {
    pub common: StepCommon,
    pub control: LoopSource,
    pub max_iterations: Option<u32>,
    pub on_limit: OnLimit,
    pub iteration_var: Option<String>,
    pub body: BodySource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopSource {
    While {
        source: ConditionSource,
    },
    Until {
        source: ConditionSource,
    },
    ForFixed {
        count: u32,
    },
    ForContext {
        context_key: String,
    },
    ForEach {
        items: String,
        item_var: Option<String>,
        index_var: Option<String>,
    },
    /// The document does not say; the shape check has said so.
    Unknown,
}

/// Where a `while` or `until` loop learns whether to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionSource {
    Artifact {
        contract_ref: String,
        label: Option<String>,
    },
    Condition(Condition),
    /// Nothing was written: a decision step in the body, if there is one, decides.
    Derived,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodySource {
    /// The id of a sibling step at the top level.
    Named(String),
    Inline(Vec<Step>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelStep {
    pub common: StepCommon,
    pub delegations: Vec<DelegationSource>,
    pub synthesis: Option<SynthesisRequest>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelegationSource {
    pub workflow_id: String,
    pub goal: Option<String>,
    pub run_condition: Option<Condition>,
    pub context_mapping: BTreeMap<String, String>,
    pub args: BTreeMap<String, String>,
    pub model_tier: Option<ModelTier>,
    pub allowed_tools: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SynthesisRequest {
    pub prompt: Option<String>,
    pub output: Option<OutputSource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditRequest {
    pub prompt: Option<String>,
    pub rubric: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerificationRequest {
    pub command: Option<String>,
    pub prompt: Option<String>,
}

/// Text with snippets of the registry in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptText {
    Plain(String),
    Parts(Vec<PromptPart>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptPart {
    Text(String),
    Ref(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptBlocksSource {
    pub goal: Option<PromptText>,
    pub constraints: Vec<PromptText>,
    pub procedure: Vec<PromptText>,
    pub output_required: BTreeMap<String, String>,
    pub verify: Vec<PromptText>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateCall {
    pub template_id: String,
    pub args: BTreeMap<String, TemplateArg>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateArg {
    Text(String),
    /// A number or a boolean, as it is written.
    Literal(String),
}

impl TemplateArg {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Text(text) | Self::Literal(text) => text,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentSource {
    pub id: String,
    pub when: Option<Condition>,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfirmationRequest {
    Flag(bool),
    When(Condition),
    Gate { gate: GateKind, when: Option<Condition> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSource {
    pub contract_ref: String,
    pub presence: Requiredness,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CriteriaSource {
    Rule(RuleSource),
    All(Vec<CriteriaSource>),
    Any(Vec<CriteriaSource>),
    Not(Box<CriteriaSource>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSource {
    pub check: RuleCheck,
    pub message: String,
    pub when: Option<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDependencySource {
    pub reason: UserOnlyDependencyReason,
    pub choice_kind: Option<NonAssumableChoiceKind>,
    pub description: String,
    pub context_key: Option<String>,
}

/// A value that stands for an argument's text in messages.
pub fn literal(value: &Value) -> Option<TemplateArg> {
    match value {
        Value::String(text) => Some(TemplateArg::Text(text.clone())),
        Value::Number(number) => Some(TemplateArg::Literal(number.to_string())),
        Value::Bool(flag) => Some(TemplateArg::Literal(flag.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
