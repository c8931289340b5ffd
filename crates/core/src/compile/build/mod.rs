//! Builds the compiled workflow from the authored one: the passes in their fixed order.

mod checks;
mod delegation;
mod step;
mod virtuals;

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::capability::Capability;
use workrail_model::compiled::{
    BindingSource, CompiledCondition, CompiledContract, CompiledStep, CompiledWarning, CompiledWarningCode,
    CompiledWorkflow, ConditionTest, Expr, PlanItem, RENDER_VERSION, ResolvedBinding,
};
use workrail_model::name::{ConditionId, ContextKey, ContractRef, StepId};

use super::blocks::{ActiveFeature, RefTable, active_features};
use super::diagnostic::Code;
use super::expand::{StepDraft, expand};
use super::loops::LoopDraft;
use super::nearest::suggestion;
use super::path::DocPath;
use super::report::{DiagnosticReport, DraftDiagnostic, shown};
use super::source::{
    AuthoredStep, BodySource, Condition, ConditionBody, StandardStep, TemplateArg, TemplateCall, Workflow,
};
use super::{CompileInput, Library, check, identity, lint, loops};
use crate::builtins::{self, PROBE_TEMPLATE};

/// State that grows while steps are compiled.
pub(super) struct Builder<'a> {
    pub(super) source: &'a Workflow,
    pub(super) report: &'a mut DiagnosticReport,
    library: &'a Library,
    features: Vec<ActiveFeature>,
    refs: RefTable,
    slots: BTreeMap<&'a str, (&'a str, BindingSource)>,
    used_slots: BTreeSet<String>,
    pub(super) ids: BTreeMap<String, DocPath>,
    pub(super) steps: Vec<CompiledStep>,
    pub(super) loops: Vec<LoopDraft<'a>>,
    pub(super) conditions: BTreeMap<ConditionId, ConditionTest>,
    used_conditions: BTreeSet<String>,
    contracts: BTreeSet<&'static str>,
    /// Steps whose output decides a loop.
    pub(super) deciders: BTreeSet<StepId>,
    /// The context keys that each unconditional step sets.
    pub(super) declared: BTreeMap<StepId, Vec<ContextKey>>,
    pub(super) warnings: Vec<CompiledWarning>,
    pub(super) functions: super::functions::VisibleFunctions<'a>,
    blocks_seen: bool,
    /// Top-level steps that are the body of a loop, with their compiled form.
    pub(super) named_bodies: BTreeMap<String, Vec<PlanItem>>,
}

/// The compiled workflow; `None` if its identity cannot be read. Errors are in the report.
pub(super) fn workflow(
    source: &Workflow,
    input: &CompileInput<'_>,
    report: &mut DiagnosticReport,
) -> Option<CompiledWorkflow> {
    let workflow_id = identity::check(&source.id, input.origin, report);
    check::declarations(source, report);
    check::references(source, input.library, report);
    check::disabled_capabilities(source, report);
    let features = active_features(&source.features, report);
    let mut builder = Builder::new(source, input, features, report);
    let probes = builder.probes();
    let plan = builder.top_level();
    let plan: Vec<PlanItem> = probes.into_iter().chain(plan).collect();
    let loops = loops::finish(&mut builder);
    builder.metrics(&plan, &loops);
    builder.after_steps();
    let paths = std::mem::take(&mut builder.ids);
    lint::variables(source, &builder.steps, &loops, &builder.conditions, &paths, builder.report);
    lint::contradicted_bodies(&builder.steps, &loops, &builder.conditions, &paths, builder.report);
    lint::loop_cost(&plan, &loops, &paths, builder.report);
    let expanded = builder.report.expanded();
    let workflow = builder.finish(workflow_id?, plan, loops)?;
    if !report.has_errors() {
        check::sizes(&workflow, input.bytes.len() + expanded, &paths, report);
    }
    Some(workflow)
}

impl<'a> Builder<'a> {
    fn new(
        source: &'a Workflow,
        input: &'a CompileInput<'a>,
        features: Vec<ActiveFeature>,
        report: &'a mut DiagnosticReport,
    ) -> Self {
        let mut slots = BTreeMap::new();
        for point in &source.extension_points {
            let value = match input.bindings.get(&point.slot_id) {
                Some(chosen) => (chosen.as_str(), BindingSource::Override),
                None => (point.default.as_str(), BindingSource::Default),
            };
            slots.insert(point.slot_id.as_str(), value);
        }
        let bodies = named_bodies(&source.steps);
        Self {
            source,
            report,
            library: input.library,
            features,
            refs: RefTable::default(),
            slots,
            used_slots: BTreeSet::new(),
            ids: BTreeMap::new(),
            steps: Vec::new(),
            loops: Vec::new(),
            conditions: BTreeMap::new(),
            used_conditions: BTreeSet::new(),
            contracts: BTreeSet::new(),
            deciders: BTreeSet::new(),
            declared: BTreeMap::new(),
            warnings: Vec::new(),
            functions: super::functions::VisibleFunctions::new(&source.functions),
            blocks_seen: false,
            named_bodies: bodies,
        }
    }

    /// One probe for every required capability, before anything else.
    fn probes(&mut self) -> Vec<PlanItem> {
        let required: Vec<Capability> = self.source.capabilities.required.clone();
        let mut plan = Vec::new();
        for capability in required {
            let name = capability.as_str();
            let at = DocPath::root().key("capabilities");
            let caller = StandardStep { at, id: format!("wr-probe-{name}"), ..StandardStep::default() };
            let args = BTreeMap::from([("capability".to_owned(), TemplateArg(name.to_owned()))]);
            let call = TemplateCall { at: caller.at.clone(), template_id: PROBE_TEMPLATE.to_owned(), args };
            let drafts = expand(&caller, &call, self.library, self.report);
            for draft in drafts {
                plan.extend(self.standard(draft));
            }
        }
        plan
    }

    fn top_level(&mut self) -> Vec<PlanItem> {
        let source = self.source;
        let mut plan = Vec::new();
        for step in &source.steps {
            let items = self.step(step);
            match self.named_bodies.get_mut(step.id()) {
                Some(body) => *body = items,
                None => plan.extend(items),
            }
        }
        plan
    }

    pub(super) fn step(&mut self, step: &'a AuthoredStep) -> Vec<PlanItem> {
        match step {
            AuthoredStep::Standard(step) => self.standard_or_call(step),
            AuthoredStep::Parallel(step) => self.parallel(step),
            AuthoredStep::Loop(step) => loops::open(self, step),
        }
    }

    fn standard_or_call(&mut self, step: &'a StandardStep) -> Vec<PlanItem> {
        self.prompt_sources(step);
        let Some(call) = &step.template_call else { return self.standard(StepDraft::authored(step.clone())) };
        let drafts = expand(step, call, self.library, self.report);
        let mut plan = Vec::new();
        for draft in drafts {
            plan.extend(self.standard(draft));
        }
        plan
    }

    fn prompt_sources(&mut self, step: &StandardStep) {
        let count = usize::from(step.prompt.is_some())
            + usize::from(step.prompt_blocks.is_some())
            + usize::from(step.template_call.is_some());
        let sources = ["prompt", "promptBlocks", "templateCall"];
        let is_reported = || sources.iter().any(|field| self.report.is_broken(&step.at.key(field)));
        if count > 1 || (count == 0 && !is_reported()) {
            let found = if count == 0 { "no prompt" } else { "several prompts" };
            self.report.push(
                DraftDiagnostic::on(Code::PromptSource, &step.at)
                    .message(format!("the step `{}` has {found}", shown(&step.id)))
                    .why("a step has exactly one source for its prompt")
                    .fix(match count {
                        0 => "add \"prompt\": \"...\" (or `promptBlocks`, or `templateCall`)",
                        _ => "keep one of `prompt`, `promptBlocks`, `templateCall` and remove the others",
                    }),
            );
        }
    }

    /// Claims an id for a step or loop; each may be used once.
    pub(super) fn claim(&mut self, id: &str, at: &DocPath) -> Option<StepId> {
        let Ok(parsed) = StepId::parse(id) else {
            // Problems with an authored id were reported when it was read.
            if id.contains('.') || id.contains("__") {
                self.report.push(
                    DraftDiagnostic::on(Code::StepId, &at.key("id"))
                        .message(format!("{:?} is not a valid step id", shown(id)))
                        .why("step ids become part of keys and tokens")
                        .fix("give the step a shorter id"),
                );
            }
            return None;
        };
        if let Some(first) = self.ids.get(id) {
            let first = first.to_string();
            self.report.push(
                DraftDiagnostic::on(Code::DuplicateId, &at.key("id"))
                    .message(format!("the id `{id}` is used twice, first at `{first}`"))
                    .why("a run could not tell which of the two steps is done")
                    .fix("give one of them another id"),
            );
            return None;
        }
        self.ids.insert(id.to_owned(), at.clone());
        Some(parsed)
    }

    /// Fills in extension points; any other `{{wr.` token is an error.
    pub(super) fn bind(&mut self, text: &str, at: &DocPath) -> String {
        bind(text, &self.slots, &mut self.used_slots, at, self.report)
    }

    /// The role of a step: its own, else the workflow's, which is repeated in every step.
    pub(super) fn role(&mut self, own: Option<&String>, at: &DocPath) -> Option<String> {
        if let Some(own) = own {
            return Some(own.clone());
        }
        let shared = self.source.agent_role.as_ref()?;
        self.report.may_add(shared.len(), at).then(|| shared.clone())
    }

    /// Links a condition and returns its id; `None` if it always holds or is invalid.
    pub(super) fn link(
        &mut self,
        condition: Option<&Condition>,
        name: &str,
        at: &DocPath,
    ) -> Option<ConditionId> {
        match condition? {
            Condition::Expr(Expr::Always) => None,
            Condition::Expr(expr) => {
                let id = ConditionId::parse(name).ok()?;
                self.conditions.insert(id.clone(), ConditionTest::Context { expr: expr.clone() });
                Some(id)
            }
            Condition::Named(id) => self.link_named(id, at),
        }
    }

    pub(super) fn condition_used(&mut self, id: &str) {
        self.used_conditions.insert(id.to_owned());
    }

    fn link_named(&mut self, id: &str, at: &DocPath) -> Option<ConditionId> {
        self.condition_used(id);
        let Some(named) = self.source.conditions.iter().find(|named| named.id == *id) else {
            let known: Vec<&str> = self.source.conditions.iter().map(|named| named.id.as_str()).collect();
            self.report.push(
                DraftDiagnostic::on(Code::UnknownCondition, at)
                    .message(format!("there is no condition `{}`", shown(id)))
                    .why("there would be nothing to test")
                    .fix(suggestion(id, &known)),
            );
            return None;
        };
        let test = match &named.test {
            ConditionBody::Context(expr) => ConditionTest::Context { expr: expr.clone() },
            ConditionBody::LoopControl { contract_ref, label } => ConditionTest::LoopControl {
                contract_ref: ContractRef::parse(contract_ref).ok()?,
                label: label.clone(),
            },
        };
        let id = ConditionId::parse(id).ok()?;
        self.conditions.insert(id.clone(), test);
        Some(id)
    }

    /// The contract, which is then embedded; unknown ones are reported.
    pub(super) fn contract(&mut self, id: &str, at: &DocPath) -> Option<ContractRef> {
        let Some(contract) = builtins::contract(id) else {
            let known: Vec<&str> = builtins::contracts().iter().map(|contract| contract.id).collect();
            self.report.push(
                DraftDiagnostic::on(Code::UnknownContract, at)
                    .message(format!("there is no contract `{}`", shown(id)))
                    .why("contracts are a closed set, so that every tool reads artifacts alike")
                    .fix(suggestion(id, &known)),
            );
            return None;
        };
        self.contracts.insert(contract.id);
        ContractRef::parse(contract.id).ok()
    }

    pub(super) fn warn(&mut self, code: CompiledWarningCode, subject: &str, step_id: Option<StepId>) {
        self.warnings.push(CompiledWarning { code, subject: subject.to_owned(), step_id });
    }

    /// Checks that need all steps to be known.
    fn after_steps(&mut self) {
        for (index, point) in self.source.extension_points.iter().enumerate() {
            if !self.used_slots.contains(&point.slot_id) {
                self.report.push(
                    DraftDiagnostic::on(
                        Code::BindingUnused,
                        &DocPath::root().key("extensionPoints").index(index),
                    )
                    .message(format!("no prompt uses the slot `{}`", point.slot_id))
                    .why("a project that binds it would see no effect")
                    .fix(format!("use {{{{wr.bindings.{}}}}} in a prompt, or remove it", point.slot_id)),
                );
            }
        }
        for named in self.source.conditions.iter().filter(|named| !self.used_conditions.contains(&named.id)) {
            self.report.push(
                DraftDiagnostic::on(Code::ConditionUnused, &named.at)
                    .message(format!("nothing uses the condition `{}`", shown(&named.id)))
                    .why("it decides nothing")
                    .fix("remove it, or refer to it with { \"kind\": \"condition_ref\", ... }"),
            );
        }
        if !self.features.is_empty() && !self.blocks_seen {
            self.report.push(
                DraftDiagnostic::on(Code::FeatureWithoutEffect, &DocPath::root().key("features"))
                    .message("no step has promptBlocks, so the features add nothing")
                    .why("features add to the sections of promptBlocks, never to plain prompts")
                    .fix("write a step with promptBlocks, or remove the features"),
            );
            for feature in &self.features {
                self.warnings.push(CompiledWarning {
                    code: CompiledWarningCode::FeatureWithoutEffect,
                    subject: feature.compiled.feature_id.clone(),
                    step_id: None,
                });
            }
        }
        check::assessments_used(self.source, &self.steps, self.report);
        self.functions.report_unused(self.source, &self.steps, self.report);
    }

    fn finish(
        self,
        workflow_id: workrail_model::name::WorkflowId,
        plan: Vec<PlanItem>,
        loops: Vec<workrail_model::compiled::CompiledLoop>,
    ) -> Option<CompiledWorkflow> {
        let source = self.source;
        let mut warnings = self.warnings;
        warnings.sort();
        warnings.dedup();
        let bindings = source.extension_points.iter().filter_map(|point| {
            let (value, origin) = self.slots.get(point.slot_id.as_str())?;
            Some((point.slot_id.clone(), point.purpose.clone(), (*value).to_owned(), *origin))
        });
        let mut bindings: Vec<ResolvedBinding> = bindings
            .map(|(slot_id, purpose, value, source)| ResolvedBinding { slot_id, purpose, value, source })
            .collect();
        bindings.sort_by(|a, b| a.slot_id.cmp(&b.slot_id));
        let conditions = self.conditions.into_iter();
        Some(CompiledWorkflow {
            schema_version: 1,
            render_version: RENDER_VERSION,
            workflow_id,
            name: source.name.clone(),
            description: source.description.clone(),
            version: source.version.clone(),
            about: source.about.clone(),
            examples: source.examples.clone(),
            preconditions: source.preconditions.clone(),
            clarification_prompts: source.clarification_prompts.clone(),
            agent_role: source.agent_role.clone(),
            meta_guidance: source.meta_guidance.clone(),
            model_tier: source.model_tier,
            metrics_profile: source.metrics_profile,
            validated_against_spec_version: source.validated_against_spec_version,
            recommended: source.recommended,
            capabilities: source.capabilities.clone(),
            features: self.features.into_iter().map(|active| active.compiled).collect(),
            contracts: self.contracts.into_iter().filter_map(embedded).collect(),
            refs: self.refs.into_refs(),
            references: source.references.clone(),
            assessments: source.assessments.clone(),
            functions: source.functions.clone(),
            bindings,
            conditions: conditions
                .map(|(condition_id, test)| CompiledCondition { condition_id, test })
                .collect(),
            loops,
            plan,
            steps: self.steps,
            compiled_warnings: warnings,
            index: workrail_model::compiled::StepIndex::default(),
        })
    }
}

fn embedded(id: &'static str) -> Option<CompiledContract> {
    let contract = builtins::contract(id)?;
    Some(CompiledContract {
        contract_ref: ContractRef::parse(id).ok()?,
        artifact_kind: contract.artifact_kind.to_owned(),
        purpose: contract.purpose.to_owned(),
        schema: contract.schema.clone(),
        example: contract.example.clone(),
    })
}

/// Which top-level steps are the body of some loop, however deep the loop is nested.
fn named_bodies(steps: &[AuthoredStep]) -> BTreeMap<String, Vec<PlanItem>> {
    let mut found = BTreeMap::new();
    let mut queue: Vec<&AuthoredStep> = steps.iter().collect();
    while let Some(step) = queue.pop() {
        match step {
            AuthoredStep::Standard(_) | AuthoredStep::Parallel(_) => {}
            AuthoredStep::Loop(inner) => match &inner.body {
                BodySource::Named(id) => {
                    found.insert(id.clone(), Vec::new());
                }
                BodySource::Inline(body) => queue.extend(body),
            },
        }
    }
    found
}

const BINDING_OPEN: &str = "{{wr.bindings.";

fn bind(
    text: &str,
    slots: &BTreeMap<&str, (&str, BindingSource)>,
    used: &mut BTreeSet<String>,
    at: &DocPath,
    report: &mut DiagnosticReport,
) -> String {
    if !text.contains("{{wr.") {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{{wr.") {
        out.push_str(&rest[..start]);
        let token = &rest[start..];
        let end = token.find("}}").map_or(token.len(), |end| end + 2);
        let (token, after) = token.split_at(end);
        let slot = token.strip_prefix(BINDING_OPEN).and_then(|slot| slot.strip_suffix("}}"));
        match slot.map(|slot| (slot, slots.get(slot))) {
            Some((slot, Some((value, _)))) => {
                used.insert(slot.to_owned());
                if report.may_add(value.len(), at) {
                    out.push_str(value);
                }
            }
            Some((slot, None)) => {
                let known: Vec<&str> = slots.keys().copied().collect();
                report.push(
                    DraftDiagnostic::on(Code::UnknownBinding, at)
                        .message(format!("there is no extension point `{}`", shown(slot)))
                        .why("the prompt would be incomplete")
                        .fix(if known.is_empty() {
                            format!("declare it: \"extensionPoints\": [{{ \"slotId\": \"{}\", ... }}]", shown(slot))
                        } else {
                            suggestion(slot, &known)
                        }),
                );
            }
            None => report.push(
                DraftDiagnostic::on(Code::UnresolvedToken, at)
                    .message(format!("unknown token `{}`", shown(token)))
                    .why("`{{wr.` is reserved for what the compiler fills in")
                    .fix("only {{wr.bindings.slot}} exists; snippets are written as { \"kind\": \"ref\" } parts"),
            ),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
