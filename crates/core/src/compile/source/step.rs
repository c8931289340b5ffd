//! Steps: standard and parallel ones, and the choice between the kinds.

use workrail_model::compiled::{FunctionCall, FunctionDefinition, ModelTier, Requiredness};
use workrail_model::limits::CHECKS_PER_STEP_MAX;

use super::super::diagnostic::Code;
use super::super::document::DocumentNode;
use super::super::format::{
    AssessmentText, Authored, Distinct, EnumWord, Flag, FormatReader, List, Map, RoutineOrTemplate, Shape,
    StepIdText, Text, Tool, authored,
};
use super::super::report::DraftDiagnostic;
use super::PromptString;
use super::checks::{CheckSource, EvidenceSource};
use super::condition::{Condition, ConfirmationRequest};
use super::criteria::{ConsequenceSource, CriteriaField, UserDependencySource};
use super::loops::LoopStep;
use super::prompt::{FragmentSource, Output, OutputSource, PromptBlocksSource, TemplateArg, TemplateCall};
use super::words::{ContextType, StepType};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuthoredStep {
    Standard(Box<StandardStep>),
    Loop(Box<LoopStep>),
    Parallel(Box<ParallelStep>),
}

impl AuthoredStep {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Standard(step) => &step.id,
            Self::Loop(step) => &step.id,
            Self::Parallel(step) => &step.id,
        }
    }
}

impl Authored for AuthoredStep {
    type Value = Self;

    fn shape() -> Shape {
        Shape::AnyOf(vec![StandardStep::shape(), LoopStep::shape(), ParallelStep::shape()])
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        Some(match node.get("type").and_then(DocumentNode::text) {
            Some("loop") => Self::Loop(Box::new(LoopStep::decode(node, reader)?)),
            Some("parallel") => Self::Parallel(Box::new(ParallelStep::decode(node, reader)?)),
            Some(_) | None => {
                let mut step = StandardStep::decode(node, reader)?;
                step.unify_spellings(reader);
                Self::Standard(Box::new(step))
            }
        })
    }
}

authored! {
    /// One unit of work for the agent. It has exactly one of `prompt`, `promptBlocks` and `templateCall`.
    keep struct StandardStep "a step" {
        /// The id of the step; unique in the workflow.
        id "id": StepIdText, required;
        /// `loop` and `parallel` make it another kind of step; `template_call` goes with `templateId`.
        _kind "type": EnumWord<StepType>, optional("standard");
        /// The title of the step. `{{key}}` is replaced by the value of the context key.
        title "title": Text<1, 128>, required;
        /// What the agent does, in Markdown. `{{key}}` is replaced by the value of the context key.
        prompt "prompt": PromptString, optional;
        /// What the agent does, in sections.
        prompt_blocks "promptBlocks": PromptBlocksSource, optional;
        /// Replaces this step by the steps of a built-in template or of a routine. They inherit the step's title and
        /// condition; its other requirements apply to the last of them.
        template_call "templateCall": TemplateCall, optional;
        /// Another spelling of `templateCall`.
        template_call_snake "template_call": TemplateCall, optional;
        /// With type `template_call`: the template.
        template_id "templateId": RoutineOrTemplate, optional;
        /// With type `template_call`: values for the template's arguments.
        args "args": Map<TemplateArg>, default;
        /// Texts that are added to the prompt if their condition holds.
        fragments "promptFragments": List<FragmentSource, 1>, default;
        /// The role of the agent in this step, shown before the prompt. Absent: the workflow's `agentRole`.
        agent_role "agentRole": Text<1, 1024>, optional;
        /// How capable a model the step needs. Part of the compiled workflow; not shown to the agent.
        model_tier "modelTier": EnumWord<ModelTier>, optional;
        /// Further advice, shown after the prompt as a list.
        guidance "guidance": List<Text<1, 4096>>, default;
        /// Tells the agent to ask the user for files that the step needs and that it does not have.
        ask_for_files "askForFiles": Flag, default(false, "false");
        /// Accepted for old files; no effect. `validationCriteria` defines what is checked.
        has_validation "hasValidation": Flag, optional;
        /// Asks the agent to wait for the user before it continues: always, if a condition holds, or with a gate.
        /// Only a `human_approval` gate is enforced; the others apply in guided mode.
        confirmation "requireConfirmation": ConfirmationRequest, optional("false");
        /// The step runs only if this holds. It is evaluated when the run reaches the step.
        run_condition "runCondition": Condition, optional;
        /// Checks on the step's notes. If they fail, the step is blocked. A list means that all must pass.
        criteria "validationCriteria": CriteriaField, optional;
        /// The artifact that the step delivers. It makes notes optional.
        output_contract "outputContract": OutputSource, optional;
        /// Another spelling of `outputContract`, with hints.
        output "output": Output, default;
        /// The assessments that the agent gives in this step.
        assessment_refs "assessmentRefs": Distinct<AssessmentText, 1>, default;
        /// What happens if an assessment gives a certain level. Needs `assessmentRefs`.
        consequences "assessmentConsequences": List<ConsequenceSource, 1, 10>, default;
        /// What only the user can provide.
        user_dependencies "userDependencies": List<UserDependencySource, 0, 20>, default;
        /// Context keys that the agent sets in this step, each with the values that it takes. The step does not end
        /// without them.
        sets "sets": Map<ContextDutySource>, default;
        /// Which files may be edited while the step is pending. Absent: the step does not restrict edits.
        edits "edits": EditsSource, optional;
        /// Commands that WorkRail runs when the step is submitted, before the run continues.
        checks "checks": List<CheckSource, 0, CHECKS_PER_STEP_MAX>, default;
        /// How well the result of the step must be known. Absent: the agent's word is enough.
        evidence "evidence": EvidenceSource, optional;
        /// Whether the step can be completed without notes.
        notes_optional "notesOptional": Flag, default(false, "false");
        /// Functions that are visible in this step only.
        functions "functionDefinitions": Distinct<FunctionDefinition>, default;
        /// Functions that the step uses, with arguments that are checked. Their definitions are shown.
        function_calls "functionCalls": List<FunctionCall>, default;
        /// Functions that the step uses, as `name()`. Their definitions are shown.
        function_references "functionReferences": List<Text<1, 4096>>, default;
        /// Adds a step after this one that audits its result. Needs `prompt` or `rubric`.
        audit "audit": AuditRequest, optional;
        /// Adds a step after this one that verifies its result. Needs `command` or `prompt`.
        verification "verification": VerificationRequest, optional;
    }
}

impl StandardStep {
    /// Afterwards only `template_call`, `output_contract` and the hints of `output` matter.
    fn unify_spellings(&mut self, reader: &mut FormatReader<'_>) {
        let args = std::mem::take(&mut self.args);
        let at = reader.at();
        let flat = self.template_id.take().map(|template_id| TemplateCall { at, template_id, args });
        self.template_call = self.template_call.take().or(self.template_call_snake.take()).or(flat);
        let Some(contract_ref) = self.output.contract_ref.take() else { return };
        let presence = self.output.presence.unwrap_or(Requiredness::Required);
        if self.output_contract.is_some() {
            reader.report.push(
                DraftDiagnostic::on(Code::ConflictingFields, &reader.at().key("output"))
                    .message("`outputContract` and `output.contractRef` are two spellings of one thing")
                    .why("a step has one output contract")
                    .fix("keep one of them"),
            );
        }
        self.output_contract.get_or_insert(OutputSource { contract_ref, presence });
    }
}

authored! {
    /// A context key that a step sets. It has either `values` or `type`.
    struct ContextDutySource "a context key" {
        /// The values that the key takes.
        values "values": Distinct<Text<1, 64>, 1, 20>, optional;
        /// Any value of this type.
        value_type "type": EnumWord<ContextType>, optional;
        /// Of a list: what each of its items has.
        members "members": Distinct<Text<1, 64>, 1, 20>, optional;
        /// What the value means, shown to the agent.
        description "description": Text<1, 512>, optional;
    }
}

authored! {
    /// The files that may be edited while a step is pending. A host's hook refuses other edits, and what changed in the
    /// repository is checked when the step ends: other changes block it, or are a gap in `full_auto_never_stop`.
    struct EditsSource "`edits`" {
        /// Globs relative to the root of the repository: `*` within a name, `**` for any folders, as in `docs/**`.
        /// An empty list allows no edits.
        allow "allow": List<Text<1, 256>, 0, 100>, required;
        /// The context key in which the run declares its scope: a list of files, folders or globs that may change in addition
        /// to `allow`. Nothing is restricted before the key holds such a list.
        scope "scope": Text<1, 128>, optional;
    }
}

authored! {
    /// A step that audits the result of the step before it.
    struct AuditRequest "an audit" {
        /// What to audit.
        prompt "prompt": Text<1, 4096>, optional;
        /// The points to judge, each with evidence.
        rubric "rubric": List<Text<1, 4096>>, default;
    }
}

authored! {
    /// A step that verifies the result of the step before it.
    struct VerificationRequest "a verification" {
        /// The command that the agent runs and reports on. WorkRail does not run it.
        command "command": Text<1, 1024>, optional;
        /// What to verify.
        prompt "prompt": Text<1, 4096>, optional;
    }
}

authored! {
    /// Work for other agents. WorkRail tells the agent what to delegate; it starts nothing itself.
    keep struct ParallelStep "a parallel step" {
        /// The id of the step; unique in the workflow.
        id "id": StepIdText, required;
        /// `parallel`.
        _kind "type": EnumWord<StepType>, required;
        /// The title of the step. `{{key}}` is replaced by the value of the context key.
        title "title": Text<1, 128>, required;
        /// The workflows that other agents run.
        delegations "parallelDelegations": Distinct<DelegationSource, 1, 100>, required;
        /// Asks the agent to wait for the user before it continues, as in a standard step.
        confirmation "requireConfirmation": ConfirmationRequest, optional("false");
        /// The step runs only if this holds.
        run_condition "runCondition": Condition, optional;
        /// Whether the step can be completed without notes.
        notes_optional "notesOptional": Flag, default(false, "false");
        /// Adds a step after this one that combines the results. Needs `prompt` or `outputContract`.
        synthesis "synthesis": SynthesisRequest, optional;
    }
}

authored! {
    /// A workflow for another agent.
    struct DelegationSource "a delegation" {
        /// The id of the workflow that the other agent runs. It must not be this workflow.
        workflow_id "workflowId": Text<1, 128>, required;
        /// What the other agent achieves.
        goal "goal": Text<1, 1024>, optional;
        /// The delegation is left out unless this holds.
        run_condition "runCondition": Condition, optional;
        /// Context values that are passed on: each key of this run, and its name in the other run.
        context_mapping "contextMapping": Map<Text<0, 65_536>>, default;
        /// Further values by their names in the other run. They win over `contextMapping`.
        args "args": Map<Text<0, 65_536>>, default;
        /// How capable a model the other agent needs. Shown to the agent.
        model_tier "modelTier": EnumWord<ModelTier>, optional;
        /// The tools that the other agent keeps to. Shown to the agent; not enforced.
        allowed_tools "allowedTools": List<Tool, 1>, default;
    }
}

authored! {
    /// A step that combines the results of delegated work.
    struct SynthesisRequest "a synthesis" {
        /// How to combine the results.
        prompt "prompt": Text<1, 4096>, optional;
        /// The artifact that the synthesis delivers.
        output "outputContract": OutputSource, optional;
    }
}
