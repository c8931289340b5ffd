//! Routines from files: a workflow of plain steps whose `{arguments}` a `templateCall` fills in.

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::compiled::{StepKind, StepProvenance};

use super::diagnostic::Code;
use super::document;
use super::expand::{StepDraft, fill, holes, missing_arg, unused_args};
use super::report::{DiagnosticReport, DraftDiagnostic, shown};
use super::source::{
    self, AuthoredStep, Condition, PromptPart, PromptText, StandardStep, TemplateCall, Workflow,
};

/// The steps of a routine with the call's arguments filled in; empty if it cannot be used, which is then reported.
pub(super) fn steps(
    caller: &StandardStep,
    call: &TemplateCall,
    text: &[u8],
    report: &mut DiagnosticReport,
) -> Vec<StepDraft> {
    let mut scratch = DiagnosticReport::default();
    let Some(root) = document::parse(text, &mut scratch) else {
        refuse(call, "its file is not JSON", "run `workrail workflow validate` on its file", report);
        return Vec::new();
    };
    let routine = source::workflow(&root, &mut scratch);
    if scratch.has_errors() {
        refuse(call, "its file has errors", "run `workrail workflow validate` on its file", report);
        return Vec::new();
    }
    let Some(inner) = plain_steps(&routine, caller, call, report) else { return Vec::new() };
    if !report.may_add(text.len(), &call.at) {
        return Vec::new();
    }
    let used: BTreeSet<String> = inner.iter().flat_map(|step| names_in(step)).collect();
    let args: BTreeMap<&str, &str> =
        call.args.iter().map(|(name, value)| (name.as_str(), value.0.as_str())).collect();
    for name in used.iter().filter(|name| !args.contains_key(name.as_str())) {
        missing_arg(call, name, report);
    }
    unused_args(call, |name| used.contains(name), report);
    inner.into_iter().map(|step| draft(caller, &routine, step, &args, report)).collect()
}

/// The routine's steps, if each can be used in another workflow.
fn plain_steps<'r>(
    routine: &'r Workflow,
    caller: &StandardStep,
    call: &TemplateCall,
    report: &mut DiagnosticReport,
) -> Option<Vec<&'r StandardStep>> {
    let mut plain = Vec::new();
    let is_named = |condition: &Option<Condition>| matches!(condition, Some(Condition::Named(_)));
    for step in &routine.steps {
        let why = match step {
            AuthoredStep::Loop(_) => "it has a loop",
            AuthoredStep::Parallel(_) => "it delegates",
            AuthoredStep::Standard(step) if step.template_call.is_some() => "it calls a template itself",
            AuthoredStep::Standard(step) if !step.assessment_refs.is_empty() => {
                "it asks for assessments, which belong to one workflow"
            }
            AuthoredStep::Standard(step) if is_named(&step.run_condition) => "it uses named conditions",
            // Both must hold, and a name cannot be combined with the condition of the step.
            AuthoredStep::Standard(step)
                if step.run_condition.is_some() && is_named(&caller.run_condition) =>
            {
                let why = format!(
                    "it has a condition of its own (step `{}`), and the call names one",
                    shown(&step.id)
                );
                refuse(call, &why, "write the condition of the call inline", report);
                return None;
            }
            AuthoredStep::Standard(step) => {
                plain.push(&**step);
                continue;
            }
        };
        let fix = "delegate to it from a parallel step instead, or make it a list of plain steps";
        refuse(call, &format!("{why} (step `{}`)", shown(step.id())), fix, report);
        return None;
    }
    Some(plain)
}

fn refuse(call: &TemplateCall, why: &str, fix: &str, report: &mut DiagnosticReport) {
    report.push(
        DraftDiagnostic::on(Code::UnknownTemplate, &call.at.key("templateId"))
            .message(format!("the routine `{}` cannot be injected: {why}", shown(&call.template_id)))
            .why("the steps of a routine take the place of the calling step, one after the other")
            .fix(fix),
    );
}

fn names_in(step: &StandardStep) -> Vec<String> {
    let mut texts: Vec<&str> = vec![&step.title];
    texts.extend(step.prompt.as_deref());
    if let Some(blocks) = &step.prompt_blocks {
        let parts =
            blocks.goal.iter().chain(&blocks.constraints).chain(&blocks.procedure).chain(&blocks.verify);
        for part in parts {
            match part {
                PromptText::Plain(text) => texts.push(text),
                PromptText::Parts(parts) => texts.extend(parts.iter().filter_map(|part| match part {
                    PromptPart::Text(text) => Some(text.as_str()),
                    PromptPart::Ref(_) => None,
                })),
            }
        }
        texts.extend(blocks.output_required.iter().map(|(_, text)| text.as_str()));
    }
    texts.iter().flat_map(|text| holes(text)).map(|(_, name)| name.to_owned()).collect()
}

fn draft(
    caller: &StandardStep,
    routine: &Workflow,
    inner: &StandardStep,
    args: &BTreeMap<&str, &str>,
    report: &mut DiagnosticReport,
) -> StepDraft {
    let at = &caller.at;
    let mut step = inner.clone();
    step.at = at.clone();
    step.id = format!("{}.{}", caller.id, inner.id);
    step.title = fill(&inner.title, args, at, report);
    step.prompt = inner.prompt.as_ref().map(|text| fill(text, args, at, report));
    if let Some(blocks) = &mut step.prompt_blocks {
        let lists = [&mut blocks.constraints, &mut blocks.procedure, &mut blocks.verify];
        for text in blocks.goal.iter_mut().chain(lists.into_iter().flatten()) {
            match text {
                PromptText::Plain(text) => *text = fill(text, args, at, report),
                PromptText::Parts(parts) => {
                    for part in parts {
                        match part {
                            PromptPart::Text(text) => *text = fill(text, args, at, report),
                            PromptPart::Ref(_) => {}
                        }
                    }
                }
            }
        }
        for (_, text) in &mut blocks.output_required {
            *text = fill(text, args, at, report);
        }
    }
    step.guidance.extend(routine.meta_guidance.iter().cloned());
    step.functions.extend(routine.functions.iter().cloned());
    step.agent_role = step.agent_role.or_else(|| routine.agent_role.clone());
    StepDraft { step, provenance: StepProvenance::Authored, kind: StepKind::Standard }
}
