//! Templates: a call is replaced, in place, by the template's steps with its arguments filled in.
//!
//! What the caller demands is demanded of the steps that replace it: its condition of all of them, its
//! output, checks and confirmation of the last one. Nothing authored is dropped.

use std::collections::BTreeMap;

use workrail_model::capability::Capability;
use workrail_model::compiled::{Expr, Requiredness, StepKind, StepProvenance};
use workrail_model::source::{
    Condition, ConditionBody, DocPath, NamedCondition, OutputSource, PromptPart, PromptText, StandardStep,
    Step, TemplateArg, TemplateCall, Workflow,
};

use super::diagnostic::{Code, Diagnostics};
use super::nearest::suggestion;
use super::report::{Problem, Report};
use super::shape::shown;
use crate::builtins::{self, PROBE_TEMPLATE, Template};

/// A workflow that others may inject as a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routine {
    pub template_id: String,
    pub workflow: Workflow,
}

impl Routine {
    /// Reads a workflow file as a routine; its template id follows from the workflow's id.
    pub fn parse(bytes: &[u8], file: &str) -> Result<Self, Diagnostics> {
        let workflow = super::read_source(bytes, file)?;
        let id = workflow.id.strip_prefix("wr.").unwrap_or(&workflow.id);
        let name = id.strip_prefix("routine-").unwrap_or(id);
        Ok(Self { template_id: format!("wr.templates.routine.{name}"), workflow })
    }
}

/// A step on its way to being compiled.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) step: StandardStep,
    pub(super) provenance: StepProvenance,
    pub(super) kind: StepKind,
}

impl Draft {
    pub(super) fn authored(step: StandardStep) -> Self {
        Self { step, provenance: StepProvenance::Authored, kind: StepKind::Standard }
    }
}

/// The steps that replace a call; empty when the call is wrong, which the report then says.
pub(super) fn expand(
    caller: &StandardStep,
    call: &TemplateCall,
    routines: &[Routine],
    named: &[NamedCondition],
    report: &mut Report,
) -> Vec<Draft> {
    let routine = routines.iter().find(|routine| routine.template_id == call.template_id);
    let mut drafts = match (routine, builtins::template(&call.template_id)) {
        (Some(routine), _) => from_routine(caller, call, routine, report),
        (None, Some(template)) => from_template(caller, call, template, report),
        (None, None) => {
            let mut known: Vec<&str> = builtins::templates().iter().map(|template| template.id).collect();
            known.extend(routines.iter().map(|routine| routine.template_id.as_str()));
            report.push(
                Problem::on(Code::UnknownTemplate, &caller.common.at)
                    .message(format!("there is no template `{}`", shown(&call.template_id)))
                    .why("the step would have nothing to say")
                    .fix(suggestion(&call.template_id, &known)),
            );
            Vec::new()
        }
    };
    let provenance = StepProvenance::TemplateInjected { origin_id: call.template_id.clone() };
    if !report.may_add(drafts.len().saturating_mul(inherited_bytes(caller)), &caller.common.at) {
        return Vec::new();
    }
    for draft in &mut drafts {
        draft.provenance = provenance.clone();
        inherit(&mut draft.step, caller, named);
    }
    if let Some(last) = drafts.last_mut() {
        inherit_demands(&mut last.step, caller);
    }
    if let Some(first) = drafts.first_mut() {
        first.step.fragments.extend(caller.fragments.iter().cloned());
    }
    drafts
}

fn from_template(
    caller: &StandardStep,
    call: &TemplateCall,
    template: &'static Template,
    report: &mut Report,
) -> Vec<Draft> {
    let mut args: BTreeMap<&str, &str> = BTreeMap::new();
    for arg in template.args {
        match (call.args.get(arg.name).map(TemplateArg::as_str), arg.default) {
            (Some(given), _) => {
                args.insert(arg.name, given);
            }
            (None, Some(default)) => {
                args.insert(arg.name, default);
            }
            (None, None) => missing_arg(caller, arg.name, report),
        }
    }
    unused_args(caller, call, |name| template.args.iter().any(|arg| arg.name == name), report);
    let kind = probe_kind(caller, template, &args, report);
    let steps = template.steps.iter().map(|inner| {
        let mut step = StandardStep::default();
        step.common.at = caller.common.at.clone();
        step.common.id = format!("{}.{}", caller.common.id, inner.id);
        step.common.title = fill(inner.title, &args, &caller.common.at, report);
        step.prompt = Some(fill(inner.prompt, &args, &caller.common.at, report));
        Draft { step, provenance: StepProvenance::Authored, kind: kind.clone() }
    });
    let mut drafts: Vec<Draft> = steps.collect();
    if let (Some(contract), Some(last)) = (template.contract, drafts.last_mut()) {
        let contract_ref = contract.to_owned();
        last.step.output = Some(OutputSource { contract_ref, presence: Requiredness::Required });
    }
    drafts
}

fn probe_kind(
    caller: &StandardStep,
    template: &Template,
    args: &BTreeMap<&str, &str>,
    report: &mut Report,
) -> StepKind {
    if template.id != PROBE_TEMPLATE {
        return StepKind::Standard;
    }
    let capability = match args.get("capability").copied() {
        Some("delegation") => Capability::Delegation,
        Some("web_browsing") => Capability::WebBrowsing,
        Some(other) => {
            report.push(
                Problem::on(Code::Capability, &caller.common.at)
                    .message(format!("`{}` is no capability", shown(other)))
                    .why("only known capabilities can be probed")
                    .fix(suggestion(other, &builtins::CAPABILITY_NAMES)),
            );
            return StepKind::Standard;
        }
        None => return StepKind::Standard,
    };
    StepKind::CapabilityProbe { capability, template_id: template.id.to_owned() }
}

fn from_routine(
    caller: &StandardStep,
    call: &TemplateCall,
    routine: &Routine,
    report: &mut Report,
) -> Vec<Draft> {
    let mut used = std::collections::BTreeSet::new();
    let mut drafts = Vec::new();
    let shared: usize = routine.workflow.meta_guidance.iter().map(String::len).sum();
    for inner in &routine.workflow.steps {
        let step = match inner {
            Step::Standard(step) if step.template_call.is_none() => step,
            Step::Standard(_) | Step::Loop(_) | Step::Parallel(_) => {
                report.push(
                    Problem::on(Code::TemplateNesting, &caller.common.at)
                        .message(format!("the template `{}` cannot be injected", call.template_id))
                        .why("templates are flat lists of plain steps: a template that calls templates could call itself")
                        .fix(format!("make `{}` of the routine a plain step", inner.common().id)),
                );
                return Vec::new();
            }
        };
        if !report.may_add(debug_bytes(step).saturating_add(shared), &caller.common.at) {
            return Vec::new();
        }
        let mut step = (**step).clone();
        for text in texts_mut(&mut step) {
            used.extend(argument_names(text).into_iter().map(str::to_owned));
        }
        step.common.at = caller.common.at.clone();
        step.common.id = format!("{}.{}", caller.common.id, step.common.id);
        step.guidance.extend(routine.workflow.meta_guidance.iter().cloned());
        drafts.push(Draft::authored(step));
    }
    let args: BTreeMap<&str, &str> =
        call.args.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for name in used.iter().filter(|name| !args.contains_key(name.as_str())) {
        missing_arg(caller, name, report);
    }
    unused_args(caller, call, |name| used.contains(name), report);
    for draft in &mut drafts {
        for text in texts_mut(&mut draft.step) {
            *text = fill(text, &args, &caller.common.at, report);
        }
    }
    drafts
}

fn missing_arg(caller: &StandardStep, name: &str, report: &mut Report) {
    report.push(
        Problem::on(Code::TemplateArg, &caller.common.at)
            .message(format!("the template needs the argument `{name}`"))
            .why("its prompt would be left with a hole")
            .fix(format!("add \"args\": {{ \"{name}\": \"...\" }}")),
    );
}

fn unused_args(caller: &StandardStep, call: &TemplateCall, used: impl Fn(&str) -> bool, report: &mut Report) {
    for name in call.args.keys().filter(|name| !used(name)) {
        report.push(
            Problem::on(Code::TemplateArgUnused, &caller.common.at)
                .message(format!("the template does not use the argument `{}`", shown(name)))
                .why("its value goes nowhere")
                .fix("remove it, or check its spelling"),
        );
    }
}

/// About how large a part of a workflow is: every authored string is in its debug form, which is counted and
/// not kept.
fn debug_bytes(part: &dyn std::fmt::Debug) -> usize {
    struct Count(usize);
    impl std::fmt::Write for Count {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail.
    let _ = std::fmt::write(&mut count, format_args!("{part:?}"));
    count.0
}

/// What every step that replaces a call takes over from it.
fn inherited_bytes(caller: &StandardStep) -> usize {
    let guidance: usize = caller.guidance.iter().map(String::len).sum();
    let references: usize = caller.function_references.iter().map(String::len).sum();
    let functions: usize = caller.common.functions.iter().map(|own| own.definition.len() + 200).sum();
    let role = caller.agent_role.as_ref().map_or(0, String::len);
    let condition = caller.common.run_condition.as_ref().map_or(0, |own| debug_bytes(own));
    guidance + references + functions + role + condition
}

/// Every text of a routine's step in which arguments are filled in.
fn texts_mut(step: &mut StandardStep) -> Vec<&mut String> {
    let mut texts = vec![&mut step.common.title];
    texts.extend(&mut step.prompt);
    if let Some(blocks) = &mut step.prompt_blocks {
        let values = blocks.goal.iter_mut().chain(&mut blocks.constraints);
        for value in values.chain(&mut blocks.procedure).chain(&mut blocks.verify) {
            match value {
                PromptText::Plain(text) => texts.push(text),
                PromptText::Parts(parts) => {
                    for part in parts {
                        match part {
                            PromptPart::Text(text) => texts.push(text),
                            PromptPart::Ref(_) => {}
                        }
                    }
                }
            }
        }
        texts.extend(blocks.output_required.values_mut());
    }
    texts
}

/// What the caller gives to every step that replaces it.
fn inherit(step: &mut StandardStep, caller: &StandardStep, named: &[NamedCondition]) {
    step.common.run_condition = match (&caller.common.run_condition, step.common.run_condition.take()) {
        (None, own) => own,
        (Some(outer), None) => Some(outer.clone()),
        // Both must hold: a step must not run because of its own condition where its caller would not.
        (Some(outer), Some(own)) => Some(Condition::Expr(Expr::And {
            all: vec![written_out(outer, named), written_out(&own, named)],
        })),
    };
    if step.agent_role.is_none() {
        step.agent_role.clone_from(&caller.agent_role);
    }
    if step.model_tier.is_none() {
        step.model_tier = caller.model_tier;
    }
    step.guidance.extend(caller.guidance.iter().cloned());
    step.common.functions.extend(caller.common.functions.iter().cloned());
    step.function_references.extend(caller.function_references.iter().cloned());
    step.common.notes_optional |= caller.common.notes_optional;
}

/// What the caller asks for is owed by the last step.
fn inherit_demands(step: &mut StandardStep, caller: &StandardStep) {
    if step.common.confirmation.is_none() {
        step.common.confirmation.clone_from(&caller.common.confirmation);
    }
    if step.output.is_none() {
        step.output.clone_from(&caller.output);
    }
    if step.criteria.is_none() {
        step.criteria.clone_from(&caller.criteria);
    }
    if step.assessment_refs.is_empty() {
        step.assessment_refs.clone_from(&caller.assessment_refs);
        step.consequences.clone_from(&caller.consequences);
    }
    step.hints.extend(caller.hints.iter().cloned());
    step.user_dependencies.extend(caller.user_dependencies.iter().cloned());
    step.function_calls.extend(caller.function_calls.iter().cloned());
    step.audit.clone_from(&caller.audit);
    step.verification.clone_from(&caller.verification);
}

fn written_out(condition: &Condition, named: &[NamedCondition]) -> Expr {
    match condition {
        Condition::Expr(expr) => expr.clone(),
        Condition::Named(id) => match named.iter().find(|own| own.id == *id).map(|own| &own.test) {
            Some(ConditionBody::Context(expr)) => expr.clone(),
            Some(ConditionBody::LoopControl { .. }) | None => Expr::Malformed,
        },
    }
}

/// The `{names}` of a text: one pair of braces around an identifier, no brace beside it.
pub fn argument_names(text: &str) -> Vec<&str> {
    holes(text).map(|(_, name)| name).collect()
}

fn holes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('{').filter_map(move |(start, _)| {
        let rest = &text[start + 1..];
        let end = rest.find(['{', '}'])?;
        let name = &rest[..end];
        let closed = rest[end..].starts_with('}') && !rest[end + 1..].starts_with('}');
        let alone = !text[..start].ends_with('{');
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        (closed && alone && is_name).then_some((start, name))
    })
}

/// Fills the arguments in; names that have none stay as they are.
fn fill(text: &str, args: &BTreeMap<&str, &str>, at: &DocPath, report: &mut Report) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (start, name) in holes(text) {
        if let Some(value) = args.get(name) {
            out.push_str(&text[from..start]);
            if report.may_add(value.len(), at) {
                out.push_str(value);
            }
            from = start + name.len() + 2;
        }
    }
    out.push_str(&text[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_single_braces_around_a_name_are_holes() {
        assert_eq!(argument_names("{a} {{b}} { c: d } {e {f} {{g} {h}} {i-j}"), ["a", "f", "i-j"]);
    }

    #[test]
    fn values_are_not_expanded_again() {
        let args = BTreeMap::from([("a", "{b}"), ("b", "x")]);
        let mut report = Report::default();
        assert_eq!(fill("{a}-{b}-{c}", &args, &DocPath::root(), &mut report), "{b}-x-{c}");
    }
}
