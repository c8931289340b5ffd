//! The authored workflow: every object and field of the format, declared once.
//!
//! The format has two spellings for some things. What differs is read as it is written and turned into one
//! form right where it is declared; the rest of the compiler sees only that form. Whether names exist and
//! parts fit together is checked later.

mod checks;
mod condition;
mod criteria;
mod loops;
mod prompt;
mod step;
mod words;

pub(crate) use condition::{Condition, ConditionBody, ConfirmationRequest, NamedCondition};
pub(crate) use criteria::{CriteriaSource, UserDependencySource};
pub(crate) use loops::{BodySource, ConditionSource, LoopSource, LoopStep};
pub(crate) use prompt::{
    OutputSource, PromptBlocksSource, PromptPart, PromptText, TemplateArg, TemplateCall,
};
pub(crate) use step::{AuthoredStep, ContextDutySource, ParallelStep, StandardStep};

use std::collections::BTreeMap;

use serde_json::Value;
use workrail_model::capability::Capability;
use workrail_model::compiled::{
    AssessmentDefinition, CapabilityNeeds, Dimension, FunctionCall, FunctionDefinition, FunctionParameter,
    FunctionScope, MetricsProfile, ModelTier, ParameterType, RecommendedPreferences, ReferenceDeclaration,
    ResolveFrom,
};
use workrail_model::name::AssessmentName;
use workrail_model::preferences::{Autonomy, RiskPolicy};

use super::diagnostic::Code;
use super::document::DocumentNode;
use super::format::{
    Any, Authored, Distinct, EnumWord, FeatureName, Flag, FormatReader, Identifier, Integer, List, Map,
    Shape, Slot, StepName, Text, Version, authored,
};
use super::nearest::suggestion;
use super::path::DocPath;
use super::report::{DraftDiagnostic, shown};
pub(crate) use words::ContextType;
use words::{CapabilityNeed, SlotKind};

/// Texts of a prompt. The compiler warns long before this.
type PromptString = Text<1, 65_536>;

authored! {
    /// The whole file is one object.
    keep struct Workflow "the workflow" {
        /// The schema that editors use for completion. No effect.
        _schema "$schema": Any, optional;
        /// The id by which tools, runs and other workflows name this workflow: `namespace.name` in lowercase. The
        /// namespace `wr` is reserved for bundled workflows. An id without a namespace still works, with a warning.
        id "id": Text<1, 128>, required;
        /// The name shown in lists.
        name "name": Text<1, 128>, required;
        /// What the workflow is for. Agents and people choose a workflow by it.
        description "description": Text<1, 512>, required;
        /// The version of the file, as in `1.0.0`. It is shown and is part of the hash; nothing compares versions.
        version "version": Version, required;
        /// A longer description in Markdown, shown by `inspect_workflow`.
        about "about": Text<1, 4096>, optional;
        /// Goals that this workflow is good for, shown by `inspect_workflow`.
        examples "examples": Distinct<Text<1, 120>, 0, 6>, default;
        /// What must be true before the run starts. The agent reads it with the first step; nothing checks it.
        preconditions "preconditions": Distinct<Text<1, 256>>, default;
        /// Questions that the agent asks the user if the goal is unclear. Shown with the first step.
        clarification_prompts "clarificationPrompts": Distinct<Text<1, 256>>, default;
        /// The role of the agent in every step that has no `agentRole` of its own.
        agent_role "agentRole": Text<1, 1024>, optional;
        /// Advice for the whole run, shown when it starts and when it is resumed.
        meta_guidance "metaGuidance": Distinct<Text<1, 256>>, default;
        /// How capable a model the workflow needs. Part of the compiled workflow; not shown to the agent.
        model_tier "modelTier": EnumWord<ModelTier>, optional;
        /// Which facts about the outcome the agent is asked to report as `metrics_...` context keys: `coding` asks
        /// for commits in every step and for the outcome, changes and pull requests in the last one; `review` for
        /// the outcome and pull requests in the last step; `research`, `design` and `ticket` for the outcome.
        metrics_profile "metricsProfile": EnumWord<MetricsProfile>, default(MetricsProfile::None, "none");
        /// The version of the authoring rules that the file was last checked against. Workflows that are not
        /// bundled are marked as possibly outdated if it is missing or not the current version.
        validated_against_spec_version "validatedAgainstSpecVersion": Integer<1, 1_000_000>, optional;
        /// How much automation the author considers safe. A run that goes further gets a warning, not an error.
        recommended "recommendedPreferences": RecommendedPreferences, default;
        /// Optional abilities of the agent that the workflow uses.
        capabilities "capabilities": CapabilityNeeds, default;
        /// Built-in sets of instructions that are added to every step with `promptBlocks`. The id alone is short
        /// for an object without `config`.
        features "features": Distinct<FeatureUse>, default;
        /// Ratings that steps ask for in `assessmentRefs`.
        assessments "assessments": Distinct<AssessmentDefinition>, default;
        /// Values that a project can choose in its bindings file. Prompts use them as `{{wr.bindings.SLOT}}`.
        extension_points "extensionPoints": Distinct<ExtensionPoint>, default;
        /// Documents that the agent is pointed to when the run starts and when it is resumed.
        references "references": Distinct<ReferenceDeclaration>, default;
        /// Instructions with a name, which prompts use as `name()`.
        functions "functionDefinitions": Distinct<FunctionDefinition>, default;
        /// Conditions with a name, which steps and loops use as `{ "kind": "condition_ref", "conditionId": "..." }`.
        conditions "conditions": Distinct<NamedCondition>, default;
        /// The steps, in the order in which they run.
        steps "steps": List<AuthoredStep, 1>, required;
    }
}

/// Reads a document; every problem with its shape is reported.
pub(crate) fn workflow(root: &DocumentNode, report: &mut super::report::DiagnosticReport) -> Workflow {
    Workflow::decode(root, &mut FormatReader::new(report)).unwrap_or_default()
}

authored! {
    /// How much automation the author considers safe.
    fields of RecommendedPreferences "recommended preferences" {
        /// The most autonomy that is safe.
        autonomy "recommendedAutonomy": EnumWord<Autonomy>, optional;
        /// The boldest risk policy that is safe.
        risk_policy "recommendedRiskPolicy": EnumWord<RiskPolicy>, optional;
    }
}

authored! {
    /// The capabilities are `delegation` (subagents) and `web_browsing`. Each can be in one list, or have its own
    /// field.
    struct CapabilityFields "capabilities" {
        /// The workflow cannot run without these. A step that tests each of them is added at the start, and the
        /// run is blocked if one is unavailable.
        required "required": Distinct<CapabilityText, 1>, default;
        /// Used if available. If the agent reports that one is unavailable, this is recorded as a gap.
        preferred "preferred": Distinct<CapabilityText, 1>, default;
        /// Not used by this workflow: replies say so, and steps that delegate are refused.
        disabled "disabled": Distinct<CapabilityText, 1>, default;
        /// Whether the workflow uses subagents: the same as an entry in one of the lists.
        delegation "delegation": EnumWord<CapabilityNeed>, optional;
        /// Whether the workflow uses the web: the same as an entry in one of the lists.
        web_browsing "web_browsing": EnumWord<CapabilityNeed>, optional;
    }
}

impl Authored for CapabilityNeeds {
    type Value = Self;

    fn shape() -> Shape {
        CapabilityFields::shape()
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        let fields = CapabilityFields::decode(node, reader)?;
        let mut needs =
            Self { required: fields.required, preferred: fields.preferred, disabled: fields.disabled };
        let single =
            [(Capability::Delegation, fields.delegation), (Capability::WebBrowsing, fields.web_browsing)];
        for (capability, need) in single {
            match need {
                Some(CapabilityNeed::Required) => needs.required.push(capability),
                Some(CapabilityNeed::Preferred) => needs.preferred.push(capability),
                Some(CapabilityNeed::Disabled) => needs.disabled.push(capability),
                None => {}
            }
        }
        for list in [&mut needs.required, &mut needs.preferred, &mut needs.disabled] {
            list.sort();
            list.dedup();
        }
        for capability in Capability::ALL {
            let lists = [&needs.required, &needs.preferred, &needs.disabled];
            if lists.iter().filter(|list| list.contains(&capability)).count() > 1 {
                reader.report.push(
                    DraftDiagnostic::on(Code::Capability, &reader.at())
                        .message(format!("`{}` is in more than one list", capability.as_str()))
                        .why("a capability cannot be required and optional, or used and disabled, at once")
                        .fix("keep it in one of `required`, `preferred`, `disabled`"),
                );
            }
        }
        Some(needs)
    }
}

/// The name of a capability. Unknown ones have a diagnostic of their own.
pub(crate) struct CapabilityText;

impl Authored for CapabilityText {
    type Value = Capability;

    fn shape() -> Shape {
        Shape::Known { names: Capability::ALL.map(Capability::as_str).to_vec(), open: None }
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Capability> {
        let text = Text::<1, 128>::decode(node, reader)?;
        let found = Capability::parse(&text);
        if found.is_none() {
            reader.report.push(
                DraftDiagnostic::on(Code::Capability, &reader.at())
                    .message(format!("unknown capability `{}`", shown(&text)))
                    .why("capabilities are a closed set, so that they mean the same to every tool")
                    .fix(suggestion(&text, &Capability::ALL.map(Capability::as_str))),
            );
        }
        found
    }
}

/// A feature that the workflow uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeatureUse {
    pub(crate) at: DocPath,
    pub(crate) id: String,
    pub(crate) config: BTreeMap<String, Value>,
}

authored! {
    /// A feature with settings. See [the list of features](builtins.md#features).
    struct FeatureFields "a feature" {
        /// The feature, as in `wr.features.capabilities`.
        id "id": FeatureName, required;
        /// The settings of the feature; absent ones keep their defaults.
        config "config": Map<Any>, default;
    }
}

impl Authored for FeatureUse {
    type Value = Self;

    fn shape() -> Shape {
        Shape::AnyOf(vec![FeatureName::shape(), FeatureFields::shape()])
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        if !reader.has_type::<Self>(node) {
            return None;
        }
        let FeatureFields { id, config } = match node.text() {
            Some(_) => FeatureFields { id: Text::<1, 128>::decode(node, reader)?, config: BTreeMap::new() },
            None => FeatureFields::decode(node, reader)?,
        };
        Some(Self { at: reader.at(), id, config })
    }
}

authored! {
    /// A rating that the agent gives when a step asks for it.
    fields of AssessmentDefinition "an assessment" {
        /// The name that steps use in `assessmentRefs`.
        id "id": AssessmentName, required;
        /// What is rated. The agent reads it.
        purpose "purpose": Text<1, 256>, required;
        /// The aspects that are rated, each on its own levels.
        dimensions "dimensions": List<Dimension, 1, 64>, required;
    }
}

authored! {
    /// One aspect of an assessment.
    fields of Dimension "a dimension" {
        /// The name of the dimension in the agent's answer.
        id "id": AssessmentName, required;
        /// What this dimension rates. The agent reads it.
        purpose "purpose": Text<1, 256>, required;
        /// The allowed levels, from worst to best.
        levels "levels": Distinct<Text<1, 64>, 2, 64>, required;
        /// Whether the agent must rate this dimension.
        required "required": Flag, default(true, "true");
    }
}

authored! {
    /// A value that a project can choose.
    struct ExtensionPoint "an extension point" {
        /// The name of the value: prompts use it as `{{wr.bindings.SLOT}}`.
        slot_id "slotId": Slot, required;
        /// What the project chooses, shown by `inspect_workflow`.
        purpose "purpose": Text<1, 256>, required;
        /// The value if the project chooses none.
        default "default": Text<1, 128>, required;
        /// What kind of thing the value names. No effect.
        _accepted_kinds "acceptedKinds": Distinct<EnumWord<SlotKind>, 0, 2>, optional;
    }
}

authored! {
    /// A document that the agent should know.
    fields of ReferenceDeclaration "a reference" {
        /// The name of the reference; unique in the workflow.
        id "id": StepName, required;
        /// The title of the document.
        title "title": Text<1, 128>, required;
        /// The path of the file, relative to what `resolveFrom` names.
        source "source": Text<1, 512>, required;
        /// What the agent finds in it.
        purpose "purpose": Text<1, 512>, required;
        /// Whether the document decides if it and other texts disagree.
        authoritative "authoritative": Flag, required;
        /// Where the path starts: the `workspace` of the run, or the `package` that contains the workflow file.
        resolve_from "resolveFrom": EnumWord<ResolveFrom>, default(ResolveFrom::Workspace, "workspace");
    }
}

authored! {
    /// An instruction with a name. A step that uses it shows its text.
    fields of FunctionDefinition "a function definition" {
        /// The name by which prompts use it, as `name()`.
        name "name": Identifier, required;
        /// What the agent does when a prompt uses the function.
        definition "definition": PromptString, required;
        /// What the function takes.
        parameters "parameters": List<FunctionParameter>, default;
        /// Shows the function only if it is declared at this level: on the workflow, a loop or a step.
        scope "scope": EnumWord<FunctionScope>, optional;
    }
}

authored! {
    /// A parameter of a function. Calls in `functionCalls` are checked against it.
    fields of FunctionParameter "a function parameter" {
        /// The name of the parameter.
        name "name": Identifier, required;
        /// The JSON type of the argument.
        kind "type": EnumWord<ParameterType>, required;
        /// Whether a call must give it.
        required "required": Flag, default(false, "false");
        /// What the parameter means. Not shown to the agent.
        description "description": Text<1, 1024>, optional;
        /// The allowed values; any value of the type if absent.
        allowed "enum": List<Any>, default;
        /// The value if a call does not give it. Recorded only.
        default "default": Any, optional;
    }
}

authored! {
    /// A use of a function, with arguments that are checked when the workflow is compiled.
    fields of FunctionCall "a function call" {
        /// The function.
        name "name": Identifier, required;
        /// The arguments by the names of the parameters.
        args "args": Map<Any>, default;
    }
}
