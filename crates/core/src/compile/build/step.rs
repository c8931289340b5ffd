//! Compiles one step: its prompt, what it must deliver, and its conditions.

use workrail_model::assessment::ConsequenceEffect;
use workrail_model::compiled::{
    CompiledLoop, CompiledStep, Confirmation, Consequence, Criteria, EditRule, Fragment, GateKind,
    MetricsDuty, MetricsProfile, NotesRule, OutputRequirement, PlanItem, Rule, StepKind, StepProvenance,
    UserDependency,
};
use workrail_model::name::{AssessmentName, ContextKey, StepId};
use workrail_model::reason::UserOnlyDependencyReason;
use workrail_model::text::BoundedText;

use super::super::diagnostic::Code;
use super::super::expand::StepDraft;
use super::super::path::DocPath;
use super::super::report::{DiagnosticReport, DraftDiagnostic, shown};
use super::super::source::{
    ConfirmationRequest, CriteriaSource, OutputSource, StandardStep, UserDependencySource,
};
use super::super::{blocks, check, lint};
use super::{Builder, checks};
use crate::builtins::LOOP_CONTROL_CONTRACT;
use crate::edits;

/// A prompt beyond this crowds out everything else an agent should keep in view.
const PROMPT_BYTES_ADVISED: usize = 8192;

/// What `askForFiles` tells the agent.
const ASK_FOR_FILES: &str = "If a file that this step needs is neither in the workspace nor in the chat, ask the user for it. \
                             Where nobody is waited for, say in the notes which file was missing.";

impl<'a> Builder<'a> {
    /// Compiles a plain step and the steps that it adds after itself.
    pub(in super::super) fn standard(&mut self, draft: StepDraft) -> Vec<PlanItem> {
        let StepDraft { step, provenance, kind } = draft;
        let at = step.at.clone();
        let Some(step_id) = self.claim(&step.id, &at) else { return Vec::new() };
        let id = step.id.as_str();
        let (prompt, prompt_blocks, refs) = self.prompt(&step);
        let run_condition =
            self.link(step.run_condition.as_ref(), &format!("{id}.run"), &at.key("runCondition"));
        self.lint_run(run_condition.as_ref(), id, &at);
        let output = self.output(step.output_contract.as_ref(), &at.key("outputContract").key("contractRef"));
        check::assessments(self.source, &step, self.report);
        self.functions.check(&step, self.report);
        let compiled = CompiledStep {
            title: self.bind(&step.title, &at.key("title")),
            prompt,
            kind,
            prompt_blocks,
            fragments: self.fragments(&step),
            agent_role: self.role(step.agent_role.as_ref(), &at),
            model_tier: step.model_tier,
            guidance: self.guidance(&step),
            hints: step.output.hints.clone(),
            confirmation: self.confirmation(step.confirmation.as_ref(), id, &at),
            notes: notes_rule(step.notes_optional, output.is_some()),
            output,
            criteria: self.criteria(&step),
            assessment_refs: names(&step.assessment_refs),
            consequences: consequences(&step),
            user_dependencies: self.user_dependencies(&step),
            sets: super::super::sets::compile(&step, self.report),
            edits: self.edits(&step),
            checks: self.checks(&step),
            evidence: checks::evidence(&step),
            functions: step.functions.clone(),
            function_references: step.function_references.iter().map(|name| bare(name)).collect(),
            function_calls: step.function_calls.clone(),
            metrics: MetricsDuty::None,
            provenance,
            refs,
            run_condition,
            step_id: step_id.clone(),
        };
        if compiled
            .output
            .as_ref()
            .is_some_and(|output| output.contract_ref.as_str() == LOOP_CONTROL_CONTRACT)
        {
            self.deciders.insert(step_id.clone());
        }
        if compiled.run_condition.is_none() && !compiled.sets.is_empty() {
            self.declared.insert(step_id.clone(), compiled.sets.keys().cloned().collect());
        }
        self.steps.push(compiled);
        let mut plan = vec![PlanItem::Step { step_id }];
        plan.extend(self.virtual_steps(&step));
        plan
    }

    fn prompt(
        &mut self,
        step: &StandardStep,
    ) -> (String, Option<workrail_model::compiled::PromptBlocks>, Vec<workrail_model::compiled::InjectedRef>)
    {
        let at = &step.at;
        let (prompt, compiled, refs) = match (&step.prompt, &step.prompt_blocks) {
            (None, Some(source)) => {
                self.blocks_seen = true;
                let (slots, used_slots) = (&self.slots, &mut self.used_slots);
                let path = at.key("promptBlocks");
                let mut bind = |text: &str, report: &mut DiagnosticReport| {
                    super::bind(text, slots, used_slots, &path, report)
                };
                let (compiled, used) =
                    blocks::compile(source, &self.features, &mut self.refs, at, &mut bind, self.report);
                (blocks::render(&compiled), Some(compiled), used.refs)
            }
            (Some(prompt), _) => (self.bind(prompt, &at.key("prompt")), None, Vec::new()),
            (None, None) => (String::new(), None, Vec::new()),
        };
        if prompt.len() > PROMPT_BYTES_ADVISED {
            self.report.push(
                DraftDiagnostic::on(Code::PromptOverBudget, at)
                    .message(format!("the prompt of `{}` has {} bytes", shown(&step.id), prompt.len()))
                    .why(format!(
                        "beyond {PROMPT_BYTES_ADVISED} bytes agents lose the instruction in the text"
                    ))
                    .fix("split the step, or move material into references"),
            );
        }
        (prompt, compiled, refs)
    }

    fn guidance(&mut self, step: &StandardStep) -> Vec<String> {
        let at = step.at.key("guidance");
        let mut lines: Vec<String> = step.guidance.iter().map(|text| self.bind(text, &at)).collect();
        if step.ask_for_files {
            lines.push(ASK_FOR_FILES.to_owned());
        }
        if step.has_validation == Some(true)
            && step.criteria.is_none()
            && !self.report.is_broken(&step.at.key("validationCriteria"))
        {
            self.report.push(
                DraftDiagnostic::on(Code::NoEffect, &step.at.key("hasValidation"))
                    .message("`hasValidation` is set, but the step validates nothing")
                    .why("only `validationCriteria` are checked")
                    .fix("add \"validationCriteria\", or remove `hasValidation`"),
            );
        }
        lines
    }

    pub(super) fn lint_run(
        &mut self,
        condition: Option<&workrail_model::name::ConditionId>,
        id: &str,
        at: &DocPath,
    ) {
        let Some(test) = condition.and_then(|condition| self.conditions.get(condition)) else { return };
        if lint::never_holds_test(test) {
            self.report.push(
                DraftDiagnostic::on(Code::UnreachableStep, &at.key("runCondition"))
                    .message(format!("`{}` never runs: its condition can never hold", shown(id)))
                    .why("the step would be skipped in every run")
                    .fix("correct the condition, or remove the step"),
            );
            let step_id = StepId::parse(id).ok();
            self.warn(workrail_model::compiled::CompiledWarningCode::ConditionNeverHolds, id, step_id);
        }
    }

    fn fragments(&mut self, step: &StandardStep) -> Vec<Fragment> {
        let at = step.at.key("promptFragments");
        let mut seen = std::collections::BTreeSet::new();
        let mut fragments = Vec::new();
        for (index, fragment) in step.fragments.iter().enumerate() {
            let path = at.index(index);
            if !seen.insert(&fragment.id) {
                self.report.push(
                    DraftDiagnostic::on(Code::DuplicateId, &path)
                        .message(format!(
                            "the fragment id `{}` is used twice in this step",
                            shown(&fragment.id)
                        ))
                        .why("messages about fragments name them by id")
                        .fix("give one of them another id"),
                );
            }
            let name = format!("{}.fragment-{index}", step.id);
            let when = self.link(fragment.when.as_ref(), &name, &path.key("when"));
            if when.as_ref().and_then(|id| self.conditions.get(id)).is_some_and(lint::never_holds_test) {
                self.report.push(
                    DraftDiagnostic::on(Code::FragmentUnused, &path.key("when"))
                        .message(format!("the fragment `{}` is never shown", shown(&fragment.id)))
                        .why("its condition can never hold")
                        .fix("correct the condition, or remove the fragment"),
                );
            }
            let text = self.bind(&fragment.text, &path.key("text"));
            fragments.push(Fragment { id: fragment.id.clone(), when, text });
        }
        fragments
    }

    pub(super) fn confirmation(
        &mut self,
        request: Option<&ConfirmationRequest>,
        id: &str,
        at: &DocPath,
    ) -> Confirmation {
        let at = at.key("requireConfirmation");
        let name = format!("{id}.confirm");
        match request {
            None | Some(ConfirmationRequest::Flag(false)) => Confirmation::Never,
            Some(ConfirmationRequest::Flag(true)) => Confirmation::Always,
            Some(ConfirmationRequest::When(condition)) => match self.link(Some(condition), &name, &at) {
                Some(condition_id) => Confirmation::When { condition_id },
                None => Confirmation::Always,
            },
            Some(ConfirmationRequest::Gate { gate, when, proof }) => {
                if *gate == GateKind::CoordinatorEval && proof.is_some() {
                    self.report.push(
                        DraftDiagnostic::on(Code::ConflictingFields, &at.key("proof"))
                            .message("`proof` has no meaning for a gate of kind `coordinator_eval`")
                            .why("nobody approves there, so nothing would be proven")
                            .fix("use the kind `human_approval`, or remove `proof`"),
                    );
                }
                Confirmation::Gate { gate: *gate, when: self.link(when.as_ref(), &name, &at), proof: *proof }
            }
        }
    }

    pub(super) fn output(
        &mut self,
        source: Option<&OutputSource>,
        at: &DocPath,
    ) -> Option<OutputRequirement> {
        let source = source?;
        let contract_ref = self.contract(&source.contract_ref, at)?;
        Some(OutputRequirement { contract_ref, presence: source.presence })
    }

    fn criteria(&mut self, step: &StandardStep) -> Option<Criteria> {
        let mut count = 0;
        let criteria = self.criterion(step.criteria.as_ref()?, step, &mut count);
        match &criteria {
            // An empty list asks only for notes, which are asked for anyway.
            Criteria::All { of } if of.is_empty() => None,
            Criteria::All { .. } | Criteria::Any { .. } | Criteria::Not { .. } | Criteria::Rule { .. } => {
                Some(criteria)
            }
        }
    }

    fn criterion(&mut self, source: &CriteriaSource, step: &StandardStep, count: &mut usize) -> Criteria {
        match source {
            CriteriaSource::Rule(rule) => {
                let name = format!("{}.rule-{count}", step.id);
                *count += 1;
                let when = self.link(rule.when.as_ref(), &name, &step.at.key("validationCriteria"));
                self.check_rule_evidence(rule.evidence, step);
                let rule = Rule {
                    check: rule.check.clone(),
                    message: rule.message.clone(),
                    when,
                    evidence: rule.evidence,
                };
                Criteria::Rule { rule }
            }
            CriteriaSource::All(parts) => {
                Criteria::All { of: parts.iter().map(|part| self.criterion(part, step, count)).collect() }
            }
            CriteriaSource::Any(parts) => {
                Criteria::Any { of: parts.iter().map(|part| self.criterion(part, step, count)).collect() }
            }
            CriteriaSource::Not(inner) => {
                Criteria::Not { inner: Box::new(self.criterion(inner, step, count)) }
            }
        }
    }

    fn edits(&mut self, step: &StandardStep) -> Option<EditRule> {
        let source = step.edits.as_ref()?;
        let at = step.at.key("edits").key("allow");
        for (index, glob) in source.allow.iter().enumerate() {
            if let Some(problem) = edits::problem(glob) {
                self.report.push(
                    DraftDiagnostic::on(Code::BadGlob, &at.index(index))
                        .message(format!("`{}` is not a usable glob: {problem}", shown(glob)))
                        .why("it would match no file, so edits that the author wants would be refused")
                        .fix("write a glob such as `docs/**` or `src/*.rs`"),
                );
            }
        }
        Some(EditRule { allow: source.allow.clone(), scope: source.scope.clone() })
    }

    fn user_dependencies(&mut self, step: &StandardStep) -> Vec<UserDependency> {
        let at = step.at.key("userDependencies");
        let sources = step.user_dependencies.iter().enumerate();
        sources.map(|(index, source)| self.user_dependency(source, &at.index(index))).collect()
    }

    fn user_dependency(&mut self, source: &UserDependencySource, at: &DocPath) -> UserDependency {
        let is_choice = source.reason == UserOnlyDependencyReason::NeedsUserChoice;
        if is_choice != source.choice_kind.is_some() && !self.report.is_broken(&at.key("choiceKind")) {
            let problem = DraftDiagnostic::on(Code::UserDependency, at)
                .why("a choice blocks a run only if the author says why the agent must not make it");
            self.report.push(match is_choice {
                true => problem.message("`needs_user_choice` needs `choiceKind`").fix(
                    "add \"choiceKind\": one of `preference_tradeoff`, `scope_boundary`, `irreversible_action`, \
                     `external_side_effect`, `policy_or_compliance`",
                ),
                false => problem
                    .message("`choiceKind` is allowed only with the reason `needs_user_choice`")
                    .fix("remove `choiceKind`, or change `reason`"),
            });
        }
        let context_key = source.context_key.as_deref().and_then(|key| match ContextKey::parse(key) {
            Ok(key) => Some(key),
            Err(error) => {
                self.report.push(
                    DraftDiagnostic::on(Code::UserDependency, &at.key("contextKey"))
                        .message(format!("{:?} is not a valid context key", shown(key)))
                        .why(format!("a context key has {}", error.rule))
                        .fix("use a name such as `deployKey`"),
                );
                None
            }
        });
        UserDependency {
            reason: source.reason,
            choice_kind: source.choice_kind,
            description: source.description.clone(),
            context_key,
        }
    }

    /// Adds the metrics text to steps; the last one reports the outcome.
    pub(super) fn metrics(&mut self, plan: &[PlanItem], loops: &[CompiledLoop]) {
        let last = last_step(plan, loops, &self.deciders).cloned();
        let (every, outcome) = match self.source.metrics_profile {
            MetricsProfile::None => return,
            MetricsProfile::Coding => (MetricsDuty::Accumulate, MetricsDuty::CodingOutcome),
            MetricsProfile::Review => (MetricsDuty::None, MetricsDuty::ReviewOutcome),
            MetricsProfile::Research | MetricsProfile::Design | MetricsProfile::Ticket => {
                (MetricsDuty::None, MetricsDuty::Outcome)
            }
        };
        for step in &mut self.steps {
            step.metrics = if Some(&step.step_id) == last.as_ref() { outcome } else { every };
        }
    }
}

/// The step that ends a run; in a loop, the last one that is not its decision.
fn last_step<'s>(
    items: &'s [PlanItem],
    loops: &'s [CompiledLoop],
    deciders: &std::collections::BTreeSet<StepId>,
) -> Option<&'s StepId> {
    match items.last()? {
        PlanItem::Step { step_id } => Some(step_id),
        PlanItem::Loop { loop_id } => {
            let owner = loops.iter().find(|owner| owner.loop_id == *loop_id)?;
            let decides = |item: &PlanItem| match item {
                PlanItem::Step { step_id } => deciders.contains(step_id),
                PlanItem::Loop { .. } => false,
            };
            let end = owner.body.iter().rposition(|item| !decides(item))?;
            last_step(&owner.body[..=end], loops, deciders)
        }
    }
}

/// A step with only its id.
pub(super) fn blank(step_id: StepId, provenance: StepProvenance) -> CompiledStep {
    CompiledStep {
        step_id,
        title: String::new(),
        prompt: String::new(),
        kind: StepKind::Standard,
        prompt_blocks: None,
        fragments: Vec::new(),
        agent_role: None,
        model_tier: None,
        guidance: Vec::new(),
        hints: Vec::new(),
        run_condition: None,
        confirmation: Confirmation::Never,
        notes: NotesRule::Required,
        output: None,
        criteria: None,
        assessment_refs: Vec::new(),
        consequences: Vec::new(),
        user_dependencies: Vec::new(),
        sets: std::collections::BTreeMap::new(),
        edits: None,
        checks: Vec::new(),
        evidence: None,
        functions: Vec::new(),
        function_references: Vec::new(),
        function_calls: Vec::new(),
        metrics: MetricsDuty::None,
        provenance,
        refs: Vec::new(),
    }
}

/// Notes are required unless the author waives them or a contract says what is required (G43).
pub(super) fn notes_rule(optional: bool, has_contract: bool) -> NotesRule {
    if optional || has_contract { NotesRule::Optional } else { NotesRule::Required }
}

fn names(refs: &[String]) -> Vec<AssessmentName> {
    refs.iter().filter_map(|name| AssessmentName::parse(name).ok()).collect()
}

fn consequences(step: &StandardStep) -> Vec<Consequence> {
    step.consequences
        .iter()
        .map(|source| Consequence {
            any_equals_level: BoundedText::clip(&source.when.any_equals_level),
            for_assessment: source
                .when
                .for_assessment
                .as_deref()
                .and_then(|name| AssessmentName::parse(name).ok()),
            effect: ConsequenceEffect::RequireFollowup {
                guidance: BoundedText::clip(&source.effect.guidance),
            },
        })
        .collect()
}

/// `name()` as `name`.
fn bare(reference: &str) -> String {
    reference.trim().trim_end_matches("()").to_owned()
}
