//! One executable step: what the agent reads, what it must deliver, and where the step came from (G21).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::checks::{CheckRequest, EvidenceRule};
use super::part::{FunctionDefinition, InjectedRef, ModelTier};
use crate::approval::RequiredProof;
use crate::assessment::ConsequenceEffect;
use crate::capability::Capability;
use crate::name::{AssessmentName, ConditionId, ContextKey, ContractRef, StepId};
use crate::reason::{NonAssumableChoiceKind, UserOnlyDependencyReason};
use crate::text::BoundedText;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledStep {
    pub step_id: StepId,
    pub title: String,
    /// The authored prompt with everything that compilation injects; `{{vars}}` are filled in at run time.
    pub prompt: String,
    pub kind: StepKind,
    /// The blocks that the prompt was rendered from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_blocks: Option<PromptBlocks>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragments: Vec<Fragment>,
    /// The step's own role, or else the workflow's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<String>,
    /// Advice on the output that nothing enforces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<ConditionId>,
    pub confirmation: Confirmation,
    pub notes: NotesRule,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputRequirement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criteria: Option<Criteria>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assessment_refs: Vec<AssessmentName>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Consequence>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_dependencies: Vec<UserDependency>,
    /// Context keys that have a value when the step ends (G46).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sets: BTreeMap<ContextKey, ContextDuty>,
    /// Which files may be edited while the step is pending; absent, the step says nothing about edits (G106).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edits: Option<EditRule>,
    /// What the engine runs when the step is submitted (G120).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRequest>,
    /// How well the result must be known; absent, the agent's word is enough (G107).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceRule>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionDefinition>,
    /// Bare names, without `()`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub function_references: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub function_calls: Vec<FunctionCall>,
    pub metrics: MetricsDuty,
    pub provenance: StepProvenance,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<InjectedRef>,
}

impl CompiledStep {
    pub fn requires_notes(&self) -> bool {
        self.notes == NotesRule::Required
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StepKind {
    Standard,
    /// Work for other agents; the engine only says what to start.
    Parallel {
        delegations: Vec<Delegation>,
    },
    /// Learns whether the agent has a required capability.
    #[serde(rename_all = "camelCase")]
    CapabilityProbe {
        capability: Capability,
        template_id: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delegation {
    pub workflow_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<ConditionId>,
    /// Parent context key to child context key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context_mapping: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
}

/// A line of a block, and the feature that added it when the author did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BlockItem {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptBlocks {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<BlockItem>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub procedure: Vec<BlockItem>,
    #[serde(default, skip_serializing_if = "OutputRows::is_empty")]
    pub output_required: OutputRows,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<BlockItem>,
}

/// What a step asks to deliver: names with their meaning, in the order of the file, which is hashed.
///
/// Written as an object where the names are in the order that canonical JSON gives them anyway, and as a list of rows
/// otherwise. Each name occurs once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "WrittenRows", into = "WrittenRows")]
#[schemars(with = "WrittenRows")]
pub struct OutputRows(Vec<(String, String)>);

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum WrittenRows {
    Sorted(BTreeMap<String, String>),
    Ordered(Vec<OutputRow>),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OutputRow {
    name: String,
    text: String,
}

impl OutputRows {
    /// Adds a row at the end; a name that already exists keeps its first text.
    pub fn push(&mut self, name: String, text: String) {
        if !self.names().any(|other| other == name) {
            self.0.push((name, text));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    pub fn rows(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }
}

impl From<WrittenRows> for OutputRows {
    fn from(written: WrittenRows) -> Self {
        let mut rows = Self::default();
        match written {
            WrittenRows::Sorted(map) => map.into_iter().for_each(|(name, text)| rows.push(name, text)),
            WrittenRows::Ordered(list) => list.into_iter().for_each(|row| rows.push(row.name, row.text)),
        }
        rows
    }
}

impl From<OutputRows> for WrittenRows {
    fn from(rows: OutputRows) -> Self {
        if rows.0.is_sorted() {
            Self::Sorted(rows.0.into_iter().collect())
        } else {
            Self::Ordered(rows.0.into_iter().map(|(name, text)| OutputRow { name, text }).collect())
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fragment {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<ConditionId>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    CoordinatorEval,
    HumanApproval,
}

/// Whether a person is asked before the run continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Confirmation {
    Never,
    Always,
    #[serde(rename_all = "camelCase")]
    When {
        condition_id: ConditionId,
    },
    Gate {
        gate: GateKind,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        when: Option<ConditionId>,
        /// What a decision needs to open the gate, whatever the settings say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<RequiredProof>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotesRule {
    Required,
    Optional,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Requiredness {
    Required,
    Optional,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputRequirement {
    pub contract_ref: ContractRef,
    pub presence: Requiredness,
}

/// Checks on the text of the notes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Criteria {
    Rule { rule: Rule },
    All { of: Vec<Criteria> },
    Any { of: Vec<Criteria> },
    Not { inner: Box<Criteria> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    pub check: RuleCheck,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<ConditionId>,
    /// How well the claim that passes the check must be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceRule>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum RuleCheck {
    Contains {
        value: String,
    },
    Regex {
        pattern: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        flags: String,
    },
    /// UTF-16 code units, as existing files count.
    Length {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u32>,
    },
    Schema {
        schema: Value,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consequence {
    pub any_equals_level: BoundedText<64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_assessment: Option<AssessmentName>,
    pub effect: ConsequenceEffect,
}

/// Something only a person can give; satisfied by a value of its key or by an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserDependency {
    pub reason: UserOnlyDependencyReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice_kind: Option<NonAssumableChoiceKind>,
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_key: Option<ContextKey>,
}

/// A context key that a step sets: which values it takes and what they mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextDuty {
    pub accepts: AcceptedValues,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The values that a context key takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AcceptedValues {
    OneOf {
        values: Vec<String>,
    },
    Boolean,
    Number,
    Text,
    /// A list; where members are named, of objects that have them.
    List {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        members: Vec<String>,
    },
}

/// The files that may be edited: globs relative to the root of the repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EditRule {
    /// An empty list allows none.
    pub allow: Vec<String>,
    /// The context key in which the run declares further files. Nothing is restricted before it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionCall {
    pub name: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Value>,
}

/// Which metrics text the step carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricsDuty {
    #[default]
    None,
    /// Keep the list of commits.
    Accumulate,
    /// Report the outcome.
    Outcome,
    /// Report the outcome and the reviewed change requests.
    ReviewOutcome,
    /// Keep the list of commits and report the outcome.
    CodingOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "source", rename_all = "snake_case", deny_unknown_fields)]
pub enum StepProvenance {
    Authored,
    #[serde(rename_all = "camelCase")]
    TemplateInjected {
        origin_id: String,
    },
    // Part of the locked set; nothing produces it. A feature adds to prompts and has no setting for steps.
    #[serde(rename_all = "camelCase")]
    FeatureInjected {
        origin_id: String,
    },
    /// An audit, verification or synthesis that the step `origin_id` declared.
    #[serde(rename_all = "camelCase")]
    Virtual {
        origin_id: String,
    },
}
