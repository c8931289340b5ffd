//! Templates: a call is replaced in place by the template's steps with its arguments filled in.
//!
//! What the caller requires is required of the steps that replace it: its condition of all of them, its
//! output, checks and confirmation of the last one, where they replace what the template's step sets.

use std::collections::BTreeMap;

use workrail_model::capability::Capability;
use workrail_model::compiled::{Expr, Requiredness, StepKind, StepProvenance};

use super::diagnostic::Code;
use super::nearest::{likely_meant, suggestion};
use super::path::DocPath;
use super::report::{DiagnosticReport, DraftDiagnostic, shown};
use super::source::{Condition, OutputSource, StandardStep, TemplateCall};
use super::{Library, routine};
use crate::builtins::{self, PROBE_TEMPLATE, Template};

/// A step that is about to be compiled.
#[derive(Clone, Debug)]
pub(super) struct StepDraft {
    pub(super) step: StandardStep,
    pub(super) provenance: StepProvenance,
    pub(super) kind: StepKind,
}

impl StepDraft {
    pub(super) fn authored(step: StandardStep) -> Self {
        Self { step, provenance: StepProvenance::Authored, kind: StepKind::Standard }
    }
}

/// The steps that replace a call; empty if the call is wrong, which is then reported.
pub(super) fn expand(
    caller: &StandardStep,
    call: &TemplateCall,
    library: &Library,
    report: &mut DiagnosticReport,
) -> Vec<StepDraft> {
    let own = builtins::template(&call.template_id).or_else(|| builtins::routine_template(&call.template_id));
    let mut drafts = match (own, library.routine(&call.template_id)) {
        (Some(template), _) => from_template(caller, call, template, report),
        (None, Some(text)) => routine::steps(caller, call, text, report),
        (None, None) => {
            unknown(call, library, report);
            return Vec::new();
        }
    };
    let several = drafts.len() > 1;
    let provenance = StepProvenance::TemplateInjected { origin_id: call.template_id.clone() };
    if !report.may_add(drafts.len().saturating_mul(inherited_bytes(caller)), &caller.at) {
        return Vec::new();
    }
    for draft in &mut drafts {
        draft.provenance = provenance.clone();
        draft.step.title = titled(caller, &draft.step.title, several);
        inherit(&mut draft.step, caller);
    }
    if let Some(last) = drafts.last_mut() {
        inherit_demands(&mut last.step, caller);
    }
    if let Some(first) = drafts.first_mut() {
        first.step.fragments.extend(caller.fragments.iter().cloned());
    }
    drafts
}

/// The caller's title; with several steps, also each step's own.
fn titled(caller: &StandardStep, inner: &str, several: bool) -> String {
    match (caller.title.as_str(), several) {
        ("", _) => inner.to_owned(),
        (own, false) => own.to_owned(),
        (own, true) => format!("{own}: {inner}"),
    }
}

fn unknown(call: &TemplateCall, library: &Library, report: &mut DiagnosticReport) {
    if report.is_broken(&call.at.key("templateId")) {
        return;
    }
    let templates = builtins::templates().iter().map(|template| template.id);
    let known: Vec<&str> = templates.chain(library.routine_ids()).collect();
    let is_own = !call.template_id.starts_with("wr.");
    let problem = DraftDiagnostic::on(Code::UnknownTemplate, &call.at.key("templateId"))
        .why("the step would have no prompt");
    let is_guessed = likely_meant(&call.template_id, &known).is_some();
    report.push(match is_own && !is_guessed {
        true => problem.message(format!("there is no routine `{}`", shown(&call.template_id))).fix(
            "put a workflow with this id into a folder `routines` next to the others, or use a built-in \
             template (`wr.templates.routine.plan-analysis`; docs/reference/builtins.md lists all)",
        ),
        false => problem
            .message(format!("there is no template `{}`", shown(&call.template_id)))
            .fix(suggestion(&call.template_id, &known)),
    });
}

fn from_template(
    caller: &StandardStep,
    call: &TemplateCall,
    template: &'static Template,
    report: &mut DiagnosticReport,
) -> Vec<StepDraft> {
    let mut args: BTreeMap<&str, &str> = BTreeMap::new();
    for arg in template.args {
        match (call.args.get(arg.name).map(|value| value.0.as_str()), arg.default) {
            (Some(given), _) => {
                args.insert(arg.name, given);
            }
            (None, Some(default)) => {
                args.insert(arg.name, default);
            }
            (None, None) => missing_arg(call, arg.name, report),
        }
    }
    unused_args(call, |name| template.args.iter().any(|arg| arg.name == name), report);
    let kind = probe_kind(caller, template, &args, report);
    let steps = template.steps.iter().map(|inner| {
        let step = StandardStep {
            at: caller.at.clone(),
            id: format!("{}.{}", caller.id, inner.id),
            title: fill(inner.title, &args, &caller.at, report),
            prompt: Some(fill(inner.prompt, &args, &caller.at, report)),
            ..StandardStep::default()
        };
        StepDraft { step, provenance: StepProvenance::Authored, kind: kind.clone() }
    });
    let mut drafts: Vec<StepDraft> = steps.collect();
    if let (Some(contract), Some(last)) = (template.contract, drafts.last_mut()) {
        let contract_ref = contract.to_owned();
        last.step.output_contract = Some(OutputSource { contract_ref, presence: Requiredness::Required });
    }
    drafts
}

fn probe_kind(
    caller: &StandardStep,
    template: &Template,
    args: &BTreeMap<&str, &str>,
    report: &mut DiagnosticReport,
) -> StepKind {
    if template.id != PROBE_TEMPLATE {
        return StepKind::Standard;
    }
    let Some(name) = args.get("capability").copied() else { return StepKind::Standard };
    let Some(capability) = Capability::parse(name) else {
        report.push(
            DraftDiagnostic::on(Code::Capability, &caller.at)
                .message(format!("unknown capability `{}`", shown(name)))
                .why("only known capabilities can be probed")
                .fix(suggestion(name, &Capability::ALL.map(Capability::as_str))),
        );
        return StepKind::Standard;
    };
    StepKind::CapabilityProbe { capability, template_id: template.id.to_owned() }
}

pub(super) fn missing_arg(call: &TemplateCall, name: &str, report: &mut DiagnosticReport) {
    if report.is_broken(&call.at.key("args").key(name)) {
        return;
    }
    report.push(
        DraftDiagnostic::on(Code::TemplateArg, &call.at)
            .message(format!("the template needs the argument `{name}`"))
            .why("its prompt would be incomplete")
            .fix(format!("add \"args\": {{ \"{name}\": \"...\" }}")),
    );
}

pub(super) fn unused_args(call: &TemplateCall, used: impl Fn(&str) -> bool, report: &mut DiagnosticReport) {
    for name in call.args.keys().filter(|name| !used(name)) {
        report.push(
            DraftDiagnostic::on(Code::TemplateArgUnused, &call.at.key("args").key(name))
                .message(format!("the template does not use the argument `{}`", shown(name)))
                .why("its value has no effect")
                .fix("remove it, or check its spelling"),
        );
    }
}

/// The approximate size of a part of a workflow: every authored string is in its debug form, which is counted but
/// not kept.
fn debug_bytes(part: &dyn std::fmt::Debug) -> usize {
    struct ByteCounter(usize);
    impl std::fmt::Write for ByteCounter {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    // Counting cannot fail.
    let _ = std::fmt::write(&mut count, format_args!("{part:?}"));
    count.0
}

/// The size of what every replacing step takes over from the call.
fn inherited_bytes(caller: &StandardStep) -> usize {
    let guidance: usize = caller.guidance.iter().map(String::len).sum();
    let references: usize = caller.function_references.iter().map(String::len).sum();
    let functions: usize = caller.functions.iter().map(|function| function.definition.len() + 200).sum();
    let role = caller.agent_role.as_ref().map_or(0, String::len);
    let condition = caller.run_condition.as_ref().map_or(0, |run_condition| debug_bytes(run_condition));
    let edits = caller.edits.as_ref().map_or(0, |edits| edits.allow.iter().map(String::len).sum());
    guidance + references + functions + role + condition + edits
}

/// What the caller passes on to every step that replaces it.
fn inherit(step: &mut StandardStep, caller: &StandardStep) {
    step.run_condition = match (step.run_condition.take(), &caller.run_condition) {
        (Some(Condition::Expr(own)), Some(Condition::Expr(outer))) => {
            Some(Condition::Expr(Expr::And { all: vec![outer.clone(), own] }))
        }
        (own, outer) => outer.clone().or(own),
    };
    if caller.agent_role.is_some() {
        step.agent_role.clone_from(&caller.agent_role);
    }
    step.model_tier = caller.model_tier.or(step.model_tier);
    step.guidance.extend(caller.guidance.iter().cloned());
    step.functions.extend(caller.functions.iter().cloned());
    step.function_references.extend(caller.function_references.iter().cloned());
    step.notes_optional |= caller.notes_optional;
    step.ask_for_files |= caller.ask_for_files;
    replace(&mut step.edits, &caller.edits);
}

/// The caller's value replaces the step's, unless it is the default.
fn replace<T: Clone + Default + PartialEq>(own: &mut T, caller: &T) {
    if *caller != T::default() {
        own.clone_from(caller);
    }
}

/// The last step must deliver what the caller requires.
fn inherit_demands(step: &mut StandardStep, caller: &StandardStep) {
    if step.output_contract.is_none() {
        step.output_contract.clone_from(&caller.output_contract);
    }
    replace(&mut step.confirmation, &caller.confirmation);
    replace(&mut step.criteria, &caller.criteria);
    replace(&mut step.assessment_refs, &caller.assessment_refs);
    replace(&mut step.consequences, &caller.consequences);
    replace(&mut step.output.hints, &caller.output.hints);
    replace(&mut step.user_dependencies, &caller.user_dependencies);
    replace(&mut step.sets, &caller.sets);
    replace(&mut step.checks, &caller.checks);
    replace(&mut step.evidence, &caller.evidence);
    replace(&mut step.function_calls, &caller.function_calls);
    replace(&mut step.audit, &caller.audit);
    replace(&mut step.verification, &caller.verification);
}

#[cfg(test)]
pub(crate) fn argument_names(text: &str) -> Vec<&str> {
    holes(text).map(|(_, name)| name).collect()
}

/// The `{names}` in a text, each with its position: one pair of braces around an identifier, with no adjacent brace.
pub(super) fn holes(text: &str) -> impl Iterator<Item = (usize, &str)> {
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

/// Fills in the arguments; names without one are left as they are.
pub(super) fn fill(
    text: &str,
    args: &BTreeMap<&str, &str>,
    at: &DocPath,
    report: &mut DiagnosticReport,
) -> String {
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
    fn only_single_braces_around_a_name_are_placeholders() {
        assert_eq!(argument_names("{a} {{b}} { c: d } {e {f} {{g} {h}} {i-j}"), ["a", "f", "i-j"]);
    }

    #[test]
    fn values_are_not_expanded_again() {
        let args = BTreeMap::from([("a", "{b}"), ("b", "x")]);
        let mut report = DiagnosticReport::default();
        assert_eq!(fill("{a}-{b}-{c}", &args, &DocPath::root(), &mut report), "{b}-x-{c}");
    }
}
